package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/tool"
)

// ToolCall is a call of a tool that a task wants to make.
type ToolCall struct {
	Tool   tool.Tool
	Name   string // as the workflow calls it
	CallID string
	N      int // which of the task's calls, from 1: part of its key
	Agent  string
	Input  json.RawMessage
	Noted  bool // an earlier life of the task has noted it: it is not noted again
}

// ToolDone is what came of a call.
type ToolDone struct {
	Use  journal.ToolUse
	Note Note // of the result, to be made durable with what follows
	// InFlight is what was set aside for a call that did not come to its end.
	InFlight journal.Usage
}

// CallTool calls a tool: what it may use is set aside and the intent is
// durable before. notes are made durable with the reservation. A tool that
// does not work is not an error here but part of what came of it; an error
// means that the task has to end.
func (j *Job) CallTool(ctx context.Context, c ToolCall, notes ...Note) (ToolDone, error) {
	spec := c.Tool.Spec()
	done := ToolDone{Use: journal.ToolUse{
		Name: c.Name, CallID: c.CallID, Input: c.Input, Fidelity: journal.ByRouter, Repeatable: !spec.SideEffects || spec.TakesKey,
	}}
	amount := journal.Usage{ToolCalls: 1}
	held, err := j.Log.Reserve(ctx, amount, notes...)
	if err != nil {
		return done, err
	}
	// Apart from the reservation, which may have to wait: a call that is noted
	// is one that may have been made.
	if !c.Noted {
		if err := j.Log.Note(ctx, Note{Kind: journal.NoteToolCall, Data: done.Use}); err != nil {
			return done, err
		}
	}
	result, err := j.callInTime(ctx, c)
	if err != nil && ctx.Err() != nil {
		done.InFlight = amount
		return done, context.Cause(ctx)
	}
	done.Use.Output, done.Use.Offline = result.Output, result.Offline
	switch {
	case err != nil:
		done.Use.Output, done.Use.Error, done.Use.Class = nil, err.Error(), ClassTool
		var failed *tool.Error
		if errors.As(err, &failed) {
			done.Use.Error, done.Use.Class = failed.Message, failed.Class
		}
	case result.IsError:
		done.Use.Error = said(result.Output)
	}
	done.Note = Note{Kind: journal.NoteToolResult, Data: done.Use, Settles: held, Usage: amount}
	return done, nil
}

func (j *Job) callInTime(ctx context.Context, c ToolCall) (tool.Result, error) {
	ctx, stop := context.WithTimeoutCause(ctx, ToolCallSeconds*time.Second, errSlowTool)
	defer stop()
	result, err := c.Tool.Call(ctx, tool.Call{
		Key: fmt.Sprintf("%s/call:%d", j.Key, c.N), Input: c.Input, Dir: j.Dir,
		For: tool.Purpose{
			Workflow: j.Workflow.Name, Step: j.Step.ID, Agent: c.Agent,
			Visit: j.Visit, Iteration: j.Iteration, Attempt: j.Attempt,
		},
	})
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errSlowTool):
		err = errSlowTool
	case err == nil && len(result.Output) == 0:
		result.Output = json.RawMessage("null")
	case err == nil && !json.Valid(result.Output):
		err = &tool.Error{Class: ClassTool, Message: "the tool returned something that is not JSON"}
	}
	return result, err
}

var errSlowTool = &tool.Error{Class: ClassTimeout, Message: fmt.Sprintf("the tool did not return within %d seconds", ToolCallSeconds)}

// said is a tool's "no" as text.
func said(output json.RawMessage) string {
	var text string
	if json.Unmarshal(output, &text) == nil && text != "" {
		return text
	}
	return string(output)
}

// BadInput is everything that is wrong with a tool's input; nil when it fits.
func BadInput(spec tool.Spec, input json.RawMessage) []string {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	if !json.Valid(input) {
		return []string{"the input is not JSON"}
	}
	if len(spec.Schema) == 0 {
		return nil
	}
	s, err := schema.Compile(spec.Schema)
	if err != nil {
		return []string{fmt.Sprintf("the schema of the tool cannot be used: %v", err)}
	}
	problems, err := s.Check(input)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, p := range problems {
		out = append(out, p.String())
	}
	return out
}
