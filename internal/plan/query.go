package plan

import (
	"cmp"
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

// paths returns the paths of the open frames, sorted.
func (s *State) paths() []string { return slices.Sorted(maps.Keys(s.Frames)) }

// OpenTask is a task that has started and not ended.
type OpenTask struct {
	journal.TaskID
	Rerun int
	Frame *Frame
	Waits int // number of the first reservation that waits for budget, if the task waits before a call
}

// OpenTasks returns the tasks that have started and not ended.
func (s *State) OpenTasks() []OpenTask {
	var out []OpenTask
	for _, path := range s.paths() {
		if f := s.Frames[path]; f.Phase == Working {
			task := OpenTask{TaskID: f.Work(), Rerun: f.Rerun, Frame: f}
			for _, one := range s.BudgetWaiters {
				if one.N > 0 && one.Work == task.TaskID {
					task.Waits = one.N
					break
				}
			}
			out = append(out, task)
		}
	}
	return out
}

// Running returns the frame of a task that has started and not ended; nil if it has ended or was started again.
func (s *State) Running(w journal.TaskID, rerun int) *Frame {
	f := s.Frames[w.Frame]
	if f == nil || f.Phase != Working || f.Work() != w || f.Rerun != rerun {
		return nil
	}
	return f
}

// OpenGates returns the frames that have an open gate.
func (s *State) OpenGates() []*Frame {
	var out []*Frame
	for _, path := range s.paths() {
		if f := s.Frames[path]; f.Phase == Asking {
			out = append(out, f)
		}
	}
	return out
}

// MayHaveUnknownOutcome reports whether a decision names a running task. If its process has ended, its outcome is
// unknown as soon as another process claims the run.
func (s *State) MayHaveUnknownOutcome(in Input) bool {
	x, ok := in.(GateDecision)
	return ok && slices.ContainsFunc(s.OpenTasks(), func(t OpenTask) bool {
		return x.Step == t.Frame.Step || x.Step == t.Place.Key()
	})
}

// Resumable reports whether a task can continue from its notes: it is running or lost, or waits for an answer or a due
// time. The notes of all such tasks follow the event since.
func (s *State) Resumable() (since journal.Seq, ok bool) {
	for _, f := range s.Frames {
		asked := f.Gate != nil && (f.Gate.Kind == journal.GateOutcome || f.Gate.Kind == journal.GateToolCall)
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

// StepOf returns the current step of a frame.
func (s *State) StepOf(p *Program, f *Frame) *ir.Step { return p.unit(f.Program).step(f.Block, f.Step) }

// Root returns the run's own program.
func (p *Program) Root() *ir.Program { return p.unit("").ir }

// At returns the program with a path, as in facts; the run's own program for the empty path.
func (p *Program) At(path string) *ir.Program { return p.unit(path).ir }

// ProgramOf returns the program of a frame: the run's own, or a child's.
func (p *Program) ProgramOf(f *Frame) *ir.Program { return p.unit(f.Program).ir }

// Iteration returns the index of the innermost loop or fan-out around a frame.
func (s *State) Iteration(f *Frame) int {
	for ; f.Path != ""; f = s.Frames[f.Parent] {
		if len(f.Own) > 0 {
			return f.Index
		}
	}
	return 0
}

// Repeats returns how often the parallel steps around a frame were repeated.
func (s *State) Repeats(f *Frame) int {
	n := 0
	for f.Path != "" {
		f = s.Frames[f.Parent]
		if f.Group != nil && f.Group.Mode == ModeParallel {
			n += f.Attempt
		}
	}
	return n
}

// Shown returns exactly what a gate shows and its digest, which a decision has to name: the values of its step's reads,
// or the tool call of a task.
func (s *State) Shown(p *Program, f *Frame) (map[string]json.RawMessage, string) {
	if f.Gate.Kind != journal.GateToolCall {
		return s.shown(p, f, s.StepOf(p, f), f.Work().Key(), f.Gate.Kind)
	}
	shows := make(map[string]json.RawMessage, len(f.Gate.Shows))
	for name, v := range f.Gate.Shows {
		raw, err := p.raw(v)
		if err != nil {
			raw = nil // the digest does not match then, so the gate cannot be decided
		}
		shows[name] = raw
	}
	return shows, journal.GateDigest(s.Run, f.Gate.Call, journal.GateToolCall, shows)
}

// shown returns the values of a step's reads, and the digest of a gate that shows them.
func (s *State) shown(p *Program, f *Frame, step *ir.Step, gate string, kind journal.GateKind) (
	map[string]json.RawMessage, string,
) {
	reads := s.Reads(p, f, step)
	return reads, journal.GateDigest(s.Run, gate, kind, reads)
}

// shows returns what a gate shows as facts store it: large variables stay hashes.
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

// Reads returns the values of a step's reads by their paths.
func (s *State) Reads(p *Program, f *Frame, step *ir.Step) map[string]json.RawMessage {
	values := make(map[string]json.RawMessage, len(step.Reads))
	for _, r := range step.Reads {
		values[r.Path], _ = s.Read(p, f, r.Path)
	}
	return values
}

// Read returns one value that a step reads; null and false if it was never written.
func (s *State) Read(p *Program, f *Frame, path string) (json.RawMessage, bool) {
	sc := scope{s: s, p: p, f: f}
	if raw, ok := sc.text(path); ok {
		return raw, true
	}
	v, ok := sc.Lookup(strings.Split(path, "."))
	return mustJSON(v), ok
}

// Variables returns all variables that a frame sees, by their keys. The run's input is not included; it never changes.
func (s *State) Variables(p *Program, f *Frame) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for f := range s.scopes(f) {
		for key, v := range f.Scope {
			if _, closer := out[key]; closer || key == "input" {
				continue
			}
			raw, _ := p.raw(v)
			out[key] = orNull(raw)
		}
	}
	return out
}

// StepAt returns a step of a frame's block; nil if there is none.
func (p *Program) StepAt(f *Frame, id string) *ir.Step { return p.unit(f.Program).step(f.Block, id) }

// missing returns the paths of a step's reads that were never written.
func (s *State) missing(p *Program, f *Frame, step *ir.Step) (paths []string) {
	sc := &scope{s: s, p: p, f: f}
	for _, r := range step.Reads {
		if s.visible(f, r.Path).IsZero() { // most reads have the exact key of a variable
			if _, ok := sc.Lookup(strings.Split(r.Path, ".")); !ok {
				paths = append(paths, r.Path)
			}
		}
	}
	return paths
}

// Branches returns the results that a combine task combines, in branch order.
func (s *State) Branches(f *Frame) []*BranchResult {
	if f.Group == nil {
		return nil
	}
	out := make([]*BranchResult, 0, len(f.Group.Results))
	for i := range max(f.Group.Next, f.Group.Total) {
		if r := f.Group.Results[i]; r != nil {
			out = append(out, r)
		}
	}
	return out
}

// Summary returns the run's index.
func (s *State) Summary() journal.Index {
	if s.Finished != nil {
		return journal.Index{Status: journal.Finished, Outcome: s.Finished.Outcome}
	}
	var out journal.Index
	if wake, ok := s.Wake(); ok {
		out.Wake = wake
	}
	// The first of these that applies: work in progress, an exhausted deadline, a budget that requests wait for, a
	// pause, and then what the frames wait for.
	switch {
	case s.Open > s.Stuck(): // also after the deadline: calls in progress finish
		out.Status = journal.Running
	case s.Expired:
		out.Status, out.Waiting = journal.Exceeded, journal.Wait{Kind: journal.WaitBudget, Name: ir.BudgetDeadline}
	case len(s.BudgetWaiters) > 0:
		out.Status = journal.Exceeded
		out.Waiting = journal.Wait{Kind: journal.WaitBudget, Name: s.BudgetWaiters[0].Budget}
	case s.Paused:
		out.Status = journal.PausedAt
		_, out.Waiting = s.waitingFor()
		out.Waiting = cmp.Or(out.Waiting, journal.Wait{Kind: journal.WaitContinue})
	default:
		out.Status, out.Waiting = s.waitingFor()
	}
	return out
}

// Stuck returns the number of running tasks that wait for budget. Canceled tasks do not wait.
func (s *State) Stuck() int {
	n := 0
	for _, one := range s.BudgetWaiters {
		if one.N > 0 && !s.Frames[one.Work.Frame].Canceled {
			n++
		}
	}
	return n
}

// waitingFor returns what a run without running tasks waits for. Waits for people come before timers, because a person
// can act on them.
func (s *State) waitingFor() (status journal.Status, what journal.Wait) {
	var asked, slept []journal.Wait
	// Frames in path order, so that the first of several waits is always the same.
	for _, path := range s.paths() {
		f := s.Frames[path]
		place := f.Place().Key()
		switch {
		case f.Phase == Beginning || f.Phase == Sent || f.Phase == Ready || f.Phase == Overdue || f.Phase == Lost ||
			f.Phase == Ended:
			return journal.Running, what // Hold prevented it from starting; it can continue at once
		case f.Phase == Asking && (f.Gate.Kind == journal.GatePerson || f.Gate.Kind == journal.GateToolCall):
			asked = append(asked, journal.Wait{Kind: journal.WaitApproval, Name: place})
		case f.Phase == Asking && f.Gate.Kind == journal.GateEvent:
			asked = append(asked, journal.Wait{Kind: journal.WaitEvent, Name: f.Gate.Event})
		case f.Phase == Asking && f.Gate.Kind == journal.GateOutcome:
			asked = append(asked, journal.Wait{Kind: journal.WaitOutcome, Name: place})
		case f.Phase == Resting:
			slept = append(slept, journal.Wait{Kind: journal.WaitRetry, Name: place})
		}
	}
	status = journal.Waiting
	if len(slept) > 0 {
		status = journal.Sleeping
	}
	if all := append(asked, slept...); len(all) > 0 {
		what = all[0]
		what.More = len(all) - 1
	}
	return status, what
}

// Size estimates the size of a snapshot.
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

// Snapshot encodes the state. A snapshot is a cache of the fold, never a source of truth.
func (s *State) Snapshot() []byte {
	raw, err := states().Append(make([]byte, 0, s.Size()), s)
	if err != nil {
		panic(fmt.Sprintf("plan: %v", err)) // values that were decoded from JSON always encode
	}
	return raw
}

// states encodes and decodes states.
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
