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

// Runs are pinned to the hash of these bytes, also those of earlier versions.
func TestADefinitionIsWrittenAsEver(t *testing.T) {
	when, problems := expr.Parse(expr.AgentFlow, `state.a < 3 and state.b == "<&>"`, source.Span{File: "f.md", Start: 3, End: 9})
	if problems.Errors() {
		t.Fatal(problems)
	}
	d := &engine.Definition{
		Program: &ir.Program{Name: "a <b> & \u2028", Format: "x", Blocks: []ir.Block{{Steps: []ir.Step{
			{ID: "s", Type: "task", When: when, Action: ir.Task{Kind: "k"}, Next: []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: ir.ExitBlock}}}},
		}}}},
		Path: "f.md", Sources: []ir.File{{}},
	}
	want, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := d.Encode(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n%s\n%s", err, got, want)
	}
}
