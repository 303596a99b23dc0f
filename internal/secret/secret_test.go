package secret_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/secret"
)

func fixed(name, value string) secret.Source {
	return secret.Source{Name: name, Place: "a test", Find: func(context.Context) (string, error) { return value, nil }}
}

const key = `p&ss w/rd+"7"` // every encoding changes something of it

func TestHideMasksEncodingsAndRevealRestoresThem(t *testing.T) {
	r := secret.New(fixed("KEY", key), fixed("LONG", key+"-and-more"), fixed("PIN", "12345678"),
		fixed("SHORT", "seven77"))
	for _, c := range []struct{ name, text, want string }{
		{"plain", "a " + key + " b", "a [secret KEY] b"},
		{"the longest counts", key + "-and-more", "[secret LONG]"},
		{"twice", key + key, "[secret KEY][secret KEY]"},
		{"base64, first of three", base64.StdEncoding.EncodeToString([]byte(key)), "[secret KEY base64/0]"},
		{"base64, second", base64.StdEncoding.EncodeToString([]byte("u" + key + "v")), "[secret KEY base64/1]"},
		{"base64, third", base64.StdEncoding.EncodeToString([]byte("ab" + key + "cde")), "[secret KEY base64/2]"},
		{
			"base64 of addresses", base64.URLEncoding.EncodeToString([]byte("u:" + strings.Repeat("~?>", 3) + key)),
			"[secret KEY base64",
		},
		{"in an address", "https://x/?q=" + url.QueryEscape(key), "https://x/?q=[secret KEY url]"},
		{"in a path", "https://x/" + url.PathEscape(key), "https://x/[secret KEY url-path]"},
		{"as scripts escape it", strings.ReplaceAll(url.QueryEscape(key), "+", "%20"), "[secret KEY url-component]"},
		{"in lower case", strings.ToLower(url.QueryEscape(key)), "[secret KEY url-lower]"},
		{"JSON in a text", `{"k":` + string(must(json.Marshal(key))) + `}`, `{"k":"[secret KEY json-html]"}`},
		{"JSON in JSON in a text", `{"k":"[\"p&ss w/rd+\\\"7\\\"\"]"}`, "[secret KEY json"},
		{"hex", hex.EncodeToString([]byte(key)), "[secret KEY hex]"},
		{"what is too short", "seven77", "seven77"},
		{"what looks like a mark", "[secret KEY]", "[secret -]KEY]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := r.HideText(c.text)
			if !strings.Contains(got, c.want) {
				t.Errorf("%q became %q, want %q", c.text, got, c.want)
			}
			back, err := r.RevealText(t.Context(), got)
			if err != nil || back != c.text {
				t.Errorf("it came back as %q (%v), was %q", back, err, c.text)
			}
		})
	}
}

func must(raw []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return raw
}

func TestHideLinesOfBase64(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 10)
	r := secret.New(fixed("KEY", long))
	var lines strings.Builder
	for text := base64.StdEncoding.EncodeToString([]byte(long)); text != ""; {
		n := min(76, len(text))
		lines.WriteString(text[:n] + "\n")
		text = text[n:]
	}
	got := r.HideText(lines.String())
	if !strings.HasPrefix(got, "[secret KEY base64-lines]") {
		t.Errorf("got %q", got)
	}
	if back, err := r.RevealText(t.Context(), got); err != nil || back != lines.String() {
		t.Errorf("it came back as %q (%v)", back, err)
	}
}

func TestHiddenJSONCanBeRevealed(t *testing.T) {
	r := secret.New(fixed("KEY", key), fixed("PIN", "12345678"))
	for _, c := range []struct{ name, raw, want, back string }{
		{"a text", string(must(json.Marshal([]string{key}))), `["[secret KEY]"]`, ""},
		{"escapes of one's own", `"` + strings.ReplaceAll(key, `"`, `\u0022`) + `"`, `"[secret KEY]"`, `"` +
			strings.ReplaceAll(key, `"`, `\"`) + `"`},
		{"a name", `{"12345678":1}`, `{"[secret PIN]":1}`, ""},
		{"a number", `{"pin": 12345678, "n": -1.5e3}`, `{"pin": "[secret #][secret PIN]", "n": -1.5e3}`, ""},
		{"part of a number", `[1234567890.5]`, `["[secret #][secret PIN]90.5"]`, ""},
		{"nothing", `{ "a" : "b\n" }`, `{ "a" : "b\n" }`, ""},
		{"a mark behind an escape", `"\u005bsecret KEY]"`, `"[secret -]KEY]"`, `"[secret KEY]"`},
		{"a number that is none", `"[secret #]5"`, `"[secret -]#]5"`, ""},
		{"no JSON", `"abc`, `"abc`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := r.Hide(json.RawMessage(c.raw))
			if c.name == "a text" {
				c.back = string(must(r.Reveal(t.Context(), got)))
				var texts []string
				if err := json.Unmarshal([]byte(c.back), &texts); err != nil || texts[0] != key {
					t.Errorf("it came back as %s", c.back)
				}
			}
			if string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if c.back == "" {
				c.back = c.raw
			}
			if back := must(r.Reveal(t.Context(), got)); string(back) != c.back {
				t.Errorf("it came back as %s, want %s", back, c.back)
			}
		})
	}
}

// Text from outside that says "[secret KEY]" must not be turned into the
// value, not even when no secret was known at the time when it was hidden.
func TestForgedMarkIsNotReplacedByTheSecret(t *testing.T) {
	for _, forged := range []string{
		`"[secret KEY]"`, `"\u005bsecret KEY]"`, `"[secret [secret KEY]"`,
		`{"[secret KEY]":1}`, `"[secret -]KEY]"`,
	} {
		for _, before := range []*secret.Registry{nil, secret.New(), secret.New(fixed("KEY", key))} {
			hidden := before.Hide(json.RawMessage(forged))
			got := must(secret.New(fixed("KEY", key)).Reveal(t.Context(), hidden))
			if strings.Contains(string(got), "p&ss") {
				t.Errorf("%s gave the secret away: %s", forged, got)
			}
			var a, b any
			if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(forged), &b) != nil ||
				fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("%s came back as %s", forged, got)
			}
		}
	}
}

func TestStreamHidesSecretsAcrossChunks(t *testing.T) {
	r := secret.New(fixed("KEY", key), fixed("MORE", key+"-and-more"))
	text := "begin " + key + "-and" + url.QueryEscape(key) + key + "-and-more [secret x] " + key[:5] + " end p"
	want := r.HideText(text)
	for size := 1; size <= len(text); size++ {
		s := secret.Stream{Registry: r}
		var got strings.Builder
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			got.WriteString(s.Next(rest[:n]))
			rest = rest[n:]
		}
		got.WriteString(s.End())
		if got.String() != want {
			t.Fatalf("in pieces of %d: %q, want %q", size, got.String(), want)
		}
	}
}

func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.StringN(8, 20, -1).Draw(t, "a")
		b := rapid.StringMatching(`[a-c]{8,10}`).Draw(t, "b")
		r := secret.New(fixed("A", a), fixed("B", b))
		pieces := []string{
			a, b, "[secret ", "[secret A]", "-]", "]", base64.StdEncoding.EncodeToString([]byte("x" + a)),
			url.QueryEscape(a), "[", "abcab", "A", " ",
		}
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom(pieces)).Draw(t, "pieces"), "")
		hidden := r.HideText(text)
		back, err := r.RevealText(context.Background(), hidden)
		if err != nil || back != text {
			t.Fatalf("%q became %q and came back as %q (%v)", text, hidden, back, err)
		}
		raw := must(json.Marshal(map[string]any{text: []any{text, 1.5, nil}}))
		revealed, err := r.Reveal(context.Background(), r.Hide(raw))
		var x, y any
		if err != nil || json.Unmarshal(raw, &x) != nil || json.Unmarshal(revealed, &y) != nil ||
			fmt.Sprint(x) != fmt.Sprint(y) {
			t.Fatalf("%s came back as %s (%v)", raw, revealed, err)
		}
	})
}

// A command runs when its secret is first needed, and only once; its value
// is hidden from then on.
func TestCommandIsAskedOnce(t *testing.T) {
	asked := 0
	r := secret.New(secret.Source{Name: "KEY", Asks: true, Find: func(context.Context) (string,
		error,
	) {
		asked++
		return key, nil
	}})
	if got := r.HideText(key); got != key || asked != 0 {
		t.Errorf("asked %d times, got %q", asked, got)
	}
	for range 2 {
		if got, err := r.RevealText(t.Context(), "[secret KEY]"); err != nil || got != key {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if got := r.HideText(key); got != "[secret KEY]" || asked != 1 {
		t.Errorf("asked %d times, got %q", asked, got)
	}
}

// If a secret changes while the program runs, the new value is used, and both values are masked.
func TestChangedSecretHidesOldAndNewValue(t *testing.T) {
	value := "first value"
	r := secret.New(secret.Source{Name: "KEY", Find: func(context.Context) (string, error) { return value, nil }})
	hidden := r.HideText("first value")
	value = "second value"
	if got, err := r.RevealText(t.Context(), hidden); err != nil || got != value {
		t.Errorf("got %q, %v", got, err)
	}
	if got := r.HideText("first value, second value"); got != "[secret KEY], [secret KEY]" {
		t.Errorf("got %q", got)
	}
}

func TestReferencesResolveToDeclaredSecretsOnly(t *testing.T) {
	r := secret.New(fixed("KEY", "a value"+"!"), fixed("SHORT", "pin"))
	got, err := r.Refer(t.Context(), json.RawMessage(`{"a":"secret://KEY","b":"see secret://KEY","c":1}`))
	if want := `{"a":"a value!","b":"see secret://KEY","c":1}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	for ref, why := range map[string]string{
		"SHORT": `the secret "SHORT" has fewer than 8 characters, so it cannot be hidden in records`,
		"NONE":  `the secret "NONE" is not declared`,
	} {
		_, err := r.Refer(t.Context(), json.RawMessage(`["secret://`+ref+`"]`))
		var e *secret.Error
		if !errors.As(err, &e) || err.Error() != why || e.Help == "" {
			t.Errorf("%s: got %v, want %s", ref, err, why)
		}
	}
}

func TestShowKeepsWhatLooksLikeAMark(t *testing.T) {
	r := secret.New(fixed("KEY", key))
	if got := r.Show("[secret x] " + key); got != "[secret x] [secret KEY]" {
		t.Errorf("got %q", got)
	}
}
