package python

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxFormatCount limits widths and precisions. Larger ones are reduced to it.
const maxFormatCount = 1 << 20

// spec is a parsed format specification.
type spec struct {
	fill     rune
	align    byte // '<', '>', '^', '=' or 0
	sign     byte // '+', '-', ' '
	signed   bool // the sign was given explicitly
	alt      bool
	width    int
	grouping byte // ',', '_' or 0
	prec     int  // -1: none
	kind     byte
}

func parseSpec(text string) (spec, error) {
	s := spec{fill: ' ', prec: -1, sign: '-'}
	bad := raise("ValueError", "Invalid format specifier")
	rest := text
	r, size := utf8.DecodeRuneInString(rest)
	if size > 0 && len(rest) > size && strings.IndexByte("<>^=", rest[size]) >= 0 {
		s.fill, s.align, rest = r, rest[size], rest[size+1:]
	} else if rest != "" && strings.IndexByte("<>^=", rest[0]) >= 0 {
		s.align, rest = rest[0], rest[1:]
	}
	if rest != "" && strings.IndexByte("+- ", rest[0]) >= 0 {
		s.sign, s.signed, rest = rest[0], true, rest[1:]
	}
	if strings.HasPrefix(rest, "#") {
		s.alt, rest = true, rest[1:]
	}
	if strings.HasPrefix(rest, "0") {
		if s.align == 0 {
			s.fill, s.align = '0', '='
		}
		rest = rest[1:]
	}
	digits := func() (int, bool) {
		n := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if n == 0 {
			return 0, false
		}
		v, err := strconv.Atoi(rest[:n])
		rest = rest[n:]
		if err != nil || v > maxFormatCount {
			v = maxFormatCount
		}
		return v, true
	}
	s.width, _ = digits()
	if rest != "" && (rest[0] == ',' || rest[0] == '_') {
		s.grouping, rest = rest[0], rest[1:]
	}
	if strings.HasPrefix(rest, ".") {
		rest = rest[1:]
		n, ok := digits()
		if !ok {
			return s, raise("ValueError", "Format specifier missing precision")
		}
		s.prec = n
	}
	if rest != "" {
		s.kind, rest = rest[0], rest[1:]
	}
	if rest != "" {
		return s, bad
	}
	return s, nil
}

// format implements format(v, spec).
func (t *Thread) format(v Value, text string) (string, error) {
	if text == "" {
		return t.Str(v)
	}
	s, err := parseSpec(text)
	if err != nil {
		return "", err
	}
	if err := t.grow(int64(s.width + max(s.prec, 0))); err != nil {
		return "", err
	}
	unknown := func() error {
		return raise("ValueError", "Unknown format code '%c' for object of type '%s'", s.kind, typeName(v))
	}
	switch x := v.(type) {
	case string:
		if s.kind != 0 && s.kind != 's' {
			return "", unknown()
		}
		switch {
		case s.align == '=' && s.fill != '0':
			return "", raise("ValueError", "'=' alignment not allowed in string format specifier")
		case s.signed:
			return "", raise("ValueError", "Sign not allowed in string format specifier")
		case s.grouping != 0:
			return "", raise("ValueError", "Cannot specify '%c' with 's'.", s.grouping)
		}
		if s.align == '=' {
			s.align = '<'
		}
		if s.prec >= 0 && utf8.RuneCountInString(x) > s.prec {
			x = string([]rune(x)[:s.prec])
		}
		return pad(x, "", s, '<'), nil
	case bool, int64, *big.Int:
		n, _ := number(x)
		switch s.kind {
		case 0, 'd', 'n', 'b', 'o', 'x', 'X', 'c':
			return formatInt(bigOf(n), s)
		case 'e', 'E', 'f', 'F', 'g', 'G', '%':
			f, err := floatOf(n)
			if err != nil {
				return "", err
			}
			return formatReal(f, s), nil
		}
		return "", unknown()
	case float64:
		switch s.kind {
		case 0, 'n', 'e', 'E', 'f', 'F', 'g', 'G', '%':
			return formatReal(x, s), nil
		}
		return "", unknown()
	}
	return "", raise("TypeError", "unsupported format string passed to %s.__format__", typeName(v))
}

// convert applies a conversion: 's' is str, 'r' is repr, 'a' is ascii.
func (t *Thread) convert(conv byte, v Value) (string, error) {
	if conv == 's' {
		return t.Str(v)
	}
	s, err := t.Repr(v)
	if conv == 'a' {
		s = ascii(s)
	}
	return s, err
}

// ascii escapes the characters that are not ASCII.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

func formatInt(n *big.Int, s spec) (string, error) {
	if s.prec >= 0 {
		return "", raise("ValueError", "Precision not allowed in integer format specifier")
	}
	if s.kind == 'c' {
		if !n.IsInt64() || n.Int64() < 0 || n.Int64() > 0x10ffff {
			return "", raise("OverflowError", "%%c arg not in range(0x110000)")
		}
		return pad(string(rune(n.Int64())), "", s, '<'), nil
	}
	base := map[byte]int{'b': 2, 'o': 8, 'x': 16, 'X': 16}[s.kind]
	prefix := ""
	if base == 0 {
		base = 10
	} else if s.alt {
		prefix = "0" + string(s.kind)
	}
	digits := new(big.Int).Abs(n).Text(base)
	if s.kind == 'X' {
		digits = strings.ToUpper(digits)
	}
	group := 3
	if base != 10 {
		group = 4
	}
	sign := signOf(n.Sign() < 0, s)
	return pad(grouped(digits, s, group, len(sign)+len(prefix)), sign+prefix, s, '>'), nil
}

func signOf(negative bool, s spec) string {
	switch {
	case negative:
		return "-"
	case s.sign != '-':
		return string(s.sign)
	}
	return ""
}

func formatReal(f float64, s spec) string {
	negative := math.Signbit(f) && !math.IsNaN(f)
	abs := math.Abs(f)
	kind, prec := s.kind, s.prec
	suffix, body := "", ""
	if kind == '%' {
		abs *= 100
		kind, suffix = 'f', "%"
	}
	switch {
	case math.IsNaN(f):
		body = "nan"
	case math.IsInf(abs, 1):
		body = "inf"
	case kind == 0 && prec < 0:
		body = formatFloat(abs)
	case kind == 'f' || kind == 'F':
		if prec < 0 {
			prec = 6
		}
		body = strconv.FormatFloat(abs, 'f', prec, 64)
	case kind == 'e' || kind == 'E':
		if prec < 0 {
			prec = 6
		}
		body = strconv.FormatFloat(abs, 'e', prec, 64)
	default: // g, n, or no type with a precision
		if prec < 0 {
			prec = 6
		}
		if prec == 0 {
			prec = 1
		}
		body = general(abs, prec, kind == 0, s.alt)
	}
	if s.alt && strings.IndexByte(body, '.') < 0 && !math.IsNaN(f) && !math.IsInf(f, 0) {
		mantissa, exponent, found := strings.Cut(body, "e")
		body = mantissa + "."
		if found {
			body += "e" + exponent
		}
	}
	if s.kind == 'E' || s.kind == 'F' || s.kind == 'G' {
		body = strings.ToUpper(body)
	}
	sign := signOf(negative, s)
	whole, rest := body, ""
	if i := strings.IndexAny(body, ".eE"); i >= 0 {
		whole, rest = body[:i], body[i:]
	}
	if !math.IsNaN(f) && !math.IsInf(f, 0) {
		whole = grouped(whole, s, 3, len(sign)+len(rest)+len(suffix))
	}
	return pad(whole+rest+suffix, sign, s, '>')
}

// general formats f like the presentation type g: prec significant digits, an
// exponent if that is shorter, and no trailing zeros. plain selects the form
// without a presentation type, which keeps one digit after the point.
func general(f float64, prec int, plain, alt bool) string {
	exp := strconv.FormatFloat(f, 'e', prec-1, 64)
	at := strings.IndexByte(exp, 'e')
	x, _ := strconv.Atoi(exp[at+1:])
	limit := prec
	if plain {
		limit-- // one digit is needed after the point
	}
	if x < -4 || x >= limit {
		m := exp[:at]
		if strings.IndexByte(m, '.') >= 0 && !alt {
			m = strings.TrimRight(strings.TrimRight(m, "0"), ".")
		}
		return m + exp[at:]
	}
	s := strconv.FormatFloat(f, 'f', max(prec-1-x, 0), 64)
	if strings.IndexByte(s, '.') >= 0 && !alt {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if plain && strings.IndexByte(s, '.') < 0 {
		s += ".0"
	}
	return s
}

// grouped inserts separators between groups of digits. If the width is filled
// with zeros, they are part of the groups; taken is the width of the rest.
func grouped(digits string, s spec, group, taken int) string {
	if s.grouping == 0 {
		return digits
	}
	join := func(d string) string {
		var b strings.Builder
		for i := range len(d) {
			if i > 0 && (len(d)-i)%group == 0 {
				b.WriteByte(s.grouping)
			}
			b.WriteByte(d[i])
		}
		return b.String()
	}
	out := join(digits)
	if s.fill == '0' && s.align == '=' {
		for len(out)+taken < s.width {
			digits = "0" + digits
			out = join(digits)
		}
	}
	return out
}

func pad(body, sign string, s spec, usual byte) string {
	n := s.width - utf8.RuneCountInString(body) - len(sign)
	if n <= 0 {
		return sign + body
	}
	align := s.align
	if align == 0 {
		align = usual
	}
	fill := func(n int) string { return strings.Repeat(string(s.fill), n) }
	switch align {
	case '<':
		return sign + body + fill(n)
	case '^':
		return fill(n/2) + sign + body + fill(n-n/2)
	case '=':
		return sign + fill(n) + body
	}
	return fill(n) + sign + body
}

// strFormat implements str.format. auto is the next automatic field number, or
// -1 after a field with an explicit number.
func (t *Thread) strFormat(text string, args []Value, named Named, auto *int, depth int) (string, error) {
	if depth > 2 {
		return "", raise("ValueError", "Max string recursion exceeded")
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c:
			b.WriteByte(c)
			i += 2
		case c == '}':
			return "", raise("ValueError", "Single '}' encountered in format string")
		case c == '{':
			end, level := i+1, 1
			for ; end < len(text) && level > 0; end++ {
				switch text[end] {
				case '{':
					level++
				case '}':
					level--
				}
			}
			if level > 0 {
				return "", raise("ValueError", "expected '}' before end of string")
			}
			out, err := t.field(text[i+1:end-1], args, named, auto, depth)
			if err != nil {
				return "", err
			}
			b.WriteString(out)
			if b.Len() > maxObject {
				return "", t.tooLarge("a string")
			}
			i = end
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String(), t.grow(int64(b.Len()))
}

func (t *Thread) field(text string, args []Value, named Named, auto *int, depth int) (string, error) {
	if err := t.spend(1 + int64(len(named)/16)); err != nil {
		return "", err
	}
	name, format, _ := strings.Cut(text, ":")
	name, conv, hasConv := strings.Cut(name, "!")
	first := name
	if i := strings.IndexAny(name, ".["); i >= 0 {
		first = name[:i]
	}
	rest := name[len(first):]
	var v Value
	if n, err := strconv.Atoi(first); err == nil || first == "" {
		switch {
		case first == "" && *auto < 0:
			return "", raise("ValueError", "cannot switch from manual field specification to automatic field numbering")
		case first == "":
			n = *auto
			*auto++
		case *auto > 0:
			return "", raise("ValueError", "cannot switch from automatic field numbering to manual field specification")
		default:
			*auto = -1
		}
		if n < 0 || n >= len(args) {
			return "", raise("IndexError", "Replacement index %d out of range for positional args tuple", n)
		}
		v = args[n]
	} else {
		var ok bool
		if v, ok = named.Get(first); !ok {
			return "", &Raised{Value: &Exception{Class: "KeyError", Args: []Value{first}}}
		}
	}
	for rest != "" {
		var err error
		if rest[0] == '.' {
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			v, err = t.attribute(v, rest[1:end+1])
			rest = rest[end+1:]
		} else {
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return "", raise("ValueError", "expected '}' before end of string")
			}
			var key Value = rest[1:end]
			if n, failed := strconv.ParseInt(rest[1:end], 10, 64); failed == nil {
				key = n
			}
			v, err = t.item(v, key)
			rest = rest[end+1:]
		}
		if err != nil {
			return "", err
		}
	}
	if hasConv {
		if conv != "r" && conv != "a" && conv != "s" {
			return "", raise("ValueError", "Unknown conversion specifier %s", conv)
		}
		s, err := t.convert(conv[0], v)
		if err != nil {
			return "", err
		}
		v = s
	}
	if strings.ContainsAny(format, "{}") {
		inner, err := t.strFormat(format, args, named, auto, depth+1)
		if err != nil {
			return "", err
		}
		format = inner
	}
	return t.format(v, format)
}
