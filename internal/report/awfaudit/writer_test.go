package awfaudit_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/awfaudit"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// store has the events of some runs.
type store map[journal.RunID][]journal.Event

func (s store) Events(_ context.Context, run journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for _, e := range s[run] {
			if e.Seq > after && !yield(e, nil) {
				return
			}
		}
	}
}

func (s store) Entry(_ context.Context, run journal.RunID) (journal.Entry, error) {
	started, ok := s[run][0].Fact.(journal.RunStarted)
	if !ok {
		return journal.Entry{}, journal.ErrUnknownRun
	}
	return journal.Entry{ID: run, Format: started.Format}, nil
}

func (store) Blob(context.Context, string) ([]byte, error) { return nil, journal.ErrUnknownBlob }

// The writer uses no other method of a journal.Reader.
func (store) Tail(context.Context, journal.Pos) iter.Seq2[journal.Appended, error] { panic("unused") }

func (store) Last(context.Context) (journal.Pos, error) { panic("unused") }

func (store) Changed() <-chan struct{} { panic("unused") }

func (store) Runs(context.Context, journal.Filter) iter.Seq2[journal.Entry, error] { panic("unused") }

func (store) Snapshot(context.Context, journal.RunID) (journal.Seq, []byte, error) { panic("unused") }

func value(raw string) journal.Value { return journal.Value{JSON: json.RawMessage(raw)} }

const child = journal.RunID("c1")

// loop is a step of the child.
var loop = journal.Place{Frame: "each/0/call/call", Step: "loop"}

// world returns a run with a child, one of another format, and one that fails.
func world() (store, []journal.Appended) {
	s := store{
		"r1": {
			{
				Seq: 1, At: 1000,
				Fact: journal.RunStarted{
					Name: "deploy", Format: "awf",
					Input: value(`{"env":"prod","my_password":"hunter2","n":5}`), By: journal.Actor{User: "ann"},
				},
			},
			{Seq: 2, At: 1100, Fact: journal.StepEntered{Place: journal.Place{Step: "each"}, Mode: "loop"}},
			{Seq: 3, At: 1100, Fact: journal.FrameOpened{Frame: "each/0", Step: "each"}},
			{
				Seq: 4, At: 1200,
				Fact: journal.StepEntered{Place: journal.Place{Frame: "each/0", Step: "call"}, Mode: "call"},
			},
			{Seq: 5, At: 1200, Run: child, Fact: journal.FrameOpened{
				Frame: "each/0/call/call", Parent: "each/0", Step: "call", Child: child, Name: "build",
				Vars: map[string]journal.Value{"input": value(`{}`)},
			}},
			{Seq: 6, At: 1250, Run: child, Fact: journal.StepEntered{Place: loop, Mode: "loop"}},
			{
				Seq: 7, At: 1250, Run: child,
				Fact: journal.FrameOpened{Frame: loop.Frame + "/loop/0", Parent: loop.Frame, Step: "loop"},
			},
			{Seq: 8, At: 1250, Run: child, Fact: journal.FrameClosed{Frame: loop.Frame + "/loop/0", Outcome: "ok"}},
			{
				Seq: 9, At: 1300, Run: child,
				Fact: journal.FrameClosed{Frame: loop.Frame, Outcome: "failed", Error: "no rule", Status: 7},
			},
			{Seq: 10, At: 2500, Fact: journal.RunFinished{Outcome: "ok"}},
		},
		"r2": {
			{Seq: 1, At: 1, Fact: journal.RunStarted{Name: "other", Format: "agent-flow"}},
			{Seq: 2, At: 2, Fact: journal.RunFinished{Outcome: "ok"}},
		},
		"r3": {
			{Seq: 1, At: 5000, Fact: journal.RunStarted{Name: "stop", Format: "awf"}},
			{Seq: 2, At: 5001, Fact: journal.RunFinished{Outcome: "cancelled"}},
		},
	}
	appends := []journal.Appended{
		{Pos: 1, Run: "r1", Events: s["r1"][:3]},
		{Pos: 2, Run: "r2", Events: s["r2"]},
		{Pos: 3, Run: "r1", Events: s["r1"][3:8]},
		{Pos: 4, Run: "r1", Events: s["r1"][8:]},
		{Pos: 5, Run: "r3", Events: s["r3"]},
	}
	return s, appends
}

const want = `{"event":"workflow.started","execution_id":"r1","timestamp":"1970-01-01T00:00:01.000Z","user":"ann",` +
	`"workflow_name":"deploy","inputs":{"env":"prod","my_password":"[redacted]","n":5},"schema_version":1}` + "\n" +
	`{"event":"workflow.started","execution_id":"c1","timestamp":"1970-01-01T00:00:01.200Z","user":"ann",` +
	`"workflow_name":"build","schema_version":1}` + "\n" +
	`{"event":"workflow.completed","execution_id":"c1","timestamp":"1970-01-01T00:00:01.300Z","user":"ann",` +
	`"workflow_name":"build","status":"failure","exit_code":7,"duration_ms":100,` +
	`"error":"no rule","schema_version":1}` + "\n" +
	`{"event":"workflow.completed","execution_id":"r1","timestamp":"1970-01-01T00:00:02.500Z","user":"ann",` +
	`"workflow_name":"deploy","status":"success","exit_code":0,"duration_ms":1500,"schema_version":1}` + "\n" +
	`{"event":"workflow.started","execution_id":"r3","timestamp":"1970-01-01T00:00:05.000Z","user":"",` +
	`"workflow_name":"stop","schema_version":1}` + "\n" +
	`{"event":"workflow.completed","execution_id":"r3","timestamp":"1970-01-01T00:00:05.001Z","user":"",` +
	`"workflow_name":"stop","status":"failure","exit_code":1,"duration_ms":1,` +
	`"error":"cancelled","schema_version":1}` + "\n"

func open(t *testing.T, dir string, s store) *awfaudit.Writer {
	t.Helper()
	w, err := awfaudit.New(awfaudit.Options{
		Path:     filepath.Join(dir, "deep", "audit.jsonl"),
		Position: filepath.Join(dir, "position"), Source: s,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func read(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "deep", "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	// The rules define the replacement of secrets.
	out := string(raw)
	if i := strings.Index(out, "[redacted "); i >= 0 {
		out = out[:i+len("[redacted")] + out[i+strings.Index(out[i:], "]"):]
	}
	return out
}

// TestKeysAreDocumented compares docs/transcript.md with what runs write.
func TestKeysAreDocumented(t *testing.T) {
	page := reporttest.ReadDocumented(t)
	truncated := `{"event":"workflow.started","inputs_truncated":true}` // see TestLongInputsAreCut
	for line := range strings.Lines(want + truncated) {
		if missing := page.Check([]byte(line)); len(missing) > 0 {
			t.Errorf("docs/transcript.md lacks %q", missing)
		}
	}
	for _, kind := range []string{"workflow.started", "workflow.completed"} {
		if unused := page.Unused(kind); len(unused) > 0 {
			t.Errorf("docs/transcript.md has %q of %s, which no run writes", unused, kind)
		}
	}
}

// A batch of appends gives the same lines as single ones.
func TestBatchWritesTheSameLines(t *testing.T) {
	s, appends := world()
	dir := t.TempDir()
	w := open(t, dir, s)
	for range 2 {
		if err := w.Record(t.Context(), appends...); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Error(diff)
	}
	if at, err := open(t, dir, s).At(); at != 5 || err != nil {
		t.Error(at, err)
	}
}

// Two writers take turns: each sees what the other has written.
func TestWritersSeeEachOthersRecords(t *testing.T) {
	s, appends := world()
	dir := t.TempDir()
	one, other := open(t, dir, s), open(t, dir, s)
	for _, a := range appends {
		for _, w := range []*awfaudit.Writer{one, other} {
			if err := w.Record(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestStartsAndEndsArePaired(t *testing.T) {
	s, appends := world()
	dir := t.TempDir()
	w := open(t, dir, s)
	for _, a := range appends {
		if err := w.Record(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(filepath.Join(dir, "deep", "audit.jsonl"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
}

// Wherever the process dies, the next one completes the file without repetitions.
func TestCrashNeitherLosesNorRepeatsRecords(t *testing.T) {
	s, appends := world()
	for n := range len(appends) + 1 {
		for _, lost := range []bool{false, true} {
			dir := t.TempDir()
			w := open(t, dir, s)
			for _, a := range appends[:n] {
				if err := w.Record(t.Context(), a); err != nil {
					t.Fatal(err)
				}
			}
			if lost { // the position was not saved
				os.Remove(filepath.Join(dir, "position"))
			}
			w = open(t, dir, s)
			at, err := w.At()
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range appends {
				if a.Pos > at {
					if err := w.Record(t.Context(), a); err != nil {
						t.Fatal(err)
					}
				}
			}
			if diff := cmp.Diff(want, read(t, dir)); diff != "" {
				t.Errorf("after %d, lost %t:\n%s", n, lost, diff)
			}
		}
	}
}

// What could not be written is written later; if the process ends before that, the next one starts where the file is
// complete.
func TestUnwritableFileIsRetried(t *testing.T) {
	s, appends := world()
	for _, ends := range []bool{false, true} {
		dir := t.TempDir()
		obstacle := filepath.Join(dir, "deep") // a file in place of the folder
		if err := os.WriteFile(obstacle, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		w := open(t, dir, s)
		for _, a := range appends[:4] {
			if err := w.Record(t.Context(), a); err == nil {
				t.Fatalf("append %d: it was written to nowhere", a.Pos)
			}
		}
		rest := appends[4:]
		if ends && w.Close() == nil {
			t.Fatal("the failure is not reported")
		}
		if err := os.Remove(obstacle); err != nil {
			t.Fatal(err)
		}
		if ends {
			w = open(t, dir, s)
			at, err := w.At()
			if err != nil {
				t.Fatal(err)
			}
			rest = appends[at:]
		}
		for _, a := range rest {
			if err := w.Record(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, read(t, dir)); diff != "" {
			t.Errorf("ends %t:\n%s", ends, diff)
		}
	}
}

// Inputs that are secrets by their names are masked, whatever their values.
func TestInputsWithSecretNamesAreMasked(t *testing.T) {
	s := store{"r": {{
		Seq: 1,
		Fact: journal.RunStarted{
			Format: "awf",
			Input: value(`{"API_KEY_X":"abcd","Token":7,"password2":"p","secret_":["s"],"secretary":"Ann",` +
				`"a_token":"t"}`),
		},
	}}}
	dir := t.TempDir()
	w := open(t, dir, s)
	if err := w.Record(t.Context(), journal.Appended{Pos: 1, Run: "r", Events: s["r"]}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "deep", "audit.jsonl"))
	const hidden = `"[redacted secret]"`
	if want := `"inputs":{"API_KEY_X":` + hidden + `,"Token":` + hidden + `,"a_token":` + hidden + `,"password2":` +
		hidden + `,"secret_":` + hidden + `,"secretary":"Ann"}`; err != nil || !strings.Contains(string(raw), want) {
		t.Errorf("%s, %v, want %s", raw, err, want)
	}
}

// TestErrorsHideMaskedInputs checks that an error does not show what the inputs hide.
func TestErrorsHideMaskedInputs(t *testing.T) {
	s := store{"r": {
		{Seq: 1, Fact: journal.RunStarted{Format: "awf", Input: value(`{"api_key":"hunter/2 hunter","city":"Rome"}`)}},
		{Seq: 2, Fact: journal.RunFinished{
			Outcome: "failed",
			Error:   "no hunter/2 hunter in Rome: ?k=hunter%2F2%20hunter",
		}},
	}}
	dir := t.TempDir()
	w := open(t, dir, s)
	if err := w.Record(t.Context(), journal.Appended{Pos: 1, Run: "r", Events: s["r"]}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "deep", "audit.jsonl"))
	if err != nil || strings.Contains(string(raw), "hunter") || !strings.Contains(string(raw), "in Rome") {
		t.Errorf("%s, %v", raw, err)
	}
}

// Runs that were started without the trail are not recorded later.
func TestSkippedRunsStaySkipped(t *testing.T) {
	s, appends := world()
	started := s["r1"][0].Fact.(journal.RunStarted)
	started.Options = json.RawMessage(`{"off":true}`)
	s["r1"][0].Fact = started
	for n := range len(appends) { // the writer may start in the middle
		dir := t.TempDir()
		w, err := awfaudit.New(awfaudit.Options{
			Path: filepath.Join(dir, "deep", "audit.jsonl"), Position: filepath.Join(dir, "position"), Source: s,
			Skip: func(s journal.RunStarted) bool { return len(s.Options) > 0 },
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range appends[n:] {
			if err := w.Record(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		if got := read(t, dir); strings.Contains(got, `"r1"`) || strings.Contains(got, `"c1"`) ||
			!strings.Contains(got, `"r3"`) {
			t.Errorf("from append %d: %s", n, got)
		}
	}
}

func TestLongInputsAreCut(t *testing.T) {
	long, middle := strings.Repeat("x", 9000), strings.Repeat("y", 200)
	s := store{"r": {{
		Seq:  1,
		Fact: journal.RunStarted{Format: "awf", Input: value(`{"long":"` + long + `","middle":"` + middle + `"}`)},
	}}}
	dir := t.TempDir()
	w := open(t, dir, s)
	if err := w.Record(t.Context(), journal.Appended{Pos: 1, Run: "r", Events: s["r"]}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, dir); !strings.Contains(got, `"long":"…","middle":"`+middle+`"},"inputs_truncated":true`) {
		t.Error(got)
	}
}

// begun returns the start record of a run with some inputs.
func begun(t *testing.T, input journal.Value, blobs map[string]string) string {
	t.Helper()
	s := store{"r": {{Seq: 1, Fact: journal.RunStarted{Format: "awf", Input: input}}}}
	dir := t.TempDir()
	w, err := awfaudit.New(awfaudit.Options{
		Path:     filepath.Join(dir, "deep", "audit.jsonl"),
		Position: filepath.Join(dir, "position"), Source: stored{s, blobs},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Record(t.Context(), journal.Appended{Pos: 1, Run: "r", Events: s["r"]}); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "deep", "audit.jsonl"))
	if err != nil || len(raw) > 4096+len("\n") || !json.Valid(raw) {
		t.Errorf("%d bytes, %v: %.200s", len(raw), err, raw)
	}
	return string(raw)
}

// stored is a store with large values.
type stored struct {
	store
	blobs map[string]string
}

func (s stored) Blob(_ context.Context, hash string) ([]byte, error) {
	text, ok := s.blobs[hash]
	if !ok {
		return nil, journal.ErrUnknownBlob
	}
	return []byte(text), nil
}

// A line stays short: the longest inputs are truncated first, and all of them are omitted when there are too many. The
// others are unchanged.
func TestLongestInputsAreTruncatedFirst(t *testing.T) {
	text := func(n int, s string) string { return `"` + strings.Repeat(s, n) + `"` }
	for name, c := range map[string]struct {
		input journal.Value
		want  string
	}{
		"as it is": {
			value(`{"q":"<a> & b","n":[1,{"x":null}]}`),
			`"inputs":{"q":"<a> & b","n":[1,{"x":null}]},"schema`,
		},
		"beside a secret": {
			value(`{"q":"<a> & b","token":"x"}`),
			`"inputs":{"q":"<a> & b","token":"[redacted secret]"},"schema`,
		},
		"one is long": {
			value(`{"a":` + text(3000, "x") + `,"b":` + text(2000, "<") + `}`),
			`"inputs":{"a":"…","b":` + text(2000, "<") + `},"inputs_truncated":true,"schema`,
		},
		"all are long": {value(`{"b":` + text(4000, "x") + `,"a":` + text(4000, "y") + `,"c":` + text(5000, "z") +
			`,"d":"<"}`), `"inputs":{"a":"…","b":"…","c":"…","d":"<"},"inputs_truncated":true,"schema`},
		"one is a list": {
			value(`{"a":[` + text(3000, "x") + `,` + text(3000, "x") + `],"b":1}`),
			`"inputs":{"a":"…","b":1},"inputs_truncated":true,"schema`,
		},
		"too many": {value(`{"n0":1` + many(600) + `}`), `"workflow_name":"","inputs_truncated":true,"schema`},
		"stored":   {journal.Value{Hash: "h"}, `"inputs":{"kept":"apart"},"schema`},
		"none":     {value(`{}`), `"workflow_name":"","schema`},
		"null":     {value(`null`), `"workflow_name":"","schema`},
	} {
		got := begun(t, c.input, map[string]string{"h": `{"kept":"apart"}`})
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %.300s", name, got)
		}
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"input` + strconv.Itoa(i) + `":1`)
	}
	return b.String()
}

// ended returns the end record of a run.
func ended(t *testing.T, fact journal.RunFinished) map[string]any {
	t.Helper()
	s := store{"r": {{Seq: 1, Fact: journal.RunStarted{Format: "awf"}}, {Seq: 2, Fact: fact}}}
	dir := t.TempDir()
	if err := open(t, dir, s).Record(t.Context(), journal.Appended{Pos: 1, Run: "r", Events: s["r"]}); err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(read(t, dir), "\n")
	var out map[string]any
	if err := json.Unmarshal([]byte(line), &out); err != nil || len(line) > 4096+len("\n") ||
		strings.Count(line, "\n") != 1 {
		t.Errorf("%d bytes, %v: %.80s", len(line), err, line)
	}
	return out
}

// Long error texts and control characters fit on one line.
func TestLongErrorsAreCut(t *testing.T) {
	for _, words := range []string{
		strings.Repeat("é", 9000), strings.Repeat("\x1b[31m\n", 2000),
		strings.Repeat("\x00", 9000), strings.Repeat("<", 2100),
	} {
		got, _ := ended(t, journal.RunFinished{Outcome: "failed", Error: words})["error"].(string)
		cut, shortened := strings.CutSuffix(got, "…")
		if !shortened || !strings.HasPrefix(words, cut) || len(cut) < 200 {
			t.Errorf("%d of %d: %.40q", len(got), len(words), got)
		}
	}
	fits := strings.Repeat("x", 2000) + "<\n>"
	if got := ended(t, journal.RunFinished{Outcome: "failed", Error: fits})["error"]; got != fits {
		t.Errorf("%.40q", got)
	}
}

// Exit codes are valid, that of a failure is never 0, and secrets in error texts are masked.
func TestExitCodesOfEndings(t *testing.T) {
	key := "ghp_" + strings.Repeat("a1B2", 9)
	for _, c := range []struct {
		fact   journal.RunFinished
		status string
		code   float64
		words  any
	}{
		{journal.RunFinished{Outcome: "ok"}, "success", 0, nil},
		{journal.RunFinished{Outcome: "ok", Status: 3, Error: "x"}, "success", 0, nil},
		{journal.RunFinished{Outcome: "failed", Error: "why", Status: 255}, "failure", 255, "why"},
		{journal.RunFinished{Outcome: "failed", Error: "why", Status: 1}, "failure", 1, "why"},
		{journal.RunFinished{Outcome: "failed", Error: "why", Status: 256}, "failure", 1, "why"},
		{journal.RunFinished{Outcome: "failed", Error: "why", Status: -1}, "failure", 1, "why"},
		{journal.RunFinished{Outcome: "failed", Error: "why"}, "failure", 1, "why"},
		{journal.RunFinished{Outcome: "cancelled"}, "failure", 1, "cancelled"},
		{journal.RunFinished{Outcome: "failed", Error: "with " + key}, "failure", 1, "with [redacted]"},
	} {
		if got := ended(t, c.fact); got["status"] != c.status || got["exit_code"] != c.code || got["error"] != c.words {
			t.Errorf("%+v: %v", c.fact, got)
		}
	}
}

// A torn line stays on a separate line, and its record is written again.
func TestTornLineIsWrittenAgain(t *testing.T) {
	s, appends := world()
	dir := t.TempDir()
	if err := open(t, dir, s).Record(t.Context(), appends...); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "deep", "audit.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) + 1 {
		if n > 0 && n < len(whole) && n%7 > 0 && whole[n-1] != '\n' && whole[n] != '\n' { // a sample of offsets
			continue
		}
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := open(t, dir, s).Record(t.Context(), appends...); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(raw), string(whole[:n])) {
			t.Fatalf("torn at %d: %v, %s", n, err, raw)
		}
		var lines []string
		for line := range strings.Lines(string(raw)) {
			if json.Valid([]byte(line)) {
				lines = append(lines, line)
			}
		}
		if strings.Join(lines, "") != string(whole) {
			t.Fatalf("torn at %d: %s", n, raw)
		}
	}
}

// lock counts its acquisitions.
type lock struct {
	held, taken int
	refused     error
}

func (l *lock) Exclusive() error {
	if l.refused == nil {
		l.held++
		l.taken++
	}
	return l.refused
}

func (l *lock) Unlock() error { l.held--; return nil }

// The lock is held only while lines are written; without it, they are written later.
func TestLockIsHeldForWriting(t *testing.T) {
	s, appends := world()
	dir := t.TempDir()
	turn := &lock{refused: errors.New("it is another's turn")}
	w, err := awfaudit.New(awfaudit.Options{
		Path:     filepath.Join(dir, "deep", "audit.jsonl"),
		Position: filepath.Join(dir, "position"), Source: s, Lock: turn,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Record(t.Context(), appends[1]); err != nil {
		t.Error("nothing was to be written, and yet:", err)
	}
	if err := w.Record(t.Context(), appends[:1]...); err != nil {
		t.Error("that was before:", err)
	}
	if err := w.Record(t.Context(), appends[2:]...); !errors.Is(err, turn.refused) {
		t.Error(err)
	}
	if at, err := open(t, dir, s).At(); at != 0 || err != nil {
		t.Error(at, err)
	}
	turn.refused = nil
	if err := w.Idle(t.Context()); err != nil || turn.held != 0 || turn.taken != 1 {
		t.Error(err, turn)
	}
	if got := strings.Count(read(t, dir), "\n"); got != 5 { // all but the start, which came too late
		t.Errorf("%d lines", got)
	}
	if at, err := open(t, dir, s).At(); at != 5 || err != nil {
		t.Error(at, err)
	}
	if err := errors.Join(w.Idle(t.Context()), w.Close()); err != nil || turn.taken != 1 {
		t.Error(err, turn)
	}
}

// Close saves the position, so that events without records are not read again.
func TestCloseSavesThePosition(t *testing.T) {
	s, appends := world()
	dir := t.TempDir()
	w := open(t, dir, s)
	if err := w.Record(t.Context(), appends[1]); err != nil {
		t.Fatal(err)
	}
	if at, _ := open(t, dir, s).At(); at != 0 {
		t.Error("it is noted for each one:", at)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if at, err := open(t, dir, s).At(); at != 2 || err != nil {
		t.Error(at, err)
	}
	if err := os.Remove(filepath.Join(dir, "position")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "position"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, dir, s).At(); err == nil {
		t.Error("a position that cannot be read is none")
	}
}

// A process that takes over from one that was killed does not read a long run again: the position is saved although the
// run has no new records.
func TestPositionIsSavedDuringLongRuns(t *testing.T) {
	s, _ := world()
	dir := t.TempDir()
	w := open(t, dir, s)
	const rounds = 5000
	for i := range rounds {
		frame := loop.Frame + "/loop/" + strconv.Itoa(i+1)
		seq := journal.Seq(8 + 2*i)
		if err := w.Record(t.Context(), journal.Appended{Pos: journal.Pos(i + 1), Run: "r1", Events: []journal.Event{
			{Seq: seq + 1, Run: child, Fact: journal.FrameOpened{Frame: frame, Parent: loop.Frame, Step: "loop"}},
			{Seq: seq + 2, Run: child, Fact: journal.FrameClosed{Frame: frame}},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	if at, err := open(t, dir, s).At(); err != nil || at < rounds-1024 {
		t.Errorf("the next process starts at %d of %d, %v", at, rounds, err)
	}
}

// The next process writes the records of unreadable runs; later runs are written at once.
func TestUnreadableRunIsRetried(t *testing.T) {
	s, appends := world()
	begins := s["r1"][0].Fact.(journal.RunStarted)
	whole := string(begins.Input.JSON)
	begins.Input = journal.Value{Hash: "h"}
	s["r1"][0].Fact = begins
	dir := t.TempDir()
	blobs := map[string]string{}
	next := func() *awfaudit.Writer {
		w, err := awfaudit.New(awfaudit.Options{
			Path:     filepath.Join(dir, "deep", "audit.jsonl"),
			Position: filepath.Join(dir, "position"), Source: stored{s, blobs},
		})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w := next()
	if err := w.Record(t.Context(), appends...); !errors.Is(err, journal.ErrUnknownBlob) {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if got := read(t, dir); strings.Contains(got, `"r1"`) || strings.Count(got, `"r3"`) != 2 {
		t.Error(got)
	}
	blobs["h"] = whole
	w = next()
	at, err := w.At()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Record(t.Context(), appends[at:]...); err != nil {
		t.Fatal(err)
	}
	sorted := func(text string) []string { return slices.Sorted(strings.Lines(text)) }
	if diff := cmp.Diff(sorted(want), sorted(read(t, dir))); diff != "" {
		t.Error(diff)
	}
}

// counted is a source that counts its reads.
type counted struct {
	store
	reads *int
}

func (c counted) Events(ctx context.Context, run journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	*c.reads++
	return c.store.Events(ctx, run, after)
}

// A stream is read once, not for each round of a loop, and those of other formats are not read.
func TestRoundsDoNotReadTheJournal(t *testing.T) {
	s, _ := world()
	reads := 0
	dir := t.TempDir()
	w, err := awfaudit.New(awfaudit.Options{
		Path:     filepath.Join(dir, "audit.jsonl"),
		Position: filepath.Join(dir, "position"), Source: counted{s, &reads},
	})
	if err != nil {
		t.Fatal(err)
	}
	// Another process has written the start.
	seq := journal.Seq(8)
	for i := range 100 {
		frame := loop.Frame + "/loop/" + strconv.Itoa(i+1)
		round := []journal.Event{
			{Seq: seq + 1, Run: child, Fact: journal.FrameOpened{Frame: frame, Parent: loop.Frame, Step: "loop"}},
			{Seq: seq + 2, Run: child, Fact: journal.FrameClosed{Frame: frame}},
		}
		seq += 2
		other := []journal.Event{{Seq: seq, Fact: journal.FrameClosed{Frame: "x"}}}
		if err := w.Record(t.Context(),
			journal.Appended{Pos: journal.Pos(2*i + 1), Run: "r1", Events: round}); err != nil {
			t.Fatal(err)
		}
		if err := w.Record(t.Context(),
			journal.Appended{Pos: journal.Pos(2*i + 2), Run: "r2", Events: other}); err != nil {
			t.Fatal(err)
		}
	}
	if reads > 4 {
		t.Errorf("the journal was read %d times", reads)
	}
}
