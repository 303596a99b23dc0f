package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

var errNotJSON = errors.New("not JSON")

// walk replaces the strings and names in a JSON value, and turns the numbers that number changes into strings.
// Everything else stays the same, byte for byte: decoding and encoding would change numbers, the order of members and
// spaces. A string that is returned as bare is inserted without quotes. raw has to be valid JSON; walk finds only some
// mistakes.
func walk(
	raw json.RawMessage, text func(string) (is string, bare bool, err error), number func(string) string,
) (json.RawMessage, error) {
	var out []byte
	done := 0
	replace := func(from, to int, with []byte) {
		out = append(append(out, raw[done:from]...), with...)
		done = to
	}
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			end := closingQuote(raw, i)
			if end < 0 {
				return nil, errNotJSON
			}
			was, err := unquote(raw[i:end])
			if err != nil {
				return nil, err
			}
			is, bare, err := text(was)
			switch {
			case err != nil:
				return nil, err
			case bare:
				replace(i, end, []byte(is))
			case is != was:
				replace(i, end, quote(is, false))
			}
			i = end
		case number != nil && (c == '-' || c >= '0' && c <= '9'):
			end := i + 1
			for end < len(raw) && strings.IndexByte("+-.eE0123456789", raw[end]) >= 0 {
				end++
			}
			was := string(raw[i:end])
			if is := number(was); is != was {
				replace(i, end, quote(is, false))
			}
			i = end
		default:
			i++
		}
	}
	if done == 0 {
		return raw, nil
	}
	return append(out, raw[done:]...), nil
}

// closingQuote returns the end of the string that starts at i; -1 if it is not closed.
func closingQuote(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// unquote decodes a JSON string, with its quotes. Short escapes are decoded here; a string with other escapes is left
// to json.Unmarshal.
func unquote(raw []byte) (string, error) {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	out := make([]byte, 0, len(inner))
	for i := 0; i < len(inner); i++ {
		c := inner[i]
		if c == '\\' {
			i++
			short := strings.IndexByte(`"\/bfnrt`, inner[i])
			if short < 0 { // an escape with digits
				var text string
				err := json.Unmarshal(raw, &text)
				return text, err
			}
			c = "\"\\/\b\f\n\r\t"[short]
		}
		out = append(out, c)
	}
	return string(out), nil
}
