package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The durable core is measured in child processes; each round uses a new process and a new folder. `measure` runs one
// round of one scenario, `play` runs an additional process that a round needs.
const (
	coreCommand    = "core"    // [SCENARIO…]
	measureCommand = "measure" // SCENARIO FOLDER
	playCommand    = "play"    // PART FOLDER ARGUMENTS…
)

// figures maps names to the measured values of a round.
type figures map[string]float64

// line is one row of the table. Several rows can show figures of one scenario, which is measured once.
type line struct {
	scenario, what, level string
	// figure is compared with the target; note formats it together with other figures of the round.
	figure  string
	atLeast bool
	target  float64
	unit    string
	note    func(figures) string
	// costs names what dominates the time, for the note under the table if the target is missed.
	costs string
}

// largest is the scenario that needs gigabytes.
const largest = "waiting"

const (
	full    = "full"
	relaxed = "relaxed"
	rounds  = 5
)

const (
	fsyncCosts = "waiting for the disk: one fsync of the write-ahead log per step, while the records are written " +
		"beside it"
	manyCosts = "processor time, on all cores: about half of it goes into the records, two files for every run; of " +
		"the rest a third are SQLite's statements"
)

var lines = []line{
	{
		scenario: "chain", what: "one run of 1,000 steps, per step", level: full, figure: "ratio", target: 2,
		unit: "× bare", costs: fsyncCosts,
		note: func(f figures) string { return micros(f["step"]) },
	},
	{
		scenario: "chain-relaxed", what: "one run of 1,000 steps, per step", level: relaxed, figure: "ratio",
		target: 0.9, unit: "× bare",
		costs: "SQLite: half of the processor time is its statements and its commit; then the engine, and the " +
			"records beside it",
		note: func(f figures) string { return micros(f["step"]) },
	},
	{
		scenario: "runs-64", what: "64 runs of 20 steps, rate", level: full, figure: "rate", atLeast: true, target: 3,
		unit:  "× bare rate",
		costs: manyCosts,
		note:  func(f figures) string { return fmt.Sprintf("%.0f steps/s", f["steps"]) },
	},
	{
		scenario: "runs-1000", what: "1,000 runs of 20 steps, rate", level: full, figure: "rate", atLeast: true,
		target: 4, unit: "× bare rate",
		costs: manyCosts,
		note:  func(f figures) string { return fmt.Sprintf("%.0f steps/s", f["steps"]) },
	},
	{
		scenario: "runs-1000", what: "  time between two steps of a run, 99 %", level: full, figure: "gap", target: 40,
		unit:  "ms",
		costs: "the queue before the one committer: a run waits until all others had their turn",
		note:  func(f figures) string { return fmt.Sprintf("median %.1f ms", f["gap50"]) },
	},
	{
		scenario: "fan-out", what: "fan-out of 1,000 branches", level: full, figure: "whole", target: 25, unit: "ms",
		costs: "processor time: a thousand tasks begin and end in a few appends, and the records of their facts are " +
			"written beside it",
		note: func(f figures) string { return fmt.Sprintf("%.0f bare", f["whole"]*1e6/f["bare"]) },
	},
	{
		scenario: "loop", what: "loop of 10,000, last thousand to first", level: full, figure: "growth", target: 1.1,
		unit:  "×",
		costs: "noise of the machine between the beginning and the end of the run",
		note:  func(f figures) string { return micros(f["step"]) + " a turn" },
	},
	{
		scenario: "waiting", what: "100,000 waiting runs, heap of each", level: full, figure: "heap", target: 100,
		unit:  "bytes",
		costs: "what the records keep in memory of the runs that were last at work",
		note:  func(f figures) string { return fmt.Sprintf("%.0f goroutines", f["goroutines"]) },
	},
	{
		scenario: "waiting", what: "  disk of each in the journal", level: full, figure: "disk", target: 1024,
		unit:  "bytes",
		costs: "the facts of the run and its row in the index",
		note:  func(f figures) string { return fmt.Sprintf("begun %.0f/s", f["begun"]) },
	},
	{
		scenario: "waiting", what: "  processor time while idle", level: full, figure: "idle", target: 1, unit: "ms/s",
		costs: "looking once in a second for what other processes have appended",
		note:  func(figures) string { return "" },
	},
	{
		scenario: "resume-loop", what: "resume after a kill in a loop of 10,000", level: full, figure: "first",
		target: 20, unit: "ms",
		costs: "starting the process and opening the store",
		note:  func(f figures) string { return fmt.Sprintf("opened at %.1f ms", f["opened"]) },
	},
	{
		scenario: "resume-chain", what: "resume after a kill in a chain of 1,000", level: full, figure: "first",
		target: 20, unit: "ms",
		costs: "starting the process and opening the store; then the records, which are brought up to date beside it",
		note:  func(f figures) string { return fmt.Sprintf("opened at %.1f ms", f["opened"]) },
	},
	{
		scenario: "resume-long", what: "resume after a kill in a loop of 100,000", level: full, figure: "first",
		target: 100, unit: "ms",
		costs: "starting the process and opening the store, as in a short loop",
		note:  func(f figures) string { return fmt.Sprintf("opened at %.1f ms", f["opened"]) },
	},
	{
		scenario: "resume-long", what: "  status of that run", level: full, figure: "status", target: 100, unit: "ms",
		costs: "starting the process and opening the store",
		note:  func(figures) string { return "" },
	},
	{
		scenario: "resume-long", what: "  approving a gate of that run", level: full, figure: "approve-long",
		target: 100, unit: "ms",
		costs: "as for the status, and two commits",
		note:  func(figures) string { return "" },
	},
	{
		scenario: "resume-long", what: "  canceling that run", level: full, figure: "cancel", target: 100, unit: "ms",
		costs: "as for the status, and two commits",
		note:  func(figures) string { return "" },
	},
	{
		scenario: "resume-long", what: "  memory of the largest process", level: full, figure: "memory", target: 100,
		unit:  "MB",
		costs: "the program itself, and what the records read again",
		note:  func(figures) string { return "" },
	},
	{
		scenario: "approve", what: "approval from another process, slowest of 20", level: full, figure: "worst",
		target: 10, unit: "ms",
		costs: "two commits: the message, and the owner's answer to it",
		note:  func(f figures) string { return fmt.Sprintf("median %.1f ms", f["median"]) },
	},
	{
		scenario: "approve-busy", what: "  while the owner drives 64 runs", level: full, figure: "worst", target: 50,
		unit:  "ms",
		costs: "the owner's queue: the approval takes its turn behind the other runs",
		note:  func(f figures) string { return fmt.Sprintf("median %.1f ms", f["median"]) },
	},
	{
		scenario: "cold", what: "cold start of espalier run to its first step", level: full, figure: "first",
		target: 20, unit: "ms",
		costs: "starting the process, whose libraries for models prepare themselves; then making the store: its " +
			"first commits wait for the disk",
		note: func(f figures) string { return fmt.Sprintf("%.0f bare", f["first"]*1e6/f["bare"]) },
	},
	{
		scenario: "serve", what: "start of espalier serve until it is ready", level: full, figure: "ready", target: 100,
		unit:  "ms",
		costs: "starting the process and making the store",
		note:  func(f figures) string { return fmt.Sprintf("%.0f bare", f["ready"]*1e6/f["bare"]) },
	},
	{
		scenario: "events", what: "live events to 1,000 clients, 99 %", level: full, figure: "p99", target: 50,
		unit:  "ms",
		costs: "processor time: the clients share the cores with the server",
		note: func(f figures) string {
			return fmt.Sprintf("median %.1f ms, %.0f ms of the processor a run", f["median"], f["processor"])
		},
	},
}

// programs are the scenarios that measure the program itself.
var programs = []string{"cold", "serve", "events"}

func micros(ns float64) string { return fmt.Sprintf("%.0f µs", ns/1e3) }

// core measures the named scenarios of the durable core, or all of them.
func core(only []string) error {
	dir, err := os.MkdirTemp("", "espalier-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	measured := func(scenario string) bool { return slices.Contains(only, scenario) }
	if len(only) == 0 || slices.ContainsFunc(programs, measured) {
		if _, _, err := build(dir); err != nil {
			return err
		}
	}
	fmt.Printf("\nthe durable core, transcripts being written; medians of %d rounds\n", rounds)
	fmt.Printf("bare is appending 256 bytes to a file and making them durable, measured in the same process just " +
		"before\n\n")
	const form = "  %-45s %-8s %14s %10s %17s   %s\n"
	fmt.Printf(form, "", "level", "measured", "bare", "result", "target")
	done := map[string]figures{}
	var missed []line
	for _, l := range lines {
		if len(only) > 0 && !slices.Contains(only, l.scenario) {
			continue
		}
		f := done[l.scenario]
		if f == nil {
			if f, err = medians(self, l.scenario, dir); err != nil {
				return fmt.Errorf("%s: %w", l.scenario, err)
			}
			done[l.scenario] = f
		}
		ok, most := f[l.figure] <= l.target, "at most"
		if l.atLeast {
			ok, most = f[l.figure] >= l.target, "at least"
		}
		if !ok {
			missed = append(missed, l)
		}
		fmt.Printf(form, l.what, l.level, l.note(f), micros(f["bare"]), figure(f[l.figure])+" "+l.unit,
			fmt.Sprintf("%s %s: %s", most, figure(l.target), met(ok)))
	}
	for _, l := range missed {
		fmt.Printf("\n  Missed: %s (%s). What dominates: %s.", strings.TrimSpace(l.what), l.level, l.costs)
	}
	fmt.Println()
	return nil
}

func figure(v float64) string {
	if v >= 100 || v == float64(int(v)) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// medians runs a scenario several times, each in a new process.
func medians(self, scenario, dir string) (figures, error) {
	all := map[string][]float64{}
	for round := range rounds {
		folder := filepath.Join(dir, fmt.Sprintf("%s-%d", scenario, round))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return nil, err
		}
		cmd := exec.Command(self, measureCommand, scenario, folder)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, err
		}
		var f figures
		if err := json.Unmarshal(out, &f); err != nil {
			return nil, fmt.Errorf("%w in %q", err, out)
		}
		for name, v := range f {
			all[name] = append(all[name], v)
		}
		// Other folders are kept until the end: after many files are deleted, a file system may take long to allocate a
		// new one.
		if scenario == largest {
			if err := os.RemoveAll(folder); err != nil {
				return nil, err
			}
		}
	}
	out := figures{}
	for name, values := range all {
		slices.Sort(values)
		out[name] = values[len(values)/2]
	}
	return out, nil
}

// rawAppendTime returns the time of one durable append of 256 bytes.
func rawAppendTime(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "bare"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	text := make([]byte, 256)
	const n = 500
	began := time.Now()
	for range n {
		if _, err := f.Write(text); err != nil {
			return 0, err
		}
		if err := syncData(f); err != nil {
			return 0, err
		}
	}
	return time.Since(began) / n, nil
}
