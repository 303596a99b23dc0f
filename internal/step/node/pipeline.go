package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/python"
	"github.com/espalier-run/espalier/internal/step"
)

// stage is one step of a pipeline.
type stage struct {
	agent     string
	workload  python.Value
	dependsOn []string
	transform python.Value
}

// newPipeline is the Pipeline of Execution blocks.
func newPipeline(ctx context.Context, h *host, args []python.Value, named python.Named) (python.Value, error) {
	name := ""
	if v, ok := named.Get("name"); ok {
		args = append(args, v)
	}
	if len(args) > 0 {
		text, ok := args[0].(string)
		if !ok {
			return nil, python.NewError("TypeError", "the name of a pipeline must be str, not %s", python.TypeName(args[0]))
		}
		name = text
	}
	var stages []stage
	self := &python.Object{Type: "Pipeline", Attrs: map[string]python.Value{"name": name}}
	self.Attrs["add"] = &python.Builtin{Name: "add", Call: func(t *python.Thread, args []python.Value, named python.Named) (python.Value, error) {
		s, err := addArguments(t, args, named)
		if err != nil {
			return nil, err
		}
		if len(stages) >= maxStages {
			return nil, python.NewError("ValueError", "a pipeline has at most %d steps", maxStages)
		}
		stages = append(stages, s)
		return self, nil
	}}
	self.Attrs["run"] = &python.Builtin{Name: "run", Call: func(t *python.Thread, _ []python.Value, _ python.Named) (python.Value, error) {
		return h.runPipeline(ctx, t, name, stages)
	}}
	self.Attrs["describe"] = &python.Builtin{Name: "describe", Call: func(*python.Thread, []python.Value, python.Named) (python.Value, error) {
		var b strings.Builder
		fmt.Fprintf(&b, "Pipeline: %s (%d steps)", name, len(stages))
		for i, s := range stages {
			fmt.Fprintf(&b, "\n  %d. %s", i+1, s.agent)
			if len(s.dependsOn) > 0 {
				fmt.Fprintf(&b, " (after: %s)", strings.Join(s.dependsOn, ", "))
			}
		}
		return b.String(), nil
	}}
	return self, nil
}

const maxStages = 1000

func addArguments(t *python.Thread, args []python.Value, named python.Named) (stage, error) {
	var s stage
	names := []string{"agent", "workload", "depends_on", "transform"}
	all := map[string]python.Value{}
	for _, a := range named {
		name := a.Name
		if name == "agent_name" {
			name = "agent"
		}
		if !slices.Contains(names, name) {
			return s, python.NewError("TypeError", "Pipeline.add() got an unexpected keyword argument '%s'", a.Name)
		}
		all[name] = a.Value
	}
	for i, v := range args {
		if i >= len(names) {
			return s, python.NewError("TypeError", "add() takes from 2 to 5 positional arguments but %d were given", len(args)+1)
		}
		all[names[i]] = v
	}
	agent, ok := all["agent"].(string)
	if !ok {
		return s, python.NewError("TypeError", "the agent of a pipeline step must be str, not %s", python.TypeName(all["agent"]))
	}
	s.agent, s.workload, s.transform = agent, all["workload"], all["transform"]
	var deps []python.Value
	switch list := all["depends_on"].(type) {
	case nil:
	case *python.List:
		deps = list.Items
	case *python.Tuple:
		deps = list.Items
	default:
		return s, python.NewError("TypeError", "depends_on must be a list of agents, not %s", python.TypeName(list))
	}
	for _, d := range deps {
		text, err := t.Str(d)
		if err != nil {
			return s, err
		}
		s.dependsOn = append(s.dependsOn, text)
	}
	return s, nil
}

// runPipeline runs the steps in the order in which they were added.
func (h *host) runPipeline(ctx context.Context, t *python.Thread, name string, stages []stage) (python.Value, error) {
	results := map[string]reply{}
	var steps []reply
	for _, s := range stages {
		failed := ""
		for _, dep := range s.dependsOn {
			r, ran := results[dep]
			if !ran || r.Success { // unknown and later ones do not count
				continue
			}
			why := "Dependency failed: " + dep
			if h.set.SDK { // N18: a record for each, and the step runs all the same
				steps = append(steps, reply{Agent: s.agent, Output: json.RawMessage("{}"), Error: &why})
				continue
			}
			if failed == "" {
				failed = why
			}
		}
		r := reply{Agent: s.agent, Output: json.RawMessage("{}")}
		if failed == "" { // else a transform has nothing to work on
			workload, why, err := h.workload(t, s, results)
			if err == nil && why == "" {
				r, err = h.call(ctx, s.agent, workload)
			}
			if err != nil {
				return nil, err
			}
			failed = why
		}
		if failed != "" {
			r.Error = &failed
		}
		results[s.agent] = r
		steps = append(steps, r)
	}
	return pipelineResult(name, steps)
}

// workload is what a step of a pipeline works on (N17): its own, what its
// transform makes, or the outputs of what it depends on.
func (h *host) workload(t *python.Thread, s stage, results map[string]reply) (raw json.RawMessage, why string, err error) {
	if s.transform != nil && len(s.dependsOn) > 0 {
		output, err := python.FromJSON(results[s.dependsOn[0]].Output)
		if err != nil {
			output = python.NewDict()
		}
		made, err := t.Call(s.transform, output)
		if raised, ok := err.(*python.Raised); ok {
			text, _ := t.Str(raised.Value)
			return nil, "Transform failed: " + text, nil
		}
		if err != nil {
			return nil, "", err
		}
		raw, err := t.ToJSON(made)
		return raw, "", err
	}
	raw, err = t.ToJSON(s.workload)
	if err != nil || h.set.SDK || len(s.dependsOn) == 0 {
		return raw, "", err
	}
	object := map[string]json.RawMessage{}
	if s.workload != nil {
		if json.Unmarshal(raw, &object) != nil {
			return raw, "", nil
		}
	}
	previous := map[string]json.RawMessage{}
	for _, dep := range s.dependsOn {
		if r, ok := results[dep]; ok {
			previous[dep] = r.Output
		}
	}
	if _, own := object["previous"]; !own {
		object["previous"] = step.JSON(previous)
	}
	return step.JSON(object), "", nil
}

// pipelineResult is what run() returns.
func pipelineResult(name string, steps []reply) (python.Value, error) {
	list, recommendations := &python.List{}, &python.List{}
	rules := map[string]bool{}
	succeeded, total := int64(0), 0.0
	for _, r := range steps {
		o, err := r.object()
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, o)
		total += r.Duration
		if !r.Success {
			continue
		}
		succeeded++
		output, ok := o.Attrs["output"].(*python.Dict)
		if !ok {
			continue
		}
		if v, _ := output.Get("recommendations"); v != nil {
			if more, ok := v.(*python.List); ok {
				recommendations.Items = append(recommendations.Items, more.Items...)
			}
		}
		if v, _ := output.Get("rules_applied"); v != nil {
			if more, ok := v.(*python.List); ok {
				for _, one := range more.Items {
					if text, ok := one.(string); ok {
						rules[text] = true
					}
				}
			}
		}
	}
	applied := &python.List{}
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		applied.Items = append(applied.Items, rule)
	}
	return &python.Object{Type: "PipelineResult", Attrs: map[string]python.Value{
		"name": name, "total_steps": int64(len(steps)), "succeeded": succeeded, "failed": int64(len(steps)) - succeeded,
		"total_duration_ms": math.Round(total*10) / 10, "steps": list,
		"aggregated_recommendations": recommendations, "aggregated_rules": applied,
	}}, nil
}
