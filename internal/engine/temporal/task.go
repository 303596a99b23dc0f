package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// taskInput is the input of the activity that runs a task. Everything else is in
// the journal.
type taskInput struct {
	Run    journal.RunID  `json:"run"`
	Work   journal.TaskID `json:"work"`
	Rerun  int            `json:"rerun,omitempty"`
	Launch int            `json:"launch"`
	// Execution and Fence are those of the workflow, as in facts.
	Execution string `json:"execution,omitempty"`
	Fence     int64  `json:"fence,omitempty"`
	// Facts are appended to the journal first; nil if it has them.
	Facts *facts `json:"facts,omitempty"`
}

// taskOutput is the result of the activity.
type taskOutput struct {
	// Published reports whether the journal has the facts of the input.
	Published bool `json:"published,omitempty"`
	// Log is what the task has done and the workflow does not have yet.
	Log []entry `json:"log,omitempty"`

	// One of these is set, unless the task is not to run anymore.
	End      *ending `json:"end,omitempty"`
	Waits    int     `json:"waits,omitempty"`    // number of the reservation that has to wait
	Declined string  `json:"declined,omitempty"` // why this worker does not run the task
	// Labels are what the task needs if it was declined because the worker does not have them.
	Labels []string `json:"labels,omitempty"`
}

// entry is a note or a reservation of a task.
type entry struct {
	Note    *plan.Note    `json:"note,omitempty"`
	Reserve *plan.Reserve `json:"reserve,omitempty"`
}

// ending is the end of a task.
type ending struct {
	Result   *plan.Result   `json:"result,omitempty"`
	TaskLost *plan.TaskLost `json:"gone,omitempty"`
	Ask      *plan.Ask      `json:"ask,omitempty"`
	Sleep    *plan.Sleep    `json:"sleep,omitempty"`
	// Lost replaces the rest if the workflow has canceled the task because the
	// deadline has passed, which the activity does not know.
	Lost *plan.TaskLost `json:"lost,omitempty"`
}

// newEnding wraps what Core.Ended returns.
func newEnding(in plan.Input) *ending {
	switch x := in.(type) {
	case plan.Result:
		return &ending{Result: &x}
	case plan.TaskLost:
		return &ending{TaskLost: &x}
	case plan.Ask:
		return &ending{Ask: &x}
	case plan.Sleep:
		return &ending{Sleep: &x}
	}
	panic(fmt.Sprintf("temporal: a task cannot end with %T", in))
}

// input returns the input for the plan. cause is why the workflow has canceled
// the task, or nil.
func (e *ending) input(cause error) plan.Input {
	switch {
	case e.Lost != nil && errors.Is(cause, engine.ErrDeadline):
		return *e.Lost
	case e.Result != nil:
		return *e.Result
	case e.TaskLost != nil:
		return *e.TaskLost
	case e.Ask != nil:
		return *e.Ask
	}
	return *e.Sleep
}

// heartbeat is what the workflow gets to know of a task whose worker dies.
type heartbeat struct {
	Published bool             `json:"published,omitempty"`
	Log       []entry          `json:"log,omitempty"`
	Policy    journal.Recovery `json:"policy"`
	Used      *journal.Usage   `json:"used,omitempty"`
}

// divergedType is the type of the error of facts that differ from the journal's.
const divergedType = "diverged"

// publishActivity appends facts to the journal.
func (e *Engine) publishActivity(ctx context.Context, f facts) error {
	defer e.markActive(f.Run)
	err := checkExecution(ctx, f.Execution)
	if err == nil {
		err = appendFacts(ctx, e.store, &f, e.LogAppend)
	}
	if stop := stopping(err); stop != nil {
		e.Log.Warn("workflow not continued", "run_id", f.Run, "error", err)
		return stop
	}
	if errors.Is(err, journal.ErrUnknownRun) {
		return e.unknownRunError(f.Run, err)
	}
	return err
}

// unknownRunError returns the error of an activity for a run that the journal does not have. It is tried again, because
// a process with another journal may get it; the log says so once.
func (e *Engine) unknownRunError(id journal.RunID, err error) error {
	if e.isFirst(e.unknownRuns, id) {
		e.Log.Warn("Temporal has a run that the store does not have: it was removed, or projects with different "+
			"stores share a task queue", "run_id", id, "task_queue", e.c.TaskQueue)
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), "stray", temporal.ApplicationErrorOptions{
		Cause: err, Category: temporal.ApplicationErrorCategoryBenign,
	})
}

// taskActivity runs a task. It sends its heartbeats itself, through the client and not through the SDK's batching: a
// note is durable only when the server has answered. The context of the task does not end with that of the activity;
// heartbeats say when the task is canceled.
func (e *Engine) taskActivity(ctx context.Context, in taskInput) (taskOutput, error) {
	j := &job{e: e, in: in, token: activity.GetInfo(ctx).TaskToken, id: activity.GetInfo(ctx).ActivityID}
	var stop context.CancelCauseFunc
	j.ctx, stop = context.WithCancelCause(withRun(context.WithoutCancel(ctx), in.Run))
	j.cancel = stop
	j.stopper = step.NewCalls(stop)
	defer stop(nil)
	if err := checkExecution(ctx, in.Execution); err != nil {
		return taskOutput{}, stopping(err)
	}
	interval := min(beatInterval, activity.GetInfo(ctx).HeartbeatTimeout/4)
	if why, labels := e.enter(j); why != "" {
		return taskOutput{Declined: why, Labels: labels}, nil
	}
	defer e.leave(j)
	ended := make(chan struct{})
	var beats sync.WaitGroup
	beats.Go(func() { j.sendHeartbeatsUntil(ended, interval) })
	out, err := j.run()
	// No heartbeat may run after the activity has returned: its answer could report the task as lost.
	close(ended)
	beats.Wait()
	j.heartbeatMu.Lock()
	defer j.heartbeatMu.Unlock()
	if j.orphaned {
		go e.taskOrphaned(in.Run)
	}
	return out, err
}

// beatInterval is how often a running task sends a heartbeat. The answer says
// whether the task is canceled.
const beatInterval = time.Second

// job is a running task. It implements step.Log.
type job struct {
	*engine.Task
	e      *Engine
	in     taskInput
	id     string // of the activity
	token  []byte
	ctx    context.Context //nolint:containedctx // the life of the task, not of one call
	cancel context.CancelCauseFunc

	stopper *step.Calls

	heartbeatMu sync.Mutex // one heartbeat at a time, so that a later one has more
	orphaned    bool       // Temporal does not know the activity anymore; guarded by heartbeatMu

	mu        sync.Mutex // guards everything below
	published bool
	started   bool                // the task may act
	history   []journal.TaskNoted // every note of the task so far
	log       []entry             // what the workflow does not have yet
	last      int                 // number of the last note
	calls     int                 // number of the last reservation
	waits     int                 // number of the reservation that has to wait
	bounded   bool                // reservations need an answer of the workflow
}

// run publishes what the task depends on, reads its job from the journal and runs
// it.
func (j *job) run() (taskOutput, error) {
	ready, err := j.prepare()
	switch {
	case err != nil:
		if stop := stopping(err); stop != nil {
			j.e.Log.Warn("workflow not continued", "run_id", j.in.Run, "error", err)
			return taskOutput{}, stop
		}
		return taskOutput{Published: j.published, Declined: err.Error()}, nil
	case !ready:
		return taskOutput{Published: j.published}, nil
	}
	if err := j.sendFirstHeartbeat(); err != nil {
		return taskOutput{Published: j.published, Declined: err.Error()}, nil
	}
	// From here on the task may act.
	result, cause, err := j.e.Run(j.ctx, j.Task, j.notes)
	if unwritten := j.add(result.Notes); err == nil {
		err = unwritten
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	out := taskOutput{Published: j.published, Log: j.log}
	if j.waits > 0 && !errors.Is(cause, engine.ErrCanceled) {
		out.Waits = j.waits
		return out, nil
	}
	// A large result is stored before the workflow gets its hash. If that fails, the outcome counts as unknown.
	in, blob := j.e.Ended(j.Task, j.history, result, cause, err)
	if blob != nil {
		if err := putBlobs(context.WithoutCancel(j.ctx), j.e.store, j.in.Run, j.fence(), *blob); err != nil {
			in = j.e.Lost(j.Work, j.in.Rerun, j.Job.Task, j.history, err.Error())
		}
	}
	out.End = newEnding(in)
	if errors.Is(cause, engine.ErrCanceled) {
		late, _ := j.e.Ended(j.Task, j.history, result, engine.ErrDeadline, err)
		if lost, ok := late.(plan.TaskLost); ok {
			out.End.Lost = &lost
		}
	}
	return out, nil
}

// prepare makes the journal complete and reads the job. It reports whether the
// task is still to run. It waits as long as the journal cannot be reached.
func (j *job) prepare() (ready bool, err error) {
	for {
		ready, err = j.load()
		if err == nil || !errors.Is(err, journal.ErrUnavailable) {
			return ready, err
		}
		if !pause(j.ctx, 100*time.Millisecond) {
			return false, context.Cause(j.ctx)
		}
	}
}

// fence returns the fence of the workflow. Inputs of earlier builds have none.
func (j *job) fence() int64 { return cmp.Or(j.in.Fence, journal.FirstFence) }

// load appends the facts that the task depends on, folds the run, and builds the job from it. It may be repeated.
func (j *job) load() (ready bool, err error) {
	if j.in.Facts != nil && !j.published {
		if err := appendFacts(j.ctx, j.e.store, j.in.Facts, j.e.LogAppend); err != nil {
			return false, err
		}
		j.mu.Lock()
		j.published = true
		j.mu.Unlock()
	}
	entry, err := j.e.store.Entry(j.ctx, j.in.Run)
	if err != nil || entry.Status == journal.Finished {
		return false, err
	}
	// Without facts to append, nothing else would notice that another workflow has claimed the run.
	if j.in.Facts == nil {
		if err := checkFence(j.ctx, j.e.store, j.in.Run, j.fence(), 0); err != nil {
			return false, err
		}
	}
	def, err := j.e.Compiled(j.ctx, entry.Definition)
	if err != nil {
		return false, err
	}
	state, err := j.e.Fold(j.ctx, j.in.Run)
	if err != nil {
		return false, err
	}
	// The journal may be ahead of this activity: the task may have ended, or run again, in a later workflow.
	f := state.Running(j.in.Work, j.in.Rerun)
	if f == nil {
		return false, nil
	}
	var history []journal.TaskNoted
	for event, err := range j.e.store.Events(j.ctx, j.in.Run, f.Begun) {
		if err != nil {
			return false, err
		}
		if note, ok := event.Fact.(journal.TaskNoted); ok && note.TaskID == j.in.Work {
			history = append(history, note)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.history = history
	for _, n := range history {
		j.last, j.calls = max(j.last, n.N), max(j.calls, n.Settles)
	}
	j.bounded = state.Bounded()
	j.Task = j.e.NewTask(
		state, j.e.Program(def), def, plan.OpenTask{TaskID: j.in.Work, Rerun: j.in.Rerun, Frame: f}, history,
	)
	j.Job.Log, j.Job.Calls = j, j.stopper
	return true, nil
}

// sendFirstHeartbeat sends the first heartbeat, unless the task may be repeated anyway. A task
// that must not be repeated does nothing before that, so that one without a
// heartbeat can run again.
func (j *job) sendFirstHeartbeat() error {
	j.mu.Lock()
	j.started = true
	repeatable := len(j.history) == 0 && j.e.Recovery(j.Job.Task, nil) == journal.RecoveryRerun
	j.mu.Unlock()
	if repeatable {
		return nil
	}
	return j.sendHeartbeat(j.ctx)
}

// sendHeartbeatsUntil sends heartbeats until the task has ended.
func (j *job) sendHeartbeatsUntil(ended <-chan struct{}, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			_ = j.sendHeartbeat(j.ctx) // it cancels the task if the server says so
		}
	}
}

// sendHeartbeat sends a heartbeat with everything that the workflow does not have yet, and
// returns when the server has it.
func (j *job) sendHeartbeat(ctx context.Context) error {
	j.heartbeatMu.Lock()
	defer j.heartbeatMu.Unlock()
	j.mu.Lock()
	var beat []any
	if j.started {
		beat = append(beat, heartbeat{
			Published: j.published, Log: j.log, Policy: j.e.Recovery(j.Job.Task, j.history),
			Used: journal.Reported(j.history),
		})
	}
	j.mu.Unlock()
	return j.answered(j.e.client.RecordActivityHeartbeat(context.WithoutCancel(ctx), j.token, beat...))
}

// flush sends a heartbeat that the task cannot continue without.
func (j *job) flush(ctx context.Context) error {
	err := j.sendHeartbeat(ctx)
	if err != nil {
		j.cancel(engine.ErrParked)
	}
	return err
}

// answered handles the answer to a heartbeat: the task may be canceled or considered lost.
func (j *job) answered(err error) error {
	var canceled *temporal.CanceledError
	switch {
	case errors.As(err, &canceled):
		if j.expired() {
			j.stopper.Stop(engine.ErrDeadline)
		} else {
			j.cancel(engine.ErrCanceled)
		}
		return nil // what was sent is durable
	case isNotFound(err):
		j.orphaned = true
		j.cancel(engine.ErrParked)
	}
	return err
}

// expired reports whether the workflow has canceled the task because the deadline of the run has passed. A heartbeat
// does not say why. Without an answer, the task is canceled at once, which is safe.
func (j *job) expired() bool {
	ctx, stop := context.WithTimeout(context.WithoutCancel(j.ctx), queryTime)
	defer stop()
	answer, err := j.e.client.QueryWorkflow(ctx, j.e.workflowID(j.in.Run), "", expiredName, j.in.Work.Key())
	var yes bool
	return err == nil && answer.Get(&yes) == nil && yes
}

// queryTime is how long a canceled task waits for the reason.
const queryTime = 5 * time.Second

// recovery returns what happens to the task if its outcome stays unknown.
func (j *job) recovery() journal.Recovery {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.started {
		return journal.RecoveryRerun
	}
	return j.e.Recovery(j.Job.Task, j.history)
}

// notes returns the notes of the task so far. Callers may keep the slice: later notes are only appended.
func (j *job) notes() []journal.TaskNoted {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.history
}

// add adds notes to the log.
func (j *job) add(notes []step.Note) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range notes {
		note, noted, err := engine.NewNote(j.Work, j.in.Rerun, j.last+1, n)
		if err != nil {
			return err
		}
		j.last++
		j.log = append(j.log, entry{Note: &note})
		j.history = append(j.history, noted)
	}
	return nil
}

// Note implements step.Log.
func (j *job) Note(ctx context.Context, notes ...step.Note) error {
	if len(notes) == 0 {
		return nil
	}
	err := j.add(notes)
	if err == nil {
		err = j.flush(ctx)
	}
	return cmp.Or(err, ctx.Err())
}

// Reserve implements step.Log.
func (j *job) Reserve(ctx context.Context, amount journal.Usage, notes ...step.Note) (step.Reservation, error) {
	n, _, err := j.ReserveUpTo(ctx, amount, 0, notes...)
	return n, err
}

// errWaits ends a task whose reservation has to wait.
var errWaits = errors.New("the reservation has to wait for budget")

// ReserveUpTo implements step.Log. Without a limit that could refuse it, a
// reservation needs no answer of the workflow: it only has to be durable.
func (j *job) ReserveUpTo(
	ctx context.Context, most journal.Usage, least int64, notes ...step.Note,
) (step.Reservation, journal.Usage, error) {
	if err := j.add(notes); err != nil {
		return 0, most, err
	}
	j.mu.Lock()
	j.calls++
	request := plan.Reserve{Work: j.Work, Rerun: j.in.Rerun, N: j.calls, Amount: most, Least: least}
	// The update carries the log up to here. Heartbeats repeat it until the workflow has answered, which is harmless:
	// the plan ignores notes that it has.
	sent := j.log
	if !j.bounded {
		j.log = append(j.log, entry{Reserve: &request})
	}
	bounded := j.bounded
	j.mu.Unlock()
	if !bounded || len(notes) > 0 { // what happens to the task if its worker dies may depend on notes
		if err := j.flush(ctx); err != nil {
			return 0, most, err
		}
	}
	if !bounded {
		return step.Reservation(request.N), most, ctx.Err()
	}
	answer, err := j.ask(ctx, reservation{Log: sent, Reserve: request})
	if err != nil {
		j.cancel(engine.ErrParked)
		return 0, most, err
	}
	j.mu.Lock()
	j.log = j.log[len(sent):]
	j.mu.Unlock()
	switch {
	case answer.Granted != nil:
		return step.Reservation(request.N), *answer.Granted, nil
	case answer.Budget != "":
		return 0, most, engine.BudgetError(answer.Budget)
	case answer.Gone != "":
		j.cancel(engine.ErrParked)
		return 0, most, errors.New(answer.Gone)
	}
	j.mu.Lock()
	j.waits = request.N
	j.mu.Unlock()
	j.cancel(errWaits)
	return 0, most, errWaits
}

// ask asks the workflow for budget. The id of the update names the activity and the number of the reservation, so that
// Temporal answers a repeated request without executing it twice.
func (j *job) ask(ctx context.Context, r reservation) (answer reserved, err error) {
	handle, err := j.e.client.UpdateWorkflow(withRun(ctx, j.in.Run), client.UpdateWorkflowOptions{
		UpdateID: fmt.Sprintf("%s reserve %d", j.id, r.Reserve.N), WorkflowID: j.e.workflowID(j.in.Run),
		UpdateName: reserveName, Args: []any{r}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, &answer)
	}
	return answer, err
}
