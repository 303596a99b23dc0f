package api

import (
	"cmp"
	"encoding/json"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Result is the result of a command that acts on one run. A command prints
// exactly one, whatever its exit code.
type Result struct {
	ID       string        `json:"run_id,omitempty"` // absent if there is no run
	Workflow string        `json:"workflow,omitempty"`
	State    journal.State `json:"state,omitempty"`
	// Outcome is that of a finished run (ok, failed, rejected, cancelled), the
	// state of another one, or why there is no run: invalid_request, invalid (the
	// workflow), not_ready, store_lost or interrupted.
	Outcome    string          `json:"outcome"`
	Reason     string          `json:"reason,omitempty"`
	Error      string          `json:"error,omitempty"`
	WaitingFor string          `json:"waiting_for,omitempty"`
	Gates      []Gate          `json:"gates,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	Driver
	// TakesEffect is when a pause takes effect: now, after_steps (see Steps) or before_next_step.
	TakesEffect string   `json:"takes_effect,omitempty"`
	Steps       []string `json:"steps,omitempty"` // that finish before the run pauses
}

// When a pause takes effect.
const (
	Now            = "now"
	AfterSteps     = "after_steps"
	BeforeNextStep = "before_next_step"
)

// The outcomes of commands without a run that ended.
const (
	InvalidRequest  = "invalid_request"
	InvalidWorkflow = "invalid"
	NotReady        = "not_ready"
	StoreLost       = "store_lost"
)

// NewResult returns the form of a run at the end of a command. end is nil unless
// the run has finished; status is nil unless it waits.
func NewResult(r *app.Run, end *app.Ending, status *app.Status) Result {
	run := NewRun(r)
	if status != nil {
		run = NewStatus(status).Run
	}
	out := Result{
		ID: run.ID, Workflow: run.Workflow, State: run.State,
		Outcome: cmp.Or(string(run.Outcome), string(run.State)), WaitingFor: run.WaitingFor, Reason: run.Reason,
		Error: run.Error, Driver: run.Driver,
	}
	if end != nil {
		out.Outcome, out.Reason, out.Error, out.Output = string(end.Outcome), end.Reason, end.Error, end.Output
	}
	if status != nil {
		out.Gates = xslices.Map(status.Gates, NewGate)
	}
	return out
}
