package postgres

import (
	"encoding/hex"
	"reflect"
	"strings"
	"unicode/utf8"
)

// escaped marks a text that PostgreSQL cannot store as it is.
const escaped = `\x`

// encodeText returns the form in which a text is stored. PostgreSQL rejects NUL
// and invalid UTF-8; such texts are stored in hexadecimal.
func encodeText[T ~string](text T) string {
	s := string(text)
	if utf8.ValidString(s) && !strings.Contains(s, "\x00") && !strings.HasPrefix(s, escaped) {
		return s
	}
	return escaped + hex.EncodeToString([]byte(s))
}

// decodeText is the inverse of encodeText.
func decodeText[T ~string](s *T) {
	if digits, ok := strings.CutPrefix(string(*s), escaped); ok {
		if raw, err := hex.DecodeString(digits); err == nil {
			*s = T(raw)
		}
	}
}

// decodeTarget is decodeText for what a column was scanned into, if that is a text.
func decodeTarget(target any) {
	if v := reflect.ValueOf(target).Elem(); v.Kind() == reflect.String {
		text := v.String()
		decodeText(&text)
		v.SetString(text)
	}
}

// filled returns an empty list for nil: NULL is not allowed.
func filled(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}
