package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns the canonical form of a JSON text. It returns an error if the text is not JSON or has no canonical form:
// duplicate member names, unpaired surrogates, invalid UTF-8, or numbers beyond the range of a double.
func JSON(text []byte) ([]byte, error) { return Append(nil, text) }

// Append appends the canonical form of a JSON text to b.
func Append(b, text []byte) ([]byte, error) {
	p := parser{in: text}
	start := len(b)
	p.space()
	b, err := p.value(b, 0)
	if err == nil {
		if p.space(); p.at < len(p.in) {
			err = p.errorf("unexpected data after the value")
		}
	}
	if err != nil {
		return b[:start], err
	}
	return b, nil
}

// maxDepth limits nesting. encoding/json has the same limit.
const maxDepth = 10_000

type parser struct {
	in []byte
	at int
}

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("not canonical JSON at byte %d: %s", p.at, fmt.Sprintf(format, args...))
}

func (p *parser) space() {
	for p.at < len(p.in) && strings.IndexByte(" \t\r\n", p.in[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) peek() byte {
	if p.at < len(p.in) {
		return p.in[p.at]
	}
	return 0
}

func (p *parser) value(b []byte, depth int) ([]byte, error) {
	if depth > maxDepth {
		return b, p.errorf("nesting exceeds %d levels", maxDepth)
	}
	switch c := p.peek(); {
	case c == '{':
		return p.object(b, depth)
	case c == '[':
		return p.array(b, depth)
	case c == '"':
		text, err := p.text()
		if err != nil {
			return b, err
		}
		return AppendString(b, text), nil
	case c == '-' || c >= '0' && c <= '9':
		return p.number(b)
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(p.in[p.at:], []byte(word)) {
			p.at += len(word)
			return append(b, word...), nil
		}
	}
	return b, p.errorf("expected a value")
}

func (p *parser) array(b []byte, depth int) ([]byte, error) {
	p.at++
	b = append(b, '[')
	for first := true; ; first = false {
		p.space()
		if first && p.peek() == ']' {
			break
		}
		var err error
		if b, err = p.value(b, depth+1); err != nil {
			return b, err
		}
		p.space()
		if p.peek() == ']' {
			break
		}
		if p.peek() != ',' {
			return b, p.errorf("expected a comma or the end of an array")
		}
		p.at++
		b = append(b, ',')
	}
	p.at++
	return append(b, ']'), nil
}

// member is one member of an object. Its value is values[start:end] of a buffer shared by all members.
type member struct {
	name       string
	start, end int
}

func (p *parser) object(b []byte, depth int) ([]byte, error) {
	p.at++
	var members []member
	var values []byte
	for first := true; ; first = false {
		p.space()
		if first && p.peek() == '}' {
			break
		}
		if p.peek() != '"' {
			return b, p.errorf("expected a member name")
		}
		name, err := p.text()
		if err != nil {
			return b, err
		}
		p.space()
		if p.peek() != ':' {
			return b, p.errorf("expected a colon")
		}
		p.at++
		p.space()
		start := len(values)
		if values, err = p.value(values, depth+1); err != nil {
			return b, err
		}
		members = append(members, member{name, start, len(values)})
		p.space()
		if p.peek() == '}' {
			break
		}
		if p.peek() != ',' {
			return b, p.errorf("expected a comma or the end of an object")
		}
		p.at++
	}
	p.at++
	slices.SortFunc(members, func(x, y member) int { return Compare(x.name, y.name) })
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			if members[i-1].name == m.name {
				return b, p.errorf("duplicate member name %q", m.name)
			}
			b = append(b, ',')
		}
		b = AppendString(b, m.name)
		b = append(b, ':')
		b = append(b, values[m.start:m.end]...)
	}
	return append(b, '}'), nil
}

// Compare compares member names by their UTF-16 code units. The result differs from comparing bytes only for a
// character above U+FFFF and one between U+E000 and U+FFFF.
func Compare(x, y string) int {
	same := 0
	for same < len(x) && same < len(y) && x[same] == y[same] {
		same++
	}
	if same == len(x) || same == len(y) {
		return len(x) - len(y)
	}
	if a, b := x[same], y[same]; a < utf8.RuneSelf && b < utf8.RuneSelf {
		return int(a) - int(b)
	}
	for x != "" && y != "" {
		a, n := utf8.DecodeRuneInString(x)
		b, m := utf8.DecodeRuneInString(y)
		if a != b {
			return int(firstUnit(a)) - int(firstUnit(b)) + tie(a, b)
		}
		x, y = x[n:], y[m:]
	}
	return len(x) - len(y)
}

func firstUnit(r rune) rune {
	if high, _ := utf16.EncodeRune(r); high != utf8.RuneError {
		return high
	}
	return r
}

// tie orders two different characters with the same first code unit.
func tie(a, b rune) int {
	if firstUnit(a) != firstUnit(b) {
		return 0
	}
	return int(a - b)
}

// text reads a quoted string and returns its value.
func (p *parser) text() (string, error) {
	start := p.at
	p.at++
	plain := true
	for {
		switch c := p.peek(); {
		case p.at >= len(p.in):
			return "", p.errorf("unterminated string")
		case c == '"':
			p.at++
			raw := p.in[start:p.at]
			if plain {
				if !utf8.Valid(raw) {
					return "", p.errorf("invalid UTF-8 in a string")
				}
				return string(raw[1 : len(raw)-1]), nil
			}
			return p.unescape(raw)
		case c == '\\':
			plain = false
			p.at += 2
		case c < ' ':
			return "", p.errorf("control character in a string")
		default:
			p.at++
		}
	}
}

func (p *parser) unescape(raw []byte) (string, error) {
	if !utf8.Valid(raw) {
		return "", p.errorf("invalid UTF-8 in a string")
	}
	if err := checkSurrogates(raw); err != nil {
		return "", p.errorf("%v", err)
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", p.errorf("%v", err)
	}
	return text, nil
}

// checkSurrogates rejects escapes of unpaired surrogates. The decoder replaces them by U+FFFD, so different strings
// would get the same canonical form.
func checkSurrogates(raw []byte) error {
	unpaired := errors.New("unpaired surrogate")
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		unit, ok := escaped(raw[i:])
		if !ok || !utf16.IsSurrogate(unit) {
			continue
		}
		if i+11 > len(raw) || raw[i+5] != '\\' {
			return unpaired
		}
		low, ok := escaped(raw[i+6:])
		if !ok || utf16.DecodeRune(unit, low) == utf8.RuneError {
			return unpaired
		}
		i += 10
	}
	return nil
}

// escaped reads the uXXXX of an escape sequence.
func escaped(s []byte) (rune, bool) {
	if len(s) < 5 || s[0] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s[1:5]), 16, 16)
	return rune(n), err == nil
}

// AppendString appends text as a canonical JSON string.
func AppendString(b []byte, text string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, text[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\t':
			b = append(b, '\\', 't')
		case '\n':
			b = append(b, '\\', 'n')
		case '\f':
			b = append(b, '\\', 'f')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	return append(append(b, text[start:]...), '"')
}

func (p *parser) number(b []byte) ([]byte, error) {
	start := p.at
	for p.at < len(p.in) && strings.IndexByte("+-.eE0123456789", p.in[p.at]) >= 0 {
		p.at++
	}
	literal := p.in[start:p.at]
	if !json.Valid(literal) {
		p.at = start
		return b, p.errorf("%q is not a number", literal)
	}
	f, err := strconv.ParseFloat(string(literal), 64)
	if err != nil {
		p.at = start
		return b, p.errorf("%q is out of range for a double", literal)
	}
	return AppendFloat(b, f), nil
}

// AppendFloat appends f as ECMAScript prints it. f must be finite.
func AppendFloat(b []byte, f float64) []byte {
	if f == 0 {
		return append(b, '0') // also for -0
	}
	abs := math.Abs(f)
	if abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	// Go writes exponents with at least two digits, ECMAScript does not pad them.
	if n := len(b); b[n-2] == '0' && (b[n-3] == '-' || b[n-3] == '+') {
		b[n-2] = b[n-1]
		b = b[:n-1]
	}
	return b
}

// Exact reports whether a number keeps its value in canonical form.
func Exact(literal json.Number) bool {
	text := string(literal)
	if len(text) <= 15 && !strings.ContainsAny(text, ".eE") {
		return true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return false
	}
	if strconv.FormatFloat(f, 'g', -1, 64) == text {
		return true // the shortest text of this double
	}
	if f == 0 {
		mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
		return !strings.ContainsAny(mantissa, "123456789")
	}
	if len(text) > 400 {
		return false
	}
	want, ok := new(big.Rat).SetString(text)
	if !ok {
		return false
	}
	// Compare with the canonical text rather than with f: the text is what is read.
	got, ok := new(big.Rat).SetString(string(AppendFloat(nil, f)))
	return ok && got.Cmp(want) == 0
}
