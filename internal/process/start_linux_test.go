package process

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// slotsInUse returns how many commands the watchdog knows.
func slotsInUse() int {
	commandWatchdog.mu.Lock()
	defer commandWatchdog.mu.Unlock()
	return len(commandWatchdog.groups) - len(commandWatchdog.free)
}

// TestFirstThreadHasOnlyOrphans holds the invariant that orphans rely on: neither
// commands nor the watchdog are children of the first thread.
func TestFirstThreadHasOnlyOrphans(t *testing.T) {
	const inner = "ESPALIER_TEST_FIRST"
	if os.Getenv(inner) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFirstThreadHasOnlyOrphans$")
		cmd.Env = append(os.Environ(), inner+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	p, err := Start(t.Context(), Command{Path: "/bin/cat"})
	if err != nil {
		t.Fatal(err)
	}
	if !orphans.open() {
		t.Skip("the kernel has no lists of children")
	}
	if pids := orphans.pids(); len(pids) > 0 {
		t.Errorf("the first thread has children: %v", pids)
	}
	p.Stdin.Close()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// TestFailedStartLeavesNothing lets starting fail, and expects that the next
// command runs.
func TestFailedStartLeavesNothing(t *testing.T) {
	works := func() {
		t.Helper()
		if got, err := Run(t.Context(), Command{Path: "/bin/echo", Args: []string{"x"}}); err != nil ||
			string(got.Stdout) != "x\n" {
			t.Errorf("%q, %v", got.Stdout, err)
		}
		if n := slotsInUse(); n != 0 {
			t.Errorf("%d slots are in use", n)
		}
	}
	works()
	if _, err := Run(t.Context(), Command{Path: "/bin/true", Dir: "/nowhere"}); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
	works()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(os.Getpid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max}, nil); err != nil {
		t.Fatal(err)
	}
	_, err := Run(t.Context(), Command{Path: "/bin/true"})
	if restored := unix.Prlimit(os.Getpid(), unix.RLIMIT_NOFILE, &limit, nil); restored != nil {
		t.Fatal(restored)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Error(err)
	}
	works()
}
