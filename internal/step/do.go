package step

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Call is work that a running task requests.
type Call struct {
	Task  ir.Task
	Reads []Read // its input
}

// Done is the outcome of a Call.
type Done struct {
	Result
	// Failure is why the call failed; nil if it succeeded.
	Failure *Error
	// Took is how long the call took when it was made, not when it is replayed.
	Took time.Duration
}

// Do makes a call and returns its outcome. The intent and the result are noted: when the job is executed again,
// its N-th call returns the noted outcome, and an unfinished one continues from its own notes. The caller must
// therefore make the same calls in the same order; a difference fails with class CHANGED.
//
// An error means that the job must end, too. The error belongs into its result, together with the notes and the
// usage returned with it.
func (j *Job) Do(ctx context.Context, c Call) (Done, error) {
	j.calls++
	key := j.CallKey(j.calls)
	asked := journal.Call{Key: key, Kind: c.Task.Kind, Request: JSON(callRequest(c))}
	begun, inner, end, err := callHistory(j.History, key)
	if err != nil {
		return Done{}, err
	}
	// A call without an intent, although a later one has one, shows that the job has made other calls before. So does
	// an intent with another request.
	switch {
	case begun == nil && j.hasCall(j.calls+1):
		return Done{}, Errorf(ir.ClassChanged, "journal mismatch on resume of %s: expected call %d, found a later "+
			"one; "+RepeatHelp, j.Key, j.calls)
	case begun != nil && (begun.Kind != asked.Kind || !sameValue(begun.Request, asked.Request)):
		return Done{}, Errorf(ir.ClassChanged, "journal mismatch on resume of %s: call %d differs from the recorded "+
			"one; "+RepeatHelp, j.Key, j.calls)
	case end != nil:
		return end.done(), nil
	case begun == nil:
		if err := j.Log.Note(ctx, Note{Kind: journal.NoteCall, Data: asked}); err != nil {
			return Done{}, err
		}
	}
	runner := Runner(nil)
	if j.Runners != nil {
		runner = j.Runners(c.Task.Kind)
	}
	if runner == nil {
		return Done{}, Errorf(ir.ClassMissing, "unknown step kind %q", c.Task.Kind)
	}
	// The call runs as a job of its own, with the notes that it has made so far.
	started := time.Now()
	result, err := runner.Run(ctx, j.inside(key, c, inner))
	// Decide whether the failure is the call's or the job's. If the context has ended, the budget is exhausted or the
	// error is no *Error (an approval or a wait), the call stays open, and the next execution of the job continues it.
	var failed *Error
	if err != nil && (ctx.Err() != nil || !errors.As(err, &failed)) {
		return Done{Result: result}, err // it continues when the job is executed again
	}
	if failed != nil && failed.Class == ir.ClassBudget {
		return Done{Result: result}, err // the job's own budget is exhausted
	}
	out := journal.CallEnd{Key: key, Millis: time.Since(started).Milliseconds()}
	if failed != nil {
		out.Class, out.Error, out.Exit = failed.Class, failed.Message, failed.Exit
	} else {
		out.Value = result.Value
	}
	notes := append(result.Notes, Note{Kind: journal.NoteCallEnd, Data: out})
	if result.Usage != (journal.Usage{}) {
		notes[len(notes)-1].Usage = result.Usage
	}
	if err := j.Log.Note(ctx, notes...); err != nil {
		return Done{}, err
	}
	return (*callEnd)(&out).done(), nil
}

// RepeatHelp tells users how to run a step again that cannot continue from its notes.
const RepeatHelp = "run \"espalier resume RUN --from STEP\" to run the step again"

// inside returns the job of a call.
func (j *Job) inside(key string, c Call, history []journal.TaskNoted) *Job {
	inner := *j
	within := *j.Step
	within.Reads, within.Writes, within.Produces, within.AuditFile, within.Action = nil, nil, nil, "", c.Task
	inner.Key, inner.Step, inner.Task, inner.Reads, inner.History = key, &within, &c.Task, c.Reads, history
	inner.Branches, inner.Call, inner.calls = nil, j.calls, 0
	return &inner
}

// callRequest returns the request of a call, as it is noted and compared.
func callRequest(c Call) any {
	type read struct {
		Path  string          `json:"path"`
		Value json.RawMessage `json:"value"`
	}
	out := struct {
		Settings map[string]json.RawMessage `json:"settings"`
		Reads    []read                     `json:"reads"`
	}{Settings: map[string]json.RawMessage{}, Reads: []read{}}
	for _, s := range c.Task.Settings {
		out.Settings[s.Name] = s.Value
	}
	out.Reads = append(out.Reads, xslices.Map(c.Reads, func(r Read) read { return read{r.Path, r.Value} })...)
	return out
}

// sameValue reports whether two JSON texts have the same value: the order of keys may differ between releases.
func sameValue(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && string(JSON(x)) == string(JSON(y))
}

// callEnd is the noted end of a call.
type callEnd journal.CallEnd

// done returns the outcome that the caller of Do gets, when the call ends and in every replay.
func (e *callEnd) done() Done {
	out := Done{Result: Result{Value: e.Value}, Took: time.Duration(e.Millis) * time.Millisecond}
	if e.Class != "" {
		out.Failure = &Error{Class: e.Class, Message: e.Error, Exit: e.Exit}
	}
	return out
}

// callHistory returns a call from the notes of a task: its intent, the notes inside it, and its end.
func callHistory(
	history []journal.TaskNoted, key string,
) (begun *journal.Call, inner []journal.TaskNoted, end *callEnd, err error) {
	// Notes between the intent and the end of a call belong to it, including those of calls inside it.
	for _, n := range history {
		switch {
		case n.Kind == journal.NoteCall && begun == nil:
			var c journal.Call
			if err := json.Unmarshal(n.Data, &c); err != nil {
				return nil, nil, nil, Errorf(ir.ClassInternal, "note %d cannot be read: %v", n.N, err)
			}
			if c.Key == key {
				begun = &c
			}
			continue
		case n.Kind == journal.NoteCallEnd && begun != nil:
			var e callEnd
			if err := json.Unmarshal(n.Data, &e); err != nil {
				return nil, nil, nil, Errorf(ir.ClassInternal, "note %d cannot be read: %v", n.N, err)
			}
			if e.Key == key {
				return begun, inner, &e, nil
			}
		}
		if begun != nil {
			inner = append(inner, n)
		}
	}
	return begun, inner, nil, nil
}

// hasCall reports whether the notes have the n-th call of this job.
func (j *Job) hasCall(n int) bool {
	begun, _, _, err := callHistory(j.History, j.CallKey(n))
	return err == nil && begun != nil
}

// OpenCall returns the call that a task was in when it was interrupted, and the notes of the call; false if it
// was in none. The kind of the call then decides how the task recovers.
func OpenCall(history []journal.TaskNoted) (ir.Task, []journal.TaskNoted, bool) {
	var open []journal.Call
	from := 0
	// Calls nest. The outermost one that is open decides; from is where its own notes begin.
	for i, n := range history {
		switch n.Kind {
		case journal.NoteCall:
			var c journal.Call
			if json.Unmarshal(n.Data, &c) == nil {
				open = append(open, c)
				if len(open) == 1 {
					from = i + 1
				}
			}
		case journal.NoteCallEnd:
			var e journal.CallEnd
			if json.Unmarshal(n.Data, &e) == nil {
				open = slices.DeleteFunc(open, func(c journal.Call) bool { return c.Key == e.Key })
			}
		}
	}
	if len(open) == 0 {
		return ir.Task{}, nil, false
	}
	task := ir.Task{Kind: open[0].Kind}
	var request struct {
		Settings map[string]json.RawMessage `json:"settings"`
	}
	if json.Unmarshal(open[0].Request, &request) == nil {
		for name, value := range request.Settings {
			task.Settings = append(task.Settings, ir.Setting{Name: name, Value: value})
		}
	}
	return task, history[from:], true
}
