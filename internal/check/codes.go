package check

import "github.com/espalier-run/espalier/internal/diag"

// The codes of this package.
const (
	CodeUnreachable    diag.Code = "WF001" // a step that nothing leads to
	CodeNeverWritten   diag.Code = "WF002" // a read that nothing writes
	CodeWrittenLater   diag.Code = "WF003" // a read that is written only afterwards
	CodeMaybeMissing   diag.Code = "WF004" // a read that may not have been written
	CodeNoSuchInput    diag.Code = "WF005" // an input that the schema does not declare
	CodeNoSuchName     diag.Code = "WF006" // a condition on a name that does not exist
	CodeNeverHolds     diag.Code = "WF007" // a condition that can never hold
	CodeNoDefault      diag.Code = "WF008" // a decision that some value has no way out of
	CodeEndless        diag.Code = "WF009" // a repetition that nothing ends
	CodeOnlyCap        diag.Code = "WF010" // a repetition that only the engine's cap bounds
	CodeFallbackCycle  diag.Code = "WF011" // steps that stand in for each other in a circle
	CodeNoAgent        diag.Code = "WF012" // an agent that does not exist
	CodeUnusedAgent    diag.Code = "WF013" // an agent that nobody asks
	CodeToolRefused    diag.Code = "WF014" // a tool that the workflow itself does not allow
	CodeWorkerTools    diag.Code = "WF015" // a worker that will not get its tools
	CodeSchedule       diag.Code = "WF016" // a schedule that cannot be read or never fires
	CodeTimezone       diag.Code = "WF017" // a time zone that does not exist
	CodeVersion        diag.Code = "WF018" // a version that is not X.Y.Z
	CodeSchema         diag.Code = "WF019" // a JSON Schema that is not one
	CodeBudgetShare    diag.Code = "WF020" // a part with a larger budget than the whole
	CodeCannotFinish   diag.Code = "WF021" // no way through fits the budget
	CodeChildInput     diag.Code = "WF022" // a child workflow that lacks an input
	CodeNoOutput       diag.Code = "WF023" // a promised output that nothing writes
	CodeDoubtfulSchema diag.Code = "WF024" // a JSON Schema that probably says something else than was meant
	CodeGivenNothing   diag.Code = "WF025" // work for an agent that is given nothing
	// CodeConflictingUses is a reply that later steps use as two types.
	CodeConflictingUses diag.Code = "WF026"
	// CodeNeverReplied is a comparison that no reply can make true.
	CodeNeverReplied diag.Code = "WF027"
)
