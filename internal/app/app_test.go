package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

const head = "---\nname: %s\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: A test.\n---\n"

const gate = "```step\nid: ok\ntype: gate\ngate_method: human_review\ndescription: May we\nwrites: [state.ok]\n```\n"

const command = "```step\nid: hello\ntype: transform\ndescription: Say hello\nwrites: [output]\n" +
	"code:\n  language: sh\n  script: printf '\"Hello\"'\n```\n"

const failing = "```step\nid: fails\ntype: transform\ndescription: Fail\nwrites: [output]\n" +
	"code:\n  language: sh\n  script: exit 1\nretry: {max_attempts: 2, backoff_ms: [600000]}\n```\n"

const ask = "```step\nid: ask\ntype: transform\ndescription: Say hello\nwrites: [output]\n```\n"

var tester = journal.Actor{User: "tester"}

// project returns an App for a folder with workflows.
func project(t *testing.T, set func(*app.Options)) *app.App {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	for name, steps := range map[string]string{
		"gated": gate + command, "shell": command, "asks": ask, "late": ask + gate, "early": gate + ask,
		"repeats": failing, "broken": "```step\nid: x\ntype: transfrom\n```\n",
	} {
		text := fmt.Sprintf(head, name) + steps
		if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := app.Options{Dir: dir, Home: home, Getenv: func(name string) string {
		return map[string]string{"HOME": home, "PATH": os.Getenv("PATH")}[name]
	}}
	if set != nil {
		set(&o)
	}
	a := app.New(o)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func prepare(t *testing.T, a *app.App, workflow string, o app.RunOptions) *app.Prepared {
	t.Helper()
	an, err := a.Analyze(t.Context(), app.AnalyzeRequest{Workflow: workflow})
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Prepare(t.Context(), app.PrepareRequest{Workflow: an, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// start starts a run and waits until it is at rest.
func start(t *testing.T, a *app.App, workflow string, o app.RunOptions) *app.Run {
	t.Helper()
	id, err := a.Start(t.Context(), prepare(t, a, workflow, o), "", tester)
	if err != nil {
		t.Fatal(err)
	}
	run, err := a.Wait(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

var allowed = app.RunOptions{AllowShell: true}

func TestConcurrentStartsShareOneApp(t *testing.T) {
	a := project(t, nil)
	const each = 8
	var all sync.WaitGroup
	var mu sync.Mutex
	ids := map[journal.RunID]bool{}
	for i := range 2 * each {
		o := allowed
		if i%2 == 1 {
			o = app.RunOptions{Simulate: true} // another configuration, and so another engine on the same store
		}
		all.Go(func() {
			run := start(t, a, "shell", o)
			end, err := a.Ending(t.Context(), run)
			if err != nil || end.Outcome != journal.OutcomeOK || o.AllowShell &&
				string(end.Output) != `{"result":"Hello"}` {
				t.Errorf("%+v, %v", end, err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[run.ID] = true
		})
	}
	all.Wait()
	runs, err := a.Runs(t.Context(), app.Filter{Status: journal.Finished})
	if err != nil || len(runs) != 2*each || len(ids) != 2*each {
		t.Errorf("%d runs, %d ids, %v", len(runs), len(ids), err)
	}
}

// A process that has found a run learns that another one has removed it meanwhile.
func TestRemovedRunsAreReportedAsGone(t *testing.T) {
	a, ctx := project(t, nil), t.Context()
	run := start(t, a, "gated", allowed)
	if _, err := a.Send(ctx, run.ID, tester, app.Cancel{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Wait(ctx, run.ID); err != nil {
		t.Fatal(err)
	}
	if err := a.Remove(ctx, run.ID, journal.Removal{}); err != nil {
		t.Fatal(err)
	}
	for name, act := range map[string]func() error{
		"approve": func() error { _, err := a.Send(ctx, run.ID, tester, app.Approve{}); return err },
		"cancel":  func() error { _, err := a.Send(ctx, run.ID, tester, app.Cancel{}); return err },
		"wait":    func() error { _, err := a.Wait(ctx, run.ID); return err },
		"resume":  func() error { _, err := a.PrepareResume(ctx, app.ResumeRequest{Run: run.ID}); return err },
		"remove":  func() error { return a.Remove(ctx, run.ID, journal.Removal{}) },
	} {
		if err := act(); !is(err, app.NotFound, app.NoRun) {
			t.Errorf("%s: %#v", name, err)
		}
	}
}

func TestErrorsHaveKindsAndReasons(t *testing.T) {
	a, ctx := project(t, nil), t.Context()
	if _, err := a.Runs(ctx, app.Filter{}); !is(err, app.NotFound, app.NoRuns) {
		t.Errorf("no storage: %#v", err)
	}
	if _, err := a.Analyze(ctx, app.AnalyzeRequest{Workflow: "gatd"}); !is(err, app.NotFound, app.NoWorkflow) {
		t.Errorf("unknown workflow: %#v", err)
	}
	invalid := prepare(t, a, "broken", app.RunOptions{}).Err()
	if !is(invalid, app.InvalidWorkflow, "") || len(invalid.(*app.Error).Diagnostics) == 0 {
		t.Errorf("invalid workflow: %#v", invalid)
	}
	missing := prepare(t, a, "asks", app.RunOptions{}).Err()
	if !is(missing, app.NotReady, app.MissingModels) || missing.(*app.Error).Missing[0].Steps[0] != "ask" {
		t.Errorf("no model: %#v", missing)
	}
	consent := prepare(t, a, "gated", app.RunOptions{}).Err()
	if !is(consent, app.NotReady, app.NeedsConsent) || len(consent.(*app.Error).Commands) != 1 {
		t.Errorf("no consent: %#v", consent)
	}
	run := start(t, a, "gated", allowed)
	if _, err := a.Start(ctx, prepare(t, a, "gated", allowed), run.ID, tester); !is(err, app.Conflict, app.RunExists) {
		t.Errorf("run id taken: %#v", err)
	}
	if err := a.Remove(ctx, run.ID, journal.Removal{}); !is(err, app.Conflict, app.RunUnfinished) {
		t.Errorf("removing an unfinished run: %#v", err)
	}
	if _, err := a.Find(ctx, "ffffffff"); !is(err, app.NotFound, app.NoRun) {
		t.Errorf("unknown run: %#v", err)
	}
	if _, err := a.Send(ctx, run.ID, tester, app.Approve{Digest: "stale"}); !is(err, app.Refused, "") {
		t.Errorf("stale digest: %#v", err)
	}
	if _, err := a.Send(ctx, run.ID, tester, app.Approve{}); err != nil {
		t.Fatal(err)
	}
	if run, err := a.Wait(ctx, run.ID); err != nil || run.Status != journal.Finished {
		t.Fatal(run, err)
	}
	if _, err := a.Send(ctx, run.ID, tester, app.Approve{Step: "ok"}); !is(err, app.Refused, app.AlreadyDecided) {
		t.Errorf("second decision: %#v", err)
	}
	if _, err := a.PrepareResume(ctx, app.ResumeRequest{Run: run.ID}); !is(err, app.Conflict, app.RunFinished) {
		t.Errorf("resuming a finished run: %#v", err)
	}
}

func is(err error, kind app.ErrorKind, reason app.Reason) bool {
	var e *app.Error
	return errors.As(err, &e) && e.Kind == kind && e.Reason == reason
}

func TestPrepareReportsAllFindingsAtOnce(t *testing.T) {
	a := project(t, nil)
	an, err := a.Analyze(t.Context(), app.AnalyzeRequest{Workflow: "gated"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.Prepare(t.Context(), app.PrepareRequest{Workflow: an, Fields: []app.Field{{Text: "a"}, {Text: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	var reasons []app.Reason
	for _, f := range p.Findings {
		if f.Problem != nil {
			reasons = append(reasons, f.Problem.Reason)
		}
	}
	if !slices.Equal(reasons, []app.Reason{app.UnnamedInput, app.NeedsConsent}) {
		t.Errorf("found %v", reasons)
	}
	if _, err := a.Start(t.Context(), p, "", tester); err == nil {
		t.Error("a run with problems was started")
	}
}

type seen struct {
	pos  journal.Pos
	text string
}

// watch collects events until a run finishes.
func watch(t *testing.T, a *app.App, run journal.RunID, after journal.Pos) (out []seen) {
	t.Helper()
	for e, err := range a.Watch(t.Context(), app.WatchRequest{Run: run, After: after}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, seen{e.Pos, fmt.Sprintf("%s %d %s", e.Run.ID, e.Seq, e.Type)})
		if e.Type == report.RunFinished {
			break
		}
	}
	return out
}

func TestWatchContinuesAtAPositionWithoutGapsOrDuplicates(t *testing.T) {
	a := project(t, nil)
	other, run := start(t, a, "shell", allowed), start(t, a, "gated", allowed)
	if _, err := a.Send(t.Context(), run.ID, tester, app.Approve{}); err != nil {
		t.Fatal(err)
	}
	whole := watch(t, a, run.ID, 0)
	if len(whole) < 6 {
		t.Fatalf("events: %v", whole)
	}
	for i, e := range whole[:len(whole)-1] {
		if e.pos == whole[i+1].pos {
			continue // positions are those of appends
		}
		if rest := watch(t, a, run.ID, e.pos); !slices.Equal(rest, whole[i+1:]) {
			t.Errorf("after %d: %v, want %v", e.pos, rest, whole[i+1:])
		}
	}
	if all := watch(t, a, "", 0); !strings.HasPrefix(all[0].text, string(other.ID)) {
		t.Errorf("all runs: %v", all)
	}
}

// hooked is a store that calls a function after it has read the index of a run.
type hooked struct {
	journal.Store
	entry *func()
}

func (h hooked) Entry(ctx context.Context, id journal.RunID) (journal.Entry, error) {
	entry, err := h.Store.Entry(ctx, id)
	if then := *h.entry; then != nil && err == nil {
		*h.entry = nil
		then()
	}
	return entry, err
}

func TestFollowedTranscriptEndsWhenTheRunFinishesWhileItIsLookedAt(t *testing.T) {
	var then func()
	a := project(t, func(o *app.Options) {
		o.Journal = func(s journal.Store) journal.Store { return hooked{s, &then} }
	})
	run := start(t, a, "gated", allowed)
	in, err := a.Transcript(t.Context(), run, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	then = func() {
		if _, err := a.Send(t.Context(), run.ID, tester, app.Approve{}); err != nil {
			t.Error(err)
		}
		if _, err := a.Wait(t.Context(), run.ID); err != nil {
			t.Error(err)
		}
	}
	text, err := io.ReadAll(in)
	if err != nil || !strings.Contains(string(text), `"run.completed"`) {
		t.Errorf("%v: %s", err, text)
	}
}

func TestRecordOnlyLeavesRunsToAWorker(t *testing.T) {
	var o app.Options
	recorder := project(t, func(set *app.Options) { set.RecordOnly, o = true, *set })
	id, err := recorder.Start(t.Context(), prepare(t, recorder, "shell", allowed), "", tester)
	if err != nil {
		t.Fatal(err)
	}
	recorder.Release()
	left, err := recorder.Get(t.Context(), id)
	if err != nil || left.Status != journal.Running || !left.Idle {
		t.Fatalf("%+v, %v", left, err)
	}
	o.RecordOnly = false
	worker := app.New(o)
	defer worker.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Work(ctx, func(string) {}, func(*app.Run, *app.Error) {}) }()
	for e, err := range recorder.Watch(t.Context(), app.WatchRequest{Run: id}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == report.RunFinished {
			break
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What a run can still use is what the steps that can still run use, not what the budgets leave.
func TestDoneStepsUseNothingMore(t *testing.T) {
	a := project(t, nil)
	simulated := app.RunOptions{Simulate: true}
	rest, err := a.Remaining(t.Context(), start(t, a, "late", simulated))
	if err != nil || rest.Steps.N != 0 || rest.ToolCalls.N != 0 || rest.Tokens.N != 0 || rest.Money.AtMost != 0 {
		t.Errorf("after the last model call: %+v, %v", rest, err)
	}
	rest, err = a.Remaining(t.Context(), start(t, a, "early", simulated))
	if err != nil || rest.Steps.N != 1 || rest.Tokens.N < 4096 {
		t.Errorf("before the model call: %+v, %v", rest, err)
	}
}

// An approval that no person gives is for runs in which nothing is real.
func TestRealRunsAreNotApprovedAutomatically(t *testing.T) {
	a, ctx := project(t, nil), t.Context()
	const played = "replies: []\n"
	automatic := app.Approve{Automated: true}
	for name, c := range map[string]struct {
		workflow string
		options  app.RunOptions
		real     string
	}{
		"real": {"gated", allowed, "is not simulated"},
		"a real command": {
			"gated", app.RunOptions{Script: played, ScriptName: "s", AllowShell: true}, "the command of hello",
		},
		"a played model":  {"early", app.RunOptions{Script: played, ScriptName: "s"}, ""},
		"a simulated run": {"gated", app.RunOptions{Simulate: true}, ""},
	} {
		id, err := a.Start(ctx, prepare(t, a, c.workflow, c.options), "", tester)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := a.Wait(ctx, id); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err = a.Send(ctx, id, tester, automatic)
		refused := app.AsError(err)
		if c.real == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.real != "" && (refused == nil || refused.Reason != app.NotOffline ||
			!strings.HasSuffix(refused.Message, c.real)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
