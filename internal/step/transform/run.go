package transform

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/talk"
)

var _ step.Runner = Kind{}

// Recovery is to do it again: nothing outside is changed.
func (Kind) Recovery(*ir.Task, []journal.TaskNoted) step.Recovery { return step.Rerun }

// Run does it; the record names which way.
func (Kind) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	set, err := step.Decode[Settings](job.Task)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInput, "%v", err)
	}
	if err := ctx.Err(); err != nil {
		return step.Result{}, context.Cause(ctx)
	}
	var value json.RawMessage
	switch set.Mode {
	case Model:
		return talk.Talk{Task: set.Task, Expected: set.Expected, Form: talk.Form{Contract: replies(job.Workflow, job.Step, set)}}.Run(ctx, job)
	case Validate:
		if value, err = validate(job); err != nil {
			return step.Result{Notes: doneBy(job, set.Mode)}, err
		}
	case Text:
		value = step.JSON(set.Text)
	case HandOver:
		value = json.RawMessage("null")
		if len(job.Branches) > 0 {
			value = job.Branches[0].Value
		}
	case Present:
		value = step.JSON(map[string]any{"approved": present(job.Reads)})
	default:
		return step.Result{}, step.Errorf(step.ClassInput, "there is no transform %q", set.Mode)
	}
	return step.Result{Value: value, Notes: doneBy(job, set.Mode)}, nil
}

// doneBy names what did the step. A model's part is told by its own notes.
func doneBy(job *step.Job, m Mode) []step.Note {
	if job.Noted(journal.NoteDone) > 0 {
		return nil
	}
	return []step.Note{{Kind: journal.NoteDone, Data: journal.DoneBy{By: string(m)}}}
}

// validate holds the run's input against its contract, with the defaults
// filled in, and passes it on (F27).
func validate(job *step.Job) (json.RawMessage, error) {
	value := json.RawMessage("null")
	if len(job.Reads) > 0 {
		value = job.Reads[0].Value
	}
	if job.Workflow.Input == nil || len(job.Workflow.Input.Schema) == 0 {
		return value, nil
	}
	s, err := schema.Compile(job.Workflow.Input.Schema)
	if err != nil {
		return nil, step.Errorf(step.ClassInput, "the schema of the input cannot be used: %v", err)
	}
	value = s.Fill(value)
	problems, err := s.Check(value)
	if err != nil {
		return nil, step.Errorf(step.ClassInput, "%v", err)
	}
	if len(problems) == 0 {
		return value, nil
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String()
	}
	return nil, step.Errorf(step.ClassInput, "the input does not fit its schema: %s", strings.Join(lines, "; "))
}

// present tells whether everything that is read is there and says something
// (F40). Where nothing is read, nothing is there: a gate never passes by accident.
func present(reads []step.Read) bool {
	for _, r := range reads {
		switch strings.TrimSpace(string(r.Value)) {
		case "", "null", "false", `""`, "[]", "{}":
			return false
		}
		if r.Missing {
			return false
		}
	}
	return len(reads) > 0
}
