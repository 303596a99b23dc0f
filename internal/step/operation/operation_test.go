package operation_test

import (
	"encoding/json"
	"maps"
	"strconv"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/operation"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/tool"
)

func TestOperationStepsKeepResultsWhenInterrupted(t *testing.T) {
	tools := map[string]steptest.Tool{
		"http.request": {Spec: tool.Spec{Schema: json.RawMessage(`{"type":"object","required":["url"]}`)}, Answer: `{"status_code":200,"body":"hi","headers":{"A":"b"}}`},
		"send":         {Spec: tool.Spec{SideEffects: true}, Answer: `"sent"`},
		"no":           {Answer: `"not today"`, No: true},
	}
	with := func(j *step.Job) {
		j.Reads = []step.Read{{Path: "input", Value: json.RawMessage(`{"host":"h","minutes":5}`)}}
	}
	plays := []steptest.Play{
		{
			Name: "lines and data", Settings: steptest.Settings{"operation": "http.request", "inputs": map[string]any{
				"url": "http://{{.inputs.host}}/", "list": []string{"{{.inputs.host}}"},
			}},
			Value: `{"Output":"body=hi\nheaders={\"A\":\"b\"}\nstatus_code=200","Stderr":"","ExitCode":0,"Status":"completed","Response":{"status_code":200,"body":"hi","headers":{"A":"b"}}}`,
			Notes: []string{journal.NoteToolCall, journal.NoteToolResult},
		},
		{Name: "in time", Settings: steptest.Settings{"operation": "send", "timeout": "{{.inputs.minutes}}m"}, Value: `{"Output":"sent","Stderr":"","ExitCode":0,"Status":"completed","Response":"sent"}`},
		{
			Name:     "no time",
			Settings: steptest.Settings{"operation": "send", "timeout": "{{.inputs.host}}"}, Class: ir.ClassInput,
		},
		{Name: "text", Settings: steptest.Settings{"operation": "send"}, Value: `{"Output":"sent","Stderr":"","ExitCode":0,"Status":"completed","Response":"sent"}`},
		{Name: "a no", Settings: steptest.Settings{"operation": "no"}, Class: ir.ClassTool},
		{
			Name:     "inputs that do not fit",
			Settings: steptest.Settings{"operation": "http.request"}, Class: ir.ClassInput,
		},
		{Name: "not there", Settings: steptest.Settings{"operation": "nothing.like.it"}, Class: ir.ClassMissing},
		{Name: "a name that nothing has", Settings: steptest.Settings{
			"operation": "send", "inputs": map[string]any{"x": "{{.inputs.y}}"},
		}, Class: ir.ClassInput},
	}
	for i := range plays {
		plays[i].With, plays[i].Tools = with, tools
	}
	steptest.Runs(t, operation.Runner{}, plays...)
}

// Every response is a result, unless its status is retryable.
func TestEveryResponseIsAResultUnlessRetryable(t *testing.T) {
	const bad = `{"status":404,"headers":{"A":"b"},"body":"none"}`
	schema := json.RawMessage(`{"type":"object","properties":{"url":{"type":"string"},"method":{"enum":["POST"]},"timeout_seconds":{"const":2}},"required":["url","timeout_seconds"],"additionalProperties":false}`)
	answer := func(text string, no bool) map[string]steptest.Tool {
		return map[string]steptest.Tool{"http.request": {Spec: tool.Spec{Schema: schema}, Answer: text, No: no}}
	}
	request := func(timeout any, codes ...any) steptest.Settings {
		return steptest.Settings{"operation": "http.request", "inputs": map[string]any{
			"url": "x", "timeout": timeout, "retryable_status_codes": codes,
		}}
	}
	found := `{"Output":"body=none\nbody_truncated=false\nheaders={\"A\":\"b\"}\nstatus_code=404","Stderr":"","ExitCode":0,"Status":"completed","Response":{"status_code":404,"body":"none","headers":{"A":"b"},"body_truncated":false}}`
	steptest.Runs(t, operation.Runner{},
		steptest.Play{Name: "any status", Settings: request(2), Tools: answer(bad, true), Value: found},
		steptest.Play{
			Name: "another status", Settings: request("1500ms", 503, "429"), Tools: answer(bad, true), Value: found,
		},
		steptest.Play{
			Name: "one to try again after", Settings: request("2", 503, 404),
			Tools: answer(bad, true), Class: ir.ClassTool,
		},
		steptest.Play{
			Name: "the same as a text", Settings: request("2s", "404"), Tools: answer(bad, true), Class: ir.ClassTool,
		},
		steptest.Play{
			Name: "JSON", Settings: request(2), Tools: answer(`{"status":200,"body":"","json":{"n":7}}`, false),
			Value: `{"Output":"body={\"n\":7}\nbody_truncated=false\nheaders={}\nstatus_code=200","Stderr":"","ExitCode":0,"Status":"completed","Response":{"status_code":200,"body":"{\"n\":7}","headers":{},"body_truncated":false}}`,
		},
		steptest.Play{
			Name: "a method in small letters", Settings: steptest.Settings{
				"operation": "http.request", "inputs": map[string]any{"url": "x", "timeout": 2, "method": " post"},
			},
			Tools: answer(bad, true), Value: found,
		},
		steptest.Play{
			Name: "one status alone", Settings: steptest.Settings{"operation": "http.request", "inputs": map[string]any{
				"url": "x", "timeout": 2, "retryable_status_codes": 404,
			}},
			Tools: answer(bad, true), Class: ir.ClassTool,
		},
		steptest.Play{
			Name: "statuses of a template", Settings: request(2, "{{.inputs.codes}}"),
			Tools: answer(bad, true), Class: ir.ClassTool,
			With: func(j *step.Job) {
				j.Reads = []step.Read{{Path: "input", Value: json.RawMessage(`{"codes":"503, 404"}`)}}
			},
		},
		steptest.Play{Name: "statuses that are none", Settings: request(2, "5xx"), Tools: answer(`{"status":200,"body":"none"}`, false), Class: ir.ClassInput},
		steptest.Play{
			Name: "no time at all", Settings: request("soon"), Tools: answer(bad, true), Class: ir.ClassInput,
		},
	)
}

// Numbers are sent as they are written, and headers may be numbers and booleans.
func TestNumbersKeepTheirDigits(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"url":{"type":"string"},"body":{"const":{"id":9007199254740993}},"headers":{"const":{"V":"1000000","T":"true","S":"s"}}},"required":["body","headers"]}`)
	steptest.Runs(t, operation.Runner{}, steptest.Play{
		Name: "numbers", Settings: steptest.Settings{"operation": "http.request", "inputs": json.RawMessage(`{"url":"x","body":{"id":9007199254740993},"headers":{"V":1000000,"T":true,"S":"s"}}`)},
		Tools: map[string]steptest.Tool{"http.request": {Spec: tool.Spec{Schema: schema}, Answer: `"sent"`}},
		Value: `{"Output":"sent","Stderr":"","ExitCode":0,"Status":"completed","Response":"sent"}`,
	})
}

// Values in code are data, as in commands; other inputs have them as they are.
func TestValuesInCodeAreData(t *testing.T) {
	schema := func(command string) json.RawMessage {
		return json.RawMessage(`{"properties":{"command":{"const":` + strconv.Quote(command) + `},"note":{"const":"v1; id"}}}`)
	}
	play := func(name, command, want string, more steptest.Settings) steptest.Play {
		set := steptest.Settings{
			"operation": "deploy", "inputs": map[string]any{"command": command, "note": "{{.states.ask.Output}}"},
		}
		maps.Copy(set, more)
		p := steptest.Play{
			Name: name, Settings: set, Value: `{"Output":"ok","Stderr":"","ExitCode":0,"Status":"completed","Response":"ok"}`,
			Tools: map[string]steptest.Tool{"deploy": {Spec: tool.Spec{Code: "command", Schema: schema(want)}, Answer: `"ok"`}},
			With: func(j *step.Job) {
				j.Reads = []step.Read{
					{Path: "input", Value: json.RawMessage(`{"x":"x; id"}`)},
					{Path: "states.ask.Output", Value: json.RawMessage(`"v1; id"`)},
				}
			},
		}
		if want == "" {
			p.Value, p.Class = "", ir.ClassInput
		}
		return p
	}
	steptest.Runs(t, operation.Runner{},
		play("quoted", `echo "{{.states.ask.Output}}"`, `echo "v1; id"`, nil),
		play("words", `echo {{.states.ask.Output}}`, `__espalier_1='v1; id'; echo ${__espalier_1}`, nil),
		play("input", `echo '{{.inputs.x}}'`, `echo "x; id"`, nil),
		play("trusted code", `sh -c {{.inputs.x}}`, `sh -c x; id`, nil),
		play("input of a step", `sh -c {{.inputs.x}}`, "", steptest.Settings{"doubts": []string{"inputs"}}),
		play("raw", `echo {{raw .states.ask.Output}}`, `echo v1; id`, nil),
		play("code", `eval "{{.states.ask.Output}}"`, "", nil),
		play("a program", `{{.states.ask.Output}}`, "", nil),
	)
}
