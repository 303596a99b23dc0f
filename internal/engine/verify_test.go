package engine_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/plan"
)

// changedStore is a store in which a person has changed rows.
type changedStore struct {
	*memorytest.Store
	entry    func(*journal.Entry)
	children func([]journal.Entry) []journal.Entry
	snapshot func([]byte) []byte
	blob     func([]byte) ([]byte, error)
}

func (c changedStore) Entry(ctx context.Context, run journal.RunID) (journal.Entry, error) {
	e, err := c.Store.Entry(ctx, run)
	if c.entry != nil {
		c.entry(&e)
	}
	return e, err
}

func (c changedStore) Runs(ctx context.Context, f journal.Filter) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		var all []journal.Entry
		for e, err := range c.Store.Runs(ctx, f) {
			if err != nil {
				yield(e, err)
				return
			}
			all = append(all, e)
		}
		if c.children != nil {
			all = c.children(all)
		}
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (c changedStore) Snapshot(ctx context.Context, run journal.RunID) (journal.Seq, []byte, error) {
	seq, state, err := c.Store.Snapshot(ctx, run)
	if c.snapshot != nil {
		state = c.snapshot(state)
	}
	return seq, state, err
}

func (c changedStore) Blob(ctx context.Context, hash string) ([]byte, error) {
	data, err := c.Store.Blob(ctx, hash)
	if c.blob != nil {
		return c.blob(data)
	}
	return data, err
}

// Verify finds a change of anything that a store keeps besides the events.
func TestVerifyFindsEveryChange(t *testing.T) {
	s := memorytest.New()
	defer s.Close()
	const run = journal.RunID("a")
	child := plan.ChildID(run, "call")
	large := journaltest.Definition(`"large"`)
	state := &plan.State{Run: run}
	first := journaltest.Start(run, "me")
	first.Events = append(first.Events, journal.Event{Seq: 2, At: 1001, Fact: journal.StepEntered{
		Place: journal.Place{Step: "call"}, Mode: plan.ModeCall,
	}}, journal.Event{Seq: 3, At: 1001, Fact: journal.FrameOpened{
		Frame: "call", Step: "call", Child: child, Name: "callee",
		Vars: map[string]journal.Value{"x": {Hash: large.Hash, Size: len(large.Data)}},
	}})
	first.Blobs = []journal.Blob{large}
	state.Fold(first.Events)
	first.Children = engine.Children{}.Update(state, first.Events)
	first.Index = new(state.Summary())
	first.Snapshot = state.Snapshot()
	journaltest.Append(t, s, first)

	for name, c := range map[string]struct {
		store changedStore
		want  string
	}{
		"nothing": {changedStore{}, ""},
		"status": {
			changedStore{entry: func(e *journal.Entry) { e.Status = journal.Finished }},
			`index status is "finished" in the list of runs, but the events imply`,
		},
		"name": {
			changedStore{entry: func(e *journal.Entry) { e.Name = "other" }},
			`index name is "other" in the list of runs, but the events imply "demo"`,
		},
		"start": {changedStore{entry: func(e *journal.Entry) { e.Started++ }}, "index started"},
		"events cut off": {
			changedStore{entry: func(e *journal.Entry) { e.Seq += 2 }}, "events 4 to 5 are missing",
		},
		"child gone": {
			changedStore{children: func([]journal.Entry) []journal.Entry { return nil }},
			"is missing in the list of runs",
		},
		"child changed": {
			changedStore{children: func(all []journal.Entry) []journal.Entry { all[0].Name = "other"; return all }},
			`children name is "other" in the list of runs, but the events imply "callee"`,
		},
		"child added": {
			changedStore{children: func(all []journal.Entry) []journal.Entry {
				return append(all, journal.Entry{ID: "x", Root: run})
			}},
			"has a child x, which the events do not have",
		},
		"snapshot": {
			changedStore{snapshot: func(b []byte) []byte {
				return []byte(strings.Replace(string(b), `"demo"`, `"dame"`, 1))
			}},
			"snapshot the snapshot of event 3",
		},
		"no snapshot at all": {
			changedStore{snapshot: func([]byte) []byte { return []byte("{") }}, "snapshot the snapshot",
		},
		"blob gone": {
			changedStore{blob: func([]byte) ([]byte, error) { return nil, journal.ErrUnknownBlob }},
			"which is missing",
		},
		"blob changed": {
			changedStore{blob: func([]byte) ([]byte, error) { return nil, journal.ErrCorrupt }},
			"whose content was changed",
		},
	} {
		c.store.Store = s
		got, err := engine.Verify(t.Context(), c.store, run)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var all []string
		for _, d := range got.Damage {
			all = append(all, fmt.Sprintf("%s %s", d.Part, d.Message))
		}
		if c.want == "" && len(all) > 0 || !strings.Contains(strings.Join(all, "\n"), c.want) ||
			c.want != "" && len(all) == 0 {
			t.Errorf("%s: %q", name, all)
		}
	}
}

// Events that no engine writes are damage, too: the hashes of an earlier release
// do not show that they were changed.
func TestVerifyReportsEventsThatDoNotFit(t *testing.T) {
	s := memorytest.New()
	defer s.Close()
	b := journaltest.Start("a", "me")
	b.Events = append(b.Events, journal.Event{Seq: 2, At: 1001, Fact: journal.FrameClosed{Frame: "unknown"}})
	journaltest.Append(t, s, b)
	got, err := engine.Verify(t.Context(), s, "a")
	if err != nil || len(got.Damage) != 1 || !strings.Contains(got.Damage[0].Message, "event 2 does not follow") {
		t.Errorf("%+v, %v", got, err)
	}
}

// A snapshot of an earlier form may lack what the events imply, such as which gates were approved. It is ignored, and
// no damage.
func TestSnapshotsOfAnEarlierFormAreIgnored(t *testing.T) {
	s := memorytest.New()
	defer s.Close()
	const run = journal.RunID("a")
	state := &plan.State{Run: run}
	b := journaltest.Start(run, "me")
	state.Fold(b.Events)
	b.Index = new(state.Summary())
	b.Snapshot = state.Snapshot()
	journaltest.Append(t, s, b)
	older := changedStore{Store: s, snapshot: func(raw []byte) []byte {
		text := strings.Replace(string(raw), `"form":1,`, "", 1)
		return []byte(strings.Replace(text, `"demo"`, `"dame"`, 1))
	}}
	folded, err := engine.NewCore(engine.Config{}, older).Fold(t.Context(), run)
	if err != nil || folded.Name != "demo" || folded.Form != plan.SnapshotForm {
		t.Errorf("%+v, %v", folded, err)
	}
	if got, err := engine.Verify(t.Context(), older, run); err != nil || len(got.Damage) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
