package plan_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// A task that needs approval for a tool call is one execution of its step, before and after the answer.
func TestApprovalIsNotAStep(t *testing.T) {
	work := journal.TaskID{Place: journal.Place{Step: "send"}}
	s := &plan.State{}
	for i, f := range []journal.Fact{
		journal.RunStarted{},
		journal.TaskStarted{TaskID: work, Kind: "agent"},
		journal.GateOpened{Place: work.Place, Kind: journal.GateToolCall, Task: &work, Call: "send#0/call:1"},
		journal.GateDecided{Place: work.Place, Outcome: journal.OutcomeRerun},
		journal.TaskStarted{TaskID: work, Kind: "agent", Rerun: 1},
	} {
		s.Fold([]journal.Event{{Seq: journal.Seq(i + 1), Fact: f}})
	}
	if used := s.Root().Ledger.Used.Steps; used != 1 {
		t.Errorf("%d steps", used)
	}
}
