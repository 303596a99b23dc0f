package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// A read returns the same JSON with and without decoding.
func TestReadsOfPlainTextNeedNoDecoding(t *testing.T) {
	p := Compile(&ir.Program{Blocks: []ir.Block{{}}})
	for _, raw := range []string{
		`"plain text, it is"`, `""`, `"a \"quote\""`, `"<b>&"`, `"\u00e9"`, `"é"`, `"\t"`, `1`, `1.50`, `null`,
		`{"b":1,"a":"x"}`, `["x"]`, ` "x"`, `"x" `,
	} {
		for _, path := range []string{"state.a", "a", "state.a.b"} {
			root := &Frame{Scope: map[string]journal.Value{"state.a": {JSON: json.RawMessage(raw)}, "a": {
				JSON: json.RawMessage(raw),
			}}}
			inner := &Frame{Path: "0"}
			s := &State{Frames: map[string]*Frame{"": root, "0": inner}}
			v, found := (&scope{s: s, p: p, f: inner}).Lookup(strings.Split(path, "."))
			value, there := s.Read(p, inner, path)
			if got, want := string(value), string(mustJSON(v)); got != want || found != there {
				t.Errorf("%s of %s: %s, %v, not %s", path, raw, got, there, want)
			}
		}
	}
}

// A namespace in a nearer scope hides its parts in outer scopes.
func TestReadsOfPlainTextUseTheNearestScope(t *testing.T) {
	p := Compile(&ir.Program{Blocks: []ir.Block{{}}})
	root := &Frame{Scope: map[string]journal.Value{"state.a": {JSON: json.RawMessage(`"far"`)}}}
	inner := &Frame{Path: "0", Scope: map[string]journal.Value{"state": {JSON: json.RawMessage(`{"a":"near"}`)}}}
	s := &State{Frames: map[string]*Frame{"": root, "0": inner}}
	if values := s.Reads(p, inner, &ir.Step{Reads: []ir.Ref{{Path: "state.a"}}}); string(
		values["state.a"],
	) != `"near"` {
		t.Errorf("%s", values)
	}
	inner.Scope = map[string]journal.Value{"out": {JSON: json.RawMessage(`"all"`)}, "out.b": {
		JSON: json.RawMessage(`1`),
	}}
	if values := s.Reads(p, inner, &ir.Step{Reads: []ir.Ref{{Path: "out"}}}); string(values["out"]) != `{"b":1}` {
		t.Errorf("%s", values)
	}
}
