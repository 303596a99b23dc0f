package formattest

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// compared are the encodings of programs that were compared.
var compared = map[string]bool{}

// asWritten checks that a program equals the one decoded when its run is resumed: what is not
// encoded must not matter. It returns the encoding. Programs that many trials run are compared once.
func asWritten(t *testing.T, p *ir.Program) []byte {
	t.Helper()
	raw := written(t, p)
	if compared[string(raw)] {
		return raw
	}
	compared[string(raw)] = true
	var back engine.Definition
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	// Expressions compare by their text, JSON by its meaning, and an empty map equals a missing
	// one.
	same := cmp.Options{
		cmp.Comparer(func(x, y json.RawMessage) bool { return compact(x) == compact(y) }),
		cmp.FilterValues(func(x, y map[string]source.Span) bool { return len(x)+len(y) == 0 }, cmp.Ignore()),
		cmp.Comparer(func(x, y *expr.Expr) bool {
			return x == y || x != nil && y != nil && x.Dialect == y.Dialect && x.Text == y.Text && x.Span == y.Span &&
				cmp.Equal(x.Names, y.Names)
		}),
	}
	if d := cmp.Diff(p, back.Program, same); d != "" {
		t.Errorf("what is compiled (-) is not what is written (+):\n%s", d)
	}
	return raw
}

func written(t *testing.T, p *ir.Program) []byte {
	t.Helper()
	raw, _, err := (&engine.Definition{Program: p}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func compact(raw json.RawMessage) string {
	var tight, plain bytes.Buffer
	if json.Compact(&tight, raw) != nil {
		return string(raw)
	}
	json.HTMLEscape(&plain, tight.Bytes())
	return plain.String()
}
