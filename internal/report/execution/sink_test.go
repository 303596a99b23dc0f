package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/manifest"
	"github.com/espalier-run/espalier/internal/report/execution"
)

const stamp = "2026-02-23T10-41-22"

func program(context.Context, string) (*ir.Program, error) {
	task := func(produces string) ir.Task {
		t := ir.Task{Kind: "artifact"}
		t.Settings.Put("produces", produces, ir.Program{}.Span)
		return t
	}
	return &ir.Program{Format: "agentfile", Name: "w", Blocks: []ir.Block{{Steps: []ir.Step{
		{ID: "one", Description: "One", Action: task("artifacts/{workflow_name}/{run_id}/01-one.md")},
		{ID: "one:gate", Implied: true, Action: ir.Gate{Decider: ir.Person}},
		{ID: "two", Description: "Two", Action: task("outputs/two.md")},
	}}}}, nil
}

// world is a journal that a writer follows event by event.
type world struct {
	t      *testing.T
	root   string
	store  journal.Store
	writer *execution.Writer
	run    journal.RunID
	seq    journal.Seq
}

func begin(t *testing.T, format, input string) *world {
	w := &world{t: t, root: t.TempDir(), store: memorytest.New(), run: "r"}
	t.Cleanup(func() { w.store.Close() })
	w.writer = execution.New(execution.Options{Root: w.root, Source: w.store, Program: program})
	w.start(format, input, nil)
	return w
}

func (w *world) start(format, input string, from *journal.Origin) {
	w.t.Helper()
	w.add(journal.RunStarted{
		Name: "w", Format: format, Input: journal.Value{JSON: json.RawMessage(input)}, From: from,
		Vars: map[string]journal.Value{"agentfile.run": {JSON: json.RawMessage(`"` + stamp + `"`)}},
	})
}

func (w *world) add(facts ...journal.Fact) {
	w.t.Helper()
	if err := w.append(facts...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) append(facts ...journal.Fact) error {
	w.t.Helper()
	b := journal.Batch{
		Run: w.run, Fence: journal.FirstFence, After: w.seq,
		Index: &journal.Index{Status: journal.Running},
	}
	for _, f := range facts {
		w.seq++
		b.Events = append(b.Events, journal.Event{
			Seq: w.seq,
			At:  journal.Millis(time.Date(2026, 2, 23, 10, 41, 22, 0, time.UTC).UnixMilli()), Fact: f,
		})
	}
	if err := journal.Append(w.t.Context(), w.store, b); err != nil {
		w.t.Fatal(err)
	}
	return w.writer.Record(w.t.Context(), journal.Appended{Run: w.run, Events: b.Events})
}

func (w *world) state() (s execution.State) {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.root, "outputs/w", stamp, "execution", execution.FileName))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func work(step string) journal.TaskID { return journal.TaskID{Place: journal.Place{Step: step}} }

// The record of a run from start to end.
func TestStateOfARunIsWritten(t *testing.T) {
	w := begin(t, "agentfile", `{"AGENT_INPUT":"roses"}`)
	if s := w.state(); s.Status != "running" || s.RunID != stamp || s.Run != "r" || s.Input != "roses" ||
		len(s.Steps) != 2 || s.Steps[0].Status != "pending" {
		t.Errorf("%+v", s)
	}
	w.add(journal.TaskStarted{TaskID: work("one")})
	if s := w.state(); s.Steps[0].Status != "in_progress" || s.Current != "one" {
		t.Errorf("%+v", s)
	}
	w.add(journal.TaskEnded{TaskID: work("one"), Outcome: "ok", Final: true},
		journal.GateOpened{Place: journal.Place{Step: "one:gate"}, Kind: "person"})
	if s := w.state(); s.Steps[0].Status != "awaiting_approval" || s.Status != "awaiting_approval" {
		t.Errorf("%+v", s)
	}
	if err := w.writer.Idle(t.Context()); err != nil { // drops the run from memory
		t.Fatal(err)
	}
	w.add(journal.GateDecided{Place: journal.Place{Step: "one:gate"}, Outcome: "ok", By: journal.Actor{User: "eva"}},
		journal.TaskStarted{TaskID: work("two")})
	if s := w.state(); s.Steps[0].Status != "completed" || s.Steps[0].ApprovedBy != "eva" ||
		s.Steps[0].ApprovedAt == "" || s.Status != "running" {
		t.Errorf("%+v", s)
	}
	w.add(journal.Rewound{Step: "one"})
	if s := w.state(); s.Steps[0].Status != "pending" || s.Steps[1].Status != "pending" {
		t.Errorf("%+v", s)
	}
	w.add(journal.TaskStarted{TaskID: work("one")}, journal.TaskEnded{
		TaskID: work("one"), Outcome: "failed", Error: "no",
		Final: true,
	}, journal.RunFinished{Outcome: "failed"})
	if s := w.state(); s.Status != "failed" || s.Steps[0].Error != "no" || len(s.Errors) != 1 {
		t.Errorf("%+v", s)
	}
}

// Steps that are running or waiting when a run is canceled end with it.
func TestCanceledRunEndsItsSteps(t *testing.T) {
	w := begin(t, "agentfile", `{"AGENT_INPUT":"roses"}`)
	w.add(journal.TaskStarted{TaskID: work("one")}, journal.TaskEnded{TaskID: work("one"), Outcome: "ok", Final: true},
		journal.GateOpened{Place: journal.Place{Step: "one:gate"}, Kind: "person"})
	w.add(journal.RunFinished{Outcome: "cancelled"})
	if s := w.state(); s.Status != "failed" || s.Steps[0].Status != "failed" || s.Steps[0].Error != "cancelled" ||
		s.Steps[1].Status != "pending" {
		t.Errorf("%+v", s)
	}
}

// The manifest mirrors the steps of the workflow that generates.
func TestManifestOfARunIsWritten(t *testing.T) {
	w := begin(t, "agentfile", `{"AGENT_INPUT":"x","workflow_name":"made","run_id":"`+stamp+`"}`)
	dir := manifest.Staged(w.root, "made", stamp)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := manifest.New("made", stamp, "w", "x", time.Unix(0, 0))
	m.Run = "r"
	if err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "01-one.md"), []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.add(journal.TaskStarted{TaskID: work("one")}, journal.TaskEnded{TaskID: work("one"), Outcome: "ok", Final: true})
	m, err := manifest.Read(dir)
	if err != nil || m.Status != manifest.Generating || m.Steps[0].Status != manifest.Completed ||
		m.Steps[1].Status != manifest.Pending {
		t.Fatalf("%+v %v", m, err)
	}
	if f := m.Files[0]; f.Path != "01-one.md" || f.ProducedBy != "one" || f.Role != "clarification" ||
		f.Checksum != manifest.Checksum([]byte("1")) {
		t.Errorf("%+v", f)
	}
	w.add(journal.RunFinished{Outcome: "ok"})
	if m, err = manifest.Read(dir); err != nil || m.Status != manifest.Generated ||
		m.Phases.Generation.Status != manifest.Completed {
		t.Errorf("%+v %v", m, err)
	}
}

// A run that continues another one has what was done before in its record and, if that one
// has failed, its manifest.
func TestContinuedRunSharesRecords(t *testing.T) {
	input := `{"AGENT_INPUT":"x","workflow_name":"made","run_id":"` + stamp + `"}`
	w := begin(t, "agentfile", input)
	dir := manifest.Staged(w.root, "made", stamp)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := manifest.New("made", stamp, "w", "x", time.Unix(0, 0))
	m.Run = "r"
	if err := m.Write(dir); err != nil {
		t.Fatal(err)
	}
	w.add(
		journal.TaskStarted{TaskID: work("one")}, journal.TaskEnded{TaskID: work("one"), Outcome: "ok", Final: true},
		journal.TaskStarted{TaskID: work("two")}, journal.TaskEnded{
			TaskID: work("two"), Outcome: "failed", Error: "no",
			Final: true,
		}, journal.RunFinished{Outcome: "failed"},
	)
	if m, err := manifest.Read(dir); err != nil || m.Status != manifest.Failed {
		t.Fatalf("%+v %v", m, err)
	}
	for i, run := range []journal.RunID{"s", "t"} { // the second one continues the first
		from := &journal.Origin{Run: w.run, Step: "two"}
		w.run, w.seq = run, 0
		w.start("agentfile", input, from)
		if s := w.state(); s.Run != string(run) || s.Status != "running" || s.Steps[0].Status != "completed" ||
			s.Steps[1].Status != "pending" || len(s.Errors) != i+1 {
			t.Errorf("%+v", s)
		}
		if m, err := manifest.Read(dir); err != nil || m.Status != manifest.Generating || m.Run != string(run) ||
			m.Phases.Generation.Status != manifest.InProgress || len(m.Errors) != i+1 {
			t.Errorf("%+v %v", m, err)
		}
		if run == "s" {
			w.add(journal.TaskStarted{TaskID: work("two")},
				journal.TaskEnded{TaskID: work("two"), Outcome: "failed", Error: "no", Final: true},
				journal.RunFinished{Outcome: "failed"})
		}
	}
	w.add(journal.TaskStarted{TaskID: work("two")}, journal.TaskEnded{TaskID: work("two"), Outcome: "ok", Final: true},
		journal.RunFinished{Outcome: "ok"})
	if s := w.state(); s.Status != "completed" || s.Steps[1].Error != "" {
		t.Errorf("%+v", s)
	}
	if m, err := manifest.Read(dir); err != nil || m.Status != manifest.Generated ||
		m.Steps[1].Status != manifest.Completed {
		t.Errorf("%+v %v", m, err)
	}
}

// Runs of other formats have no record.
func TestOtherFormatsHaveNoExecutionRecord(t *testing.T) {
	w := begin(t, "awf", `{}`)
	w.add(journal.RunFinished{Outcome: "ok"})
	if _, err := os.Stat(filepath.Join(w.root, "outputs")); err == nil {
		t.Error("something was written")
	}
}

// What could not be written is written later, without further appends, and
// however many appends came at once.
func TestUnwritableRecordIsRetried(t *testing.T) {
	for name, again := range map[string]func(*world) error{
		"idle":  func(w *world) error { return w.writer.Idle(t.Context()) },
		"close": func(w *world) error { return w.writer.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t, "agentfile", `{}`)
			dir := filepath.Join(w.root, "outputs/w", stamp, "execution")
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(dir, nil, 0o600); err != nil { // prevents the folder
				t.Fatal(err)
			}
			if err := w.append(journal.TaskStarted{TaskID: work("one"), Kind: "artifact"}); err == nil {
				t.Error("no error")
			}
			if err := w.append(journal.RunFinished{Outcome: "cancelled"}); err == nil {
				t.Error("no error")
			}
			if err := again(w); err == nil {
				t.Error("no error")
			}
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := again(w); err != nil {
					t.Fatal(err)
				}
			}
			if s := w.state(); s.Status != "failed" || s.Steps[0].Error != "cancelled" {
				t.Errorf("%+v", s)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := again(w); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("what was written was still pending")
			}
		})
	}
}

// noReads is a journal whose events cannot be read.
type noReads struct{ journal.Store }

func (noReads) Events(context.Context, journal.RunID, journal.Seq) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) { yield(journal.Event{}, errors.New("it was read")) }
}

// A run that is seen from its start is not read, nor is one of another format.
func TestJournalIsReadOnlyIfNeeded(t *testing.T) {
	w := begin(t, "agentfile", `{}`)
	writer := execution.New(execution.Options{Root: w.root, Source: noReads{w.store}, Program: program})
	appends := []journal.Appended{
		{Run: w.run, Events: []journal.Event{{Seq: 1, Fact: journal.RunStarted{
			Name: "w", Format: "agentfile",
			Vars: map[string]journal.Value{"agentfile.run": {JSON: json.RawMessage(`"` + stamp + `"`)}},
		}}}},
		{Run: w.run, Events: []journal.Event{
			{Seq: 2, Fact: journal.TaskStarted{TaskID: work("one"), Kind: "artifact"}},
		}},
	}
	if err := writer.Record(t.Context(), appends...); err != nil {
		t.Fatal(err)
	}
	if s := w.state(); s.Current != "one" {
		t.Errorf("%+v", s)
	}
	other := begin(t, "other", `{}`)
	writer = execution.New(execution.Options{Root: other.root, Source: noReads{other.store}, Program: program})
	if err := writer.Record(t.Context(), journal.Appended{
		Run:    other.run,
		Events: []journal.Event{{Seq: 2, Fact: journal.Claimed{}}},
	}); err != nil {
		t.Fatal(err)
	}
}

// A link in the project does not lead the record out of it.
func TestRecordStaysInTheProject(t *testing.T) {
	w := begin(t, "agentfile", `{}`)
	outside := t.TempDir()
	if err := os.RemoveAll(filepath.Join(w.root, "outputs")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(w.root, "outputs")); err != nil {
		t.Fatal(err)
	}
	if err := w.append(journal.TaskStarted{TaskID: work("one"), Kind: "artifact"}); err == nil {
		t.Error("no error")
	}
	if made, err := os.ReadDir(outside); err != nil || len(made) > 0 {
		t.Errorf("%v, %v", made, err)
	}
}

// counted is a reader that counts the events that are read from it.
type counted struct {
	journal.Reader
	n int
}

func (c *counted) Events(ctx context.Context, run journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range c.Reader.Events(ctx, run, after) {
			if c.n++; !yield(e, err) {
				return
			}
		}
	}
}

// addAttempts adds failed attempts of a step, in appends of fifty.
func (w *world) addAttempts(step string, n int) {
	w.t.Helper()
	var facts []journal.Fact
	for i := range n {
		one := journal.TaskID{Place: journal.Place{Step: step}, Attempt: i}
		facts = append(
			facts, journal.TaskStarted{TaskID: one}, journal.TaskEnded{TaskID: one, Outcome: "failed", Class: "tool"},
		)
	}
	for some := range slices.Chunk(facts, 100) {
		w.add(some...)
	}
}

// Another process continues the record of a long run from a checkpoint. It does not read the run from its start, and
// the record is the same. A run that is over has no checkpoint.
func TestNextProcessContinuesFromACheckpoint(t *testing.T) {
	w := begin(t, "agentfile", `{"AGENT_INPUT":"roses"}`)
	dir := t.TempDir()
	source := &counted{Reader: w.store}
	w.writer = execution.New(execution.Options{Root: w.root, Dir: dir, Source: source, Program: program})
	const rounds = 2000
	w.add(journal.TaskStarted{TaskID: work("one")}, journal.TaskEnded{TaskID: work("one"), Outcome: "ok", Final: true})
	w.addAttempts("two", rounds)
	// The process dies, and the next one reads what follows the checkpoint.
	source.n = 0
	w.writer = execution.New(execution.Options{Root: w.root, Dir: dir, Source: source, Program: program})
	w.add(journal.TaskStarted{TaskID: journal.TaskID{Place: journal.Place{Step: "two"}, Attempt: rounds}})
	if source.n > 1200 {
		t.Errorf("%d of %d events are read", source.n, w.seq)
	}
	got := w.state()
	w.writer = execution.New(execution.Options{Root: w.root, Source: w.store, Program: program})
	w.add(journal.BudgetWait{TaskID: journal.TaskID{Place: journal.Place{Step: "two"}, Attempt: rounds}})
	if diff := cmp.Diff(w.state(), got); diff != "" || got.Steps[0].Status != "completed" ||
		got.Steps[1].Status != "in_progress" {
		t.Errorf("%+v, the record from the start differs: %s", got, diff)
	}
	w.writer = execution.New(execution.Options{Root: w.root, Dir: dir, Source: source, Program: program})
	w.add(journal.RunFinished{Outcome: "ok"})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || w.state().Status != "completed" {
		t.Errorf("left are %v, %v; the record is %+v", left, err, w.state())
	}
}

// A checkpoint of another history, or one that a crash has cut off, is not used.
func TestCheckpointsThatDoNotFitAreIgnored(t *testing.T) {
	for _, damage := range []func(text []byte) []byte{
		func(text []byte) []byte { return text[:len(text)/2] },
		func(text []byte) []byte {
			return []byte(strings.NewReplacer(`"event":"`, `"event":"0`, "roses", "tulips").Replace(string(text)))
		},
		func([]byte) []byte { return []byte(`{"seq":1}`) },
	} {
		w := begin(t, "agentfile", `{"AGENT_INPUT":"roses"}`)
		dir := t.TempDir()
		w.writer = execution.New(execution.Options{Root: w.root, Dir: dir, Source: w.store, Program: program})
		w.addAttempts("one", 600)
		path := filepath.Join(dir, "r.checkpoint")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, damage(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.writer = execution.New(execution.Options{Root: w.root, Dir: dir, Source: w.store, Program: program})
		w.add(journal.TaskStarted{TaskID: work("two")})
		if s := w.state(); s.Input != "roses" || len(s.Steps) != 2 || s.Steps[1].Status != "in_progress" {
			t.Errorf("%+v", s)
		}
	}
}
