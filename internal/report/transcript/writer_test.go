package transcript_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/filelock"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/reporttest"
	"github.com/espalier-run/espalier/internal/report/transcript"
)

var update = flag.Bool("update", false, "write the expected transcripts anew")

var _ report.Sink = (*transcript.Writer)(nil)

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// frozen is a clock that does not advance.
func frozen() time.Time { return time.Unix(0, 0) }

func writer(dir string, s *reporttest.RecordingReader) *transcript.Writer {
	return transcript.New(transcript.Options{Dir: dir, Source: s, Program: s.Program, Log: quiet(), Now: frozen})
}

// write records appends one by one.
func write(t testing.TB, dir string, r *reporttest.Recording, from, to int) {
	t.Helper()
	s := &reporttest.RecordingReader{Pinned: r.Program, Appends: r.Appends[:from]}
	w := writer(dir, s)
	for _, a := range r.Appends[from:to] {
		s.Appends = append(s.Appends, a)
		if err := w.Record(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func undisturbed(t testing.TB, r *reporttest.Recording) map[string]string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, r, 0, len(r.Appends))
	return reporttest.Files(t, dir, ".jsonl")
}

func TestTranscriptsMatchGoldenFiles(t *testing.T) {
	for _, r := range reporttest.All(t) {
		t.Run(r.Name, func(t *testing.T) {
			got := reporttest.Together(undisturbed(t, r))
			reporttest.Golden(t, filepath.Join("testdata", r.Name+".txtar"), got, *update)
		})
	}
}

// The transcripts of all recordings keep what reporttest.Breaches checks, and have
// the bytes of encoding/json.
func TestTranscriptsKeepTheirForm(t *testing.T) {
	for _, r := range reporttest.All(t) {
		byRun := map[string]string{}
		for name, text := range undisturbed(t, r) {
			byRun[strings.TrimSuffix(name, ".jsonl")] = text
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				e, err := transcript.Decode([]byte(line))
				if err != nil {
					t.Fatalf("%s: %s: %v", r.Name, line, err)
				}
				if again := canonical(t, &e); again != line {
					t.Errorf("%s: the bytes are not those of encoding/json:\n%s\n%s", r.Name, line, again)
				}
			}
		}
		last := r.Appends[len(r.Appends)-1].Events
		_, over := last[len(last)-1].Fact.(journal.RunFinished)
		for _, breach := range reporttest.Breaches(byRun, string(reporttest.Run), over) {
			t.Errorf("%s: %s", r.Name, breach)
		}
	}
}

// reporttest.Breaches finds each kind of breach.
func TestBreachesAreFound(t *testing.T) {
	root := string(reporttest.Run)
	replace := func(old, by string) func(string) string {
		return func(text string) string { return strings.Replace(text, old, by, 1) }
	}
	without := func(part string) func(string) string {
		return func(text string) string {
			lines := slices.DeleteFunc(strings.SplitAfter(text, "\n"),
				func(line string) bool { return strings.Contains(line, part) })
			for i := range lines {
				_, rest, _ := strings.Cut(lines[i], ",")
				if lines[i] != "" {
					lines[i] = fmt.Sprintf(`{"seq":%d,%s`, i+1, rest)
				}
			}
			return strings.Join(lines, "")
		}
	}
	for what, c := range map[string]struct {
		recording string
		change    func(string) string
	}{
		"a gap":                   {"linear", replace(`{"seq":2,`, `{"seq":3,`)},
		"no first line":           {"linear", without("run.started")},
		"no last line":            {"linear", without("run.completed")},
		"a step without its end":  {"linear", without(`"step.completed"`)},
		"one without a beginning": {"linear", without(`"step.started"`)},
		"another order of keys":   {"linear", replace(`"path":"","iteration":0,`, `"iteration":0,"path":"",`)},
		"a key too many":          {"linear", replace(`"payload":{`, `"payload":{"x":1,`)},
		"white space":             {"linear", replace(`,"type"`, `, "type"`)},
		"another time zone":       {"linear", replace(`Z","payload"`, `+00:00","payload"`)},
		"time that goes back":     {"linear", replace(`"timestamp":"2026`, `"timestamp":"2027`)},
		"another type":            {"linear", replace(`"step.started"`, `"step.began"`)},
		"another run":             {"linear", replace(`"run_id":"1`, `"run_id":"2`)},
		"an iteration too low":    {"loop", replace(`"iteration":1`, `"iteration":0`)},
		"a path without its loop": {"loop", replace(`"path":"each.`, `"path":"`)},
		"a call without a child":  {"child", replace(`"child_run_id"`, `"child"`)},
		"a call as a step":        {"child", replace(`"step.call_workflow.started"`, `"step.started"`)},
		"a result without a call": {"agent-with-tools", without(`"tool.call"`)},
		"a message of no step": {
			"agent-with-tools",
			replace(`"message.user","path":"research"`, `"message.user","path":"other"`),
		},
		"another fidelity": {"agent-with-tools", replace(`"fidelity":"agent_emitted"`, `"fidelity":"router"`)},
		"escapes for HTML": {"agent-with-tools", replace(`a<b`, `a\u003cb`)},
	} {
		files := map[string]string{}
		for name, text := range undisturbed(t, reporttest.Recorded(t, c.recording)) {
			files[strings.TrimSuffix(name, ".jsonl")] = text
		}
		if found := reporttest.Breaches(files, root, true); len(found) > 0 {
			t.Errorf("%s: %q", c.recording, found)
		}
		before := files[root]
		if files[root] = c.change(before); files[root] == before {
			t.Errorf("%s: it changes nothing in\n%s", what, before)
		}
		if found := reporttest.Breaches(files, root, true); len(found) == 0 {
			t.Errorf("%s is not seen:\n%s", what, files[root])
		}
	}
}

// canonical encodes an event with encoding/json.
func canonical(t *testing.T, e *transcript.Event) string {
	t.Helper()
	var payload any
	var err error
	switch {
	case strings.HasPrefix(string(e.Type), "message."):
		payload, err = e.Message()
	case strings.HasPrefix(string(e.Type), "tool."):
		payload, err = e.Tool()
	default:
		payload, err = e.Step()
	}
	if err != nil {
		t.Fatal(err)
	}
	encode := func(v any) []byte {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		return bytes.TrimSpace(b.Bytes())
	}
	e.Payload = encode(payload)
	line := encode(e)
	// A time.Time omits trailing zeros; the transcript does not.
	short, _ := e.Timestamp.MarshalJSON()
	long := []byte(`"` + e.Timestamp.Format("2006-01-02T15:04:05.000Z07:00") + `"`)
	return string(bytes.Replace(line, short, long, 1))
}

// Whatever a dead process has written, and wherever its last line is torn, the
// next one produces the same bytes.
func TestContinueAfterAnyCut(t *testing.T) {
	for _, r := range reporttest.All(t) {
		t.Run(r.Name, func(t *testing.T) {
			want := undisturbed(t, r)
			root := string(reporttest.Run) + ".jsonl"
			for committed := range len(r.Appends) + 1 {
				dir := t.TempDir()
				write(t, dir, r, 0, committed)
				write(t, dir, r, committed, len(r.Appends))
				if committed == len(r.Appends) {
					catchUp(t, dir, r)
				}
				if diff := cmp.Diff(want, reporttest.Files(t, dir, ".jsonl")); diff != "" {
					t.Fatalf("after %d appends: %s", committed, diff)
				}
				noneAside(t, dir)
			}
			for name, text := range want {
				dir := t.TempDir()
				for _, size := range cuts(text, r.Name == "linear" || r.Name == "child") {
					for other, whole := range want {
						put(t, dir, other, whole)
					}
					put(t, dir, name, text[:size])
					catchUp(t, dir, r)
					if got := reporttest.Files(t, dir, ".jsonl"); got[name] != text || got[root] != want[root] ||
						len(got) != len(want) {
						t.Fatalf("%s cut at %d:\n%s", name, size, cmp.Diff(want, got))
					}
				}
				noneAside(t, dir)
			}
			// All deleted.
			dir := t.TempDir()
			catchUp(t, dir, r)
			if diff := cmp.Diff(want, reporttest.Files(t, dir, ".jsonl")); diff != "" {
				t.Errorf("deleted and rebuilt:\n%s", diff)
			}
		})
	}
}

// cuts returns offsets at which a file may be torn: all of them, or those around
// the ends of lines and one inside each.
func cuts(text string, all bool) []int {
	var out []int
	for i := range len(text) {
		if all || i == 0 || text[i-1] == '\n' || text[i] == '\n' || i > 1 && text[i-2] == '\n' || i%211 == 0 {
			out = append(out, i)
		}
	}
	return out
}

// put replaces a file: some file systems are slow to truncate one.
func put(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func catchUp(t testing.TB, dir string, r *reporttest.Recording) {
	t.Helper()
	w := writer(dir, &reporttest.RecordingReader{Pinned: r.Program, Appends: r.Appends})
	if err := w.CatchUp(t.Context(), reporttest.Run); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// The journal was ahead of the file, and the next process gets only the appends
// that follow.
func TestContinueWithLaterAppends(t *testing.T) {
	for _, r := range reporttest.All(t) {
		want := undisturbed(t, r)
		for committed := 1; committed < len(r.Appends); committed++ {
			for recorded := range committed + 1 {
				dir := t.TempDir()
				write(t, dir, r, 0, recorded)
				write(t, dir, r, committed, len(r.Appends))
				if diff := cmp.Diff(want, reporttest.Files(t, dir, ".jsonl")); diff != "" {
					t.Fatalf("%s: %d of %d appends recorded: %s", r.Name, recorded, committed, diff)
				}
				noneAside(t, dir)
			}
		}
	}
}

func TestRepeatedAppendsAreIgnored(t *testing.T) {
	r := reporttest.Recorded(t, "child")
	dir := t.TempDir()
	s := &reporttest.RecordingReader{Pinned: r.Program, Appends: r.Appends}
	w := writer(dir, s)
	for range 3 {
		for _, a := range r.Appends {
			if err := w.Record(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(undisturbed(t, r), reporttest.Files(t, dir, ".jsonl")); diff != "" {
		t.Error(diff)
	}
	if s.Reads != 0 {
		t.Errorf("the journal was read %d times for a run that was seen from its beginning", s.Reads)
	}
}

// The files do not depend on how many appends, of how many runs, are recorded
// together.
func TestBatchesWriteTheSameFiles(t *testing.T) {
	for _, r := range reporttest.All(t) {
		want := undisturbed(t, r)
		for _, size := range []int{2, 3, 1000} {
			dir := t.TempDir()
			s := &reporttest.RecordingReader{Pinned: r.Program, Appends: r.Appends}
			w := writer(dir, s)
			for part := range slices.Chunk(r.Appends, size) {
				if err := w.Record(t.Context(), part...); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want, reporttest.Files(t, dir, ".jsonl")); diff != "" {
				t.Errorf("%s, %d at once: %s", r.Name, size, diff)
			}
			if s.Reads != 0 {
				t.Errorf("%s, %d at once: the journal was read %d times", r.Name, size, s.Reads)
			}
			noneAside(t, dir)
		}
	}
}

// counted is a lock that counts its acquisitions.
type counted struct{ taken, held int }

func (c *counted) Exclusive() error { c.taken++; c.held++; return nil }
func (c *counted) Unlock() error    { c.held--; return nil }

// If one run of a batch cannot be written, the others are, the lock is acquired
// once, and the missing lines are written later, also to a deleted file.
func TestBatchWithOneUnwritableRun(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	want := undisturbed(t, r)[string(reporttest.Run)+".jsonl"]
	dir := t.TempDir()
	s := &reporttest.RecordingReader{Pinned: r.Program}
	const n = 5
	for i, a := range r.Appends {
		for run := range n {
			a.Pos, a.Run = journal.Pos(n*i+run+1), journal.RunID(fmt.Sprintf("run-%d", run))
			s.Appends = append(s.Appends, a)
		}
	}
	in := filepath.Join(dir, "run-3.jsonl")
	if err := os.Mkdir(in, 0o700); err != nil { // a file of that name cannot be opened
		t.Fatal(err)
	}
	lock := &counted{}
	w := transcript.New(transcript.Options{
		Dir: dir, Source: s, Program: s.Program, Lock: lock, Log: quiet(),
		Now: frozen,
	})
	half := len(s.Appends) / 2
	if err := w.Record(t.Context(), s.Appends[:half]...); err == nil || !strings.Contains(err.Error(), "run-3") {
		t.Fatal(err)
	}
	if lock.taken != 1 || lock.held != 0 {
		t.Errorf("the lock was taken %d times, and is held %d times", lock.taken, lock.held)
	}
	if err := os.Remove(filepath.Join(dir, "run-1.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := w.Record(t.Context(), s.Appends[half:]...); err == nil || !strings.Contains(err.Error(), "run-3") {
		t.Fatal(err)
	}
	files := func(but string) {
		t.Helper()
		for run := range n {
			id := fmt.Sprintf("run-%d", run)
			if id == but {
				continue
			}
			got, err := os.ReadFile(filepath.Join(dir, id+".jsonl"))
			if text := strings.ReplaceAll(string(got), id, string(reporttest.Run)); err != nil || text != want {
				t.Errorf("%s: %v %s", id, err, cmp.Diff(want, text))
			}
		}
	}
	files("run-3")
	if err := os.Remove(in); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files("")
	last, _ := s.Last(t.Context())
	if pos, err := writer(dir, s).Position(t.Context()); pos != last || err != nil {
		t.Errorf("%d, %v", pos, err)
	}
	if lock.held != 0 {
		t.Error("the lock is held")
	}
}

// Appends may overlap: another store may group events differently.
func TestOverlappingAppendsAreWrittenOnce(t *testing.T) {
	r := reporttest.Recorded(t, "child")
	dir := t.TempDir()
	w := writer(dir, &reporttest.RecordingReader{Pinned: r.Program, Appends: r.Appends})
	all := journal.Appended{Run: reporttest.Run}
	for _, a := range r.Appends {
		all.Pos, all.Events = a.Pos, append(all.Events, a.Events...)
		if err := w.Record(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(undisturbed(t, r), reporttest.Files(t, dir, ".jsonl")); diff != "" {
		t.Error(diff)
	}
	noneAside(t, dir)
}

// noneAside fails if a file was set aside, which would hide wrong lines.
func noneAside(t testing.TB, dir string) {
	t.Helper()
	if aside, err := filepath.Glob(filepath.Join(dir, "*.damaged-*")); err != nil || len(aside) > 0 {
		t.Errorf("set aside: %v, %v", aside, err)
	}
}

// A run is read once to catch up, however much is missing.
func TestCatchUpReadsARunOnce(t *testing.T) {
	r := reporttest.Recorded(t, "loop")
	s := &reporttest.RecordingReader{Pinned: r.Program, Appends: r.Appends}
	w := writer(t.TempDir(), s)
	for _, a := range r.Appends[1:] {
		if err := w.Record(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if s.Reads != 1 {
		t.Errorf("the run was read %d times", s.Reads)
	}
}

func TestDamagedFilesAreSetAside(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	want := undisturbed(t, r)
	name := string(reporttest.Run) + ".jsonl"
	lines := strings.SplitAfter(want[name], "\n")
	for what, text := range map[string]string{
		"a line changed":    strings.Replace(want[name], "prepare", "PREPARE", 1),
		"a line removed":    lines[0] + strings.Join(lines[2:], ""),
		"a line twice":      lines[0] + strings.Join(lines, ""),
		"another run's":     strings.ReplaceAll(want[name], "1111", "2222"),
		"a line in between": lines[0] + "{}\n" + strings.Join(lines[1:], ""),
		"a line at the end": want[name] + "{}\n",
	} {
		dir := t.TempDir()
		put(t, dir, name, text)
		catchUp(t, dir, r)
		if got := reporttest.Files(t, dir, ".jsonl")[name]; got != want[name] {
			t.Errorf("%s: %s", what, cmp.Diff(want[name], got))
		}
		if kept, err := os.ReadFile(filepath.Join(dir, name+".damaged-1")); err != nil || string(kept) != text {
			t.Errorf("%s: what was there is not kept: %v", what, err)
		}
	}
	// The bytes of a torn write need not be a prefix of the line.
	dir := t.TempDir()
	put(t, dir, name, lines[0]+"\x00\x00\x00\x00")
	catchUp(t, dir, r)
	if got := reporttest.Files(t, dir, ".jsonl")[name]; got != want[name] {
		t.Error(cmp.Diff(want[name], got))
	}
}

// Files are deleted, truncated or replaced during the run.
func TestFilesChangedByOthers(t *testing.T) {
	r := reporttest.Recorded(t, "child")
	want := undisturbed(t, r)
	name := string(reporttest.Run) + ".jsonl"
	for what, disturb := range map[string]func(path string) error{
		"deleted":   os.Remove,
		"cut":       func(path string) error { return os.Truncate(path, 20) },
		"emptied":   func(path string) error { return os.Truncate(path, 0) },
		"overwrote": func(path string) error { return os.WriteFile(path, []byte("mine\nnow\n"), 0o600) },
		"saved anew by an editor": func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.Rename(path, path+".old"), os.WriteFile(path, text, 0o600))
		},
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, []byte("mine\n"), 0o600))
		},
	} {
		for at := 1; at < len(r.Appends); at++ {
			dir := t.TempDir()
			s := &reporttest.RecordingReader{Pinned: r.Program}
			w := writer(dir, s)
			for i, a := range r.Appends {
				if i == at {
					if err := disturb(filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				}
				s.Appends = append(s.Appends, a)
				if err := w.Record(t.Context(), a); err != nil {
					t.Fatalf("%s before append %d: %v", what, at, err)
				}
			}
			if diff := cmp.Diff(want, reporttest.Files(t, dir, ".jsonl")); diff != "" {
				t.Errorf("%s before append %d: %s", what, at, diff)
			}
		}
	}
}

// A long append is written in parts; a file that was deleted is noticed in between.
func TestDeletedFileDuringLongAppend(t *testing.T) {
	p, appends := steps("long", 8)
	long := journal.Value{JSON: json.RawMessage(`"` + strings.Repeat("x", 100_000) + `"`)}
	for i := range appends {
		for j := range appends[i].Events {
			if x, ok := appends[i].Events[j].Fact.(journal.TaskEnded); ok {
				x.Value = long
				appends[i].Events[j].Fact = x
			}
		}
	}
	second := appends[1]
	for _, a := range appends[2:] {
		second.Events = append(second.Events, a.Events...)
	}
	dir := t.TempDir()
	s := &reporttest.RecordingReader{Pinned: p, Appends: []journal.Appended{appends[0], second}}
	w := writer(dir, s)
	if err := w.Record(t.Context(), s.Appends[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "long.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := w.Record(t.Context(), s.Appends[1]); err != nil {
		t.Fatal(err)
	}
	want, err := reporttest.Rebuild(t.Context(), w, "long")
	if err != nil {
		t.Fatal(err)
	}
	if got := reporttest.Files(t, dir, ".jsonl")["long.jsonl"]; got != string(want["long"]) || len(got) < 8*100_000 {
		t.Errorf("%d bytes, not %d", len(got), len(want["long"]))
	}
	noneAside(t, dir)
}

// A process that ends and one that has claimed the run write at the same time.
func TestConcurrentWritersProduceOneTranscript(t *testing.T) {
	r := reporttest.Recorded(t, "loop")
	want := undisturbed(t, r)
	for range 8 {
		dir := t.TempDir()
		var both sync.WaitGroup
		for range 3 {
			both.Go(func() {
				lock, err := filelock.Open(filepath.Join(dir, ".lock"))
				if err != nil {
					t.Error(err)
					return
				}
				defer lock.Close()
				s := &reporttest.RecordingReader{Pinned: r.Program, Appends: r.Appends}
				w := transcript.New(transcript.Options{
					Dir: dir, Source: s, Program: s.Program, Lock: lock,
					Log: quiet(), Now: frozen,
				})
				for _, a := range r.Appends {
					if err := w.Record(t.Context(), a); err != nil {
						t.Error(err)
					}
				}
			})
		}
		both.Wait()
		if diff := cmp.Diff(want, reporttest.Files(t, dir, ".jsonl")); diff != "" {
			t.Fatal(diff)
		}
		noneAside(t, dir)
	}
}

func TestOnlyTheOwnerMayReadTranscripts(t *testing.T) {
	r := reporttest.Recorded(t, "child")
	dir := filepath.Join(t.TempDir(), "transcripts")
	write(t, dir, r, 0, len(r.Appends))
	for name := range reporttest.Files(t, dir, ".jsonl") {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A file that cannot be written delays one run and the position, nothing else.
func TestUnwritableFileIsRetried(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	want := undisturbed(t, r)
	dir := t.TempDir()
	name := string(reporttest.Run) + ".jsonl"
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil { // a file of that name cannot be opened
		t.Fatal(err)
	}
	s := &reporttest.RecordingReader{Pinned: r.Program}
	now := time.Unix(100, 0)
	w := transcript.New(transcript.Options{
		Dir: dir, Source: s, Program: s.Program, Log: quiet(),
		Now: func() time.Time { return now },
	})
	for _, a := range r.Appends {
		now = now.Add(time.Second)
		s.Appends = append(s.Appends, a)
		if err := w.Record(t.Context(), a); err == nil {
			t.Fatal("no error")
		}
	}
	if pos, err := w.Position(t.Context()); pos != 0 || err != nil {
		t.Errorf("the position must not pass what is not written: %d, %v", pos, err)
	}
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	other := journal.Appended{Pos: 100, Run: "other", Events: r.Appends[0].Events}
	s.Appends = append(s.Appends, other)
	if err := w.Record(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if got := reporttest.Files(t, dir, ".jsonl"); got[name] != want[name] {
		t.Error(cmp.Diff(want[name], got[name]))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if pos, err := writer(dir, s).Position(t.Context()); pos != 100 || err != nil {
		t.Errorf("%d, %v", pos, err)
	}
}

// Idle writes what failed before, without further appends.
func TestIdleWritesWhatFailedBefore(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	dir := t.TempDir()
	name := string(reporttest.Run) + ".jsonl"
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	s := &reporttest.RecordingReader{Pinned: r.Program, Appends: r.Appends}
	w := writer(dir, s)
	for _, a := range r.Appends {
		if err := w.Record(t.Context(), a); err == nil {
			t.Fatal("no error")
		}
	}
	if err := w.Idle(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Idle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(undisturbed(t, r), reporttest.Files(t, dir, ".jsonl")); diff != "" {
		t.Error(diff)
	}
	last, _ := s.Last(t.Context())
	if pos, err := writer(dir, s).Position(t.Context()); pos != last || err != nil {
		t.Errorf("%d, %v", pos, err)
	}
}

func TestPositionBeyondTheJournalIsIgnored(t *testing.T) {
	dir := t.TempDir()
	r := reporttest.Recorded(t, "linear")
	for text, want := range map[string]journal.Pos{"2\n": 2, "99\n": 0, "x": 0, "-1": 0, "": 0} {
		put(t, dir, ".position", text)
		if pos, err := writer(dir, &reporttest.RecordingReader{
			Pinned:  r.Program,
			Appends: r.Appends,
		}).Position(t.Context()); pos != want || err != nil {
			t.Errorf("%q: %d, %v", text, pos, err)
		}
	}
}

func TestSkippedRunsHaveNoTranscript(t *testing.T) {
	r := reporttest.Recorded(t, "loop")
	dir := t.TempDir()
	s := &reporttest.RecordingReader{Pinned: r.Program, Appends: r.Appends}
	for _, from := range []int{0, 2} {
		w := transcript.New(transcript.Options{
			Dir: dir, Source: s, Program: s.Program, Now: frozen,
			Skip: func(x journal.RunStarted) bool { return x.Name == "each" },
		})
		for _, a := range r.Appends[from:] {
			if err := w.Record(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := reporttest.Files(t, dir, ".jsonl"); len(got) != 0 {
		t.Error(got)
	}
	if s.Reads > 1 {
		t.Errorf("read %d times", s.Reads)
	}
}

func TestIDsThatAreNotFileNames(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	parent := t.TempDir()
	dir := filepath.Join(parent, "transcripts")
	w := writer(dir, &reporttest.RecordingReader{Pinned: r.Program})
	for _, id := range []journal.RunID{"../evil", "/evil", "a/b", `a\b`, "..", ".position", "c:evil"} {
		if err := w.Record(t.Context(), journal.Appended{Pos: 1, Run: id, Events: r.Appends[0].Events}); err == nil {
			t.Errorf("%s was written", id)
		}
	}
	if got := reporttest.Files(t, parent, ".jsonl"); len(got) != 0 {
		t.Error(got)
	}
}

func TestValuesStoredByHash(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	last := r.Appends[len(r.Appends)-1]
	for i := range last.Events {
		if x, ok := last.Events[i].Fact.(journal.RunFinished); ok {
			x.Output = journal.Value{Hash: "abc", Size: 12}
			last.Events[i].Fact = x
		}
	}
	for want, blobs := range map[string]map[string][]byte{
		`"result":{"big":[1,2]}}}`:                      {"abc": []byte("{\"big\": [1,\n2]}")},
		`"result":{"lost":{"sha256":"abc","bytes":12}}`: nil,
	} {
		dir := t.TempDir()
		w := writer(dir, &reporttest.RecordingReader{Pinned: r.Program, Appends: r.Appends, Blobs: blobs})
		if err := w.CatchUp(t.Context(), reporttest.Run); err != nil {
			t.Fatal(err)
		}
		if got := reporttest.Files(t, dir, ".jsonl")[string(reporttest.Run)+".jsonl"]; !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestManyRunsAtOnce(t *testing.T) {
	r := reporttest.Recorded(t, "gate-approved")
	want := undisturbed(t, r)[string(reporttest.Run)+".jsonl"]
	dir := t.TempDir()
	s := &reporttest.RecordingReader{Pinned: r.Program}
	w := writer(dir, s)
	const n = 2500 // more than stay in memory
	pos := journal.Pos(0)
	for _, a := range r.Appends {
		for i := range n {
			pos++
			a.Pos, a.Run = pos, journal.RunID(fmt.Sprintf("run-%d", i))
			if i == 0 || i == n-1 {
				s.Appends = append(s.Appends, a)
			}
			if i == 0 || i == n-1 || a.Events[0].Seq == 1 {
				if err := w.Record(t.Context(), a); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	got := reporttest.Files(t, dir, ".jsonl")
	if len(got) != n {
		t.Errorf("%d files", len(got))
	}
	for _, id := range []string{"run-0", fmt.Sprintf("run-%d", n-1)} {
		if diff := cmp.Diff(want, strings.ReplaceAll(got[id+".jsonl"], id, string(reporttest.Run))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestErrorsOfProgramsAreReturned(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	s := &reporttest.RecordingReader{Pinned: r.Program, Appends: r.Appends}
	gone := errors.New("gone")
	w := transcript.New(transcript.Options{
		Dir: t.TempDir(), Source: s, Now: frozen, Log: quiet(),
		Program: func(context.Context, string) (*ir.Program, error) { return nil, gone },
	})
	if err := w.Record(t.Context(), r.Appends[0]); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

// A value can be split over the chunks of a streamed reply, and no rule matches a part of it. The transcript of a
// workflow that redacts has no chunks; the reply follows as a whole.
//
// Spec: Agent Flow §7.2 redaction
func TestPartsOfRedactedValuesAreNotInTheTranscript(t *testing.T) {
	const part = "bob@exam"
	for _, redacts := range []bool{false, true} {
		r := reporttest.Recorded(t, "agent-with-tools")
		if redacts {
			r.Program.Audit = &ir.Audit{RedactPII: true}
		}
		for i := range r.Appends {
			for j := range r.Appends[i].Events {
				e := &r.Appends[i].Events[j]
				if x, ok := e.Fact.(journal.TaskNoted); ok && x.Kind == journal.NoteStream {
					x.Data = json.RawMessage(`{"chunk":"` + part + `"}`)
					e.Fact = x
				}
			}
		}
		text := string(reporttest.Together(undisturbed(t, r)))
		if strings.Contains(text, part) == redacts {
			t.Errorf("redacted: %t, in the transcript: %t", redacts, redacts)
		}
	}
}
