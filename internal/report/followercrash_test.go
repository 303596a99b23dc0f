package report_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/transcript"
)

// A process continues where the last one died, and completes the transcript of a
// run that has finished in between, although nothing is appended to it any more.
func TestFollowerCompletesTranscriptsAfterCrash(t *testing.T) {
	p, w := scenarios["loop"](t)
	want := folder(t, p, w.appends, len(w.appends))
	for died := range len(w.appends) + 1 {
		if diff := cmp.Diff(want, folder(t, p, w.appends, died)); diff != "" {
			t.Fatalf("died after %d appends: %s", died, diff)
		}
	}
}

// folder writes transcripts with two processes: the first one gets seen appends.
func folder(t *testing.T, p *ir.Program, appends [][]journal.Event, seen int) map[string]string {
	t.Helper()
	dir := t.TempDir()
	store := memorytest.New()
	defer store.Close()
	life := func() (*transcript.Writer, *report.Follower) {
		w := transcript.New(transcript.Options{
			Dir: dir, Source: store, Log: slog.New(slog.DiscardHandler),
			Program: func(context.Context, string) (*ir.Program, error) { return p, nil },
		})
		after, err := w.Position(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return w, report.Follow(store, w, report.FollowOptions{After: after})
	}
	put := func(part [][]journal.Event) {
		for _, events := range part {
			b := journal.Batch{
				Run: run, Fence: journal.FirstFence, After: events[0].Seq - 1,
				Events: slices.Clone(events),
			}
			if x, ok := b.Started(); ok { // the store requires the definition
				sum := sha256.Sum256([]byte("{}"))
				x.Definition = hex.EncodeToString(sum[:])
				b.Blobs = []journal.Blob{{Hash: x.Definition, Data: []byte("{}")}}
				b.Events[0].Fact = x
			}
			if err := journal.Append(t.Context(), store, b); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, first := life()
	put(appends[:seen])
	if err := first.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.Close() // the writer stays open: its process is dead
	put(appends[seen:])
	w, second := life()
	if err := second.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	second.Close()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(name)] = string(text)
	}
	return out
}
