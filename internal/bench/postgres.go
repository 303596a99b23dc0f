package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/pgtest"
	"github.com/espalier-run/espalier/internal/registry"
)

// postgresCommand compares a PostgreSQL store with the SQLite store.
const postgresCommand = "postgres"

// postgresRounds is the number of rounds; the median counts.
const postgresRounds = 3

// onPostgres runs the scenarios of the durable core on both stores, and on DBOS Transact with the same server. The
// server runs on the same machine, with its default settings: every commit is synced.
func onPostgres() error {
	server, err := pgtest.Start()
	if err != nil {
		return err
	}
	defer server.Remove()
	dir, err := os.MkdirTemp("", "espalier-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rival := filepath.Join(dir, "dbos")
	build := exec.Command("go", "build", "-C", "internal/bench/dbos", "-o", rival, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the comparison: %w\n%s", err, out)
	}
	databases := 0
	fresh := func() string {
		databases++
		return fmt.Sprintf("%s&schema=bench%d", server.URL("postgres"), databases)
	}
	systems := []func(scenario, dir string) (figures, error){
		func(scenario, dir string) (figures, error) { return measureOn("", scenario, dir) },
		func(scenario, dir string) (figures, error) { return measureOn(fresh(), scenario, dir) },
		func(scenario, _ string) (figures, error) {
			databases++
			name := fmt.Sprint("dbos", databases)
			if err := server.Create(name); err != nil {
				return nil, err
			}
			return read(exec.Command(rival, server.URL(name), scenario))
		},
	}
	row := func(cells ...any) { fmt.Printf("%-16s %26s %26s %26s %10s\n", cells...) }
	row("", "SQLite", "PostgreSQL", "DBOS on PostgreSQL", "× DBOS")
	for _, s := range []struct {
		scenario, name, figure, unit, tail string
		less                               bool // is better
	}{
		{"chain", "chain", "step", "µs/step", "", true},
		{"runs-64", "64 × 20", "steps", "steps/s", "gap", false},
		{"runs-1000", "1,000 × 20", "steps", "steps/s", "gap", false},
		{"fan-out", "fan-out 1,000", "whole", "ms", "", true},
	} {
		cells, medians := []any{s.name}, make([]float64, len(systems))
		for i, system := range systems {
			var values, tails []float64
			for round := range postgresRounds {
				f, err := system(s.scenario, filepath.Join(dir, fmt.Sprint(s.scenario, i, round)))
				if err != nil {
					return fmt.Errorf("%s: %w", s.scenario, err)
				}
				values, tails = append(values, f[s.figure]), append(tails, f[s.tail])
			}
			medians[i] = middle(values)
			if s.figure == "step" {
				medians[i] /= float64(time.Microsecond)
			}
			cell := fmt.Sprintf("%.0f %s", medians[i], s.unit)
			if s.tail != "" {
				cell += fmt.Sprintf(" (p99 %.0f ms)", middle(tails))
			}
			cells = append(cells, cell)
		}
		times := medians[1] / medians[2]
		if s.less {
			times = 1 / times
		}
		row(append(cells, fmt.Sprintf("%.1f", times))...)
	}
	for workers := 1; workers <= max(4, runtime.NumCPU()); workers *= 2 {
		rate, err := together(fresh(), workers, filepath.Join(dir, fmt.Sprint("workers", workers)))
		if err != nil {
			return fmt.Errorf("%d workers: %w", workers, err)
		}
		row(fmt.Sprintf("%d processes", workers), "", fmt.Sprintf("%.0f steps/s", rate), "", "")
	}
	return nil
}

// together runs 1,000 × 20 steps in each of several processes on one database, and returns the steps per second of all
// of them. The processes start together and do the same work, so the sum of their rates is close to the rate of all.
func together(store string, workers int, dir string) (float64, error) {
	// The first process creates the journal.
	if _, err := measureOn(store, "fan-out", filepath.Join(dir, "first")); err != nil {
		return 0, err
	}
	rates, errs := make([]float64, workers), make([]error, workers)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			var f figures
			if f, errs[i] = measureOn(store, "runs-1000", filepath.Join(dir, fmt.Sprint(i))); errs[i] == nil {
				rates[i] = f["steps"]
			}
		})
	}
	all.Wait()
	sum := 0.0
	for i := range workers {
		if errs[i] != nil {
			return 0, errs[i]
		}
		sum += rates[i]
	}
	return sum, nil
}

// measureOn runs one round of a scenario in a new process.
func measureOn(store, scenario, dir string) (figures, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	cmd := exec.Command(self, measureCommand, scenario, dir)
	cmd.Env = append(os.Environ(), registry.StoreVariable+"="+store)
	return read(cmd)
}

// read returns the figures that a command prints.
func read(cmd *exec.Cmd) (figures, error) {
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var f figures
	return f, json.Unmarshal(out, &f)
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
