//go:build unix

package report_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/filelock"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/audit"
	"github.com/espalier-run/espalier/internal/report/reporttest"
	"github.com/espalier-run/espalier/internal/report/transcript"
)

// BenchmarkWriters measures the processor time per step of all records, for a
// thousand runs of twenty steps at the same time.
func BenchmarkWriters(b *testing.B) {
	const runs, steps = 1000, 20
	p, appends := turns(runs, steps)
	shelf := &reporttest.RecordingReader{Pinned: p}
	quiet := slog.New(slog.DiscardHandler)
	lock := func(b *testing.B, dir string) report.Lock {
		l, err := filelock.Open(filepath.Join(dir, ".lock"))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { l.Close() })
		return l
	}
	writers := map[string]func(b *testing.B, dir string) report.Sink{
		"transcript": func(b *testing.B, dir string) report.Sink {
			return transcript.New(transcript.Options{
				Dir: dir, Source: shelf, Program: shelf.Program,
				Lock: lock(b, dir), Log: quiet,
			})
		},
		"audit": func(b *testing.B, dir string) report.Sink {
			return audit.New(audit.Options{
				Dir: dir, Source: shelf, Program: shelf.Program, Lock: lock(b, dir),
				Log: quiet,
			})
		},
	}
	for name, open := range writers {
		for _, size := range []int{1, 256, 4096} {
			b.Run(fmt.Sprintf("%s/batches of %d", name, size), func(b *testing.B) {
				b.ReportAllocs()
				var used time.Duration
				for b.Loop() {
					sink := report.Sinks{open(b, b.TempDir())}
					before := processorTime(b)
					for from := 0; from < len(appends); from += size {
						if err := sink.Record(b.Context(), appends[from:min(from+size, len(appends))]...); err != nil {
							b.Fatal(err)
						}
					}
					if err := sink[0].(interface{ Close() error }).Close(); err != nil {
						b.Fatal(err)
					}
					used += processorTime(b) - before
				}
				b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*runs*steps), "cpu-ns/step")
			})
		}
	}
}

// turns returns runs of a few steps, an append for each step, in turns.
func turns(runs, steps int) (*ir.Program, []journal.Appended) {
	p := &ir.Program{Name: "bench", Blocks: []ir.Block{{}}}
	for i := range steps {
		p.Blocks[0].Steps = append(p.Blocks[0].Steps,
			ir.Step{ID: fmt.Sprintf("step%d", i), Type: "transform", Action: ir.Task{Kind: "transform"}})
	}
	value := journal.Value{JSON: json.RawMessage(`"done well"`)}
	work := func(i int) journal.TaskID {
		return journal.TaskID{Place: journal.Place{Step: fmt.Sprintf("step%d", i)}}
	}
	var out []journal.Appended
	for i := range steps + 1 {
		var facts []journal.Fact
		if i == 0 {
			facts = append(facts, journal.RunStarted{
				Name: "bench", Definition: "d",
				Input: journal.Value{JSON: json.RawMessage("{}")},
			})
		} else {
			facts = append(facts, journal.TaskEnded{
				TaskID: work(i - 1), Outcome: "ok", Value: value,
				Writes: []journal.Write{{Path: fmt.Sprintf("state.step%d", i-1)}}, Final: true,
			})
		}
		if i < steps {
			facts = append(facts, journal.TaskStarted{TaskID: work(i), Kind: "transform"})
		} else {
			facts = append(facts, journal.RunFinished{Outcome: "ok", Output: value})
		}
		var events []journal.Event
		for n, f := range facts {
			events = append(events, journal.Event{
				Seq: journal.Seq(2*i + n + 1),
				At:  journal.Millis(1_772_000_000_000 + 20*i), Fact: f,
			})
		}
		for run := range runs {
			id := journal.RunID(fmt.Sprintf("11111111-1111-4111-8111-%012d", run))
			out = append(out, journal.Appended{Pos: journal.Pos(len(out) + 1), Run: id, Events: events})
		}
	}
	return p, out
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
