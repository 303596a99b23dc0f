package operation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// Runner runs tasks of kind "operation".
type Runner struct {
	step.Base[kinds.Operation, settings]
}

type settings kinds.OperationSettings

var _ step.Settings = settings{}

// Recovery asks a person if the call was made and may have acted.
func (Runner) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	return step.OneCallRecovery(history)
}

// Run makes the call.
func (s settings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	input := func() (json.RawMessage, error) { return inputs(job, s) }
	return job.LimitByTemplate(ctx, s.Timeout, func(ctx context.Context) (step.Result, error) {
		return job.OneCall(ctx, s.Operation, contract.Contract{}, input,
			func(use journal.ToolUse) (step.Result, error) {
				if s.Operation == httpRequest {
					codes, err := retried(job, s)
					if err != nil {
						return step.Result{}, err
					}
					use = answered(use, codes)
				}
				return result(use)
			})
	})
}

// state is the result of the step.
type state struct {
	kinds.State
	Response json.RawMessage `json:"Response"`
}

func result(use journal.ToolUse) (step.Result, error) {
	left := state{
		State: kinds.State{Status: kinds.StateCompleted, Output: lines(use.Output)}, Response: use.Output,
	}
	if use.Error == "" {
		return step.Result{Value: step.JSON(left)}, nil
	}
	left.Status, left.ExitCode, left.Error, left.Stderr = kinds.StateFailed, 1, use.Error, use.Error
	if len(left.Response) == 0 {
		left.Response = json.RawMessage("{}")
	}
	return step.Result{}, &step.Error{
		Class: cmp.Or(use.Class, ir.ClassTool), Message: fmt.Sprintf("%s: %s", use.Name, use.Error),
		Exit: 1, Value: step.JSON(left),
	}
}

// lines returns the keys of an object as key=value, one per line and sorted; other values as they are.
func lines(output json.RawMessage) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(output, &object) == nil && object != nil {
		var out []string
		for _, key := range slices.Sorted(maps.Keys(object)) {
			out = append(out, key+"="+ir.PlainText(object[key]))
		}
		return strings.Join(out, "\n")
	}
	return ir.PlainText(output)
}

// inputs renders the templates in the inputs, at all depths.
func inputs(job *step.Job, set settings) (json.RawMessage, error) {
	if len(set.Inputs) == 0 {
		return json.RawMessage("{}"), nil
	}
	given, err := filled(job, set.Inputs, job.CodeArgument(set.Operation), set.UntrustedRoots)
	if err != nil {
		return nil, err
	}
	if object, ok := given.(map[string]any); ok && set.Operation == httpRequest {
		if _, err := retried(job, set); err != nil {
			return nil, err // before the request is made
		}
		if err := requested(object); err != nil {
			return nil, err
		}
	}
	return step.JSON(given), nil
}

// filled returns inputs with their templates rendered. code is the input that a shell executes, or "". Numbers
// keep their digits, because an ID may exceed the precision of a float.
func filled(job *step.Job, raw json.RawMessage, code string, untrustedRoots []string) (any, error) {
	var tree any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, step.Errorf(ir.ClassInput, "the inputs of step %q: %v", job.Step.ID, err)
	}
	values := job.Values()
	object, _ := tree.(map[string]any)
	command, isCode := object[code].(string)
	if isCode {
		delete(object, code)
	}
	out, err := fill(job, values, tree)
	if isCode && err == nil {
		object[code], err = job.FillCode(command, values, untrustedRoots)
	}
	return out, err
}

func fill(job *step.Job, values expr.Values, v any) (any, error) {
	var err error
	switch x := v.(type) {
	case string:
		return job.Fill(x, values)
	case []any:
		for i := range x {
			if x[i], err = fill(job, values, x[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range x {
			if x[key], err = fill(job, values, x[key]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}
