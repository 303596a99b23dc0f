package step

import (
	"context"
	"encoding/json"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// Kinds whose tasks are a single tool call share the following functions. The outcome of a call that was made
// and may have acted is unknown; a call that returned is not repeated.

// OneCallRecovery returns how a task recovers that is a single tool call: a person decides if the call was made
// and may have acted.
func OneCallRecovery(history []journal.TaskNoted) Recovery {
	var made, returned *journal.ToolUse
	for _, n := range history {
		var use journal.ToolUse
		if json.Unmarshal(n.Data, &use) != nil {
			continue
		}
		switch n.Kind {
		case journal.NoteToolCall:
			made = &use
		case journal.NoteToolResult:
			returned = &use
		}
	}
	if made != nil && returned == nil && !made.Repeatable {
		return Ask
	}
	return Rerun
}

// OneCall makes the only tool call of a task, or returns its outcome if an earlier execution of this attempt
// noted it. The output must meet the contract wants. input returns the input of the call; result converts its
// outcome.
func (j *Job) OneCall(
	ctx context.Context, name string, wants contract.Contract, input func() (json.RawMessage, error),
	result func(journal.ToolUse) (Result, error),
) (Result, error) {
	id := j.CallKey(1)
	made, returned, answer := j.PastCall(id, 1)
	if returned != nil {
		return result(*returned)
	}
	call := ToolCall{Name: name, CallID: id, N: 1, Wants: wants, Made: made, Answer: answer}
	if made == nil {
		var err error
		if call.Input, err = input(); err != nil {
			return Result{}, err
		}
	}
	done, err := j.UseTool(ctx, call)
	if err != nil {
		return Result{Usage: done.InFlight}, err
	}
	out, err := result(done.Use)
	// A call with invalid input, or of an unknown tool, is not recorded as a call.
	if done.Called || made != nil || done.Use.Class != ir.ClassInput && done.Use.Class != ir.ClassMissing {
		out.Notes = done.Notes
	}
	return out, err
}
