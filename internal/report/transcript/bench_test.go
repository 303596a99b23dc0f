package transcript_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// steps returns a run of n steps, with an append for each, as the engine makes them.
func steps(run journal.RunID, n int) (*ir.Program, []journal.Appended) {
	p := &ir.Program{Name: "bench", Blocks: []ir.Block{{}}}
	for i := range n {
		p.Blocks[0].Steps = append(p.Blocks[0].Steps,
			ir.Step{ID: fmt.Sprintf("step%d", i), Type: "transform", Action: ir.Task{Kind: "transform"}})
	}
	value := journal.Value{JSON: json.RawMessage(
		`{"text":"a result of a usual size, which is a sentence or two","n":12}`)}
	at, seq := journal.Millis(1_772_000_000_000), journal.Seq(0)
	event := func(f journal.Fact) journal.Event {
		seq++
		at++
		return journal.Event{Seq: seq, At: at, Fact: f}
	}
	work := func(i int) journal.TaskID {
		return journal.TaskID{Place: journal.Place{Step: fmt.Sprintf("step%d", i)}}
	}
	out := []journal.Appended{{Run: run, Events: []journal.Event{
		event(journal.RunStarted{Name: "bench", Definition: "d"}),
		event(journal.TaskStarted{TaskID: work(0), Kind: "transform"}),
	}}}
	for i := range n {
		a := journal.Appended{Run: run, Events: []journal.Event{event(journal.TaskEnded{
			TaskID: work(i), Outcome: "ok",
			Value: value, Final: true,
		})}}
		if i+1 < n {
			a.Events = append(a.Events, event(journal.TaskStarted{TaskID: work(i + 1), Kind: "transform"}))
		} else {
			a.Events = append(a.Events, event(journal.RunFinished{Outcome: "ok", Output: value}))
		}
		out = append(out, a)
	}
	for i := range out {
		out[i].Pos = journal.Pos(i + 1)
	}
	return p, out
}

func count(appends []journal.Appended) (n int) {
	for _, a := range appends {
		n += len(a.Events)
	}
	return n
}

// BenchmarkInterpreter measures interpretation alone, in memory.
func BenchmarkInterpreter(b *testing.B) {
	p, appends := steps("bench", 1000)
	outline := report.NewOutline(p)
	b.ReportAllocs()
	events := 0
	for b.Loop() {
		in := report.NewInterpreter("bench", func(string) (*report.Outline, error) { return outline, nil })
		for _, a := range appends {
			for i := range a.Events {
				if err := in.Interpret(&a.Events[i], func(*report.Event) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		}
		events += count(appends)
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkRecord measures one long run, append by append, into a file.
func BenchmarkRecord(b *testing.B) {
	p, appends := steps("bench", 1000)
	events := 0
	dir := b.TempDir()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w := writer(dir, &reporttest.RecordingReader{Pinned: p})
		id := journal.RunID(fmt.Sprintf("bench-%d", i))
		for _, a := range appends {
			a.Run = id
			if err := w.Record(b.Context(), a); err != nil {
				b.Fatal(err)
			}
		}
		w.Close()
		events += count(appends)
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkManyRuns measures a thousand concurrent runs of twenty steps.
func BenchmarkManyRuns(b *testing.B) {
	p, appends := steps("bench", 20)
	events := 0
	b.ReportAllocs()
	for round := 0; b.Loop(); round++ {
		w := writer(b.TempDir(), &reporttest.RecordingReader{Pinned: p})
		for _, a := range appends {
			for i := range 1000 {
				a.Run = journal.RunID(fmt.Sprintf("bench-%d", i))
				if err := w.Record(b.Context(), a); err != nil {
					b.Fatal(err)
				}
			}
		}
		w.Close()
		events += 1000 * count(appends)
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkCatchUp measures the comparison with a complete file.
func BenchmarkCatchUp(b *testing.B) {
	p, appends := steps("bench", 1000)
	dir := b.TempDir()
	s := &reporttest.RecordingReader{Pinned: p, Appends: appends}
	w := writer(dir, s)
	defer w.Close()
	events := 0
	for b.Loop() {
		if err := w.CatchUp(b.Context(), "bench"); err != nil {
			b.Fatal(err)
		}
		events += count(appends)
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkWaiting measures the memory of a writer while many runs wait.
func BenchmarkWaiting(b *testing.B) {
	p, appends := steps("bench", 2)
	const n = 20_000
	for b.Loop() {
		w := writer(b.TempDir(), &reporttest.RecordingReader{Pinned: p})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range n {
			a := appends[0]
			a.Run, a.Pos = journal.RunID(fmt.Sprintf("bench-%d", i)), journal.Pos(i+1)
			if err := w.Record(b.Context(), a); err != nil {
				b.Fatal(err)
			}
		}
		for range 2 {
			if err := w.Idle(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/n, "heap-B/run")
		w.Close()
	}
}
