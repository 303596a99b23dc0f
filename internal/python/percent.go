package python

import (
	"math/big"
	"strings"
	"unicode/utf8"
)

// percent implements the % operator of strings: printf-style formatting.
func (t *Thread) percent(text string, v Value) (Value, error) {
	p := &percentFormat{t: t, text: text, args: []Value{v}}
	p.dict, _ = v.(*Dict)
	if tuple, ok := v.(*Tuple); ok {
		p.args = tuple.Items
	}
	var b strings.Builder
	for p.at < len(text) {
		c := text[p.at]
		p.at++
		if c != '%' || p.accept('%') {
			b.WriteByte(c)
			continue
		}
		out, err := p.conversion()
		if err != nil {
			return nil, err
		}
		b.WriteString(out)
		if err := t.grow(int64(len(out))); err != nil {
			return nil, err
		}
	}
	_, isList := v.(*List) // CPython treats a list as a mapping here
	if p.used < len(p.args) && p.dict == nil && !isList {
		return nil, raise("TypeError", "not all arguments converted during string formatting")
	}
	return b.String(), t.grow(int64(b.Len()))
}

// percentFormat is the state of one % operation.
type percentFormat struct {
	t    *Thread
	text string
	at   int   // offset of the next byte of text
	dict *Dict // the right operand if it is a dict
	args []Value
	used int // number of args consumed
}

// accept consumes c if it is next.
func (p *percentFormat) accept(c byte) bool {
	if p.at >= len(p.text) || p.text[p.at] != c {
		return false
	}
	p.at++
	return true
}

// next consumes a positional argument.
func (p *percentFormat) next() (Value, error) {
	if p.used >= len(p.args) {
		return nil, raise("TypeError", "not enough arguments for format string")
	}
	p.used++
	return p.args[p.used-1], nil
}

// conversion formats the conversion specifier after a percent sign:
// %(key)flags width .precision verb.
func (p *percentFormat) conversion() (string, error) {
	value, named, err := p.key()
	if err != nil {
		return "", err
	}
	s := p.flags()
	if s.width, err = p.count(); err != nil {
		return "", err
	}
	if p.accept('.') {
		if s.prec, err = p.count(); err != nil {
			return "", err
		}
	}
	if p.at >= len(p.text) {
		return "", raise("ValueError", "incomplete format")
	}
	if !named {
		if value, err = p.next(); err != nil {
			return "", err
		}
	}
	verb := p.text[p.at]
	p.at++
	switch verb {
	case 's', 'r', 'a':
		return p.t.percentText(verb, value, s)
	case 'd', 'i', 'u', 'x', 'X', 'o':
		return percentInt(verb, value, s)
	case 'f', 'F', 'e', 'E', 'g', 'G':
		n, ok := number(value)
		if !ok {
			return "", raise("TypeError", "must be real number, not %s", typeName(value))
		}
		f, err := floatOf(n)
		if err != nil {
			return "", err
		}
		s.kind = verb
		return formatReal(f, s), nil
	case 'c':
		return percentChar(value, s)
	}
	return "", raise("ValueError", "unsupported format character '%c' (0x%x) at index %d", verb, verb, p.at-1)
}

// key reads the optional (key) and looks it up.
func (p *percentFormat) key() (value Value, named bool, err error) {
	if p.at >= len(p.text) || p.text[p.at] != '(' {
		return nil, false, nil
	}
	end := strings.IndexByte(p.text[p.at:], ')')
	switch {
	case p.dict == nil:
		return nil, false, raise("TypeError", "format requires a mapping")
	case end < 0:
		return nil, false, raise("ValueError", "incomplete format key")
	}
	value, err = p.t.item(p.dict, p.text[p.at+1:p.at+end])
	p.at += end + 1
	return value, true, err
}

func (p *percentFormat) flags() spec {
	s := spec{fill: ' ', prec: -1, sign: '-', align: '>'}
	for ; p.at < len(p.text) && strings.IndexByte("#0- +", p.text[p.at]) >= 0; p.at++ {
		switch c := p.text[p.at]; c {
		case '#':
			s.alt = true
		case '0':
			if s.align != '<' {
				s.fill, s.align = '0', '='
			}
		case '-':
			s.fill, s.align = ' ', '<'
		default:
			s.sign = c
		}
	}
	return s
}

// count reads a width or a precision: digits, or * for the next argument.
func (p *percentFormat) count() (int, error) {
	if p.accept('*') {
		v, err := p.next()
		n, ok := v.(int64)
		if err == nil && !ok {
			err = raise("TypeError", "* wants int")
		}
		return int(min(n, maxFormatCount)), err
	}
	n := 0
	for ; p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9'; p.at++ {
		n = min(n*10+int(p.text[p.at]-'0'), maxFormatCount)
	}
	return n, nil
}

func (t *Thread) percentText(verb byte, v Value, s spec) (string, error) {
	out, err := t.convert(verb, v)
	if err != nil {
		return "", err
	}
	if s.prec >= 0 && utf8.RuneCountInString(out) > s.prec {
		out = string([]rune(out)[:s.prec])
	}
	s.fill = ' '
	if s.align == '=' {
		s.align = '>'
	}
	return pad(out, "", s, '>'), nil
}

func percentInt(verb byte, v Value, s spec) (string, error) {
	decimal := verb == 'd' || verb == 'i' || verb == 'u'
	n, ok := number(v)
	if f, isFloat := n.(float64); isFloat && decimal {
		whole, err := wholeNumber(f) // fails for infinity and NaN
		if err != nil {
			return "", err
		}
		n = whole
	}
	if _, isFloat := n.(float64); !ok || isFloat {
		wanted := "an integer"
		if decimal {
			wanted = "a real number"
		}
		return "", raise("TypeError", "%%%c format: %s is required, not %s", verb, wanted, typeName(v))
	}
	s.kind = verb
	if decimal {
		s.kind = 'd'
	}
	least := s.prec
	s.prec = -1
	if least < 0 {
		return formatInt(bigOf(n), s)
	}
	// The precision of an integer is its minimum number of digits.
	digits, err := formatInt(new(big.Int).Abs(bigOf(n)), spec{kind: s.kind, sign: '-', prec: -1})
	if err != nil {
		return "", err
	}
	padded := spec{fill: '0', align: '=', sign: s.sign, alt: s.alt, kind: s.kind, prec: -1}
	padded.width = max(least, len(digits)) + len(signOf(bigOf(n).Sign() < 0, s))
	if s.alt && !decimal {
		padded.width += len("0x")
	}
	if s.align == '=' {
		padded.width = max(padded.width, s.width)
	}
	out, err := formatInt(bigOf(n), padded)
	if err != nil {
		return "", err
	}
	return pad(out, "", s, '>'), nil
}

func percentChar(v Value, s spec) (string, error) {
	s.fill = ' '
	if s.align == '=' {
		s.align = '>'
	}
	switch n, _ := number(v); n := n.(type) {
	case int64:
		if n < 0 || n > utf8.MaxRune {
			return "", raise("OverflowError", "%%c arg not in range(0x110000)")
		}
		return pad(string(rune(n)), "", s, '>'), nil
	case *big.Int:
		return "", raise("OverflowError", "%%c arg not in range(0x110000)")
	}
	if text, ok := v.(string); ok && utf8.RuneCountInString(text) == 1 {
		return pad(text, "", s, '>'), nil
	}
	return "", raise("TypeError", "%%c requires int or char")
}
