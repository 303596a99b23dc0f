package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/espalier-run/espalier/internal/graph"
	"github.com/espalier-run/espalier/internal/ir"
)

//go:embed twelve.md.txt
var twelveSteps string

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "espalier-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	espalier, empty, err := build(dir)
	if err != nil {
		return err
	}
	if err := startUp(espalier, empty); err != nil {
		return err
	}
	if err := validation(dir, espalier); err != nil {
		return err
	}
	return layout()
}

// build compiles Espalier and, as the baseline of start-up, a program that
// does nothing.
func build(dir string) (espalier, empty string, err error) {
	source := filepath.Join(dir, "empty.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		return "", "", err
	}
	espalier, empty = filepath.Join(dir, "espalier.exe"), filepath.Join(dir, "empty.exe")
	for output, pkg := range map[string]string{espalier: "./cmd/espalier", empty: source} {
		cmd := exec.Command("go", "build", "-o", output, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return "", "", fmt.Errorf("building %s: %w", pkg, err)
		}
	}
	return espalier, empty, nil
}

// taken is how long a process took.
type taken struct{ wall, cpu time.Duration }

func timed(name string, args ...string) (taken, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = io.Discard
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return taken{}, fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "), err)
	}
	return taken{time.Since(began), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}

func startUp(espalier, empty string) error {
	const rounds = 101
	var ours, theirs []time.Duration
	for range rounds { // by turns, so that both see the same machine
		a, err := timed(espalier, "version")
		if err != nil {
			return err
		}
		b, err := timed(empty)
		if err != nil {
			return err
		}
		ours, theirs = append(ours, a.wall), append(theirs, b.wall)
	}
	a, b := median(ours), median(theirs)
	fmt.Printf("start-up    espalier version %8.2f ms   empty Go program %8.2f ms   ratio %5.2f   (aim: at most 3)\n",
		milliseconds(a), milliseconds(b), ratio(a, b))
	return nil
}

func validation(dir, espalier string) error {
	const files, rounds = 1000, 7
	flows := filepath.Join(dir, "flows")
	if err := os.Mkdir(flows, 0o755); err != nil {
		return err
	}
	for i := range files {
		if err := os.WriteFile(filepath.Join(flows, fmt.Sprintf("flow-%04d.md", i)), []byte(twelveSteps), 0o644); err != nil {
			return err
		}
	}
	var ours []time.Duration
	for range rounds {
		t, err := timed(espalier, "validate", flows)
		if err != nil {
			return err
		}
		ours = append(ours, t.cpu)
	}
	baseline, err := bareYAML(flows, rounds)
	if err != nil {
		return err
	}
	each := median(ours) / files
	fmt.Printf("validation  %7.0f files per core-second (12 steps each; aim: at least 2,000)   %.0f µs each   ratio to only decoding their YAML %5.2f\n",
		float64(time.Second)/float64(each), microseconds(each), ratio(each, baseline))
	return nil
}

// bareYAML is how long one file takes when its YAML is decoded and nothing
// else is done.
func bareYAML(dir string, rounds int) (time.Duration, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var all []time.Duration
	for range rounds {
		began := time.Now()
		for _, e := range entries {
			raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return 0, err
			}
			for _, part := range yamlParts(string(raw)) {
				var v any
				if err := yaml.Unmarshal([]byte(part), &v); err != nil {
					return 0, err
				}
			}
		}
		all = append(all, time.Since(began)/time.Duration(len(entries)))
	}
	return median(all), nil
}

// yamlParts cuts out the frontmatter and the fenced blocks.
func yamlParts(text string) []string {
	_, text, _ = strings.Cut(text, "---\n")
	head, body, _ := strings.Cut(text, "\n---\n")
	parts := []string{head}
	for i, piece := range strings.Split(body, "```") {
		if i%2 == 1 {
			_, content, _ := strings.Cut(piece, "\n")
			parts = append(parts, content)
		}
	}
	return parts
}

func layout() error {
	const rounds = 5
	var before time.Duration
	for _, nodes := range []int{10, 100, 1000} {
		p := chain(nodes)
		var all []time.Duration
		for range rounds {
			began := time.Now()
			if err := graph.Build(p, graph.Options{}).SVG(io.Discard); err != nil {
				return err
			}
			all = append(all, time.Since(began))
		}
		m := median(all)
		fmt.Printf("layout      %5d nodes   %9.2f ms", nodes, milliseconds(m))
		if before > 0 {
			fmt.Printf("   ratio to a tenth of the nodes %6.2f", ratio(m, before))
		}
		fmt.Println()
		before = m
	}
	return nil
}

// chain is a program of so many steps with a way around every seventh and a
// way back at every eleventh.
func chain(n int) *ir.Program {
	steps := make([]ir.Step, n)
	name := func(i int) string { return fmt.Sprintf("step_%d", i) }
	for i := range steps {
		steps[i] = ir.Step{ID: name(i), Type: "transform", Description: "Do one thing after the other", Action: ir.Task{Kind: "transform"}}
		if i+1 < n {
			steps[i].Next = append(steps[i].Next, ir.Edge{On: []ir.Outcome{ir.OK, ir.Skipped}, To: ir.Target{Step: name(i + 1)}, Sequential: true})
		}
		if i%7 == 3 && i+3 < n {
			steps[i].Next = append([]ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: name(i + 3)}, Label: "skip ahead"}}, steps[i].Next...)
		}
		if i%11 == 10 {
			steps[i].Next = append([]ir.Edge{{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: name(i - 5)}, Label: "again", Limit: 3}}, steps[i].Next...)
		}
	}
	return &ir.Program{Format: "agent-flow", Name: "chain", Blocks: []ir.Block{{Steps: steps}}}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func ratio(a, b time.Duration) float64     { return float64(a) / float64(b) }
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
