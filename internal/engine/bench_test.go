package engine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
	"github.com/espalier-run/espalier/internal/step"
)

// bare is what everything is measured against: the same machine, the same
// moment, a loop of appending 256 bytes and making them durable.
func bare(b *testing.B, dir string) time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(dir, "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	line := make([]byte, 256)
	const n = 300
	begin := time.Now()
	for range n {
		if _, err := f.Write(line); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(begin) / n
}

func chainOf(n int) *ir.Program {
	steps := make([]ir.Step, n)
	for i := range steps {
		steps[i] = task(fmt.Sprintf("s%d", i))
	}
	return program(steps)
}

// BenchmarkRuns measures runs of chains: how long a step takes, and how that
// compares with making 256 bytes durable.
func BenchmarkRuns(b *testing.B) {
	for _, c := range []struct {
		name        string
		runs, steps int
		relaxed     bool
	}{
		{"1x1000/full", 1, 1000, false},
		{"1x1000/relaxed", 1, 1000, true},
		{"64x20/full", 64, 20, false},
		{"1000x20/full", 1000, 20, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			var ratios []float64
			def := &engine.Definition{Program: chainOf(c.steps)}
			for b.Loop() {
				dir := b.TempDir()
				base := bare(b, dir)
				store, err := sqlite.Open(filepath.Join(dir, "j.db"), sqlite.Options{Relaxed: c.relaxed})
				if err != nil {
					b.Fatal(err)
				}
				e := engine.New(engine.Config{
					Store: store, Process: &solo{id: "one", wakes: make(chan struct{})},
					Kinds: map[string]step.Runner{"test": newKind()},
				})
				ids := make([]journal.RunID, c.runs)
				begin := time.Now()
				for i := range ids {
					ids[i] = journal.RunID(uuid.NewString())
					if err := e.Start(b.Context(), ids[i], def, json.RawMessage("{}"), nil, journal.Actor{}); err != nil {
						b.Fatal(err)
					}
				}
				for _, id := range ids {
					if _, err := e.Wait(b.Context(), id); err != nil {
						b.Fatal(err)
					}
				}
				took := time.Since(begin) / time.Duration(c.runs*c.steps)
				stop(e)
				if err := store.Close(); err != nil {
					b.Fatal(err)
				}
				ratios = append(ratios, float64(took)/float64(base))
				b.ReportMetric(float64(took.Microseconds()), "µs/step")
				b.ReportMetric(float64(base.Microseconds()), "µs/bare")
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "×bare")
		})
	}
}
