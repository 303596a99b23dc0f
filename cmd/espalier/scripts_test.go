//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestCLIScriptEndsWithUs: the script of an Agentfile workflow, and what it
// has started, end with the command; what it says comes through at once.
func TestCLIScriptEndsWithUs(t *testing.T) {
	for name, c := range map[string]struct {
		signal syscall.Signal
		exit   int
	}{"terminated": {syscall.SIGTERM, 130}, "interrupted": {syscall.SIGINT, 130}, "killed": {syscall.SIGKILL, -1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newChainProject(t, 0)
			alive := filepath.Join(k.dir, "alive")
			if err := syscall.Mkfifo(alive, 0o600); err != nil {
				t.Fatal(err)
			}
			writeApproved(t, filepath.Join(k.dir, "agentfile.yaml"), "version: 1.0.0\n")
			writeApproved(t, filepath.Join(k.dir, "workflows", "w", "workflow.yaml"),
				"specVersion: \"1.0\"\nname: w\nversion: "+
					"1.0.0\ndescription: Publishes\ntrigger: {type: command}\nsteps:\n"+
					"  - {id: publish, name: Publish, "+
					"action: shell, script: {bash: scripts/cli/run.sh}, goal: Publish it.}\n")
			writeApproved(t, filepath.Join(k.dir, "workflows", "w", "scripts", "cli", "run.sh"),
				"exec 9>"+alive+"\n(trap '' TERM INT; sleep 1000) &\necho begun >&2\nsleep 1000\n")
			cmd := k.command("run", "w", "--scripts", "--allow-shell")
			notes, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			held, err := os.OpenFile(alive, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var output strings.Builder
			for lines := bufio.NewScanner(notes); lines.Scan(); {
				output.WriteString(lines.Text() + "\n")
				if lines.Text() == "begun" {
					if err := cmd.Process.Signal(c.signal); err != nil {
						t.Error(err)
					}
				}
			}
			_ = cmd.Wait() // how it ended is looked at
			if got := cmd.ProcessState.ExitCode(); got != c.exit || !strings.Contains(output.String(), "begun") {
				t.Errorf("exit code %d, not %d\n%s", got, c.exit, output.String())
			}
			if _, err := io.Copy(io.Discard, held); err != nil { // ends when nothing of the script lives
				t.Error(err)
			}
		})
	}
}
