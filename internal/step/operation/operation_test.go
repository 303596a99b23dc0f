package operation_test

import (
	"encoding/json"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/operation"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/tool"
)

func TestSuite(t *testing.T) {
	steptest.Run(t, operation.Kind{},
		steptest.Case{Name: "call", Settings: steptest.Settings{"operation": "http.request", "inputs": map[string]any{"url": "x"}}},
		steptest.Case{Name: "nothing", Misfit: true},
	)
}

func TestRuns(t *testing.T) {
	tools := map[string]steptest.Tool{
		"http.request": {Spec: tool.Spec{Schema: json.RawMessage(`{"type":"object","required":["url"]}`)}, Answer: `{"status_code":200,"body":"hi","headers":{"A":"b"}}`},
		"send":         {Spec: tool.Spec{SideEffects: true}, Answer: `"sent"`},
		"no":           {Answer: `"not today"`, No: true},
	}
	with := func(j *step.Job) {
		j.Reads = []step.Read{{Path: "input", Value: json.RawMessage(`{"host":"h"}`)}}
	}
	plays := []steptest.Play{
		{
			Name: "lines and data", Settings: steptest.Settings{"operation": "http.request", "inputs": map[string]any{"url": "http://{{.inputs.host}}/", "list": []string{"{{.inputs.host}}"}}},
			Value: `{"Output":"body=hi\nheaders={\"A\":\"b\"}\nstatus_code=200","Stderr":"","ExitCode":0,"Status":"completed","Response":{"status_code":200,"body":"hi","headers":{"A":"b"}}}`,
			Notes: []string{journal.NoteToolCall, journal.NoteToolResult},
		},
		{Name: "text", Settings: steptest.Settings{"operation": "send"}, Value: `{"Output":"sent","Stderr":"","ExitCode":0,"Status":"completed","Response":"sent"}`},
		{Name: "a no", Settings: steptest.Settings{"operation": "no"}, Class: step.ClassTool},
		{Name: "inputs that do not fit", Settings: steptest.Settings{"operation": "http.request"}, Class: step.ClassInput},
		{Name: "not there", Settings: steptest.Settings{"operation": "nothing.like.it"}, Class: step.ClassMissing},
		{Name: "a name that nothing has", Settings: steptest.Settings{"operation": "send", "inputs": map[string]any{"x": "{{.inputs.y}}"}}, Class: step.ClassInput},
	}
	for i := range plays {
		plays[i].With, plays[i].Tools = with, tools
	}
	steptest.Runs(t, operation.Kind{}, plays...)
}
