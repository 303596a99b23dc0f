package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// Why a task's context ends.
var (
	errCancelled = errors.New("cancelled")
	errDeadline  = errors.New("the deadline has passed")
	errParked    = errors.New("the run is parked")
)

// job is a task that is being done: the only thing that has a goroutine.
type job struct {
	r      *run
	work   journal.Work
	key    string // of the work
	frame  string
	cancel context.CancelCauseFunc
	notes  int // number of the last note
	calls  int // number of the last reservation
	// waiting is the reservation that the task waits for.
	waiting  int
	answered chan grant
	runner   step.Runner // nil: nothing here does it
	task     *ir.Task
	history  []journal.TaskNoted // every note of the task so far; r.mu guards it
	holds    *pending            // the decision that waits for it to say something
}

// recovery is what happens to the task if nobody learns how it ended. r.mu is held.
func (j *job) recovery() string { return j.r.e.recovery(j.task, j.history) }

// recovery asks the kind of a task, or of the call that the task was in.
func (e *Engine) recovery(task *ir.Task, history []journal.TaskNoted) string {
	runner := e.Kinds[task.Kind]
	if call, inner, open := step.OpenCall(history); open {
		return e.recovery(&call, inner)
	}
	if runner != nil && runner.Recovery(task, history) == step.Rerun {
		return plan.PolicyRerun
	}
	return plan.PolicyAsk
}

// launch does a task in a goroutine of its own. r.mu is held.
func (r *run) launch(t plan.OpenTask) *job {
	ctx, cancel := context.WithCancelCause(context.Background())
	key := t.Key()
	j := &job{r: r, work: t.Work, key: key, frame: t.Work.Frame, cancel: cancel}
	r.jobs[key] = j
	history := r.history[key]
	delete(r.history, key)
	for _, n := range history {
		j.notes = max(j.notes, n.N)
		j.calls = max(j.calls, n.Settles)
	}
	stepOf := r.state.StepOf(r.program, t.Frame)
	task := stepOf.Task()
	runner := r.e.Kinds[task.Kind]
	j.runner, j.task, j.history = runner, task, history
	spec := &step.Job{
		Run: r.runOf(t.Frame), Root: r.id, Key: key, Attempt: t.Attempt, Rerun: t.Rerun, Visit: max(t.Visit-1, 0),
		Workflow: r.program.ProgramOf(t.Frame), Step: stepOf, Task: task, History: history, Log: j, Kinds: r.e.kindOf,
		Iteration: r.state.Iteration(t.Frame), Sources: r.pin.def.Sources,
	}
	spec.Reads = make([]step.Read, 0, len(stepOf.Reads))
	for _, read := range stepOf.Reads {
		value, ok := r.state.Read(r.program, t.Frame, read.Path)
		spec.Reads = append(spec.Reads, step.Read{Path: read.Path, Value: value, Missing: !ok})
	}
	var inputErr error
	if t.Part == plan.PartCombine {
		branches, err := r.state.BranchValues(r.program, t.Frame)
		inputErr = err
		for _, b := range branches {
			spec.Branches = append(spec.Branches, step.Branch{Name: b.Branch, Outcome: ir.Outcome(b.Outcome), Error: b.Error, Value: b.Value, Used: b.Used, Run: b.Child})
		}
	}
	options := r.state.Options
	timeout := stepOf.Timeout
	r.e.tasks.Go(func() {
		defer cancel(nil)
		if timeout > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeoutCause(ctx, timeout.Duration(), errTimedOut)
			defer stop()
		}
		var result step.Result
		err := inputErr
		switch {
		case err != nil:
		case runner == nil:
			err = step.Errorf(step.ClassMissing, "nothing here does steps of kind %q", task.Kind)
		default:
			if r.e.Host != nil {
				err = r.e.Host.Provision(spec, options)
			}
			if err == nil {
				hiding := step.Hiding{Runner: runner, Secrets: r.e.Secrets, Defined: r.pin.hides}
				result, err = runSafely(ctx, hiding, spec)
			}
			if ctx.Err() == nil {
				result = spec.Finish(j.history, result, err)
			}
		}
		r.ended(j, ctx, result, err)
	})
	return j
}

var errTimedOut = errors.New("the step's time is up")

// runSafely keeps a mistake in a step kind from taking the process, and with
// it every other run, down.
func runSafely(ctx context.Context, runner step.Runner, spec *step.Job) (result step.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = step.Errorf("INTERNAL", "step kind %s: %v\n%s", runner.Name(), p, debug.Stack())
		}
	}()
	return runner.Run(ctx, spec)
}

// ended takes a task's end into the run.
func (r *run) ended(j *job, ctx context.Context, result step.Result, err error) {
	in := plan.Result{Work: j.work, Outcome: plan.OutcomeOK, Usage: result.Usage}
	var blob *journal.Blob
	cause := context.Cause(ctx)
	notes, unwritten := j.requests(result.Notes)
	if err == nil {
		err = unwritten
	}
	switch {
	case err == nil:
		in.Value, blob = keep(result.Value)
	case errors.Is(cause, errParked), errors.Is(cause, errDeadline):
		// Whether it acted is not known. Of a run that was given up nothing
		// is recorded: there the task stays open.
		r.lose(j, cause, result.Usage, notes)
		return
	case errors.Is(cause, errCancelled):
		in.Outcome = plan.OutcomeCancelled
	case errors.Is(cause, errTimedOut):
		in.Outcome, in.Class, in.Error = plan.OutcomeFailed, step.ClassTimeout, errTimedOut.Error()
	default:
		if question, ok := errors.AsType[*step.Question](err); ok {
			r.ask(j, question, notes)
			return
		}
		if later, ok := errors.AsType[*step.Later](err); ok {
			r.keepHistory(j)
			sleep := plan.Sleep{Work: j.work, For: journal.Millis(later.After.Milliseconds()), Why: later.Why}
			r.conclude(j, notes, request{in: sleep})
			return
		}
		in.Outcome, in.Class, in.Error = plan.OutcomeFailed, "ERROR", err.Error()
		if failure, ok := errors.AsType[*step.Error](err); ok {
			in.Class, in.Error, in.Exit = failure.Class, failure.Message, failure.Exit
			in.Value, blob = keep(failure.Value)
		}
	}
	r.conclude(j, notes, request{in: in, blob: blob})
}

// ask stops a task until a person has answered it.
func (r *run) ask(j *job, q *step.Question, notes []request) {
	r.keepHistory(j)
	r.conclude(j, notes, request{in: plan.Ask{Work: j.work, Call: q.Call, Shows: q.Shows, Within: journal.Millis(q.Within.Milliseconds())}})
}

// keepHistory puts a task's notes where its next life finds them.
func (r *run) keepHistory(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.history == nil {
		r.history = map[string][]journal.TaskNoted{}
	}
	r.history[j.key] = j.history
}

// lose gives a task up whose end nobody will know. What it had noted is kept:
// whoever does it again goes on from there.
func (r *run) lose(j *job, why error, used journal.Usage, notes []request) {
	r.keepHistory(j)
	r.mu.Lock()
	policy := j.recovery()
	r.mu.Unlock()
	gone := plan.Gone{Work: j.work, Why: why.Error(), Policy: policy, Used: journal.Reported(j.history)}
	if used != (journal.Usage{}) {
		gone.Used = &used
	}
	r.conclude(j, notes, request{in: gone})
}

// conclude forgets a task and hands its last requests to the run.
func (r *run) conclude(j *job, notes []request, last request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.jobs[j.key] == j {
		delete(r.jobs, j.key)
	}
	if r.gone {
		return
	}
	r.queue = append(append(r.queue, notes...), last)
	r.noteArrived(j)
	r.advance()
}

// Note makes notes durable.
func (j *job) Note(ctx context.Context, notes ...step.Note) error {
	requests, err := j.requests(notes)
	if err != nil || len(requests) == 0 {
		return err
	}
	done := make(chan error, 1)
	requests[len(requests)-1].done = func(err error) { done <- err }
	j.r.push(j, requests...)
	select {
	case err := <-done:
		return j.abortTask(err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (j *job) requests(notes []step.Note) ([]request, error) {
	var out []request
	j.r.mu.Lock()
	defer j.r.mu.Unlock()
	for _, n := range notes {
		data, err := encode(n.Data)
		if err != nil {
			return nil, err
		}
		j.notes++
		note := plan.Note{Work: j.work, N: j.notes, Kind: n.Kind, Data: data, Settles: int(n.Settles), Usage: n.Usage}
		out = append(out, request{in: note})
		j.history = append(j.history, journal.TaskNoted{
			Work: note.Work, N: note.N, Kind: note.Kind, Data: note.Data, Settles: note.Settles, Usage: note.Usage,
		})
	}
	return out, nil
}

func encode(v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	raw, err := step.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("a note cannot be written: %w", err)
	}
	return raw, nil
}

// grant is the answer to a reservation.
type grant struct {
	amount journal.Usage
	err    error
}

// Reserve sets an amount aside, and makes notes durable in the same append.
func (j *job) Reserve(ctx context.Context, amount journal.Usage, notes ...step.Note) (step.Reservation, error) {
	n, _, err := j.ReserveUpTo(ctx, amount, 0, notes...)
	return n, err
}

// ReserveUpTo sets an amount aside, or as much of it as is left.
func (j *job) ReserveUpTo(ctx context.Context, most journal.Usage, least int64, notes ...step.Note) (step.Reservation, journal.Usage, error) {
	requests, err := j.requests(notes)
	if err != nil {
		return 0, most, err
	}
	j.calls++
	n := j.calls
	j.r.mu.Lock()
	j.waiting, j.answered = n, make(chan grant, 1)
	answered := j.answered
	j.r.mu.Unlock()
	refused := make(chan error, 1)
	requests = append(requests, request{
		in: plan.Reserve{Work: j.work, N: n, Amount: most, Least: least},
		done: func(err error) {
			if err != nil {
				refused <- err
			}
		},
	})
	j.r.push(j, requests...)
	select {
	case got := <-answered:
		return step.Reservation(n), got.amount, got.err
	case err := <-refused:
		return 0, most, j.abortTask(err)
	case <-ctx.Done():
		return 0, most, context.Cause(ctx)
	}
}

// abortTask ends a task whose note or reservation the run has refused.
func (j *job) abortTask(err error) error {
	if err == nil {
		return nil
	}
	j.cancel(errParked)
	return err
}

// answer tells a task what came of its reservation. r.mu is held.
func (r *run) answer(w journal.Work, n int, amount journal.Usage, err error) {
	if j := r.jobs[w.Key()]; j != nil && j.waiting == n {
		j.waiting = 0
		j.answered <- grant{amount, err}
	}
}

func budgetError(budget string) error {
	return step.Errorf(step.ClassBudget, "the budget of %s is used up", budget)
}

func (r *run) runOf(f *plan.Frame) journal.RunID {
	if id := r.state.RunOf(f); id != "" {
		return id
	}
	return r.id
}
