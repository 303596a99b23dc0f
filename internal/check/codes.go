package check

import "github.com/espalier-run/espalier/internal/diag"

// The codes of this package.
const (
	CodeDuplicate     diag.Code = "WF001" // two things of one kind have one name
	CodeNoTarget      diag.Code = "WF002" // a way on leads to a step that does not exist
	CodeUnreachable   diag.Code = "WF003" // a step that nothing leads to
	CodeNeverWritten  diag.Code = "WF004" // a read that nothing writes
	CodeWrittenLater  diag.Code = "WF005" // a read that is written only afterwards
	CodeMaybeMissing  diag.Code = "WF006" // a read that may not have been written
	CodeNoSuchInput   diag.Code = "WF007" // an input that the schema does not declare
	CodeReadOnly      diag.Code = "WF008" // a write to something that is only read
	CodeNoSuchName    diag.Code = "WF009" // a condition on a name that does not exist
	CodeNeverHolds    diag.Code = "WF010" // a condition that can never hold
	CodeNoDefault     diag.Code = "WF011" // a decision that some value has no way out of
	CodeEndless       diag.Code = "WF012" // a repetition that nothing ends
	CodeOnlyCap       diag.Code = "WF013" // a repetition that only the engine's cap bounds
	CodeFallbackCycle diag.Code = "WF014" // steps that stand in for each other in a circle
	CodeNoAgent       diag.Code = "WF015" // an agent that does not exist
	CodeUnusedAgent   diag.Code = "WF016" // an agent that nobody asks
	CodeToolRefused   diag.Code = "WF017" // a tool that the workflow itself does not allow
	CodeWorkerTools   diag.Code = "WF018" // a worker that will not get its tools
	CodeNoBranches    diag.Code = "WF019" // a fan-out to nobody
	CodeNoDecision    diag.Code = "WF020" // a gate that cannot be settled as it says
	CodeSchedule      diag.Code = "WF021" // a schedule that cannot be read or never fires
	CodeTimezone      diag.Code = "WF022" // a time zone that does not exist
	CodeVersion       diag.Code = "WF023" // a version that is not X.Y.Z
	CodeSchema        diag.Code = "WF024" // a JSON Schema that is not one
	CodeBudgetShare   diag.Code = "WF025" // a part with a larger budget than the whole
	CodeCannotFinish  diag.Code = "WF026" // no way through fits the budget
	CodeChildInput    diag.Code = "WF027" // a child workflow that lacks an input
	CodeNoOutput      diag.Code = "WF028" // a promised output that nothing writes
)
