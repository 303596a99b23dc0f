package app

import (
	"context"

	"github.com/espalier-run/espalier/internal/journal"
)

// Asks returns what the run asks for: its open gates, and the budget that it waits for. A gate for a budget has its
// kind alone; Exhausted returns the rest.
func (s *Status) Asks() []Gate {
	if s.State() != journal.StateBudget {
		return s.Gates
	}
	return append(s.Gates[:len(s.Gates):len(s.Gates)], Gate{Kind: journal.AskBudget})
}

// MayDecide reports whether a person with these approver roles can decide a gate that people approve or reject. It only
// tells what to offer: Send checks the decision itself.
func (g *Gate) MayDecide(by journal.Actor, roles []string) bool {
	return len(roles) > 0 && g.Approvers.Check(g.Step, by, roles) == nil
}

// maxInboxReads is how many runs Inbox reads at most for one page.
const maxInboxReads = 1000

// Inbox lists the runs that ask for something, at most limit of them, the newest before a run first. more is the run
// before which there can be others; empty if there are none. Almost every unfinished run is read, because a run can ask
// in one branch while another one works. So a page can have fewer runs, or none, and still not be the last one.
func (a *App) Inbox(ctx context.Context, before journal.RunID, limit int) (
	list []*Status, more journal.RunID, err error,
) {
	return a.inbox(ctx, before, limit, maxInboxReads)
}

// inbox is Inbox, and reads at most maxReads runs.
func (a *App) inbox(ctx context.Context, before journal.RunID, limit, maxReads int) (
	list []*Status, more journal.RunID, err error,
) {
	for reads := 0; ; {
		entries, err := a.entries(ctx, Filter{Unfinished: true, Before: before, Limit: maxReads + 1})
		if err != nil {
			return nil, "", err
		}
		for _, e := range entries {
			if len(list) == limit || reads == maxReads {
				return list, before, nil
			}
			before = e.ID
			if onlyRetries(&e) {
				continue
			}
			reads++
			s, err := a.Status(ctx, e.ID)
			if known := AsError(err); known != nil && known.Reason == NoRun {
				continue // it was removed meanwhile
			}
			if err != nil {
				return nil, "", err
			}
			if len(s.Asks()) > 0 {
				list = append(list, s)
			}
		}
		if len(entries) <= maxReads {
			return list, "", nil
		}
	}
}

// onlyRetries reports whether all that a run waits for is the time of a retry, as the index has it. It asks nothing.
func onlyRetries(e *journal.Entry) bool {
	return e.Status == journal.Sleeping && e.Waiting.Kind == journal.WaitRetry && e.Waiting.More == 0
}

// entries returns what Entries yields. It is complete before the first of the runs is read, so that reading them needs
// no second connection to the store.
func (a *App) entries(ctx context.Context, f Filter) (list []journal.Entry, err error) {
	for e, err := range a.Entries(ctx, f) {
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// Limits of CountAsks: runs of each status, and runs that it reads. The index knows of most runs what they wait for.
const (
	maxCounted      = 100
	maxCountedReads = 20
)

// askingStatuses are the statuses of runs that can ask for something. A run can ask in one branch while another one
// works or sleeps.
var askingStatuses = []journal.Status{
	journal.Waiting, journal.Exceeded, journal.PausedAt, journal.Sleeping, journal.Running,
}

// CountAsks counts what waits for people, without the events that programs send. It reads little more than the index,
// so that each page can show the number: a project in which very much waits has a number that is too small.
func (a *App) CountAsks(ctx context.Context) (n int, err error) {
	read := 0
	for _, status := range askingStatuses {
		entries, err := a.entries(ctx, Filter{Status: status, Limit: maxCounted})
		if err != nil {
			return n, err
		}
		for _, e := range entries {
			switch {
			// The engine continues these by itself.
			case e.Waiting.Kind == journal.WaitRetry || e.Waiting.Kind == journal.WaitContinue:
			// The index has one wait of a run. That it is the only one, and not an event, which can come from a
			// program, is known without reading the run. A running run can ask in one branch while another works.
			case e.Waiting.Kind != journal.WaitEvent && status != journal.Running && e.Waiting.More == 0:
				n++
			// An event can also be a reply that a person gives, and several waits have to be told apart: read the run.
			case read < maxCountedReads:
				read++
				s, err := a.Status(ctx, e.ID)
				if err != nil {
					continue // the run itself reports the error
				}
				for _, g := range s.Asks() {
					if g.Kind != journal.AskEvent {
						n++
					}
				}
			}
		}
	}
	return n, nil
}
