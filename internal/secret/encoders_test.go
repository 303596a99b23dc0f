package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/usertest"
)

// Programs that read a list of secrets as JSON and print, for each, an object
// from the names of encoders to what they make of it.
const (
	pythonEncoders = `
import sys, json, base64, binascii, html, urllib.parse as u, quopri
out = []
for s in json.load(sys.stdin):
    b = s.encode()
    out.append({
        "quote": u.quote(s), "quote all": u.quote(s, safe=""), "quote_plus": u.quote_plus(s),
	"urlencode": u.urlencode({"k": s}),
        "json": json.dumps(s), "json utf-8": json.dumps(s, ensure_ascii=False),
	"json in json": json.dumps(json.dumps({"k": s})),
        "json thrice": json.dumps(json.dumps(json.dumps(s))), "json in a query": u.quote(json.dumps(s)),
        "html": html.escape(s), "xmlcharref": html.escape(s).encode("ascii", "xmlcharrefreplace").decode(),
        "b64": base64.b64encode(b).decode(), "urlsafe": base64.urlsafe_b64encode(b).decode(),
        "b64 of more": base64.b64encode(b"user:" + b + b"@host").decode(),
        "encodebytes": base64.encodebytes(b"x" * 70 + b * 3).decode(),
        "b64 in a query": u.quote_plus(base64.b64encode(b).decode()),
        "wrapped b64 in json": json.dumps(base64.encodebytes(b * 4).decode()),
        "b64 of json": base64.b64encode(json.dumps({"k": s}).encode()).decode(),
        "hex": b.hex(), "HEX": b.hex().upper(), "hex:": b.hex(":"), "hexlify": binascii.hexlify(b, " ", 2).decode(),
    })
json.dump(out, sys.stdout)`

	nodeEncoders = `
const list = JSON.parse(require("fs").readFileSync(0, "utf8"))
const wrap = t => t.replace(/(.{64})/g, "$1\r\n")
console.log(JSON.stringify(list.map(s => ({
	encodeURIComponent: encodeURIComponent(s), encodeURI: encodeURI(s),
	URLSearchParams: new URLSearchParams({k: s}).toString(), URL: new URL("http://x/?k=" + encodeURIComponent(s)).href,
	json: JSON.stringify(s), "json in json": JSON.stringify(JSON.stringify({k: s})),
	"json in a query": encodeURIComponent(JSON.stringify({k: s})),
	"querystring": require("querystring").escape(s),
	base64: Buffer.from(s).toString("base64"), base64url: Buffer.from(s).toString("base64url"),
	"wrapped": wrap(Buffer.from("ab" + s + s + s).toString("base64")), hex: Buffer.from(s).toString("hex"),
	"twice": encodeURIComponent(encodeURIComponent(s)),
}))))`

	phpEncoders = `
$out = [];
foreach (json_decode(stream_get_contents(STDIN)) as $s) {
	$out[] = ["json_encode" => json_encode($s),
		"pretty" => json_encode([$s], JSON_PRETTY_PRINT | JSON_HEX_TAG | JSON_HEX_AMP | JSON_HEX_QUOT | JSON_HEX_APOS),
		"unescaped" => json_encode($s, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES),
		"json twice" => json_encode(json_encode(["k" => $s])),
		"rawurlencode" => rawurlencode($s), "urlencode" => urlencode($s), "http_build_query" => http_build_query(["k" => $s]),
		"RFC 3986" => http_build_query(["k" => $s], "", "&", PHP_QUERY_RFC3986),
		"htmlspecialchars" => htmlspecialchars($s, ENT_QUOTES), "htmlentities" => htmlentities($s, ENT_QUOTES),
		"XML" => htmlspecialchars($s, ENT_QUOTES | ENT_XML1),
		"base64" => base64_encode($s), "chunk_split" => chunk_split(base64_encode($s . $s . $s)), "bin2hex" => bin2hex($s),
		"base64 of json" => base64_encode(json_encode(["k" => $s])), "json of base64" => json_encode(base64_encode($s))];
}
echo json_encode($out);`
)

func goEncoders(s string) map[string]string {
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, must(json.Marshal(s)))
	return map[string]string{
		"plain": s, "QueryEscape": url.QueryEscape(s), "PathEscape": url.PathEscape(s),
		"Values": url.Values{"k": {s}}.Encode(),
		"json":   string(must(json.Marshal(s))), "HTMLEscape": escaped.String(), "%q": fmt.Sprintf("%q", s),
		"%+q":  fmt.Sprintf("%+q", s),
		"html": html.EscapeString(s), "slashes": strings.ReplaceAll(string(must(json.Marshal(s))), "/", `\/`),
		"base64":        base64.StdEncoding.EncodeToString([]byte(s)),
		"raw base64url": base64.RawURLEncoding.EncodeToString([]byte("~" + s)),
		"hex":           hex.EncodeToString([]byte(s)), "Dump": fmt.Sprintf("% x", s), "%X": fmt.Sprintf("%X", s),
		"basic auth":    "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+s)),
		"json of bytes": string(must(json.Marshal([]byte(s)))),
	}
}

// randomSecret returns a secret in which characters occur that encoders treat
// differently.
func randomSecret(r *rand.Rand) string {
	alphabet := []rune(`abcXYZ0189-_.~!*'();:@&=+$,/?#[]"<>%\{}|^ ` + "`" + `äßéλЖ語😀`)
	out := make([]rune, 8+r.IntN(40))
	for i := range out {
		out[i] = alphabet[r.IntN(len(alphabet))]
		if r.IntN(3) > 0 {
			out[i] = alphabet[r.IntN(10)]
		}
	}
	return string(out)
}

// TestNoEncoderLeaks hides random secrets in the output of encoders that others
// wrote. Nothing but the text around a secret may be left, however the text
// is cut into pieces, and revealing returns the text.
func TestNoEncoderLeaks(t *testing.T) {
	usertest.Run(t, "^TestNoEncoderLeaks$")
	r := rand.New(rand.NewPCG(1, 2))
	secrets := []string{"", "hunter2-äöü/€ \"x\"", `back\slash%41&amp;`, "plain-token_0123456789"}
	for range 100 {
		secrets = append(secrets, randomSecret(r))
	}
	encoded := map[string][]map[string]string{"Go": nil}
	for _, s := range secrets {
		encoded["Go"] = append(encoded["Go"], goEncoders(s))
	}
	for name, argv := range map[string][]string{
		"Python": {"python3", "-c", pythonEncoders}, "Node": {"node", "-e", nodeEncoders},
		"PHP": {"php", "-r", phpEncoders},
	} {
		if encoded[name] = encodedBy(t, name, argv, secrets); encoded[name] == nil {
			delete(encoded, name)
		}
	}
	marks := regexp.MustCompile(`\[secret KEY[^\]]*\]`)
	for language, list := range encoded {
		failed := map[string]bool{}
		for i, forms := range list[1:] {
			i++
			registry := secret.New(fixed("KEY", secrets[i]))
			for encoder, text := range forms {
				whole := "before " + text + " after"
				hidden := registry.HideText(whole)
				if !marks.MatchString(hidden) ||
					leaks(encoder, marks.ReplaceAllString(hidden, "\x00"), list[0][encoder]) {
					if !failed[encoder] {
						t.Errorf("%s, %s of %q leaks: %s", language, encoder, secrets[i], hidden)
					}
					failed[encoder] = true
					continue
				}
				if back, err := registry.RevealText(t.Context(), hidden); err != nil || back != whole &&
					!strings.Contains(encoder, "htmlentities") {
					t.Errorf("%s, %s of %q: %q became %q and came back as %q, %v",
						language, encoder, secrets[i], whole, hidden, back, err)
				}
				stream := secret.Stream{Registry: registry}
				var pieces strings.Builder
				for rest := whole; rest != ""; {
					n := min(1+r.IntN(12), len(rest))
					pieces.WriteString(stream.Next(rest[:n]))
					rest = rest[n:]
				}
				if pieces.WriteString(stream.End()); pieces.String() != hidden {
					t.Errorf("%s, %s of %q: in pieces %q, as a whole %q",
						language, encoder, secrets[i], pieces.String(), hidden)
				}
			}
		}
	}
}

// update rewrites the recorded output of PHP.
var update = flag.Bool("update", false, "record the output of the encoders of PHP")

// encodedBy returns what the encoders of a language make of secrets. Few machines have PHP, so its output is recorded
// in testdata; the secrets are the same in every run. Without another language, its encoders are not tested.
func encodedBy(t *testing.T, language string, argv, secrets []string) (list []map[string]string) {
	t.Helper()
	record := filepath.Join("testdata", "php.json")
	var raw []byte
	_, err := exec.LookPath(argv[0])
	switch {
	case err == nil:
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdin = bytes.NewReader(must(json.Marshal(secrets)))
		if raw, err = cmd.Output(); err == nil && language == "PHP" && *update {
			err = os.WriteFile(record, append(raw, '\n'), 0o644)
		}
	case language == "PHP":
		raw, err = os.ReadFile(record)
	case os.Getenv("CI") != "":
		t.Fatalf("%s is not installed: its encoders are not tested", argv[0])
	default:
		t.Logf("%s is not installed: its encoders are not tested", argv[0])
		return nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil || len(list) != len(secrets) {
		t.Fatalf("%s: %d of %d secrets, %v", language, len(list), len(secrets), err)
	}
	return list
}

// TestNoBorderBetweenChunksLeaks cuts the output of encoders in two at every byte, and into single bytes.
func TestNoBorderBetweenChunksLeaks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	secrets := []string{"hunter2-äöü/€ \"x\"", "plain-token_0123456789"}
	for range 3 {
		secrets = append(secrets, randomSecret(r))
	}
	for _, s := range secrets {
		registry := secret.New(fixed("KEY", s))
		for encoder, text := range goEncoders(s) {
			whole := "before " + text + " after"
			hidden := registry.HideText(whole)
			for at := range len(whole) {
				stream := secret.Stream{Registry: registry}
				if got := stream.Next(whole[:at]) + stream.Next(whole[at:]) + stream.End(); got != hidden {
					t.Fatalf("%s of %q, cut at %d: %q, as a whole %q", encoder, s, at, got, hidden)
				}
			}
			stream, bytewise := secret.Stream{Registry: registry}, ""
			for i := range len(whole) {
				bytewise += stream.Next(whole[i : i+1])
			}
			if bytewise += stream.End(); bytewise != hidden {
				t.Fatalf("%s of %q, byte by byte: %q, as a whole %q", encoder, s, bytewise, hidden)
			}
		}
	}
}

// leaks reports whether more is left than the encoder writes around an empty
// secret. The characters of base64 at the edges of a secret hold a few bits of it,
// and wrapping depends on the length.
func leaks(encoder, left, around string) bool {
	left = strings.TrimSuffix(strings.TrimPrefix(left, "before "), " after")
	most := len(around)
	if regexp.MustCompile(`(?i)64|urlsafe|wrap|encodebytes|chunk|auth|bytes`).MatchString(encoder) {
		most += 6 * (1 + strings.Count(left, "\x00"))
	}
	return len(strings.ReplaceAll(left, "\x00", "")) > most
}
