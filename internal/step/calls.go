package step

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/tool"
)

// ToolsDone is the outcome of several tool calls.
type ToolsDone struct {
	Uses []journal.ToolUse // in the order of the calls
	// Notes must be made durable together with the caller's next notes.
	Notes []Note
	// InFlight is the reservation of calls that were interrupted.
	InFlight journal.Usage
}

// UseTools makes several calls as UseTool does, concurrently if they need no approval. Intents are noted in the
// order of the calls, and each result as soon as it arrives, so that a crash repeats none.
func (j *Job) UseTools(ctx context.Context, calls []ToolCall, notes ...Note) (ToolsDone, error) {
	var out ToolsDone
	out.Notes = notes
	for len(calls) > 0 {
		n := max(1, j.together(calls))
		if n > 1 {
			if err := j.atOnce(ctx, calls[:n], &out); err != nil {
				return out, err
			}
		} else {
			done, err := j.UseTool(ctx, calls[0], out.Notes...)
			if err != nil {
				out.Notes, out.InFlight = nil, done.InFlight
				return out, err
			}
			out.Uses, out.Notes = append(out.Uses, done.Use), done.Notes
		}
		calls = calls[n:]
	}
	return out, nil
}

// together returns how many of the next calls can be made without an approval.
func (j *Job) together(calls []ToolCall) int {
	for i, c := range calls {
		found, denial := j.admit(&c)
		if denial == nil && c.Made == nil && found.Spec().RequiresApproval {
			return i
		}
	}
	return len(calls)
}

// admit returns the tool of a call, or the reason why the call is denied.
func (j *Job) admit(c *ToolCall) (tool.Tool, *tool.Denial) {
	if c.Made != nil {
		c.Input = c.Made.Input // the same call, under the same key
	}
	if len(c.Input) == 0 {
		c.Input = json.RawMessage("{}")
	}
	return tool.Admit(j.Tools, j.caller(*c), c.Name, c.Input)
}

// caller returns on whose behalf a call is made, which decides about its permission.
func (j *Job) caller(c ToolCall) tool.Caller {
	return tool.Caller{Program: j.Workflow, Step: j.Step, Agent: c.Agent}
}

// atOnce makes calls at the same time. One reservation is for all of them; the
// last result settles it.
func (j *Job) atOnce(ctx context.Context, calls []ToolCall, out *ToolsDone) error {
	first := len(out.Uses)
	uses := make([]journal.ToolUse, len(calls))
	// Divide the calls into those that are made and those that are denied. Every call is noted with its intent.
	var made []int // which calls are really made
	tools := make([]tool.Tool, len(calls))
	var intents, refusals []Note
	for i := range calls {
		found, denial := j.admit(&calls[i])
		if denial != nil {
			done := refused(calls[i], denial, nil)
			uses[i] = done.Use
			for _, n := range done.Notes {
				if n.Kind == journal.NoteToolCall {
					intents = append(intents, n)
				} else {
					refusals = append(refusals, n)
				}
			}
			continue
		}
		made, tools[i], uses[i] = append(made, i), found, calls[i].intent(found)
		if calls[i].Made == nil {
			intents = append(intents, Note{Kind: journal.NoteToolCall, Data: uses[i]})
		}
	}
	out.Uses = append(out.Uses, uses...)
	intents = append(intents, refusals...)
	if len(made) == 0 {
		out.Notes = append(out.Notes, intents...)
		return nil
	}
	// Reserve budget for all calls, then note the intents, and only then make the calls: what is noted may have acted.
	amount := journal.Usage{ToolCalls: int64(len(made))}
	held, err := j.Log.Reserve(ctx, amount, out.Notes...)
	out.Notes = nil
	if err != nil {
		return err
	}
	endCalls, err := j.BeginCall()
	if err != nil {
		return err
	}
	defer endCalls()
	if err := j.Log.Note(ctx, intents...); err != nil {
		return err
	}
	type end struct {
		i    int
		line string
		err  error
	}
	ends := make(chan end)
	for _, i := range made {
		go func() {
			e := end{i: i}
			defer func() {
				if p := recover(); p != nil { // it would end the process, with every other run
					e.err = Errorf(ir.ClassInternal, "tool %s: %v\n%s", calls[i].Name, p, debug.Stack())
				}
				ends <- e
			}()
			e.line, e.err = j.execute(ctx, calls[i], tools[i], &uses[i])
		}()
	}
	// Note each result when it arrives, except for the last one: it goes with the caller's next notes, and settles the
	// reservation. All goroutines have ended when the loop ends.
	var ended error // why the task has to end
	returned := int64(0)
	for left := len(made); left > 0; left-- {
		e := <-ends
		if e.err != nil {
			ended = cmp.Or(ended, e.err)
			continue
		}
		returned++
		out.Uses[first+e.i] = uses[e.i]
		note := Note{Kind: journal.NoteToolResult, Data: uses[e.i]}
		if left == 1 && ended == nil {
			note.Settles, note.Usage = held, amount
			out.Notes = withLine(note, e.line)
		} else if err == nil {
			err = j.Log.Note(ctx, withLine(note, e.line)...) // and wait for the others in any case
		}
	}
	if question, ok := errors.AsType[*ApprovalRequired](ended); ok && err == nil {
		// The calls that returned count; the gate releases the rest.
		return cmp.Or[error](j.Log.Note(ctx, Note{
			Kind: journal.NoteLogLine, Data: journal.LogLine{Text: "A tool asks a question."}, Settles: held,
			Usage: journal.Usage{ToolCalls: returned},
		}), question)
	}
	if ended != nil {
		out.InFlight = amount
		return ended
	}
	return err
}
