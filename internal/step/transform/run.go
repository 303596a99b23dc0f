package transform

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Runner runs tasks of kind "transform".
type Runner struct {
	chat.Base[kinds.Transform, settings]
}

var _ step.Instant = Runner{}

type settings kinds.TransformSettings

var _ step.Settings = settings{}

// Instant reports whether the task asks no model.
func (Runner) Instant(t *ir.Task) bool {
	return stepkind.Lenient[kinds.TransformSettings](t).Mode != kinds.TransformModel
}

// Run does the transform. The record names the mode.
func (s settings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	var value json.RawMessage
	var err error
	switch s.Mode {
	case kinds.TransformModel:
		ask, _ := kinds.TransformSettings(s).Ask(job.Workflow)
		return chat.Run(ctx, job, &ask, s.Task, s.Expected)
	case kinds.TransformValidate:
		if value, err = validate(job); err != nil {
			return step.Result{Notes: doneBy(job, s.Mode)}, err
		}
	case kinds.TransformText:
		value = step.JSON(s.Text)
	case kinds.TransformHandOver:
		value = json.RawMessage("null")
		if len(job.Branches) > 0 {
			value = job.Branches[0].Value
		}
	case kinds.TransformPresent:
		value = step.JSON(map[string]any{"approved": present(job.Reads)})
	default:
		return step.Result{}, step.Errorf(ir.ClassInput, "there is no transform %q", s.Mode)
	}
	return step.Result{Value: value, Notes: doneBy(job, s.Mode)}, nil
}

// doneBy returns the note that names the mode. A conversation has its own notes.
func doneBy(job *step.Job, m kinds.TransformMode) []step.Note {
	if job.NoteCount(journal.NoteDone) > 0 {
		return nil
	}
	return []step.Note{{Kind: journal.NoteDone, Data: journal.DoneBy{By: string(m)}}}
}

// validate checks the run's input against its contract, fills in the defaults
// and returns it.
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
		return nil, step.Errorf(ir.ClassInput, "the schema of the input cannot be used: %v", err)
	}
	value = s.Fill(value)
	problems, err := s.Check(value)
	if err != nil {
		return nil, step.Errorf(ir.ClassInput, "%v", err)
	}
	if len(problems) == 0 {
		return value, nil
	}
	lines := xslices.Map(problems, schema.Problem.String)
	return nil, step.Errorf(ir.ClassInput, "the input does not fit its schema: %s", strings.Join(lines, "; "))
}

// present reports whether every read has a value. It returns false if
// there are no reads, so that a gate never passes by accident.
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
