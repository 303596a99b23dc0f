package report_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// A restored Interpreter yields the events of one that has seen all facts, wherever it was saved.
func TestRestoredInterpreterContinues(t *testing.T) {
	for name, scenario := range scenarios {
		t.Run(name, func(t *testing.T) {
			p, w := scenario(t)
			events := slices.Concat(w.appends...)
			outline := func(string) (*report.Outline, error) { return report.NewOutline(p), nil }
			fresh := func() *report.Interpreter { return report.NewInterpreter(run, outline).TrackBudgets() }
			text := func(in *report.Interpreter, i int) (out []string) {
				err := in.Interpret(&events[i], func(e *report.Event) error {
					raw, err := json.Marshal(struct {
						*report.Event
						Run  *report.Run
						Step *report.Step
						Info bool
					}{e, e.Run, e.Step, e.Step != nil && e.Step.Info != nil})
					out = append(out, string(raw))
					return err
				})
				if err != nil {
					t.Fatalf("event %d: %v", i+1, err)
				}
				return out
			}
			whole, restored := fresh(), fresh()
			for i := range events {
				if diff := cmp.Diff(text(whole, i), text(restored, i)); diff != "" {
					t.Fatalf("event %d: %s", i+1, diff)
				}
				raw, err := restored.Save(report.ReaderData{})
				if err != nil {
					t.Fatal(err)
				}
				restored = fresh()
				if err := restored.Restore(raw, report.ReaderData{}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// What the hooks of an open step came to is part of a saved Interpreter.
func TestRestoredInterpreterKeepsHooks(t *testing.T) {
	p, w := scenarios["linear"](t)
	var events []journal.Event
	for _, e := range slices.Concat(w.appends...) {
		events = append(events, e)
		if x, ok := e.Fact.(journal.TaskStarted); ok {
			note := journal.TaskNoted{
				TaskID: x.TaskID, Kind: journal.NoteHooks,
				Data: []byte(`{"hooks":[{"log":"ready"}]}`),
			}
			events = append(events, journal.Event{At: e.At, Fact: note})
		}
	}
	outline := func(string) (*report.Outline, error) { return report.NewOutline(p), nil }
	in, found := report.NewInterpreter(run, outline), false
	for i := range events {
		err := in.Interpret(&events[i], func(e *report.Event) error {
			found = found || e.Type == report.StepFinished && strings.Contains(string(e.Value.JSON), "ready")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := in.Save(report.ReaderData{})
		if err != nil {
			t.Fatal(err)
		}
		in = report.NewInterpreter(run, outline)
		if err := in.Restore(raw, report.ReaderData{}); err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Error("the step ended without the result of its hooks")
	}
}
