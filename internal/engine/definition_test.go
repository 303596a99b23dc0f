package engine_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Runs are pinned to the hash of these bytes, including runs of earlier versions.
func TestDefinitionIsEncodedLikeEncodingJSON(t *testing.T) {
	when, problems := expr.Parse(
		expr.AgentFlow, `state.a < 3 and state.b == "<&>"`, source.Span{File: "f.md", Start: 3, End: 9},
	)
	if problems.Errors() {
		t.Fatal(problems)
	}
	for _, d := range []*engine.Definition{
		{
			Program: &ir.Program{Name: "a <b> & \u2028", Format: "x", Blocks: []ir.Block{{Steps: []ir.Step{
				{ID: "s", Type: "task", When: when, Action: ir.Task{Kind: "k"}, Next: []ir.Edge{{
					On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: ir.ExitBlock},
				}}},
			}}}},
			Path: "f.md", Sources: []ir.File{{}},
		},
		{Program: &ir.Program{Vars: []ir.Var{{Path: "a", Init: json.RawMessage("[\"\u2028\"]")}}}},
		{Program: &ir.Program{Vars: []ir.Var{{Path: "a", Init: json.RawMessage("[\"\u2029\", \"\xff\"]")}}}},
		{Program: &ir.Program{Name: "\xff"}},
		{Program: &ir.Program{Name: "plain, and – not"}},
	} {
		want, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := d.Encode(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v\n%s\n%s", err, got, want)
		}
	}
}

// A definition that could not be decoded at a resume cannot start a run.
func TestInvalidDefinitionIsNotEncoded(t *testing.T) {
	for _, text := range []string{`state.a ==`, `state.a <`} { // with and without escapes
		broken, problems := expr.Parse(expr.AgentFlow, text, source.Span{})
		if !problems.Errors() {
			t.Fatalf("%q is an expression", text)
		}
		d := &engine.Definition{Program: &ir.Program{Blocks: []ir.Block{{
			Steps: []ir.Step{{ID: "s", When: broken, Action: ir.Route{}}},
		}}}}
		if raw, _, err := d.Encode(); err == nil {
			t.Errorf("%s was written", raw)
		}
	}
}

// Unset fields are omitted, so that a new field does not change the hash of
// existing definitions.
func TestDefinitionOmitsUnsetFields(t *testing.T) {
	d := &engine.Definition{
		Program: &ir.Program{
			Name: "n", Format: "x", Blocks: []ir.Block{
				{Steps: []ir.Step{
					{ID: "t", Type: "task", Timeout: 5, Action: ir.Task{Kind: "k"}},
					{ID: "r", Action: ir.Route{}},
					{ID: "g", Action: ir.Gate{}},
					{ID: "p", Action: ir.Parallel{Branches: []ir.Branch{{Name: "b", Block: 1}}}},
					{ID: "l", Action: ir.Loop{Block: 1}},
					{ID: "c", Timeout: 7, Action: ir.Call{}},
					{ID: "e", Action: ir.End{}},
				}},
				{Steps: []ir.Step{{
					ID: "x", Retry: &ir.Retry{}, Next: []ir.Edge{{}}, Reads: []ir.Ref{{}}, Writes: []ir.Write{{}},
					Action: ir.Route{},
				}}},
			},
			Children: []ir.Program{{Name: "c", Blocks: []ir.Block{{Steps: []ir.Step{{ID: "e", Action: ir.End{}}}}}}},
		},
		Path: "f.md",
	}
	const want = `{"program":{"format":"x","name":"n","blocks":[{"steps":[{"id":"t","type":"task","timeout":5,"task":{"kind":"k"}},` +
		`{"id":"r","type":"","route":{}},{"id":"g","type":"","gate":{"decider":""}},` +
		`{"id":"p","type":"","parallel":{"branches":[{"name":"b","block":1}],"join":""}},{"id":"l","type":"","loop":{"block":1}},` +
		`{"id":"c","type":"","timeout":7,"call":{"child":0}},{"id":"e","type":"","end":{}}]},` +
		`{"steps":[{"id":"x","type":"","reads":[{"path":""}],"writes":[{"path":""}],"retry":{"max_attempts":0,"backoff":""},"next":[{"on":null,"to":{}}],"route":{}}]}],` +
		`"children":[{"format":"","name":"c","blocks":[{"steps":[{"id":"e","type":"","end":{}}]}]}]},"path":"f.md","sources":null}`
	if got, _, err := d.Encode(); err != nil || string(got) != want {
		t.Errorf("%v\n%s\n%s", err, got, want)
	}
}
