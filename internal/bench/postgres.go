package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// onPostgres runs the scenarios of the durable core on both stores. The server runs on the same machine, with its
// default settings: every commit is synced.
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
	schemas := 0
	fresh := func() string {
		schemas++
		return fmt.Sprintf("%s&schema=bench%d", server.URL("postgres"), schemas)
	}
	fmt.Printf("%-16s %24s %24s\n", "", "SQLite", "PostgreSQL")
	for _, s := range []struct{ scenario, name, figure, unit, tail string }{
		{"chain", "chain", "step", "µs/step", ""},
		{"runs-64", "64 × 20", "steps", "steps/s", "gap"},
		{"runs-1000", "1,000 × 20", "steps", "steps/s", "gap"},
		{"fan-out", "fan-out 1,000", "whole", "ms", ""},
	} {
		var cells [2]string
		for i, store := range []func() string{func() string { return "" }, fresh} {
			var values, tails []float64
			for round := range postgresRounds {
				f, err := measureOn(store(), s.scenario, filepath.Join(dir, fmt.Sprint(s.scenario, i, round)))
				if err != nil {
					return fmt.Errorf("%s: %w", s.scenario, err)
				}
				values, tails = append(values, f[s.figure]), append(tails, f[s.tail])
			}
			value := middle(values)
			if s.figure == "step" {
				value /= float64(time.Microsecond)
			}
			cells[i] = fmt.Sprintf("%.0f %s", value, s.unit)
			if s.tail != "" {
				cells[i] += fmt.Sprintf(" (p99 %.0f ms)", middle(tails))
			}
		}
		fmt.Printf("%-16s %24s %24s\n", s.name, cells[0], cells[1])
	}
	for _, workers := range []int{1, 2, 4} {
		rate, err := together(fresh(), workers, filepath.Join(dir, fmt.Sprint("workers", workers)))
		if err != nil {
			return fmt.Errorf("%d workers: %w", workers, err)
		}
		fmt.Printf("%-16s %24s %24s\n", fmt.Sprintf("%d processes", workers), "", fmt.Sprintf("%.0f steps/s", rate))
	}
	return nil
}

// together runs 1,000 × 20 steps in each of several processes on one database, and returns the steps per second of all
// of them.
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
