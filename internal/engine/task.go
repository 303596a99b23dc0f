package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// The causes with which an engine cancels the context of a task. Ended derives from the cause what happened to the
// task.
var (
	ErrCanceled = errors.New("canceled")
	ErrDeadline = errors.New("the deadline has passed")
	ErrParked   = errors.New("the run is parked")
	ErrStopped  = fmt.Errorf("%w", ErrParked) // between two calls of the task
	ErrTimedOut = errors.New("the step timed out")
)

// Recovery returns what happens to a task whose outcome is unknown. If the task
// was inside a call, the kind of the call decides.
func (c *Core) Recovery(task *ir.Task, history []journal.TaskNoted) journal.Recovery {
	if call, inner, open := step.OpenCall(history); open {
		return c.Recovery(&call, inner)
	}
	if runner := c.Runner(task.Kind); runner != nil && runner.Recovery(task, history) == journal.RecoveryRerun {
		return journal.RecoveryRerun
	}
	return journal.RecoveryAsk
}

// Lost returns the input for a task whose outcome is unknown.
func (c *Core) Lost(w journal.TaskID, rerun int, task *ir.Task, history []journal.TaskNoted, why string) plan.TaskLost {
	return plan.TaskLost{
		Work: w, Rerun: rerun, Why: why, Policy: c.Recovery(task, history), Used: journal.Reported(history),
	}
}

// NewNote returns the n-th note of a task: for the plan, and as it is stored.
func NewNote(w journal.TaskID, rerun, n int, note step.Note) (plan.Note, journal.TaskNoted, error) {
	noted := journal.TaskNoted{TaskID: w, N: n, Kind: note.Kind, Settles: int(note.Settles), Usage: note.Usage}
	if note.Data != nil {
		var err error
		if noted.Data, err = step.Encode(note.Data); err != nil {
			return plan.Note{}, noted, fmt.Errorf("a note cannot be written: %w", err)
		}
	}
	return plan.Note{
		Work: w, Rerun: rerun, N: n, Kind: noted.Kind, Data: noted.Data, Settles: noted.Settles, Usage: noted.Usage,
	}, noted, nil
}

// Task is one attempt at a task. After NewTask it does not depend on the state of the run anymore, so it needs no lock.
type Task struct {
	Job     *step.Job
	Runner  step.Runner // nil if no runner does steps of this kind
	Work    journal.TaskID
	Timeout ir.Millis // 0 for none

	hasSecrets bool
	options    json.RawMessage
	err        error // why the task cannot run
}

// NewTask returns the task that a state has started. The driver sets Job.Log.
func (c *Core) NewTask(
	s *plan.State, p *plan.Program, def *Compiled, t plan.OpenTask, history []journal.TaskNoted,
) *Task {
	stepOf := s.StepOf(p, t.Frame)
	run := cmp.Or(s.RunOf(t.Frame), s.Run)
	job := &step.Job{
		Run: run, Root: s.Run, Key: t.Key(), Attempt: t.Attempt + s.Repeats(t.Frame), Rerun: t.Rerun,
		Visit:    max(t.Visit-1, 0),
		Workflow: p.ProgramOf(t.Frame), Step: stepOf, Task: stepOf.Task(), History: history,
		Host: step.Host{Runners: c.Runner, Kinds: c.Kinds, Sampling: new(sync.Mutex)}, Iteration: s.Iteration(t.Frame),
		Sources:   def.Definition.Sources,
		CapsMoney: def.capsMoney, Reads: make([]step.Read, 0, len(stepOf.Reads)),
	}
	if stepOf.AuditFile != "" {
		job.Audits = def.Definition.Program.Audits()
	}
	// The values are copied now: the state goes on while the task runs.
	for _, read := range stepOf.Reads {
		value, ok := s.Read(p, t.Frame, read.Path)
		job.Reads = append(job.Reads, step.Read{Path: read.Path, Value: value, Missing: !ok})
	}
	task := &Task{
		Job: job, Runner: c.Runner(job.Task.Kind), Work: t.TaskID, Timeout: stepOf.Timeout,
		hasSecrets: def.hasSecrets, options: s.Options,
	}
	if t.Part == plan.PartCombine {
		var branches []plan.BranchValue
		branches, task.err = s.BranchValues(p, t.Frame)
		for _, b := range branches {
			job.Branches = append(job.Branches, step.Branch{
				Name: b.Branch, Outcome: b.Outcome, Error: b.Error, Value: b.Value, Used: b.Used, Run: b.Child,
			})
		}
	}
	return task
}

// Run runs the task. It applies the step's timeout: the returned cause is why
// the task's context ended, or nil. notes returns all notes of the task so far.
func (c *Core) Run(
	ctx context.Context, t *Task, notes func() []journal.TaskNoted,
) (result step.Result, cause, err error) {
	// The timeout includes the time for provisioning.
	if t.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, t.Timeout.Duration(), ErrTimedOut)
		defer stop()
	}
	switch {
	case t.err != nil:
		return result, context.Cause(ctx), t.err
	case t.Runner == nil:
		err = step.Errorf(ir.ClassMissing, "no runner for step kind %q", t.Job.Task.Kind)
		return result, context.Cause(ctx), err
	}
	if c.Provisioner != nil {
		err = c.Provisioner.Provision(t.Job, t.options)
	}
	if err == nil {
		runner := step.RedactingRunner{Runner: t.Runner, Secrets: c.Secrets, InWorkflow: t.hasSecrets}
		result, err = runSafely(ctx, runner, t.Job)
	}
	if ctx.Err() == nil {
		result = t.Job.Finish(notes(), result, err)
	}
	return result, context.Cause(ctx), err
}

// runSafely turns a panic of a step kind into an error, so that it does not end
// the process and every other run with it.
func runSafely(ctx context.Context, runner step.Runner, job *step.Job) (result step.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = step.Errorf(ir.ClassInternal, "step kind %s: %v\n%s", runner.Name(), p, debug.Stack())
		}
	}()
	return runner.Run(ctx, job)
}

// Ended returns the input for the end of a task: a plan.Result, or, if the task
// has not ended for good, a plan.TaskLost, plan.Ask or plan.Sleep. history is what
// the task has noted.
func (c *Core) Ended(
	t *Task, history []journal.TaskNoted, result step.Result, cause, err error,
) (plan.Input, *journal.Blob) {
	in := plan.Result{Work: t.Work, Rerun: t.Job.Rerun, Outcome: journal.OutcomeOK, Usage: result.Usage}
	var blob *journal.Blob
	switch {
	// A task that has succeeded counts as successful, also if it was canceled meanwhile.
	case err == nil:
		in.Value, blob = KeepValue(result.Value)
	case errors.Is(cause, ErrParked), errors.Is(cause, ErrDeadline): // whether it acted is unknown
		lost := c.Lost(t.Work, t.Job.Rerun, t.Job.Task, history, cause.Error())
		// Between calls, the task ends in order: nothing is in flight but what it says.
		if result.Usage != (journal.Usage{}) || errors.Is(cause, ErrDeadline) || errors.Is(cause, ErrStopped) {
			lost.Used = &result.Usage
		}
		return lost, nil
	case errors.Is(cause, ErrCanceled):
		in.Outcome = journal.OutcomeCanceled
	case errors.Is(cause, ErrTimedOut):
		in.Outcome, in.Class, in.Error = journal.OutcomeFailed, ir.ClassTimeout, ErrTimedOut.Error()
	default:
		if ask, ok := errors.AsType[*step.ApprovalRequired](err); ok {
			within := journal.Millis(ask.Within.Milliseconds())
			return plan.Ask{
				Work: t.Work, Rerun: t.Job.Rerun, Call: ask.Call, Shows: ask.Shows, Within: within,
			}, nil
		}
		if later, ok := errors.AsType[*step.PostponedError](err); ok {
			after := journal.Millis(later.After.Milliseconds())
			return plan.Sleep{Work: t.Work, Rerun: t.Job.Rerun, For: after, Why: later.Why}, nil
		}
		in.Outcome, in.Class, in.Error = journal.OutcomeFailed, ir.ClassOther, err.Error()
		if failure, ok := errors.AsType[*step.Error](err); ok {
			in.Class, in.Error, in.Exit = failure.Class, failure.Message, failure.Exit
			in.Value, blob = KeepValue(failure.Value)
		}
	}
	return in, blob
}

// BudgetError is the error of a reservation that the plan has refused.
func BudgetError(budget string) error {
	return step.Errorf(ir.ClassBudget, "the budget of %s is exhausted", budget)
}
