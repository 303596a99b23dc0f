//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// chainProject is a project with a workflow of several steps in a row, whose process tests kill.
type chainProject struct {
	t       *testing.T
	dir     string
	effects string // file in which the steps record their side effects, one per line
	env     []string
}

const chainRunID = "00000000-0000-4000-8000-000000000001"

func newChainProject(t *testing.T, steps int, env ...string) *chainProject {
	k := &chainProject{t: t, dir: t.TempDir(), env: env}
	k.effects = filepath.Join(k.dir, "effects")
	var b strings.Builder
	b.WriteString("---\nname: chain\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Leave traces.\n---\n")
	for i := range steps {
		fmt.Fprintf(&b, "```step\nid: s%d\ntype: transform\ndescription: Leave trace %d\nwrites: [state.s%d]\ncode:\n"+
			"  language: sh\n  script: |\n"+
			"    echo \"${ESPALIER_KEY#*/}\" >> '%s'\n    echo '{\"n\": %d}'\n```\n", i, i, i, k.effects, i)
	}
	for name, text := range map[string]string{"chain.md": b.String(), ".espalier/keep": "", "effects": ""} {
		path := filepath.Join(k.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func (k *chainProject) command(args ...string) *exec.Cmd {
	cmd := exec.Command("espalier", args...)
	cmd.Dir = k.dir
	cmd.Env = append(append(os.Environ(), "NO_COLOR=1", "HOME="+k.dir, "GORACE="+quickExit), k.env...)
	return cmd
}

// runAndKill runs a command and kills it with SIGKILL after it has printed that many lines of progress. With 0 it
// does not kill it.
func (k *chainProject) runAndKill(lines int, args ...string) {
	k.t.Helper()
	cmd := k.command(args...)
	progress, err := cmd.StderrPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	output := bufio.NewScanner(progress)
	for n := 1; output.Scan(); n++ {
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				k.t.Fatal(err)
			}
			break
		}
	}
	for output.Scan() { // drain the pipe
	}
	_ = cmd.Wait() // the test checks the effects instead
}

type runStatus struct {
	Status  string `json:"state"`
	Outcome string `json:"outcome"`
	Gates   []struct {
		Step string `json:"step"`
		Kind string `json:"kind"`
	} `json:"gates"`
}

// status returns the status of the run, or false if it never started.
func (k *chainProject) status() (s runStatus, begun bool) {
	k.t.Helper()
	out, err := k.command("status", chainRunID, "--json").Output()
	if err != nil {
		return s, false
	}
	if err := json.Unmarshal(out, &s); err != nil {
		k.t.Fatalf("%v: %s", err, out)
	}
	return s, true
}

func (k *chainProject) recordedEffects() []string {
	raw, err := os.ReadFile(k.effects)
	if err != nil {
		k.t.Fatal(err)
	}
	return strings.Fields(string(raw))
}

// transcriptEvents returns the types and paths of the transcript's events, which are the same for every execution.
func (k *chainProject) transcriptEvents() []string {
	k.t.Helper()
	out, err := k.command("transcript", chainRunID).Output()
	if err != nil {
		k.t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		var e struct {
			Seq  int
			Type string
			Path string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			k.t.Fatalf("%v: %s", err, line)
		}
		if e.Type != "message.user" { // a command with unknown outcome is recorded once per attempt
			lines = append(lines, e.Type+" "+e.Path)
		}
		if e.Seq == 0 {
			k.t.Fatalf("no seq: %s", line)
		}
	}
	return lines
}

// TestRunsKilledAnywhereHaveEachEffectOnce kills the program with SIGKILL at each line of progress, and again while it
// recovers. Unknown outcomes are resolved by looking at the side effects, as a person would. At the end every step has
// had its side effect once, and the records equal those of an undisturbed run.
func TestRunsKilledAnywhereHaveEachEffectOnce(t *testing.T) {
	var all [][2]int
	for first := 1; first <= 10; first++ {
		for second := range 3 {
			all = append(all, [2]int{first, second})
		}
	}
	testKillAtLines(t, all)
}

// testKillAtLines kills the program at a line of progress, and at another one of the recovery.
func testKillAtLines(t *testing.T, lines [][2]int, env ...string) {
	const steps = 5
	calm := newChainProject(t, steps, env...)
	calm.runAndKill(0, "run", "chain.md", "--allow-shell", "--run-id", chainRunID)
	if s, _ := calm.status(); s.Outcome != "ok" {
		t.Fatalf("undisturbed: %+v", s)
	}
	want := calm.transcriptEvents()
	for _, at := range lines {
		first, second := at[0], at[1]
		t.Run(fmt.Sprintf("line %d, then %d", first, second), func(t *testing.T) {
			t.Parallel()
			k := newChainProject(t, steps, env...)
			k.runAndKill(first, "run", "chain.md", "--allow-shell", "--run-id", chainRunID)
			for try := range 4 * steps {
				s, begun := k.status()
				if !begun {
					k.runAndKill(0, "run", "chain.md", "--allow-shell", "--run-id", chainRunID)
					continue
				}
				if s.Status == "finished" {
					break
				}
				args := []string{"resume", chainRunID}
				for _, g := range s.Gates {
					answer := "rerun"
					if slices.Contains(k.recordedEffects(), g.Step+"#0") {
						answer = `result={"n": 0}`
					}
					args = append(args, "--decide", g.Step+"="+answer)
				}
				kill := second
				if try > 0 {
					kill = 0
				}
				k.runAndKill(kill, args...)
			}
			s, _ := k.status()
			if s.Outcome != "ok" {
				t.Fatalf("%+v", s)
			}
			done := k.recordedEffects()
			slices.Sort(done)
			if got := slices.Compact(slices.Clone(done)); len(got) != steps || len(done) != steps {
				t.Errorf("effects: %v", done)
			}
			if out, err := k.command("audit", "verify", chainRunID).CombinedOutput(); err != nil {
				t.Errorf("the audit log: %v\n%s", err, out)
			}
			if got := k.transcriptEvents(); !slices.Equal(got, want) {
				t.Errorf("transcript:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
