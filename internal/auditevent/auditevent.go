// Package auditevent has the names of the events in audit logs. Workflows choose events by name, so that formats and
// the writer of audit logs share them.
package auditevent

// The events of the specification.
const (
	RunStart     = "run_start"
	StepStart    = "step_start"
	StepOutput   = "step_output"
	StepComplete = "step_complete"
	StepSkipped  = "step_skipped"
	GateDecision = "gate_decision"
	BudgetCheck  = "budget_check"
	RunComplete  = "run_complete"
	RunFailed    = "run_failed"
)

// Further events: those that the specification requires without naming them, and others that auditors need.
const (
	CheckpointSaved       = "checkpoint_saved"
	RunSuspended          = "run_suspended"
	RunResumed            = "run_resumed"
	WaitpointTimeout      = "waitpoint_timeout"
	MergeConflict         = "merge_conflict"
	StepRetry             = "step_retry"
	GateOpened            = "gate_opened"
	GateApproval          = "gate_approval"
	GateEscalated         = "gate_escalated"
	WaitpointOpened       = "waitpoint_opened"
	WaitpointPassed       = "waitpoint_passed"
	UnknownOutcomeOpened  = "doubt_opened"
	UnknownOutcomeDecided = "doubt_decided"
	SignalReceived        = "signal_received"
	InputRefused          = "input_refused"
	MergeDuplicate        = "merge_duplicate"
	WorkerSkipped         = "worker_skipped"
	StepLost              = "step_lost"
	ModelCall             = "model_call"
	ModelError            = "model_error"
	ToolCall              = "tool_call"
	CommandRun            = "command_run"
	BudgetWait            = "budget_wait"
	BudgetRefused         = "budget_refused"
	BudgetRaised          = "budget_raised"
	DeadlineReached       = "deadline_reached"
	RunPaused             = "run_paused"
	RunContinued          = "run_continued"
	StateEdited           = "state_edited"
	RunRewound            = "run_rewound"
	CancelRequested       = "cancel_requested"
)

// All are the names of all events, those of the specification first.
var All = []string{
	RunStart, StepStart, StepOutput, StepComplete, StepSkipped, GateDecision, BudgetCheck, RunComplete, RunFailed,
	CheckpointSaved, RunSuspended, RunResumed, WaitpointTimeout, MergeConflict, StepRetry, GateOpened, GateApproval,
	GateEscalated, WaitpointOpened, WaitpointPassed, UnknownOutcomeOpened, UnknownOutcomeDecided,
	SignalReceived, InputRefused,
	MergeDuplicate, WorkerSkipped, StepLost, ModelCall, ModelError, ToolCall, CommandRun, BudgetWait, BudgetRefused,
	BudgetRaised, DeadlineReached, RunPaused, RunContinued, StateEdited, RunRewound, CancelRequested,
}

// IsStandard reports whether an event is written at every audit level.
func IsStandard(event string) bool {
	switch event {
	case RunStart, StepStart, StepOutput, StepComplete, StepSkipped, GateDecision, BudgetCheck, RunComplete, RunFailed,
		RunSuspended, RunResumed, CheckpointSaved, WaitpointOpened, WaitpointPassed, WaitpointTimeout, MergeConflict,
		StepRetry:
		return true
	}
	return false
}
