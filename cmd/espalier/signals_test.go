//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOneSignalParksAfterTheGracePeriod: a command that does not end by itself is interrupted when the grace period is
// over, and the run says how to go on.
func TestOneSignalParksAfterTheGracePeriod(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		p := newAWF(t, awfChain)
		writeApproved(t, filepath.Join(p.dir, "espalier.yaml"), "allow: {shell: true}\ngrace_period: 100ms\n")
		cmd := p.runUntilHeld("b")
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("%v: exit code %d", signal, code)
		}
		if status := p.wantExit(0, "status", awfRunID, "--json"); !strings.Contains(status, `"state": "unknown"`) {
			t.Errorf("%v leaves the run as %s", signal, status)
		}
		p.wantExit(0, "resume", awfRunID, "--from", "current")
		p.wantTrace("a", "b", "b", "c")
	}
}

// TestWorkReloadsOnHangup: a worker goes on after SIGHUP, with the configuration of that time.
func TestWorkReloadsOnHangup(t *testing.T) {
	p := newAWF(t, awfChain)
	writeApproved(t, filepath.Join(p.dir, "espalier.yaml"), "{}\n")
	worker := p.command("work")
	stderr, err := worker.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	lines := newLines(stderr)
	lines.skipTo(t, "Working in")
	writeApproved(t, filepath.Join(p.dir, "espalier.yaml"), "allow: {shell: true}\n")
	if err := worker.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	lines.skipTo(t, "Reloading")
	lines.skipTo(t, "Working in")
	p.wantExit(0, "run", "flow", "--detach", "--run-id", awfRunID)
	p.wantExit(0, "transcript", awfRunID, "--follow")
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	if code := worker.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	p.wantTrace("a", "b", "c")
}

// lines reads what a command prints, line by line.
type lines struct{ *bufio.Scanner }

func newLines(r io.Reader) lines { return lines{bufio.NewScanner(r)} }

// skipTo reads up to a line that holds a text.
func (l lines) skipTo(t *testing.T, text string) {
	t.Helper()
	for l.Scan() {
		if strings.Contains(l.Text(), text) {
			return
		}
	}
	t.Fatalf("the command ends without %q", text)
}

// TestRunThatFinishesWhileStoppingIsReportedAsFinished: after a signal, the last command may finish. Then the run has
// finished, and its output and exit code are those of any other run.
func TestRunThatFinishesWhileStoppingIsReportedAsFinished(t *testing.T) {
	const command = "type: step, command: 'echo last > held; cat release', on_success: done"
	const done = "  done: {type: terminal}\n"
	for _, c := range []struct {
		name, states string
		signal       os.Signal
	}{
		{"nothing left", "  initial: last\n  last: {" + command + "}\n" + done, os.Interrupt},
		{"nothing left", "  initial: last\n  last: {" + command + "}\n" + done, syscall.SIGTERM},
		{
			"a log hook of the step",
			"  initial: last\n  last: {" + command + ", hooks: {post: [{log: over}]}}\n" + done, os.Interrupt,
		},
		{
			"a log hook of the workflow",
			"  initial: last\n  last: {" + command + "}\n" + done + "hooks: {workflow_end: [{log: over}]}\n",
			syscall.SIGTERM,
		},
		{
			"a call, and log hooks", "  initial: call\n  call: {type: call_workflow, workflow: child, " +
				"outputs: {result: result}, hooks: {post: [{log: over}]}, on_success: done}\n" + done +
				"outputs: {result: '{{.states.call.result}}'}\n",
			os.Interrupt,
		},
	} {
		signal := c.signal
		p := newAWF(t, c.states)
		writeApproved(t, filepath.Join(p.dir, ".awf", "workflows", "child.yaml"), "name: child\n"+
			"outputs: {result: '{{.states.last.Output}}'}\nhooks: {workflow_end: [{log: over}]}\n"+
			"states:\n  initial: last\n  last: {"+command+"}\n"+done)
		if err := syscall.Mkfifo(filepath.Join(p.dir, "release"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := p.command("run", "flow", "--run-id", awfRunID)
		var stdout strings.Builder
		cmd.Stdout = &stdout
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
		printed := newLines(stderr)
		if signal == syscall.SIGTERM {
			printed.skipTo(t, "Stopping. Running commands and calls have 10s to finish.") // the default
		} else {
			printed.skipTo(t, "Waiting for running commands and calls.")
		}
		if err := os.WriteFile(filepath.Join(p.dir, "release"), []byte("the result\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for printed.Scan() {
			if strings.Contains(printed.Text(), "is interrupted") {
				t.Errorf("%s, %v: %s", c.name, signal, printed.Text())
			}
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(stdout.String(), "the result") {
			t.Errorf("%s, %v: exit code %d, output %q", c.name, signal, code, stdout.String())
		}
	}
}

// A worker or server that reloads waits for the running command. Another SIGHUP changes nothing, and a signal to stop
// ends the process once the command has finished.
func TestSignalToStopDuringAReloadEndsTheProcess(t *testing.T) {
	for name, args := range map[string][]string{"work": {"work"}, "serve": {"serve", "--addr", "127.0.0.1:0"}} {
		t.Run(name, func(t *testing.T) {
			p := newAWF(t, "  initial: last\n  last: {type: step, command: 'echo last > held; cat release', "+
				"on_success: done}\n  done: {type: terminal}\n")
			writeApproved(t, filepath.Join(p.dir, "espalier.yaml"), "allow: {shell: true}\ngrace_period: 10m\n")
			fifo := filepath.Join(p.dir, "release")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			p.wantExit(0, "run", "flow", "--detach", "--run-id", awfRunID)
			cmd := p.command(args...)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })                         // unless it has ended
			if _, err := os.ReadFile(filepath.Join(p.dir, "held")); err != nil { // waits for the command
				t.Fatal(err)
			}
			lines := newLines(stderr)
			const stopping = "Running commands and calls have 10m0s to finish"
			for _, signals := range [][]os.Signal{{syscall.SIGHUP}, {syscall.SIGHUP, syscall.SIGTERM}} {
				for _, signal := range signals {
					if err := cmd.Process.Signal(signal); err != nil {
						t.Fatal(err)
					}
				}
				lines.skipTo(t, stopping)
			}
			go os.WriteFile(fifo, []byte("the result\n"), 0o600) // if the command still waits
			for lines.Scan() {
			}
			_ = cmd.Wait() // how it ended is looked at
			if code := cmd.ProcessState.ExitCode(); code != 130 {
				t.Errorf("exit code %d", code)
			}
			if status := p.wantExit(0, "status", awfRunID, "--json"); !strings.Contains(status, `"outcome": "ok"`) {
				t.Error(status)
			}
		})
	}
}

// An interrupt lets the call of a model finish and keeps its reply. If a worker continues the run, the command says so.
func TestInterruptKeepsTheReplyOfARunningCall(t *testing.T) {
	for _, name := range []string{"alone", "beside a worker"} {
		t.Run(name, func(t *testing.T) {
			asked, proceed := make(chan struct{}), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				close(asked) // a second request would panic
				<-proceed
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":`+
					`{"role":"assistant","content":"a reply"},"finish_reason":"stop"}],`+
					`"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}`)
			}))
			t.Cleanup(server.Close)
			p := newAWF(t, `  initial: one
  one: {type: agent, provider: openai_compatible, prompt: Begin, on_success: two,
    options: {base_url: "`+server.URL+`/v1", model: small, api_key: k, stream: false}}
  two: {type: step, command: 'sh ./step two', on_success: done}
  done: {type: terminal}
`)
			writeApproved(t, filepath.Join(p.dir, "espalier.yaml"), "allow: {shell: true}\n")
			begin := func(args ...string) (*exec.Cmd, lines) {
				cmd := p.command(args...)
				stderr, err := cmd.StderrPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // unless it has ended
				return cmd, newLines(stderr)
			}
			if name != "alone" {
				_, stderr := begin("work")
				stderr.skipTo(t, "Working in")
			}
			cmd, stderr := begin("run", "flow", "--run-id", awfRunID)
			<-asked
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			stderr.skipTo(t, "Waiting for running commands and calls.")
			close(proceed)
			stderr.skipTo(t, "one  done")
			if name == "alone" {
				stderr.skipTo(t, "is interrupted")
				p.wantExit(0, "resume", awfRunID)
				p.wantTrace("two")
				return
			}
			rest := ""
			for stderr.Scan() {
				rest += stderr.Text() + "\n"
			}
			if !strings.Contains(rest, "To stop the run: espalier pause") && // the worker has not begun yet, or it has
				!strings.Contains(rest, "Another process is driving run") && !strings.Contains(rest, "finished") {
				t.Error(rest)
			}
		})
	}
}
