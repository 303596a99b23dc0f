package report_test

import (
	"fmt"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// An Interpreter turns the facts of a run into events that records and screens render.
func Example() {
	draft := journal.TaskID{Place: journal.Place{Step: "draft"}}
	facts := []journal.Fact{
		journal.RunStarted{Name: "essay"},
		journal.TaskStarted{TaskID: draft, Kind: "agent"},
		journal.TaskEnded{TaskID: draft, Outcome: journal.OutcomeOK, Final: true},
		journal.RunFinished{Outcome: journal.OutcomeOK},
	}
	in := report.NewInterpreter("run-1", nil)
	for i, fact := range facts {
		event := journal.Event{Seq: journal.Seq(i + 1), At: journal.Millis(1000 * i), Fact: fact}
		err := in.Interpret(&event, func(e *report.Event) error {
			fmt.Print(e.At, " ", e.Type)
			if e.Step != nil {
				fmt.Print(" ", e.Step.Name)
			}
			fmt.Println()
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 0 run.started
	// 1000 step.started draft
	// 1000 task.started draft
	// 2000 task.finished draft
	// 2000 step.finished draft
	// 3000 run.finished
}
