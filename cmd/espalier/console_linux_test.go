package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A conversation on a terminal prompts for each reply and shows the model's text with its lines. An empty line ends it.
func TestConversationPromptsOnATerminal(t *testing.T) {
	p := newAWF(t, `  initial: chat
  chat: {type: agent, provider: claude, mode: conversation, prompt: hi, on_success: done}
  done: {type: terminal}
`)
	p.writeFile("replies.yaml",
		"replies:\n  - {step: chat, turn: 1, reply: \"One\\nTwo\"}\n  - {step: chat, turn: 2, reply: Three}\n", 0o600)
	c := startOnConsole(t, p.command("run", "flow", "--script", "replies.yaml"), 80, 24)
	c.waitFor("One\r\nTwo\r\n")
	c.waitFor("\r\n> ")
	c.typeText("more\n")
	c.waitFor("Three\r\n")
	c.waitFor("\r\n> ")
	c.typeText("\n")
	if screen := c.waitExit(0); strings.Count(screen, "Run ") != 2 {
		t.Errorf("the run is not shown once at its start and once at its end:\n%s", screen)
	}
}

// A run whose terminal is closed is parked: its command gets the grace period, and the run can be resumed.
func TestClosedTerminalParksTheRun(t *testing.T) {
	p := newAWF(t, awfChain)
	p.writeFile("espalier.yaml", "allow: {shell: true}\ngrace_period: 100ms\n", 0o600)
	p.writeFile("hold", "b", 0o600)
	c := startOnConsole(t, p.command("run", "flow", "--run-id", awfRunID), 80, 24)
	if step, err := os.ReadFile(filepath.Join(p.dir, "held")); err != nil || string(step) != "b\n" {
		t.Fatalf("%q is held, %v", step, err)
	}
	c.hangUp()
	_ = c.cmd.Wait() // the exit code counts
	if code := c.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("%v", c.cmd.ProcessState)
	}
	status := p.wantExit(0, "status", awfRunID, "--json")
	if !strings.Contains(status, `"state": "unknown"`) || strings.Contains(status, `"driver"`) {
		t.Errorf("the run is left as %s", status)
	}
	p.wantExit(0, "resume", awfRunID, "--from", "current")
	p.wantTrace("a", "b", "b", "c")
}

// Ctrl-C and Ctrl-D at the prompt leave the conversation waiting, an empty line ends it.
func TestControlKeysLeaveTheConversationWaiting(t *testing.T) {
	p := newAWF(t, `  initial: chat
  chat: {type: agent, provider: claude, mode: conversation, prompt: hi, on_success: done}
  done: {type: terminal}
`)
	c := startOnConsole(t, p.command("run", "flow", "--simulate", "--run-id", awfRunID), 80, 24)
	c.waitFor("\r\n> ")
	c.typeText("\x03")
	if screen := c.waitExit(130); !strings.Contains(screen, "To reply: espalier signal") {
		t.Error(screen)
	}
	c = startOnConsole(t, p.command("resume", awfRunID), 80, 24)
	c.waitFor("\r\n> ")
	c.typeText("\x04")
	c.waitExit(4)
	c = startOnConsole(t, p.command("resume", awfRunID), 80, 24)
	c.waitFor("\r\n> ")
	c.typeText("\r")
	c.waitExit(0)
}

// awfCodex answers like codex exec: it names its session, which "codex exec … resume ID -" continues.
const awfCodex = `#!/bin/sh
prompt=$(cat)
how=begun
session=th-$$
while [ $# -gt 0 ]; do
  case "$1" in
  resume) session="$2"; how=resumed; shift;;
  esac
  last="$1"
  shift
done
[ "$last" = - ] || exit 2
echo "$how $session model= prompt=$prompt" >> "$CALLS"
echo '{"type":"thread.started","thread_id":"'$session'"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"it heard: '"$prompt"'"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":5,"output_tokens":3}}'
`

// A conversation with a program continues its session in every turn, also after the process was killed.
func TestConversationContinuesTheSessionOfAProgram(t *testing.T) {
	for program, c := range map[string]struct{ name, script string }{
		"claude": {"claude-code", awfClaude}, "codex": {"codex", awfCodex},
	} {
		t.Run(program, func(t *testing.T) { continuesSession(t, program, c.name, c.script) })
	}
}

func continuesSession(t *testing.T, program, name, script string) {
	p := newAWF(t, `  initial: chat
  chat: {type: agent, provider: `+program+`, mode: conversation, prompt: first, on_success: done}
  done: {type: terminal}
`)
	p.writeFile("bin/"+program, script, 0o700)
	t.Setenv("PATH", filepath.Join(p.dir, "bin")+":"+os.Getenv("PATH"))
	p.writeFile("espalier.yaml", "models: {clis: {"+name+": {pass_env: [CALLS]}}}\n", 0o600)
	t.Setenv("CALLS", filepath.Join(p.dir, "calls"))
	c := startOnConsole(t, p.command("run", "flow", "--allow-shell", "--run-id", awfRunID), 80, 24)
	c.waitFor("Its worst case is not known")
	c.waitFor("Start it? [y/N] ")
	c.typeText("y\n")
	c.waitFor("\r\n> ")
	c.typeText("second\n")
	c.waitFor("it heard: second\r\n")
	c.waitFor("\r\n> ")
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
	cmd := p.command("resume", awfRunID)
	cmd.Stdin = strings.NewReader("third\n\n")
	if out, err := cmd.Output(); err != nil || string(out) != "it heard: third\n" {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := os.ReadFile(filepath.Join(p.dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	calls := strings.Split(strings.TrimSpace(string(raw)), "\n")
	_, rest, _ := strings.Cut(calls[0], " ")
	session, _, _ := strings.Cut(rest, " ")
	want := "begun " + session + " model= prompt=first\nresumed " + session + " model= prompt=second\nresumed " +
		session + " model= prompt=third"
	if got := strings.Join(calls, "\n"); session == "" || got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// When two people reply to the same turn, the first reply counts. The other terminal reports that and shows the next
// turn.
func TestFirstOfTwoRepliesToATurnCounts(t *testing.T) {
	p := newAWF(t, `  initial: chat
  chat: {type: agent, provider: claude, mode: conversation, prompt: hi, on_success: done}
  done: {type: terminal}
`)
	p.writeFile("replies.yaml", `replies:
  - {step: chat, turn: 1, reply: One}
  - {step: chat, turn: 2, reply: Two}
  - {step: chat, turn: 3, reply: Three}
`, 0o600)
	c := startOnConsole(t, p.command("run", "flow", "--script", "replies.yaml", "--run-id", awfRunID), 80, 24)
	c.waitFor("One\r\n")
	c.waitFor("\r\n> ")
	p.wantExit(4, "signal", awfRunID, "chat", "--step", "chat:input~1", "--text", "from elsewhere")
	if output := p.wantExit(2, "signal", awfRunID, "chat", "--step", "chat:input~1",
		"--text", "too late"); !strings.Contains(output, "gate chat was already answered") {
		t.Error(output)
	}
	c.typeText("mine\n")
	c.waitFor("Your answer was not used: gate chat was already answered")
	c.waitFor("Two\r\n")
	c.waitFor("\r\n> ")
	c.typeText("mine again\n")
	c.waitFor("Three\r\n")
	c.waitFor("\r\n> ")
	c.typeText("\n")
	c.waitExit(0)
	output := p.wantExit(0, "transcript", awfRunID)
	for _, text := range []string{"from elsewhere", "mine again"} {
		if strings.Count(output, `"fidelity":"router","text":"`+text+`"`) != 1 {
			t.Errorf("%q is not one message:\n%s", text, output)
		}
	}
	if strings.Contains(output, `"text":"mine"`) || strings.Contains(output, "too late") {
		t.Error(output)
	}
}

// If several steps wait for text, a reply from another process has to name one, and reaches only that one.
func TestReplyNamesOneOfSeveralSteps(t *testing.T) {
	p := newAWF(t, `  initial: both
  both: {type: parallel, parallel: [one, two], on_success: done}
  one: {type: call_workflow, workflow: chat}
  two: {type: call_workflow, workflow: chat}
  done: {type: terminal}
`)
	p.writeFile(".awf/workflows/chat.yaml", `name: chat
states:
  initial: chat
  chat: {type: agent, provider: claude, mode: conversation, prompt: hi, on_success: done}
  done: {type: terminal}
`, 0o600)
	c := startOnConsole(t, p.command("run", "flow", "--simulate", "--run-id", awfRunID), 80, 24)
	c.waitFor("both.one › chat:")
	c.waitFor("\r\n> ")
	c.typeText("\x03")
	c.waitExit(130)
	const one, two = "both.one › chat", "both.two › chat"
	if output := p.wantExit(2, "signal", awfRunID, "chat", "--text", "for both?"); !strings.Contains(output,
		"several steps are waiting for text: name one of "+one+", "+two) {
		t.Error(output)
	}
	output := p.wantExit(4, "signal", awfRunID, "chat", "--step", one)
	if !strings.Contains(output, "both.one  done") || strings.Contains(output, "both.two › reply to chat  event") {
		t.Error(output)
	}
	p.wantExit(0, "signal", awfRunID, "chat")
}

// gatedProject is a project with a workflow whose output a person approves.
func gatedProject(t *testing.T) *awfProject {
	p := newAWF(t, awfChain)
	p.writeFile("gated.md", "---\nname: gated\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Ask.\n---\n"+
		"```step\nid: draft\ntype: transform\ndescription: Write\nwrites: [output.draft]\n```\n"+
		"```step\nid: ok\ntype: gate\ngate_method: human_review\ndescription: May it go out?\n"+
		"reads: [output.draft]\n```\n", 0o600)
	p.writeFile("replies.yaml", "replies:\n  - {step: draft, reply: {draft: The plan}}\n", 0o600)
	return p
}

// At a gate on a terminal, run shows the evidence and asks for the decision.
func TestGateIsDecidedOnTheTerminal(t *testing.T) {
	p := gatedProject(t)
	run := func(id string) *console {
		c := startOnConsole(t, p.command("run", "gated.md", "--script", "replies.yaml", "--run-id", id), 80, 24)
		c.waitFor("ok asks for approval: May it go out?")
		c.waitFor("The plan")
		c.waitFor("digest ")
		c.waitFor("Approve? [y]es, [n]o, or Enter to decide later: ")
		return c
	}
	c := run("00000000-0000-4000-8000-00000000000a")
	c.typeText("maybe\n")
	c.waitFor("\"maybe\" is not an answer. Type y to approve or n to reject")
	c.waitFor("Approve? ")
	c.typeText("y\n")
	screen := c.waitExit(0)
	if _, after, _ := strings.Cut(screen, "✓ draft"); !strings.Contains(screen, "✓ draft") ||
		strings.Contains(after[strings.LastIndex(after, "Approve? "):], "✓ draft") {
		t.Errorf("a step that finished before the decision is shown again:\n%s", screen)
	}

	c = run("00000000-0000-4000-8000-00000000000b")
	c.typeText("n\n")
	c.waitFor("Reason (optional): ")
	c.typeText("too short\n")
	if screen := c.waitExit(1); !strings.Contains(screen, "was rejected") {
		t.Error(screen)
	}
	if output := p.wantExit(0, "audit", "00000000-0000-4000-8000-00000000000b"); !strings.Contains(output,
		"too short") {
		t.Error(output)
	}

	c = run("00000000-0000-4000-8000-00000000000d")
	c.typeText("reject: too long\n")
	c.waitExit(1)
	if output := p.wantExit(0, "audit", "00000000-0000-4000-8000-00000000000d"); !strings.Contains(output,
		"too long") {
		t.Error(output)
	}

	c = run("00000000-0000-4000-8000-00000000000e")
	c.typeText("\x03") // as at the prompt of approve
	if screen := c.waitExit(130); !strings.Contains(screen, "To decide: espalier approve") ||
		!strings.Contains(screen, "decide later: ^C\r\nespalier: run ") &&
			!strings.Contains(screen, "decide later: ^C\r\n\x1b[1;31mespalier:") {
		t.Error(screen)
	}

	c = run("00000000-0000-4000-8000-00000000000c")
	c.typeText("\n")
	if screen := c.waitExit(4); !strings.Contains(screen, "To decide: espalier approve") {
		t.Error(screen)
	}
	// Nothing is asked if stdin is not a terminal.
	p.wantExit(4, "resume", "00000000-0000-4000-8000-00000000000c")
}

// On a terminal, approve shows what is approved and asks, unless the digest is given.
func TestApproveAsksOnATerminal(t *testing.T) {
	p := gatedProject(t)
	p.wantExit(4, "run", "gated.md", "--script", "replies.yaml", "--run-id", awfRunID)
	approve := func(more ...string) *console {
		return startOnConsole(t, p.command(append([]string{"approve", awfRunID}, more...)...), 80, 24)
	}
	c := approve()
	c.waitFor("The plan")
	c.waitFor("digest ")
	c.waitFor("Approve? [y]es, [n]o, or Enter to decide later: ")
	c.typeText("\n")
	if screen := c.waitExit(4); !strings.Contains(screen, "nothing was decided") {
		t.Error(screen)
	}
	c = approve()
	c.waitFor("Approve? ")
	c.typeText("\x03")
	if screen := c.waitExit(130); !strings.Contains(screen, "nothing was decided") {
		t.Error(screen)
	}
	if screen := approve("--digest", "0123").waitExit(2); strings.Contains(screen, "Approve?") {
		t.Error(screen)
	}
	c = approve()
	c.waitFor("Approve? ")
	c.typeText("y\n")
	c.waitExit(0)

	const other = "00000000-0000-4000-8000-00000000000a"
	p.wantExit(4, "run", "gated.md", "--script", "replies.yaml", "--run-id", other)
	_, digest, _ := strings.Cut(p.wantExit(0, "status", other), "digest ")
	digest, _, _ = strings.Cut(digest, "\n")
	c = startOnConsole(t, p.command("approve", other, "--digest", digest), 80, 24)
	if screen := c.waitExit(0); strings.Contains(screen, "Approve?") {
		t.Error(screen)
	}
}

// At the prompt of approve, n rejects as it does where run asks, and reject asks for the reason as well.
func TestRejectionAsksForTheReason(t *testing.T) {
	for _, command := range []string{"approve", "reject"} {
		p := gatedProject(t)
		p.wantExit(4, "run", "gated.md", "--script", "replies.yaml", "--run-id", awfRunID)
		c := startOnConsole(t, p.command(command, awfRunID), 80, 24)
		c.waitFor("The plan")
		if command == "approve" {
			c.waitFor("Approve? ")
			c.typeText("n\n")
		}
		c.waitFor("Reason (optional): ")
		c.typeText("not today\n")
		c.waitExit(1)
		if output := p.wantExit(0, "audit", awfRunID); !strings.Contains(output, "not today") {
			t.Errorf("%s: %s", command, output)
		}
	}
}

// On a terminal, resume asks what to do about a step whose outcome is unknown.
func TestUnknownOutcomeIsResolvedOnTheTerminal(t *testing.T) {
	p := newAWF(t, "  initial: it\n  it: {type: step, command: sh ./step y, on_success: done}\n"+
		"  done: {type: terminal}\n")
	p.kill(p.runUntilHeld("y"))
	c := startOnConsole(t, p.command("resume", awfRunID), 80, 24)
	c.waitFor("It is unknown whether it was done.")
	c.waitFor("It was running the command: sh ./step y")
	c.waitFor("If you know its result: espalier resume " + awfRunID[:8] + " --decide it=result=JSON")
	c.typeText("\n")
	const hint = "--decide it=rerun   (instead of rerun: skip, fail or result=JSON)"
	if screen := c.waitExit(4); !strings.Contains(screen, hint) {
		t.Error(screen)
	}
	c = startOnConsole(t, p.command("resume", awfRunID), 80, 24)
	c.waitFor("Type rerun, skip or fail, or press Enter to decide later: ")
	c.typeText("perhaps\n")
	c.waitFor("\"perhaps\" is not an answer.")
	c.typeText("rerun\n")
	c.waitExit(0)
	p.wantTrace("y", "y")
}

// An approver at a terminal sees which values come from outside of the project: in the status of the run, and where
// "resume" asks for the decision. The input of a person in the project is not marked.
func TestTerminalMarksUntrustedInput(t *testing.T) {
	p := newAWF(t, awfChain)
	p.writeFile("asked.md", "---\nname: asked\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Asks.\n"+
		"triggers: {event: mail_came, api: true}\n"+
		"input: {schema: {type: object, properties: {text: {type: string}}}}\n---\n"+
		"```step\nid: note\ntype: transform\ndescription: Note it\nreads: [input.text]\nwrites: [output.note]\n```\n"+
		"```step\nid: ok\ntype: gate\ngate_method: human_review\ndescription: May it go out?\n"+
		"reads: [input.text, output.note]\n```\n", 0o600)
	p.writeFile("espalier.yaml", "triggers: {asked: {simulate: true}}\n", 0o600)
	s := startServer(p)
	runs := map[string]string{
		"mine": s.call("POST", "/api/v1/runs", `{"workflow": "asked", "simulate": true, "input": {"text": "pay me"}}`,
			201)["run_id"].(string),
		"theirs": s.call("POST", "/api/v1/events", `{"specversion": "1.0", "id": "1", "source": "/mail",
			"type": "mail_came", "data": {"text": "pay me"}}`, 202)["started"].([]any)[0].(string),
	}
	for _, run := range runs {
		s.waitForState(run, "waiting")
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // it was interrupted
	for whose, run := range runs {
		output := p.wantExit(0, "status", run)
		c := startOnConsole(t, p.command("resume", run), 80, 24)
		c.waitFor("Approve? [y]es, [n]o, or Enter to decide later: ")
		c.typeText("\n")
		for where, text := range map[string]string{"status": output, "prompt": c.waitExit(4)} {
			marked := strings.Contains(text, "input.text (untrusted):") &&
				strings.Contains(text, "The input of the run comes from outside of the project and is untrusted.")
			if !strings.Contains(text, "pay me") || strings.Contains(text, "output.note (untrusted)") ||
				marked != (whose == "theirs") || strings.Contains(text, "untrusted") != marked {
				t.Errorf("%s of the run that is %s:\n%s", where, whose, text)
			}
		}
	}
}

// With --wait, run stays at a gate until another process has decided, and prints the output.
func TestRunWaitsForADecisionFromElsewhere(t *testing.T) {
	p := gatedProject(t)
	cmd := p.command("run", "gated.md", "--script", "replies.yaml", "--wait", "--run-id", awfRunID)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	printed := newLines(stderr)
	printed.skipTo(t, "waiting for approval")
	p.wantExit(0, "approve", awfRunID)
	for printed.Scan() { // to the end
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "The plan") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// On a terminal, the command alone says what is in the folder and what to do next.
func TestGreetingSaysWhatToDoNext(t *testing.T) {
	p := gatedProject(t)
	p.wantExit(4, "run", "gated.md", "--script", "replies.yaml")
	screen := startOnConsole(t, p.command(), 80, 24).waitExit(0)
	for _, text := range []string{
		"and 1 unfinished run", "espalier runs --open", "1 item waiting for you", "--simulate",
	} {
		if !strings.Contains(screen, text) {
			t.Errorf("%q is missing:\n%s", text, screen)
		}
	}
}

// With --verbose, a terminal gets one line for each event, and nothing is redrawn.
func TestVerboseListsEventsOnATerminal(t *testing.T) {
	p := gatedProject(t)
	up := regexp.MustCompile(`\x1b\[\d*A|\x1b\[\d*J`)
	for _, verbose := range []bool{false, true} {
		args := []string{"run", "gated.md", "--script", "replies.yaml"}
		if verbose {
			args = append(args, "-v")
		}
		c := startOnConsole(t, p.command(args...), 80, 24)
		c.waitFor("Approve? ")
		c.typeText("\n")
		screen := c.waitExit(4)
		if redrawn := up.MatchString(screen); redrawn == verbose {
			t.Errorf("verbose %t: redrawn %t:\n%q", verbose, redrawn, screen)
		}
	}
}

// In an empty folder, the greeting offers to run an example. It creates nothing without a yes.
func TestGreetingOffersAnExample(t *testing.T) {
	p := gatedProject(t)
	greeted := func(dir string) *console {
		cmd := p.command()
		cmd.Dir = dir
		c := startOnConsole(t, cmd, 80, 40)
		c.waitFor("espalier init")
		return c
	}
	for _, answer := range []string{"\n", "n\n"} {
		dir := t.TempDir()
		c := greeted(dir)
		c.waitFor("[y/N] ")
		c.typeText(answer)
		c.waitExit(0)
		if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
			t.Errorf("%q: the folder has %v: %v", answer, made, err)
		}
	}
	dir := t.TempDir()
	c := greeted(dir)
	c.waitFor("[y/N] ")
	c.typeText("y\n")
	c.waitFor("Approve? ")
	c.typeText("y\n")
	screen := c.waitExit(0)
	for _, text := range []string{"simulated", "Next: edit example.md"} {
		if !strings.Contains(screen, text) {
			t.Errorf("%q is missing:\n%s", text, screen)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "example.md")); err != nil {
		t.Error(err)
	}
	taken := t.TempDir()
	if err := os.WriteFile(filepath.Join(taken, "example.md"), []byte("# Notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if screen := greeted(taken).waitExit(0); strings.Contains(screen, "[y/N]") {
		t.Errorf("the file of another would be replaced:\n%s", screen)
	}
}

// On a terminal, init asks for a first workflow, its format and its pattern.
func TestInitAsksThreeQuestions(t *testing.T) {
	dir := t.TempDir()
	p := newAWF(t, awfChain)
	cmd := p.command("init")
	cmd.Dir = dir
	c := startOnConsole(t, cmd, 80, 24)
	c.waitFor("Name of the first workflow, or \"none\" to create none [")
	c.typeText("My Digest\n") // a wrong answer is asked for again
	c.waitFor("How about \"my-digest\"?")
	c.typeText("digest\n")
	c.waitFor("[agent-flow]: ")
	c.typeText("awk\n")
	c.waitFor("Unknown format \"awk\"")
	c.typeText("awf\n")
	c.waitFor("[pipeline]: ")
	c.typeText("parallel\n")
	c.waitFor("The format awf has no pattern \"parallel\". Did you mean \"fanout\"?")
	c.waitFor("\r\n  fanout ")
	c.waitFor("[pipeline]: ")
	c.typeText("\n")
	if screen := c.waitExit(0); strings.Contains(screen, "agentic") { // a pattern that AWF lacks
		t.Error(screen)
	}
	for _, name := range []string{"digest.yaml", "digest.script.yaml", "espalier.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// A person who interrupts the questions of init, or ends the input, gets no project.
func TestInitCanBeLeft(t *testing.T) {
	for typed, code := range map[string]int{"\x03": 130, "\x04": 2} {
		dir, p := t.TempDir(), newAWF(t, awfChain)
		cmd := p.command("init")
		cmd.Dir = dir
		c := startOnConsole(t, cmd, 80, 24)
		c.waitFor("Name of the first workflow, or \"none\" to create none [")
		c.typeText(typed)
		if screen := c.waitExit(code); !strings.Contains(screen, "nothing was created") {
			t.Error(screen)
		}
		if made, err := os.ReadDir(dir); len(made) > 0 || err != nil {
			t.Errorf("%q: %v %v", typed, made, err)
		}
	}
}

// Enter takes the default of each question of init: a workflow with the name of the folder, and none in a project that
// has workflows.
func TestInitTakesItsDefaults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "My Digest")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p := newAWF(t, awfChain)
	initialize := func(questions ...string) {
		t.Helper()
		cmd := p.command("init")
		cmd.Dir = dir
		c := startOnConsole(t, cmd, 80, 24)
		for _, question := range questions {
			c.waitFor(question)
			c.typeText("\n")
		}
		c.waitExit(0)
	}
	files := func() string {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " ")
	}
	initialize("[my-digest]: ", "[agent-flow]: ", "[pipeline]: ")
	const made = "espalier.yaml my-digest.md my-digest.script.yaml"
	if got := files(); got != made {
		t.Errorf("the first time: %s, want %s", got, made)
	}
	initialize("[none]: ")
	if got := files(); got != made {
		t.Errorf("the second time: %s, want %s", got, made)
	}
}
