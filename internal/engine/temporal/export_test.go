package temporal

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/espalier-run/espalier/internal/journal"
)

// VersionName is the name of the version of the workflow's code.
var VersionName = fmt.Sprint("v", workflowVersion)

// NewBlob returns a blob of the journal.
func NewBlob(data []byte) journal.Blob { return newBlob(data) }

// TakeOver asks workers of an earlier version for a run.
func (e *Engine) TakeOver(ctx context.Context, id journal.RunID) error {
	if err := e.connect(ctx); err != nil {
		return err
	}
	return e.takeOver(ctx, id)
}

// TakeOverFrom asks workers of a version for all runs.
func (e *Engine) TakeOverFrom(ctx context.Context, version int) error {
	if err := e.connect(ctx); err != nil {
		return err
	}
	return e.takeOverFrom(ctx, version)
}

// Client returns the engine's connection.
func (e *Engine) Client(ctx context.Context) (client.Client, error) {
	err := e.connect(ctx)
	return e.client, err
}

// Publish appends nothing to a run, as the activity does that publishes facts.
func (e *Engine) Publish(ctx context.Context, id journal.RunID) error {
	return e.publishActivity(ctx, facts{Run: id, After: 1, Lines: ""})
}

// WorkflowID returns the id of the workflow of a run.
func (e *Engine) WorkflowID(id journal.RunID) string { return e.workflowID(id) }

// ScheduleID returns the id of a schedule in Temporal.
func (e *Engine) ScheduleID(id string) string { return e.schedulePrefix() + id }

// CheckSchedules makes the next KeepSchedules compare the schedules with Temporal's.
func (e *Engine) CheckSchedules() { e.schedules.checked = time.Time{} }

// Replayer returns a replayer of the engine's workflows.
func (e *Engine) Replayer() (worker.WorkflowReplayer, error) {
	r, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter: dataConverter(), ExternalStorage: e.externalStorage(),
	})
	if err == nil {
		r.RegisterWorkflowWithOptions(e.runWorkflow, workflow.RegisterOptions{Name: workflowName})
	}
	return r, err
}

// IsDown reports whether an engine has noticed that its server does not answer.
func IsDown(e *Engine) bool { return e.outage.down.Load() }

// Sending returns how many messages of an engine are not answered.
func Sending(e *Engine) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sending
}
