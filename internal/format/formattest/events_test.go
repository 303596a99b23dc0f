package formattest

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/report/audit"
)

// F30: required_events accepts every event that the audit log can have.
//
// Spec: Agent Flow §7.2 required-events
func TestF30RequiredEventsAcceptsEveryAuditEvent(t *testing.T) {
	events := []string{
		audit.RunStart, audit.StepStart, audit.StepOutput, audit.StepComplete, audit.StepSkipped, audit.GateDecision,
		audit.BudgetCheck, audit.RunComplete, audit.RunFailed, audit.CheckpointSaved, audit.RunSuspended,
		audit.RunResumed, audit.WaitpointTimeout, audit.MergeConflict, audit.StepRetry, audit.GateOpened,
		audit.WaitpointOpened, audit.WaitpointPassed, audit.DoubtOpened, audit.DoubtDecided, audit.SignalReceived,
		audit.InputRefused, audit.MergeDuplicate, audit.WorkerSkipped, audit.StepLost, audit.ModelCall,
		audit.ModelError, audit.ToolCall, audit.CommandRun, audit.BudgetWait, audit.BudgetRefused, audit.BudgetRaised,
		audit.DeadlineReached, audit.RunPaused, audit.RunContinued, audit.StateEdited, audit.RunRewound,
		audit.CancelRequested,
	}
	flow := flowHead + stepBlock("one", "transform", "writes: [output.a]") +
		"```observability\nrequired_events: [" + strings.Join(events, ", ") + "]\n```\n"
	h := (&trial{files: []txtar.File{{Name: "flow.md", Data: []byte(flow)}}}).run(t)
	for _, d := range h.problems {
		if d.Code == "AF065" {
			t.Errorf("%s", d.Message)
		}
	}
	if got := len(h.program.Audit.RequiredEvents); got != len(events) {
		t.Errorf("%d of %d events are required", got, len(events))
	}
}
