package secret

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// An encoding describes how each character of a text is encoded where it was found, so that Reveal restores the
// original bytes. It is a list of units (see literal), each with a count if it is repeated: "4.U10." is four literal
// characters, one such as %2F, and ten literal ones. It reveals which characters are encoded, but nothing else about
// them.

// encodingOf returns the encoding of a text that yields found, or "" if there is none.
func encodingOf(text, found string, units []string) string {
	var b strings.Builder
	for i := 0; i < len(units); {
		n := 1
		for i+n < len(units) && units[i+n] == units[i] {
			n++
		}
		if n > 1 {
			b.WriteString(strconv.Itoa(n))
		}
		b.WriteString(units[i])
		i += n
	}
	if again, ok := encode(text, b.String()); !ok || again != found {
		return ""
	}
	return b.String()
}

// encode encodes a text. It returns false if the encoding is not valid for the text.
func encode(text, encoding string) (string, bool) {
	e := encoder{text: text, encoding: encoding}
	for e.encoding != "" {
		digits := len(e.encoding) - len(strings.TrimLeft(e.encoding, "0123456789"))
		n := 1
		if digits > 0 {
			var err error
			if n, err = strconv.Atoi(e.encoding[:digits]); err != nil {
				return "", false
			}
		}
		e.encoding = e.encoding[digits:]
		unit := e.encoding
		for range n {
			e.encoding = unit
			if !e.unit() {
				return "", false
			}
		}
	}
	return e.out.String(), e.text == ""
}

// encoder encodes a text unit by unit.
type encoder struct {
	text, encoding string // the parts that are not processed yet
	out            strings.Builder
}

// next removes the first byte of the encoding.
func (e *encoder) next() string {
	if e.encoding == "" {
		return ""
	}
	first := e.encoding[:1]
	e.encoding = e.encoding[1:]
	return first
}

// unit encodes one character by one unit.
func (e *encoder) unit() bool {
	unit := e.next()
	if unit == skip {
		name := e.next()
		for skipped, is := range skippable {
			if is == name {
				inner := encoder{text: skipped, encoding: e.encoding}
				ok := inner.unit()
				e.encoding = inner.encoding
				e.out.WriteString(inner.out.String())
				return ok
			}
		}
		return false
	}
	if e.text == "" {
		return false
	}
	if unit == literal || unit == upper {
		one := e.text[:1]
		e.text = e.text[1:]
		if unit == upper {
			one = strings.ToUpper(one)
		}
		e.out.WriteString(one)
		return true
	}
	again := unit == nested
	if again {
		unit = e.next()
	}
	escaper, size := escapers[unit], 1
	if escaper == nil {
		return false
	}
	if strings.Contains("uVwdzhH", unit) { // these encode runes, the others bytes
		_, size = utf8.DecodeRuneInString(e.text)
	}
	escape := escaper(e.text[:size])
	e.text = e.text[size:]
	if !again {
		e.out.WriteString(escape)
		return escape != ""
	}
	inner := encoder{text: escape, encoding: e.encoding}
	for inner.text != "" {
		if !inner.unit() {
			return false
		}
	}
	e.encoding = inner.encoding
	e.out.WriteString(inner.out.String())
	return escape != ""
}
