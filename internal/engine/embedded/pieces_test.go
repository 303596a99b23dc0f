package embedded_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memory"
	"github.com/espalier-run/espalier/internal/source"
)

// A run in which nothing but decisions is made can be stopped between them, and
// goes on from there.
func TestARunOfDecisionsAloneIsStopped(t *testing.T) {
	always, problems := expr.Parse(expr.AgentFlow, "true", source.Span{})
	if problems.Errors() {
		t.Fatal(problems)
	}
	p := program(
		[]ir.Step{{ID: "outer", Action: ir.Loop{Block: 1, Max: 5000, While: always}}},
		[]ir.Step{{ID: "inner", Action: ir.Loop{Block: 2, Max: 5000, While: always}}},
		[]ir.Step{{ID: "on", Action: ir.Route{}}},
	)
	store := memory.New()
	defer store.Close()
	var reached journal.Seq
	for _, name := range []string{"first", "second"} {
		e := open(t, store, newKind(), name)
		if name == "first" {
			begin(t, e, p)
		} else if err := e.Resume(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		until(t, store, func(e journal.Entry) bool { return e.Seq > reached+20_000 })
		stop(e)
		entry, err := store.Entry(t.Context(), id)
		if err != nil || entry.Status == journal.Finished || entry.Owner != "" {
			t.Fatalf("%+v %v", entry, err)
		}
		reached = entry.Seq
	}
}
