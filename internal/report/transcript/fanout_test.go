package transcript_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/report/transcript"
)

// A subscriber that does not read loses the newest events, and Publish does not
// wait for it.
func TestSlowSubscriberLosesNewestEvents(t *testing.T) {
	var log bytes.Buffer
	now := time.Unix(1000, 0)
	f := transcript.NewFanOut(slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	stalled, quick := f.Subscribe(""), f.Subscribe("r")
	const n = 1000
	for i := range n {
		if i == 600 {
			now = now.Add(999 * time.Millisecond)
		}
		if i == 900 {
			now = now.Add(time.Millisecond)
		}
		f.Publish(transcript.Event{Seq: int64(i + 1), RunID: "r"})
		if e := <-quick.C; e.Seq != int64(i+1) {
			t.Fatalf("%d after %d", e.Seq, i)
		}
	}
	f.Publish(transcript.Event{RunID: "another"})
	stats := f.Stats()
	if len(stats) != 2 || stats[0].Dropped != n+1-transcript.Buffer || stats[0].Sent != transcript.Buffer ||
		stats[0].Waiting != transcript.Buffer {
		t.Errorf("%+v", stats)
	}
	if stats[1].Dropped != 0 || stats[1].Sent != n || stats[1].Run != "r" {
		t.Errorf("%+v", stats)
	}
	if warned := strings.Count(log.String(), "level=WARN"); warned != 2 {
		t.Errorf("%d warnings in little more than a second:\n%s", warned, log.String())
	}
	stalled.Close()
	stalled.Close()
	var last int64
	for e := range stalled.C {
		if e.Seq != last+1 {
			t.Fatalf("%d after %d", e.Seq, last)
		}
		last = e.Seq
	}
	if last != transcript.Buffer {
		t.Errorf("the oldest are kept, up to %d", last)
	}
	f.Close()
	f.Close()
	quick.Close()
	if _, open := <-f.Subscribe("").C; open {
		t.Error("a subscription to what is closed is closed")
	}
	f.Publish(transcript.Event{}) // has no effect
}

// For the race detector.
func TestSubscribersComeAndGo(t *testing.T) {
	f := transcript.NewFanOut(quiet(), time.Now)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				s := f.Subscribe("")
				f.Publish(transcript.Event{RunID: "r"})
				f.Stats()
				<-s.C
				s.Close()
			}
		})
	}
	all.Wait()
	f.Close()
}
