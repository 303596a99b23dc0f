package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/process"
)

const limiting = "ESPALIER_TEST_LIMITS"

// TestLimitsHold exceeds each limit, outside of a sandbox and with each mechanism that confines commands, as root and
// as an ordinary user.
func TestLimitsHold(t *testing.T) {
	if os.Getenv(limiting) != "" {
		testLimits(t)
		return
	}
	for user, credential := range testUsers(t) {
		for by, env := range map[string]string{"bubblewrap": "", "Landlock": "PATH=" + pathWithoutBwrap(t)} {
			t.Run(user+"/"+by, func(t *testing.T) {
				if by == "bubblewrap" {
					needsBubblewrap(t)
				}
				dir := sharedFolder(t, credential)
				self := filepath.Join(dir, "process.test")
				copyProgram(t, self)
				cmd := exec.Command(self, "-test.run=^TestLimitsHold$", "-test.v", "-test.timeout=2m")
				cmd.Dir, cmd.Env = dir, append(os.Environ(), limiting+"=1", "HOME="+dir, "TMPDIR="+dir, env)
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

func testLimits(t *testing.T) {
	dir := t.TempDir()
	box, err := process.NewSandbox(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, script string
		limits       process.Limits
		says         string // on standard error
	}{
		{
			"memory", "dd if=/dev/zero of=/dev/null bs=256M count=1",
			process.Limits{Memory: 64 << 20},
			"memory exhausted",
		},
		{
			"memory of a child", "(dd if=/dev/zero of=/dev/null bs=256M count=1)",
			process.Limits{Memory: 64 << 20},
			"memory exhausted",
		},
		{"CPU time", "i=0; while [ $i -lt 20000000 ]; do i=$((i+1)); done", process.Limits{CPU: time.Second}, ""},
		{
			"processes", "i=0; while [ $i -lt 9999 ]; do sleep 100 & i=$((i+1)); done",
			process.Limits{Processes: 20},
			"fork",
		},
	} {
		if c.what == "processes" && os.Geteuid() == 0 {
			continue // the kernel exempts root
		}
		for where, in := range map[string]*process.Sandbox{"in a sandbox": box.For(dir), "without one": nil} {
			t.Run(c.what+" "+where, func(t *testing.T) {
				run := func(l process.Limits) process.Outcome {
					// The script reads a line first, which it gets when its limits are set.
					got, err := process.Run(t.Context(), process.Command{
						Path: "/bin/sh", Args: []string{"-c", "read -r _; " + c.script}, Dir: dir,
						Stdin: []byte("go\n"), Sandbox: in, Limits: l,
					})
					if err != nil {
						t.Fatal(err)
					}
					return got
				}
				got := run(c.limits)
				if got.Exit == 0 || !strings.Contains(strings.ToLower(string(got.Stderr)), c.says) {
					t.Errorf("exit %d %s: %s", got.Exit, got.Signal, got.Stderr)
				}
				if c.what == "CPU time" && in == nil && got.Signal != syscall.SIGXCPU.String() {
					t.Errorf("it ended with %q", got.Signal)
				}
				if strings.HasPrefix(c.what, "memory") {
					if got := run(process.Limits{Memory: 1 << 30, Processes: 1000, CPU: time.Hour}); got.Exit != 0 {
						t.Errorf("within its limits: exit %d: %s", got.Exit, got.Stderr)
					}
				}
			})
		}
	}
}

// A program with early limits begins with them: none is set later. Its environment, arguments and end are its own.
func TestEarlyLimitsAreThereWhenTheProgramBegins(t *testing.T) {
	defer process.WithoutLateLimits()()
	for _, early := range []bool{false, true} {
		outcome, err := process.Run(t.Context(), process.Command{
			Path: "/bin/sh", Args: []string{"-c", `echo "$(ulimit -d) $0 $V"; exit 7`, "a 'b'"}, Env: []string{"V=c  d"},
			Limits: process.Limits{Memory: 2 << 30}, EarlyLimits: early,
		})
		got := strings.TrimSpace(string(outcome.Stdout))
		if err != nil || (got == "2097152 a 'b' c  d") != early || outcome.Exit != 7 {
			t.Errorf("early: %v: %q, exit %d, %v", early, got, outcome.Exit, err)
		}
	}
}
