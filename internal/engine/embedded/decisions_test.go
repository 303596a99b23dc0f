package embedded_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/source"
)

// A run that only makes decisions can be stopped between them, and continues from
// there.
func TestRunWithoutTasksCanBeStopped(t *testing.T) {
	always, problems := expr.Parse(expr.AgentFlow, "true", source.Span{})
	if problems.Errors() {
		t.Fatal(problems)
	}
	p := enginetest.Program(
		[]ir.Step{{ID: "outer", Action: ir.Loop{Block: 1, Max: 5000, While: always}}},
		[]ir.Step{{ID: "inner", Action: ir.Loop{Block: 2, Max: 5000, While: always}}},
		[]ir.Step{{ID: "on", Action: ir.Route{}}},
	)
	store := memorytest.New()
	defer store.Close()
	var reached journal.Seq
	for _, name := range []string{"first", "second"} {
		e := open(t, store, enginetest.NewKind(), name)
		if name == "first" {
			enginetest.Begin(t, e, p)
		} else if err := e.Resume(t.Context(), enginetest.ID); err != nil {
			t.Fatal(err)
		}
		until(t, store, func(e journal.Entry) bool { return e.Seq > reached+20_000 })
		enginetest.Stop(e)
		entry, err := store.Entry(t.Context(), enginetest.ID)
		if err != nil || entry.Status == journal.Finished || entry.Owner != "" {
			t.Fatalf("%+v %v", entry, err)
		}
		reached = entry.Seq
	}
}
