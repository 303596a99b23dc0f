package embedded_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/plan"
)

// A run that Temporal drives has one driver, also if another process uses the same
// store without Temporal: it neither resumes the run nor leaves messages that
// nothing reads.
func TestRunsOfTemporalAreLeftAlone(t *testing.T) {
	store := memorytest.New()
	t.Cleanup(func() { store.Close() })
	def := &engine.Definition{Program: enginetest.Program([]ir.Step{enginetest.Task("a")})}
	raw, hash, err := def.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := journal.Append(t.Context(), store, journal.Batch{
		Run: enginetest.ID, Fence: journal.FirstFence, Owner: journal.Temporal,
		Blobs:  []journal.Blob{{Hash: hash, Data: raw}},
		Events: []journal.Event{{Seq: 1, At: 1, Fact: journal.RunStarted{Name: "test", Definition: hash}}},
		Index:  &journal.Index{Status: journal.Running},
	}); err != nil {
		t.Fatal(err)
	}
	kind := enginetest.NewKind()
	e := open(t, store, kind, "me")
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	for name, do := range map[string]func() error{
		"resume": func() error { return e.Resume(ctx, enginetest.ID) },
		"cancel": func() error { return e.Send(ctx, enginetest.ID, plan.Cancel{}, "ref") },
	} {
		if owned, ok := errors.AsType[*journal.OwnedError](do()); !ok || owned.Owner != journal.Temporal {
			t.Errorf("%s: %v", name, owned)
		}
	}
	if posted, err := store.Inbox(t.Context(), enginetest.ID); err != nil || len(posted) > 0 {
		t.Errorf("%d messages wait, %v", len(posted), err)
	}
	if len(kind.Done) > 0 {
		t.Errorf("done: %v", kind.Done)
	}
}
