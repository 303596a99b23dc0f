package graph

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// megabyte is the largest size of a picture of any program.
const megabyte = 1 << 20

// largePrograms returns programs of 20,000 steps, by form.
func largePrograms() map[string]*ir.Program {
	const n = 20_000
	chain := newFlow("chain", "")
	choices := newFlow("choices", "")
	for i := range n {
		chain.add(step(fmt.Sprint("step_", i), "skill", "Does something worth a sentence.", work("agent", "writer")))
		s := choices.add(step(fmt.Sprint("choice_", i), "decision", "Which way?", ir.Route{}))
		s.Next = []ir.Edge{
			branch("left", fmt.Sprint("choice_", (i+1)%n)), branch("right", fmt.Sprint("choice_", (i*7+3)%n)),
			{
				On: []ir.Outcome{ir.OK}, To: ir.Target{Exit: ir.ExitFail, Reason: fmt.Sprint("NONE_", i%5)},
				Label: "none",
			},
		}
	}
	inner := func(f *flow, name string) ir.BlockID {
		b := ir.Block{}
		for i := range 20 {
			s := step(fmt.Sprint(name, "_", i), "tool", "Does something.", work("tool", "x"))
			if i < 19 {
				s.Next = []ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: fmt.Sprint(name, "_", i+1)}}}
			}
			b.Steps = append(b.Steps, s)
		}
		return f.program.AddBlock(b)
	}
	wide, loops := newFlow("wide", ""), newFlow("loops", "")
	var fan ir.Parallel
	for i := range n / 20 {
		fan.Branches = append(fan.Branches, ir.Branch{Name: fmt.Sprint("b", i), Block: inner(wide, fmt.Sprint("w", i))})
		loops.add(step(fmt.Sprint("loop_", i), "loop", "", ir.Loop{Block: inner(loops, fmt.Sprint("l", i)), Max: 3}))
	}
	wide.add(step("fan", "parallel", "", fan))
	return map[string]*ir.Program{
		"chain": chain.done(), "choices": choices.done(), "fan-out": wide.done(), "loops": loops.done(),
	}
}

func TestPictureOfAnyProgramIsBounded(t *testing.T) {
	for name, p := range largePrograms() {
		t.Run(name, func(t *testing.T) {
			g := Build(p, Options{})
			if n := len(g.Nodes) + len(g.Groups); n > 2*maxSteps {
				t.Errorf("%d nodes and groups", n)
			}
			var out bytes.Buffer
			if err := g.SVG(&out); err != nil {
				t.Fatal(err)
			}
			if out.Len() > megabyte {
				t.Errorf("the picture has %d bytes", out.Len())
			}
			picture, err := arrange(g, &large)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range checkPicture(g, picture) {
				t.Error(w)
			}
		})
	}
}

func TestFoldedStepsKeepTheirEdgesAndStates(t *testing.T) {
	p := largePrograms()["chain"]
	g := Build(p, Options{})
	fold := ""
	for _, n := range g.Nodes {
		if n.Kind == NodeFolded {
			fold = n.ID
			if n.Title != "19,700 steps" {
				t.Errorf("the fold is called %q", n.Title)
			}
		}
	}
	last := fmt.Sprint("step_", len(p.Blocks[0].Steps)-foldTail)
	found := 0
	for _, e := range drawn(g, EdgeFlow) {
		if strings.HasSuffix(e, "-> "+fold) || e == fold+" -flow-> "+last {
			found++
		}
		if strings.Count(e, fold) > 1 {
			t.Errorf("an edge inside the fold: %s", e)
		}
	}
	if found != 2 {
		t.Errorf("%d edges into and out of the fold, want 2", found)
	}
	track(g, p, started("step_5000", ""), ended("step_5000", journal.OutcomeFailed))
	for _, n := range g.Nodes {
		if n.ID == fold && n.State != journal.StateFailed {
			t.Errorf("the fold is %q after a step in it failed", n.State)
		}
	}
}

// iteration returns the facts of one iteration of the loop "pages".
func iteration(i int) []journal.Fact {
	frame := fmt.Sprintf("pages[%d]", i)
	var facts []journal.Fact
	facts = append(facts, journal.FrameOpened{Frame: frame, Step: "pages", Block: 1, Index: i})
	for _, step := range []string{"fetch", "parse"} {
		w := journal.TaskID{Place: journal.Place{Frame: frame, Step: step}}
		facts = append(facts, journal.TaskStarted{TaskID: w},
			journal.TaskEnded{TaskID: w, Outcome: journal.OutcomeOK, Final: true})
	}
	return append(facts, journal.FrameClosed{Frame: frame, Outcome: journal.OutcomeOK})
}

func TestPictureDoesNotGrowWithIterations(t *testing.T) {
	p := loops()
	size := func(iterations int) (nodes, bytesWritten int, tr *Tracker) {
		g := Build(p, Options{})
		tr = track(g, p, journal.StepEntered{Place: journal.Place{Step: "pages"}, Mode: plan.ModeLoop})
		for i := range iterations {
			for _, fact := range iteration(i) {
				tr.Apply(journal.Event{Fact: fact})
			}
		}
		var out bytes.Buffer
		if err := g.SVG(&out); err != nil {
			t.Fatal(err)
		}
		return len(g.Nodes) + len(g.Groups), out.Len(), tr
	}
	nodes, few, _ := size(2)
	same, many, tr := size(10_000)
	if same != nodes || many > few+100 {
		t.Errorf("%d nodes and %d bytes after 2 iterations, %d and %d after 10,000", nodes, few, same, many)
	}
	if len(tr.frames) != 1 || len(tr.changed) > nodes+len(tr.graph.Edges) {
		t.Errorf("the tracker holds %d frames and %d changes", len(tr.frames), len(tr.changed))
	}
	facts := iteration(10_000)
	allocations := testing.AllocsPerRun(100, func() {
		for _, fact := range facts {
			tr.Apply(journal.Event{Fact: fact})
		}
	})
	if allocations > 20 {
		t.Errorf("%v allocations for one iteration", allocations)
	}
	if items := tr.shown["step-pages"].Items; items == nil || items.OK != 10_000+101 || items.Running != 0 {
		t.Errorf("the loop counts %+v", items)
	}
}
