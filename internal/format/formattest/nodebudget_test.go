package formattest

import (
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// A node whose second call does not fit the budget stops the run there. With
// more it goes on inside of the node, and the first call is not made again.
func TestBudgetStopsInsideANode(t *testing.T) {
	trial := func(do ...string) *trial {
		a, err := txtar.ParseFile("testdata/runs/nof/second-call-fails.txtar")
		if err != nil {
			t.Fatal(err)
		}
		tr := newTrial(a)
		tr.do = do
		tr.script = `replies:
  - {reply: {"recommendations": [], "rules_applied": [], "meta_insight": "m", "analysis_data": {"score": 0.5}}, usage: {input: 300, output: 1000}}
`
		tr.change = func(p *ir.Program) {
			p.Budget.Tokens = &ir.Limit{Max: 1400}
			for i := range p.Agents {
				p.Agents[i].MaxTokens = 1000
			}
		}
		return tr
	}
	h := trial().run(t)
	if n, _ := replies(h.events); n != 1 || h.entry.Status != journal.Exceeded || len(h.state.OpenTasks()) != 1 {
		t.Fatalf("%d calls, the run is %s, finished %+v", n, h.entry.Status, h.state.Finished)
	}
	h = trial("raise tokens 100000").run(t)
	if n, _ := replies(h.events); n != 4 || h.state.Finished == nil || h.state.Finished.Outcome != "ok" {
		t.Errorf("%d calls, %+v", n, h.state.Finished)
	}
}
