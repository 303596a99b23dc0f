package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What running commands may cost, against starting the same ones from a loop.
const (
	commandSteps  = 1000
	commandRounds = 5
	commandTarget = 1.5
)

// commands measures a chain of AWF steps that do nothing but start "true".
// Both ways take turns, so that whatever else the machine does meets both.
func commands(dir, espalier string) error {
	root := filepath.Join(dir, "commands")
	if err := os.MkdirAll(filepath.Join(root, ".awf", "workflows"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, ".awf", "workflows", "chain.yaml"), []byte(commandChain(commandSteps)), 0o644); err != nil {
		return err
	}
	var ratios []float64
	var ours, bare []time.Duration
	for range commandRounds {
		began := time.Now()
		for range commandSteps {
			if err := exec.Command("/bin/sh", "-c", "true").Run(); err != nil {
				return err
			}
		}
		loop := time.Since(began)
		run := exec.Command(espalier, "run", "chain")
		run.Dir, run.Env = root, append(os.Environ(), "SHELL=/bin/sh")
		began = time.Now()
		if out, err := run.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		took := time.Since(began)
		ours, bare = append(ours, took), append(bare, loop)
		ratios = append(ratios, float64(took)/float64(loop))
	}
	slices.Sort(ratios)
	slices.Sort(ours)
	slices.Sort(bare)
	middle := commandRounds / 2
	ok := ratios[middle] <= commandTarget
	fmt.Printf("\na chain of %d commands: %.0f µs each, %.0f µs from a bare loop; %.2f times as long, at most %.1f: %s\n",
		commandSteps, float64(ours[middle].Microseconds())/commandSteps, float64(bare[middle].Microseconds())/commandSteps, ratios[middle], commandTarget, met(ok))
	return nil
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
