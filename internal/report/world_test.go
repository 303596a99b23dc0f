package report_test

import (
	"encoding/json"
	"fmt"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/ir/irtest"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/plan/plantest"
	"github.com/espalier-run/espalier/internal/source"
)

// run is the id of every recorded run.
const run journal.RunID = "11111111-1111-4111-8111-111111111111"

// begin is the start time of every recorded run.
const begin journal.Millis = 1_772_000_000_000

// world simulates everything around the plan: it executes tasks, adds notes, and
// advances the clock.
type world struct {
	t       irtest.Reporter
	p       *plan.Program
	s       *plan.State
	appends [][]journal.Event
	now     journal.Millis
	tasks   []journal.TaskID
	// do executes a task: it may add notes before it returns the result.
	do func(w *world, task journal.TaskID) plan.Result
	// idle is called when no task is open and no timer is set.
	idle func(w *world) bool
}

func start(t irtest.Reporter, program *ir.Program, input string) *world {
	t.Helper()
	w := &world{t: t, p: plan.Compile(program), now: begin}
	s, events := plan.Start(w.p, run, journal.RunStarted{
		Name: program.Name, Format: program.Format, Definition: "definition",
		Input: journal.Value{JSON: json.RawMessage(input)}, Vars: plan.InitialVars(program),
		Budget: plan.LimitsOf(program),
		By:     journal.Actor{User: "eva"},
	}, w.now, false)
	w.s = s
	w.took(events)
	return w
}

func (w *world) tell(in ...plan.Input) {
	w.t.Helper()
	w.took(w.s.Decide(w.p, w.now, plantest.Current(w.s, in)...))
}

func (w *world) took(events []journal.Event) {
	if len(events) == 0 {
		return
	}
	w.appends = append(w.appends, events)
	for _, e := range events {
		if x, ok := e.Fact.(journal.TaskStarted); ok {
			w.tasks = append(w.tasks, x.TaskID)
		}
	}
}

// run executes tasks and fires timers until nothing moves.
func (w *world) run() *world {
	w.t.Helper()
	for range 10_000 {
		if len(w.tasks) > 0 {
			task := w.tasks[0]
			w.tasks = w.tasks[1:]
			w.now += 250
			r := plan.Result{Outcome: journal.OutcomeOK}
			if f := w.s.Frames[task.Frame]; f != nil && f.Canceled {
				r.Outcome = journal.OutcomeCanceled
			} else if w.do != nil {
				r = w.do(w, task)
			}
			r.Work = task
			if r.Outcome == journal.OutcomeOK && r.Value.IsZero() {
				r.Value = journal.Value{JSON: fmt.Appendf(nil, `{"by":%q}`, task.Key())}
			}
			w.tell(r)
			continue
		}
		if w.s.Finished != nil {
			return w
		}
		if wake, ok := w.s.Wake(); ok {
			w.now = max(w.now, wake)
			w.tell()
			continue
		}
		if w.idle == nil || !w.idle(w) {
			return w
		}
	}
	w.t.Fatal("the run does not come to rest")
	return w
}

// runUntilGate executes tasks until there are none, without firing timers.
func (w *world) runUntilGate() {
	w.t.Helper()
	for len(w.tasks) > 0 {
		task := w.tasks[0]
		w.tasks = w.tasks[1:]
		w.now += 250
		r := w.do(w, task)
		if r.Work = task; r.Value.IsZero() {
			r.Value = journal.Value{JSON: fmt.Appendf(nil, `{"by":%q}`, task.Key())}
		}
		w.tell(r)
	}
}

// note adds a note to a task.
func (w *world) note(task journal.TaskID, n int, kind string, data any, usage journal.Usage) {
	w.t.Helper()
	raw, err := json.Marshal(data)
	if err != nil {
		w.t.Fatal(err)
	}
	w.now += 100
	w.tell(plan.Note{Work: task, N: n, Kind: kind, Data: raw, Usage: usage})
}

// decide answers the one open gate.
func (w *world) decide(answer journal.Answer, note string) {
	w.t.Helper()
	f := w.s.OpenGates()[0]
	_, digest := w.s.Shown(w.p, f)
	w.now += 60_000
	w.tell(plan.GateDecision{Step: f.Step, Answer: answer, Digest: digest, Note: note, By: journal.Actor{User: "eva"}})
}

// Helpers to build programs.

func program(name string, steps ...ir.Step) *ir.Program {
	return &ir.Program{Format: "agent-flow", Name: name, MayIntervene: true, Blocks: []ir.Block{{Steps: steps}}}
}

var (
	chain = irtest.Chain
	edit  = irtest.Edit
	cond  = irtest.Cond
	items = irtest.Value
)

func task(id, typ, kind string) ir.Step {
	return ir.Step{ID: id, Type: typ, Action: ir.Task{Kind: kind}, Writes: []ir.Write{{Path: "state." + id}}}
}

func agent(id, who string) ir.Step {
	s := task(id, "skill", "agent")
	var settings ir.Settings
	settings.Put("agent", who, source.Span{})
	s.Action = ir.Task{Kind: "agent", Settings: settings}
	return s
}

func end(id string) ir.Step { return ir.Step{ID: id, Type: "end", Action: ir.End{}} }

func value(text string) plan.Result {
	return plan.Result{Outcome: journal.OutcomeOK, Value: journal.Value{JSON: json.RawMessage(text)}}
}

func failed(class ir.Class, text string) plan.Result {
	return plan.Result{Outcome: journal.OutcomeFailed, Class: class, Error: text}
}

// bundle returns a parallel step of agents, each in a block of its own.
func bundle(p *ir.Program, id string, join ir.Join, workers ...string) ir.Step {
	par := ir.Parallel{Join: join}
	for _, name := range workers {
		par.Branches = append(par.Branches,
			ir.Branch{Name: name, Block: p.AddBlock(ir.Block{Steps: []ir.Step{agent(name, name)}})})
	}
	return ir.Step{ID: id, Type: "subagent_bundle", Action: par}
}
