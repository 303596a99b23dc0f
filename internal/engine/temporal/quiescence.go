package temporal

import (
	"context"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/worker"
	"google.golang.org/grpc"

	"github.com/espalier-run/espalier/internal/journal"
)

// What this process does makes the server schedule workflow tasks: the end of a task, and facts that the journal has.
// Such a workflow task comes back to this process, which has the workflow in memory. If the process ends meanwhile, the
// server waits ten seconds for it, or, if no other process works for the task queue, the workflow of a finished run
// stays open. So an engine that stops waits a moment until the workflows have nothing to decide.

const (
	// quiescenceTimeout bounds how long an engine that stops waits for workflow tasks.
	quiescenceTimeout = 3 * time.Second
	// activeSpan is how long after an activity of this process its workflow may still have something to decide.
	activeSpan = 10 * time.Second
)

// markActive notes that this process has done something for the workflow of a run.
func (e *Engine) markActive(id journal.RunID) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.active) >= maxRememberedRuns {
		clear(e.active)
	}
	e.active[id] = now
}

// awaitQuiescence waits until the workflows for which this process has done something recently have nothing to decide.
func (e *Engine) awaitQuiescence() {
	e.mu.Lock()
	runs := e.active
	e.active = map[journal.RunID]time.Time{}
	serves := len(e.workers) > 0
	e.mu.Unlock()
	if !serves {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), quiescenceTimeout)
	defer stop()
	for id, at := range runs {
		if time.Since(at) > activeSpan || e.Owns(id) { // stop waits for running tasks
			continue
		}
		for {
			found, err := e.client.DescribeWorkflowExecution(ctx, e.workflowID(id), "")
			if err != nil || !decides(found) {
				break
			}
			if !pause(ctx, quiescenceInterval) {
				return
			}
		}
	}
}

// awaitAnswers waits a moment for the answers to messages that this process has sent: the workers that decide about
// them may be its own.
func (e *Engine) awaitAnswers() {
	for limit := time.Now().Add(quiescenceTimeout); time.Now().Before(limit); time.Sleep(quiescenceInterval) {
		e.mu.Lock()
		sending := e.sending
		e.mu.Unlock()
		if sending == 0 {
			return
		}
	}
}

// quiescenceInterval is how often awaitQuiescence looks at a workflow.
const quiescenceInterval = 10 * time.Millisecond

// decides reports whether a workflow has something to decide, or is about to have. What fails again and again does not
// count.
func decides(w *workflowservice.DescribeWorkflowExecutionResponse) bool {
	if w.GetWorkflowExecutionInfo().GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return false
	}
	for _, activity := range w.GetPendingActivities() {
		if name := activity.GetActivityType().GetName(); (name == publishName || name == recoverName) &&
			activity.GetAttempt() <= 1 {
			return true
		}
	}
	task := w.GetPendingWorkflowTask()
	return task != nil && task.GetAttempt() <= failedAttempts
}

// stopPolling makes the workers of this process get no more tasks and returns when that is so. Their running tasks
// continue. A task that ends now goes to the workers that go on.
func (e *Engine) stopPolling() {
	e.mu.Lock()
	if e.held || len(e.workers) == 0 {
		e.mu.Unlock()
		return
	}
	last := len(e.workers) - 1
	stopped := e.workers[:last]
	e.workers = e.workers[last:]
	e.mu.Unlock()
	for _, w := range stopped {
		e.stopping.Go(w.Stop)
	}
	for limit := time.Now().Add(quiescenceTimeout); e.polls.Load() > 0 && time.Now().Before(limit); {
		time.Sleep(quiescenceInterval)
	}
}

// onlyDecide starts a worker that decides what follows from the ends of the running tasks: no other process may be
// there. It runs no tasks.
func (e *Engine) onlyDecide() {
	e.mu.Lock()
	needed := len(e.workers) == 1 && len(e.jobs)+len(e.active) > 0 && !e.outage.down.Load()
	e.mu.Unlock()
	if !needed {
		return
	}
	w := e.newWorker(true)
	if err := w.Start(); err != nil {
		e.Log.Warn("the next process records the ends of tasks", "error", err)
		return
	}
	e.mu.Lock()
	e.workers = append([]worker.Worker{w}, e.workers...)
	e.mu.Unlock()
}

// countPolls is an interceptor that counts the requests for workflow tasks of runs that the server has not answered.
func (e *Engine) countPolls(
	ctx context.Context, method string, in, out any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	if poll, ok := in.(*workflowservice.PollWorkflowTaskQueueRequest); ok &&
		slices.Contains([]string{poll.GetTaskQueue().GetName(), poll.GetTaskQueue().GetNormalName()}, e.queue()) {
		e.polls.Add(1)
		defer e.polls.Add(-1)
	}
	return invoke(ctx, method, in, out, c, o...)
}
