package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Least is the minimum length of a value that is hidden. Shorter values would occur by chance.
const Least = 8

// form is a value in a common encoding.
type form struct {
	label string // in marks; "" is the value itself
	text  string
	kind  kind
	// sought reports that the matcher searches for the text of this form. It finds the other forms by decoding, and
	// uses only their labels.
	sought bool
}

// forms returns the common encodings of a value, each text once.
func forms(value string) []form {
	all := []form{{"", value, encoded, true}}
	escaped := []form{
		{label: "json", text: quoted(value, false)},
		{label: "json-html", text: quoted(value, true)},
		{label: "json-ascii", text: ascii(quoted(value, false))},
		{label: "json-php", text: strings.ReplaceAll(ascii(quoted(value, false)), "/", `\/`)},
		{label: "json/2", text: quoted(quoted(value, false), false)}, // JSON in a string of JSON
		{label: "url", text: url.QueryEscape(value)},
		{label: "url-path", text: url.PathEscape(value)},
		{label: "url-component", text: strings.ReplaceAll(url.QueryEscape(value), "+", "%20")},
		{label: "url-lower", text: lowerEscapes(url.QueryEscape(value))},
		{label: "url-component-lower", text: lowerEscapes(strings.ReplaceAll(url.QueryEscape(value), "+", "%20"))},
		{label: "url-all", text: each(value, "%", "0123456789ABCDEF")},
		{label: "url-all-lower", text: each(value, "%", "0123456789abcdef")},
		{label: "html", text: html.EscapeString(value)},
	}
	all = append(all, escaped...)
	all = append(all,
		form{"hex", hex.EncodeToString([]byte(value)), digits, true},
		form{label: "hex-upper", text: strings.ToUpper(hex.EncodeToString([]byte(value)))})
	all = append(all, base64Forms("", value)...)
	// As command-line programs print it.
	all = append(all, form{label: "base64-lines", text: lines(inside(base64.RawStdEncoding, value, 0), 76)})
	// Documents that contain the value may be encoded as a whole, such as the JSON of a token.
	for _, f := range escaped {
		all = append(all, base64Forms(f.label+"-", f.text)...)
		all = append(all, form{f.label + "-hex", hex.EncodeToString([]byte(f.text)), digits, true})
	}
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

func base64Forms(prefix, text string) []form {
	var out []form
	for before := range 3 {
		out = append(out,
			form{
				fmt.Sprintf("%sbase64/%d", prefix, before), inside(base64.RawStdEncoding, text, before),
				wrapped, true,
			},
			form{
				fmt.Sprintf("%sbase64url/%d", prefix, before), inside(base64.RawURLEncoding, text, before),
				wrapped, true,
			})
	}
	return out
}

// ascii replaces all non-ASCII characters with JSON escapes.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			b.WriteString(units16(string(r), "0123456789abcdef"))
		}
	}
	return b.String()
}

// inside returns the part of an encoded text that depends on the value alone, when the number of bytes before the value
// is before modulo three. Base64 encodes three bytes in four characters, so the same value has three encodings, without
// the characters at both ends that depend on its neighbors.
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

// quoted returns a text as it is between the quotes of a JSON string.
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

// lowerEscapes returns a text with the digits of percent escapes in lower case.
func lowerEscapes(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}
