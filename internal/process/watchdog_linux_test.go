package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A process ID in the table may belong to another process by the time it is read.
func TestWatchdogKillsOnlyItsProcesses(t *testing.T) {
	becomeSubreaper() // as the watchdog's parent gets the orphans when we are dead
	for name, c := range map[string]struct {
		script string
		marked bool
		begun  int64 // in the table, instead of the group
		killed bool
	}{
		"ours, with its leader":    {script: `echo on; sleep 1000; sleep 1000`, marked: true, killed: true},
		"ours, without its leader": {script: `sleep 1000 & echo on`, killed: true},
		"another process":          {script: `echo on; exec sleep 1000`},
		"just being started":       {script: `sleep 1000 & echo on`, begun: ticks(), killed: true},
		"started before":           {script: `sleep 1000 & echo on`, begun: ticks() + 100_000},
		"started by another one":   {script: `sleep 1000 & echo on; exec sleep 1000`, begun: ticks()},
	} {
		t.Run(name, func(t *testing.T) {
			g := &watchdog{}
			line, mark, err := g.reserve()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/bin/sh", "-c", c.script)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if c.marked {
				cmd.Env = append(os.Environ(), markName+"="+mark)
			}
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			cmd.Stdout = write
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			write.Close()
			defer cmd.Wait()
			defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			output := bufio.NewReader(read)
			if _, err := output.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(c.script, "& echo on") { // it leads no group any more
				_ = unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
			}
			if c.begun > 0 {
				g.setBegun(line, c.begun)
			} else {
				g.watch(line, cmd.Process.Pid)
			}
			end(t, g)
			if c.killed {
				if _, err := io.Copy(io.Discard, output); err != nil { // until every process has closed it
					t.Error(err)
				}
				return
			}
			if onlyDead(cmd.Process.Pid) {
				t.Error("it was killed")
			}
		})
	}
}

// The table has the form that the watchdog reads: lines of two words.
func TestTableHasTheFormThatTheWatchdogReads(t *testing.T) {
	g := &watchdog{}
	if err := g.ensureRunning(); err != nil {
		t.Fatal(err)
	}
	defer end(t, g)
	expect := func(want ...[]string) {
		t.Helper()
		raw := make([]byte, 10*lineSize)
		n, err := unix.Pread(g.table, raw, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got [][]string
		for line := range strings.Lines(string(raw[:n])) {
			got = append(got, strings.Fields(line))
		}
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("got %q, not %q", got, want)
		}
	}
	var lines [2]int
	for i := range lines {
		line, _, err := g.reserve()
		if err != nil {
			t.Fatal(err)
		}
		lines[i] = line
		g.setBegun(line, 1234567890123)
	}
	expect([]string{"+", "1234567890123"}, []string{"+", "1234567890123"})
	g.watch(lines[0], 4194303) // the highest number that there is
	g.setBegun(lines[1], 7)
	expect([]string{"4194303", "1234567890123"}, []string{"+", "7"})
	g.forget(lines[0])
	expect([]string{"0", "1234567890123"}, []string{"+", "7"})
	g.release(lines[0])
	g.watch(lines[1], 12)
	expect([]string{"-", "1234567890123"}, []string{"12", "7"})
	g.release(lines[1])
	if again, _, err := g.reserve(); err != nil || again != lines[1] {
		t.Errorf("line %d, %v", again, err)
	}
	g.release(lines[1])
}

// end lets a watchdog do its work, and returns when it has.
func end(t *testing.T, g *watchdog) {
	t.Helper()
	fd, err := unix.PidfdOpen(g.pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	unix.Close(g.lifetimePipe)
	poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, forever)
	_, _ = wait(g.pid)
}

const unregistered = "ESPALIER_TEST_UNREGISTERED"

// Killed between the start of a command and the moment in which its group is
// in the table, we leave nothing, either.
func TestKilledBeforeTheGroupIsKnown(t *testing.T) {
	if script := os.Getenv(unregistered); script != "" {
		null, err := unix.Open(os.DevNull, unix.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fork(Command{Path: "/bin/sh", Args: []string{"-c", script}}, files{null, null, null}, func(int,
			int) {
		}); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	for name, script := range map[string]string{
		"the command":           `exec 5>%q; echo on >&5; exec env -i sleep 1000`,
		"its nameless children": `exec 5>%q; env -i sh -c 'sleep 1000; sleep 1000' & echo on >&5; wait`,
		"its children":          `exec 5>%q; sleep 1000 & sleep 1000 & echo on >&5; wait`,
		"those that went away":  `exec 5>%q; (setsid sleep 1000 &); echo on >&5; sleep 1000`,
		"and are others by now": `exec 5>%q; (setsid sh -c 'exec sh -c "exec sleep 1000"' &); echo on >&5; sleep 1000`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "line")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			us := exec.Command(os.Args[0], "-test.run=^TestKilledBeforeTheGroupIsKnown$")
			us.Env = append(os.Environ(), unregistered+"="+fmt.Sprintf(script, path))
			if err := us.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer line.Close()
			if _, err := io.ReadFull(line, make([]byte, len("on\n"))); err != nil {
				t.Fatal(err)
			}
			if err := us.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = us.Wait() // it was killed
			if _, err := io.Copy(io.Discard, line); err != nil {
				t.Error(err) // a survivor makes the test time out
			}
		})
	}
}

// A command fails if another process has collected its exit status.
func TestUnknownExitStatusIsAFailure(t *testing.T) {
	null, err := unix.Open(os.DevNull, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	onThread(func() {
		l, err := startChild(Command{Path: "/bin/true"}, files{null, null, null})
		if err != nil {
			t.Error(err)
			return
		}
		poll(l.untilExit(), forever)
		if _, err := wait(l.pid); err != nil {
			t.Error(err)
		}
		if outcome, err := l.end(); err == nil {
			t.Errorf("it is reported to have ended with %d", outcome.Exit)
		}
	})
}

// What newer kernels have is done without on older ones.
func TestChildrenAreFoundOnOlderKernels(t *testing.T) {
	cmd := exec.Command("/bin/cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	var lists orphanList
	lists.once.Do(func() {}) // there are none
	if !slices.Contains(lists.pids(), cmd.Process.Pid) {
		t.Error("a child was not found")
	}
	exit, err := exitPipe(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(exit)
	fds := []unix.PollFd{{Fd: int32(exit), Events: unix.POLLIN}}
	if poll(fds, 0); fds[0].Revents != 0 {
		t.Error("it is reported dead while it runs")
	}
	in.Close()
	poll(fds, forever)
	if s, ok := statOf(cmd.Process.Pid); !ok || !s.dead {
		t.Error("it is reported dead, or another process has collected it")
	}
}

// Without lists of children, no process learns how the command of another one ended, or
// takes that status away from it.
func TestExitStatusIsNotStolenWithoutChildrenLists(t *testing.T) {
	orphans.open() // once
	list := orphans.file
	orphans.file = nil
	defer func() { orphans.file = list }()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 15 {
				got, err := Run(t.Context(),
					Command{Path: "/bin/sh", Args: []string{"-c", "(setsid sleep 1000 &); exit 3"}})
				if err != nil || got.Exit != 3 {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}
