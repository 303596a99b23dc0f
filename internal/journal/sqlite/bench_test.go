package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/journaltest"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
)

// Figures are given as ratios to the least that durability can cost on the
// machine at that moment: appending 256 bytes to a file and syncing it. Run
// with -benchtime 5x; an iteration is a whole scenario on a fresh store.

// rawAppendTime is the time of one append of 256 bytes with its sync.
func rawAppendTime(b *testing.B) time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	line := make([]byte, 256)
	const n = 500
	took := make([]time.Duration, n)
	for i := range n {
		start := time.Now()
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := syncData(f); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(start)
	}
	var sum time.Duration
	for _, t := range took {
		sum += t
	}
	return sum / n
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func median[T int64 | float64 | time.Duration](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

func benchmarkChain(b *testing.B, o sqlite.Options) {
	const steps = 1000
	ctx := context.Background()
	var perStep, ratio, base []float64
	for b.Loop() {
		reference := rawAppendTime(b)
		s := openWith(b, b.TempDir(), o)
		journaltest.Append(b, s, journaltest.Start("a", "me"))
		start := time.Now()
		for i := range steps {
			if err := journal.Append(ctx, s, journaltest.Steps("a", 1, journal.Seq(1+2*i), 2)); err != nil {
				b.Fatal(err)
			}
		}
		each := time.Since(start) / steps
		s.Close()
		base, perStep, ratio = append(base, micros(reference)), append(perStep, micros(each)), append(
			ratio, float64(each)/float64(reference),
		)
	}
	b.ReportMetric(median(base), "µs-bare")
	b.ReportMetric(median(perStep), "µs/step")
	b.ReportMetric(median(ratio), "×bare/step")
}

func BenchmarkChain1000(b *testing.B)        { benchmarkChain(b, sqlite.Options{}) }
func BenchmarkChain1000Relaxed(b *testing.B) { benchmarkChain(b, sqlite.Options{Relaxed: true}) }

// carryOn appends to a run from its own callbacks, as the engine does.
func carryOn(s journal.Store, id journal.RunID, steps int, gap func(time.Duration), done func(error)) {
	seq, left, last := journal.Seq(1), steps, time.Now()
	var next func(error)
	next = func(err error) {
		now := time.Now()
		gap(now.Sub(last))
		last = now
		if err != nil || left == 0 {
			done(err)
			return
		}
		left--
		b := journaltest.Steps(id, 1, seq, 2)
		seq = b.LastSeq()
		s.Append(b, next)
	}
	s.Append(journaltest.Start(id, "me"), next)
}

func benchmarkRuns(b *testing.B, runs, steps int, o sqlite.Options) {
	var rate, ratio, p99 []float64
	for b.Loop() {
		reference := rawAppendTime(b)
		s := openWith(b, b.TempDir(), o)
		gaps := make([][]time.Duration, runs)
		var wg sync.WaitGroup
		wg.Add(runs)
		start := time.Now()
		for n := range runs {
			carryOn(s, journal.RunID(fmt.Sprint("run-", n)), steps, func(d time.Duration) {
				gaps[n] = append(gaps[n], d)
			}, func(err error) {
				if err != nil {
					b.Error(err)
				}
				wg.Done()
			})
		}
		wg.Wait()
		each := time.Since(start) / time.Duration(runs*(steps+1))
		s.Close()
		all := slices.Concat(gaps...)
		slices.Sort(all)
		rate = append(rate, float64(time.Second)/float64(each))
		ratio = append(ratio, float64(reference)/float64(each))
		p99 = append(p99, float64(all[len(all)*99/100])/float64(time.Millisecond))
	}
	b.ReportMetric(median(rate), "appends/s")
	b.ReportMetric(median(ratio), "×bare-rate")
	b.ReportMetric(median(p99), "ms-p99-gap")
}

func BenchmarkRuns64x20(b *testing.B)   { benchmarkRuns(b, 64, 20, sqlite.Options{}) }
func BenchmarkRuns1000x20(b *testing.B) { benchmarkRuns(b, 1000, 20, sqlite.Options{}) }
func BenchmarkRuns1000x20Relaxed(b *testing.B) {
	benchmarkRuns(b, 1000, 20, sqlite.Options{Relaxed: true})
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s := open(b, dir)
	journaltest.Append(b, s, journaltest.Start("a", "me"))
	s.Close()
	keep := open(b, dir) // another process has it open, as with serve
	defer keep.Close()
	var took, first []float64
	for b.Loop() {
		start := time.Now()
		s := open(b, dir)
		took = append(took, micros(time.Since(start)))
		if _, err := s.Entry(context.Background(), "a"); err != nil {
			b.Fatal(err)
		}
		first = append(first, micros(time.Since(start)))
		s.Close()
	}
	b.ReportMetric(median(took), "µs-open")
	b.ReportMetric(median(first), "µs-to-first-read")
}

func BenchmarkOpenNew(b *testing.B) {
	var took []float64
	for b.Loop() {
		dir := b.TempDir()
		start := time.Now()
		s := open(b, dir)
		took = append(took, micros(time.Since(start)))
		s.Close()
	}
	b.ReportMetric(median(took), "µs-open")
}

func BenchmarkRead10000(b *testing.B) {
	s := open(b, b.TempDir())
	defer s.Close()
	journaltest.Append(b, s, journaltest.Start("a", "me"))
	for i := range 5000 {
		journaltest.Append(b, s, journaltest.Steps("a", 1, journal.Seq(1+2*i), 2))
	}
	for b.Loop() {
		if got := journaltest.Events(b, s, "a", 0); len(got) != 10001 {
			b.Fatal(len(got))
		}
	}
	b.ReportMetric(micros(b.Elapsed())/float64(b.N)/10001, "µs/event")
}

// A message from this process while another one appends without pause.
func BenchmarkPostBesideABusyProcess(b *testing.B) {
	dir := b.TempDir()
	_, out := startProcess(b, "own", dir)
	if !out.Scan() || out.Text() != "ready" {
		b.Fatalf("the other process: %s", out.Text())
	}
	s := open(b, dir)
	defer s.Close()
	var took []time.Duration
	before, err := s.Last(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		start := time.Now()
		if _, err := s.Enqueue(context.Background(), "shared", journal.Message{Kind: "x"}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	after, err := s.Last(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	b.ReportMetric(float64(after-before)/b.Elapsed().Seconds(), "appends/s-beside")
	b.ReportMetric(micros(took[len(took)/2]), "µs-median")
	b.ReportMetric(micros(took[len(took)-1]), "µs-worst")
}

func BenchmarkClaim(b *testing.B) {
	s := open(b, b.TempDir())
	defer s.Close()
	journaltest.Append(b, s, journaltest.Start("a", "me"))
	for i := 0; b.Loop(); i++ {
		if _, err := s.Claim(context.Background(), "a", journal.Owner(fmt.Sprint(i))); err != nil {
			b.Fatal(err)
		}
	}
}
