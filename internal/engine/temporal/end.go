package temporal

import (
	"cmp"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/espalier-run/espalier/internal/journal"
)

// endChange is the name of the change since which workflows end as their runs do. Earlier builds completed all of them,
// and their histories are replayed as they were.
const endChange = "end as the run"

// maxErrorBytes is the size in bytes of the error that Temporal gets of a failed run. The journal has all of it.
const maxErrorBytes = 1 << 10

// end returns what the workflow of a finished run returns: Temporal shows a failed run as failed and a canceled one as
// canceled. A rejection is the decision of a person, not a failure.
func (d *driver) end(ctx workflow.Context) error {
	f := d.state.Finished
	if f.Outcome != journal.OutcomeFailed && f.Outcome != journal.OutcomeCanceled ||
		workflow.GetVersion(ctx, endChange, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return nil
	}
	if f.Outcome == journal.OutcomeCanceled {
		return temporal.NewCanceledError()
	}
	text := cmp.Or(f.Error, f.Reason, string(f.Outcome))
	// The cut may divide a character; protobuf refuses invalid UTF-8.
	text = strings.ToValidUTF8(text[:min(len(text), maxErrorBytes)], "")
	return temporal.NewNonRetryableApplicationError(text, cmp.Or(f.Reason, string(f.Outcome)), nil)
}
