package source

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// IsJSONNumber reports whether a word is a JSON number.
func IsJSONNumber(word string) bool {
	return word != "" && !strings.ContainsAny(word, " \t\r\n") && strings.IndexByte("-0123456789", word[0]) >= 0 &&
		json.Valid([]byte(word))
}

// UnicodeEscape decodes \uXXXX, or two of them that are a surrogate pair, at the start of s. size is 0 if there is
// none. An unpaired surrogate is U+FFFD, as in encoding/json; unpaired is set.
func UnicodeEscape(s string) (r rune, size int, unpaired bool) {
	r = codeUnit(s)
	if r < 0 {
		return 0, 0, false
	}
	if !utf16.IsSurrogate(r) {
		return r, 6, false
	}
	if pair := utf16.DecodeRune(r, codeUnit(s[6:])); pair != unicode.ReplacementChar {
		return pair, 12, false
	}
	return unicode.ReplacementChar, 6, true
}

// codeUnit decodes \uXXXX; -1 if s does not start with it.
func codeUnit(s string) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(s[2:6], 16, 32)
	if err != nil {
		return -1
	}
	return rune(n)
}
