package reporttest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// Recording is a run that was driven through the plan.
type Recording struct {
	Name    string
	Program *ir.Program
	Appends []journal.Appended
}

// Run is the root run of every recording.
const Run journal.RunID = "11111111-1111-4111-8111-111111111111"

// All returns the recordings, for a test in a folder of internal/report.
func All(t testing.TB) []*Recording {
	t.Helper()
	paths, err := filepath.Glob("../testdata/runs/*.txtar")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d recordings: %v", len(paths), err)
	}
	var out []*Recording
	for _, path := range paths {
		out = append(out, Recorded(t, strings.TrimSuffix(filepath.Base(path), ".txtar")))
	}
	return out
}

// Recorded returns one recording.
func Recorded(t testing.TB, name string) *Recording {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("../testdata/runs", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	r := &Recording{Name: name, Program: &ir.Program{}}
	if err := json.Unmarshal(archive.Files[0].Data, r.Program); err != nil {
		t.Fatal(err)
	}
	for i, body := range strings.SplitAfter(string(archive.Files[1].Data), "\n\n") {
		events, err := journal.Decode([]byte(strings.TrimSpace(body) + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		r.Appends = append(r.Appends, journal.Appended{Pos: journal.Pos(i + 1), Run: Run, Events: events})
	}
	return r
}

// RecordingReader is a journal.Reader of recordings. Methods that it does not define panic.
type RecordingReader struct {
	journal.Reader
	Appends []journal.Appended
	Blobs   map[string][]byte
	Pinned  *ir.Program
	Reads   int // number of calls of Events
}

// Events returns the events of a run, and counts its calls.
func (s *RecordingReader) Events(
	_ context.Context, run journal.RunID, after journal.Seq,
) iter.Seq2[journal.Event, error] {
	s.Reads++
	return func(yield func(journal.Event, error) bool) {
		for _, a := range s.Appends {
			for _, e := range a.Events {
				if a.Run == run && e.Seq > after && !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Blob returns a blob of Blobs.
func (s *RecordingReader) Blob(_ context.Context, hash string) ([]byte, error) {
	if b, ok := s.Blobs[hash]; ok {
		return b, nil
	}
	return nil, fmt.Errorf("%s: %w", hash, journal.ErrUnknownBlob)
}

// Last returns the last position.
func (s *RecordingReader) Last(context.Context) (journal.Pos, error) {
	if len(s.Appends) == 0 {
		return 0, nil
	}
	return s.Appends[len(s.Appends)-1].Pos, nil
}

// Program returns Pinned for every hash.
func (s *RecordingReader) Program(context.Context, string) (*ir.Program, error) { return s.Pinned, nil }

// Golden compares a text with a file; with update it writes the file first.
func Golden(t testing.TB, path, got string, update bool) {
	t.Helper()
	if update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("run with -update and read the differences (-want +got):\n%s", diff)
	}
}

// Files returns the records of a folder whose names end in ext.
func Files(t testing.TB, dir, ext string) map[string]string {
	t.Helper()
	out := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(dir, "*"+ext))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(path)] = string(text)
	}
	return out
}

// Together returns all files as one text, the root's first.
func Together(all map[string]string) string {
	var b strings.Builder
	names := slices.Sorted(maps.Keys(all))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range names {
		fmt.Fprintf(&b, "-- %s --\n%s", name, all[name])
	}
	return b.String()
}

// rank orders the files of the run itself before those of others.
func rank(name string) int {
	if strings.HasPrefix(name, string(Run)+".") {
		return 0
	}
	return 1
}
