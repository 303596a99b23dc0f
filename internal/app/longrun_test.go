package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

const looping = "```step\nid: work\ntype: transform\ndescription: Work once\nwrites: [state.left]\n```\n" +
	"```step\nid: more\ntype: decision\ndescription: Once more\nreads: [state.left]\n" +
	"branches:\n  none: ok\n  default: work\n```\n"

// sampler measures the live heap while events and links are read.
type sampler struct {
	journal.Store
	on  *atomic.Bool
	out *[]uint64
}

const sampleEvery = 4000

func (s sampler) sample(n int) {
	if !s.on.Load() || n%sampleEvery != 0 {
		return
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	*s.out = append(*s.out, m.HeapAlloc)
}

func (s sampler) Events(
	ctx context.Context, run journal.RunID, after journal.Seq,
) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		n := 0
		for e, err := range s.Store.Events(ctx, run, after) {
			if n++; !yield(e, err) {
				return
			}
			s.sample(n)
		}
	}
}

func (s sampler) Links(ctx context.Context, run journal.RunID) iter.Seq2[journal.Link, error] {
	return func(yield func(journal.Link, error) bool) {
		n := 0
		for l, err := range s.Store.Links(ctx, run) {
			if n++; !yield(l, err) {
				return
			}
			s.sample(n)
		}
	}
}

// The records of a long run are verified and shown in constant memory.
func TestReadingTheRecordsOfALongRunTakesConstantMemory(t *testing.T) {
	const turns = 3000
	var on atomic.Bool
	var samples []uint64
	var dir string
	a := project(t, func(o *app.Options) {
		dir, o.Relaxed = o.Dir, true
		o.Journal = func(s journal.Store) journal.Store { return sampler{s, &on, &samples} }
	})
	text := "---\nname: looping\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: A test.\n" +
		"budgets: {max_steps: 100000, max_tokens: 1000000000}\n---\n" + looping + gate
	if err := os.WriteFile(filepath.Join(dir, "looping.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("replies:\n  - step: work\n    reply: {left: some}\n"+
		"  - step: work\n    visit: %d+\n    reply: {left: none}\n", turns)
	run := start(t, a, "looping.md", app.RunOptions{ScriptName: "replies.yaml", Script: script})
	if run.Status != journal.Waiting {
		t.Fatalf("%+v", run)
	}
	var size int64
	for name, read := range map[string]func() error{
		"verify": func() error {
			reports, err := a.VerifyAudit(t.Context(), run)
			if err == nil && !reports[0].OK {
				err = fmt.Errorf("%+v", reports[0].Faults[0])
			}
			return err
		},
		"audit": func() error {
			in, err := a.AuditLog(t.Context(), run)
			if err != nil {
				return err
			}
			defer in.Close()
			size, err = io.Copy(io.Discard, in)
			return err
		},
		"transcript": func() error {
			in, err := a.Transcript(t.Context(), run, nil)
			if err != nil {
				return err
			}
			defer in.Close()
			_, err = io.Copy(io.Discard, in)
			return err
		},
	} {
		samples = nil
		on.Store(true)
		err := read()
		on.Store(false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(samples) < 2 {
			t.Errorf("%s: %d samples were taken", name, len(samples))
			continue
		}
		least, grown := samples[0], uint64(0) // caches of the run itself shrink meanwhile
		for i, s := range samples[1:] {
			s = min(s, samples[i]) // other goroutines allocate, too: what grows is in two samples
			least = min(least, s)
			grown = max(grown, s-least)
		}
		if grown > 1<<20 {
			t.Errorf("%s: the live heap grows by %d bytes: %v", name, grown, samples)
		}
	}
	if size < 4<<20 {
		t.Errorf("the audit log has only %d bytes: the test shows nothing", size)
	}
}

// A trivial step takes at most 2 kB of disk: its facts, its transcript and its audit log. Removing the run removes all.
func TestTrivialStepsTakeLittleSpace(t *testing.T) {
	const steps = 1000
	var o app.Options
	project(t, func(p *app.Options) { p.Relaxed = true; o = *p })
	dir, a := o.Dir, app.New(o)
	workflows := filepath.Join(dir, ".awf", "workflows")
	if err := os.MkdirAll(workflows, 0o700); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("name: loop\nstates:\n  initial: rounds\n"+
		"  rounds: {type: while, while: 'true', max_iterations: %d, body: [work], on_complete: done}\n"+
		"  work: {type: step, command: 'true', on_success: rounds}\n  done: {type: terminal}\n", steps)
	if err := os.WriteFile(filepath.Join(workflows, "loop.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := start(t, a, "loop", allowed)
	if run.Outcome != journal.OutcomeOK {
		t.Fatalf("%+v", run)
	}
	if err := a.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reports, err := a.VerifyAudit(t.Context(), run); err != nil || !reports[0].OK || reports[0].Records < 5*steps {
		t.Fatalf("%+v, %v", reports, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	var total int64
	sizes := ""
	files := func() {
		total, sizes = 0, ""
		err := filepath.WalkDir(filepath.Join(dir, ".espalier"), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			total += info.Size()
			sizes += fmt.Sprintf("%8d %s\n", info.Size(), d.Name())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	files()
	if total > 2000*steps {
		t.Errorf("%d bytes for each of %d steps:\n%s", total/steps, steps, sizes)
	}
	again := app.New(o)
	damage(t, filepath.Join(dir, ".espalier", "storage", "audit", string(run.ID)+".audit.ndjson.gz"))
	if reports, err := again.VerifyAudit(t.Context(), run); err != nil || reports[0].OK {
		t.Errorf("a damaged log is verified: %+v, %v", reports, err)
	}
	if err := again.Remove(t.Context(), run.ID, journal.Removal{}); err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if files(); strings.Contains(sizes, string(run.ID)) {
		t.Errorf("files of a removed run remain:\n%s", sizes)
	}
}

// damage changes a bit in the middle of a file.
func damage(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// counter counts what is read of a store.
type counter struct {
	journal.Store
	events *atomic.Int64
}

func (c counter) Events(ctx context.Context, run journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range c.Store.Events(ctx, run, after) {
			if c.events.Add(1); !yield(e, err) {
				return
			}
		}
	}
}

func (c counter) Tail(ctx context.Context, after journal.Pos) iter.Seq2[journal.Appended, error] {
	return func(yield func(journal.Appended, error) bool) {
		for a, err := range c.Store.Tail(ctx, after) {
			if c.events.Add(int64(len(a.Events))); !yield(a, err) {
				return
			}
		}
	}
}

// A process that comes to a long run reads and allocates no more than for a shorter one: everything starts from
// snapshots and checkpoints.
func TestLongRunsReopenCheaply(t *testing.T) {
	// Snapshots and checkpoints are at most about 1,000 events apart, and there are three readers of them.
	const maxEvents, maxBytes = 5000, 32 << 20
	var o app.Options
	project(t, func(p *app.Options) { p.Relaxed = true; o = *p })
	text := "---\nname: looping\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: A test.\n" +
		"budgets: {max_steps: 100000, max_tokens: 1000000000}\n---\n" + looping + gate
	if err := os.WriteFile(filepath.Join(o.Dir, "looping.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "replies:\n  - step: work\n    reply: {left: some}\n" +
		"  - step: work\n    visit: 3000+\n    reply: {left: none}\n"
	first := app.New(o)
	var runs []*app.Run
	for range 2 {
		runs = append(runs, start(t, first, "looping.md", app.RunOptions{ScriptName: "replies.yaml", Script: script}))
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if runs[0].Seq < 4*maxEvents {
		t.Fatalf("the run has only %d events: the test shows nothing", runs[0].Seq)
	}
	for _, one := range []struct {
		name string
		do   func(*app.App) error
	}{
		{"status", func(a *app.App) error { _, err := a.Status(t.Context(), runs[0].ID); return err }},
		{"pause", func(a *app.App) error {
			_, err := a.Send(t.Context(), runs[0].ID, tester, app.Pause{})
			return err
		}},
		{"resume", func(a *app.App) error {
			r, err := a.PrepareResume(t.Context(), app.ResumeRequest{Run: runs[0].ID, By: tester})
			if err == nil {
				err = a.Resume(t.Context(), r)
			}
			if err == nil {
				_, err = a.Wait(t.Context(), runs[0].ID)
			}
			return err
		}},
		{"approve", func(a *app.App) error {
			if _, err := a.Send(t.Context(), runs[0].ID, tester, app.Approve{}); err != nil {
				return err
			}
			_, err := a.Wait(t.Context(), runs[0].ID)
			return err
		}},
		{"cancel", func(a *app.App) error {
			_, err := a.Send(t.Context(), runs[1].ID, tester, app.Cancel{})
			return err
		}},
	} {
		var events atomic.Int64
		o.Journal = func(s journal.Store) journal.Store { return counter{s, &events} }
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := app.New(o)
		err := one.do(a)
		if err == nil {
			err = a.Flush(t.Context())
		}
		if err := errors.Join(err, a.Close()); err != nil {
			t.Errorf("%s: %v", one.name, err)
		}
		runtime.ReadMemStats(&after)
		if n := events.Load(); n > maxEvents {
			t.Errorf("%s: %d events are read of a run with %d", one.name, n, runs[0].Seq)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > maxBytes {
			t.Errorf("%s: %d bytes are allocated", one.name, n)
		}
		t.Logf("%s: %d events, %d bytes", one.name, events.Load(), after.TotalAlloc-before.TotalAlloc)
	}
}
