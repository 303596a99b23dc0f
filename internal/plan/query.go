package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/jsonfast"
)

// paths are the open frames in an order that never changes.
func (s *State) paths() []string { return slices.Sorted(maps.Keys(s.Frames)) }

// OpenTask is a task that was started and has not ended.
type OpenTask struct {
	journal.Work
	Rerun int
	Frame *Frame
}

// OpenTasks lists the tasks that were started and have not ended.
func (s *State) OpenTasks() []OpenTask {
	var out []OpenTask
	for _, path := range s.paths() {
		if f := s.Frames[path]; f.Phase == Working {
			out = append(out, OpenTask{Work: f.Work(), Rerun: f.Rerun, Frame: f})
		}
	}
	return out
}

// OpenGates lists the frames whose gates are open.
func (s *State) OpenGates() []*Frame {
	var out []*Frame
	for _, path := range s.paths() {
		if f := s.Frames[path]; f.Phase == Asking {
			out = append(out, f)
		}
	}
	return out
}

// MayBeInDoubt tells whether a decision names a task that is open: should its
// process be gone, it is in doubt as soon as somebody takes the run over.
func (s *State) MayBeInDoubt(in Input) bool {
	x, ok := in.(Decision)
	return ok && slices.ContainsFunc(s.OpenTasks(), func(t OpenTask) bool { return x.Step == t.Frame.Step || x.Step == t.Place.Key() })
}

// Resumable tells whether a task may go on from what it had noted: it is open,
// in doubt, or waits for an answer or for some time to pass. Its notes, and those of all others like it,
// stand behind the event since.
func (s *State) Resumable() (since journal.Seq, ok bool) {
	for _, f := range s.Frames {
		asked := f.Gate != nil && (f.Gate.Kind == journal.GateInDoubt || f.Gate.Kind == journal.GateToolCall)
		again := (f.Phase == Ready || f.Phase == Resting) && f.Rerun > 0
		if f.Phase != Working && f.Phase != Lost && !asked && !again {
			continue
		}
		if !ok || f.Begun < since {
			since = f.Begun
		}
		ok = true
	}
	return since, ok
}

// StepOf is the step at which a frame stands.
func (s *State) StepOf(p *Program, f *Frame) *ir.Step { return p.unit(f.Program).step(f.Block, f.Step) }

// Root is the run's own program.
func (p *Program) Root() *ir.Program { return p.unit("").ir }

// At is a program by the path that facts name it with: the run's own when it is empty.
func (p *Program) At(path string) *ir.Program { return p.unit(path).ir }

// ProgramOf is the program that a frame runs: the run's own, or a child's.
func (p *Program) ProgramOf(f *Frame) *ir.Program { return p.unit(f.Program).ir }

// Iteration is the index of the innermost loop or fan-out around a frame.
func (s *State) Iteration(f *Frame) int {
	for ; f.Path != ""; f = s.Frames[f.Parent] {
		if len(f.Own) > 0 {
			return f.Index
		}
	}
	return 0
}

// Shown is exactly what a gate shows: the values of its step's reads, or the
// call that a task wants to make; and their digest, which a decision has to name.
func (s *State) Shown(p *Program, f *Frame) (map[string]json.RawMessage, string) {
	if f.Gate.Kind != journal.GateToolCall {
		return s.shown(p, f, s.StepOf(p, f), f.Work().Key(), f.Gate.Kind)
	}
	shows := make(map[string]json.RawMessage, len(f.Gate.Shows))
	for name, v := range f.Gate.Shows {
		raw, err := p.raw(v)
		if err != nil {
			raw = nil // then the digest does not fit, and nobody can decide on it
		}
		shows[name] = raw
	}
	return shows, journal.GateDigest(s.Run, f.Gate.Call, journal.GateToolCall, shows)
}

func (s *State) shown(p *Program, f *Frame, step *ir.Step, gate string, kind journal.GateKind) (map[string]json.RawMessage, string) {
	reads := s.Reads(p, f, step)
	return reads, journal.GateDigest(s.Run, gate, kind, reads)
}

// shows is what a gate shows as facts keep it: a variable that is kept by its
// hash stays so.
func (s *State) shows(f *Frame, reads map[string]json.RawMessage) map[string]journal.Value {
	out := make(map[string]journal.Value, len(reads))
	for path, raw := range reads {
		if v := s.visible(f, path); v.Hash != "" {
			out[path] = v
			continue
		}
		out[path] = journal.Value{JSON: raw}
	}
	return out
}

// Reads are the values of what a step reads, by their paths.
func (s *State) Reads(p *Program, f *Frame, step *ir.Step) map[string]json.RawMessage {
	values := make(map[string]json.RawMessage, len(step.Reads))
	for _, r := range step.Reads {
		values[r.Path], _ = s.Read(p, f, r.Path)
	}
	return values
}

// Read is one value that a step reads; null and false when nobody has written it.
func (s *State) Read(p *Program, f *Frame, path string) (json.RawMessage, bool) {
	sc := scope{s: s, p: p, f: f}
	if raw, ok := sc.text(path); ok {
		return raw, true
	}
	v, ok := sc.Lookup(strings.Split(path, "."))
	return mustJSON(v), ok
}

// Variables are all that a frame sees, by their keys: the state behind the step
// that it stands at. The run's input is left out; it never changes.
func (s *State) Variables(p *Program, f *Frame) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for {
		for key, v := range f.Scope {
			if _, closer := out[key]; closer || key == "input" {
				continue
			}
			raw, err := p.raw(v)
			if err != nil {
				raw = json.RawMessage("null")
			}
			out[key] = raw
		}
		if f.Path == "" || f.Child != "" {
			return out
		}
		f = s.Frames[f.Parent]
	}
}

// StepAt is a step of the block that a frame runs; nil when there is none.
func (p *Program) StepAt(f *Frame, id string) *ir.Step { return p.unit(f.Program).step(f.Block, id) }

// missing are the paths among a step's reads that nobody has written.
func (s *State) missing(p *Program, f *Frame, step *ir.Step) (paths []string) {
	sc := &scope{s: s, p: p, f: f}
	for _, r := range step.Reads {
		if s.visible(f, r.Path).IsZero() { // most reads are of something that was written by that name
			if _, ok := sc.Lookup(strings.Split(r.Path, ".")); !ok {
				paths = append(paths, r.Path)
			}
		}
	}
	return paths
}

// Branches are the results that a combine task puts together, in branch order.
func (s *State) Branches(f *Frame) []*BranchResult {
	if f.Group == nil {
		return nil
	}
	out := make([]*BranchResult, 0, len(f.Group.Results))
	for i := range f.Group.Next {
		if r := f.Group.Results[i]; r != nil {
			out = append(out, r)
		}
	}
	return out
}

// Summary is what the run list and the clock need to know.
func (s *State) Summary() journal.Index {
	if s.Finished != nil {
		return journal.Index{Status: journal.Finished, Outcome: s.Finished.Outcome}
	}
	var out journal.Index
	if wake, ok := s.Wake(); ok {
		out.Wake = wake
	}
	switch {
	case s.Expired:
		out.Status, out.Waiting = journal.Exceeded, "budget: "+BudgetDeadline
	case s.Open > s.Stuck():
		out.Status = journal.Running
	case len(s.BudgetWaiters) > 0:
		out.Status, out.Waiting = journal.Exceeded, "budget: "+s.BudgetWaiters[0].Budget
	case s.Paused:
		out.Status, out.Waiting = journal.PausedAt, "paused"
	default:
		out.Status, out.Waiting = s.waitingFor()
	}
	return out
}

// Stuck counts the tasks that are open but wait for budget. One that is to be
// cancelled does not wait any more: it ends.
func (s *State) Stuck() int {
	n := 0
	for _, one := range s.BudgetWaiters {
		if one.N > 0 && !s.Frames[one.Work.Frame].Cancelled {
			n++
		}
	}
	return n
}

// waitingFor says in a few words what a run that does nothing waits for. A
// person comes before a clock: that is what somebody can do something about.
func (s *State) waitingFor() (status journal.Status, what string) {
	asked, slept := []string{}, []string{}
	for _, path := range s.paths() {
		f := s.Frames[path]
		switch {
		case f.Phase == Beginning || f.Phase == Sent || f.Phase == Ready || f.Phase == Overdue || f.Phase == Lost || f.Phase == Ended:
			return journal.Running, "" // it was held back, and can go on at once
		case f.Phase == Asking && (f.Gate.Kind == journal.GatePerson || f.Gate.Kind == journal.GateToolCall):
			asked = append(asked, "approval: "+f.Place().Key())
		case f.Phase == Asking && f.Gate.Kind == journal.GateEvent:
			asked = append(asked, "event: "+f.Gate.Event)
		case f.Phase == Asking && f.Gate.Kind == journal.GateInDoubt:
			asked = append(asked, "doubt: "+f.Place().Key())
		case f.Phase == Resting:
			slept = append(slept, "retry: "+f.Place().Key())
		}
	}
	status = journal.Waiting
	if len(slept) > 0 {
		status = journal.Sleeping
	}
	all := append(asked, slept...)
	switch len(all) {
	case 0:
		return status, ""
	case 1:
		return status, all[0]
	}
	return status, fmt.Sprintf("%s (+%d)", all[0], len(all)-1)
}

// Size is roughly how long a snapshot would be.
func (s *State) Size() int {
	const frame, value = 150, 20
	size := frame
	scope := func(vars map[string]journal.Value) {
		for key, v := range vars {
			size += len(key) + len(v.JSON) + value
		}
	}
	for path, f := range s.Frames {
		size += frame + 2*len(path)
		scope(f.Scope)
		if f.Group != nil {
			size += len(f.Group.Items.JSON)
			for _, r := range f.Group.Results {
				size += frame + len(r.Value.JSON)
				scope(r.Scope)
			}
		}
	}
	return size
}

// Snapshot encodes the state: a cache of the fold, never a second truth.
func (s *State) Snapshot() []byte {
	raw, err := states().Append(make([]byte, 0, s.Size()), s)
	if err != nil {
		panic(fmt.Sprintf("plan: %v", err)) // what came from JSON becomes JSON again
	}
	return raw
}

// states is how a state is written.
var states = sync.OnceValue(jsonfast.New[State])

// Restore decodes a snapshot.
func Restore(snapshot []byte) (*State, error) {
	s := &State{}
	if err := states().Read(snapshot, s); err != nil {
		return nil, fmt.Errorf("%w: snapshot: %w", journal.ErrCorrupt, err)
	}
	if s.Frames == nil {
		s.Frames = map[string]*Frame{}
	}
	s.rebuildTimers()
	return s, nil
}
