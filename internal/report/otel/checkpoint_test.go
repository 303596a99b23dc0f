package otel_test

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/otel"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// savedAnywhere saves and restores a Tracer after each event of a stream. It has to make the same spans and
// measurements as one that is not saved.
func savedAnywhere(t *testing.T, p *ir.Program, root journal.RunID, events []journal.Event) {
	t.Helper()
	for _, content := range []bool{false, true} {
		begin := func() *otel.Tracer {
			return otel.NewTracer(root, otel.TracerOptions{
				Names: otel.FromEnvironment(variables{}.getenv).Names, Content: content,
				Outline: func(string) (*report.Outline, error) { return report.NewOutline(p), nil },
			})
		}
		whole, pieces := begin(), begin()
		for _, e := range events {
			var want, got otel.Yield
			if err := whole.Apply(&e, &want); err != nil {
				t.Fatal(err)
			}
			if err := pieces.Apply(&e, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(otel.Point{}), protocmp.Transform()); diff != "" {
				t.Fatalf("event %d, %T: %s", e.Seq, e.Fact, diff)
			}
			raw, err := pieces.Save()
			if err != nil {
				t.Fatal(err)
			}
			pieces = begin()
			if err := pieces.Restore(raw); err != nil {
				t.Fatalf("after event %d, %T: %v", e.Seq, e.Fact, err)
			}
		}
	}
}

func TestTracerCanBeSavedAnywhere(t *testing.T) {
	for _, r := range reporttest.All(t) {
		t.Run(r.Name, func(t *testing.T) {
			streams := map[journal.RunID][]journal.Event{}
			for _, a := range r.Appends {
				streams[a.Run] = append(streams[a.Run], a.Events...)
			}
			for run, events := range streams {
				savedAnywhere(t, r.Program, run, events)
			}
		})
	}
}

// counted counts the events that are read.
type counted struct {
	journal.EventReader
	n int
}

func (c *counted) Events(ctx context.Context, run journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range c.EventReader.Events(ctx, run, after) {
			if c.n++; !yield(e, err) {
				return
			}
		}
	}
}

// A process that continues a long run starts from a checkpoint, and delivers what one process would have delivered.
// When the run is over, nothing is left of it.
func TestNextProcessContinuesFromACheckpoint(t *testing.T) {
	const run, rounds = journal.RunID("00000000-0000-4000-8000-000000000001"), 2000
	p := &ir.Program{Name: "long", Format: "awf", Blocks: []ir.Block{{Steps: []ir.Step{
		{ID: "again", Type: "task", Action: ir.Task{Kind: "command"}},
	}}}}
	var events []journal.Event
	add := func(facts ...journal.Fact) {
		for _, f := range facts {
			seq := journal.Seq(len(events) + 1)
			events = append(events, journal.Event{Seq: seq, At: journal.Millis(1_772_000_000_000 + seq), Fact: f})
		}
	}
	add(journal.RunStarted{Name: "long", Format: "awf"})
	place := journal.Place{Step: "again"}
	for range rounds {
		add(
			journal.StepEntered{Place: place},
			journal.TaskStarted{TaskID: journal.TaskID{Place: place}, Kind: "command"},
			journal.TaskEnded{TaskID: journal.TaskID{Place: place}, Outcome: journal.OutcomeOK, Final: true},
		)
	}
	add(journal.RunFinished{Outcome: journal.OutcomeOK})
	batch := func(from, to int) journal.Appended { return journal.Appended{Run: run, Events: events[from:to]} }
	all := []journal.Appended{
		batch(0, 4000), batch(4000, 4001), batch(4001, len(events)-1), batch(len(events)-1, len(events)),
	}

	alone := export(t, &reporttest.Recording{Program: p, Appends: all}, nil, nil)
	c, dir := reporttest.NewCollector(t), t.TempDir()
	for i := range all {
		var source *counted
		l := newLife(t, dir, p, variables{}.at(c), func(o *otel.Options) {
			source = &counted{EventReader: o.Source}
			o.Source = source
		})
		l.shelf.Appends = all[:i]
		l.sees(all[:i+1])
		if s := l.Close(time.Minute); s.Waiting+s.Refused > 0 || s.Problem != "" || s.Unreadable != nil {
			t.Fatalf("%+v", s)
		}
		if fresh := len(all[i].Events); source.n > fresh+1100 {
			t.Errorf("process %d reads %d events; %d are new", i, source.n, fresh)
		}
	}
	tell := reporttest.Tree(c.Spans(), formatSpan)
	if diff := cmp.Diff(reporttest.Tree(alone.Spans(), formatSpan), tell); diff != "" {
		t.Error(diff)
	}
	if want := rounds + 1; len(c.Spans()) != want {
		t.Errorf("%d spans, want %d", len(c.Spans()), want)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*checkpoint*")); err != nil || len(left) > 0 {
		t.Errorf("left are %q, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(dir, string(run))); err == nil {
		t.Error("the cursor is left")
	}
}
