package transform_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/step/transform"
)

const contract = `{"type":"object","required":["name","pages"],"properties":{
	"name":{"type":"string"},"pages":{"type":"integer"},"tone":{"type":"string","default":"dry"}}}`

func input(value string) func(*step.Job) {
	return func(job *step.Job) {
		job.Workflow.Input = &ir.Contract{Schema: json.RawMessage(contract)}
		job.Reads = []step.Read{{Path: "input", Value: json.RawMessage(value)}}
	}
}

func reads(values ...string) func(*step.Job) {
	return func(job *step.Job) {
		job.Reads = nil
		for _, v := range values {
			job.Reads = append(job.Reads, step.Read{Path: "state.x", Value: json.RawMessage(v)})
		}
	}
}

func mode(m string) steptest.Settings {
	return steptest.Settings{"mode": m, "text": "<b>fixed</b>", "task": "Shorten"}
}

func TestTransformStepsKeepResultsWhenInterrupted(t *testing.T) {
	done := []string{journal.NoteDone}
	steptest.Runs(t, transform.Runner{},
		steptest.Play{Name: "F27: input that fits", Settings: mode("validate"), With: input(`{"name":"x","pages":2}`), Value: `{"name":"x","pages":2,"tone":"dry"}`, Notes: done},
		steptest.Play{Name: "F27: input that does not", Settings: mode("validate"), With: input(`{"pages":"two"}`), Class: ir.ClassInput, Notes: done},
		steptest.Play{Name: "F27: no contract", Settings: mode("validate"), With: reads(`[1]`), Value: `[1]`},
		steptest.Play{Name: "text", Settings: mode("text"), Value: `"<b>fixed</b>"`, Notes: done},
		steptest.Play{
			Name: "F27: a model", Settings: mode("model"), Replies: []steptest.Reply{{Text: "shorter"}}, Value: `"shorter"`,
			Notes: []string{journal.NotePrompt, journal.NoteReply},
		},
		steptest.Play{
			Name: "F8: a model with several writes", Settings: mode("model"), With: steptest.Writes("a"),
			Replies: []steptest.Reply{{Text: "x"}, {Text: `{"a":1}`}}, Value: `{"a":1}`,
		},
		steptest.Play{Name: "F40: everything is there", Settings: mode("present"), With: reads(`1`, `"x"`, `true`, `0`, `[0]`), Value: `{"approved":true}`, Notes: done},
		steptest.Play{Name: "F40: null", Settings: mode("present"), With: reads(`1`, `null`), Value: `{"approved":false}`},
		steptest.Play{Name: "F40: false", Settings: mode("present"), With: reads(`false`), Value: `{"approved":false}`},
		steptest.Play{Name: "F40: empty text", Settings: mode("present"), With: reads(`""`), Value: `{"approved":false}`},
		steptest.Play{Name: "F40: empty list", Settings: mode("present"), With: reads(`[]`), Value: `{"approved":false}`},
		steptest.Play{Name: "F40: empty object", Settings: mode("present"), With: reads(`{}`), Value: `{"approved":false}`},
		steptest.Play{Name: "F40: nothing is read", Settings: mode("present"), With: reads(), Value: `{"approved":false}`},
	)
}

// All problems of the input are reported at once.
func TestAllProblemsOfTheInputAreReported(t *testing.T) {
	_, err := steptest.Play{Settings: mode("validate"), With: input(`{"pages":"two"}`)}.Done(t, transform.Runner{}, &steptest.Log{}, &steptest.World{})
	var failure *step.Error
	if !errors.As(err, &failure) || !strings.Contains(failure.Message, "name") ||
		!strings.Contains(failure.Message, "pages") {
		t.Error(err)
	}
}
