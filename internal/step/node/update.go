package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// CollectRunner runs tasks of kind "collect".
type CollectRunner struct {
	step.Base[kinds.Collect, collectSettings]
}

type collectSettings kinds.CollectSettings

var _ step.Settings = collectSettings{}

// Run merges the changes of branches: it concatenates lists, adds numbers and otherwise keeps the last value.
// Without branches, it returns the values that the step reads, with the defaults.
func (set collectSettings) Run(_ context.Context, job *step.Job) (step.Result, error) {
	out := map[string]json.RawMessage{}
	if len(job.Branches) == 0 {
		maps.Copy(out, set.Defaults)
		for _, r := range job.Reads {
			if r.Path != "input" {
				out[name(r.Path)] = r.Value
				continue
			}
			var given map[string]json.RawMessage
			if err := json.Unmarshal(r.Value, &given); err != nil {
				return step.Result{}, step.Errorf(ir.ClassInput, "the input is not an object with fields")
			}
			maps.Copy(out, given)
		}
		return step.Result{Value: step.JSON(out)}, nil
	}
	for _, r := range job.Reads {
		if set.Reducers[name(r.Path)] == "" || set.Reducers[name(r.Path)] == reduceAdd {
			out[name(r.Path)] = r.Value
		}
	}
	for _, b := range job.Branches {
		var changes map[string]json.RawMessage
		if b.Outcome != ir.OK || json.Unmarshal(b.Value, &changes) != nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(changes)) {
			value, err := reduce(set.Reducers[key], out[key], changes[key])
			if err != nil {
				return step.Result{}, step.Errorf(ir.ClassInvalid, "field %q: %v", key, err)
			}
			out[key] = value
		}
	}
	if _, tracked := out[trackCycle]; tracked {
		out[trackCycle] = cycle(job)
	}
	fill(job, set.Reducers, out)
	return step.Result{Value: step.JSON(out)}, nil
}

// fill adds the step's writes that the code has not changed: an empty change for fields with a reducer, the
// current value for all others.
func fill(job *step.Job, reducers map[string]string, out map[string]json.RawMessage) {
	for _, w := range job.Step.Writes {
		if _, changed := out[w.Part]; changed || w.Part == "" {
			continue
		}
		switch reducers[w.Part] {
		case reduceAppend:
			out[w.Part] = json.RawMessage("[]")
		case reduceMerge:
			out[w.Part] = json.RawMessage("{}")
		default:
			out[w.Part] = valueOf(job, w.Path)
		}
	}
}

// valueOf returns the value that a step reads at a path, or null.
func valueOf(job *step.Job, path string) json.RawMessage {
	for _, r := range job.Reads {
		if r.Path == path {
			return r.Value
		}
	}
	return json.RawMessage("null")
}

// The reducers.
const (
	reduceAppend = "append"
	reduceMerge  = "merge"
	reduceAdd    = "add"
)

// reduce combines a value with a change.
func reduce(reducer string, before, change json.RawMessage) (json.RawMessage, error) {
	if len(before) == 0 || reducer == "" {
		return change, nil
	}
	a, b := typeName(before), typeName(change)
	switch {
	case reducer == reduceMerge:
		if a == "dict" && b == "dict" {
			var x, y map[string]json.RawMessage
			err := errors.Join(json.Unmarshal(before, &x), json.Unmarshal(change, &y))
			maps.Copy(x, y)
			return step.JSON(x), err
		}
	case a == "list" && b == "list":
		var x, y []json.RawMessage
		err := errors.Join(json.Unmarshal(before, &x), json.Unmarshal(change, &y))
		return step.JSON(append(x, y...)), err
	case a == "str" && b == "str":
		var x, y string
		err := errors.Join(json.Unmarshal(before, &x), json.Unmarshal(change, &y))
		return step.JSON(x + y), err
	case a == "int" && b == "int":
		x, _ := new(big.Int).SetString(string(before), 10)
		y, _ := new(big.Int).SetString(string(change), 10)
		return json.RawMessage(x.Add(x, y).String()), nil
	case isNumber(a) && isNumber(b):
		x, _ := strconv.ParseFloat(string(before), 64)
		y, _ := strconv.ParseFloat(string(change), 64)
		return floatJSON(x + y)
	}
	return nil, fmt.Errorf("%s cannot be added to %s", b, a)
}

func isNumber(name string) bool { return name == "int" || name == "float" }

// floatJSON encodes a float so that it stays one: with a decimal point or an exponent.
func floatJSON(f float64) (json.RawMessage, error) {
	raw, err := json.Marshal(f)
	if err == nil && !bytes.ContainsAny(raw, ".e") {
		raw = append(raw, ".0"...)
	}
	return raw, err
}

// typeName returns the name of the Python type that a JSON value becomes.
func typeName(raw json.RawMessage) string {
	switch text := strings.TrimSpace(string(raw)); {
	case text == "", text == "null":
		return "None"
	case text == "true", text == "false":
		return "bool"
	case text[0] == '{':
		return "dict"
	case text[0] == '[':
		return "list"
	case text[0] == '"':
		return "str"
	case strings.ContainsAny(text, ".eE"):
		return "float"
	}
	return "int"
}

// misfit explains why a value does not fit an annotation such as "list[float]", or returns "". None fits every
// annotation.
func misfit(raw json.RawMessage, annotation string) string {
	kind, element, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(annotation, "?"), "]"), "[")
	name := typeName(raw)
	switch {
	case name == "None", kind == "any", kind == "":
		return ""
	case name != kind && !(kind == "float" && name == "int"):
		return fmt.Sprintf("%s, not %s: %.60s", kind, name, raw)
	case kind == "list" && element != "":
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items) // it is a list
		for i, item := range items {
			if why := misfit(item, element); why != "" {
				return fmt.Sprintf("%s; item %d must be %s", annotation, i, why)
			}
		}
	case kind == "dict" && element != "":
		var items map[string]json.RawMessage
		_ = json.Unmarshal(raw, &items) // it is a dict
		for _, key := range slices.Sorted(maps.Keys(items)) {
			if why := misfit(items[key], element); why != "" {
				return fmt.Sprintf("%s; the value of %q must be %s", annotation, key, why)
			}
		}
	}
	return ""
}

// name returns the name of a field in results: a path without "state.".
func name(path string) string {
	if field, ok := strings.CutPrefix(path, "state."); ok {
		return field
	}
	return path
}

// update returns the result of a node: the fields that its function returned.
func update(job *step.Job, set kinds.NodeSettings, returned json.RawMessage) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	if len(returned) > 0 {
		if err := json.Unmarshal(returned, &out); err != nil {
			return nil, err
		}
	}
	if out == nil { // the function returned None
		out = map[string]json.RawMessage{}
	}
	for _, field := range slices.Sorted(maps.Keys(out)) {
		annotation, known := set.Fields[field]
		if !known {
			return nil, fmt.Errorf("the function returned the field %q, which the state schema does not have", field)
		}
		name := typeName(out[field])
		switch {
		case set.Reducers[field] == reduceAppend && name != "list":
			return nil, fmt.Errorf("the reducer of the field %q appends lists, but the function returned %s",
				field, name)
		case set.Reducers[field] == reduceMerge && name != "dict":
			return nil, fmt.Errorf("the reducer of the field %q merges dicts, but the function returned %s",
				field, name)
		}
		if why := misfit(out[field], annotation); why != "" {
			return nil, fmt.Errorf("the field %q must be %s", field, why)
		}
	}
	if set.Delta {
		return out, nil
	}
	for _, w := range job.Step.Writes {
		if change, changed := out[w.Part]; changed && set.Reducers[w.Part] == reduceAdd {
			total, err := reduce(reduceAdd, valueOf(job, w.Path), change)
			if err != nil {
				return nil, err
			}
			out[w.Part] = total
		}
	}
	return out, nil
}
