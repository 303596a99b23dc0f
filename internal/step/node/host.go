package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
	"github.com/espalier-run/espalier/internal/xmaps"
	"github.com/espalier-run/espalier/internal/xslices"
)

// host implements what code can do outside of itself: call agents.
type host struct {
	job *step.Job
	set kinds.NodeSettings
	// last is the latest output of each agent; spent is the cost of all calls by the price list.
	last    map[string]json.RawMessage
	spent   int64
	printed output
	logged  output
	// unread is the error of the last reply of an orchestrator, if it does not meet its contract.
	unread *step.Error
	// ended is why the job must end.
	ended error
	notes []step.Note
	usage journal.Usage
}

// reply is the outcome of a call of an agent.
type reply struct {
	Agent    string          `json:"agent_name"`
	Success  bool            `json:"success"`
	Output   json.RawMessage `json:"output"`
	Duration float64         `json:"duration_ms"`
	Error    *string         `json:"error"`
}

// call runs an agent on a workload. An error ends the code.
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
	if len(workload) == 0 || string(workload) == "null" { // never demo data
		workload = json.RawMessage("{}")
	}
	if len(h.set.Delegates) > 0 {
		workload = withDelegates(workload, h.set.Delegates)
	}
	task := h.set.Worker(key, h.job.Step.Span)
	done, err := h.job.Do(ctx, step.Call{Task: task, Reads: []step.Read{{Path: "workload", Value: workload}}})
	if err != nil {
		h.ended, h.notes, h.usage = err, done.Notes, done.Usage
		return out, err
	}
	h.spent += agent.MicroDollars
	out.Duration = math.Round(float64(done.Took.Microseconds())/100) / 10
	h.unread = nil
	if done.Failure != nil {
		if len(h.set.Delegates) > 0 && done.Failure.Class == ir.ClassInvalid {
			h.unread = done.Failure
		}
		return fail(done.Failure.Message), nil
	}
	out.Success, out.Output = true, done.Value
	xmaps.Set(&h.last, key, done.Value)
	return out, nil
}

func quoted(agents map[string]kinds.NodeAgent) string {
	out := xslices.Map(slices.Sorted(maps.Keys(agents)), func(key string) string { return "'" + key + "'" })
	return strings.Join(out, ", ")
}

// withDelegates adds the agents that an orchestrator can delegate to.
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

// output collects what code prints, up to a limit.
type output struct {
	strings.Builder
	cut bool // more was printed than is kept
}

func (o *output) add(text string) {
	switch {
	case o.cut:
	case o.Len()+len(text) <= maxPrinted:
		o.WriteString(text)
	default:
		o.cut = true
		o.WriteString(strings.ToValidUTF8(text[:maxPrinted-o.Len()], ""))
		fmt.Fprintf(o, "(more than %d MiB were printed; the rest is left out)\n", maxPrinted>>20)
	}
}

const maxPrinted = 4 << 20

// name returns the name of the code in messages.
func (h *host) name() string { return cmp.Or(h.set.Function, "the Execution block") }

// state returns the state as the function sees it: the fields that its step reads.
func (h *host) state() map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, r := range h.job.Reads {
		if field, ok := strings.CutPrefix(r.Path, "state."); ok {
			out[field] = r.Value
		}
	}
	return out
}
