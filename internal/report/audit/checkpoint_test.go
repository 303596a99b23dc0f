package audit_test

import (
	"context"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/reporttest"
	"github.com/espalier-run/espalier/internal/report/transcript"
)

// counted counts the events that are read.
type counted struct {
	*reporttest.RecordingReader
	events int
}

func (c *counted) Events(ctx context.Context, run journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range c.RecordingReader.Events(ctx, run, after) {
			c.events++
			if !yield(e, err) {
				return
			}
		}
	}
}

// writers opens writers of both records.
func writers(dir string, source journal.Reader, shelf *reporttest.RecordingReader) map[string]*report.Writer {
	quiet := slog.New(slog.DiscardHandler)
	return map[string]*report.Writer{
		"audit": audit.New(audit.Options{
			Dir: filepath.Join(dir, "audit"), Source: source, Program: shelf.Program, Log: quiet, CheckpointEvents: 1,
		}).Writer,
		"transcript": transcript.New(transcript.Options{
			Dir: filepath.Join(dir, "transcript"), Source: source, Program: shelf.Program, Log: quiet,
			CheckpointEvents: 1,
		}),
	}
}

// files returns what is in a folder, without hidden files.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name()[0] == '.' {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(text)
	}
	return out
}

// Records that a new process continues from a checkpoint at any append are the same, byte for byte.
func TestRecordsContinueFromCheckpoints(t *testing.T) {
	for _, recording := range reporttest.All(t) {
		t.Run(recording.Name, func(t *testing.T) {
			// Rules that replace much, so that a process that forgets them writes something else.
			redacted := *recording.Program
			redacted.Audit = &ir.Audit{RedactPatterns: []ir.Name{{Name: "[aeiou]{2}|[A-Z]"}}}
			recording.Program = &redacted
			shelf := &reporttest.RecordingReader{Appends: recording.Appends, Pinned: recording.Program}
			whole, parts := t.TempDir(), t.TempDir()
			for name, w := range writers(whole, shelf, shelf) {
				if err := w.Record(t.Context(), recording.Appends...); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				w.Close()
			}
			for i, a := range recording.Appends {
				so := &reporttest.RecordingReader{Appends: recording.Appends[:i+1], Pinned: recording.Program}
				for name, w := range writers(parts, so, so) {
					if err := w.Record(t.Context(), a); err != nil {
						t.Fatalf("%s: append %d: %v", name, i+1, err)
					}
					w.Close()
				}
			}
			for _, name := range []string{"audit", "transcript"} {
				if diff := cmp.Diff(files(t, filepath.Join(whole, name)),
					files(t, filepath.Join(parts, name))); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
		})
	}
}

// What a new process reads of a run does not grow with what is finished in it.
func TestRecordsReadOnlyWhatFollowsTheCheckpoint(t *testing.T) {
	recording := reporttest.Recorded(t, "loop")
	last := len(recording.Appends) - 1
	shelf := &reporttest.RecordingReader{Appends: recording.Appends[:last], Pinned: recording.Program}
	dir := t.TempDir()
	for _, w := range writers(dir, shelf, shelf) {
		if err := w.Record(t.Context(), recording.Appends[:last]...); err != nil {
			t.Fatal(err)
		}
	}
	all := &reporttest.RecordingReader{Appends: recording.Appends, Pinned: recording.Program}
	source := &counted{RecordingReader: all}
	for name, w := range writers(dir, source, all) {
		source.events = 0
		if err := w.Record(t.Context(), recording.Appends[last]); err != nil {
			t.Fatal(err)
		}
		if most := len(recording.Appends[last].Events) + 1; source.events > most {
			t.Errorf("%s: %d events were read, not %d", name, source.events, most)
		}
	}
}

// A checkpoint of a history that the store does not have is not used.
func TestRecordsIgnoreCheckpointsOfAnotherHistory(t *testing.T) {
	recording := reporttest.Recorded(t, "loop")
	half := len(recording.Appends) / 2
	dir, want := t.TempDir(), t.TempDir()
	shelf := &reporttest.RecordingReader{Appends: recording.Appends[:half], Pinned: recording.Program}
	for _, w := range writers(dir, shelf, shelf) {
		if err := w.Record(t.Context(), recording.Appends[:half]...); err != nil {
			t.Fatal(err)
		}
	}
	// The same run, started later.
	var other []journal.Appended
	for _, a := range recording.Appends {
		events := append([]journal.Event{}, a.Events...)
		for i := range events {
			events[i].At += 1000
		}
		other = append(other, journal.Appended{Pos: a.Pos, Run: a.Run, Events: events})
	}
	shelf = &reporttest.RecordingReader{Appends: other, Pinned: recording.Program}
	for name, w := range writers(want, shelf, shelf) {
		if err := w.Record(t.Context(), other...); err != nil {
			t.Fatal(name, err)
		}
	}
	for name, w := range writers(dir, shelf, shelf) {
		if err := w.Record(t.Context(), other[half]); err != nil {
			t.Fatal(name, err)
		}
		if err := w.Record(t.Context(), other[half:]...); err != nil {
			t.Fatal(name, err)
		}
		path, err := w.Path(reporttest.Run)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := files(t, filepath.Join(want, name))[filepath.Base(path)]; got != string(text) {
			t.Errorf("%s: the record is not that of the history:\n%s", name, text)
		}
	}
}
