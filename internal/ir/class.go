package ir

// Class is the class of an error. Retries select on it and records show it. The set is open: a
// workflow can end with a class of its own.
type Class string

// The classes of errors of tasks. Steps, tools and models share them.
const (
	ClassTimeout    Class = "TIMEOUT"
	ClassBudget     Class = "BUDGET"
	ClassInvalid    Class = "INVALID_OUTPUT"
	ClassInput      Class = "INVALID_INPUT"
	ClassCommand    Class = "COMMAND_FAILED"
	ClassTool       Class = "TOOL_ERROR"
	ClassAPI        Class = "API_ERROR" // the model's provider failed
	ClassRateLimit  Class = "RATE_LIMIT"
	ClassBadRequest Class = "BAD_REQUEST" // the provider rejects the request; a retry does not help
	ClassNoQuota    Class = "NO_QUOTA"
	ClassDenied     Class = "NOT_ALLOWED"
	ClassMissing    Class = "NOT_READY"      // a dependency of the step is missing
	ClassMerge      Class = "MERGE_CONFLICT" // branches contradict each other
	ClassInternal   Class = "INTERNAL"       // a defect in Espalier
	ClassChanged    Class = "CHANGED"        // the calls of a task differ from those of an earlier execution
	ClassOther      Class = "ERROR"          // an error without a class
)

// The classes of errors of control flow.
const (
	ClassCondition      Class = "CONDITION" // an expression could not be evaluated
	ClassLoopLimit      Class = "LOOP_LIMIT"
	ClassEnded          Class = "ENDED"    // the workflow ended at a step that its author marked as a failure
	ClassOutcomeUnknown Class = "IN_DOUBT" // a person decided that a lost task failed
)
