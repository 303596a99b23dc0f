package audit_test

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

	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// recording is a run that was driven through the plan.
type recording struct {
	name    string
	program *ir.Program
	appends []journal.Appended
}

const run journal.RunID = "11111111-1111-4111-8111-111111111111"

func recordings(t testing.TB) []*recording {
	t.Helper()
	paths, err := filepath.Glob("../testdata/runs/*.txtar")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d recordings: %v", len(paths), err)
	}
	var out []*recording
	for _, path := range paths {
		out = append(out, recorded(t, strings.TrimSuffix(filepath.Base(path), ".txtar")))
	}
	return out
}

func recorded(t testing.TB, name string) *recording {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("../testdata/runs", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{name: name, program: &ir.Program{}}
	if err := json.Unmarshal(archive.Files[0].Data, r.program); err != nil {
		t.Fatal(err)
	}
	for i, body := range strings.SplitAfter(string(archive.Files[1].Data), "\n\n") {
		events, err := journal.Decode([]byte(strings.TrimSpace(body) + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		r.appends = append(r.appends, journal.Appended{Pos: journal.Pos(i + 1), Run: run, Events: events})
	}
	return r
}

// shelf is a journal that holds recordings: as many appends as have been committed.
type shelf struct {
	appends []journal.Appended
	blobs   map[string][]byte
	program *ir.Program
	reads   int // how often a stream was read
}

func (s *shelf) Events(_ context.Context, run journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	s.reads++
	return func(yield func(journal.Event, error) bool) {
		for _, a := range s.appends {
			for _, e := range a.Events {
				if a.Run == run && e.Seq > after && !yield(e, nil) {
					return
				}
			}
		}
	}
}

func (s *shelf) Blob(_ context.Context, hash string) ([]byte, error) {
	if b, ok := s.blobs[hash]; ok {
		return b, nil
	}
	return nil, fmt.Errorf("%s: %w", hash, journal.ErrUnknownBlob)
}

func (s *shelf) Last(context.Context) (journal.Pos, error) {
	if len(s.appends) == 0 {
		return 0, nil
	}
	return s.appends[len(s.appends)-1].Pos, nil
}

func (s *shelf) Program(context.Context, string) (*ir.Program, error) { return s.program, nil }

// files reads the audit logs of a folder.
func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.audit.ndjson"))
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

// together is all files as one text, the root's first.
func together(all map[string]string) string {
	var b strings.Builder
	names := slices.Sorted(maps.Keys(all))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range names {
		fmt.Fprintf(&b, "-- %s --\n%s", name, all[name])
	}
	return b.String()
}

func rank(name string) int {
	if name == string(run)+".audit.ndjson" {
		return 0
	}
	return 1
}
