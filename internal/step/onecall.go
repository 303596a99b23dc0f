package step

import (
	"context"
	"encoding/json"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/journal"
)

// Kinds whose whole work is one call of a tool share what follows: a call that
// was made and may have acted is in doubt; one that returned is not made again.

// OneCallRecovery returns what happens to a task that consists of one call: a person
// is asked when the call was made and may have acted.
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

// OneCall calls a tool, whose answer has to meet the contract wants,
// or returns what an earlier life of the task has noted about it. input
// returns the input of the call; result turns its outcome into the result.
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
	// What does not fit a tool, or is meant for none, is no call to speak of.
	if done.Called || made != nil || done.Use.Class != ClassInput && done.Use.Class != ClassMissing {
		out.Notes = done.Notes
	}
	return out, err
}
