package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/python"
	"github.com/espalier-run/espalier/internal/step"
)

// host is what code can do in the world: call agents.
type host struct {
	job *step.Job
	set Settings
	// last is what each agent gave in its last call, spent what all calls
	// cost by the price list.
	last    map[string]json.RawMessage
	spent   int64
	printed strings.Builder
	cut     bool // more was printed than is kept
	// ended is why the job has to end, with what belongs into its result.
	ended error
	notes []step.Note
	usage journal.Usage
}

// reply is what a call of an agent came to.
type reply struct {
	Agent    string          `json:"agent_name"`
	Success  bool            `json:"success"`
	Output   json.RawMessage `json:"output"`
	Duration float64         `json:"duration_ms"`
	Error    *string         `json:"error"`
}

// call has an agent work on a workload. An error ends the code.
func (h *host) call(ctx context.Context, key string, workload json.RawMessage) (reply, error) {
	out := reply{Agent: key, Output: json.RawMessage("{}")}
	fail := func(why string) reply {
		out.Error = &why
		return out
	}
	agent, known := h.set.Agents[key]
	if !known {
		return fail(fmt.Sprintf("Unknown agent: %s. Available: [%s]", key, quoted(h.set.Agents))), nil
	}
	if len(workload) == 0 || string(workload) == "null" { // N17: never demo data
		workload = json.RawMessage("{}")
	}
	if len(h.set.Delegates) > 0 {
		workload = withDelegates(workload, h.set.Delegates)
	}
	task := ir.Task{Kind: "worker"}
	task.Settings.Put("agent", key, h.job.Step.Span)
	if len(agent.Command) > 0 {
		task.Settings.Put("command", agent.Command, h.job.Step.Span)
	}
	done, err := h.job.Do(ctx, step.Call{Task: task, Reads: []step.Read{{Path: "workload", Value: workload}}})
	if err != nil {
		h.ended, h.notes, h.usage = err, done.Notes, done.Usage
		return out, err
	}
	h.spent += agent.MicroDollars
	out.Duration = math.Round(float64(done.Took.Microseconds())/100) / 10
	if done.Failure != nil {
		return fail(done.Failure.Message), nil
	}
	out.Success, out.Output = true, done.Value
	if h.last == nil {
		h.last = map[string]json.RawMessage{}
	}
	h.last[key] = done.Value
	return out, nil
}

func quoted(agents map[string]Agent) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(agents)) {
		out = append(out, "'"+key+"'")
	}
	return strings.Join(out, ", ")
}

// withDelegates tells an orchestrator whom there is (N15).
func withDelegates(workload json.RawMessage, delegates []string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(workload, &object) != nil || object == nil {
		return workload
	}
	if _, own := object["delegates"]; own {
		return workload
	}
	object["delegates"] = step.JSON(delegates)
	return step.JSON(object)
}

// print keeps what code prints.
func (h *host) print(text string) {
	switch {
	case h.cut:
	case h.printed.Len()+len(text) <= maxPrinted:
		h.printed.WriteString(text)
	default:
		h.cut = true
		fmt.Fprintf(&h.printed, "(more than %d MiB were printed; the rest is left out)\n", maxPrinted>>20)
	}
}

const maxPrinted = 4 << 20

// modules are what code can import.
func (h *host) modules(ctx context.Context) map[string]*python.Object {
	runner := &python.Object{Type: "AgentRunner", Attrs: map[string]python.Value{
		"run": &python.Builtin{Name: "run", Call: func(t *python.Thread, args []python.Value, named python.Named) (python.Value, error) {
			key, workload, err := runArguments(args, named)
			if err != nil {
				return nil, err
			}
			raw, err := t.ToJSON(workload)
			if err != nil {
				return nil, err
			}
			r, err := h.call(ctx, key, raw)
			if err != nil {
				return nil, err
			}
			return r.object()
		}},
	}}
	return map[string]*python.Object{
		"agents.shared.agent_sdk": {Type: "module", Text: "<module 'agents.shared.agent_sdk'>", Attrs: map[string]python.Value{
			"AgentRunner": runner, "Pipeline": &python.Builtin{Name: "Pipeline", Call: func(_ *python.Thread, args []python.Value, named python.Named) (python.Value, error) {
				return newPipeline(ctx, h, args, named)
			}},
		}},
	}
}

func runArguments(args []python.Value, named python.Named) (string, python.Value, error) {
	var key, workload python.Value
	for i, v := range args {
		switch i {
		case 0:
			key = v
		case 1:
			workload = v
		default:
			return "", nil, python.NewError("TypeError", "run() takes from 1 to 2 positional arguments but %d were given", len(args))
		}
	}
	for _, a := range named {
		switch a.Name {
		case "agent_name", "name":
			key = a.Value
		case "workload":
			workload = a.Value
		default:
			return "", nil, python.NewError("TypeError", "run() got an unexpected keyword argument '%s'", a.Name)
		}
	}
	text, ok := key.(string)
	if !ok {
		return "", nil, python.NewError("TypeError", "the name of an agent must be str, not %s", python.TypeName(key))
	}
	return text, workload, nil
}

// object is the reply as code sees it.
func (r reply) object() (*python.Object, error) {
	output, err := python.FromJSON(r.Output)
	if err != nil {
		return nil, err
	}
	o := &python.Object{Type: "StepResult", Attrs: map[string]python.Value{
		"agent_name": r.Agent, "success": r.Success, "output": output, "duration_ms": r.Duration, "error": nil,
	}}
	if r.Error != nil {
		o.Attrs["error"] = *r.Error
	}
	return o, nil
}

// evaluate runs the code in our own evaluator.
func (h *host) evaluate(ctx context.Context, state python.Value) (python.Value, *python.Thread, error) {
	t := python.NewThread(ctx)
	t.Print, t.Modules = h.print, h.modules(ctx)
	for _, b := range h.set.Code {
		m, list := python.ParseText(b.Code, b.Line)
		for _, d := range list {
			return nil, t, step.Errorf(ClassCode, "%s:%d: %s", h.set.File, m.LineOf(d.Span.Start), d.Message)
		}
		if err := t.Run(m); err != nil {
			return nil, t, h.explain(err)
		}
	}
	if h.set.Function == "" {
		return nil, t, nil
	}
	fn, ok := t.Global(h.set.Function)
	if !ok {
		return nil, t, step.Errorf(ClassCode, "there is no function %q", h.set.Function)
	}
	v, err := t.Call(fn, state)
	if err != nil {
		err = h.explain(err)
	}
	return v, t, err
}

// ClassCode is the class of failures of the code itself.
const ClassCode = "CODE_ERROR"

// explain says where code failed.
func (h *host) explain(err error) error {
	if h.ended != nil {
		return h.ended
	}
	var raised *python.Raised
	var limit *python.LimitError
	if !errors.As(err, &raised) && !errors.As(err, &limit) {
		return err
	}
	where := h.set.File
	if line := python.LineOf(err); line > 0 {
		where = fmt.Sprintf("%s:%d", where, line)
	}
	in := ""
	if h.set.Function != "" {
		in = fmt.Sprintf(" in %s:", h.set.Function)
	}
	return step.Errorf(ClassCode, "%s:%s %v", where, in, err)
}
