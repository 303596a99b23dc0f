//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// awfProject is a project with one AWF workflow whose commands block at a pipe
// until the test kills the program.
type awfProject struct {
	t   *testing.T
	dir string
}

const awfRunID = "00000000-0000-4000-8000-0000000000aa"

func newAWF(t *testing.T, states string) *awfProject {
	t.Helper()
	p := &awfProject{t: t, dir: t.TempDir()}
	for name, text := range map[string]string{
		".awf/workflows/flow.yaml": "name: flow\nstates:\n" + states,
		".awf/workflows/inner.yaml": "name: inner\nstates:\n  initial: deep\n  deep:\n    type: step\n" +
			"    command: 'sh ./step deep'\n    on_success: done\n  done:\n    type: terminal\n",
		// A step leaves a trace, and one that is held says so and waits. It
		// must not wait again when it is done once more.
		"step": `echo "$1" >> trace
if [ "$1" = "$(cat hold 2>/dev/null)" ]; then rm hold; echo "$1" > held; exec sleep 1000; fi
`,
		".awf/scripts/held.sh": "sh ./step script-{{.loop.Item}}\n",
		"trace":                "",
	} {
		path := filepath.Join(p.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(p.dir, "held"), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *awfProject) command(args ...string) *exec.Cmd {
	cmd := exec.Command("espalier", args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+p.dir, "SHELL=/bin/sh", "GORACE="+quickExit)
	return cmd
}

// runUntilHeld starts the run and returns when the named step is held.
func (p *awfProject) runUntilHeld(step string) *exec.Cmd {
	p.t.Helper()
	return p.startUntilHeld(step, "run", "flow", "--run-id", awfRunID)
}

// startUntilHeld starts a command and returns when the named step is held.
func (p *awfProject) startUntilHeld(step string, args ...string) *exec.Cmd {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, "hold"), []byte(step), 0o600); err != nil {
		p.t.Fatal(err)
	}
	cmd := p.command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	held, err := os.Open(filepath.Join(p.dir, "held"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer held.Close()
	if line, err := bufio.NewReader(held).ReadString('\n'); err != nil || strings.TrimSpace(line) != step {
		p.t.Fatalf("held at %q, %v\n%s", line, err, stderr.String())
	}
	return cmd
}

// kill ends the program with SIGKILL.
func (p *awfProject) kill(cmd *exec.Cmd) {
	p.t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
}

// wantExit runs a command, checks its exit code and returns its output.
func (p *awfProject) wantExit(want int, args ...string) string {
	p.t.Helper()
	out, err := p.command(args...).CombinedOutput()
	got := 0
	if err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			p.t.Fatal(err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		p.t.Fatalf("espalier %s: exit %d, want %d\n%s", strings.Join(args, " "), got, want, out)
	}
	return string(out)
}

// wantTrace checks which steps have run, in order.
func (p *awfProject) wantTrace(want ...string) {
	p.t.Helper()
	raw, err := os.ReadFile(filepath.Join(p.dir, "trace"))
	if err != nil {
		p.t.Fatal(err)
	}
	if got := strings.Fields(string(raw)); !slices.Equal(got, want) {
		p.t.Errorf("trace %v, want %v", got, want)
	}
}

const awfChain = `  initial: a
  a: {type: step, command: 'sh ./step a', on_success: b}
  b: {type: step, command: 'sh ./step b', on_success: c}
  c: {type: step, command: 'sh ./step c', on_success: done}
  done: {type: terminal}
`

// Each kind of step across a kill: what was done is not done again, what was
// being done is asked about, and goes on exactly there.
func TestAWFRunsContinueExactlyWhereTheyWereKilled(t *testing.T) {
	for name, c := range map[string]struct {
		states string
		held   string
		before []string // traces when it is killed
		after  []string // and in the end
	}{
		"F1: in a chain":   {awfChain, "b", []string{"a", "b"}, []string{"a", "b", "b", "c"}},
		"F2: in the first": {awfChain, "a", []string{"a"}, []string{"a", "a", "b", "c"}},
		"F2: in a loop that comes first": {`  initial: each
  each: {type: for_each, items: [x, y, z], body: [one, two], on_complete: done}
  one: {type: step, command: 'sh ./step one-{{.loop.Item}}'}
  two: {type: step, command: 'sh ./step two-{{.loop.Item}}'}
  done: {type: terminal}
`, "one-y", []string{"one-x", "two-x", "one-y"}, []string{"one-x", "two-x", "one-y", "one-y", "two-y", "one-z", "two-z"}},
		"in a while": {`  initial: again
  again: {type: while, while: loop.Index < 3, body: [one], on_complete: done}
  one: {type: step, command: 'sh ./step one-{{.loop.Index}}'}
  done: {type: terminal}
`, "one-1", []string{"one-0", "one-1"}, []string{"one-0", "one-1", "one-1", "one-2"}},
		"in a branch": {`  initial: both
  both: {type: parallel, parallel: [left, right], max_concurrent: 1, on_success: c}
  left: {type: step, command: 'sh ./step left'}
  right: {type: step, command: 'sh ./step right'}
  c: {type: step, command: 'sh ./step c', on_success: done}
  done: {type: terminal}
`, "right", []string{"left", "right"}, []string{"left", "right", "right", "c"}},
		"in a loop in a branch": {`  initial: both
  both: {type: parallel, parallel: [each, right], max_concurrent: 1, on_success: done}
  each: {type: for_each, items: [x, y], body: [one], on_complete: both}
  one: {type: step, command: 'sh ./step one-{{.loop.Item}}'}
  right: {type: step, command: 'sh ./step right'}
  done: {type: terminal}
`, "one-y", []string{"one-x", "one-y"}, []string{"one-x", "one-y", "one-y", "right"}},
		"in a child": {`  initial: a
  a: {type: step, command: 'sh ./step a', on_success: call}
  call: {type: call_workflow, workflow: inner, on_success: c}
  c: {type: step, command: 'sh ./step c', on_success: done}
  done: {type: terminal}
`, "deep", []string{"a", "deep"}, []string{"a", "deep", "deep", "c"}},
		"a script in a loop": {`  initial: each
  each: {type: for_each, items: [x, y], body: [one], on_complete: done}
  one: {type: step, script_file: held.sh}
  done: {type: terminal}
`, "script-y", []string{"script-x", "script-y"}, []string{"script-x", "script-y", "script-y"}},
		"a call in a loop in a branch": {`  initial: both
  both: {type: parallel, parallel: [each], on_success: done}
  each: {type: for_each, items: [x], body: [call], on_complete: both}
  call: {type: call_workflow, workflow: inner}
  done: {type: terminal}
`, "deep", []string{"deep"}, []string{"deep", "deep"}},
		"a parallel step in a loop": {`  initial: each
  each: {type: for_each, items: [x, y], body: [both, last], on_complete: done}
  both: {type: parallel, parallel: [left, right], max_concurrent: 1}
  left: {type: step, command: 'sh ./step left-{{.loop.Item}}'}
  right: {type: step, command: 'sh ./step right-{{.loop.Item}}'}
  last: {type: step, command: 'sh ./step last-{{.loop.Item}}'}
  done: {type: terminal}
`, "right-y", []string{"left-x", "right-x", "last-x", "left-y", "right-y"}, []string{"left-x", "right-x", "last-x", "left-y", "right-y", "right-y", "last-y"}},
		"a loop in a loop": {`  initial: each
  each: {type: for_each, items: [x, y], body: [again], on_complete: done}
  again: {type: while, while: loop.Index < 2, body: [one]}
  one: {type: step, command: 'sh ./step {{.loop.Parent.Item}}{{.loop.Index}}'}
  done: {type: terminal}
`, "y0", []string{"x0", "x1", "y0"}, []string{"x0", "x1", "y0", "y0", "y1"}},
		"a while in a branch": {`  initial: both
  both: {type: parallel, parallel: [left, again], max_concurrent: 1, on_success: done}
  left: {type: step, command: 'sh ./step left'}
  again: {type: while, while: loop.Index < 2, body: [one]}
  one: {type: step, command: 'sh ./step {{.loop.Index}}'}
  done: {type: terminal}
`, "1", []string{"left", "0", "1"}, []string{"left", "0", "1", "1"}},
		"a call in a branch": {`  initial: both
  both: {type: parallel, parallel: [left, call], max_concurrent: 1, on_success: c}
  left: {type: step, command: 'sh ./step left'}
  call: {type: call_workflow, workflow: inner}
  c: {type: step, command: 'sh ./step c', on_success: done}
  done: {type: terminal}
`, "deep", []string{"left", "deep"}, []string{"left", "deep", "deep", "c"}},
		"a hook in a loop": {`  initial: each
  each: {type: for_each, items: [x, y], body: [one], on_complete: done}
  one: {type: step, command: 'sh ./step {{.loop.Item}}', hooks: {post: [{command: 'sh ./step after-{{.loop.Item}}'}]}}
  done: {type: terminal}
`, "after-x", []string{"x", "after-x"}, []string{"x", "after-x", "after-x", "y", "after-y"}},
		"a second attempt in a loop": {`  initial: each
  each: {type: for_each, items: [x, y], body: [one], on_complete: done}
  one: {type: step, command: 'sh ./step {{.loop.Item}}-$(grep -c {{.loop.Item}} trace); [ $(grep -c {{.loop.Item}} trace) -ge 2 ]', retry: {max_attempts: 3, initial_delay: 1ms}}
  done: {type: terminal}
`, "y-1", []string{"x-0", "x-1", "y-0", "y-1"}, []string{"x-0", "x-1", "y-0", "y-1", "y-2"}},
		"in a hook": {`  initial: a
  a:
    type: step
    command: 'sh ./step a'
    hooks: {pre: [{command: 'sh ./step before'}]}
    on_success: done
  done: {type: terminal}
`, "before", []string{"before"}, []string{"before", "before", "a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newAWF(t, c.states)
			p.kill(p.runUntilHeld(c.held))
			p.wantTrace(c.before...)
			// It is unknown whether it was done: that is not for us to decide.
			if output := p.wantExit(4, "resume", awfRunID); !strings.Contains(output, "--decide") ||
				!strings.Contains(output, "--from current") {
				t.Error(output)
			}
			if offered := p.wantExit(0, "__complete", "resume", awfRunID, "--decide", ""); !strings.Contains(offered,
				"=rerun\n") {
				t.Errorf("nothing is offered for --decide: %s", offered)
			}
			p.wantTrace(c.before...)
			p.wantExit(0, "resume", awfRunID, "--from", "current")
			p.wantTrace(c.after...)
			p.checkTranscriptComplete(awfRunID)
		})
	}
}

// checkTranscriptComplete checks that a transcript was continued, not restarted: it has one start, one end and no
// gaps, and every step that started has ended.
func (p *awfProject) checkTranscriptComplete(run string) {
	p.t.Helper()
	events := p.transcript(run)
	open := map[string]int{}
	for i, e := range events {
		if e.Seq != i+1 || e.Run != run || (e.Type == "run.started") != (i == 0) ||
			(e.Type == "run.completed") != (i == len(events)-1) {
			p.t.Errorf("line %d: %+v", i+1, e)
		}
		switch e.Type {
		case "step.started", "step.call_workflow.started", "hook.started":
			open[e.Path]++
		case "step.completed", "step.call_workflow.completed", "hook.completed":
			open[e.Path]--
		case "message.user":
			if open[e.Path] != 1 { // its path is that of the step
				p.t.Errorf("outside of its step: %+v", e)
			}
		}
	}
	for path, n := range open {
		if n != 0 {
			p.t.Errorf("%s: %d more starts than ends", path, n)
		}
	}
}

// What the killed program had started does not go on by itself.
func TestAWFKilledCommandsDie(t *testing.T) {
	p := newAWF(t, `  initial: a
  a: {type: step, command: 'mkfifo line; exec 5<>line; echo a > held; (trap "" HUP TERM; sleep 1000) <&5 & exec sleep 1000', on_success: done}
  done: {type: terminal}
`)
	cmd := p.command("run", "flow", "--run-id", awfRunID)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	held, err := os.ReadFile(filepath.Join(p.dir, "held"))
	if err != nil || strings.TrimSpace(string(held)) != "a" {
		t.Fatal(string(held), err)
	}
	p.kill(cmd)
	// Opening for writing without waiting works only while a process reads.
	for {
		f, err := os.OpenFile(filepath.Join(p.dir, "line"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			break
		}
		f.Close()
	}
}

// Of two that resume one run, one does.
func TestAWFRunIsResumedByOneOfTwo(t *testing.T) {
	p := newAWF(t, awfChain)
	running := p.runUntilHeld("b")
	if output := p.wantExit(6, "resume", awfRunID); !strings.Contains(output, "another process is driving this run") {
		t.Error(output)
	}
	p.kill(running)
	p.wantExit(0, "resume", awfRunID, "--from", "current")
	p.wantExit(0, "resume", awfRunID)
	p.wantTrace("a", "b", "b", "c")
}

// A run that failed goes on from the failed step, in a run of its own;
// the words for other trouble are plain.
func TestAWFFailedRunContinuesInANewRun(t *testing.T) {
	p := newAWF(t, `  initial: a
  a: {type: step, command: 'sh ./step a', on_success: b}
  b: {type: step, command: 'sh ./step b; [ -e mended ]', on_success: c, on_failure: broken}
  c: {type: step, command: 'sh ./step c; echo {{trimSpace .states.a.Status}}', on_success: done}
  done: {type: terminal}
  broken: {type: terminal, status: failure, message: b is broken}
`)
	if output := p.wantExit(1, "run", "flow", "--run-id", awfRunID); !strings.Contains(output, "b is broken") ||
		!strings.Contains(output, "--from b\n") {
		t.Error(output)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "mended"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.wantExit(1, "resume", awfRunID)
	p.wantExit(0, "resume", awfRunID, "--from", "current")
	p.wantTrace("a", "b", "b", "c")
	p.wantExit(0, "resume", awfRunID, "--from", "previous")
	p.wantTrace("a", "b", "b", "c", "a", "b", "c")
	p.wantExit(0, "resume", awfRunID, "--from", "b")
	p.wantExit(2, "resume", "../../etc/passwd")
	p.wantExit(2, "resume", "ffffffff")
}

// An interrupted run is reported with its own exit code, and can be resumed.
func TestAWFInterruptedRunCanBeResumed(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		p := newAWF(t, awfChain)
		cmd := p.command("run", "flow", "--run-id", awfRunID)
		if err := os.WriteFile(filepath.Join(p.dir, "hold"), []byte("b"), 0o600); err != nil {
			t.Fatal(err)
		}
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile(filepath.Join(p.dir, "held")); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stderr)
		last := ""
		for lines.Scan() {
			last = lines.Text()
			if strings.Contains(lines.Text(), "unning commands and calls") { // for one that may not be done twice
				if err := cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("%v: exit %d", signal, code)
		}
		if !strings.HasSuffix(last, "espalier resume "+awfRunID[:8]+" --from current") {
			// A plain resume would only ask.
			t.Errorf("%v: how to go on: %s", signal, last)
		}
		if output := p.wantExit(0, "runs"); !strings.Contains(output, "flow") {
			t.Error(output)
		}
		p.wantExit(0, "resume", awfRunID, "--from", "current")
		p.wantTrace("a", "b", "b", "c")
	}
}

// A run that is canceled ends with the hooks for that, whichever process worked
// on it, and those of workflows that it calls; the audit trail says how it ended.
func TestAWFCancelledRunExecutesItsCancelHooks(t *testing.T) {
	const states = `  initial: call
  call: {type: call_workflow, workflow: inner, on_success: done}
  done: {type: terminal}
hooks:
  workflow_cancel:
    - command: 'sh ./step cancelled'
    - command: 'false'
    - log: 'cancelled {{.workflow.Name}}'
    - command: 'sh ./step told'
`
	inner := "name: inner\nhooks:\n  workflow_cancel: [{command: 'sh ./step inner-cancelled'}]\nstates:\n" +
		"  initial: deep\n  deep: {type: step, command: 'sh ./step deep', on_success: done}\n  done: {type: terminal}\n"
	project := func() *awfProject {
		p := newAWF(t, states)
		if err := os.WriteFile(filepath.Join(p.dir, ".awf/workflows/inner.yaml"), []byte(inner), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	t.Run("while a process works on it", func(t *testing.T) {
		p := project()
		running := p.runUntilHeld("deep")
		p.wantExit(0, "cancel", awfRunID)
		_ = running.Wait()
		if code := running.ProcessState.ExitCode(); code != 1 {
			t.Errorf("exit %d", code)
		}
		p.wantTrace("deep", "inner-cancelled", "cancelled", "told")
	})
	t.Run("while no process works on it", func(t *testing.T) {
		p := project()
		p.kill(p.runUntilHeld("deep"))
		p.wantExit(0, "cancel", awfRunID)
		p.wantTrace("deep", "inner-cancelled", "cancelled", "told")
		if output := p.wantExit(0, "status", awfRunID); !strings.Contains(output, "canceled") {
			t.Error(output)
		}
	})
	t.Run("and killed once more in a hook", func(t *testing.T) {
		p := project()
		running := p.runUntilHeld("deep")
		if err := os.WriteFile(filepath.Join(p.dir, "hold"), []byte("cancelled"), 0o600); err != nil {
			t.Fatal(err)
		}
		p.wantExit(0, "cancel", awfRunID)
		if raw, err := os.ReadFile(filepath.Join(p.dir, "held")); err != nil ||
			strings.TrimSpace(string(raw)) != "cancelled" {
			t.Fatal(string(raw), err)
		}
		p.kill(running)
		p.wantExit(4, "resume", awfRunID)
		p.wantExit(1, "resume", awfRunID, "--from", "current")
		p.wantTrace("deep", "inner-cancelled", "cancelled", "cancelled", "told")
	})
}

// A hundred branches of "true" finish, every time.
func TestAWFHundredBranchesFinish(t *testing.T) {
	var branches []string
	var states strings.Builder
	for i := range 100 {
		name := "b" + string(rune('a'+i/26)) + string(rune('a'+i%26))
		branches = append(branches, name)
		states.WriteString("  " + name + ": {type: step, command: 'true'}\n")
	}
	p := newAWF(t, "  initial: all\n  all: {type: parallel, parallel: ["+strings.Join(branches, ", ")+
		"], on_success: done}\n  done: {type: terminal}\n"+states.String())
	for range 2 {
		p.wantExit(0, "run", "flow")
	}
}

// Two loops side by side never see each other's items, and their places in
// the transcript are right.
func TestAWFLoopsSideBySideKeepTheirItems(t *testing.T) {
	p := newAWF(t, `  initial: both
  both: {type: parallel, parallel: [letters, numbers], on_success: done}
  letters: {type: for_each, items: "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p", body: [letter], on_complete: both}
  letter: {type: step, command: 'echo {{.loop.Item}} >> letters'}
  numbers: {type: for_each, items: "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", body: [number], on_complete: both}
  number: {type: step, command: 'echo {{.loop.Item}} >> numbers'}
  done: {type: terminal}
`)
	p.wantExit(0, "run", "flow", "--run-id", awfRunID)
	for name, want := range map[string]string{"letters": "a b c d e f g h i j k l m n o p", "numbers": "1 2 3 4 5 6 " +
		"7 8 9 10 11 12 13 14 15 16"} {
		raw, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil || strings.Join(strings.Fields(string(raw)), " ") != want {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
	}
	paths := map[string]int{}
	for line := range strings.Lines(p.wantExit(0, "transcript", awfRunID)) {
		var e struct {
			Type, Path string
			Iteration  int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == "step.completed" && strings.Count(e.Path, ".") == 2 {
			if e.Iteration != paths[e.Path] {
				t.Errorf("%s: iteration %d", e.Path, e.Iteration)
			}
			paths[e.Path]++
		}
	}
	if paths["both.letters.letter"] != 16 || paths["both.numbers.number"] != 16 {
		t.Error(paths)
	}
}

// What steps have printed is as long as it likes, and all of it in one
// command.
func TestAWFLargeOutputsReachCommandsWhole(t *testing.T) {
	p := newAWF(t, `  initial: each
  each: {type: parallel, parallel: [a, b, c], on_success: use}
  a: {type: step, command: "head -c 750000 /dev/zero | tr '\\0' a"}
  b: {type: step, command: "head -c 750000 /dev/zero | tr '\\0' b"}
  c: {type: step, command: "head -c 750000 /dev/zero | tr '\\0' c"}
  use:
    type: step
    command: |
      printf %s "{{.states.a.Output}}" '{{.states.b.Output}}' {{.states.c.Output}} | tr -d '\n' | wc -c | tr -d ' '
    on_success: done
  done: {type: terminal}
`)
	if output := p.wantExit(0, "run", "flow"); !strings.Contains(output, "\n2250000\n") {
		t.Error(output)
	}
}

// A cycle without an exit is a diagnostic, so the run does not start.
func TestAWFCycleWithoutExitIsRefused(t *testing.T) {
	p := newAWF(t, `  initial: a
  a: {type: step, command: 'true', on_success: b}
  b: {type: step, command: 'true', on_success: a}
  done: {type: terminal}
`)
	if output := p.wantExit(3, "run", "flow"); !strings.Contains(output, "WF009") ||
		!strings.Contains(output, "WF001") {
		t.Error(output)
	}
}

type awfEvent struct {
	Seq    int    `json:"seq"`
	Run    string `json:"run_id"`
	Parent string `json:"parent_run_id"`
	Child  string `json:"child_run_id"`
	Type   string `json:"type"`
	Path   string `json:"path"`
}

func (p *awfProject) transcript(run string) []awfEvent {
	p.t.Helper()
	raw, err := os.ReadFile(filepath.Join(p.dir, ".espalier", "storage", "transcripts", run+".jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	var out []awfEvent
	for line := range strings.Lines(string(raw)) {
		var e awfEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			p.t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// A call leaves two events in the transcript of its run, which lead to the
// child's own transcript; every line of that leads back. Also in a loop.
func TestAWFCallsAreLinked(t *testing.T) {
	p := newAWF(t, `  initial: each
  each: {type: for_each, items: "x,y", body: [sub], on_complete: done}
  sub: {type: call_workflow, workflow: inner}
  done: {type: terminal}
`)
	p.wantExit(0, "run", "flow", "--run-id", awfRunID)
	begun := map[string]bool{}
	var ended []string
	for _, e := range p.transcript(awfRunID) {
		if e.Run != awfRunID || e.Parent != "" {
			t.Errorf("a line of another run: %+v", e)
		}
		called := strings.HasPrefix(e.Type, "step.call_workflow.")
		switch {
		case called != (e.Path == "each.sub"), called != (e.Child != ""):
			t.Errorf("%+v", e)
		case e.Type == "step.call_workflow.started":
			begun[e.Child] = true
		case e.Type == "step.call_workflow.completed":
			ended = append(ended, e.Child)
		}
	}
	if len(begun) != 2 || len(ended) != 2 || ended[0] == ended[1] {
		t.Fatalf("begun %v, ended %v", begun, ended)
	}
	for _, child := range ended {
		if !begun[child] {
			t.Errorf("%s ended and never began", child)
		}
		events := p.transcript(child)
		if len(events) == 0 || events[0].Type != "run.started" || events[len(events)-1].Type != "run.completed" {
			t.Errorf("%+v", events)
		}
		for _, e := range events {
			if e.Run != child || e.Parent != awfRunID {
				t.Errorf("%+v", e)
			}
		}
	}
}

// A value of the environment that is a secret is in a command, and in nothing
// that is kept.
func TestAWFSecretsOfTheEnvironmentReachOnlyCommands(t *testing.T) {
	const hushed = "hush-value-of-the-vault"
	p := newAWF(t, `  initial: use
  use: {type: step, command: 'echo "{{.env.VAULT_TOKEN}}" | tr a-z A-Z > used; echo {{.env.VAULT_TOKEN}}', on_success: done}
  done: {type: terminal}
`)
	if err := os.WriteFile(filepath.Join(p.dir, "espalier.yaml"), []byte("secrets:\n  vault:\n"+
		"    env: VAULT_TOKEN\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VAULT_TOKEN", hushed)
	if output := p.wantExit(0, "run", "flow"); strings.Contains(output, hushed) ||
		!strings.Contains(output, "[secret vault]") {
		t.Error(output)
	}
	if raw, err := os.ReadFile(filepath.Join(p.dir, "used")); err != nil ||
		strings.TrimSpace(string(raw)) != strings.ToUpper(hushed) {
		t.Errorf("the command got %q, %v", raw, err)
	}
	files := 0
	err := filepath.WalkDir(filepath.Join(p.dir, ".espalier"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		raw, err := os.ReadFile(path)
		if strings.Contains(string(raw), hushed) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
}
