package schedule

// Overlap says what a schedule does when the previous run is not over. A run
// that waits for a person is not over.
type Overlap string

// The overlap policies.
const (
	// Skip drops the firing.
	Skip Overlap = "skip"
	// QueueOne starts the run after the previous one, and drops further firings
	// until then.
	QueueOne Overlap = "queue-one"
	// QueueAll starts one run after the other, up to a limit.
	QueueAll Overlap = "queue-all"
	// CancelOld cancels the previous run and starts the new one.
	CancelOld Overlap = "cancel-old"
	// Allow starts the run beside the previous one.
	Allow Overlap = "allow"
)

// Overlaps lists the overlap policies; the first is the default.
var Overlaps = []Overlap{Skip, QueueOne, QueueAll, CancelOld, Allow}
