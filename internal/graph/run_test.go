package graph

import (
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// After a person rewinds the run to its first step, the back edge of the workflow is not marked as taken.
func TestRewindDoesNotMarkBackEdge(t *testing.T) {
	f := newFlow("back", "")
	f.add(step("draft", "task", "", ir.Task{Kind: "agent"}))
	review := f.add(step("review", "gate", "", ir.Gate{Decider: ir.Person}))
	review.Next = append(review.Next, ir.Edge{On: []ir.Outcome{ir.Rejected}, To: ir.Target{Step: "draft"}})
	p := f.done()
	at := func(step string, visit int) journal.Place { return journal.Place{Step: step, Visit: visit} }
	events := []journal.Fact{
		journal.TaskStarted{TaskID: journal.TaskID{Place: at("draft", 0)}},
		journal.TaskEnded{TaskID: journal.TaskID{Place: at("draft", 0)}, Outcome: journal.OutcomeOK, Final: true},
		journal.GateOpened{Place: at("review", 0)},
		journal.StepLeft{Place: at("review", 0), Outcome: journal.OutcomeCanceled},
		journal.Rewound{Step: "draft"},
		journal.TaskStarted{TaskID: journal.TaskID{Place: at("draft", 1)}},
	}
	g := Build(p, Options{})
	track(g, p, events...)
	var gate string
	for _, n := range g.Nodes {
		if n.Step == "review" {
			gate = n.ID
		}
		if n.Step == "draft" && n.State != journal.StateRunning {
			t.Errorf("draft is %q", n.State)
		}
	}
	for _, e := range g.Edges {
		if e.From == gate && e.Taken {
			t.Errorf("the edge %+v was not taken", e)
		}
	}
}

// track applies facts to a graph, one second apart.
func track(g *Graph, p *ir.Program, facts ...journal.Fact) *Tracker {
	t := g.Track(p, "")
	for i, fact := range facts {
		t.Apply(journal.Event{At: journal.Millis(1000 * (i + 1)), Fact: fact})
	}
	return t
}

// takenEdges returns the edges that a run took, as "from -kind-> to [label]".
func takenEdges(g *Graph) []string {
	all := *g
	all.Edges = slices.DeleteFunc(slices.Clone(g.Edges), func(e Edge) bool { return !e.Taken })
	return drawn(&all, EdgeFlow, EdgeBranch, EdgeJump, EdgeSkipped, EdgeRejected, EdgeFailed, EdgeFallback)
}

func left(step string, outcome journal.Outcome, reason string) journal.Fact {
	return journal.StepLeft{Place: journal.Place{Step: step}, Outcome: outcome, Reason: reason}
}

func started(step, fallbackFor string) journal.Fact {
	return journal.TaskStarted{TaskID: journal.TaskID{Place: journal.Place{Step: step}}, For: fallbackFor}
}

func ended(step string, outcome journal.Outcome) journal.Fact {
	return journal.TaskEnded{TaskID: journal.TaskID{Place: journal.Place{Step: step}}, Outcome: outcome, Final: true}
}

// reviewed has a step with a condition, a fallback and a jump: skipped or failed, it is replaced by its fallback.
func reviewed() *ir.Program {
	f := newFlow("reviewed", "")
	s := f.add(step("review", "skill", "", work("agent", "critic")))
	s.When, s.Fallback = cond("input.risky"), &ir.Name{Name: "auto"}
	s.Next = []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "publish"}}}
	f.add(step("auto", "transform", "", work("transform", "")))
	f.off["auto"] = true
	f.add(step("log", "tool", "", work("tool", "log")))
	f.add(step("publish", "tool", "", work("tool", "cms")))
	return f.done()
}

func TestSkippedEdgeLeadsToFallback(t *testing.T) {
	g := Build(reviewed(), Options{})
	wantEdges(t, drawn(g, EdgeSkipped, EdgeFallback),
		"review -skipped-> auto [skipped]", "review -fallback-> auto [fallback]", "auto -skipped-> log [skipped]")
}

func TestFallbackIsTakenOnlyAfterFailure(t *testing.T) {
	p := reviewed()
	g := Build(p, Options{})
	track(g, p, left("review", journal.OutcomeSkipped, plan.ReasonCondition), started("auto", "review"))
	wantEdges(t, takenEdges(g), "start -flow-> review", "review -skipped-> auto [skipped]")

	g = Build(p, Options{})
	track(g, p, started("review", ""), ended("review", journal.OutcomeFailed), started("auto", "review"),
		ended("auto", journal.OutcomeOK), started("publish", ""))
	wantEdges(t, takenEdges(g), "start -flow-> review", "review -fallback-> auto [fallback]", "auto -jump-> publish")
}

func TestTakenEdgeBelongsToOutcome(t *testing.T) {
	f := newFlow("gate", "")
	s := f.add(step("gate", "gate", "", ir.Gate{Decider: ir.Person}))
	s.Next = []ir.Edge{{On: []ir.Outcome{ir.Rejected}, To: ir.Target{Step: "next"}}}
	s = f.add(step("next", "tool", "", work("tool", "x")))
	s.SkipOnError = true
	f.add(step("last", "tool", "", work("tool", "x")))
	p := f.done()
	decided := func(outcome journal.Outcome) []journal.Fact {
		at := journal.Place{Step: "gate"}
		return []journal.Fact{
			journal.GateOpened{Place: at},
			journal.GateDecided{Place: at, Outcome: outcome},
			started("next", ""), ended("next", journal.OutcomeFailed), started("last", ""),
		}
	}
	g := Build(p, Options{})
	track(g, p, decided(journal.OutcomeRejected)...)
	wantEdges(t, takenEdges(g), "start -flow-> gate", "gate -rejected-> next [rejected]", "next -flow-> last")
	g = Build(p, Options{})
	track(g, p, decided(journal.OutcomeOK)...)
	wantEdges(t, takenEdges(g), "start -flow-> gate", "gate -flow-> next", "next -flow-> last")
}

func TestLoopExitThatWasTakenIsMarked(t *testing.T) {
	p := loops()
	enter := []journal.Fact{
		journal.StepEntered{Place: journal.Place{Step: "pages"}, Mode: plan.ModeLoop},
		journal.FrameOpened{Frame: "pages[0]", Step: "pages", Block: 1},
	}
	in := func(step string, outcome journal.Outcome) []journal.Fact {
		w := journal.TaskID{Place: journal.Place{Frame: "pages[0]", Step: step}}
		return []journal.Fact{
			journal.TaskStarted{TaskID: w}, journal.TaskEnded{TaskID: w, Outcome: outcome, Final: true},
		}
	}
	for outcome, want := range map[journal.Outcome]string{
		journal.OutcomeBreak: "pages.parse -branch-> exit-pages.parse [page.last]",
		journal.OutcomeJump:  "pages.parse -branch-> exit-pages.parse~2 [page.broken]",
		journal.OutcomeOK:    "pages.parse -jump-> exit-pages.parse~3",
	} {
		g := Build(p, Options{})
		track(g, p, slices.Concat(enter, in("fetch", journal.OutcomeOK), in("parse", journal.OutcomeOK),
			[]journal.Fact{journal.FrameClosed{Frame: "pages[0]", Outcome: outcome}})...)
		if got := takenEdges(g); !slices.Contains(got, want) || len(got) != 3 {
			t.Errorf("%s: %q, want %q among three", outcome, got, want)
		}
	}
	g := Build(p, Options{})
	track(g, p, slices.Concat(enter, in("fetch", journal.OutcomeFailed),
		[]journal.Fact{journal.FrameClosed{Frame: "pages[0]", Outcome: journal.OutcomeBreak}})...)
	wantEdges(t, takenEdges(g), "start -flow-> pages", "pages.fetch -failed-> exit-pages.fetch [on error]")
}
