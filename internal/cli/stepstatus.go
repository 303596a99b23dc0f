package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/builtin"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/report"
)

// stepRecord is one execution of a step: what it was given, what came of it,
// and the state of the run behind it.
type stepRecord struct {
	Step        string                     `json:"step"` // with its frame and visit
	Type        string                     `json:"type,omitempty"`
	Description string                     `json:"description,omitempty"`
	For         string                     `json:"stands_in_for,omitempty"`
	Began       string                     `json:"began,omitempty"`
	Ended       string                     `json:"ended,omitempty"`
	Outcome     journal.Outcome            `json:"outcome,omitempty"` // empty: it is not over
	Reason      string                     `json:"reason,omitempty"`
	Error       string                     `json:"error,omitempty"`
	Attempts    int                        `json:"attempts,omitempty"`
	Reads       map[string]json.RawMessage `json:"reads,omitempty"`
	Missing     []string                   `json:"missing_reads,omitempty"`
	Decided     *decided                   `json:"decided,omitempty"`
	Result      json.RawMessage            `json:"result,omitempty"`
	Writes      []string                   `json:"writes,omitempty"`
	Used        journal.Usage              `json:"used,omitzero"`
	State       map[string]json.RawMessage `json:"state,omitempty"` // after it
}

// decided is who settled a gate.
type decided struct {
	By     journal.Actor `json:"by,omitzero"`
	Method string        `json:"method"`
	Note   string        `json:"note,omitempty"`
	Digest string        `json:"digest,omitempty"`
}

// executions goes through the journal of a run once more, and notes what there
// is to know about each execution of the steps that a name fits.
func executions(ctx context.Context, r *builtin.Runtime, id journal.RunID, name string) (found []*stepRecord, names []string, err error) {
	_, program, _, err := r.Engine.Load(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	h := &historian{program: program, state: &plan.State{Run: id}, name: name, known: map[string]bool{}}
	for e, err := range r.Store.Events(ctx, id, 0) {
		if err != nil {
			return nil, nil, err
		}
		h.take(e)
	}
	return h.found, slices.Sorted(maps.Keys(h.known)), nil
}

type historian struct {
	program *plan.Program
	state   *plan.State
	name    string
	found   []*stepRecord
	known   map[string]bool // names of steps that were reached
}

func (h *historian) take(e journal.Event) {
	ended := false
	var rec *stepRecord
	switch x := e.Fact.(type) {
	case journal.TaskStarted:
		rec = h.begin(e, x.Place, x.For)
		if rec != nil {
			rec.Attempts, rec.Missing = x.Attempt+1, x.MissingReads
		}
	case journal.GateOpened:
		if x.Kind != journal.GateInDoubt {
			rec = h.begin(e, x.Place, x.For)
		}
	case journal.StepEntered:
		rec = h.begin(e, x.Place, x.For)
	case journal.StepLeft:
		if rec = h.begin(e, x.Place, x.For); rec != nil {
			ended = true
			rec.Outcome, rec.Reason, rec.Error = x.Outcome, x.Reason, x.Error
			h.result(rec, x.Value, x.Writes)
		}
	case journal.TaskNoted:
		h.charge(x.Place, x.Usage)
	case journal.TaskEnded:
		h.charge(x.Place, x.Usage)
		if rec = h.current(x.Place); rec != nil {
			if ended = x.Final; ended {
				rec.Outcome, rec.Reason, rec.Error = x.Outcome, string(x.Class), x.Error
				h.result(rec, x.Value, x.Writes)
			}
		}
	case journal.TaskLost:
		h.charge(x.Place, x.Charged)
	case journal.GateDecided:
		if rec = h.current(x.Place); rec != nil && x.Outcome != journal.OutcomeRerun {
			ended = true
			rec.Outcome, rec.Reason, rec.Error = x.Outcome, x.Reason, x.Error
			rec.Decided = &decided{By: x.By, Method: x.Method, Note: x.Note, Digest: x.Digest}
			h.result(rec, x.Value, x.Writes)
		}
	}
	h.state.Fold([]journal.Event{e})
	if rec != nil && ended {
		rec.Ended = e.At.Time().Format(time.RFC3339Nano)
		at, _ := journal.PlaceOf(e.Fact)
		if f := h.state.Frames[at.Frame]; f != nil {
			rec.State = h.state.Variables(h.program, f)
		}
	}
}

// charge adds what was used to the step that used it, and to all around it.
func (h *historian) charge(at journal.Place, u journal.Usage) {
	for {
		if rec := h.current(at); rec != nil {
			rec.Used = rec.Used.Plus(u)
		}
		f := h.state.Frames[at.Frame]
		if f == nil || f.Path == "" {
			return
		}
		at = h.state.Frames[f.Parent].Place()
	}
}

func (h *historian) result(rec *stepRecord, v journal.Value, writes []journal.Write) {
	if v.JSON == nil && v.Hash == "" {
		return
	}
	raw, err := h.program.Raw(v)
	if err != nil {
		raw = nil // it is told by whoever needs it
	}
	rec.Result = raw
	for _, w := range writes {
		rec.Writes = append(rec.Writes, w.Path)
	}
}

// begin finds the record of an execution, or opens one if the step is asked for.
func (h *historian) begin(e journal.Event, at journal.Place, standIn string) *stepRecord {
	if rec := h.current(at); rec != nil && rec.Outcome == "" {
		return rec
	}
	h.known[at.Step] = true
	if h.name != at.Step && h.name != at.Key() {
		return nil
	}
	frame := h.state.Frames[at.Frame]
	if frame == nil {
		return nil
	}
	rec := &stepRecord{Step: at.Key(), For: standIn, Began: e.At.Time().Format(time.RFC3339Nano)}
	if step := h.program.StepAt(frame, at.Step); step != nil {
		rec.Type, rec.Description = step.Type, step.Description
		rec.Reads = h.state.Reads(h.program, frame, step)
	}
	h.found = append(h.found, rec)
	return rec
}

func (h *historian) current(at journal.Place) *stepRecord {
	key := at.Key()
	for i := len(h.found) - 1; i >= 0; i-- {
		if h.found[i].Step == key {
			return h.found[i]
		}
	}
	return nil
}

// stepStatus shows what a step did.
func (a *app) stepStatus(ctx context.Context, r *builtin.Runtime, entry journal.Entry, name string) error {
	found, names, err := executions(ctx, r, entry.ID, name)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return usage(diag.DidYouMean(name, names), "run %s has not reached a step %q", short(entry.ID), name)
	}
	if a.json {
		return a.writeJSON(found)
	}
	for i, rec := range found {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		a.printStep(rec, i == len(found)-1)
	}
	return nil
}

// printStep prints one execution; the whole state only behind the last one.
func (a *app) printStep(rec *stepRecord, last bool) {
	w := a.stdout
	fmt.Fprintf(w, "%s  %s\n", a.paint(a.colorOut, a.screen, bold, rec.Step), rec.Type)
	if rec.Description != "" {
		fmt.Fprintf(w, "  %s\n", rec.Description)
	}
	outcome := string(rec.Outcome)
	if outcome == "" {
		outcome = "not over"
	}
	if rec.Reason != "" {
		outcome += ", " + rec.Reason
	}
	if rec.Attempts > 1 {
		outcome += fmt.Sprintf(", after %d attempts", rec.Attempts)
	}
	if rec.For != "" {
		outcome += ", in the place of " + rec.For
	}
	fmt.Fprintf(w, "  %s\n", outcome)
	if rec.Error != "" {
		fmt.Fprintf(w, "  %s\n", rec.Error)
	}
	if d := rec.Decided; d != nil {
		fmt.Fprintf(w, "  decided by %s\n", decider(d.By, d.Method, d.Note))
	}
	if n := rec.Used; n.ModelCalls > 0 || n.ToolCalls > 0 {
		parts := []string{plural(int(n.ModelCalls), "model call"), plural(int(n.ToolCalls), "tool call"), report.Number(n.InputTokens+n.OutputTokens) + " tokens"}
		if n.MicroDollars > 0 {
			parts = append(parts, price.Dollars(n.MicroDollars))
		}
		fmt.Fprintf(w, "  used: %s%s\n", strings.Join(parts, ", "), report.LostWords(n.Lost))
	}
	values := func(title string, list map[string]json.RawMessage) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(w, "  %s:\n", title)
		for _, name := range slices.Sorted(maps.Keys(list)) {
			note := ""
			if slices.Contains(rec.Missing, name) {
				note = "  (nobody has written it)"
			}
			fmt.Fprintf(w, "    %s:%s\n%s\n", name, note, indented(list[name], "      "))
		}
	}
	values("read", rec.Reads)
	if len(rec.Result) > 0 {
		to := ""
		if len(rec.Writes) > 0 {
			to = " → " + strings.Join(rec.Writes, ", ")
		}
		fmt.Fprintf(w, "  result%s:\n%s\n", to, indented(rec.Result, "    "))
	}
	if last {
		values("state after it", rec.State)
	}
}

// decider names who decided, how and why.
func decider(by journal.Actor, method, note string) string {
	who := by.User
	if who == "" {
		who = method
	}
	if by.As != "" {
		who += " (as " + by.As + ")"
	}
	if note != "" {
		who += ": " + note
	}
	return who
}
