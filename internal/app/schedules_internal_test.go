package app

import (
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/ir"
)

// A server keeps the time of a schedule, except for firings that are queued or delayed, and while clocks change.
func TestServerKeepsTheTimeExceptSoon(t *testing.T) {
	d := &workflowTrigger{spec: ir.Trigger{Kind: ir.OnSchedule, Schedule: "30 2 * * *", Timezone: "Europe/Berlin"}}
	slow := *d
	slow.settings = config.Trigger{Jitter: 30 * time.Minute}
	due := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC) // for the first time; clocks change half an hour later
	for _, c := range []struct {
		name      string
		d         *workflowTrigger
		wake, now time.Time
		want      bool
	}{
		{"never", d, time.Time{}, due, false},
		{"in a day", d, due.AddDate(0, -1, 1), due.AddDate(0, -1, 0), false},
		{"queued", d, due.AddDate(0, -1, 0).Add(queuePoll), due.AddDate(0, -1, 0), true},
		{"delayed", &slow, due.AddDate(0, -1, 0).Add(20 * time.Minute), due.AddDate(0, -1, 0), true},
		{"when the hours of the change start", d, due, due.Add(-150 * time.Minute), true},
		{"before these hours", d, due, due.Add(-151 * time.Minute), false},
		{"after the change", d, due.Add(25 * time.Hour), due, false},
	} {
		if got := c.d.rechecksHere(c.wake, c.now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
