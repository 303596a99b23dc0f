package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Targets for running commands, relative to starting the same commands in a loop.
const (
	commandSteps  = 1000
	commandRounds = 15
	commandTarget = 2.0
	commandGrowth = 1.1 // the last quarter of the chain relative to the first
)

// commandsCommand measures only commands.
const commandsCommand = "commands"

// commands measures a chain of AWF steps that run "true". Both variants alternate, so that other load on the machine
// affects both: each round is compared with the mean of the loops before and after it.
func commands(dir, espalier string) error {
	root := filepath.Join(dir, "commands")
	if err := os.MkdirAll(filepath.Join(root, ".awf", "workflows"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, ".awf", "workflows", "chain.yaml"), []byte(commandChain(commandSteps)),
		0o644); err != nil {
		return err
	}
	var ratios, growths []float64
	var ours, bare []time.Duration
	before, err := bareCommands()
	if err != nil {
		return err
	}
	for range commandRounds {
		id := string(newIDs(1)[0])
		run := exec.Command(espalier, "run", "chain", "--run-id", id)
		run.Dir, run.Env = root, append(os.Environ(), "SHELL=/bin/sh")
		began := time.Now()
		if out, err := run.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		took := time.Since(began)
		after, err := bareCommands()
		if err != nil {
			return err
		}
		loop := (before + after) / 2 // load of the machine in the meantime
		before = after
		ours, bare = append(ours, took), append(bare, loop)
		ratios = append(ratios, ratio(took, loop))
		growth, err := commandsGrew(filepath.Join(root, ".espalier", "storage", "transcripts", id+".jsonl"))
		if err != nil {
			return err
		}
		growths = append(growths, growth)
	}
	slices.Sort(ratios)
	slices.Sort(growths)
	slices.Sort(ours)
	slices.Sort(bare)
	middle := commandRounds / 2
	ok := ratios[middle] <= commandTarget
	fmt.Printf("\na chain of %d commands: %.0f µs each, %.0f µs from a bare loop; %.2f times as long, at most %.1f: "+
		"%s\n",
		commandSteps, float64(ours[middle].Microseconds())/commandSteps,
		float64(bare[middle].Microseconds())/commandSteps, ratios[middle], commandTarget, met(ok))
	fmt.Printf("  %d rounds by turns, half of them between %.2f and %.2f\n", commandRounds, ratios[commandRounds/4],
		ratios[commandRounds-1-commandRounds/4])
	if !ok {
		fmt.Println("  What dominates: making each step durable before it is done: a wait for the disk, and nearly " +
			"as much time in SQLite;")
		fmt.Println("  then deciding, noting and preparing it. Reading and checking the workflow is about a thirtieth.")
	}
	fmt.Printf("its last %d commands to its first: %.2f times as long, at most %.1f: %s\n",
		commandSteps/4, growths[middle], commandGrowth, met(growths[middle] <= commandGrowth))
	return nil
}

// bareCommands returns the time of the commands in a loop.
func bareCommands() (time.Duration, error) {
	began := time.Now()
	for range commandSteps {
		if err := exec.Command("/bin/sh", "-c", "true").Run(); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// commandsGrew returns the ratio of the last quarter of a chain to the first, according to the transcript: observing
// the run would cost time.
func commandsGrew(transcript string) (float64, error) {
	f, err := os.Open(transcript)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var began []time.Time
	for events := json.NewDecoder(f); ; {
		var e struct {
			Type      string    `json:"type"`
			Timestamp time.Time `json:"timestamp"`
		}
		if err := events.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			return 0, err
		}
		if e.Type == "step.started" {
			began = append(began, e.Timestamp)
		}
	}
	const quarter = commandSteps / 4
	if len(began) != commandSteps+1 { // the last event is the end of the run
		return 0, fmt.Errorf("%d steps began, not %d", len(began), commandSteps+1)
	}
	return ratio(began[commandSteps].Sub(began[commandSteps-quarter]), began[quarter].Sub(began[0])), nil
}

func commandChain(n int) string {
	var b strings.Builder
	b.WriteString("name: chain\nstates:\n  initial: s0\n")
	for i := range n {
		fmt.Fprintf(&b, "  s%d: {type: step, command: 'true', on_success: s%d}\n", i, i+1)
	}
	fmt.Fprintf(&b, "  s%d: {type: terminal}\n", n)
	return b.String()
}
