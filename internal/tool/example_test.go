package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/tool"
)

// shout is a tool that returns its text in capital letters.
type shout struct{}

func (shout) Spec() tool.Spec {
	return tool.Spec{Name: "shout", Schema: json.RawMessage(`{"required": ["text"]}`)}
}

func (shout) Call(_ context.Context, call tool.Call) (tool.Result, error) {
	var input struct{ Text string }
	if err := json.Unmarshal(call.Input, &input); err != nil {
		return tool.Result{}, &tool.Error{Class: ir.ClassInput, Message: err.Error()}
	}
	output, err := json.Marshal(strings.ToUpper(input.Text))
	return tool.Result{Output: output}, err
}

// only is a Set with one tool.
type only struct{ one tool.Tool }

func (b only) Tool(name string) tool.Tool {
	if name != b.one.Spec().Name {
		return nil
	}
	return b.one
}

func (b only) Names(string) []string { return []string{b.one.Spec().Name} }

// Admit checks every call before it is made.
func Example() {
	agent := &ir.Agent{ID: "crier", Tools: []ir.Name{{Name: "shout"}, {Name: "whisper"}}}
	crier := tool.Caller{Program: &ir.Program{Tools: ir.Tools{AllowAll: true}}, Step: &ir.Step{}, Agent: agent}
	for _, call := range []struct{ name, input string }{
		{"shout", `{"text": "hear ye"}`}, {"shout", `{}`}, {"whisper", `{}`}, {"Bash", `{"command": "rm -r /"}`},
	} {
		found, denial := tool.Admit(only{shout{}}, crier, call.name, json.RawMessage(call.input))
		if denial != nil {
			fmt.Printf("%s: %s\n", denial.Class, denial.Why)
			continue
		}
		result, err := found.Call(context.Background(), tool.Call{Input: json.RawMessage(call.input)})
		fmt.Println(string(result.Output), err)
	}
	// Output:
	// "HEAR YE" <nil>
	// INVALID_INPUT: the input of the tool "shout" is invalid: must have the property "text"
	// NOT_READY: tool "whisper" does not exist
	// NOT_ALLOWED: agent "crier" has no tool "Bash"
}
