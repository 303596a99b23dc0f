package formattest

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/auditevent"
)

// F30: required_events accepts every event that the audit log can have.
//
// Spec: Agent Flow §7.2 required-events
func TestF30RequiredEventsAcceptsEveryAuditEvent(t *testing.T) {
	events := []string{
		auditevent.RunStart, auditevent.StepStart, auditevent.StepOutput, auditevent.StepComplete, auditevent.StepSkipped, auditevent.GateDecision,
		auditevent.BudgetCheck, auditevent.RunComplete, auditevent.RunFailed, auditevent.CheckpointSaved, auditevent.RunSuspended,
		auditevent.RunResumed, auditevent.WaitpointTimeout, auditevent.MergeConflict, auditevent.StepRetry, auditevent.GateOpened,
		auditevent.WaitpointOpened, auditevent.WaitpointPassed, auditevent.DoubtOpened, auditevent.DoubtDecided, auditevent.SignalReceived,
		auditevent.InputRefused, auditevent.MergeDuplicate, auditevent.WorkerSkipped, auditevent.StepLost, auditevent.ModelCall,
		auditevent.ModelError, auditevent.ToolCall, auditevent.CommandRun, auditevent.BudgetWait, auditevent.BudgetRefused, auditevent.BudgetRaised,
		auditevent.DeadlineReached, auditevent.RunPaused, auditevent.RunContinued, auditevent.StateEdited, auditevent.RunRewound,
		auditevent.CancelRequested,
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
