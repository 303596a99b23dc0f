package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// Least is the fewest characters that a value must have to be hidden: shorter
// ones would be found by chance, everywhere.
const Least = 8

// form is a value as it may appear in a text.
type form struct {
	label string // "" is the value itself
	text  string
}

// forms are all the ways in which a value is looked for, each text once.
func forms(value string) []form {
	all := []form{
		{"", value},
		{"json", quoted(value, false)},
		{"json-html", quoted(value, true)},
		{"json/2", quoted(quoted(value, false), false)}, // JSON in a text of JSON
		{"url", url.QueryEscape(value)},
		{"url-path", url.PathEscape(value)},
		{"url-component", strings.ReplaceAll(url.QueryEscape(value), "+", "%20")},
		{"url-lower", lowerEscapes(url.QueryEscape(value))},
		{"url-component-lower", lowerEscapes(strings.ReplaceAll(url.QueryEscape(value), "+", "%20"))},
		{"url-all", escapeAll(value, "%%%02X")},
		{"url-all-lower", escapeAll(value, "%%%02x")},
		{"hex", hex.EncodeToString([]byte(value))},
		{"hex-upper", strings.ToUpper(hex.EncodeToString([]byte(value)))},
	}
	for before := range 3 {
		all = append(all,
			form{fmt.Sprintf("base64/%d", before), inside(base64.RawStdEncoding, value, before)},
			form{fmt.Sprintf("base64url/%d", before), inside(base64.RawURLEncoding, value, before)})
	}
	// As programs of the command line print it.
	all = append(all, form{"base64-lines", lines(inside(base64.RawStdEncoding, value, 0), 76)})
	seen := map[string]bool{}
	var out []form
	for _, f := range all {
		if len(f.text) >= Least && !seen[f.text] {
			seen[f.text] = true
			out = append(out, f)
		}
	}
	return out
}

// inside is what of an encoded text is the same whatever stands around the
// value, when so many bytes (modulo three) stand before it.
func inside(e *base64.Encoding, value string, before int) string {
	text := e.EncodeToString(append(make([]byte, before), value...))
	return text[(8*before+5)/6 : 8*(before+len(value))/6]
}

func lines(text string, width int) string {
	var b strings.Builder
	for len(text) > width {
		b.WriteString(text[:width] + "\n")
		text = text[width:]
	}
	return b.String() + text
}

// quoted is how a text stands between the quotes of JSON.
func quoted(text string, html bool) string {
	raw := quote(text, html)
	return string(raw[1 : len(raw)-1])
}

func quote(text string, html bool) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if err := e.Encode(text); err != nil {
		panic(err) // text always encodes
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// lowerEscapes writes the digits of percent escapes in lower case.
func lowerEscapes(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

func escapeAll(text, format string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, format, text[i])
	}
	return b.String()
}
