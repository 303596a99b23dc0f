package check

import "github.com/espalier-run/espalier/internal/diag"

// Diagnostic codes of this package.
const (
	CodeUnreachable    diag.Code = "WF001" // an unreachable step
	CodeNeverWritten   diag.Code = "WF002" // a value that is read but never written
	CodeWrittenLater   diag.Code = "WF003" // a value that is written only after it is read
	CodeMaybeMissing   diag.Code = "WF004" // a value that may not be written before it is read
	CodeNoSuchInput    diag.Code = "WF005" // an input that the schema does not declare
	CodeNoSuchName     diag.Code = "WF006" // a condition on a name that does not exist
	CodeNeverHolds     diag.Code = "WF007" // a condition that is never true
	CodeNoDefault      diag.Code = "WF008" // a decision without a path for some value
	CodeEndless        diag.Code = "WF009" // a repetition without an end
	CodeOnlyCap        diag.Code = "WF010" // a repetition that only the engine's cap ends
	CodeFallbackCycle  diag.Code = "WF011" // fallbacks that form a cycle
	CodeNoAgent        diag.Code = "WF012" // an agent that does not exist
	CodeUnusedAgent    diag.Code = "WF013" // an agent that no step uses
	CodeToolRefused    diag.Code = "WF014" // a tool that the workflow's own lists deny
	CodeWorkerTools    diag.Code = "WF015" // a worker whose tools are not available
	CodeSchedule       diag.Code = "WF016" // a schedule that is invalid or never fires
	CodeTimezone       diag.Code = "WF017" // an unknown time zone
	CodeVersion        diag.Code = "WF018" // a version that is not X.Y.Z
	CodeSchema         diag.Code = "WF019" // an invalid JSON Schema
	CodeBudgetShare    diag.Code = "WF020" // a branch with a larger budget than the run
	CodeCannotFinish   diag.Code = "WF021" // a budget that no path fits
	CodeChildInput     diag.Code = "WF022" // a call of a child workflow without a required input
	CodeNoOutput       diag.Code = "WF023" // a declared output that no step writes
	CodeDoubtfulSchema diag.Code = "WF024" // a JSON Schema that is valid but probably not what was intended
	CodeGivenNothing   diag.Code = "WF025" // a step whose agent receives no data
	// CodeConflictingUses reports a reply that later steps use as two types.
	CodeConflictingUses diag.Code = "WF026"
	// CodeNeverReplied reports a comparison that no reply can satisfy.
	CodeNeverReplied diag.Code = "WF027"
	// CodeTooLarge reports a workflow whose checks would take too long.
	CodeTooLarge diag.Code = "WF028"
	// CodeBranchNoOutput reports a branch that ends without a required output.
	CodeBranchNoOutput diag.Code = "WF029"
)
