package console

import (
	"strings"
	"testing"
	"time"
)

func TestSimulatedResultsAreLabeled(t *testing.T) {
	n := Notice{Event: ToolFinished, Step: "send", Tool: "mail.send", Offline: "simulated"}
	if got := n.Line(Style{}); !strings.HasSuffix(got, "tool mail.send returned, simulated") {
		t.Error(got)
	}
}

func TestTimesOfAnotherDayHaveADate(t *testing.T) {
	at := Time{time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC)}
	for _, c := range []struct {
		after time.Duration
		zone  *time.Location
		want  string
	}{
		{30 * time.Minute, nil, "23:30:00"},
		{2 * time.Hour, nil, "2026-03-02 01:00"},
		{2 * time.Hour, time.FixedZone("west", -5*3600), "20:00:00"},
	} {
		s := Style{Zone: c.zone}
		if got := s.moment(Time{at.Add(c.after)}, at); got != c.want {
			t.Errorf("%v later: %s, want %s", c.after, got, c.want)
		}
	}
}
