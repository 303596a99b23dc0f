package temporal

import (
	"go.temporal.io/sdk/workflow"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// cancelChange is the name of the change since which a cancellation by Temporal cancels the run. Earlier builds ignored
// it, and their histories are replayed as they were.
const cancelChange = "cancel the run"

// handleCancellation cancels the run when Temporal cancels the workflow.
func (d *driver) handleCancellation(ctx workflow.Context) {
	detached, _ := workflow.NewDisconnectedContext(ctx)
	workflow.Go(detached, func(detached workflow.Context) {
		ctx.Done().Receive(detached, nil)
		if workflow.GetVersion(detached, cancelChange, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
			d.ignoresCanceled = true
			return
		}
		if d.awaitState(detached) != nil || d.state.Finished != nil {
			return
		}
		in := plan.Cancel{Reason: "canceled in Temporal", By: journal.Actor{User: "Temporal"}}
		if d.state.Check(d.program, in) == nil {
			d.queue = append(d.queue, &request{in: in})
			d.woken = true
		}
	})
}

// detached returns the context of a message, which is answered although Temporal has canceled the workflow.
func (d *driver) detached(ctx workflow.Context) workflow.Context {
	if !d.ignoresCanceled {
		ctx, _ = workflow.NewDisconnectedContext(ctx)
	}
	return ctx
}
