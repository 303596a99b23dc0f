package temporal

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// The names under which workers register what they run. Histories contain them.
const (
	workflowName  = "espalier.run"
	taskName      = "espalier.task"
	publishName   = "espalier.publish"
	sendName      = "espalier.send"
	reserveName   = "espalier.reserve"
	rerunLostName = "espalier.rerun-lost"
	expiredName   = "espalier.expired" // asks whether a task is canceled because the deadline has passed
	handOverName  = "espalier.hand-over"
	recoverName   = "espalier.recover"
)

// runInput is the input of a workflow: a run that starts, or one that continues from a snapshot or from the journal.
// Histories contain it, so its JSON names must not change.
type runInput struct {
	Run journal.RunID `json:"run"`
	// Started is the first event of the run as the journal encodes it, and Edits
	// are made before the first step.
	Started string      `json:"started,omitempty"`
	Edits   []plan.Edit `json:"edits,omitempty"`

	// Snapshot is the hash of the state to continue from, Chain the hash of all
	// facts up to it, and Children are the open child runs.
	Snapshot string          `json:"snapshot,omitempty"`
	Chain    string          `json:"chain,omitempty"`
	Children []journal.Entry `json:"children,omitempty"`
	// Refused are the reservations of open tasks that were refused.
	Refused map[string]string `json:"refused,omitempty"`

	// Recover makes the workflow continue from the journal: Temporal has lost the previous one. RerunLost makes lost
	// tasks run again without a decision.
	Recover   bool `json:"recover,omitempty"`
	RerunLost bool `json:"rerun_lost,omitempty"`
	// Fence is from the claim of the workflow that this one continues; 0 is journal.FirstFence.
	Fence int64 `json:"fence,omitempty"`

	// Heartbeat is the timeout of the heartbeats of tasks.
	Heartbeat time.Duration `json:"heartbeat"`
	// Attributes reports whether the namespace has the search attributes.
	Attributes bool `json:"attributes,omitempty"`
	// ContinueAfter is the number of events after which the workflow continues as
	// a new one; 0 leaves that to the server.
	ContinueAfter int `json:"continue_after,omitempty"`
}

// driver drives one run. It is the state of a workflow: it must not depend on anything but the workflow's input and
// history, and on blobs of the journal, whose hashes these contain. Temporal replays the history on other workers, so
// everything that issues commands (activities, timers, answers) has to happen in the same order each time: maps are
// iterated by sorted keys. It needs no lock, because the SDK runs the coroutines of a workflow one at a time and
// switches only where they wait.
type driver struct {
	e       *Engine
	in      runInput
	state   *plan.State // nil until the run is recovered
	program *plan.Program
	// execution is the execution that this history belongs to, unless it was reset.
	execution string
	stopped   string // the type of the error because of which the workflow must not continue; empty if it may

	queue    []*request
	tasks    map[string]*launch // running activities, by the key of the task
	starting []*launch          // wait until the journal has their facts
	launches int
	sleeping int // declined tasks that wait
	// parked are tasks whose activity has ended because their reservation waits.
	parked map[string]*launch
	// refused are budgets of refused reservations, by task and number.
	refused   map[string]string
	rerunLost map[string]bool // open tasks that run again if they are lost
	// labels are those that a worker needs to run tasks, as the last worker without them reported; nil for none.
	labels []string

	children engine.Children
	decided  []decision // not in the journal yet, as far as the workflow knows
	// carried is the last event that a running task appends by itself.
	carried    journal.Seq
	published  journal.Seq
	publishing bool
	waiters    int               // updates that wait for the journal
	chain      journal.ChainHash // of all facts so far; part of the ids of activities
	snapshots  engine.Snapshots
	shown      attributes // as Temporal has them

	successor int // the version of the workers that are to continue the run; 0 for those of this version

	timerAt     journal.Millis // 0 if no timer is set
	cancelTimer workflow.CancelFunc
	woken       bool // something has changed: the loop looks again

	ignoresCanceled bool // Temporal has canceled the workflow, of an earlier build that ignored it
}

// request is an input for the run. decide sets done, refused and seq; what waits for the answer also waits until
// published has reached seq.
type request struct {
	in      plan.Input
	with    []plan.Input // decided together with in
	ref     string
	done    bool
	refused *plan.Refusal
	seq     journal.Seq // the last event of the answer
}

// decision is what was decided at one time, ready for the journal. It is kept until the journal has it.
type decision struct {
	last     journal.Seq // its last event
	lines    []byte
	index    journal.Index
	children []journal.Entry
	snapshot []byte
}

// launch is one execution of a task.
type launch struct {
	work   journal.TaskID
	rerun  int
	seq    journal.Seq // the journal must have the facts up to here
	number int         // number of the reservation that the task waits for
	cancel workflow.CancelFunc
	cause  error // why the workflow has canceled it
	// declined is how many workers have declined to run it.
	declined int
	labels   []string // those of the task queue
}

// runWorkflow is the workflow.
func (e *Engine) runWorkflow(ctx workflow.Context, in runInput) error {
	d := &driver{
		e: e, in: in, tasks: map[string]*launch{}, parked: map[string]*launch{}, refused: map[string]string{},
		rerunLost: map[string]bool{}, children: engine.Children{}, execution: workflow.GetInfo(ctx).OriginalRunID,
	}
	maps.Copy(d.refused, in.Refused)
	var events []journal.Event
	switch {
	case in.Recover:
	case in.Snapshot == "":
		events = d.begin()
	default:
		d.restore(nil)
	}
	// Register the handlers before anything waits: Temporal rejects an update for which there is no handler when it
	// arrives.
	if err := d.handleUpdates(ctx); err != nil {
		return err
	}
	d.handleCancellation(ctx)
	if in.Recover && !d.recover(ctx) {
		d.stopped = supersededType
		d.await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
		return nil
	}
	d.record(events)
	d.effects(events)
	// Each round decides on what has arrived, and starts what follows from it. startTasks comes before publish: a
	// single task appends the decisions itself, and publish leaves them to it.
	for {
		if d.stopped != "" {
			return d.stop(ctx)
		}
		d.hold(ctx)
		d.decide(ctx)
		d.startTasks(ctx)
		d.publish(ctx)
		d.show(ctx)
		if d.state.Finished != nil && d.quiet() && workflow.AllHandlersFinished(ctx) {
			return d.end(ctx)
		}
		if next, ok := d.continued(ctx); ok {
			if d.successor > 0 {
				ctx = workflow.WithWorkflowTaskQueue(ctx, queueOf(e.c.TaskQueue, d.successor))
			}
			return workflow.NewContinueAsNewError(ctx, workflowName, next)
		}
		if d.state.Moving() {
			// A decision that goes on for long must not keep the workflow task.
			d.await(ctx, func() bool { return d.quietJournal() || d.stopped != "" })
			continue
		}
		d.setTimer(ctx)
		d.await(ctx, func() bool { return len(d.queue) > 0 || d.woken })
	}
}

// await waits for a condition. A workflow that Temporal cancels continues until its run has ended.
func (d *driver) await(ctx workflow.Context, until func() bool) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if err := workflow.Await(ctx, until); err != nil {
		panic(err)
	}
	d.woken = false
}

// compiled returns the definition of the run. Trouble with the journal panics:
// Temporal tries the workflow task again, and the run stays open.
func (d *driver) compiled(hash string) {
	def, err := d.e.Compiled(context.Background(), hash)
	if err != nil {
		panic(fmt.Errorf("definition of run %s: %w", d.in.Run, err))
	}
	d.program = d.e.Program(def)
}

// begin starts the run and returns its first events.
func (d *driver) begin() []journal.Event {
	first, err := journal.Decode([]byte(d.in.Started))
	if err != nil || len(first) != 1 {
		panic(fmt.Errorf("run %s: its first event is not readable: %w", d.in.Run, err))
	}
	started, ok := first[0].Fact.(journal.RunStarted)
	if !ok {
		panic(fmt.Sprintf("run %s: its first event is %T", d.in.Run, first[0].Fact))
	}
	d.compiled(started.Definition)
	var events []journal.Event
	d.state, events = plan.Start(d.program, d.in.Run, started, first[0].At, false, d.in.Edits...)
	return events
}

// restore continues from a snapshot. Tasks do not run at that point, except for
// those that wait for budget and those that are lost.
func (d *driver) restore(lost map[string]bool) {
	raw, err := d.e.store.Blob(context.Background(), d.in.Snapshot)
	if err == nil {
		d.state, err = plan.Restore(raw)
	}
	if err != nil {
		panic(fmt.Errorf("snapshot of run %s: %w", d.in.Run, err))
	}
	d.compiled(d.state.Definition)
	if _, err := hex.Decode(d.chain[:], []byte(d.in.Chain)); err != nil {
		panic(err)
	}
	d.published, d.snapshots.Size = d.state.Seq, len(raw)
	for _, entry := range d.in.Children {
		d.children[entry.ID] = entry
	}
	for _, t := range d.state.OpenTasks() {
		if lost[t.Key()] {
			continue
		}
		d.parked[t.Key()] = &launch{work: t.TaskID, rerun: t.Rerun, number: t.Waits}
	}
	d.state.MarkAll() // tasks were held
	d.unpark()
	d.woken = true
}

// handleUpdates registers the messages that the run accepts.
func (d *driver) handleUpdates(ctx workflow.Context) error {
	return errors.Join(
		workflow.SetUpdateHandlerWithOptions(ctx, sendName, d.send, workflow.UpdateHandlerOptions{
			Validator: d.validate, Description: "A message of a person or an event",
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, reserveName, d.reserve, workflow.UpdateHandlerOptions{
			Description: "A reservation of budget by a task",
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, rerunLostName, d.rerunLostTasks, workflow.UpdateHandlerOptions{
			Description: "Run tasks again whose outcome is unknown",
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, handOverName, d.handOver, workflow.UpdateHandlerOptions{
			Description: "Continue the run with workers of a later version",
		}),
		workflow.SetQueryHandler(ctx, expiredName, func(key string) (bool, error) {
			t := d.tasks[key]
			return t != nil && errors.Is(t.cause, engine.ErrDeadline), nil
		}),
	)
}

// refusalType is the type of the error of a message that the run does not accept.
const refusalType = "refusal"

// stoppedType is the type of the error of a message that has to be sent again.
const stoppedType = "stopped"

// validate refuses a message that the plan refuses. It leaves no trace in the
// history.
func (d *driver) validate(_ workflow.Context, m journal.Message) error {
	in, _, err := engine.DecodeMessage(m)
	if err != nil || d.state == nil {
		return err
	}
	err = d.state.Check(d.program, in)
	if refused, ok := plan.IsRefusal(err); ok && !d.state.MayHaveUnknownOutcome(in) {
		return temporal.NewApplicationError(refused.Why, refusalType, string(refused.Code))
	}
	return nil
}

// send accepts a message and returns when the journal has the answer: nil, or
// why the run has refused it.
func (d *driver) send(ctx workflow.Context, m journal.Message) (*plan.Refusal, error) {
	in, ref, err := engine.DecodeMessage(m)
	if err != nil {
		return nil, err
	}
	ctx = d.detached(ctx)
	if d.state == nil {
		if err := d.awaitState(ctx); err != nil {
			return nil, err
		}
		if err := d.validate(ctx, m); err != nil {
			return nil, err
		}
	}
	q := &request{in: in, ref: ref}
	d.queue = append(d.queue, q)
	// While an answer waits for the journal, publish does not leave the decisions to tasks, which may have to wait long
	// for a worker.
	d.waiters++
	err = workflow.Await(ctx, func() bool { return q.done && d.published >= q.seq || d.stopped != "" })
	if err == nil && !(q.done && d.published >= q.seq) {
		err = d.errStopped()
	}
	if _, ok := in.(plan.Cancel); ok && err == nil && q.refused == nil {
		// Tasks that no worker has started end at once.
		_, err = workflow.AwaitWithTimeout(ctx, cancelTime, func() bool {
			return d.state.Finished != nil && d.published >= d.state.Seq || d.stopped != ""
		})
	}
	d.waiters--
	d.woken = true
	return q.refused, err
}

// awaitState waits until the run is recovered.
func (d *driver) awaitState(ctx workflow.Context) error {
	err := workflow.Await(ctx, func() bool { return d.state != nil || d.stopped != "" })
	if err == nil && d.state == nil {
		err = d.errStopped()
	}
	return err
}

// errStopped is the error of a message for a workflow that must not continue. The sender tries again.
func (d *driver) errStopped() error {
	return temporal.NewApplicationError("the workflow does not continue", stoppedType)
}

// cancelTime is how long the sender of a cancellation waits for the end of the run.
const cancelTime = 2 * time.Second

// rerunLostTasks makes open tasks run again without a decision if they are lost.
func (d *driver) rerunLostTasks(ctx workflow.Context) error {
	if err := d.awaitState(d.detached(ctx)); err != nil {
		return err
	}
	for _, t := range d.state.OpenTasks() {
		d.rerunLost[t.Key()] = true
	}
	return nil
}

// reservation is a request of a task for budget, after what it has done so far.
type reservation struct {
	Log     []entry      `json:"log,omitempty"`
	Reserve plan.Reserve `json:"reserve"`
}

// reserved is the answer to a reservation.
type reserved struct {
	Granted *journal.Usage `json:"granted,omitempty"`
	Budget  string         `json:"budget,omitempty"` // the budget that is exhausted
	Gone    string         `json:"gone,omitempty"`   // why the task has to end
}

// reserve answers a reservation: granted, refused, or neither if it waits.
func (d *driver) reserve(ctx workflow.Context, r reservation) (reserved, error) {
	// A task that was parked runs again from its notes and repeats its reservation: what was refused stays refused, and
	// what was granted is found in its frame below.
	key := refusedKey(r.Reserve.Work, r.Reserve.N)
	requests := d.requests(r.Log)
	q := &request{in: r.Reserve}
	if d.refused[key] == "" {
		requests = append(requests, q)
	}
	d.queue = append(d.queue, requests...)
	if len(requests) > 0 {
		last := requests[len(requests)-1]
		if err := workflow.Await(d.detached(ctx), func() bool { return last.done || d.stopped != "" }); err != nil {
			return reserved{}, err
		}
		if !last.done {
			return reserved{Gone: errSuperseded.Error()}, nil
		}
	}
	d.woken = true
	if q.refused != nil {
		return reserved{Gone: q.refused.Why}, nil
	}
	if budget := d.refused[key]; budget != "" {
		return reserved{Budget: budget}, nil
	}
	if f := d.state.Frames[r.Reserve.Work.Frame]; f != nil && f.Work() == r.Reserve.Work {
		if amount, ok := f.Reserved[r.Reserve.N]; ok {
			return reserved{Granted: &amount}, nil
		}
		return reserved{}, nil
	}
	return reserved{Gone: "the task has ended"}, nil
}

// refusedKey names a reservation in driver.refused. Inputs of workflows contain it, so its form must not change.
func refusedKey(w journal.TaskID, n int) string { return fmt.Sprint(w.Key(), " ", n) }

// now returns the time of the workflow.
func (d *driver) now(ctx workflow.Context) journal.Millis { return journal.MillisOf(workflow.Now(ctx)) }

// decide decides on all queued requests and on what is due.
func (d *driver) decide(ctx workflow.Context) {
	var all []journal.Event
	now := d.now(ctx)
	for len(d.queue) > 0 {
		q := d.queue[0]
		d.queue = d.queue[1:]
		events := d.state.Decide(d.program, now, append([]plan.Input{q.in}, q.with...)...)
		for i := range events {
			if x, ok := events[i].Fact.(journal.InputRefused); ok && q.refused == nil {
				q.refused = &plan.Refusal{Code: plan.RefusalCode(x.Code), Why: x.Why, Step: x.Step}
				x.Ref = q.ref
				events[i].Fact = x
			}
		}
		// A finished run records no refusals, so ask the plan why the message had no effect.
		if len(events) == 0 && d.state.Finished != nil {
			if refused, ok := plan.IsRefusal(d.state.Check(d.program, q.in)); ok {
				q.refused = refused
			}
		}
		all = append(all, events...)
		q.done, q.seq = true, d.state.Seq
	}
	all = append(all, d.state.Decide(d.program, now)...)
	d.record(all)
	d.effects(all)
}

// record queues events for the journal, together with the index, the children and the snapshot as of these events:
// later ones would not match the journal if it gets only a part of the queue.
func (d *driver) record(events []journal.Event) {
	if len(events) == 0 {
		return
	}
	lines, err := journal.Encode(nil, events)
	if err != nil {
		panic(err)
	}
	x := decision{
		last: d.state.Seq, lines: lines, index: d.state.Summary(), children: d.children.Update(d.state, events),
		snapshot: d.snapshots.Next(d.state, len(lines)),
	}
	d.chain = d.chain.Next(lines)
	d.decided = append(d.decided, x)
}

// effects applies the effects of new facts outside of the state.
func (d *driver) effects(events []journal.Event) {
	for i := range events {
		switch x := events[i].Fact.(type) {
		case journal.TaskStarted:
			if d.state.Running(x.TaskID, x.Rerun) == nil {
				continue
			}
			delete(d.parked, x.Key())
			d.starting = append(d.starting, &launch{work: x.TaskID, rerun: x.Rerun, seq: d.state.Seq})
		case journal.TaskEnded:
			delete(d.rerunLost, x.Key())
			prefix := x.Key() + " "
			maps.DeleteFunc(d.refused, func(key, _ string) bool { return strings.HasPrefix(key, prefix) })
		case journal.BudgetRefused:
			if x.N > 0 {
				d.refused[refusedKey(x.TaskID, x.N)] = x.Budget
			}
		case journal.CancelRequested:
			d.cancel(x.Frame, engine.ErrCanceled)
		case journal.TimerFired:
			if x.What == plan.TimerDeadline && x.Run {
				d.cancel("", engine.ErrDeadline)
			}
		}
	}
	d.unpark()
}

// cancel cancels the running tasks of a frame.
func (d *driver) cancel(frame string, cause error) {
	// Sorted, because the cancellations are commands, which a replay must repeat in the same order.
	for _, key := range slices.Sorted(maps.Keys(d.tasks)) {
		t := d.tasks[key]
		// A task that finishes its call after the deadline can still be canceled.
		first := t.cause == nil || errors.Is(t.cause, engine.ErrDeadline) && !errors.Is(cause, engine.ErrDeadline)
		if first && (frame == "" || strings.HasPrefix(t.work.Frame+"/", frame+"/")) {
			t.cause = cause
			t.cancel()
		}
	}
}

// unpark starts tasks again whose reservation is answered, and ends those that
// are canceled.
func (d *driver) unpark() {
	// Sorted for the same reason as in cancel.
	for _, key := range slices.Sorted(maps.Keys(d.parked)) {
		p := d.parked[key]
		f := d.state.Running(p.work, p.rerun)
		if f == nil {
			delete(d.parked, key)
			continue
		}
		if f.Canceled {
			delete(d.parked, key)
			d.queue = append(d.queue, &request{in: p.canceled()})
			continue
		}
		_, granted := f.Reserved[p.number]
		if granted || d.refused[refusedKey(p.work, p.number)] != "" {
			delete(d.parked, key)
			d.launchAgain(p, 0)
		}
	}
}

// canceled is the result of a task that is canceled before it has started.
func (l *launch) canceled() plan.Result {
	return plan.Result{Work: l.work, Rerun: l.rerun, Outcome: journal.OutcomeCanceled}
}

// launchAgain starts a task again that some workers may have declined.
func (d *driver) launchAgain(l *launch, declined int) {
	d.starting = append(d.starting, &launch{work: l.work, rerun: l.rerun, seq: d.state.Seq, declined: declined})
}

// startTasks starts the activities of tasks whose facts are in the journal. A
// single task appends its facts itself, which saves an activity.
func (d *driver) startTasks(ctx workflow.Context) {
	// Only one activity may append at a time, and no answer may wait for the journal: the task may have to wait long
	// for a worker.
	alone := len(d.starting) == 1 && len(d.decided) > 0 && !d.publishing && d.waiters == 0 &&
		d.carried <= d.published && d.sizeOfDecided() <= batchSize
	d.starting = slices.DeleteFunc(d.starting, func(l *launch) bool {
		switch f := d.state.Running(l.work, l.rerun); {
		case f == nil:
			return true
		case f.Canceled: // it has not started
			d.queue = append(d.queue, &request{in: l.canceled()})
			d.woken = true
			return true
		case alone:
			d.carried = d.decided[len(d.decided)-1].last
			d.launch(ctx, l, d.unpublished(len(d.decided)))
			return true
		case d.published >= l.seq:
			d.launch(ctx, l, nil)
			return true
		}
		return false
	})
}

// launch starts the activity of a task.
func (d *driver) launch(ctx workflow.Context, l *launch, carries *facts) {
	d.launches++
	// The activity outlives a cancellation of the workflow by Temporal; only the plan cancels tasks.
	detached, _ := workflow.NewDisconnectedContext(ctx)
	detached, l.cancel = workflow.WithCancel(detached)
	d.tasks[l.work.Key()] = l
	queue, limit := "", time.Duration(0)
	if l.labels = d.labels; len(l.labels) > 0 {
		queue, limit = d.e.labelQueue(l.labels), labelTime
	}
	future := workflow.ExecuteActivity(
		workflow.WithActivityOptions(detached, workflow.ActivityOptions{
			ActivityID: fmt.Sprintf("%s+%d.%d %s", l.work.Key(), l.rerun, d.launches, d.chain.String()[:12]),
			Summary:    l.work.Key(), TaskQueue: queue, ScheduleToStartTimeout: limit,
			StartToCloseTimeout: forever, HeartbeatTimeout: d.in.Heartbeat, WaitForCancellation: true,
			// The plan decides about retries.
			RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
			// The worker that decides would get it first, again and again.
			DisableEagerExecution: l.declined > 0,
		}),
		taskName, taskInput{
			Run: d.in.Run, Work: l.work, Rerun: l.rerun, Launch: d.launches, Facts: carries,
			Execution: d.execution, Fence: d.in.Fence,
		},
	)
	workflow.Go(ctx, func(ctx workflow.Context) {
		ctx, _ = workflow.NewDisconnectedContext(ctx)
		var out taskOutput
		d.ended(ctx, l, carries, &out, future.Get(ctx, &out))
	})
}

// forever is longer than any task runs.
const forever = 10 * 365 * 24 * time.Hour

// ended handles the end of an activity that ran a task.
func (d *driver) ended(ctx workflow.Context, l *launch, carried *facts, out *taskOutput, err error) {
	key := l.work.Key()
	if d.tasks[key] == l {
		delete(d.tasks, key)
	}
	d.woken = true
	// Every error becomes an output: an activity never fails a run by itself.
	var timeout *temporal.TimeoutError
	var canceled *temporal.CanceledError
	switch {
	case err == nil:
	case errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		d.labels = nil
		*out = taskOutput{Declined: "no worker has its labels"}
	case errors.As(err, &timeout):
		*out = d.lost(l, timeout)
	case errors.As(err, &canceled): // it has never started
		*out = taskOutput{End: newEnding(l.canceled())}
	case d.stops(err):
		if d.state.Finished != nil {
			d.stopped = "" // the task is too late, not the workflow
		}
		*out = taskOutput{}
	default:
		*out = taskOutput{End: newEnding(plan.TaskLost{
			Work: l.work, Rerun: l.rerun, Why: err.Error(), Policy: journal.RecoveryAsk,
		})}
	}
	// If the task has not appended the facts that it carried, publish appends them in the next round.
	if carried != nil {
		if out.Published {
			d.confirm(carried)
		} else {
			d.carried = 0
		}
	}
	// What the task has done comes before its end.
	d.queue = append(d.queue, d.requests(out.Log)...)
	switch {
	case out.End != nil:
		d.queue = append(d.queue, &request{in: d.recovered(l, out.End.input(l.cause))})
	case out.Waits > 0:
		l.number = out.Waits
		d.parked[key] = l
		d.unpark()
	case out.Declined != "":
		// Another worker, or this one later, may be able to run it.
		if len(out.Labels) > 0 {
			d.labels = out.Labels
		}
		if l.declined == 0 && !slices.Equal(d.labels, l.labels) {
			d.launchAgain(l, 1)
			return
		}
		d.sleeping++
		delay := min(declinedDelay<<min(l.declined, 10), declinedMost)
		unwanted := func() bool {
			f := d.state.Running(l.work, l.rerun)
			return f == nil || f.Canceled
		}
		if _, err := workflow.AwaitWithTimeout(ctx, delay, unwanted); err != nil {
			panic(err)
		}
		d.sleeping--
		d.launchAgain(l, l.declined+1)
		d.woken = true
	}
}

// declinedDelay is how long a task that a worker has declined waits at first, and
// declinedMost at most.
const (
	declinedDelay = 500 * time.Millisecond
	declinedMost  = 30 * time.Second
)

// recovered returns the input of a task's end. A lost task that a person wants to
// run again does not ask.
func (d *driver) recovered(l *launch, in plan.Input) plan.Input {
	key := l.work.Key()
	if lost, ok := in.(plan.TaskLost); ok && lost.Policy == journal.RecoveryAsk && d.rerunLost[key] {
		lost.Policy, lost.Why = journal.RecoveryRerun, lost.Why+"; it is rerun on request"
		in = lost
	}
	delete(d.rerunLost, key)
	return in
}

// lost returns the output of a task whose worker has died: what its last
// heartbeat says.
func (d *driver) lost(l *launch, timeout *temporal.TimeoutError) taskOutput {
	lost := &plan.TaskLost{Work: l.work, Rerun: l.rerun, Why: "its worker has ended", Policy: journal.RecoveryRerun}
	if timeout.TimeoutType() != enumspb.TIMEOUT_TYPE_HEARTBEAT {
		lost.Why = timeout.Message()
	}
	out := taskOutput{End: &ending{TaskLost: lost}}
	if !timeout.HasLastHeartbeatDetails() {
		return out // before its first heartbeat, a task does nothing that must not be repeated
	}
	var beat heartbeat
	if err := timeout.LastHeartbeatDetails(&beat); err != nil {
		panic(fmt.Errorf("heartbeat of %s: %w", l.work.Key(), err))
	}
	out.Log, out.Published = beat.Log, beat.Published
	lost.Policy, lost.Used = beat.Policy, beat.Used
	return out
}

// requests returns the requests of what a task has done.
func (d *driver) requests(log []entry) []*request {
	out := make([]*request, 0, len(log))
	for _, x := range log {
		switch {
		case x.Note != nil:
			out = append(out, &request{in: *x.Note})
		case x.Reserve != nil:
			out = append(out, &request{in: *x.Reserve})
		}
	}
	return out
}

// batchSize is the size in bytes of the facts that one activity appends. A
// decision is not divided.
const batchSize = 512 << 10

// sizeOfDecided returns the size of the decisions that are not in the journal, in bytes.
func (d *driver) sizeOfDecided() int {
	size := 0
	for _, x := range d.decided {
		size += len(x.lines)
	}
	return size
}

// newFacts returns facts without events, which come after those that the journal has.
func (d *driver) newFacts() *facts {
	return &facts{Run: d.in.Run, Execution: d.execution, Fence: d.in.Fence, After: d.published}
}

// unpublished returns the first n decisions that are not in the journal.
func (d *driver) unpublished(n int) *facts {
	f := d.newFacts()
	var lines []byte
	for _, x := range d.decided[:n] {
		lines = append(lines, x.lines...)
		f.Index = x.index
		f.Children = append(f.Children, x.children...)
		f.Snapshot = ""
		if x.snapshot != nil && x.last == d.decided[n-1].last {
			f.Snapshot = string(x.snapshot)
		}
	}
	f.Lines = string(lines)
	return f
}

// confirm removes decisions that the journal has.
func (d *driver) confirm(f *facts) {
	last := f.After + journal.Seq(strings.Count(f.Lines, "\n"))
	d.published = max(d.published, last)
	d.decided = slices.DeleteFunc(d.decided, func(x decision) bool { return x.last <= d.published })
}

// publish starts the activity that appends decisions to the journal, one at a
// time. It leaves those alone that a task appends, unless something waits for them.
func (d *driver) publish(ctx workflow.Context) {
	if d.publishing || len(d.decided) == 0 {
		return
	}
	if d.decided[len(d.decided)-1].last <= d.carried && d.waiters == 0 && len(d.starting) == 0 {
		return
	}
	n, size := 0, 0
	for n < len(d.decided) && (n == 0 || size+len(d.decided[n].lines) <= batchSize) {
		size += len(d.decided[n].lines)
		n++
	}
	d.append(ctx, d.unpublished(n))
}

// append runs the activity that appends facts to the journal.
func (d *driver) append(ctx workflow.Context, f *facts) {
	d.publishing = true
	detached, _ := workflow.NewDisconnectedContext(ctx)
	last := f.After + journal.Seq(strings.Count(f.Lines, "\n"))
	future := workflow.ExecuteActivity(
		workflow.WithActivityOptions(detached, workflow.ActivityOptions{
			// The hash makes Temporal detect a replay that has decided something else: see doc.go.
			ActivityID: fmt.Sprintf("publish %d-%d %s", f.After+1, last, d.chain.String()[:12]),
			TaskQueue:  d.e.publishQueue(), StartToCloseTimeout: 10 * time.Second,
			RetryPolicy: publishRetries(),
		}), publishName, f,
	)
	workflow.Go(detached, func(ctx workflow.Context) {
		if err := future.Get(ctx, nil); d.stops(err) {
			return
		} else if err != nil {
			panic(err) // an alarm: the workflow task fails until a person looks at it
		}
		d.publishing = false
		d.confirm(f)
		d.woken = true
	})
}

// publishRetries is the policy of activities that need only the journal: they are tried until it answers.
func publishRetries() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{
		InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second,
	}
}

// quietJournal reports whether the journal has all decisions.
func (d *driver) quietJournal() bool { return len(d.decided) == 0 && !d.publishing }

// quiet reports whether nothing is under way.
func (d *driver) quiet() bool {
	return d.quietJournal() && len(d.tasks)+d.sleeping == 0 && len(d.starting) == 0 && len(d.queue) == 0
}

// setTimer makes the workflow wake when the next timer of the run is due. An
// earlier timer stays: it only costs a look.
func (d *driver) setTimer(ctx workflow.Context) {
	wake, ok := d.state.Wake()
	if !ok || d.state.Finished != nil || d.timerAt != 0 && d.timerAt <= wake {
		return
	}
	if d.cancelTimer != nil {
		d.cancelTimer()
	}
	detached, _ := workflow.NewDisconnectedContext(ctx)
	detached, d.cancelTimer = workflow.WithCancel(detached)
	d.timerAt = wake
	timer := workflow.NewTimer(detached, max(wake.Time().Sub(workflow.Now(ctx)), time.Millisecond))
	workflow.Go(detached, func(ctx workflow.Context) {
		if timer.Get(ctx, nil) == nil && d.timerAt == wake {
			d.timerAt, d.woken = 0, true
		}
	})
}

// hold stops new tasks when the history becomes long or workers of a later version
// are to continue the run, at a moment when no task runs: the workflow continues as
// a new one then. It waits for running tasks only if the history is very long.
func (d *driver) hold(ctx workflow.Context) {
	info := workflow.GetInfo(ctx)
	length := info.GetCurrentHistoryLength()
	long := info.GetContinueAsNewSuggested()
	if d.in.ContinueAfter > 0 {
		long = length > d.in.ContinueAfter
	}
	if (long || d.successor > 0) && (len(d.tasks) == 0 || length > drainLength) {
		d.state.Hold = true
	}
}

// drainLength is the number of events in the history from which on no task starts
// before the workflow has continued as a new one. Temporal ends a workflow at
// 51,200 events.
const drainLength = 30_000

// continued returns the input of the workflow that continues this one, if nothing
// is under way.
func (d *driver) continued(ctx workflow.Context) (next runInput, ok bool) {
	still := func() bool {
		return d.state.Hold && d.state.Finished == nil && !d.state.Moving() && d.quiet() &&
			workflow.AllHandlersFinished(ctx)
	}
	if !still() {
		return next, false
	}
	// Store the snapshot and wait until the journal has it. Messages may arrive meanwhile; then this workflow goes on,
	// and tries again later.
	snapshot, seq := d.state.Snapshot(), d.state.Seq
	f := d.newFacts()
	f.Blobs = []string{string(snapshot)}
	d.append(ctx, f)
	d.await(ctx, func() bool { return !d.publishing || d.stopped != "" })
	d.woken = true
	if !still() || d.state.Seq != seq {
		return next, false
	}
	next = runInput{
		Run: d.in.Run, Snapshot: newBlob(snapshot).Hash, Chain: d.chain.String(), Refused: d.refused, Fence: d.in.Fence,
		Heartbeat: d.in.Heartbeat, Attributes: d.in.Attributes, ContinueAfter: d.in.ContinueAfter,
	}
	for _, id := range slices.Sorted(maps.Keys(d.children)) {
		next.Children = append(next.Children, d.children[id])
	}
	return next, true
}
