package temporal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// The journal decides what has happened, not the history of a workflow, which Temporal may not have anymore or may
// have reset. Two rules prevent that an effect happens twice:
//
//   - A workflow that does not follow another one by itself recovers the run: it claims the run, which gives it a new
//     fence, and continues from the journal. The tasks that have started and not ended are lost. An earlier workflow,
//     which may be open in another namespace or task queue, has an old fence: it appends nothing, starts no task and
//     ends.
//   - Activities get the id of the execution that has decided to start them. After a reset it is not the one that runs
//     them. The workflow then continues as a new one, which recovers the run.

// The types of the errors of activities of a workflow that must not continue.
const (
	// supersededType means that a later workflow drives the run.
	supersededType = "superseded"
	// resetType means that the history was reset.
	resetType = "reset"
)

// errSuperseded means that a later workflow has claimed the run.
var errSuperseded = errors.New("another workflow has continued the run")

// errReset means that the activity belongs to a history that was reset.
var errReset = errors.New("the history of the workflow was reset")

// checkExecution returns errReset if another execution than the given one has started an activity. Activities of
// earlier builds have none.
func checkExecution(ctx context.Context, execution string) error {
	if execution != "" && activity.GetInfo(ctx).WorkflowExecution.RunID != execution {
		return errReset
	}
	return nil
}

// stopping returns the error of an activity after which its workflow must not continue, or nil.
func stopping(err error) error {
	kind := ""
	switch _, diverged := errors.AsType[*DivergedError](err); {
	case diverged:
		kind = divergedType
	case errors.Is(err, errReset):
		kind = resetType
	case errors.Is(err, errSuperseded):
		kind = supersededType
	default:
		return nil
	}
	return temporal.NewNonRetryableApplicationError(err.Error(), kind, err)
}

// stops reports whether an error of an activity means that the workflow must not continue, and remembers it.
func (d *driver) stops(err error) bool {
	failed, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok {
		return false
	}
	switch failed.Type() {
	case divergedType, resetType, supersededType:
	default:
		return false
	}
	d.stopped, d.woken = failed.Type(), true
	return true
}

// stop ends a workflow that must not continue. Unless a later one drives the run, it continues as a new one that
// recovers the run.
func (d *driver) stop(ctx workflow.Context) error {
	d.await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
	if d.stopped == supersededType {
		return temporal.NewApplicationError(errSuperseded.Error(), supersededType)
	}
	return workflow.NewContinueAsNewError(ctx, workflowName, runInput{
		Run: d.in.Run, Recover: true, RerunLost: d.in.RerunLost || len(d.rerunLost) > 0,
		Heartbeat: d.in.Heartbeat, Attributes: d.in.Attributes, ContinueAfter: d.in.ContinueAfter,
	})
}

// recovery is the input of the activity that recovers a run.
type recovery struct {
	Run journal.RunID `json:"run"`
	// Rerun makes lost tasks run again without a decision.
	Rerun bool `json:"rerun,omitempty"`
}

// recovered is what a workflow that recovers a run continues from.
type recovered struct {
	Over     bool            `json:"over,omitempty"` // the run has finished
	Fence    int64           `json:"fence,omitempty"`
	Snapshot string          `json:"snapshot,omitempty"`
	Children []journal.Entry `json:"children,omitempty"`
	// Lost are the tasks that have started and not ended.
	Lost []plan.TaskLost `json:"lost,omitempty"`
}

// recover claims the run and continues from the journal. It reports false if the run has finished.
func (d *driver) recover(ctx workflow.Context) bool {
	detached, _ := workflow.NewDisconnectedContext(ctx)
	var from recovered
	err := workflow.ExecuteActivity(
		workflow.WithActivityOptions(detached, workflow.ActivityOptions{
			ActivityID: "recover", TaskQueue: d.e.publishQueue(), StartToCloseTimeout: recoverTime,
			RetryPolicy: publishRetries(),
		}), recoverName, recovery{Run: d.in.Run, Rerun: d.in.RerunLost},
	).Get(detached, &from)
	if err != nil {
		panic(err)
	}
	if from.Over {
		return false
	}
	// The chain starts anew with the hash of the snapshot, which stands for all facts up to it.
	d.in.Fence, d.in.Snapshot, d.in.Chain, d.in.Children = from.Fence, from.Snapshot, from.Snapshot, from.Children
	keys := map[string]bool{} // of the lost tasks
	inputs := make([]plan.Input, 0, len(from.Lost))
	for _, lost := range from.Lost {
		keys[lost.Work.Key()] = true
		inputs = append(inputs, lost)
	}
	// Lost tasks are decided on before messages that have arrived meanwhile.
	d.restore(keys)
	if len(inputs) > 0 {
		d.queue = append([]*request{{
			in: plan.TakenOver{Owner: string(journal.Temporal) + "/" + d.execution}, with: inputs,
		}}, d.queue...)
	}
	return true
}

// recoverTime is how long an attempt to recover a run may take.
const recoverTime = time.Minute

// recoverActivity claims a run for a workflow and stores the state that the journal implies.
func (e *Engine) recoverActivity(ctx context.Context, in recovery) (out recovered, err error) {
	// Renew changes the fence although the owner stays the same, so that earlier workflows cannot append anymore. An
	// attempt that is repeated claims again, and its fence replaces that of the first.
	claim, err := claimUnfinished(ctx, e.store, in.Run, e.store.Renew)
	if errors.Is(err, journal.ErrFinished) || errors.Is(err, journal.ErrUnknownRun) {
		return recovered{Over: true}, nil
	}
	if err != nil {
		return out, err
	}
	state, program, _, err := e.Load(ctx, in.Run)
	if err != nil {
		return out, err
	}
	if state.Seq != claim.Seq {
		return out, fmt.Errorf("%w: run %s: its stream ends at event %d, not %d",
			journal.ErrCorrupt, in.Run, state.Seq, claim.Seq)
	}
	for _, t := range state.OpenTasks() {
		if t.Waits > 0 {
			continue // it waits for budget before a call: it can continue there
		}
		// The notes of the task are in heartbeats that only Temporal had, so what it has done is unknown.
		lost := plan.TaskLost{
			Work: t.TaskID, Rerun: t.Rerun, Why: "Temporal has lost its workflow", Policy: journal.RecoveryAsk,
			Until: state.At,
		}
		if program.Instant(state.TaskOf(program, t.Frame)) {
			lost.Policy = journal.RecoveryRerun
		}
		if lost.Policy == journal.RecoveryAsk && in.Rerun {
			lost.Policy, lost.Why = journal.RecoveryRerun, lost.Why+"; it is rerun on request"
		}
		out.Lost = append(out.Lost, lost)
	}
	children, err := e.OpenChildren(ctx, state)
	if err != nil {
		return out, err
	}
	out.Children = slices.Collect(maps.Values(children))
	snapshot := newBlob(state.Snapshot())
	out.Fence, out.Snapshot = claim.Fence, snapshot.Hash
	e.Log.Info("run recovered from the journal", "run_id", in.Run, "lost_tasks", len(out.Lost))
	return out, putBlobs(ctx, e.store, in.Run, claim.Fence, snapshot)
}

// claimUnfinished claims an unfinished run with Claim or Renew of the store.
func claimUnfinished(
	ctx context.Context, store Store, run journal.RunID,
	claim func(context.Context, journal.RunID, journal.Owner) (journal.Claim, error),
) (journal.Claim, error) {
	finished := func() error {
		entry, err := store.Entry(ctx, run)
		if err == nil && entry.Status == journal.Finished {
			err = fmt.Errorf("%w: %s", journal.ErrFinished, run)
		}
		return err
	}
	if err := finished(); err != nil {
		return journal.Claim{}, err
	}
	c, err := claim(ctx, run, journal.Temporal)
	if err != nil {
		return c, err
	}
	if err = finished(); errors.Is(err, journal.ErrFinished) { // and was released in between
		failed := journal.Append(ctx, store, journal.Batch{Run: run, Fence: c.Fence, After: c.Seq, Release: true})
		if failed != nil && !errors.Is(failed, journal.ErrConflict) {
			return c, failed
		}
	}
	return c, err
}

// workflowState is what Temporal has of a run.
type workflowState int

const (
	workflowOpen workflowState = iota
	// workflowClosed means that the last workflow has ended.
	workflowClosed
	// workflowAway means that there is no workflow, or that it has ended because another one has continued the run.
	workflowAway
)

// findWorkflow returns what Temporal has of a run, and the decision that an open workflow is about to make; nil if
// there is none.
func (e *Engine) findWorkflow(
	ctx context.Context, id journal.RunID,
) (workflowState, *workflowpb.PendingWorkflowTaskInfo, error) {
	found, err := e.client.DescribeWorkflowExecution(ctx, e.workflowID(id), "")
	switch {
	case isNotFound(err):
		return workflowAway, nil, nil
	case err != nil:
		return workflowOpen, nil, err
	}
	if ended, err := e.endReset(ctx, found); ended || err != nil {
		return workflowClosed, nil, err
	}
	switch found.GetWorkflowExecutionInfo().GetStatus() {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		return workflowOpen, found.GetPendingWorkflowTask(), nil
	case enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:
		return workflowAway, nil, nil
	}
	return workflowClosed, nil, nil
}

// endReset ends the open workflow of an unfinished run if its history was reset: it would accept messages for a state
// that the run has left. It reports whether it was.
func (e *Engine) endReset(ctx context.Context, w *workflowservice.DescribeWorkflowExecutionResponse) (bool, error) {
	if w.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING ||
		w.GetWorkflowExtendedInfo().GetLastResetTime() == nil {
		return false, nil
	}
	one := w.GetWorkflowExecutionInfo().GetExecution()
	err := e.client.TerminateWorkflow(ctx, one.GetWorkflowId(), one.GetRunId(), errReset.Error())
	if isNotFound(err) { // it has ended
		err = nil
	}
	return true, e.explain(ctx, err)
}

// isNotFound reports whether the server does not have a workflow, an activity or a schedule, or not anymore.
func isNotFound(err error) bool {
	_, ok := errors.AsType[*serviceerror.NotFound](err)
	return ok
}

// recoverRun starts a workflow that continues an unfinished run from its journal, unless one is open. A run that a
// living process drives in another namespace or task queue is refused. rerun makes lost tasks run again without a
// decision.
func (e *Engine) recoverRun(ctx context.Context, id journal.RunID, rerun bool) error {
	if other, err := e.elsewhere(ctx, id, false); err != nil {
		return err
	} else if other != "" {
		e.mu.Lock()
		delete(e.mine, id)
		e.mu.Unlock()
		e.announce(ctx)
		return &journal.OwnedError{Owner: journal.Temporal, Place: other}
	}
	return e.startRecovery(ctx, id, rerun)
}

// startRecovery starts a workflow that recovers a run. If one is open, perhaps started by another process at the same
// moment, it stays.
func (e *Engine) startRecovery(ctx context.Context, id journal.RunID, rerun bool) error {
	in := e.newInput(id)
	in.Recover, in.RerunLost = true, rerun
	return e.execute(ctx, in, "", enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING)
}

// execute starts a workflow.
func (e *Engine) execute(
	ctx context.Context, in runInput, name string, conflict enumspb.WorkflowIdConflictPolicy,
) error {
	_, err := e.client.ExecuteWorkflow(withRun(ctx, in.Run), client.StartWorkflowOptions{
		ID: e.workflowID(in.Run), TaskQueue: e.queue(), StaticSummary: name,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy:                 conflict,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, workflowName, in)
	return err
}

// newInput returns what the inputs of all workflows have in common.
func (e *Engine) newInput(id journal.RunID) runInput {
	return runInput{Run: id, Heartbeat: e.c.Heartbeat, Attributes: e.attributes, ContinueAfter: e.c.ContinueAfter}
}

// recoverLost recovers the runs that Temporal has lost, or whose process has died before it could start their workflow:
// those that should have proceeded before the given time, and whose workflow is not open.
func (e *Engine) recoverLost(ctx context.Context, before time.Duration, skip func(journal.RunID) bool) error {
	until := journal.MillisOf(e.c.Now().Add(-before))
	var ids []journal.RunID
	for entry, err := range e.store.Runs(ctx, journal.Filter{Status: journal.Running}) {
		if err != nil {
			return err
		}
		if entry.Owner == journal.Temporal && entry.Updated <= until {
			ids = append(ids, entry.ID)
		}
		if skip != nil {
			skip(entry.ID) // reports at once why the run is left alone; its tasks may come later
		}
	}
	// Runs that sleep are lost if their timer should have fired.
	due, _, err := e.store.Due(ctx, until)
	if err != nil {
		return err
	}
	for _, id := range due {
		if entry, err := e.store.Entry(ctx, id); err == nil && entry.Owner == journal.Temporal {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		if err := e.recoverIfLost(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// recoverIfLost recovers a run whose workflow is not open. It leaves a run alone that a living process may drive in
// another namespace or task queue.
func (e *Engine) recoverIfLost(ctx context.Context, id journal.RunID) error {
	state, _, err := e.findWorkflow(ctx, id)
	if err != nil || state == workflowOpen {
		return err
	}
	other, err := e.elsewhere(ctx, id, state == workflowAway)
	if err != nil {
		return err
	}
	if other == "" {
		return e.startRecovery(ctx, id, false)
	}
	if e.isFirst(e.left, id) {
		e.Log.Warn("run left alone: a process that uses another namespace or task queue of Temporal may drive it",
			"run_id", id, "place", other)
	}
	return nil
}

// keepRunsAlive recovers runs that Temporal loses, until ctx ends.
func (e *Engine) keepRunsAlive(ctx context.Context) {
	for wait := 2 * justStarted; pause(ctx, wait); wait = recoverInterval {
		if err := e.recoverLost(ctx, justStarted, nil); err != nil && ctx.Err() == nil {
			e.Log.Warn("runs that Temporal has lost not recovered", "error", err)
		}
	}
}

const (
	// recoverInterval is how often a worker looks for runs whose workflow is not open.
	recoverInterval = 30 * time.Second
	// justStarted is how long the process that starts a run has to start its workflow.
	justStarted = 2 * time.Second
)

// taskOrphaned recovers the run of a task whose workflow has ended: it was terminated, deleted or reset.
func (e *Engine) taskOrphaned(id journal.RunID) {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), recoverTime)
	defer stop()
	entry, err := e.entry(ctx, id)
	if err == nil && entry.Status != journal.Finished {
		err = e.recoverIfLost(ctx, id)
	}
	if err != nil {
		e.Log.Warn("run not recovered", "run_id", id, "error", err)
	}
}
