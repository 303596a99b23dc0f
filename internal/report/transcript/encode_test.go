package transcript

import (
	"encoding/json"
	"testing"
)

func TestRawValuesAreCompactedWithoutHTMLEscapes(t *testing.T) {
	for raw, want := range map[string]string{
		``:                         `null`,
		`{"a": [1,` + "\n" + `2]}`: `{"a":[1,2]}`,
		`"a\u003cb\u003E\u0026"`:   `"a<b>&"`,
		`"a\\u003cb"`:              `"a\\u003cb"`,
		`"\\\u003c\u001b\u00e9"`:   `"\\<\u001b\u00e9"`,
		`"\u00"`:                   `null`,
		`"x" y`:                    `null`,
	} {
		b, err := toolCodec().Append(nil, &Tool{Input: valid(json.RawMessage(raw))})
		if err != nil {
			t.Fatal(err)
		}
		got := string(undoHTMLEscapes(b))
		if want = `{"name":"","call_id":"","input":` + want + `,"output":null,"fidelity":""}`; got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
