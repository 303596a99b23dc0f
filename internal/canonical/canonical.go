package canonical

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// JSON returns the canonical form of a JSON text. It returns an error if the text is not JSON or has no canonical form:
// duplicate member names, unpaired surrogates, invalid UTF-8, or numbers beyond the range of a double.
func JSON(text []byte) ([]byte, error) {
	form := jsontext.Value(bytes.Clone(text))
	if err := form.Canonicalize(); err != nil {
		return nil, fmt.Errorf("not canonical JSON: %w", err)
	}
	if bytes.Contains(form, []byte(maxFloat)) {
		if err := checkRange(text); err != nil {
			return nil, err
		}
	}
	return form, nil
}

// maxFloat is the largest double. The library replaces numbers beyond the range by it.
const maxFloat = "1.7976931348623157e+308"

// checkRange returns an error if a number of a JSON text is out of range for a double.
func checkRange(text []byte) error {
	in := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		token, err := in.ReadToken()
		if err != nil {
			return nil // the end of the text
		}
		if token.Kind() == '0' {
			if _, err := strconv.ParseFloat(token.String(), 64); err != nil {
				return fmt.Errorf("not canonical JSON: %s is out of range for a double", token)
			}
		}
	}
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
	form, err := JSON([]byte(text))
	if err != nil {
		return false
	}
	got, ok := new(big.Rat).SetString(string(form))
	return ok && got.Cmp(want) == 0
}
