package app

import (
	"context"
	"slices"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// State returns what the run is doing.
func (r *Run) State() journal.State {
	switch {
	case r.Status == journal.Exceeded:
		return journal.StateBudget
	case r.Status == journal.Waiting && r.OutcomeUnknown():
		return journal.StateUnknown
	case r.Status != journal.Running:
		return journal.State(r.Status) // they have the same name
	case r.Queued, r.Idle && r.Queue != nil && r.Queue.Provider == "":
		return journal.StateQueued
	case r.Idle:
		return journal.StateInterrupted
	}
	return journal.StateRunning
}

// StateFilter selects runs in lists: by their State, by their outcome, which is a journal.Outcome, or Unfinished. The
// empty one selects all.
type StateFilter string

// Unfinished selects the runs that are not over.
const Unfinished StateFilter = "unfinished"

// StateFilters are all filters: what runs do, and how they ended.
var StateFilters = slices.Concat(
	xslices.Map(journal.RunStates, func(s journal.State) StateFilter { return StateFilter(s) }),
	xslices.Map(journal.RunOutcomes, func(o journal.Outcome) StateFilter { return StateFilter(o) }),
	[]StateFilter{Unfinished},
)

// Outcome returns the outcome that s selects; empty if it selects none.
func (s StateFilter) Outcome() journal.Outcome {
	if o := journal.Outcome(s); slices.Contains(journal.RunOutcomes, o) {
		return o
	}
	return ""
}

// Narrow restricts f to the runs that s selects, as far as the index of the store knows them: it does not know whether
// a process drives a run, or whether the outcome of a step is unknown. Includes decides about those runs.
func (s StateFilter) Narrow(f Filter) Filter {
	switch outcome := s.Outcome(); {
	case s == "":
	case s == Unfinished:
		f.Unfinished = true
	case outcome != "":
		f.Status, f.Outcome = journal.Finished, outcome
	default:
		f.Status = journal.State(s).Status()
	}
	return f
}

// Includes reports whether s selects a run in a state. The run is one of those that Narrow leaves.
func (s StateFilter) Includes(state journal.State) bool {
	return !s.beyondIndex() || state == journal.State(s)
}

// beyondIndex reports whether the index has runs in other states under the same status.
func (s StateFilter) beyondIndex() bool {
	switch journal.State(s) {
	case journal.StateRunning, journal.StateQueued, journal.StateInterrupted, journal.StateWaiting,
		journal.StateUnknown:
		return true
	}
	return false
}

// RunsIn lists the runs that s and f select, the newest first.
func (a *App) RunsIn(ctx context.Context, s StateFilter, f Filter) ([]Run, error) {
	f = s.Narrow(f)
	if !s.beyondIndex() {
		return a.Runs(ctx, f)
	}
	list, limit := []Run{}, f.Limit
	f.Limit = max(limit, minPage)
	for {
		page, err := a.Runs(ctx, f)
		if err != nil {
			return nil, err
		}
		last := len(page) < f.Limit
		if !last {
			f.Before = page[len(page)-1].ID
		}
		list = append(list, slices.DeleteFunc(page, func(r Run) bool { return !s.Includes(r.State()) })...)
		if limit > 0 && len(list) >= limit {
			return list[:limit], nil
		}
		if last {
			return list, nil
		}
	}
}

// minPage is how many runs are read at least at once if some of them are not selected.
const minPage = 100
