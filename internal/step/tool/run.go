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
)

// shellTool is the tool that runs commands, which need consent.
const shellTool = "Bash"

// Run makes the call.
func (s Settings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	wants := Kind{}.Explored(job.Workflow, job.Step, job.Task)
	job.Explore(&wants)
	return job.OneCall(ctx, s.Tool, wants,
		func() (json.RawMessage, error) {
			if ir.ToolName(s.Tool) == shellTool {
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
		return step.Result{}, step.Errorf(cmp.Or(use.Class, step.ClassTool), "the tool %q of step %q: %s", use.Name, job.Step.ID, use.Error)
	}
	return step.Result{Value: use.Output}, nil
}

// input makes the tool's input (F39): the arguments if there are any, else the
// one object that is read, else all that is read by name; of the latter what
// the tool knows. It is checked before the call.
func input(job *step.Job, set Settings) (json.RawMessage, error) {
	if set.Args != nil {
		return fill(job, set.Args)
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

// reduce keeps what a tool's schema declares; all if it declares nothing.
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

// fill puts what the step reads into the arguments.
func fill(job *step.Job, args map[string]json.RawMessage) (json.RawMessage, error) {
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		value, err := fillValue(job, args[name])
		if err != nil {
			return nil, err
		}
		out[name] = value
	}
	return step.JSON(out), nil
}

func fillValue(job *step.Job, raw json.RawMessage) (any, error) {
	var list []json.RawMessage
	var object map[string]json.RawMessage
	var text string
	switch {
	case json.Unmarshal(raw, &object) == nil && object != nil:
		return fill(job, object)
	case json.Unmarshal(raw, &list) == nil && list != nil:
		out := make([]any, len(list))
		for i, one := range list {
			value, err := fillValue(job, one)
			if err != nil {
				return nil, err
			}
			out[i] = value
		}
		return out, nil
	case json.Unmarshal(raw, &text) != nil || !strings.Contains(text, "{{"):
		return raw, nil
	}
	return fillText(job, text)
}

// fillText replaces each {{path}} in a text. One that is all of the text gives
// the value itself.
func fillText(job *step.Job, text string) (any, error) {
	var out strings.Builder
	rest := text
	for {
		before, inner, opened := strings.Cut(rest, "{{")
		path, after, closed := strings.Cut(inner, "}}")
		out.WriteString(before)
		if !opened || !closed {
			if opened {
				out.WriteString("{{" + inner)
			}
			return out.String(), nil
		}
		value, err := lookup(job, strings.TrimSpace(path))
		if err != nil {
			return nil, err
		}
		if len(path)+len("{{}}") == len(text) {
			return value, nil
		}
		out.WriteString(ir.PlainText(value))
		rest = after
	}
}

// lookup finds a path in what the step reads: the longest read that it begins
// with, and then on inside.
func lookup(job *step.Job, path string) (json.RawMessage, error) {
	best := -1
	for i, r := range job.Reads {
		if (path == r.Path || strings.HasPrefix(path, r.Path+".")) && (best < 0 || len(r.Path) > len(job.Reads[best].Path)) {
			best = i
		}
	}
	if best < 0 {
		return nil, step.Errorf(step.ClassInput, "an argument of step %q is {{%s}}, which the step does not read. Add it to \"reads\".", job.Step.ID, path)
	}
	value := job.Reads[best].Value
	for name := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(path, job.Reads[best].Path), "."), ".") {
		if name == "" {
			continue
		}
		var object map[string]json.RawMessage
		_ = json.Unmarshal(value, &object) // what is no object has no parts
		value = object[name]
		if value == nil {
			value = json.RawMessage("null") // as conditions have it: what is not there is null
		}
	}
	return value, nil
}
