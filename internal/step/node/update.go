package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/python"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
)

var _ step.Runner = Collect{}

// Recovery is to do it again.
func (Collect) Recovery(*ir.Task, []journal.TaskNoted) step.Recovery { return step.Rerun }

// Run puts values together. Of branches it gives their changes: lists one
// after the other, numbers added up, of everything else the last. Otherwise it
// gives what the step reads, over the defaults.
func (Collect) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	set, err := stepkind.Decode[CollectSettings](job.Task)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInput, "%v", err)
	}
	if ctx.Err() != nil {
		return step.Result{}, context.Cause(ctx)
	}
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
				return step.Result{}, step.Errorf(step.ClassInput, "the input is not an object with fields")
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
			value, err := reduce(ctx, set.Reducers[key], out[key], changes[key])
			if err != nil {
				return step.Result{}, step.Errorf(step.ClassInvalid, "field %q: %v", key, err)
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

// fill adds what a step writes and nobody has changed: nothing for what grows,
// what is there for everything else.
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

// valueOf is what a step reads at a path; null when it does not.
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

// reduce lets a change meet what is there.
func reduce(ctx context.Context, reducer string, before, change json.RawMessage) (json.RawMessage, error) {
	if len(before) == 0 || reducer == "" {
		return change, nil
	}
	a, err := python.FromJSON(before)
	if err != nil {
		return nil, err
	}
	b, err := python.FromJSON(change)
	if err != nil {
		return nil, err
	}
	t := python.NewThread(ctx)
	op := "+"
	if reducer == reduceMerge {
		op = "|"
	}
	v, err := t.Operate(op, a, b)
	if err != nil {
		return nil, err
	}
	return t.ToJSON(v)
}

// name is what a field of the state is called in results: without "state.".
// Everything else keeps its whole path.
func name(path string) string {
	if field, ok := strings.CutPrefix(path, "state."); ok {
		return field
	}
	return path
}

// typed makes a value what its annotation says, as far as JSON has lost it: a
// float that happens to be whole.
func typed(v python.Value, kind string) python.Value {
	kind = strings.TrimSuffix(kind, "?")
	elem := ""
	if open := strings.IndexByte(kind, '['); open >= 0 && strings.HasSuffix(kind, "]") {
		kind, elem = kind[:open], kind[open+1:len(kind)-1]
	}
	switch x := v.(type) {
	case int64:
		if kind == "float" {
			return float64(x)
		}
	case *python.List:
		for i := range x.Items {
			x.Items[i] = typed(x.Items[i], elem)
		}
	case *python.Dict:
		for _, key := range x.Keys() {
			if text, ok := key.(string); ok && elem != "" {
				value, _ := x.Get(text)
				x.Set(text, typed(value, elem))
			}
		}
	}
	return v
}

// update makes the result of a node out of what its function returned.
func update(ctx context.Context, job *step.Job, set Settings, returned python.Value, t *python.Thread) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	if returned == nil {
		returned = python.NewDict()
	}
	changes, ok := returned.(*python.Dict)
	if !ok {
		return nil, fmt.Errorf("it must return a dict of the fields that it changes, not %s", python.TypeName(returned))
	}
	for _, key := range changes.Keys() {
		field, ok := key.(string)
		if _, known := set.Fields[field]; !ok || !known { // N20
			shown, err := t.Repr(key)
			if err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("it returned the field %s, which the state schema does not have", shown)
		}
		value, _ := changes.Get(field)
		raw, err := t.ToJSON(value)
		if err != nil {
			return nil, err
		}
		if set.Reducers[field] == reduceAppend && !strings.HasPrefix(string(raw), "[") {
			return nil, fmt.Errorf("the field %q grows by lists, but it returned %s", field, python.TypeName(value))
		}
		if set.Reducers[field] == reduceMerge && !strings.HasPrefix(string(raw), "{") {
			return nil, fmt.Errorf("the field %q grows by dicts, but it returned %s", field, python.TypeName(value))
		}
		out[field] = raw
	}
	if set.Delta {
		return out, nil
	}
	for _, w := range job.Step.Writes {
		if change, changed := out[w.Part]; changed && set.Reducers[w.Part] == reduceAdd {
			total, err := reduce(ctx, reduceAdd, valueOf(job, w.Path), change)
			if err != nil {
				return nil, err
			}
			out[w.Part] = total
		}
	}
	return out, nil
}
