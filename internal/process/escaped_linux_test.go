package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/espalier-run/espalier/internal/process"
)

// forksAway are ways to leave the group of a command.
var forksAway = map[string]string{
	"a session of its own": `setsid sh -c 'exec 5>%[1]q; echo on >&5; sleep 1000' & cat %[2]q`,
	"and then an orphan":   `(setsid sh -c 'exec 5>%[1]q; echo on >&5; sleep 1000; sleep 1000' &) ; cat %[2]q`,
	"and a family": `(setsid sh -c 'exec 5>%[1]q; (setsid sleep 1000 &); sleep 1000 & echo on >&5; wait' &) ; ` +
		`cat %[2]q`,
	"deaf to signals": `(setsid sh -c 'trap "" TERM HUP INT; exec 5>%[1]q; echo on >&5; sleep 1000; ` +
		`sleep 1000' &) ; cat %[2]q`,
	"in a background job's own": `set -m; (exec 5>%[1]q; echo on >&5; exec sleep 1000) & cat %[2]q`,
	"without a mark to be known": `(env -i /usr/bin/setsid /bin/sh -c 'exec 5>%[1]q; echo on >&5; sleep 1000' &) ; ` +
		`cat %[2]q`,
}

// fork is a command that forks away and goes on until go is written to.
func fork(t *testing.T, script string, line *lifeline) (command process.Command, goOn func()) {
	t.Helper()
	wait := newLifeline(t).path
	return shell(fmt.Sprintf(script, line.path, wait)), func() {
		if err := os.WriteFile(wait, []byte("ok\n"), 0o600); err != nil {
			t.Error(err)
		}
	}
}

func TestEscapedProcessIsKilled(t *testing.T) {
	for name, script := range forksAway {
		t.Run(name, func(t *testing.T) {
			line := newLifeline(t)
			command, goOn := fork(t, script, line)
			began := make(chan struct{})
			go func() {
				line.begun(t)
				goOn()
				close(began)
			}()
			got, err := process.Run(t.Context(), command)
			if err != nil || string(got.Stdout) != "ok\n" {
				t.Fatalf("%q, %s, %v", got.Stdout, got.Stderr, err)
			}
			<-began
			line.dead(t)
		})
	}
}

func TestEscapedProcessIsKilledByTheWatchdog(t *testing.T) {
	for name, script := range forksAway {
		if strings.Contains(script, "env -i") {
			continue // its adopter has ended, so only its mark identifies it
		}
		t.Run(name, func(t *testing.T) {
			line := newLifeline(t)
			command, _ := fork(t, script, line)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			us := exec.Command(self)
			us.Env = append(os.Environ(), helper+"="+command.Args[1])
			if err := us.Start(); err != nil {
				t.Fatal(err)
			}
			line.begun(t)
			if err := us.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = us.Wait()
			line.dead(t)
		})
	}
}

// A command that is over takes nothing down that belongs to another one.
func TestOtherProcessesAreNotKilled(t *testing.T) {
	line := newLifeline(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	ended := make(chan error, 1)
	go func() {
		_, err := process.Run(ctx, shell(fmt.Sprintf(`(setsid sh -c 'exec 5>%q; echo on >&5; read -r x <%q; `+
			`echo "$x" >&5; sleep 1000' &); sleep 1000`,
			line.path, filepath.Join(filepath.Dir(line.path), "word"))))
		ended <- err
	}()
	if err := mkfifo(filepath.Join(filepath.Dir(line.path), "word")); err != nil {
		t.Fatal(err)
	}
	line.begun(t)
	if _, err := process.Run(t.Context(), shell("true")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(line.path), "word"), []byte("alive\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := line.lines.ReadString('\n'); err != nil || got != "alive\n" {
		t.Errorf("%q, %v", got, err)
	}
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Error(err)
	}
	line.dead(t)
}

// becomeSubreaper makes this process the parent of orphaned descendants, by running a first command.
func becomeSubreaper(t *testing.T) {
	t.Helper()
	if _, err := process.Run(t.Context(), shell("true")); err != nil {
		t.Fatal(err)
	}
	waitForOrphans(t)
}

// waitForOrphans waits until all adopted orphans are dead; a survivor makes the test time out.
func waitForOrphans(t *testing.T) {
	t.Helper()
	for {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
		if err != nil {
			t.Fatal(err)
		}
		orphans := strings.Fields(string(raw))
		if len(orphans) == 0 {
			return
		}
		for _, one := range orphans {
			pid, err := strconv.Atoi(one)
			if err != nil {
				t.Fatal(err)
			}
			var status syscall.WaitStatus
			_, _ = syscall.Wait4(pid, &status, 0, nil) // interrupted, it is found again
		}
	}
}

// play starts the test binary as a process that runs commands.
func play(t *testing.T, env string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	us := exec.Command(self)
	us.Env = append(os.Environ(), env)
	return us
}

func kill(t *testing.T, us *exec.Cmd) {
	t.Helper()
	if err := us.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = us.Wait() // it was killed
}

// If this process is killed at any moment, no process that it has started survives.
func TestKilledProcessLeavesNoCommands(t *testing.T) {
	becomeSubreaper(t)
	for n := range 30 {
		us := play(t, helperOrphansEnv+"=1")
		out, err := us.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := us.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, n+1)); err != nil {
			t.Fatal(err)
		}
		kill(t, us)
	}
	waitForOrphans(t)
}

// A watchdog that was killed is replaced, and the new one knows of
// the commands that ran before it.
func TestWatchdogIsReplaced(t *testing.T) {
	becomeSubreaper(t)
	line := newLifeline(t)
	us := play(t, helper+"="+fmt.Sprintf(`exec 5>%q; (setsid sleep 1000 &); trap '' TERM HUP; echo on >&5; `+
		`sleep 1000; sleep 1000`, line.path))
	if err := us.Start(); err != nil {
		t.Fatal(err)
	}
	line.begun(t)
	first := watchdogOf(t, us.Process.Pid, 0)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	watchdogOf(t, us.Process.Pid, first)
	kill(t, us)
	line.dead(t)
	waitForOrphans(t)
}

// While no command runs, escaped processes are not searched for. The next command searches.
func TestWatchdogIsReplacedBeforeItIsNeeded(t *testing.T) {
	becomeSubreaper(t)
	first := watchdogOf(t, os.Getpid(), 0)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, first, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Run(t.Context(), shell("true")); err != nil {
		t.Fatal(err)
	}
	watchdogOf(t, os.Getpid(), first)
}

// watchdogOf waits until a process has a watchdog, other than one.
func watchdogOf(t *testing.T, of, other int) int {
	t.Helper()
	for {
		environs, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range environs {
			environ, _ := os.ReadFile(path) // one that has ended has none
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err == nil && pid != other &&
				strings.Contains(string(environ), fmt.Sprintf("ESPALIER_WATCHDOG=%d\x00", of)) {
				return pid
			}
		}
		runtime.Gosched()
	}
}

// When all is over the watchdog goes, too.
func TestWatchdogEndsWithUs(t *testing.T) {
	becomeSubreaper(t)
	us := play(t, helper+"=echo done")
	if err := us.Run(); err == nil {
		t.Fatal("the helper always fails")
	}
	waitForOrphans(t)
}

// A command of an Espalier that runs inside a command is killed when the outer command ends, and when the outer
// Espalier is killed.
func TestNestedEspalierKillsItsCommands(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, inner := range map[string]string{
		"a command":               `exec 5>%q; echo on >&5; sleep 1000; sleep 1000`,
		"what forks away":         `(setsid sh -c 'exec 5>%q; echo on >&5; sleep 1000; sleep 1000' &); sleep 1000`,
		"without a mark":          `env -i /bin/sh -c 'exec 5>%q; echo on >&5; sleep 1000; sleep 1000' & wait`,
		"without a mark, leading": `exec env -i /bin/sh -c 'exec 5>%q; sleep 1000 & echo on >&5; wait; sleep 1000'`,
	} {
		nested := func(line *lifeline) string {
			return helper + `='` + strings.ReplaceAll(fmt.Sprintf(inner, line.path), `'`, `'\''`) + `' setsid ` + self +
				` & wait`
		}
		t.Run(name+", ended", func(t *testing.T) {
			// Beside another command, because what has no mark could be that one's.
			other, err := process.Start(t.Context(), shell("cat"))
			if err != nil {
				t.Fatal(err)
			}
			defer other.Wait()
			defer other.Stdin.Close()
			defer other.Stdout.Close()
			line := newLifeline(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("why")
			began := make(chan struct{})
			go func() {
				line.begun(t)
				close(began)
				cancel(why)
			}()
			if _, err := process.Run(ctx, shell(nested(line))); !errors.Is(err, why) {
				t.Error(err)
			}
			<-began
			line.gone(t)
		})
		t.Run(name+", killed", func(t *testing.T) {
			becomeSubreaper(t)
			line := newLifeline(t)
			us := play(t, helper+"="+nested(line))
			if err := us.Start(); err != nil {
				t.Fatal(err)
			}
			line.begun(t)
			kill(t, us)
			line.dead(t)
			waitForOrphans(t)
		})
	}
}

// The marks of an inner Espalier are added to those of the outer one.
func TestMarksAreInherited(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	line := newLifeline(t)
	begun := make(chan string, 1)
	go func() { begun <- line.begun(t) }()
	script := fmt.Sprintf(`echo $ESPALIER_COMMAND; %s='echo $ESPALIER_COMMAND >%s' %s`, helper, line.path, self)
	if _, err := process.Run(t.Context(), shell(script)); err != nil {
		t.Fatal(err)
	}
	if marks := strings.Fields(<-begun); len(marks) != 2 {
		t.Errorf("the inner command has the marks %q", marks)
	}
}

// gone wants no holder to live now.
func (l *lifeline) gone(t *testing.T) {
	t.Helper()
	raw, err := l.file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	var failed error
	if err := raw.Read(func(fd uintptr) bool {
		n, failed = syscall.Read(int(fd), make([]byte, 1))
		return true // even if it is to wait
	}); err != nil {
		t.Fatal(err)
	}
	if n != 0 || failed != nil {
		t.Errorf("the pipe is still open: %d, %v", n, failed)
	}
}

// Nothing of a command is left, not even a name in the list of the dead.
func TestNoZombies(t *testing.T) {
	for name, script := range forksAway {
		line := newLifeline(t)
		command, goOn := fork(t, script, line)
		go func() {
			line.begun(t)
			goOn()
		}()
		if _, err := process.Run(t.Context(), command); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
		if err != nil || len(raw) > 0 {
			t.Errorf("%s: left are %q, %v", name, raw, err)
		}
	}
}

// Later commands leave no more files open than the first one.
func TestCommandsLeakNoFileDescriptors(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	run := func() {
		for _, script := range []string{"true", "echo a; echo b >&2; exit 3", "sleep 1000 & kill $$"} {
			if _, err := process.Run(t.Context(), shell(script)); err != nil {
				t.Fatal(err)
			}
		}
	}
	run()
	before := count()
	for range 5 {
		run()
	}
	if after := count(); after != before {
		t.Errorf("%d files are open, and were %d", after, before)
	}
}

// A command ends even if another process holds its pipe open.
func TestCommandEndsWhileAnotherProcessHoldsItsPipe(t *testing.T) {
	line := newLifeline(t)
	command, goOn := fork(t, `exec 5>%[1]q; echo $$ >&5; cat %[2]q`, line)
	held := make(chan *os.File, 1)
	go func() {
		f, err := os.OpenFile("/proc/"+line.begun(t)+"/fd/1", os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
		}
		held <- f
		goOn()
	}()
	got, err := process.Run(t.Context(), command)
	if err != nil || string(got.Stdout) != "ok\n" {
		t.Errorf("%q, %v", got.Stdout, err)
	}
	(<-held).Close()
}
