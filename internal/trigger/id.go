package trigger

import (
	"time"

	"github.com/espalier-run/espalier/internal/journal"
)

// RunID returns the id of the run that a firing starts. Equal parts give equal
// ids, and different ones give different ids.
func RunID(workflow, trigger string, cause ...string) journal.RunID {
	return journal.DeriveRunID(append([]string{"firing", workflow, trigger}, cause...)...)
}

// scheduled returns the cause of a firing at a scheduled time.
func scheduled(at time.Time) string { return at.UTC().Format(time.RFC3339) }
