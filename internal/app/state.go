package app

import "github.com/espalier-run/espalier/internal/journal"

// State is the state of a run. It follows from the status in the index and from whether a process drives the run.
type State string

// The states of runs.
const (
	StateQueued      State = "queued"      // a message or the start is recorded, and no process drives it yet
	StateRunning     State = "running"     // a process drives it
	StateWaiting     State = "waiting"     // for a person or an event
	StateSleeping    State = "sleeping"    // until a timer fires
	StatePaused      State = "paused"      // by a person
	StateInterrupted State = "interrupted" // its process has ended; it can be resumed
	StateBudget      State = "budget"      // a limit has been reached
	StateUnknown     State = "unknown"     // the outcome of a step is unknown
	StateFinished    State = "finished"    // see the outcome
)

// State returns what the run is doing.
func (r *Run) State() State {
	switch {
	case r.Status == journal.Exceeded:
		return StateBudget
	case r.Status == journal.Waiting && r.InDoubt():
		return StateUnknown
	case r.Status != journal.Running:
		return State(r.Status) // they have the same name
	case r.Queued, r.Idle && r.Queue != nil && r.Queue.Provider == "":
		return StateQueued
	case r.Idle:
		return StateInterrupted
	}
	return StateRunning
}

// Status returns the status of the runs in a state.
func (s State) Status() journal.Status {
	switch s {
	case StateQueued, StateInterrupted:
		return journal.Running
	case StateUnknown:
		return journal.Waiting
	case StateBudget:
		return journal.Exceeded
	}
	return journal.Status(s)
}
