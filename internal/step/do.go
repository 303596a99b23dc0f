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

// Call is work that is asked for from inside a running task.
type Call struct {
	Task  ir.Task
	Reads []Read // what it works on
}

// Done is what came of a Call.
type Done struct {
	Result
	// Failure is why it failed; nil when it did not.
	Failure *Error
	// Took is how long it took when it was done, not when it is looked up.
	Took time.Duration
}

// Do has a task done and returns what came of it. The intent and the result
// are noted: when this job is done again, its N-th call returns what the N-th
// call returned before, and one that was not finished continues from its own
// notes. So the caller must ask for the same in the same order; anything
// else is a failure of class CHANGED.
//
// An error means that this job has to end, too: it belongs into the result
// together with the notes and the usage that come with it.
func (j *Job) Do(ctx context.Context, c Call) (Done, error) {
	j.calls++
	key := j.CallKey(j.calls)
	asked := journal.Call{Key: key, Kind: c.Task.Kind, Request: JSON(callRequest(c))}
	begun, inner, end, err := callHistory(j.History, key)
	if err != nil {
		return Done{}, err
	}
	switch {
	case begun == nil && j.hasCall(j.calls+1):
		return Done{}, Errorf(ClassChanged, "the notes of %s do not fit: a later call comes where call %d should be",
			j.Key, j.calls)
	case begun != nil && (begun.Kind != asked.Kind || !sameValue(begun.Request, asked.Request)):
		return Done{}, Errorf(ClassChanged, "call %d of step %q asks for something else than it did before it was "+
			"interrupted, so what was done then cannot be used", j.calls, j.Step.ID)
	case end != nil:
		return end.done(), nil
	case begun == nil:
		if err := j.Log.Note(ctx, Note{Kind: journal.NoteCall, Data: asked}); err != nil {
			return Done{}, err
		}
	}
	runner := Runner(nil)
	if j.Kinds != nil {
		runner = j.Kinds(c.Task.Kind)
	}
	if runner == nil {
		return Done{}, Errorf(ClassMissing, "nothing here does work of kind %q", c.Task.Kind)
	}
	started := time.Now()
	result, err := runner.Run(ctx, j.inside(key, c, inner))
	var failed *Error
	if err != nil && (ctx.Err() != nil || !errors.As(err, &failed)) {
		return Done{Result: result}, err // it continues when the job is done again
	}
	if failed != nil && failed.Class == ClassBudget {
		return Done{Result: result}, err // the budget is that of the job, so the job has to end
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

// ClassChanged is the class of a job that asks for something else when it is
// done again.
const ClassChanged = "CHANGED"

// inside returns the job of a call.
func (j *Job) inside(key string, c Call, history []journal.TaskNoted) *Job {
	inner := *j
	within := *j.Step
	within.Reads, within.Writes, within.Produces, within.AuditFile, within.Action = nil, nil, nil, "", c.Task
	inner.Key, inner.Step, inner.Task, inner.Reads, inner.History = key, &within, &c.Task, c.Reads, history
	inner.Branches, inner.Call, inner.calls = nil, j.calls, 0
	return &inner
}

// callRequest returns what a call asks for, as it is noted and compared.
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

func sameValue(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && string(JSON(x)) == string(JSON(y))
}

type callEnd journal.CallEnd

func (e *callEnd) done() Done {
	out := Done{Result: Result{Value: e.Value}, Took: time.Duration(e.Millis) * time.Millisecond}
	if e.Class != "" {
		out.Failure = &Error{Class: e.Class, Message: e.Error, Exit: e.Exit}
	}
	return out
}

// callHistory finds a call in the notes of a task: how it began, what was
// noted inside of it, and how it ended.
func callHistory(
	history []journal.TaskNoted, key string,
) (begun *journal.Call, inner []journal.TaskNoted, end *callEnd, err error) {
	for _, n := range history {
		switch {
		case n.Kind == journal.NoteCall && begun == nil:
			var c journal.Call
			if err := json.Unmarshal(n.Data, &c); err != nil {
				return nil, nil, nil, Errorf(journal.ClassInternal, "note %d cannot be read: %v", n.N, err)
			}
			if c.Key == key {
				begun = &c
			}
			continue
		case n.Kind == journal.NoteCallEnd && begun != nil:
			var e callEnd
			if err := json.Unmarshal(n.Data, &e); err != nil {
				return nil, nil, nil, Errorf(journal.ClassInternal, "note %d cannot be read: %v", n.N, err)
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

// OpenCall returns the call that a task was in when it was lost, and the notes of
// it; false when it was in none. What happens to the task is then for the
// kind of the call to say.
func OpenCall(history []journal.TaskNoted) (ir.Task, []journal.TaskNoted, bool) {
	var open []journal.Call
	from := 0
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
