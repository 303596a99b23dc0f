package audit

import (
	"encoding/json"
	"time"
)

// Format is the format of the records, named in the first one of each file.
const Format = "espalier.audit.v1"

// Members that logs of the first release do not have.
const (
	actorMethod = "actor_method" // how a server has established the actor
	confinement = "confinement"  // how the commands of a run are confined
)

// addedFields are the members that a comparison must not expect in an older log.
var addedFields = []string{actorMethod, confinement}

// Ext is the suffix of file names, after the run's id.
const Ext = ".audit.ndjson"

// Events of the specification.
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

// Further events: those that the specification requires without naming them
// (F29), and others that auditors need.
const (
	CheckpointSaved  = "checkpoint_saved"
	RunSuspended     = "run_suspended"
	RunResumed       = "run_resumed"
	WaitpointTimeout = "waitpoint_timeout"
	MergeConflict    = "merge_conflict"
	StepRetry        = "step_retry"
	GateOpened       = "gate_opened"
	GateApproval     = "gate_approval"
	GateEscalated    = "gate_escalated"
	WaitpointOpened  = "waitpoint_opened"
	WaitpointPassed  = "waitpoint_passed"
	DoubtOpened      = "doubt_opened"
	DoubtDecided     = "doubt_decided"
	SignalReceived   = "signal_received"
	InputRefused     = "input_refused"
	MergeDuplicate   = "merge_duplicate"
	WorkerSkipped    = "worker_skipped"
	StepLost         = "step_lost"
	ModelCall        = "model_call"
	ModelError       = "model_error"
	ToolCall         = "tool_call"
	CommandRun       = "command_run"
	BudgetWait       = "budget_wait"
	BudgetRefused    = "budget_refused"
	BudgetRaised     = "budget_raised"
	DeadlineReached  = "deadline_reached"
	RunPaused        = "run_paused"
	RunContinued     = "run_continued"
	StateEdited      = "state_edited"
	RunRewound       = "run_rewound"
	CancelRequested  = "cancel_requested"
)

// standard are the events that are written at every audit level.
var standard = map[string]bool{
	RunStart: true, StepStart: true, StepOutput: true, StepComplete: true, StepSkipped: true, GateDecision: true,
	BudgetCheck: true, RunComplete: true, RunFailed: true, RunSuspended: true, RunResumed: true, CheckpointSaved: true,
	WaitpointOpened: true, WaitpointPassed: true, WaitpointTimeout: true, MergeConflict: true, StepRetry: true,
}

// Record is one line of an audit log.
type Record struct {
	Seq         int64           `json:"seq"`
	RunID       string          `json:"run_id"`
	TraceID     string          `json:"trace_id"`
	ParentRunID string          `json:"parent_run_id,omitempty"`
	StepID      string          `json:"step_id,omitempty"`
	Event       string          `json:"event"`
	Timestamp   time.Time       `json:"timestamp"`
	Data        json.RawMessage `json:"data"`
	PrevHash    string          `json:"prev_hash"`
}

// Genesis is the prev_hash of the first record.
const Genesis = "0000000000000000000000000000000000000000000000000000000000000000"
