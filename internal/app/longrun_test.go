package app_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
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
			in, err := a.Transcript(t.Context(), run, false)
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
		for _, s := range samples {
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
