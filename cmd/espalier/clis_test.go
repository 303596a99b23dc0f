//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// cliProject is a project whose agent is a program that plants trees.
type cliProject struct {
	t   *testing.T
	dir string
	env []string
}

const cliRunID = "00000000-0000-4000-8000-00000000000c"

const plantFlow = `---
name: plant
kind: agent-flow/workflow
version: 1.0.0
description: Plants a tree.
tools:
  allowlist: [Bash]
---
` + "```agent\nid: gardener\nrole: Gardener\ngoal: Plant\ntools: [Bash]\n```\n```step\nid: plant\ntype: skill\n" +
	"agent: gardener\ndescription: Plant a tree\nwrites: [output.tree]\n```\n"

func newCLIProject(t *testing.T, env ...string) *cliProject {
	g := &cliProject{t: t, dir: t.TempDir(), env: env}
	g.writeFile("plant.md", plantFlow, 0o600)
	g.writeFile(".espalier/keep", "", 0o600)
	return g
}

func (g *cliProject) writeFile(name, text string, mode os.FileMode) {
	g.t.Helper()
	path := filepath.Join(g.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		g.t.Fatal(err)
	}
	approve(g.t, path)
}

func (g *cliProject) readFile(name string) string {
	g.t.Helper()
	raw, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil {
		g.t.Fatal(err)
	}
	return string(raw)
}

func (g *cliProject) command(args ...string) *exec.Cmd {
	cmd := exec.Command("espalier", args...)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+g.dir, "GORACE="+quickExit)
	cmd.Env = append(cmd.Env, g.env...)
	return cmd
}

// mustRun runs espalier and returns its output.
func (g *cliProject) mustRun(args ...string) string {
	g.t.Helper()
	var out, errs bytes.Buffer
	cmd := g.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		g.t.Fatalf("espalier %s: %v\n%s\n%s", strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}

// makeFIFO creates a named pipe, whose opening blocks until the other side opens it.
func (g *cliProject) makeFIFO(name string) string {
	g.t.Helper()
	path := filepath.Join(g.dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// killWhenOpened starts the run and kills espalier with SIGKILL as soon as the agent's tool opens the pipe for writing.
func (g *cliProject) killWhenOpened(pipe string, args ...string) {
	g.t.Helper()
	cmd := g.command(args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		f, err := os.Open(pipe)
		if err == nil {
			f.Close()
		}
		opened <- err
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-opened:
		if err != nil {
			g.t.Fatal(err)
		}
		if err := cmd.Process.Kill(); err != nil {
			g.t.Fatal(err)
		}
		<-ended
	case err := <-ended:
		// Release the pipe.
		if f, e := os.OpenFile(pipe, os.O_RDWR, 0); e == nil {
			f.Close()
		}
		g.t.Fatalf("the command ended before it was killed: %v\n%s", err, out.String())
	}
}

// fakeClaude plants one tree per session, and records it.
const fakeClaude = `#!/bin/sh
cat > prompt.txt
while [ $# -gt 0 ]; do
	case "$1" in
	--session-id) session=$2; new=1 ;;
	--resume) session=$2 ;;
	esac
	shift
done
echo "$session" >> sessions
if [ -z "$new" ] && [ ! -f "session-$session" ]; then
	echo '{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found"]}'
	exit 1
fi
echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"$session\",\"model\":\"claude-fake\"}"
if [ ! -f "session-$session" ]; then
	echo begun > "session-$session"
	echo '{"type":"assistant","message":{"id":"m1",'\
'"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"plant"}}]}}'
	echo planted >> trees
	: > "$PIPE" # until it is killed
	sleep 1000
fi
echo '{"type":"assistant","message":{"id":"m2","content":[{"type":"text","text":"It is planted."}]}}'
echo "{\"type\":\"result\",\"subtype\":\"success\",\"result\":\"It is planted.\","\
"\"session_id\":\"$session\",\"total_cost_usd\":0.5}"
`

// If Espalier is killed while an agent program works, the program dies with it. The resumed run continues the program's
// session, and does not repeat its actions.
func TestKilledAgentProgramContinuesItsSession(t *testing.T) {
	g := newCLIProject(t)
	g.writeFile("claude", fakeClaude, 0o700)
	g.writeFile("espalier.yaml", "models: {clis: {claude-code: {command: ./claude, pass_env: [PIPE]}}}\n", 0o600)
	g.mustRun("trust", "--yes")
	pipe := g.makeFIFO("pipe")
	g.env = append(g.env, "PIPE="+pipe)
	g.killWhenOpened(pipe, "run", "plant.md", "--allow-shell", "--model", "claude-code", "--run-id", cliRunID)
	out := g.mustRun("resume", cliRunID)
	if !strings.Contains(out, "It is planted.") || g.readFile("trees") != "planted\n" {
		t.Errorf("%s\n%s", out, g.readFile("trees"))
	}
	sessions := strings.Fields(g.readFile("sessions"))
	if len(sessions) != 2 || sessions[0] != sessions[1] {
		t.Errorf("the sessions were %q", sessions)
	}
	if prompt := g.readFile("prompt.txt"); !strings.Contains(prompt, "You were interrupted") {
		t.Errorf("it received %q", prompt)
	}
	record := g.mustRun("transcript", cliRunID)
	for _, want := range []string{`"agent_emitted"`, `You were interrupted`, `"text":"It is planted."`} {
		if strings.Count(record, want) < 1 {
			t.Errorf("no %s in\n%s", want, record)
		}
	}
	g.mustRun("audit", "verify", cliRunID)
}

// A program without resumable sessions may have acted, so a person decides.
func TestKilledAgentProgramWithoutSessionAsks(t *testing.T) {
	g := newCLIProject(t)
	g.writeFile("parrot", "#!/bin/sh\ncat > /dev/null\necho planted >> trees\nif [ $(wc -l < trees) = 1 ]; then : > "+
		"\"$PIPE\"; sleep 1000; fi\necho It is planted.\n", 0o700)
	g.writeFile("espalier.yaml",
		"models: {clis: {parrot: {speaks: text, command: ./parrot, pass_env: [PIPE]}}}\n", 0o600)
	g.mustRun("trust", "--yes")
	pipe := g.makeFIFO("pipe")
	g.env = append(g.env, "PIPE="+pipe)
	g.killWhenOpened(pipe, "run", "plant.md", "--allow-shell", "--model", "parrot", "--run-id", cliRunID)
	cmd := g.command("resume", cliRunID)
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 4 {
		t.Fatalf("%v\n%s", err, out)
	}
	if g.readFile("trees") != "planted\n" {
		t.Errorf("%s", g.readFile("trees"))
	}
	if out := g.mustRun("resume", cliRunID, "--decide", "plant=rerun"); !strings.Contains(out, "It is planted.") {
		t.Error(out)
	}
}
