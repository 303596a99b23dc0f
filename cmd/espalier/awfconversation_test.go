//go:build unix

package main

import (
	"io"
	"maps"
	"os"
	"strings"
	"testing"
	"time"
)

// TestConversationSurvivesKills kills a conversation while it waits for the model and while it waits for the person.
// Each turn is asked for once, except the one that had no reply yet.
func TestConversationSurvivesKills(t *testing.T) {
	world := newAWFServer(t, "hi,first")
	p := newAWF(t, strings.ReplaceAll(`  initial: chat
  chat: {type: agent, provider: openai_compatible, mode: conversation, prompt: hi,
    options: {base_url: "URL/v1", model: small, api_key: k}, on_success: done}
  done: {type: terminal}
`, "URL", world.URL))
	p.writeFile("espalier.yaml", "allow: {hosts: ['"+world.Listener.Addr().String()+"']}\n", 0o600)

	cmd := p.command("run", "flow", "--run-id", awfRunID)
	cmd.Stdin = strings.NewReader("first\n")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-world.held:
	case <-time.After(30 * time.Second):
		t.Fatalf("the model was not asked to continue the conversation, but %v", world.requestCounts())
	}
	p.kill(cmd)

	// The text survives: the turn continues without a person.
	cmd = p.command("resume", awfRunID)
	open, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	newLines(stderr).skipTo(t, "re hi,first")
	p.kill(cmd)
	open.Close()

	cmd = p.command("resume", awfRunID)
	cmd.Stdin = strings.NewReader("second\n\n")
	out, err := cmd.Output()
	if err != nil || string(out) != "re hi,first,second\n" {
		t.Fatalf("%v: %q", err, out)
	}
	want := map[string]int{"hi": 1, "hi,first": 2, "hi,first,second": 1}
	if got := world.requestCounts(); !maps.Equal(got, want) {
		t.Errorf("the model was asked %v, want %v", got, want)
	}
}

// TestInterruptedConversationWaits interrupts a conversation while it waits for the person: the run keeps waiting.
func TestInterruptedConversationWaits(t *testing.T) {
	p := newAWF(t, `  initial: chat
  chat: {type: agent, provider: claude, mode: conversation, prompt: hi, on_success: done}
  done: {type: terminal}
`)
	cmd := p.command("run", "flow", "--run-id", awfRunID, "--simulate")
	open, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	newLines(stderr).skipTo(t, "Example")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(stderr)
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 ||
		!strings.Contains(string(rest), "To reply: espalier signal") {
		t.Errorf("exit code %d: %s", cmd.ProcessState.ExitCode(), rest)
	}
	if out := p.wantExit(0, "signal", awfRunID, "chat"); !strings.Contains(out, "simulated reply") {
		t.Error(out)
	}
}
