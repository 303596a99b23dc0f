package step_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// A timeout from a template ends the work with class TIMEOUT; other errors are unchanged.
func TestTemplateTimeoutsEndTheWork(t *testing.T) {
	job := &step.Job{Step: &ir.Step{ID: "ask"}, Reads: []step.Read{{Path: "input", Value: json.RawMessage(`{"short":"1ms","seconds":"0.001","long":"1h","odd":"soon"}`)}}}
	waits := func(ctx context.Context) (step.Result, error) {
		<-ctx.Done()
		return step.Result{}, ctx.Err()
	}
	own := errors.New("its own")
	fails := func(context.Context) (step.Result, error) { return step.Result{}, own }
	class := func(err error) ir.Class {
		var failed *step.Error
		switch {
		case err == nil:
			return "ok"
		case errors.Is(err, own):
			return "own"
		case errors.As(err, &failed):
			return failed.Class
		}
		return ir.Class(err.Error())
	}
	for _, c := range []struct {
		template string
		work     func(context.Context) (step.Result, error)
		want     ir.Class
	}{
		{"{{.inputs.short}}", waits, ir.ClassTimeout},
		{" {{.inputs.seconds}} ", waits, ir.ClassTimeout},
		{"{{.inputs.long}}", fails, "own"},
		{"", fails, "own"},
		{"{{.inputs.odd}}", fails, ir.ClassInput},
		{"-5s", fails, ir.ClassInput},
		{"{{.inputs.nothing}}", fails, ir.ClassInput},
	} {
		if _, err := job.LimitByTemplate(t.Context(), c.template, c.work); class(err) != c.want {
			t.Errorf("%q: %v, want %s", c.template, err, c.want)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := job.LimitByTemplate(canceled, "{{.inputs.long}}", waits); !errors.Is(err, context.Canceled) {
		t.Errorf("who is cancelled is not late: %v", err)
	}
}
