package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/pgtest"
)

// Schedules of a database have its time: a worker whose clock is ahead does not start runs too early.
func TestScheduleHasTheTimeOfTheDatabase(t *testing.T) {
	server := pgtest.Shared(t)
	t.Cleanup(pgtest.StopShared)
	p := newTriggered(t, map[string]string{
		"yearly.md":     fmt.Sprintf(scheduled, "yearly", "0 0 1 1 *") + answering,
		"espalier.yaml": fmt.Sprintf(simulated, "yearly", "allow"),
	})
	p.env = map[string]string{"ESPALIER_STORE": server.URL("postgres")}
	s, ahead := p.server(), p.server()
	s.at(t, &p.clock, time.Now())
	ahead.at(t, &p.clock, time.Date(time.Now().Year()+1, 1, 1, 1, 0, 0, 0, time.UTC))
	if runs := s.runs(t); len(runs) != 0 {
		t.Errorf("%d runs have started", len(runs))
	}
}
