package step

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/tool"
)

// ToolCall is a tool call that a task requests.
type ToolCall struct {
	Name   string // the tool's name in the workflow
	CallID string
	N      int       // which of the task's calls, from 1: part of its key
	Agent  *ir.Agent // nil when the step itself calls
	Input  json.RawMessage
	// Wants is the contract that the tool's output must meet.
	Wants contract.Contract
	// Made is the call as an earlier execution of this attempt noted it, or nil. It is not noted again, and its
	// input replaces Input.
	Made *journal.ToolUse
	// Answer is the noted decision of a person about the call, or nil.
	Answer *journal.ToolAnswer
}

// ToolDone is the outcome of a tool call.
type ToolDone struct {
	Use journal.ToolUse
	// Called reports whether the tool was called; otherwise the call was denied.
	Called bool
	// Notes must be made durable together with the caller's next notes.
	Notes []Note
	// InFlight is the reservation of a call that was interrupted.
	InFlight journal.Usage
}

// maxToolOutput bounds the bytes of a tool's output.
const maxToolOutput = 8 << 20

// UseTool checks, reserves budget for, notes and makes one tool call. UseTools makes several at the same time; there
// is no other way to call a tool. The checks are the workflow's lists, the agent's tools, the tool's schema, an
// approval if the tool requires one, and the budget. The reservation and the intent are durable before the call.
// notes become durable on the way, or are among the notes of the result.
//
// Denials and tool failures are in ToolDone. An error ends the task; it is an *ApprovalRequired if a person
// must approve the call first.
func (j *Job) UseTool(ctx context.Context, c ToolCall, notes ...Note) (ToolDone, error) {
	found, denial := j.admit(&c)
	if denial == nil && c.Made == nil && found.Spec().RequiresApproval {
		question := j.approvalFor(c, found.Spec())
		switch {
		// An answer counts for what the person saw. If the call has changed since, the person is asked again.
		case c.Answer == nil || c.Answer.Digest != question.digest(j.Root):
			if err := j.Log.Note(ctx, notes...); err != nil {
				return ToolDone{}, err
			}
			return ToolDone{}, question
		case !c.Answer.Approved:
			denial = &tool.Denial{Class: ir.ClassDenied, Why: disapproval(c)}
		}
	}
	if denial != nil {
		return refused(c, denial, notes), nil
	}
	return j.callTool(ctx, c, found, notes)
}

// approvalFor returns the request for approval of a call: the tool, its arguments and its target.
func (j *Job) approvalFor(c ToolCall, spec tool.Spec) *ApprovalRequired {
	return j.approvalShowing(c, spec, map[string]json.RawMessage{"tool": JSON(c.Name), "arguments": c.Input})
}

// approvalShowing returns a question about a call that shows the given values, without secrets.
func (j *Job) approvalShowing(c ToolCall, spec tool.Spec, shows map[string]json.RawMessage) *ApprovalRequired {
	if spec.Target != "" {
		shows["target"] = JSON(spec.Target)
	}
	if c.Agent != nil {
		shows["agent"] = JSON(c.Agent.ID)
	}
	for name, value := range shows {
		shows[name] = j.Secrets.Hide(value)
	}
	return &ApprovalRequired{Call: j.CallKey(c.N), Shows: shows, Within: spec.ApprovalTimeout}
}

// digest identifies what a question shows, in the form that gates and answers have.
func (q *ApprovalRequired) digest(run journal.RunID) string {
	return journal.GateDigest(run, q.Call, "call", q.Shows)
}

// CallKey names a task's n-th call within its run.
func (j *Job) CallKey(n int) string { return fmt.Sprintf("%s/call:%d", j.Key, n) }

// Idempotency returns the idempotency key of the task, or of one of its calls, for external systems. It is the
// same after a crash and differs between runs.
func (j *Job) Idempotency(key string) string { return string(j.Root) + "/" + key }

// disapproval explains why a call was not approved.
func disapproval(c ToolCall) string {
	switch {
	case c.Answer.TimedOut:
		return fmt.Sprintf("the call of the tool %q was not approved in time", c.Name)
	case c.Answer.Note != "":
		return fmt.Sprintf("a person rejected this call of the tool %q: %s", c.Name, c.Answer.Note)
	}
	return fmt.Sprintf("a person rejected this call of the tool %q", c.Name)
}

// refused returns the outcome of a call that is denied. It is noted nevertheless.
func refused(c ToolCall, why *tool.Denial, notes []Note) ToolDone {
	done := ToolDone{Use: journal.ToolUse{
		Name: c.Name, CallID: c.CallID, Input: c.Input, Fidelity: journal.ByRouter, Repeatable: true,
	}, Notes: notes}
	if c.Made == nil {
		done.Notes = append(done.Notes, Note{Kind: journal.NoteToolCall, Data: done.Use})
	}
	done.Use.Error, done.Use.Class = why.Why, why.Class
	done.Notes = append(done.Notes, Note{Kind: journal.NoteToolResult, Data: done.Use})
	return done
}

// intent returns the note of a call before it is made.
func (c *ToolCall) intent(found tool.Tool) journal.ToolUse {
	return journal.ToolUse{
		Name: c.Name, CallID: c.CallID, Input: c.Input, Fidelity: journal.ByRouter,
		Repeatable: tool.Repeatable(found, c.Input),
	}
}

// callTool reserves budget for a call, notes it and makes it. The note of the result is in the outcome, not durable
// yet.
func (j *Job) callTool(ctx context.Context, c ToolCall, found tool.Tool, notes []Note) (ToolDone, error) {
	done := ToolDone{Use: c.intent(found)}
	amount := journal.Usage{ToolCalls: 1}
	held, err := j.Log.Reserve(ctx, amount, notes...)
	if err != nil {
		return done, err
	}
	// From here on, a stop of the task waits for the call. The intent is noted only after that: a call that is not made
	// must not look as if it had been.
	end, err := j.BeginCall()
	if err != nil {
		return done, err
	}
	// The intent is noted separately from the reservation, which may wait: a noted call may have been made.
	if c.Made == nil {
		if err := j.Log.Note(ctx, Note{Kind: journal.NoteToolCall, Data: done.Use}); err != nil {
			end()
			return done, err
		}
	}
	logLine, err := j.execute(ctx, c, found, &done.Use)
	end()
	if err != nil {
		done.InFlight = amount
		return done, err
	}
	done.Called = true
	done.Notes = withLine(Note{Kind: journal.NoteToolResult, Data: done.Use, Settles: held, Usage: amount}, logLine)
	return done, nil
}

// withLine returns the note of a result, and the note of the tool's log line if there is one.
func withLine(result Note, line string) []Note {
	if line == "" {
		return []Note{result}
	}
	return []Note{result, {Kind: journal.NoteLogLine, Data: journal.LogLine{Text: line}}}
}

// execute makes a call, records the outcome in use and returns the tool's log line. An error ends the task before the
// outcome is known; it is an *ApprovalRequired if the tool asks a person a question.
func (j *Job) execute(ctx context.Context, c ToolCall, found tool.Tool, use *journal.ToolUse) (line string, _ error) {
	result, err := j.callInTime(ctx, c, found)
	if err != nil && ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if question, ok := errors.AsType[*ApprovalRequired](err); ok {
		return "", question
	}
	use.Output, use.Offline = result.Output, result.Offline
	if err == nil {
		use.Media, err = j.keepMedia(result.Media)
	}
	switch {
	case err != nil:
		use.Output, use.Error, use.Class = nil, err.Error(), ir.ClassTool
		if failed, ok := errors.AsType[*tool.Error](err); ok {
			use.Error, use.Class = failed.Message, failed.Class
		}
	case result.IsError:
		use.Error = cmp.Or(result.LogLine, ir.PlainText(result.Output))
	default:
		line = result.LogLine
	}
	return line, nil
}

// keepMedia writes the media that a tool returned into the run's folder.
func (j *Job) keepMedia(media []tool.Media) ([]journal.Media, error) {
	if len(media) == 0 {
		return nil, nil
	}
	if err := j.MakeDir(); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(j.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var out []journal.Media
	for _, m := range media {
		name := filepath.FromSlash(m.File())
		if err := protected.WriteFile(root, name, m.Data, protected.Options{File: 0o600, Folder: 0o700}); err != nil {
			return nil, err
		}
		out = append(out, journal.Media{Type: m.Type, File: m.File()})
	}
	return out, nil
}

// callInTime makes a call with the time limit of its tool, and checks what the tool returns. A question that a person
// has to answer takes precedence over the result: the call is made again afterwards.
func (j *Job) callInTime(ctx context.Context, c ToolCall, found tool.Tool) (tool.Result, error) {
	limit := cmp.Or(found.Spec().Timeout, stepkind.ToolCallSeconds*time.Second)
	slow := tool.Errorf(ir.ClassTimeout, "the tool did not return within %g seconds", limit.Seconds())
	ctx, stop := context.WithTimeoutCause(ctx, limit, slow)
	defer stop()
	if err := j.MakeDir(); err != nil {
		return tool.Result{}, &tool.Error{Class: ir.ClassMissing, Message: err.Error()}
	}
	// Everything that the tool may use, with functions that decide about each address and path when it asks.
	call := tool.Call{
		Key: j.Idempotency(j.CallKey(c.N)), Input: c.Input, Dir: j.Dir, Keep: j.ProtectedFiles(),
		TraceParent: journal.ToolTraceParent(j.Root, j.Run, j.Key, c.CallID),
		For: tool.Purpose{
			Workflow: j.Workflow.Name, Step: j.Step.ID,
			Visit: j.Visit, Iteration: j.Iteration, Attempt: j.Attempt, Wants: c.Wants,
		},
		MayReach: func(address string) bool {
			return j.caller(c).Refusal(c.Name, JSON(map[string]string{"url": address})) == ""
		},
		MayTouch: func(path string, linked bool) bool { return j.caller(c).MayTouch(c.Name, path, linked) },
	}
	if c.Agent != nil {
		call.For.Agent = c.Agent.ID
		// What is in the project can be read anyway, by the project's rules.
		if b := c.Agent.Bundle; b != nil && filepath.IsAbs(b.Dir) {
			call.Readable = []string{b.Dir}
		}
	}
	progress := j.newProgress(ctx, c)
	call.Progress = progress.report
	asks := &exchange{job: j, call: c, spec: found.Spec()}
	call.Ask, call.Sample = asks.ask, asks.sample
	// The progress ends before the result is noted, so that no note about progress comes after it.
	result, err := found.Call(ctx, call)
	progress.end()
	if question := asks.unanswered(); question != nil {
		return tool.Result{}, question
	}
	switch {
	case err != nil && errors.Is(context.Cause(ctx), slow):
		err = slow
	case err != nil:
	case len(result.Output) == 0:
		result.Output = json.RawMessage("null")
	case len(result.Output) > maxToolOutput:
		err = tool.Errorf(ir.ClassTool, "the tool returned more than %d bytes", maxToolOutput)
	case !json.Valid(result.Output):
		err = &tool.Error{Class: ir.ClassTool, Message: "the tool returned something that is not JSON"}
	}
	return result, err
}

// PastCall returns what earlier executions of this attempt noted about a call, by its ID and number.
func (j *Job) PastCall(id string, n int) (made, returned *journal.ToolUse, answer *journal.ToolAnswer) {
	// The last note of each kind counts.
	for _, note := range j.History {
		var use journal.ToolUse
		var answered journal.ToolAnswer
		switch note.Kind {
		case journal.NoteToolCall:
			if json.Unmarshal(note.Data, &use) == nil && use.CallID == id {
				made = &use
			}
		case journal.NoteToolResult:
			if json.Unmarshal(note.Data, &use) == nil && use.CallID == id {
				returned = &use
			}
		case journal.NoteToolAnswer:
			if json.Unmarshal(note.Data, &answered) == nil && answered.Call == j.CallKey(n) {
				answer = &answered
			}
		}
	}
	return made, returned, answer
}
