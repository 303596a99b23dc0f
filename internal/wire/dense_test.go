package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/espalier-run/espalier/internal/wire"
)

// What has no space between its tokens is not copied.
func TestDense(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a b":[1,2]}`:         `{"a b":[1,2]}`,
		` {"a b": [1, 2]} `:     `{"a b":[1,2]}`,
		`{"a":"x \" y"}` + "\n": `{"a":"x \" y"}`,
		` 1`:                    `1`,
		`"é  "`:                 `"é  "`,
	} {
		given := json.RawMessage(raw)
		got, err := wire.Dense(given)
		if err != nil || string(got) != want {
			t.Errorf("%q is %q, %v", raw, got, err)
		}
		if same := &got[0] == &given[0]; same != (raw == want) {
			t.Errorf("%q is its own memory: %v", raw, same)
		}
		if added, err := wire.AppendRaw([]byte("x"), given); err != nil || string(added) != "x"+want {
			t.Errorf("%q is added as %q, %v", raw, added, err)
		}
	}
	for _, raw := range []string{``, `{`, `a`, `1 2`} {
		if got, err := wire.Dense(json.RawMessage(raw)); err == nil {
			t.Errorf("%q is %q", raw, got)
		}
	}
}
