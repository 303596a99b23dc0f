package journal

// State is what a run or a step is doing, as people see it, or its outcome. That of a run follows from its status in
// the index and from whether a process drives it; that of a step follows from its facts.
type State string

// The states of runs and steps.
const (
	StatePending     State = "pending"     // the run has not reached the step
	StateQueued      State = "queued"      // a message or the start is recorded, and no process drives the run yet
	StateRunning     State = "running"     // a process drives it
	StateWaiting     State = "waiting"     // for a person or an event
	StateSleeping    State = "sleeping"    // until a timer fires
	StatePaused      State = "paused"      // by a person
	StateInterrupted State = "interrupted" // the process of the run has ended; it can be resumed
	StateBudget      State = "budget"      // a limit has been reached
	StateUnknown     State = "unknown"     // the outcome of a step is unknown
	StateFinished    State = "finished"    // see the outcome of the run
	StateOK                = State(OutcomeOK)
	StateFailed            = State(OutcomeFailed)
	StateSkipped           = State(OutcomeSkipped)
)

// RunStates are the states of runs, in the order in which commands and pages offer them.
var RunStates = []State{
	StateRunning, StateQueued, StateWaiting, StateUnknown, StateBudget, StatePaused, StateSleeping, StateInterrupted,
	StateFinished,
}

// StateAfter returns the state of a step after a fact about it; empty if the fact does not change it. The end of an
// attempt that another one follows does not.
func StateAfter(f Fact) State {
	switch x := f.(type) {
	case StepEntered, TaskStarted, Reserved:
		return StateRunning
	case RetrySet:
		return StateSleeping
	case BudgetWait:
		return StateWaiting
	case TaskLost:
		return StateUnknown
	case GateOpened:
		if x.Kind == GateOutcome {
			return StateUnknown
		}
		return StateWaiting
	case GateDecided:
		if x.Outcome == OutcomeRerun {
			return StateRunning
		}
		return State(x.Outcome)
	case TaskEnded:
		if x.Final {
			return State(x.Outcome)
		}
	case StepLeft:
		return State(x.Outcome)
	}
	return ""
}

// stateWords are the words for states on pages and in pictures.
var stateWords = map[State]string{
	StatePending: "Not reached", StateQueued: "Queued", StateRunning: "Running", StateWaiting: "Waiting",
	StateSleeping: "Sleeping", StatePaused: "Paused", StateInterrupted: "Interrupted", StateBudget: "Budget reached",
	StateUnknown: "Outcome unknown", StateOK: "Finished", StateFailed: "Failed", StateSkipped: "Skipped",
	State(OutcomeEnd): "Finished", State(OutcomeRejected): "Rejected", State(OutcomeCanceled): "Canceled",
}

// Word returns the word for the state, or the state itself if it is unknown.
func (s State) Word() string {
	if word, ok := stateWords[s]; ok {
		return word
	}
	return string(s)
}

// Status returns the status in the index of the runs in the state.
func (s State) Status() Status {
	switch s {
	case StateQueued, StateInterrupted:
		return Running
	case StateUnknown:
		return Waiting
	case StateBudget:
		return Exceeded
	}
	return Status(s)
}
