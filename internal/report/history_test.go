package report_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// replay applies facts, one each second.
func replay(t *testing.T, apply func(*report.Interpreter, *report.Event), facts ...journal.Fact) {
	t.Helper()
	in := report.NewInterpreter(run, nil)
	for i, fact := range facts {
		e := journal.Event{Seq: journal.Seq(i + 1), At: journal.Millis(1000 * i), Fact: fact}
		err := in.Interpret(&e, func(e *report.Event) error {
			apply(in, e)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A wait lasts until the next attempt, and an attempt that runs again after a crash keeps its number.
func TestHistoryHasAttemptsAndWaits(t *testing.T) {
	first := journal.TaskID{Place: journal.Place{Step: "act"}}
	second := first
	second.Attempt = 1
	var h *report.History
	var v *report.StepVisit
	replay(t, func(in *report.Interpreter, e *report.Event) {
		if h == nil {
			h = report.NewHistory(in, run)
		}
		if visit, _ := h.Apply(e); visit != nil {
			v = visit
		}
	},
		journal.RunStarted{Name: "flow"},
		journal.TaskStarted{TaskID: first, Kind: "command"},
		journal.TaskLost{TaskID: first, Policy: "rerun"},
		journal.TaskStarted{TaskID: first, Kind: "command"},
		journal.TaskEnded{TaskID: first, Outcome: journal.OutcomeFailed, Error: "exit status 1"},
		journal.RetrySet{TaskID: second, Due: 7000},
		journal.TimerFired{},
		journal.TaskStarted{TaskID: second, Kind: "command", MissingReads: []string{"state.x"}},
		journal.TaskEnded{TaskID: second, Outcome: journal.OutcomeOK, Final: true},
		journal.RunFinished{Outcome: journal.OutcomeOK},
	)
	var got []string
	for _, a := range v.Attempts {
		got = append(got, fmt.Sprint(a.N, a.Number, " ", a.Started.Unix(), " ", a.OK, a.Lost, a.Error, a.MissingReads))
	}
	want := []string{"1 1 1 false true[]", "2 1 3 false falseexit status 1[]", "3 2 7 true false[state.x]"}
	if !slices.Equal(got, want) {
		t.Errorf("the attempts are %q, want %q", got, want)
	}
	if len(v.Waits) != 1 || v.Waits[0].Start.Unix() != 5 || v.Waits[0].End.Unix() != 7 || !v.Waiting.IsZero() {
		t.Errorf("the waits are %+v", v.Waits)
	}
	if h.Visited["act"] != 1 || h.Done != 1 || v.State != journal.StateOK || h.Ended.Unix() != 9 {
		t.Errorf("%+v", h)
	}
}

// The last writer of a variable is the step that finished with it. An edit changes the value, but not what a step has
// written.
func TestVariablesHaveTheirLastWriter(t *testing.T) {
	value := func(raw string) journal.Value { return journal.Value{JSON: json.RawMessage(raw)} }
	ended := func(step, raw string, final bool) journal.Fact {
		return journal.TaskEnded{
			TaskID: journal.TaskID{Place: journal.Place{Step: step}}, Outcome: journal.OutcomeOK, Final: final,
			Value: value(raw), Writes: []journal.Write{{Path: "state.x"}},
		}
	}
	vars := report.Variables{}
	in := report.NewInterpreter(run, nil)
	for i, one := range []struct {
		fact journal.Fact
		want string
	}{
		{journal.RunStarted{Name: "flow"}, " before  edited false,  by "},
		{journal.StateEdited{Path: "state.x", Value: value("1")}, "1 before  edited true,  by "},
		{
			journal.TaskStarted{TaskID: journal.TaskID{Place: journal.Place{Step: "a"}}, Kind: "test"},
			"1 before  edited true,  by ",
		},
		{ended("a", "2", false), "1 before  edited true,  by "},
		{ended("a", "3", true), "3 before 1 edited false, 3 by a"},
		{journal.StateEdited{Path: "state.x", Value: value("4")}, "4 before 3 edited true, 3 by a"},
		{ended("b", "5", true), "5 before 4 edited false, 5 by b"},
	} {
		e := journal.Event{Seq: journal.Seq(i + 1), Fact: one.fact}
		err := in.Interpret(&e, func(e *report.Event) error {
			vars.Apply(e)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		x, by := vars["state.x"], ""
		if x.Step != nil {
			by = x.Step.Name
		}
		got := fmt.Sprintf("%s before %s edited %t, %s by %s", x.Value, x.Before, x.Edited, x.Written, by)
		if got != one.want {
			t.Errorf("after fact %d: %s, want %s", i+1, got, one.want)
		}
	}
}
