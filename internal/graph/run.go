package graph

import (
	"cmp"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// States of steps in the picture of a run, in addition to the outcomes.
const (
	stateRunning = "running"
	stateWaiting = "waiting" // for a person, an event, a time or budget
	stateDoubt   = "in doubt"
)

// Follow marks the progress of a run: the states of its steps, and the edges that it took. The
// graph must have been built from the program. frame is where the run starts in the journal:
// empty, or the frame of a child run.
func (g *Graph) Follow(p *ir.Program, frame string, events []journal.Event) {
	f := follower{g: g, program: p, frame: frame, frames: map[string]*followed{}, nodes: map[string]string{}}
	for i := range g.Nodes {
		switch n := &g.Nodes[i]; n.Kind {
		case NodeStep, NodeWait, NodeEnd:
			if n.Step != "" {
				f.nodes[n.Step] = n.ID
			}
		}
	}
	for i := range g.Groups {
		f.nodes[g.Groups[i].Step] = g.Groups[i].ID
	}
	if frame == "" {
		f.frames[""] = &followed{}
	}
	for i := range events {
		f.apply(events[i].Fact)
	}
}

// follower applies the facts of a run to the picture.
type follower struct {
	g       *Graph
	program *ir.Program
	frame   string
	frames  map[string]*followed // by path; only drawn frames
	nodes   map[string]string    // IDs by step path
}

// followed is a frame with its current step.
type followed struct {
	prefix  string // of its steps' paths in the picture
	block   ir.BlockID
	at      journal.Place
	node    string // ID; empty before the first step
	outcome string // of the current step
}

// apply applies one fact.
func (f *follower) apply(fact journal.Fact) {
	switch x := fact.(type) {
	case journal.FrameOpened:
		f.open(&x)
	case journal.FrameClosed:
		f.close(x.Frame, x.Outcome)
	case journal.RunFinished:
		f.close("", x.Outcome)
	case journal.StepEntered:
		f.enter(x.Place, x.For, stateRunning)
	case journal.StepLeft:
		f.enter(x.Place, x.For, string(x.Outcome))
	case journal.Routed:
		f.routed(&x)
	case journal.Rewound:
		if in := f.frames[""]; in != nil { // no edge of the workflow led there
			in.node, in.outcome, in.at = "", "", journal.Place{}
		}
	case journal.TaskStarted:
		f.enter(x.Place, x.For, stateRunning)
	case journal.TaskEnded:
		if x.Final {
			f.state(x.Frame, string(x.Outcome))
		}
	case journal.TaskLost:
		f.state(x.Frame, stateDoubt)
	case journal.RetrySet:
		f.state(x.Frame, stateWaiting)
	case journal.BudgetWait:
		if x.N == 0 {
			f.enter(x.Place, x.For, stateWaiting)
		} else {
			f.state(x.Frame, stateWaiting)
		}
	case journal.Reserved:
		f.state(x.Frame, stateRunning)
	case journal.GateOpened:
		state := stateWaiting
		if x.Kind == journal.GateInDoubt {
			state = stateDoubt
		}
		f.enter(x.Place, x.For, state)
	case journal.GateDecided:
		if x.Outcome == journal.OutcomeRerun {
			f.state(x.Frame, stateRunning)
		} else {
			f.state(x.Frame, string(x.Outcome))
		}
	}
}

// open determines where the steps of a new frame are drawn. Child runs have their own pictures.
func (f *follower) open(x *journal.FrameOpened) {
	if x.Frame == f.frame {
		f.frames[x.Frame] = &followed{block: ir.BlockID(x.Block)}
		return
	}
	outer := f.frames[x.Parent]
	if outer == nil || x.Child != "" {
		return
	}
	step := f.program.Step(outer.block, x.Step)
	if step == nil {
		return
	}
	in := &followed{prefix: outer.prefix + x.Step + ".", block: ir.BlockID(x.Block)}
	if par, ok := step.Action.(ir.Parallel); ok && len(f.program.Blocks[in.block].Steps) != 1 {
		name := "each"
		if par.Each == nil {
			name = par.Branches[x.Index].Name
		}
		in.prefix += name + "."
	}
	f.frames[x.Frame] = in
}

// enter moves a frame to a step, and marks the edge that led there.
func (f *follower) enter(at journal.Place, fallbackFor, state string) {
	in := f.frames[at.Frame]
	if in == nil {
		return
	}
	if in.node == "" || in.at != at {
		to := f.nodes[in.prefix+at.Step]
		kinds := []EdgeKind{EdgeFlow, EdgeBranch, EdgeJump, EdgeSkipped, EdgeRejected, EdgeFailed, EdgeFallback}
		switch {
		case fallbackFor != "" && in.at.Step != "":
			kinds = append([]EdgeKind{EdgeFallback}, kinds...)
		case journal.Outcome(in.outcome) == journal.OutcomeRejected:
			kinds = append([]EdgeKind{EdgeRejected}, kinds...)
		case journal.Outcome(in.outcome) == journal.OutcomeSkipped:
			kinds = append([]EdgeKind{EdgeSkipped}, kinds...)
		}
		if in.node == "" {
			f.begin(to)
		} else {
			f.markTaken(in.node, kinds, func(n string) bool { return n == to })
		}
		in.at, in.node = at, to
	}
	f.state(at.Frame, state)
}

// notHeld prefixes a condition that was evaluated and false.
const notHeld = "no – "

// routed marks the conditions that were false. The true one is the edge that was taken.
func (f *follower) routed(x *journal.Routed) {
	in := f.frames[x.Frame]
	if in == nil || in.node == "" {
		return
	}
	for _, one := range x.Tried {
		step := f.program.Step(in.block, cmp.Or(one.Of, x.Step))
		if step == nil || one.Edge >= len(step.Next) {
			continue
		}
		label := edgeLabel(step.Next[one.Edge])
		for i := range f.g.Edges {
			e := &f.g.Edges[i]
			if plain := strings.TrimPrefix(e.Label, notHeld); e.From == in.node && plain == label {
				if e.Label = plain; !one.Held {
					e.Label = notHeld + plain
				}
				break
			}
		}
	}
}

// begin marks how the run started: manually, unless there is no manual trigger.
func (f *follower) begin(first string) {
	chosen := -1
	for i := range f.g.Edges {
		e := &f.g.Edges[i]
		from := f.g.node(e.From)
		if e.To != first || from == nil || from.Kind != NodeStart && from.Kind != NodeTrigger {
			continue
		}
		if chosen < 0 || from.Label == string(ir.OnDemand) {
			chosen = i
		}
	}
	if chosen >= 0 {
		f.g.Edges[chosen].Taken = true
	}
}

func (f *follower) state(frame, state string) {
	in := f.frames[frame]
	if in == nil || in.node == "" {
		return
	}
	in.outcome = state
	f.show(in.node, state)
}

func (f *follower) show(id, state string) {
	if n := f.g.node(id); n != nil {
		n.State = state
		return
	}
	for i := range f.g.Groups {
		if f.g.Groups[i].ID == id {
			f.g.Groups[i].State = state
		}
	}
}

// close marks the edge out of a block.
func (f *follower) close(frame string, outcome journal.Outcome) {
	in := f.frames[frame]
	if in == nil {
		return
	}
	delete(f.frames, frame)
	if in.node == "" { // it never started: its condition was false or failed
		if steps := f.program.Blocks[in.block].Steps; frame != f.frame && len(steps) > 0 {
			f.show(f.nodes[in.prefix+steps[0].ID], string(outcome))
		}
		return
	}
	good := outcome == journal.OutcomeOK || outcome == journal.OutcomeEnd || outcome == journal.OutcomeBreak ||
		outcome == journal.OutcomeJump
	kinds := []EdgeKind{EdgeFlow, EdgeBranch, EdgeJump, EdgeSkipped, EdgeRejected}
	if outcome == journal.OutcomeFailed {
		kinds = []EdgeKind{EdgeFailed}
	}
	if !good && outcome != journal.OutcomeFailed {
		return
	}
	f.markTaken(in.node, kinds, func(id string) bool {
		to := f.g.node(id)
		if to == nil || to.Step != "" {
			return false
		}
		return good && (to.Kind == NodeEnd || to.Kind == NodeExit) || !good && to.Kind == NodeFail
	})
}

// markTaken marks the first matching edge, by order of kinds.
func (f *follower) markTaken(from string, kinds []EdgeKind, to func(string) bool) {
	for _, kind := range kinds {
		for i := range f.g.Edges {
			e := &f.g.Edges[i]
			if e.From == from && e.Kind == kind && to(e.To) {
				e.Taken = true
				return
			}
		}
	}
}

func (g *Graph) node(id string) *Node {
	for i := range g.Nodes {
		if g.Nodes[i].ID == id {
			return &g.Nodes[i]
		}
	}
	return nil
}
