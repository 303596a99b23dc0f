package node

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
)

// Runner runs tasks of kind "node".
type Runner struct {
	// Confine returns the sandbox of a python3 that may read a folder, except for some names in it; nil is
	// process.NewSandbox.
	Confine func(root string, without ...string) (*process.Sandbox, error)
}

// Name returns "node".
func (Runner) Name() string { return kinds.Node{}.Name() }

// Values that a node returns besides fields of the state and kinds.NodeDelegates.
const (
	trackCost  = "pass.cost_so_far"
	trackCycle = "pass.cycle"
	trackAgent = "agents."
)

// Recovery returns Rerun: finished calls are not repeated, and an unfinished one recovers as its own kind does.
func (Runner) Recovery(*ir.Task, []journal.TaskNoted) step.Recovery { return step.Rerun }

// NotePrinted is the note of the output of the code.
const NotePrinted = "printed"

// Run runs the code.
func (r Runner) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	set, err := stepkind.Decode[kinds.NodeSettings](job.Task)
	if err != nil {
		return step.Result{}, step.Errorf(ir.ClassInput, "%v", err)
	}
	if ctx.Err() != nil {
		return step.Result{}, context.Cause(ctx)
	}
	h := &host{job: job, set: set}
	var returned json.RawMessage
	if set.Python {
		returned, err = h.child(ctx, r.Confine)
	} else {
		returned, err = h.evaluate(ctx)
	}
	if h.ended != nil {
		return step.Result{Notes: h.notes, Usage: h.usage}, h.ended
	}
	if err != nil {
		return step.Result{}, err
	}
	if set.Function == "" {
		return step.Result{Value: step.JSON(h.printed.String()), Notes: printedNotes(h.logged.String())}, nil
	}
	out, err := update(job, set, returned)
	if err != nil {
		return step.Result{}, h.failure(err.Error(), 0, 0)
	}
	if err := h.track(out); err != nil {
		return step.Result{}, err
	}
	if !set.Delta {
		fill(job, set.Reducers, out)
	}
	return step.Result{Value: step.JSON(out), Notes: printedNotes(h.printed.String() + h.logged.String())}, nil
}

// printedNotes returns the note of the output of the code, or none if it is empty.
func printedNotes(text string) []step.Note {
	if text == "" {
		return nil
	}
	return []step.Note{{Kind: NotePrinted, Data: map[string]string{"text": text}}}
}

// track adds the values that conditions read besides the state.
func (h *host) track(out map[string]json.RawMessage) error {
	for _, path := range h.set.Track {
		switch {
		case path == trackCost: // by the price list
			before := 0.0
			for _, r := range h.job.Reads {
				if r.Path == trackCost {
					before, _ = strconv.ParseFloat(string(r.Value), 64)
				}
			}
			micro := price.MicroDollars(before) + h.spent
			out[path] = json.RawMessage(strconv.FormatFloat(float64(micro)/1e6, 'f', -1, 64))
		case path == trackCycle:
			out[path] = cycle(h.job)
		case path == kinds.NodeDelegates:
			chosen, err := h.chosen()
			if err != nil {
				return err
			}
			out[path] = chosen
		case strings.HasPrefix(path, trackAgent):
			value := h.last[strings.TrimPrefix(path, trackAgent)]
			if value == nil {
				value = json.RawMessage("{}")
			}
			out[path] = value
		}
	}
	return nil
}

// cycle returns the number of earlier passes: the number of earlier visits, but not less than a step of this
// pass has counted. A step that the first pass skipped has fewer visits.
func cycle(job *step.Job) json.RawMessage {
	before, _ := strconv.Atoi(string(valueOf(job, trackCycle)))
	return step.JSON(max(before, job.Visit))
}

// chosen returns the agents that the orchestrator delegates to: null if it does not say, which means
// all, or a list. A reply that does not meet its contract is an error, also if the code handles it.
func (h *host) chosen() (json.RawMessage, error) {
	if h.unread != nil {
		return nil, h.unread
	}
	for _, agent := range slices.Sorted(maps.Keys(h.last)) {
		var output struct {
			Data struct {
				Delegates json.RawMessage `json:"delegates"`
			} `json:"analysis_data"`
		}
		if json.Unmarshal(h.last[agent], &output) != nil || typeName(output.Data.Delegates) == "None" {
			continue
		}
		var keys []string
		if json.Unmarshal(output.Data.Delegates, &keys) != nil {
			return nil, step.Errorf(ir.ClassInvalid,
				"agent %q: analysis_data.delegates must be a list of agents, not %.60s",
				agent, output.Data.Delegates)
		}
		for _, key := range keys {
			if !slices.Contains(h.set.Delegates, key) {
				return nil, step.Errorf(ir.ClassInvalid,
					"agent %q delegates to %q, which is not one of its agents: %s",
					agent, key, strings.Join(h.set.Delegates, ", "))
			}
		}
		return output.Data.Delegates, nil
	}
	return json.RawMessage("null"), nil
}
