package graph

import (
	"cmp"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// Tracker marks the progress of a run in its graph: the states of its steps, and the edges that it took. It holds no
// more than the graph and the frames that are open, however long the run is. It changes the graph in place, and is not
// safe for concurrent use.
//
// The journal does not name edges of pictures. A Tracker derives them: from the step that a frame was at, how it ended,
// and the step that the frame came to.
type Tracker struct {
	graph   *Graph
	program *ir.Program
	frame   string
	frames  map[string]*trackedFrame // by path; only drawn frames
	steps   map[string]string        // IDs by step path
	nodes   map[string]*Node
	shown   map[string]*Progress // of nodes and groups
	leaving map[string][]int     // edges by source
	changed map[string]bool      // IDs of nodes, groups and edges since the last call of takeChanges
}

// trackedFrame is a frame of the journal (one activation of a block) with its current step.
type trackedFrame struct {
	prefix  string // of its steps' paths in the picture
	block   ir.BlockID
	at      journal.Place
	node    string          // ID; empty before the first step
	outcome journal.Outcome // of the current step, or its state
	reason  string          // of its failure
	group   string          // ID of the group that the frame is one item of
	hidden  bool            // its group is folded
}

// Track returns a tracker for a run of the program that the graph was built from. frame is where the run starts in the
// journal: empty, or the frame of a child run.
func (g *Graph) Track(p *ir.Program, frame string) *Tracker {
	t := &Tracker{
		graph: g, program: p, frame: frame, frames: map[string]*trackedFrame{}, steps: map[string]string{},
		nodes: map[string]*Node{}, shown: map[string]*Progress{}, leaving: map[string][]int{},
		changed: map[string]bool{},
	}
	for n := range g.all() {
		t.nodes[n.ID], t.shown[n.ID] = n, &n.Progress
		if n.Step != "" && n.Kind != NodeArtifact {
			t.steps[n.Step] = n.ID
		}
		for _, step := range n.folded {
			t.steps[step] = n.ID
		}
	}
	for i := range g.Edges {
		t.leaving[g.Edges[i].From] = append(t.leaving[g.Edges[i].From], i)
	}
	if frame == "" {
		t.frames[""] = &trackedFrame{}
	}
	return t
}

// Apply applies one event of the run. Events have to come in the order of the journal. Events of other frames have no
// effect.
func (t *Tracker) Apply(e journal.Event) {
	at, state := ir.Millis(e.At), journal.StateAfter(e.Fact)
	switch x := e.Fact.(type) {
	case journal.FrameOpened:
		t.open(&x)
	case journal.FrameClosed:
		t.close(x.Frame, x.Outcome, at)
	case journal.RunFinished:
		t.close("", x.Outcome, at)
	case journal.StepEntered:
		t.enter(x.Place, state, at)
		if in := t.frames[x.Frame]; in != nil && x.Mode != plan.ModeCall && t.shown[in.node] != nil {
			t.shown[in.node].Items = &Items{Total: x.Total}
		}
	case journal.StepLeft:
		t.enter(x.Place, state, at)
		if in := t.frames[x.Frame]; in != nil {
			in.reason = x.Reason
		}
	case journal.Routed:
		t.routed(&x)
	case journal.Rewound:
		if in := t.frames[""]; in != nil { // no edge of the workflow led there
			in.node, in.outcome, in.at = "", "", journal.Place{}
		}
	case journal.TaskStarted:
		t.enter(x.Place, state, at)
	case journal.GateOpened:
		t.enter(x.Place, state, at)
	case journal.BudgetWait:
		if x.N == 0 {
			t.enter(x.Place, state, at)
		} else {
			t.state(x.Frame, state, at)
		}
	default:
		if place, ok := journal.PlaceOf(x); ok && state != "" {
			t.state(place.Frame, state, at)
		}
	}
}

// open determines where the steps of a new frame are drawn. Child runs have their own pictures. The prefix has to be
// built like the paths in builder.step.
func (t *Tracker) open(x *journal.FrameOpened) {
	if x.Frame == t.frame {
		t.frames[x.Frame] = &trackedFrame{block: ir.BlockID(x.Block)}
		return
	}
	outer := t.frames[x.Parent]
	if outer == nil || outer.hidden || x.Child != "" {
		return
	}
	step := t.program.Step(outer.block, x.Step)
	if step == nil {
		return
	}
	in := &trackedFrame{prefix: outer.prefix + x.Step + ".", block: ir.BlockID(x.Block)}
	if par, ok := step.Action.(ir.Parallel); ok && len(t.program.Blocks[in.block].Steps) != 1 {
		name := "each"
		if par.Each == nil {
			name = par.Branches[x.Index].Name
		}
		in.prefix += name + "."
	}
	t.frames[x.Frame] = in
	n := t.nodes[outer.node]
	in.hidden = n != nil && n.Kind == NodeFolded
	if g := t.shown[outer.node]; g != nil && g.Items != nil {
		in.group = outer.node
		g.Items.Running++
		g.Items.Total = max(g.Items.Total, g.Items.started())
		t.changed[in.group] = true
	}
}

// enter moves a frame to a step, and marks the edge that led there. Several facts about a step call it: only the first
// one of a visit moves the frame.
func (t *Tracker) enter(to journal.Place, state journal.State, at ir.Millis) {
	in := t.frames[to.Frame]
	if in == nil || in.hidden {
		return
	}
	if in.node == "" || in.at != to {
		id := t.steps[in.prefix+to.Step]
		if in.node == "" {
			t.markStart(id)
		} else {
			t.markTaken(in, func(e *Edge) bool { return e.To == id })
		}
		in.at, in.node = to, id
		t.start(id, at)
	}
	t.state(to.Frame, state, at)
}

// notHeld prefixes a condition that was evaluated and false.
const notHeld = "no – "

// routed marks the conditions that were false. The true one is the edge that was taken. The condition of an edge may
// have been evaluated before, with another result, so the mark is set or removed each time.
func (t *Tracker) routed(x *journal.Routed) {
	in := t.frames[x.Frame]
	if in == nil || in.node == "" {
		return
	}
	for _, one := range x.Tried {
		step := t.program.Step(in.block, cmp.Or(one.Of, x.Step))
		if step == nil || one.Edge >= len(step.Next) {
			continue
		}
		label := edgeLabel(step.Next[one.Edge])
		for _, i := range t.leaving[in.node] {
			e := &t.graph.Edges[i]
			if plain := strings.TrimPrefix(e.Label, notHeld); plain == label {
				if e.Label = plain; !one.Held {
					e.Label = notHeld + plain
				}
				break
			}
		}
	}
}

// markStart marks how the run started: manually, unless there is no manual trigger.
func (t *Tracker) markStart(first string) {
	chosen := -1
	for i := range t.graph.Edges {
		e := &t.graph.Edges[i]
		from := t.nodes[e.From]
		if from == nil || from.Kind != NodeStart && from.Kind != NodeTrigger {
			continue
		}
		if e.To == first && (chosen < 0 || from.Label == string(ir.OnDemand)) {
			chosen = i
		}
	}
	if chosen >= 0 {
		t.markEdge(chosen)
	}
}

// start records when a step was entered. A visit replaces the times of the one before.
func (t *Tracker) start(id string, at ir.Millis) {
	if p := t.shown[id]; p != nil {
		p.started, p.ended = at, 0
	}
}

// state sets the state of the current step of a frame.
func (t *Tracker) state(frame string, state journal.State, at ir.Millis) {
	in := t.frames[frame]
	if in == nil || in.node == "" {
		return
	}
	in.outcome = journal.Outcome(state)
	t.show(in.node, state, at)
}

// show sets the state of a node or group. A state in which the step is at work or waits removes the time of its end.
func (t *Tracker) show(id string, state journal.State, at ir.Millis) {
	var ended ir.Millis
	switch state {
	case journal.StateRunning, journal.StateWaiting, journal.StateSleeping, journal.StateUnknown:
	default:
		ended = at
	}
	if p := t.shown[id]; p != nil {
		p.State, p.ended = state, ended
		t.changed[id] = true
	}
}

// close removes a frame and marks the edge out of its block, which has no step at its end: the outcome of the frame
// determines the kind of the end.
func (t *Tracker) close(frame string, outcome journal.Outcome, at ir.Millis) {
	in := t.frames[frame]
	if in == nil {
		return
	}
	delete(t.frames, frame)
	if g := t.shown[in.group]; g != nil && g.Items != nil {
		g.Items.close(outcome)
		t.changed[in.group] = true
	}
	if in.hidden {
		return
	}
	if in.node == "" { // it never started: its condition was false or failed
		if steps := t.program.Blocks[in.block].Steps; frame != t.frame && len(steps) > 0 {
			t.show(t.steps[in.prefix+steps[0].ID], journal.State(outcome), at)
		}
		return
	}
	t.markTaken(in, func(e *Edge) bool {
		to := t.nodes[e.To]
		if to == nil || to.Step != "" {
			return false
		}
		switch outcome {
		case journal.OutcomeOK:
			return to.Kind == NodeEnd || to.exit == ir.ExitBlock
		case journal.OutcomeEnd:
			return to.Kind == NodeEnd
		case journal.OutcomeBreak:
			return to.exit == ir.ExitLoop
		case journal.OutcomeJump:
			return to.Kind == NodeExit && to.exit == ""
		case journal.OutcomeFailed:
			// A decision that ends in failure has failed itself. If it has several such edges, the reason tells which
			// one was taken.
			decided := in.outcome == journal.OutcomeFailed && e.on.has(ir.OK)
			return to.exit == ir.ExitFail && (!decided || to.Title == clean(in.reason))
		default:
			return false
		}
	})
}

// markTaken marks the edge that a frame followed out of its current step: the first one that leads to the right place
// and belongs to the outcome of the step.
func (t *Tracker) markTaken(in *trackedFrame, leads func(*Edge) bool) {
	tries := []ir.Outcome{in.outcome}
	switch in.outcome {
	case journal.OutcomeFailed:
		tries = append(tries, ir.Skipped) // the step is skipped on error
	case journal.OutcomeOK, journal.OutcomeSkipped, journal.OutcomeRejected:
	default: // a group that is left by a jump has no outcome of its own
		tries = []ir.Outcome{ir.OK}
	}
	for _, outcome := range tries {
		for _, i := range t.leaving[in.node] {
			e := &t.graph.Edges[i]
			if e.Kind.isControl() && (e.on == 0 || e.on.has(outcome)) && leads(e) {
				t.markEdge(i)
				return
			}
		}
	}
}

// markEdge marks an edge as taken. It stays so if a loop comes by again.
func (t *Tracker) markEdge(edge int) {
	e := &t.graph.Edges[edge]
	if !e.Taken {
		e.Taken = true
		t.changed[e.ID] = true
	}
}
