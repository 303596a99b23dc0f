package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// Runner runs tasks of kind "tool".
type Runner struct {
	step.Base[kinds.Tool, settings]
}

type settings kinds.ToolSettings

var _ step.Settings = settings{}

// Recovery asks a person if the call was made and may have acted.
func (Runner) Recovery(_ *ir.Task, history []journal.TaskNoted) step.Recovery {
	return step.OneCallRecovery(history)
}

// Run makes the call.
func (s settings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	wants := kinds.Tool{}.Explored(job.Workflow, job.Step, job.Task)
	job.Explore(&wants)
	return job.OneCall(ctx, s.Tool, wants,
		func() (json.RawMessage, error) {
			if ir.ToolName(s.Tool) == ir.ShellTool || job.CodeArgument(s.Tool) != "" {
				if err := job.Consented(); err != nil {
					return nil, err
				}
			}
			return input(job, s)
		},
		func(use journal.ToolUse) (step.Result, error) { return result(job, use) })
}

func result(job *step.Job, use journal.ToolUse) (step.Result, error) {
	if use.Error != "" {
		return step.Result{}, step.Errorf(cmp.Or(use.Class, ir.ClassTool), "the tool %q of step %q: %s",
			use.Name, job.Step.ID, use.Error)
	}
	return step.Result{Value: use.Output}, nil
}

// input returns the tool's input: the arguments if there are any, else the only object that is read, else
// all reads by name that the tool's schema knows. It is checked before the call.
func input(job *step.Job, set settings) (json.RawMessage, error) {
	if set.Args != nil {
		return fill(job, set.Args, job.CodeArgument(set.Tool))
	}
	var schema json.RawMessage
	if job.Tools != nil {
		if found := job.Tools.Tool(ir.ToolName(set.Tool)); found != nil {
			schema = found.Spec().Schema
		}
	}
	return reduce(read(job), schema), nil
}

// read returns what the step reads, by name, without values that no step has written.
func read(job *step.Job) map[string]json.RawMessage {
	if len(job.Reads) == 1 {
		var object map[string]json.RawMessage
		if json.Unmarshal(job.Reads[0].Value, &object) == nil && object != nil {
			return object
		}
	}
	object := map[string]json.RawMessage{}
	for _, r := range job.Reads {
		if !r.Missing {
			object[step.LastSegment(r.Path)] = r.Value
		}
	}
	return object
}

// reduce keeps the properties that a tool's schema declares, or all if it declares none.
func reduce(object map[string]json.RawMessage, schema json.RawMessage) json.RawMessage {
	var declared struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &declared) == nil && len(declared.Properties) > 0 {
		object = maps.Clone(object)
		maps.DeleteFunc(object, func(name string, _ json.RawMessage) bool {
			_, ok := declared.Properties[name]
			return !ok
		})
	}
	return step.JSON(object)
}

// fill renders the arguments with what the step reads. code is the argument that a shell executes, or "".
func fill(job *step.Job, args map[string]json.RawMessage, code string) (json.RawMessage, error) {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		put := fillText
		if name == code {
			put = fillCode
		}
		value, err := fillValue(job, args[name], put)
		if err != nil {
			return nil, err
		}
		out[name] = value
	}
	return step.JSON(out), nil
}

func fillValue(
	job *step.Job, raw json.RawMessage, put func(*step.Job, kinds.Argument) (any, error),
) (any, error) {
	var list []json.RawMessage
	var object map[string]json.RawMessage
	var text string
	switch {
	case json.Unmarshal(raw, &object) == nil && object != nil:
		return fill(job, object, "")
	case json.Unmarshal(raw, &list) == nil && list != nil:
		out := make([]any, len(list))
		for i, one := range list {
			value, err := fillValue(job, one, put)
			if err != nil {
				return nil, err
			}
			out[i] = value
		}
		return out, nil
	case json.Unmarshal(raw, &text) != nil || !strings.Contains(text, "{{"):
		return raw, nil
	}
	pieces, err := kinds.ParseArgument(text, func(path string) (json.RawMessage, error) { return lookup(job, path) })
	if err != nil {
		return nil, err
	}
	return put(job, pieces)
}

// fillText replaces each {{path}} in a text.
func fillText(job *step.Job, list kinds.Argument) (any, error) {
	if list.IsValue() {
		return list[1].Value, nil
	}
	var out strings.Builder
	for _, p := range list {
		out.WriteString(p.Text)
		if p.Path != "" {
			out.WriteString(ir.PlainText(p.Value))
		}
	}
	return out.String(), nil
}

// fillCode replaces each {{path}} in code by a value that the shell does not execute. Code that is one {{path}} is a
// command that another step has chosen, or the person who started the run.
func fillCode(job *step.Job, list kinds.Argument) (any, error) {
	if list.IsValue() && !(job.Untrusted && list[1].IsInput()) {
		return list[1].Value, nil
	}
	command, failed := list.Command(job.Untrusted)
	if failed != nil {
		return nil, step.Errorf(ir.ClassInput, "step %q: %s. %s", job.Step.ID, failed.Message, kinds.ArgumentHelp)
	}
	return command.Standalone(), nil
}

// lookup returns the value of a path: of the longest read that is a prefix of it, and then of the keys below.
func lookup(job *step.Job, path string) (json.RawMessage, error) {
	best := -1
	for i, r := range job.Reads {
		if (path == r.Path || strings.HasPrefix(path, r.Path+".")) &&
			(best < 0 || len(r.Path) > len(job.Reads[best].Path)) {
			best = i
		}
	}
	if best < 0 {
		return nil, step.Errorf(ir.ClassInput,
			"an argument of step %q is {{%s}}, which the step does not read. Add it to \"reads\".", job.Step.ID, path)
	}
	value := job.Reads[best].Value
	for name := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(path, job.Reads[best].Path), "."), ".") {
		if name == "" {
			continue
		}
		var object map[string]json.RawMessage
		_ = json.Unmarshal(value, &object) // other values have no parts
		value = object[name]
		if value == nil {
			value = json.RawMessage("null") // as conditions have it: what is not there is null
		}
	}
	return value, nil
}
