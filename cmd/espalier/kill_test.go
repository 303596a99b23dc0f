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

// killed is a project whose program is killed again and again.
type killed struct {
	t       *testing.T
	dir     string
	effects string // what the steps have done in the world, a line each
	env     []string
}

const killedRun = "00000000-0000-4000-8000-000000000001"

func newKilled(t *testing.T, steps int, env ...string) *killed {
	k := &killed{t: t, dir: t.TempDir(), env: env}
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

func (k *killed) command(args ...string) *exec.Cmd {
	cmd := exec.Command("espalier", args...)
	cmd.Dir = k.dir
	cmd.Env = append(append(os.Environ(), "NO_COLOR=1", "HOME="+k.dir, "GORACE="+quickExit), k.env...)
	return cmd
}

// runs begins or resumes the run and kills the program with SIGKILL when it
// has told that many lines of progress; never, when lines is 0.
func (k *killed) runs(lines int, args ...string) {
	k.t.Helper()
	cmd := k.command(args...)
	progress, err := cmd.StderrPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	told := bufio.NewScanner(progress)
	for n := 1; told.Scan(); n++ {
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				k.t.Fatal(err)
			}
			break
		}
	}
	for told.Scan() { // what was still in the pipe
	}
	_ = cmd.Wait() // how it ended is what the test is about
}

type standing struct {
	Status  string `json:"state"`
	Outcome string `json:"outcome"`
	Gates   []struct {
		Step string `json:"step"`
		Kind string `json:"kind"`
	} `json:"gates"`
}

// stands asks how the run stands; false when it never began.
func (k *killed) stands() (s standing, begun bool) {
	k.t.Helper()
	out, err := k.command("status", killedRun, "--json").Output()
	if err != nil {
		return s, false
	}
	if err := json.Unmarshal(out, &s); err != nil {
		k.t.Fatalf("%v: %s", err, out)
	}
	return s, true
}

func (k *killed) done() []string {
	raw, err := os.ReadFile(k.effects)
	if err != nil {
		k.t.Fatal(err)
	}
	return strings.Fields(string(raw))
}

// record is the transcript without what differs from time to time.
func (k *killed) record() []string {
	k.t.Helper()
	out, err := k.command("transcript", killedRun).Output()
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
		if e.Type != "message.user" { // a command that was in doubt is noted as often as it was tried
			lines = append(lines, e.Type+" "+e.Path)
		}
		if e.Seq == 0 {
			k.t.Fatalf("no seq: %s", line)
		}
	}
	return lines
}

// TestKilledAnywhere kills the program with SIGKILL at each line of progress
// that it tells, and again while it recovers. Whatever is in doubt is decided
// by looking at the world, as a person would. At the end everything was done
// once, and the records say the same as those of an undisturbed run.
func TestKilledAnywhere(t *testing.T) {
	var all [][2]int
	for first := 1; first <= 10; first++ {
		for second := range 3 {
			all = append(all, [2]int{first, second})
		}
	}
	killAnywhere(t, all)
}

// killAnywhere kills the program at a line of progress, and at another one of the
// recovery.
func killAnywhere(t *testing.T, lines [][2]int, env ...string) {
	const steps = 5
	calm := newKilled(t, steps, env...)
	calm.runs(0, "run", "chain.md", "--allow-shell", "--run-id", killedRun)
	if s, _ := calm.stands(); s.Outcome != "ok" {
		t.Fatalf("undisturbed: %+v", s)
	}
	want := calm.record()
	for _, at := range lines {
		first, second := at[0], at[1]
		t.Run(fmt.Sprintf("line %d, then %d", first, second), func(t *testing.T) {
			t.Parallel()
			k := newKilled(t, steps, env...)
			k.runs(first, "run", "chain.md", "--allow-shell", "--run-id", killedRun)
			for try := range 4 * steps {
				s, begun := k.stands()
				if !begun {
					k.runs(0, "run", "chain.md", "--allow-shell", "--run-id", killedRun)
					continue
				}
				if s.Status == "finished" {
					break
				}
				args := []string{"resume", killedRun}
				for _, g := range s.Gates {
					answer := "rerun"
					if slices.Contains(k.done(), g.Step+"#0") {
						answer = `result={"n": 0}`
					}
					args = append(args, "--decide", g.Step+"="+answer)
				}
				kill := second
				if try > 0 {
					kill = 0
				}
				k.runs(kill, args...)
			}
			s, _ := k.stands()
			if s.Outcome != "ok" {
				t.Fatalf("%+v", s)
			}
			done := k.done()
			slices.Sort(done)
			if got := slices.Compact(slices.Clone(done)); len(got) != steps || len(done) != steps {
				t.Errorf("done: %v", done)
			}
			if out, err := k.command("audit", "verify", killedRun).CombinedOutput(); err != nil {
				t.Errorf("the audit log: %v\n%s", err, out)
			}
			if got := k.record(); !slices.Equal(got, want) {
				t.Errorf("the record says\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
