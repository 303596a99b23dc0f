package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/python"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
)

var _ step.Runner = Kind{}

// Recovery is to do it again: finished calls are not repeated, and about an
// unfinished one its own kind is asked.
func (Kind) Recovery(*ir.Task, []journal.TaskNoted) step.Recovery { return step.Rerun }

// NotePrinted is the note of what code has printed.
const NotePrinted = "printed"

// Run runs the code.
func (k Kind) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	set, err := stepkind.Decode[Settings](job.Task)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInput, "%v", err)
	}
	if ctx.Err() != nil {
		return step.Result{}, context.Cause(ctx)
	}
	h := &host{job: job, set: set}
	state, err := stateOf(job, set)
	if err != nil {
		return step.Result{}, step.Errorf(step.ClassInput, "%v", err)
	}
	var returned python.Value
	t := python.NewThread(ctx)
	if set.Python {
		returned, err = h.child(ctx, state, k.Confine)
	} else {
		returned, t, err = h.evaluate(ctx, state)
	}
	if h.ended != nil {
		return step.Result{Notes: h.notes, Usage: h.usage}, h.ended
	}
	if err != nil {
		return step.Result{}, err
	}
	if set.Function == "" {
		return step.Result{Value: step.JSON(h.printed.String())}, nil
	}
	out, err := update(ctx, job, set, returned, t)
	if err != nil {
		return step.Result{}, h.misfit(err)
	}
	h.track(out)
	if !set.Delta {
		fill(job, set.Reducers, out)
	}
	result := step.Result{Value: step.JSON(out)}
	if h.printed.Len() > 0 {
		result.Notes = []step.Note{{Kind: NotePrinted, Data: map[string]string{"text": h.printed.String()}}}
	}
	return result, nil
}

// misfit is a function that returned something that is no update.
func (h *host) misfit(err error) error {
	var raised *python.Raised
	var limit *python.LimitError
	if errors.As(err, &raised) || errors.As(err, &limit) {
		return h.explain(err)
	}
	return step.Errorf(ClassCode, "%s: in %s: %v", h.set.File, h.set.Function, err)
}

// stateOf is the state as the function sees it: the fields that its step reads.
func stateOf(job *step.Job, set Settings) (python.Value, error) {
	state := python.NewDict()
	for _, r := range job.Reads {
		field, ok := strings.CutPrefix(r.Path, "state.")
		if !ok {
			continue
		}
		v, err := python.FromJSON(r.Value)
		if err != nil {
			return nil, fmt.Errorf("the field %q cannot be read: %w", field, err)
		}
		state.Set(field, typed(v, set.Fields[field]))
	}
	return state, nil
}

// track adds what rules read besides the state.
func (h *host) track(out map[string]json.RawMessage) {
	for _, path := range h.set.Track {
		switch {
		case path == trackCost: // N11: by the price list
			before := 0.0
			for _, r := range h.job.Reads {
				if r.Path == trackCost {
					before, _ = strconv.ParseFloat(string(r.Value), 64)
				}
			}
			micro := int64(before*1e6+0.5) + h.spent
			out[path] = json.RawMessage(strconv.FormatFloat(float64(micro)/1e6, 'f', -1, 64))
		case path == trackCycle:
			out[path] = cycle(h.job)
		case path == trackDelegates:
			out[path] = step.JSON(h.chosen())
		case strings.HasPrefix(path, trackAgent):
			value := h.last[strings.TrimPrefix(path, trackAgent)]
			if value == nil {
				value = json.RawMessage("{}")
			}
			out[path] = value
		}
	}
}

// cycle is how many passes went before: as many as a step has had visits, and
// never fewer than a step of this pass has counted. A step that the first pass
// skipped has had fewer.
func cycle(job *step.Job) json.RawMessage {
	before, _ := strconv.Atoi(string(valueOf(job, trackCycle)))
	return step.JSON(max(before, job.Visit))
}

// chosen are the agents that an orchestrator delegates to; none means all (N15).
func (h *host) chosen() []string {
	out := []string{}
	for _, raw := range h.last {
		var said struct {
			Data struct {
				Delegates []string `json:"delegates"`
			} `json:"analysis_data"`
		}
		if json.Unmarshal(raw, &said) != nil {
			continue
		}
		for _, key := range said.Data.Delegates {
			if slices.Contains(h.set.Delegates, key) && !slices.Contains(out, key) {
				out = append(out, key)
			}
		}
	}
	return out
}
