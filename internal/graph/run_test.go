package graph

import (
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// After a person rewinds the run to its first step, the back edge of the workflow is not marked
// as taken.
func TestRewindDoesNotMarkBackEdge(t *testing.T) {
	f := newFlow("back", "")
	f.add(step("draft", "task", "", ir.Task{Kind: "agent"}))
	review := f.add(step("review", "gate", "", ir.Gate{Decider: ir.Person}))
	review.Next = append(review.Next, ir.Edge{On: []ir.Outcome{ir.Rejected}, To: ir.Target{Step: "draft"}})
	p := f.done()
	at := func(step string, visit int) journal.Place { return journal.Place{Step: step, Visit: visit} }
	events := []journal.Event{
		{Fact: journal.TaskStarted{Work: journal.Work{Place: at("draft", 0)}}},
		{Fact: journal.TaskEnded{Work: journal.Work{Place: at("draft", 0)}, Outcome: journal.OutcomeOK, Final: true}},
		{Fact: journal.GateOpened{Place: at("review", 0)}},
		{Fact: journal.StepLeft{Place: at("review", 0), Outcome: journal.OutcomeCancelled}},
		{Fact: journal.Rewound{Step: "draft"}},
		{Fact: journal.TaskStarted{Work: journal.Work{Place: at("draft", 1)}}},
	}
	g := Build(p, Options{})
	g.Follow(p, "", events)
	var gate string
	for _, n := range g.Nodes {
		if n.Step == "review" {
			gate = n.ID
		}
		if n.Step == "draft" && n.State != stateRunning {
			t.Errorf("draft is %q", n.State)
		}
	}
	for _, e := range g.Edges {
		if e.From == gate && e.Taken {
			t.Errorf("the edge %+v was not taken", e)
		}
	}
}
