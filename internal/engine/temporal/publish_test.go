package temporal

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
)

// lines returns events from 2 on, as the journal encodes them.
func lines(t *testing.T, reasons ...string) string {
	t.Helper()
	var events []journal.Event
	for i, reason := range reasons {
		events = append(events, journal.Event{
			Seq: journal.Seq(i) + 2, At: 1, Fact: journal.CancelRequested{Reason: reason},
		})
	}
	raw, err := journal.Encode(nil, events)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func newRun(t *testing.T) journal.Store {
	t.Helper()
	store := memorytest.New()
	t.Cleanup(func() { store.Close() })
	if err := journal.Append(t.Context(), store, journal.Batch{
		Run: "run", Fence: journal.FirstFence, Owner: journal.Temporal,
		Events: []journal.Event{{Seq: 1, At: 1, Fact: journal.RunStarted{Name: "demo"}}},
	}); err != nil {
		t.Fatal(err)
	}
	return store
}

func reasons(t *testing.T, store journal.Store) string {
	t.Helper()
	var out []string
	for event, err := range store.Events(t.Context(), "run", 1) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, event.Fact.(journal.CancelRequested).Reason)
	}
	return strings.Join(out, " ")
}

// Workers append the same facts in any order, again, overlapping and at the same
// time; the journal has each once.
func TestFactsAreAppendedOnce(t *testing.T) {
	store := newRun(t)
	running := journal.Index{Status: journal.Running}
	parts := []*facts{
		{Run: "run", After: 1, Lines: lines(t, "a"), Index: running},
		{Run: "run", After: 1, Lines: lines(t, "a", "b", "c"), Index: running},
		{Run: "run", After: 1, Lines: lines(t, "a", "b"), Index: running},
	}
	var all sync.WaitGroup
	for range 20 {
		for _, f := range parts {
			all.Go(func() {
				if err := appendFacts(t.Context(), store, f, unlogged); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if got := reasons(t, store); got != "a b c" {
		t.Errorf("the journal has %s", got)
	}
}

// Facts that differ from the journal's are an error, and change nothing.
func TestOtherFactsAreNotAppended(t *testing.T) {
	store := newRun(t)
	first := &facts{Run: "run", After: 1, Lines: lines(t, "a", "b"), Index: journal.Index{Status: journal.Running}}
	if err := appendFacts(t.Context(), store, first, unlogged); err != nil {
		t.Fatal(err)
	}
	other := &facts{Run: "run", After: 1, Lines: lines(t, "a", "x", "c"), Index: first.Index}
	var diverged *DivergedError
	if err := appendFacts(t.Context(), store, other, unlogged); !errors.As(err, &diverged) || diverged.Seq != 3 {
		t.Errorf("%v", err)
	}
	gap := &facts{Run: "run", After: 5, Lines: strings.Replace(lines(t, "z"), `"q":2`, `"q":6`, 1), Index: first.Index}
	if err := appendFacts(t.Context(), store, gap, unlogged); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("facts after a gap: %v", err)
	}
	if got := reasons(t, store); got != "a b" {
		t.Errorf("the journal has %s", got)
	}
}

func unlogged(*journal.Batch) {}
