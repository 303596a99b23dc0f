package jsonfast_test

import (
	"encoding/json"
	"testing"

	"github.com/espalier-run/espalier/internal/jsonfast"
)

func TestCompactCopiesOnlyWhenThereIsWhiteSpace(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a b":[1,2]}`:         `{"a b":[1,2]}`,
		` {"a b": [1, 2]} `:     `{"a b":[1,2]}`,
		`{"a":"x \" y"}` + "\n": `{"a":"x \" y"}`,
		` 1`:                    `1`,
		`"é  "`:                 `"é  "`,
	} {
		given := json.RawMessage(raw)
		got, err := jsonfast.Compact(given)
		if err != nil || string(got) != want {
			t.Errorf("%q is %q, %v", raw, got, err)
		}
		if same := &got[0] == &given[0]; same != (raw == want) {
			t.Errorf("%q shares memory with the result: %v", raw, same)
		}
		if added, err := jsonfast.AppendRaw([]byte("x"), given); err != nil || string(added) != "x"+want {
			t.Errorf("AppendRaw of %q gives %q, %v", raw, added, err)
		}
	}
	for _, raw := range []string{``, `{`, `a`, `1 2`} {
		if got, err := jsonfast.Compact(json.RawMessage(raw)); err == nil {
			t.Errorf("%q is %q", raw, got)
		}
	}
}
