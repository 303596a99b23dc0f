package journaltest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
)

// Definition is a blob that runs can pin.
func Definition(text string) journal.Blob {
	sum := sha256.Sum256([]byte(text))
	return journal.Blob{Hash: hex.EncodeToString(sum[:]), Data: []byte(text)}
}

// Start is the first batch of a run.
func Start(run journal.RunID, owner journal.Owner) journal.Batch {
	return journal.Batch{
		Run: run, Fence: journal.FirstFence, Owner: owner,
		Events: []journal.Event{{Seq: 1, At: 1000, Fact: journal.RunStarted{
			Name: "demo", Format: "demo-format", Input: journal.Value{JSON: json.RawMessage(`{"n":1}`)},
		}}},
	}
}

// Steps is a batch of n events as a chain of tasks has them.
func Steps(run journal.RunID, fence int64, after journal.Seq, n int) journal.Batch {
	b := journal.Batch{Run: run, Fence: fence, After: after}
	for i := range n {
		seq := after + journal.Seq(i) + 1
		work := journal.TaskID{Place: journal.Place{Step: fmt.Sprintf("step%d", seq/2)}}
		var fact journal.Fact = journal.TaskStarted{TaskID: work, Kind: "agent"}
		if seq%2 == 1 {
			fact = journal.TaskEnded{
				TaskID: work, Outcome: "ok", Final: true,
				Value:  journal.Value{JSON: json.RawMessage(`{"answer":42}`)},
				Writes: []journal.Write{{Path: "state.answer"}},
				Usage:  journal.Usage{Steps: 1, ModelCalls: 1, InputTokens: 100, OutputTokens: 20},
			}
		}
		b.Events = append(b.Events, journal.Event{Seq: seq, At: journal.Millis(1000 + seq), Fact: fact})
	}
	return b
}

// Finish is the last batch of a run.
func Finish(run journal.RunID, fence int64, after journal.Seq) journal.Batch {
	return journal.Batch{
		Run: run, Fence: fence, After: after,
		Events: []journal.Event{{
			Seq: after + 1, At: journal.Millis(1001 + after), Fact: journal.RunFinished{Outcome: "ok"},
		}},
		Index: &journal.Index{Status: journal.Finished, Outcome: "ok"},
	}
}

// Append appends a batch that must go in.
func Append(t testing.TB, s journal.Store, b journal.Batch) {
	t.Helper()
	if err := journal.Append(context.Background(), s, b); err != nil {
		t.Fatalf("appending to %s after %d: %v", b.Run, b.After, err)
	}
}

// Events reads a stream that must be whole.
func Events(t testing.TB, s journal.Store, run journal.RunID, after journal.Seq) []journal.Event {
	t.Helper()
	var events []journal.Event
	for e, err := range s.Events(context.Background(), run, after) {
		if err != nil {
			t.Fatalf("reading %s: %v", run, err)
		}
		if want := after + journal.Seq(len(events)) + 1; e.Seq != want {
			t.Fatalf("run %s: event %d stands where %d should", run, e.Seq, want)
		}
		events = append(events, e)
	}
	return events
}

// Tail reads all appends after a place.
func Tail(t testing.TB, s journal.Store, after journal.Pos) []journal.Appended {
	t.Helper()
	var all []journal.Appended
	for a, err := range s.Tail(context.Background(), after) {
		if err != nil {
			t.Fatalf("reading the tail: %v", err)
		}
		if a.Pos <= after {
			t.Fatalf("append %d comes after %d", a.Pos, after)
		}
		after = a.Pos
		all = append(all, a)
	}
	return all
}

// Runs lists ids.
func Runs(t testing.TB, s journal.Store, f journal.Filter) []journal.RunID {
	t.Helper()
	var ids []journal.RunID
	for e, err := range s.Runs(context.Background(), f) {
		if err != nil {
			t.Fatalf("listing runs: %v", err)
		}
		ids = append(ids, e.ID)
	}
	return ids
}
