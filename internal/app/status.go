package app

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/graph"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/redact"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Status is the state of a run.
type Status struct {
	Run
	Step    []string // that are being executed
	Gates   []Gate
	Used    journal.Usage
	Held    journal.Usage // reserved for what is under way
	Limits  journal.Limits
	Paused  bool
	Offline journal.Offline
	// Untrusted reports that the input comes from outside of the project.
	Untrusted bool
	// Request identifies the request that has started the run, as in RunOptions.
	Request string
	// By is the user who started the run; From is the step of another run that it continues.
	By   journal.Actor
	From *journal.Origin
	// Rejected is the decision that has ended a rejected run.
	Rejected *Decided
}

// FromInput reports whether a value that a step reads is the input of the run, or a part of it.
func FromInput(name string) bool { return name == "input" || strings.HasPrefix(name, "input.") }

// Gate is an open gate, with exactly what it shows.
type Gate struct {
	Step        string
	Kind        journal.AskKind
	Description string
	Event       string
	Doing       string // command or tool call with an unknown outcome
	Key         string // idempotency key of a task with an unknown outcome
	Shows       map[string]json.RawMessage
	Order       []string // the names in Shows, as the file lists them
	Digest      string
	Until       string
	// Files are the paths of the files that hold what the gate shows, by the names in Shows.
	Files     map[string]string
	Approvers *Approvers
}

// NoValue is the text that a gate shows for a value that no step has written.
const NoValue = "(no value)"

// callOrder are the names of what the gate of a tool call shows first.
var callOrder = []string{"question", "tool", "arguments"}

// Names returns the names of what the gate shows in the order in which people read them: that of the file, and the
// others by name.
func (g *Gate) Names() []string {
	order := g.Order
	if g.Kind == journal.AskToolApproval {
		order = callOrder
	}
	var out []string
	for _, name := range slices.Concat(order, slices.Sorted(maps.Keys(g.Shows))) {
		if _, shown := g.Shows[name]; shown && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// Approvers are the people who may decide an open gate, with the Approvals of those who have approved it.
type (
	Approvers = plan.Approvers
	Approval  = plan.Approval
)

// Status returns the state of a run.
func (a *App) Status(ctx context.Context, id journal.RunID) (*Status, error) {
	env, entry, err := a.entry(ctx, id)
	if err != nil {
		return nil, err
	}
	state, program, _, err := env.Engine.Load(ctx, id)
	if err != nil {
		return nil, env.runError(id, err)
	}
	run := env.run(ctx, entry)
	if err := env.queue(ctx, run); err != nil {
		return nil, err
	}
	s := statusOf(state, program, run)
	rules, err := env.Shown.Rules(ctx, id)
	if err != nil {
		return nil, env.runError(id, err)
	}
	// Redact at the end, whatever is added below.
	defer s.redact(rules)
	if err := env.addJournalDetails(ctx, s); err != nil {
		return nil, env.runError(id, err)
	}
	if state.Finished != nil {
		return s, nil
	}
	for i, f := range state.OpenGates() {
		if f.Gate.Kind != journal.GatePerson {
			continue
		}
		shown, err := env.shown(ctx, id, state, program, f)
		if err != nil {
			return nil, env.runError(id, err)
		}
		s.Gates[i].Shows, s.Gates[i].Digest, s.Gates[i].Files = shown.reads, shown.digest, shown.files
	}
	return s, nil
}

// lastFacts is how many facts of a rejected run are searched for the rejection.
const lastFacts = 100

// addJournalDetails adds what only the journal has: the last command or tool call of steps with an unknown outcome, and
// who has rejected the run.
func (env *environment) addJournalDetails(ctx context.Context, s *Status) error {
	root := cmp.Or(s.Root, s.ID)
	if s.Outcome == journal.OutcomeRejected { // the rejection is among the last facts
		for d, err := range report.Decisions(env.Shown.Events(ctx, root, max(0, s.Seq-lastFacts))) {
			if err != nil {
				return err
			}
			if d.Outcome == journal.OutcomeRejected {
				s.Rejected = &d
			}
		}
	}
	if !s.OutcomeUnknown() {
		return nil
	}
	for e, err := range env.Shown.Events(ctx, root, 0) {
		if err != nil {
			return err
		}
		at, _ := journal.PlaceOf(e.Fact)
		for i := range s.Gates {
			if g := &s.Gates[i]; g.Kind == journal.AskOutcome && g.Step == at.Key() {
				g.Doing = cmp.Or(report.Action(e.Fact), g.Doing)
			}
		}
	}
	return nil
}

// redact redacts what the run works on. Digests are those of the values themselves.
func (s *Status) redact(rules *redact.Rules) {
	s.Error, _ = rules.Text(s.Error)
	for i := range s.Gates {
		g := &s.Gates[i]
		for name, value := range g.Shows {
			hidden, _, err := rules.JSON(value)
			if err != nil {
				hidden = nil
			}
			g.Shows[name] = hidden
		}
		if g.Approvers == nil {
			continue
		}
		for n := range g.Approvers.Approvals {
			one := &g.Approvers.Approvals[n]
			one.Note, _ = rules.Text(one.Note)
		}
	}
}

// statusOf returns what the state of a run says about it. Values that gates show are not redacted yet.
func statusOf(state *plan.State, program *plan.Program, run *Run) *Status {
	s := &Status{Run: *run, Paused: state.Paused, By: state.By, From: state.From}
	var o RunOptions
	if json.Unmarshal(state.Options, &o) == nil {
		s.Untrusted, s.Request = o.Untrusted, o.Request
		switch {
		case o.ScriptName != "":
			s.Offline = journal.OfflineScripted
		case o.Simulate:
			s.Offline = journal.OfflineSimulated
		}
	}
	// A finished run has no frames: what it has used was kept at its end.
	if state.Finished != nil {
		s.Used, s.Limits = state.Spent.Used, state.Spent.Limits
		s.Reason, s.Error = state.Finished.Reason, state.Finished.Error
		return s
	}
	ledger := state.Root().Ledger
	s.Used, s.Held, s.Limits = ledger.Used, ledger.Held, ledger.Limits
	s.Step = xslices.Map(state.OpenTasks(), func(t plan.OpenTask) string { return t.Place.Key() })
	for _, f := range state.OpenGates() {
		step := state.StepOf(program, f)
		gate, _ := step.Action.(ir.Gate)
		g := Gate{
			Step: f.Place().Key(), Kind: f.Gate.Kind.Asks(gate.Text), Event: f.Gate.Event,
			Description: step.Description, Approvers: state.Approvers(program, f),
		}
		switch g.Kind {
		case journal.AskApproval:
			g.Shows, g.Digest = state.Shown(program, f)
			g.Order = xslices.Map(step.Reads, func(r ir.Ref) string { return r.Path })
		case journal.AskToolApproval:
			g.Shows, g.Digest = state.Shown(program, f)
		case journal.AskInput:
			g.Shows, _ = state.Shown(program, f)
		case journal.AskOutcome:
			g.Key = string(cmp.Or(run.Root, run.ID)) + "/" + f.Work().Key() // as other systems got it
		}
		if f.Gate.Due != 0 {
			g.Until = f.Gate.Due.Time().Format(time.RFC3339)
		}
		s.Gates = append(s.Gates, g)
	}
	return s
}

// Decisions returns the gates that wait for a decision and are meant by a name, as approve and reject take it; all of
// them without a name.
func (s *Status) Decisions(name string) []*Gate {
	var open []*Gate
	for i := range s.Gates {
		if s.Gates[i].Kind.Approves() {
			open = append(open, &s.Gates[i])
		}
	}
	return matchGates(open, func(g *Gate) string { return g.Step }, name)
}

// GateName returns the name of a gate for people, which commands take: that of its step in its run or, if other gates
// have the same name, that with the steps that called the run, or its key.
func (s *Status) GateName(g *Gate) string {
	names := []func(key string) string{journal.LocalName, journal.PlaceName}
	if g.Kind == journal.AskOutcome { // hooks have outcomes of their own
		names = []func(key string) string{journal.LocalID}
	}
	for _, of := range names {
		name := of(g.Step)
		if !slices.ContainsFunc(s.Gates, func(o Gate) bool { return o.Step != g.Step && of(o.Step) == name }) {
			return name
		}
	}
	return g.Step
}

// OutcomeUnknown reports whether the outcome of a step is unknown.
func (s *Status) OutcomeUnknown() bool {
	return slices.ContainsFunc(s.Gates, func(g Gate) bool { return g.Kind == journal.AskOutcome })
}

// Graph returns the picture of a run, or of a child run: its program, and what has happened in it.
func (a *App) Graph(ctx context.Context, r *Run, o graph.Options) (g *graph.Graph, err error) {
	_, err = a.draw(ctx, r, func(p *ir.Program, frame string) func(journal.Event) {
		g = graph.Build(p, o)
		return g.Track(p, frame).Apply
	})
	return g, err
}

// CompactGraph returns the compact picture of a run, or of a child run, and the last fact that it shows.
func (a *App) CompactGraph(ctx context.Context, r *Run) (picture *graph.Compact, last journal.Seq, err error) {
	last, err = a.draw(ctx, r, func(p *ir.Program, frame string) func(journal.Event) {
		picture = graph.NewCompactRun(p, frame)
		return picture.Apply
	})
	return picture, last, err
}

// draw draws a run, or a child run, and returns the last fact that is drawn. start starts the picture of a program
// whose run starts at a frame, and returns how facts are added to it.
func (a *App) draw(
	ctx context.Context, r *Run, start func(p *ir.Program, frame string) func(journal.Event),
) (last journal.Seq, err error) {
	env, err := a.reader(ctx, r.ID)
	if err != nil {
		return 0, err
	}
	root := cmp.Or(r.Root, r.ID)
	_, program, _, err := env.Engine.Load(ctx, root)
	if err != nil {
		return 0, err
	}
	apply := start(program.Root(), "")
	for e, err := range env.Store.Events(ctx, root, 0) {
		if err != nil {
			return 0, err
		}
		if child, name, frame := report.ChildStarted(e.Fact); child == r.ID {
			apply = start(program.At(name), frame)
		}
		apply(e)
		last = e.Seq
	}
	return last, nil
}

// Execution is one execution of a step: what it read, what came of it, and the state of the run after it.
type Execution struct {
	Step        string                     `json:"step"` // with its frame and visit
	Type        string                     `json:"kind,omitempty"`
	Description string                     `json:"description,omitempty"`
	For         string                     `json:"fallback_for,omitempty"` // step that it replaces
	Began       string                     `json:"started,omitempty"`
	Ended       string                     `json:"finished,omitempty"`
	Outcome     journal.Outcome            `json:"outcome,omitempty" doc:"Absent while the step is being executed"`
	Reason      string                     `json:"reason,omitempty"`
	Error       string                     `json:"error,omitempty"`
	Attempts    int                        `json:"attempts,omitempty"`
	Reads       map[string]json.RawMessage `json:"reads,omitempty"`
	Missing     []string                   `json:"missing_reads,omitempty"`
	Decided     *Decided                   `json:"-"`
	Result      json.RawMessage            `json:"result,omitempty"`
	Writes      []string                   `json:"writes,omitempty"`
	Branch      string                     `json:"branch,omitempty" doc:"Branch that a decision has chosen"`
	Next        string                     `json:"next,omitempty" doc:"Step that a decision leads to"`
	Used        journal.Usage              `json:"-"`
	State       map[string]json.RawMessage `json:"state,omitempty" doc:"Variables of the run after the step"`

	visit report.StepVisit
}

// Decided is the decision about a gate.
type Decided = report.Decision

// Executions returns the executions of a step in a run, in order. The name may include the frame, as in transcripts.
func (a *App) Executions(ctx context.Context, id journal.RunID, name string) ([]*Execution, error) {
	return a.executions(ctx, id, name, 0)
}

// ExecutionAt returns the nth execution of a step, from 1, and how many there are. It is nil if there are fewer. Of a
// loop with many rounds, this is much less work than Executions.
func (a *App) ExecutionAt(ctx context.Context, id journal.RunID, name string, n int) (*Execution, int, error) {
	all, err := a.executions(ctx, id, name, n)
	if err != nil || n > len(all) {
		return nil, len(all), err
	}
	return all[n-1], len(all), nil
}

// executions returns the executions of a step. With a number, only that execution has what it read and the state after
// it.
func (a *App) executions(ctx context.Context, id journal.RunID, name string, only int) ([]*Execution, error) {
	env, err := a.reader(ctx, id)
	if err != nil {
		return nil, err
	}
	_, program, _, err := env.Engine.Load(ctx, id)
	if err != nil {
		return nil, env.runError(id, err)
	}
	outline := report.NewOutline(program.Root())
	h := &executionReader{program: program, name: stepID(program.Root(), name), only: only, known: map[string]bool{}}
	h.in = report.NewInterpreter(id, func(string) (*report.Outline, error) { return outline, nil }).TrackValues(h.start)
	for e, err := range env.Shown.Events(ctx, id, 0) {
		if err == nil {
			err = h.apply(e)
		}
		if err != nil {
			return nil, env.runError(id, err)
		}
	}
	if len(h.found) == 0 {
		titles := program.Root().Labels()
		known := slices.Sorted(maps.Keys(h.known))
		names := xslices.Map(known, func(id string) string { return cmp.Or(titles[id], id) })
		return nil, fail(NotFound, "", "run %s has not reached a step %q", id.Short(), name).
			advise("%s", diag.DidYouMean(name, names))
	}
	return h.found, nil
}

// executionReader records the executions of one step of a run.
type executionReader struct {
	program *plan.Program
	in      *report.Interpreter
	name    string
	only    int // number of the execution that is wanted; 0 is all
	found   []*Execution
	known   map[string]bool // names of steps that were reached
}

// apply interprets an event, and adds it to the execution that it belongs to.
func (h *executionReader) apply(e journal.Event) error {
	return h.in.Interpret(&e, func(ev *report.Event) error {
		if ev.Type == report.BranchChosen {
			if rec, ok := ev.Decision.Data.(*Execution); ok && ev.Next != nil {
				rec.Branch, rec.Next = ev.Name, ev.Next.Place.Key()
			}
		}
		if ev.Step != nil {
			if rec, ok := ev.Step.Data.(*Execution); ok {
				h.update(rec, ev)
			}
		}
		return nil
	})
}

// update adds an event to an execution.
func (h *executionReader) update(rec *Execution, ev *report.Event) {
	rec.Used = ev.Step.Used
	rec.visit.Apply(ev)
	if n := len(rec.visit.Attempts); n > 0 {
		last := rec.visit.Attempts[n-1]
		rec.Attempts, rec.Missing = last.Number, last.MissingReads
	}
	if !rec.visit.Ended.IsZero() {
		h.end(rec, ev)
	}
}

// end adds how an execution ended, its result, and the state after it.
func (h *executionReader) end(rec *Execution, ev *report.Event) {
	own := ev.Own()
	rec.Outcome, rec.Reason, rec.Error = own.Outcome, own.Reason, own.Error
	if d := ev.Verdict(); d.Outcome != "" {
		rec.Decided = &d
	}
	if !own.Value.IsZero() {
		raw, err := h.program.Raw(own.Value)
		if err != nil {
			raw = nil // reading the value reports the error
		}
		rec.Result = raw
		rec.Writes = xslices.Map(own.Writes, func(w journal.Write) string { return w.Path })
	}
	rec.Ended = rec.visit.Ended.Format(time.RFC3339Nano)
	state := h.in.Values()
	if f := state.Frames[ev.Step.Place.Frame]; f != nil && h.wants(rec) {
		rec.State = state.Variables(h.program, f)
	}
}

// start begins an execution if the step is asked for. state is that before it.
func (h *executionReader) start(s *report.Step, state *plan.State) {
	h.known[s.Name] = true
	frame := state.Frames[s.Place.Frame]
	key := s.Place.Key()
	named := h.name == s.Name || h.name == key || h.name == s.Path || h.name == journal.PlaceName(key)
	if !named || frame == nil {
		return
	}
	rec := &Execution{Step: key, For: s.FallbackFor, Began: s.Started.Time().Format(time.RFC3339Nano)}
	h.found = append(h.found, rec)
	s.Data = rec
	step := h.program.StepAt(frame, s.Name)
	if step == nil {
		return
	}
	rec.Type, rec.Description = step.Type, step.Description
	if !h.wants(rec) {
		return
	}
	rec.Reads = state.Reads(h.program, frame, step)
	for _, v := range h.program.Root().Vars {
		if v.NewFolder() {
			delete(rec.Reads, v.Path) // it is no data of the step, and no person can correct it
		}
	}
}

// wants reports whether an execution has what it read and the state after it.
func (h *executionReader) wants(rec *Execution) bool {
	return h.only == 0 || h.only <= len(h.found) && h.found[h.only-1] == rec
}
