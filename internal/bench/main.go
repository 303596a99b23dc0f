package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/espalier-run/espalier/internal/graph"
	"github.com/espalier-run/espalier/internal/ir"
)

//go:embed twelve.md.txt
var twelveSteps string

func main() {
	debug.SetGCPercent(400) // as the program itself does
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 0:
		err = run("")
	case len(args) == 1 && (args[0] == commandsCommand || args[0] == maskingCommand):
		err = run(args[0])
	case len(args) == 1 && args[0] == postgresCommand:
		err = onPostgres()
	case len(args) == 1 && args[0] == temporalCommand:
		err = onTemporal()
	case args[0] == coreCommand:
		err = core(args[1:])
	case len(args) == 3 && args[0] == measureCommand:
		err = measure(args[1], args[2])
	case len(args) >= 3 && args[0] == playCommand:
		err = play(args[1], args[2], args[3:])
	case len(args) == 2 && args[0] == decodeCommand:
		err = decodeYAML(args[1])
	case len(args) == 3 && args[0] == layoutCommand:
		err = drawChain(args[1], args[2])
	default:
		err = fmt.Errorf("bench takes no arguments, or %q or %q, or %q and names of what to measure, not %q",
			commandsCommand, maskingCommand, coreCommand, args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// temporalCommand compares runs on Temporal with plain Temporal code.
const temporalCommand = "temporal"

// Measurements of code inside bench also run in a separate process, so that all measurements are alike.
const (
	decodeCommand = "decode-yaml" // FOLDER
	layoutCommand = "layout"      // NODES TIMES
)

// run measures everything, or only commands or masking.
func run(only string) error {
	dir, err := os.MkdirTemp("", "espalier-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	espalier, empty, err := build(dir)
	if err != nil {
		return err
	}
	switch only {
	case commandsCommand:
		return commands(dir, espalier)
	case maskingCommand:
		return masking(dir, espalier)
	}
	fmt.Println("Processor time (user and system, one core), then wall time in brackets; medians of runs by turns.")
	if err := startUp(espalier, empty); err != nil {
		return err
	}
	if err := validation(dir, espalier, self); err != nil {
		return err
	}
	if err := layout(self); err != nil {
		return err
	}
	if err := masking(dir, espalier); err != nil {
		return err
	}
	if err := commands(dir, espalier); err != nil {
		return err
	}
	return core(nil)
}

// espalierFile is the name of the built program.
const espalierFile = "espalier.exe"

// build compiles Espalier and, as the baseline of start-up, an empty program.
func build(dir string) (espalier, empty string, err error) {
	source := filepath.Join(dir, "empty.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		return "", "", err
	}
	espalier, empty = filepath.Join(dir, espalierFile), filepath.Join(dir, "empty.exe")
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

// taken is the time that a process took.
type taken struct{ cpu, wall time.Duration }

func (t taken) String() string {
	return fmt.Sprintf("%9.3f ms (%9.3f ms)", milliseconds(t.cpu), milliseconds(t.wall))
}

// per divides a time by the number of work items.
func (t taken) per(n int) taken { return taken{t.cpu / time.Duration(n), t.wall / time.Duration(n)} }

func (t taken) minus(u taken) taken {
	return taken{max(t.cpu-u.cpu, 0), max(t.wall-u.wall, 0)}
}

// command is a program and its arguments.
type command []string

// run runs the command on one processor: its processor time is then the same whatever else the machine does.
func (c command) run() (taken, error) { return c.runOn(1) }

func (c command) runOn(processors int) (taken, error) {
	cmd := exec.Command(c[0], c[1:]...)
	cmd.Env = append(os.Environ(), fmt.Sprint("GOMAXPROCS=", processors))
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return taken{}, fmt.Errorf("%s %s: %w", filepath.Base(c[0]), strings.Join(c[1:], " "), err)
	}
	return taken{cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), time.Since(began)}, nil
}

// byTurns runs commands alternately for several rounds, so that all run under the same load. It returns the median of
// each, which a burst of load does not move.
func byTurns(rounds int, commands ...command) ([]taken, error) {
	cpu, wall := make([][]time.Duration, len(commands)), make([][]time.Duration, len(commands))
	for range rounds {
		for i, c := range commands {
			t, err := c.run()
			if err != nil {
				return nil, err
			}
			cpu[i], wall[i] = append(cpu[i], t.cpu), append(wall[i], t.wall)
		}
	}
	medians := make([]taken, len(commands))
	for i := range commands {
		medians[i] = taken{median(cpu[i]), median(wall[i])}
	}
	return medians, nil
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "NOT met"
}

// startUp compares the start of Espalier with that of an empty Go program.
func startUp(espalier, empty string) error {
	const rounds, aim = 41, 3.0
	m, err := byTurns(rounds, command{espalier, "version"}, command{empty})
	if err != nil {
		return err
	}
	r := ratio(m[0].cpu, m[1].cpu)
	fmt.Printf("\nstart-up, %d rounds\n", rounds)
	fmt.Printf("  espalier version          %s\n", m[0])
	fmt.Printf("  an empty Go program       %s\n", m[1])
	fmt.Printf("  ratio %.2f, aim at most %.0f: %s\n", r, aim, met(r <= aim))
	if r > aim {
		fmt.Println("  What dominates: the libraries for models, tools and telemetry prepare themselves before the " +
			"program begins;\n" +
			"  a program with one of those for models alone takes two to four times an empty one.")
	}
	return nil
}

// validation compares validating workflows with only decoding their YAML, and measures all processors, too.
func validation(dir, espalier, self string) error {
	const files, rounds, aim = 1000, 9, 2000.0
	flows := filepath.Join(dir, "flows")
	if err := os.Mkdir(flows, 0o755); err != nil {
		return err
	}
	for i := range files {
		if err := os.WriteFile(filepath.Join(flows, fmt.Sprintf("flow-%04d.md", i)), []byte(twelveSteps),
			0o644); err != nil {
			return err
		}
	}
	m, err := byTurns(rounds, command{espalier, "validate", flows}, command{self, decodeCommand, flows})
	if err != nil {
		return err
	}
	ours, theirs := m[0].per(files), m[1].per(files)
	speed := float64(time.Second) / float64(ours.cpu)
	fmt.Printf("\nvalidation of %d workflows of 12 steps, start-up included, %d rounds; per workflow:\n", files, rounds)
	fmt.Printf("  espalier validate         %s\n", ours)
	fmt.Printf("  only decoding their YAML  %s\n", theirs)
	fmt.Printf("  ratio %.2f; %.0f workflows per core-second, aim at least %.0f: %s\n", ratio(ours.cpu, theirs.cpu),
		speed, aim, met(speed >= aim))
	var walls []time.Duration
	for range rounds {
		t, err := command{espalier, "validate", flows}.runOn(runtime.NumCPU())
		if err != nil {
			return err
		}
		walls = append(walls, t.wall)
	}
	fmt.Printf("  all of them on %d processors, as a user waits: %.0f ms\n", runtime.NumCPU(),
		milliseconds(median(walls)))
	return nil
}

// decodeYAML only reads every file of a folder and decodes its YAML.
func decodeYAML(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		for _, part := range yamlParts(string(raw)) {
			var v any
			if err := yaml.Unmarshal([]byte(part), &v); err != nil {
				return err
			}
		}
	}
	return nil
}

// yamlParts returns the frontmatter and the fenced blocks.
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

// layout measures drawing pictures of growing size. A process that draws nothing is subtracted, so that start-up does
// not count.
func layout(self string) error {
	const rounds = 5
	fmt.Printf("\nlayout and drawing as SVG, %d rounds\n", rounds)
	var before taken
	for _, nodes := range []int{10, 100, 1000} {
		times := max(1000/nodes, 3)
		size := strconv.Itoa(nodes)
		m, err := byTurns(rounds, command{self, layoutCommand, size, strconv.Itoa(times)},
			command{self, layoutCommand, size, "0"})
		if err != nil {
			return err
		}
		one := m[0].minus(m[1]).per(times)
		fmt.Printf("  %5d nodes               %s", nodes, one)
		if before.cpu > 0 {
			fmt.Printf("   ratio to a tenth of the nodes %.1f", ratio(one.cpu, before.cpu))
		}
		fmt.Println()
		before = one
	}
	return nil
}

// drawChain draws a picture of a number of nodes a number of times.
func drawChain(nodes, times string) error {
	n, err := strconv.Atoi(nodes)
	if err != nil {
		return err
	}
	again, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	p := chain(n)
	for range again {
		if err := graph.Build(p, graph.Options{}).SVG(io.Discard); err != nil {
			return err
		}
	}
	return nil
}

// chain returns a program of n steps with a bypass at every seventh step and a jump back at every eleventh.
func chain(n int) *ir.Program {
	steps := make([]ir.Step, n)
	name := func(i int) string { return fmt.Sprintf("step_%d", i) }
	for i := range steps {
		steps[i] = ir.Step{
			ID: name(i), Type: "transform", Description: "Do one thing after the other",
			Action: ir.Task{Kind: "transform"},
		}
		if i+1 < n {
			steps[i].Next = append(steps[i].Next,
				ir.Edge{On: []ir.Outcome{ir.OK, ir.Skipped}, To: ir.Target{Step: name(i + 1)}, Sequential: true})
		}
		if i%7 == 3 && i+3 < n {
			steps[i].Next = append([]ir.Edge{{
				On: []ir.Outcome{ir.OK}, To: ir.Target{Step: name(i + 3)},
				Label: "skip ahead",
			}}, steps[i].Next...)
		}
		if i%11 == 10 {
			steps[i].Next = append([]ir.Edge{{
				On: []ir.Outcome{ir.OK}, To: ir.Target{Step: name(i - 5)}, Label: "again",
				Limit: 3,
			}}, steps[i].Next...)
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
