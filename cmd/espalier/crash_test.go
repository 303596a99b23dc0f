//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/samplingtest"
	"github.com/espalier-run/espalier/internal/source"
)

// shape is a program, with its user and files, whose run is hard to resume.
type shape struct {
	simulatedUser
	// sideBySide reports that branches run in parallel, so that records may be in any order.
	sideBySide bool
	files      map[string]string // of the project
	stderr     strings.Builder   // output of its processes
}

// outcome is everything that a disturbed run must have in common with an undisturbed one.
type outcome struct {
	status, output string
	effects        []string
	records        map[string][]string // keyed by the name of the transcript
}

// TestCrashAtAnyWriteChangesNothing kills the program at every write to its journal, before or after it in turn, and
// every third time again while it recovers; the exhaustive tests kill it both before and after each write. A new
// process then finishes the run. Outcome, output, records and side effects must equal those of an undisturbed run.
//
// It fails with a journal that reports writes as durable too early (see TestCrashAtAnyWriteSeesALostWrite). It has
// found that the attempt after a lost one did not record its command, so that another kill repeated the command.
func TestCrashAtAnyWriteChangesNothing(t *testing.T) {
	run := func(name string, s *shape) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.killAtEveryWrite(t, killTimes, func(label string, differences []string) {
				if len(differences) > 0 {
					t.Errorf("%s:\n%s", label, strings.Join(differences, "\n"))
				}
			})
		})
	}
	all := crashShapes(t)
	const longest = "cost-review" // it begins first, because it takes the longest
	run(longest, all[longest])
	delete(all, longest)
	for name, s := range all {
		run(name, s)
	}
}

// TestCrashAtAnyWriteSeesALostWrite checks that the matrix detects a journal that loses one write. Only a kill between
// the side effect of a command and the write of its result shows it reliably, so both moments are tested.
func TestCrashAtAnyWriteSeesALostWrite(t *testing.T) {
	s := crashShapes(t)["chain"]
	s.AckEarly = true
	found := 0
	both := func(int) []bool { return []bool{false, true} }
	s.killAtEveryWrite(t, both, func(_ string, differences []string) { found += len(differences) })
	if found == 0 {
		t.Error("the crash matrix did not detect the lost write")
	}
}

// killAtEveryWrite kills the program at every write, before or after it as times returns for the number of the write.
func (s *shape) killAtEveryWrite(
	t *testing.T, times func(write int) (after []bool), compared func(label string, differences []string),
) {
	undisturbed := s.simulatedUser
	undisturbed.AckEarly = false
	calm := s.createProject(t)
	back := s.runProcess(t, calm, undisturbed)
	want := s.collectOutcome(t, calm, back)
	if !strings.HasPrefix(want.status, "finished") {
		t.Fatalf("undisturbed: %s", want.status)
	}
	turn := 0
	for first := 1; first <= back.Writes; first++ {
		for _, after := range times(first) {
			label := fmt.Sprintf("killed %s write %d", beforeOrAfter(after), first)
			broken := s.createProject(t)
			one := s.simulatedUser
			one.KillAt, one.After = first, after
			if ended := s.runProcess(t, broken, one); ended != nil {
				// Parallel branches may share writes, so this run had fewer.
				compared(label, s.collectOutcome(t, broken, ended).differences(&want))
				continue
			}
			once := s.copyProject(t, broken)
			ended := s.runProcess(t, once, undisturbed)
			compared(label, s.collectOutcome(t, once, ended).differences(&want))

			os.RemoveAll(once)
			if turn++; turn%3 != 1 {
				os.RemoveAll(broken)
				continue
			}
			// Every third recovery is killed too: at its first, middle or last write, in turn, before and after it.
			kill := turn / 3
			second := []int{1, (ended.Writes + 1) / 2, ended.Writes}[kill%3]
			two := s.simulatedUser
			two.KillAt, two.After = second, kill/3%2 == 0
			again := s.copyProject(t, broken)
			if ended = s.runProcess(t, again, two); ended == nil {
				ended = s.runProcess(t, again, undisturbed)
			}
			label += fmt.Sprintf(", then %s write %d", beforeOrAfter(two.After), second)
			compared(label, s.collectOutcome(t, again, ended).differences(&want))
			os.RemoveAll(broken)
			os.RemoveAll(again)
		}
	}
}

// killTimes returns when to kill at a write: before it or after it, in turn, or both if the tests are exhaustive. The
// results of chains of commands are odd writes; a kill before them finds a side effect without a result.
func killTimes(write int) (after []bool) {
	for i, moment := range []bool{true, false} {
		if samplingtest.Includes(write+i, 2) {
			after = append(after, moment)
		}
	}
	return after
}

func beforeOrAfter(after bool) string {
	if after {
		return "after"
	}
	return "before"
}

// runProcess runs a simulated user in a separate process and waits until the process and all of its commands have
// ended. It returns nil if the process was killed.
func (s *shape) runProcess(t *testing.T, dir string, e simulatedUser) *userReport {
	t.Helper()
	e.Dir = dir
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "user.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	// Commands inherit the pipe because it is not closed on exec, so reading from it ends when the last of them has
	// ended. Its number is above those that the program assigns for its commands.
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var out, stderr bytes.Buffer
	cmd := exec.Command(simulatedUserProgram(t), path)
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+dir, "GORACE="+quickExit)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	for range 8 {
		cmd.ExtraFiles = append(cmd.ExtraFiles, write)
	}
	err = cmd.Start()
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	s.stderr.WriteString(stderr.String())
	if _, err := io.Copy(io.Discard, read); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Exited()) {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if err != nil {
		return nil
	}
	back := &userReport{}
	if err := json.Unmarshal(out.Bytes(), back); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return back
}

// collectOutcome combines the report of a process with the files that the run has left on disk.
func (s *shape) collectOutcome(t *testing.T, dir string, back *userReport) outcome {
	t.Helper()
	o := outcome{
		status: back.Status, output: back.Output, effects: recordedEffects(dir), records: map[string][]string{},
	}
	slices.Sort(o.effects)
	once := o.effects[:0]
	for i, key := range o.effects {
		if i == 0 || key != o.effects[i-1] || !slices.Contains(s.Fails, key) {
			once = append(once, key)
		}
	}
	o.effects = once
	paths, err := filepath.Glob(filepath.Join(dir, ".espalier", "storage", "transcripts", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		o.records[filepath.Base(path)] = s.normalizeTranscript(t, raw)
	}
	return o
}

// timestamp matches times of decisions, which results and prompts repeat.
var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z`)

// normalizeTranscript returns a transcript without the parts that differ between runs.
func (s *shape) normalizeTranscript(t *testing.T, raw []byte) []string {
	t.Helper()
	var lines []string
	seq := 0
	for line := range strings.Lines(string(raw)) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		seq++
		if e["seq"] != float64(seq) {
			t.Errorf("event %v is in line %d", e["seq"], seq)
		}
		delete(e, "seq")
		delete(e, "timestamp")
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, timestamp.ReplaceAllString(string(text), "now"))
	}
	if s.sideBySide {
		slices.Sort(lines)
	}
	return lines
}

// differences compares a run with the undisturbed one.
func (got outcome) differences(want *outcome) []string {
	var out []string
	if got.status != want.status {
		out = append(out, fmt.Sprintf("status %q, want %q", got.status, want.status))
	}
	if got.output != want.output {
		out = append(out, fmt.Sprintf("output %s, want %s", got.output, want.output))
	}
	if !slices.Equal(got.effects, want.effects) {
		out = append(out, fmt.Sprintf("effects %q, want %q", got.effects, want.effects))
	}
	if a, b := slices.Sorted(maps.Keys(got.records)), slices.Sorted(maps.Keys(want.records)); !slices.Equal(a, b) {
		return append(out, fmt.Sprintf("transcripts %q, want %q", a, b))
	}
	for name, lines := range want.records {
		if !slices.Equal(got.records[name], lines) {
			out = append(out,
				fmt.Sprintf("the record %s differs (-calm +killed):\n%s", name, cmp.Diff(lines, got.records[name])))
		}
	}
	return out
}

// createProject creates a project in a new folder.
func (s *shape) createProject(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range s.files {
		writeFile(t, filepath.Join(dir, name), text)
	}
	writeFile(t, filepath.Join(dir, ".espalier", "keep"), "")
	return dir
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// copyProject copies a project as a killed process has left it, without the pipes by which processes wake each other.
func (s *shape) copyProject(t *testing.T, from string) string {
	t.Helper()
	to, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		writeFile(t, filepath.Join(to, rel), string(raw))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// crashShapes returns the examples, and all kinds of runs that have ever been hard to resume.
func crashShapes(t *testing.T) map[string]*shape {
	t.Helper()
	out := map[string]*shape{}
	files := examples(t, "agent-flow")
	example := func(run ...string) *shape { return &shape{simulatedUser: simulatedUser{Run: run}, files: files} }
	out["weekly-metrics"] = example("weekly-metrics.md", "--input",
		`orders=[{"region":"north","amount":3},{"region":"south","amount":4}]`)
	out["market-brief"] = example("market-brief.md", "--simulate", "--input", "question=What do roses cost in winter?")
	out["meeting-minutes"] = example("meeting-minutes.md", "--simulate", "--input",
		"transcript="+strings.Repeat("Eva: we ship on Monday. ", 12))
	out["contract-review"] = example("contract-review.md", "--simulate", "--input", "contract=The parties agree.")
	out["contract-review"].sideBySide = true
	out["support-triage"] = example("support-triage.md", "--simulate", "--input", "ticket=Billed twice", "--input",
		"customer_id=42", "--input", "service_tier=enterprise")
	out["vendor-onboarding"] = example("vendor-onboarding.md", "--simulate", "--input", "company=Acme", "--input",
		"contact=a@example.org")
	out["release-notes"] = example("release-notes", "--simulate", "--input", "log=fixed a bug")
	out["minutes"] = example("skills/minutes", "--simulate", "--input", "Eva: we ship on Monday.")

	// Nodes call agents while they run; a crash during a node must not repeat a call.
	nodes := examples(t, "nof")
	out["cost-review"] = &shape{simulatedUser: simulatedUser{Run: []string{
		"cost-review.nof.md", "--simulate", "--input",
		"period=2026-01",
	}}, files: nodes, sideBySide: true}

	in := func(format string, run ...string) *shape {
		user := simulatedUser{Run: append(run, "--simulate")}
		return &shape{simulatedUser: user, files: examples(t, format), sideBySide: true}
	}
	out["interview-digest"] = in("agentfile", "interview-digest", "--input", "Beans need warmth.")
	out["translate"] = in("aiflow", "translate.aiflow", "--input", "text=Good morning")

	program := func(name string, p *ir.Program) *shape {
		s := &shape{simulatedUser: simulatedUser{Program: p}}
		out[name] = s
		return s
	}
	program("chain", newProgram([]ir.Step{effectStep("a"), effectStep("b"), effectStep("c")}))

	again := gateStep("ask")
	again.Next = []ir.Edge{
		{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "a"}, Limit: 1},
		{On: []ir.Outcome{ir.OK}, To: ir.Target{Step: "b"}},
	}
	program("second pause in one step", newProgram([]ir.Step{effectStep("a"), again, effectStep("b")}))
	program("two pauses", newProgram([]ir.Step{effectStep("a"), gateStep("g1"), gateStep("g2"), effectStep("b")}))

	parent := newProgram([]ir.Step{
		effectStep("a"), {ID: "call", Type: "call", Action: ir.Call{PassReads: true}}, effectStep("b"),
	})
	parent.Children = []ir.Program{*newProgram([]ir.Step{effectStep("c1"), gateStep("cg"), effectStep("c2")})}
	program("pause in a child run", parent)

	program("two pauses in parallel", fanOut(ir.JoinAll,
		[]ir.Step{effectStep("x1"), gateStep("xg"), effectStep("x2")},
		[]ir.Step{effectStep("y1"), gateStep("yg"), effectStep("y2")})).sideBySide = true

	program("pause in a loop", newProgram(
		[]ir.Step{{
			ID: "each", Type: "loop",
			Action: ir.Loop{Block: 1, Each: &ir.Each{Items: parseList(t, "[1, 2, 3]"), Var: "item"}},
		}, effectStep("after")},
		[]ir.Step{effectStep("body"), gateStep("ask")}))

	flaky := scriptStep("flaky", recordEffect+`; case "$ESPALIER_KEY" in *#2) ;; *) exit 1;; esac`)
	flaky.Retry = &ir.Retry{MaxAttempts: 3, Backoff: ir.Constant, Delays: []ir.Millis{1}}
	retries := program("retries", newProgram([]ir.Step{effectStep("a"), flaky, effectStep("b")}))
	retries.Fails = []string{"flaky#0", "flaky#1"}

	program("join any, the other waits", fanOut(ir.JoinAny,
		[]ir.Step{effectStep("x1"), gateStep("xg"), effectStep("x2")},
		[]ir.Step{effectStep("y1"), gateStep("yg"), effectStep("y2")})).sideBySide = true

	// The winner ends only after the other branch has started.
	working := program("join any, the other works", fanOut(ir.JoinAny,
		[]ir.Step{scriptStep("x", `until grep -q y#0 ../../../`+effects+`; do sleep 0.01; done; `+recordEffect)},
		[]ir.Step{scriptStep("y", recordEffect+`; exec sleep 1000`)}))
	working.sideBySide, working.NeverEnding = true, []string{"fan/y/y#0"}

	narrow := newProgram(
		[]ir.Step{{
			ID: "fan", Type: "parallel",
			Action: ir.Parallel{
				Join: ir.JoinAll,
				Each: &ir.Each{Items: parseList(t, "[1, 2, 3, 4, 5]"), Var: "item", Block: 1},
			},
		}, effectStep("after")},
		[]ir.Step{effectStep("one")})
	narrow.Budget.Steps = &ir.Limit{Max: 3}
	s := program("budget of a fan-out", narrow)
	s.sideBySide, s.Raise = true, "steps=50"
	return out
}

// examples returns the files of the examples of one format.
func examples(t *testing.T, format string) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..", "examples", format)
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files[rel] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func scriptStep(id, script string) ir.Step {
	task := ir.Task{Kind: "script"}
	task.Settings.Put("language", "sh", source.Span{})
	task.Settings.Put("script", script, source.Span{})
	return ir.Step{ID: id, Type: "task", Action: task, Writes: []ir.Write{{Path: "state." + id}}}
}

func effectStep(id string) ir.Step { return scriptStep(id, recordEffect) }

func gateStep(id string) ir.Step {
	return ir.Step{ID: id, Type: "gate", Action: ir.Gate{Decider: ir.Person}}
}

// newProgram returns a program; steps without edges lead to the next step.
func newProgram(blocks ...[]ir.Step) *ir.Program {
	p := &ir.Program{Name: "shape", Format: "test"}
	for _, steps := range blocks {
		for i := range steps[:len(steps)-1] {
			if steps[i].Next == nil {
				steps[i].Next = []ir.Edge{{On: []ir.Outcome{ir.OK, ir.Skipped}, To: ir.Target{Step: steps[i+1].ID}}}
			}
		}
		p.Blocks = append(p.Blocks, ir.Block{Steps: steps})
	}
	return p
}

func fanOut(join ir.Join, x, y []ir.Step) *ir.Program {
	return newProgram([]ir.Step{effectStep("a"), {ID: "fan", Type: "parallel", Action: ir.Parallel{
		Join: join, Branches: []ir.Branch{{Name: "x", Block: 1}, {Name: "y", Block: 2}},
	}}, effectStep("b")}, x, y)
}

func parseList(t *testing.T, text string) *expr.Expr {
	t.Helper()
	e, problems := expr.ParseValue(expr.AgentFlow, text, source.Span{})
	if problems.Errors() {
		t.Fatal(problems)
	}
	return e
}
