//go:build unix

package process_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/process"
)

func shell(script string) process.Command {
	return process.Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: process.Environment(os.Environ())}
}

func TestRunReportsExitAndSignal(t *testing.T) {
	for name, c := range map[string]struct {
		command        process.Command
		stdout, stderr string
		exit           int
		signal         string
	}{
		"output":        {command: shell(`echo out; echo err >&2`), stdout: "out\n", stderr: "err\n"},
		"an exit code":  {command: shell(`echo half; exit 7`), stdout: "half\n", exit: 7},
		"a signal":      {command: shell(`kill -9 $$`), exit: 137, signal: "killed"},
		"what it reads": {command: process.Command{Path: "/bin/cat", Stdin: []byte("given")}, stdout: "given"},
		"what it does not read": {command: process.Command{
			Path: "/bin/sh", Args: []string{"-c", "echo enough"}, Stdin: bytes.Repeat([]byte("x"), 1<<20),
		}, stdout: "enough\n"},
		"arguments as they are": {command: process.Command{Path: "/bin/sh", Args: []string{
			"-c", `printf '%s|' "$@"`, "sh",
			"a b", "", `"$HOME"`, "--",
		}}, stdout: `a b||"$HOME"|--|`},
		"nothing that is open": {command: shell(`cat <&3 2>/dev/null; echo $?`), stdout: "", stderr: ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := process.Run(t.Context(), c.command)
			if err != nil {
				t.Fatal(err)
			}
			if name == "nothing that is open" { // the shells differ in what they make of it
				if strings.TrimSpace(string(got.Stdout)) == "0" {
					t.Error("the command sees the watcher's pipe")
				}
				return
			}
			if string(got.Stdout) != c.stdout || string(got.Stderr) != c.stderr ||
				got.Exit != c.exit || got.Signal != c.signal {
				t.Errorf("got %q, %q, exit %d %s", got.Stdout, got.Stderr, got.Exit, got.Signal)
			}
		})
	}
}

func TestRunReportsFailedStart(t *testing.T) {
	c := shell("true")
	c.Dir = filepath.Join(t.TempDir(), "nowhere")
	if _, err := process.Run(t.Context(), c); err == nil {
		t.Error("a command ran in a folder that is not there")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	if _, err := process.Run(ctx, shell("true")); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// lifeline is a pipe with a name: reading it ends when the last process that
// holds it is dead.
func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }

type lifeline struct {
	path  string
	file  *os.File
	lines *bufio.Reader
}

func newLifeline(t *testing.T) *lifeline {
	t.Helper()
	path := filepath.Join(t.TempDir(), "line")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return &lifeline{path: path}
}

// begun waits for the first line that a holder writes.
func (l *lifeline) begun(t *testing.T) string {
	t.Helper()
	f, err := os.Open(l.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	l.file, l.lines = f, bufio.NewReader(f)
	line, err := l.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// dead waits until no holder lives; a survivor makes the test time out.
func (l *lifeline) dead(t *testing.T) {
	t.Helper()
	if _, err := io.Copy(io.Discard, l.lines); err != nil {
		t.Fatal(err)
	}
}

func TestLeftoverProcessesAreKilled(t *testing.T) {
	line := newLifeline(t)
	began := make(chan struct{})
	go func() {
		line.begun(t)
		close(began)
	}()
	// The one in the background also holds the output, which must not make us wait for it.
	got, err := process.Run(t.Context(), shell(fmt.Sprintf(`exec 5>%q; sleep 1000 & echo on >&5; exec 5>&-; echo done`,
		line.path)))
	if err != nil || string(got.Stdout) != "done\n" {
		t.Fatalf("%q, %v", got.Stdout, err)
	}
	<-began
	line.dead(t)
}

func TestCanceledCommandsEndWithAllTheirChildren(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
		stdout string
	}{
		"it may tidy up": {
			script: `trap 'echo bye; exit 0' TERM; echo on >&5; sleep 1000 & wait`,
			grace:  time.Minute, stdout: "bye\n",
		},
		"or it is killed": {script: `trap '' TERM; echo on >&5; sleep 1000; sleep 1000`, grace: time.Millisecond},
		"with all its helpers": {
			script: `(trap '' TERM; sleep 1000) & (trap '' TERM; sleep 1000) & echo on >&5; wait`,
			grace:  time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			line := newLifeline(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("why")
			began := make(chan struct{})
			go func() {
				line.begun(t)
				cancel(why)
				close(began)
			}()
			command := shell(fmt.Sprintf("exec 5>%q\n%s", line.path, c.script))
			command.Grace = c.grace
			got, err := process.Run(ctx, command)
			if !errors.Is(err, why) || string(got.Stdout) != c.stdout {
				t.Errorf("%q, %v", got.Stdout, err)
			}
			<-began
			line.dead(t)
		})
	}
}

func TestOutputAboveTheLimitFails(t *testing.T) {
	c := shell(`yes`)
	c.MaxOutput = 1000
	got, err := process.Run(t.Context(), c)
	if !errors.Is(err, process.ErrTooMuch) || len(got.Stdout) != 1000 {
		t.Errorf("%d bytes, %v", len(got.Stdout), err)
	}
	c = shell(`printf 12345`)
	c.MaxOutput = 5
	if got, err := process.Run(t.Context(), c); err != nil || string(got.Stdout) != "12345" {
		t.Errorf("exactly as much as it may: %q, %v", got.Stdout, err)
	}
}

func TestEndOfStandardErrorIsKept(t *testing.T) {
	got, err := process.Run(t.Context(), shell(`i=0; while [ $i -lt 30000 ]; do echo "line $i" >&2; i=$((i+1)); done`))
	if err != nil || len(got.Stderr) != process.MaxErrors || !bytes.HasSuffix(got.Stderr, []byte("line 29999\n")) {
		t.Errorf("%d bytes, %v", len(got.Stderr), err)
	}
}

func TestEnvironmentKeepsOnlyWhatProgramsNeed(t *testing.T) {
	got := process.Environment([]string{
		"PATH=/bin", "OPENAI_API_KEY=x", "LC_ALL=C", "HOME=/h", "LD_PRELOAD=y",
		"broken", "AWS_SECRET=z",
	}, "MORE=1")
	if want := []string{"PATH=/bin", "LC_ALL=C", "HOME=/h", "MORE=1"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// Of variables with the same name, only the last one is passed: C programs would read the first.
func TestVariablesAreUnique(t *testing.T) {
	dir := t.TempDir()
	got, err := process.Run(t.Context(), process.Command{
		Path: "/usr/bin/env", Dir: dir, Env: []string{"A=1", "B=2", "Aa=4", "BB=5", "PWD=/elsewhere", "A=3", "BB=6"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(got.Stdout)) {
		if !strings.HasPrefix(line, "ESPALIER_COMMAND=") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if want := []string{"A=3", "B=2", "Aa=4", "BB=6", "PWD=" + dir}; !slices.Equal(lines, want) {
		t.Errorf("got %q", lines)
	}
}

// Environment variables with a common prefix stay distinct, however many there are.
func TestVariablesWithCommonPrefixesStayDistinct(t *testing.T) {
	var env []string
	for i := range 3000 {
		env = append(env, fmt.Sprintf("A%d=%d", 3000-i, i))
	}
	got, err := process.Run(t.Context(), process.Command{Path: "/usr/bin/env", Env: env})
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(string(got.Stdout), "\n"); !slices.Equal(lines[:min(len(env), len(lines))], env) {
		t.Errorf("%d variables of %d", len(lines), len(env))
	}
}

// A file that the system cannot execute ends as it does in a shell.
func TestUnstartableFileEndsAsInAShell(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("echo no interpreter named $1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("echo no\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		command process.Command
		stdout  string
		exit    int
	}{
		"a script without a first line": {
			process.Command{Path: script, Args: []string{"x"}}, "no interpreter named x\n", 0,
		},
		"from its own folder": {
			process.Command{Path: "./script", Args: []string{"z"}, Dir: dir},
			"no interpreter named z\n", 0,
		},
		"a name to be found": {process.Command{Path: "script", Args: []string{"y"}, Env: []string{"PATH=" +
			dir}}, "no interpreter named y\n", 0},
		"nothing":    {process.Command{Path: filepath.Join(dir, "nothing")}, "", 127},
		"no program": {process.Command{Path: plain}, "", 126},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := process.Run(t.Context(), c.command)
			if err != nil || string(got.Stdout) != c.stdout || got.Exit != c.exit {
				t.Errorf("%q, exit %d, %s, %v", got.Stdout, got.Exit, got.Stderr, err)
			}
		})
	}
}

// A command must not have children that it has not started: one that waits for
// all of them would wait for ever.
func TestCommandHasNoForeignChildren(t *testing.T) {
	got, err := process.Run(t.Context(), process.Command{Path: "/bin/sh", Args: []string{
		"-c",
		`ps -o pid= --ppid $$ 2>/dev/null | wc -l`,
	}})
	if err != nil {
		t.Fatal(err)
	}
	// The shell's own children are ps and wc.
	if n := strings.TrimSpace(string(got.Stdout)); n != "0" && n != "1" && n != "2" {
		t.Errorf("the command has %s children", n)
	}
}

const (
	helper         = "ESPALIER_TEST_HELPER"
	withoutConfine = "ESPALIER_TEST_WITHOUT_CONFINE" // the path of a file
)

// confineWithoutCallingConfine is the main function of a program that embeds Espalier and does not call Confine. It
// appends to a file, asks how commands are confined, and prints the error.
func confineWithoutCallingConfine(marker string) {
	f, err := os.OpenFile(marker, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteString("started\n")
	}
	if info, _ := f.Stat(); err != nil || info.Size() > int64(len("started\n")) {
		os.Exit(1) // not more than once, whatever is wrong
	}
	_, err = process.Confined()
	fmt.Print(err)
	os.Exit(0)
}

// A program that does not call Confine would run its main function again in order to confine a command, and that would
// do the same, without end.
func TestProgramsWithoutConfineDoNotStartThemselves(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(t.TempDir(), "starts")
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), withoutConfine+"="+marker, "PATH="+t.TempDir()) // without bubblewrap
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := string(out); got != process.ErrNotConfinable.Error() && runtime.GOOS == "linux" {
		t.Errorf("got %q, want %q", got, process.ErrNotConfinable)
	}
	starts, err := os.ReadFile(marker)
	if err != nil || string(starts) != "started\n" {
		t.Errorf("the program was started more than once: %q, %v", starts, err)
	}
}

// TestMain lets the test binary play a process that runs a command and is killed.
// innerTest runs first in test binaries that platform-specific tests start.
var innerTest = func() {}

func TestMain(m *testing.M) {
	if marker := os.Getenv(withoutConfine); marker != "" {
		confineWithoutCallingConfine(marker)
	}
	process.Confine(os.Args)
	innerTest()
	if os.Getenv(helperOrphansEnv) != "" {
		helperSpawnOrphans()
	}
	if script := os.Getenv(helper); script != "" {
		_, err := process.Run(context.Background(), shell(script))
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if line := os.Getenv(helperDrainEnv); line != "" {
		helperDrainOwnOutput(line)
	}
	if at := os.Getenv(dialled); at != "" {
		fmt.Print(sockets(at))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const helperOrphansEnv = "ESPALIER_TEST_RESTLESS"

// helperSpawnOrphans runs commands in a loop, several at once, each of which leaves processes behind. It prints a dot
// when one starts.
func helperSpawnOrphans() {
	for _, script := range []string{
		`setsid sleep 1000 & sleep 1000 & exit 0`,
		`(setsid sh -c 'sleep 1000; sleep 1000' &); (sleep 1000 &); exit 0`,
		`trap '' TERM; setsid sh -c 'exec sleep 1000' & exec sh -c 'exec sh -c "exit 0"'`,
	} {
		go func() {
			for {
				fmt.Print(".")
				_, _ = process.Run(context.Background(), shell(script)) // the error does not matter
			}
		}()
	}
	select {}
}

const helperDrainEnv = "ESPALIER_TEST_THIEVING"

// helperDrainOwnOutput opens its own stdout for reading and consumes what it prints, until it is stopped.
func helperDrainOwnOutput(line string) {
	out, err := os.OpenFile(line, os.O_WRONLY, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	back, err := syscall.Open("/proc/self/fd/1", syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var b [1]byte
	for range 20_000 {
		_, _ = syscall.Write(1, b[:])
		_, _ = syscall.Read(back, b[:])
	}
	fmt.Fprintln(out, "on")
	select {}
}

const dialled = "ESPALIER_TEST_DIALLED"

// sockets tries which kinds of them a process can have.
func sockets(at string) string {
	var works []string
	try := func(name string, err error) {
		if err == nil {
			works = append(works, name)
		}
	}
	for _, network := range []string{"unix", "unixgram"} {
		conn, err := net.Dial(network, at+"."+network)
		if err == nil {
			conn.Close()
		}
		try(network, err)
	}
	_, err := net.Dial("udp", "127.0.0.1:9")
	try("udp", err)
	for _, kind := range []struct {
		name string
		is   int
	}{{"pair", syscall.SOCK_STREAM}, {"pair of packets", syscall.SOCK_SEQPACKET}, {
		"pair of datagrams",
		syscall.SOCK_DGRAM,
	}, {"raw pair", syscall.SOCK_RAW}} {
		_, err := syscall.Socketpair(syscall.AF_UNIX, kind.is, 0)
		try(kind.name, err)
	}
	return strings.Join(works, ", ")
}

func TestCommandDiesWithThisProcess(t *testing.T) {
	for name, script := range map[string]string{
		"a command":                   `echo on >&5; sleep 1000; sleep 1000`,
		"one that ignores everything": `trap '' HUP INT QUIT TERM PIPE; (sleep 1000) & echo on >&5; sleep 1000; wait`,
	} {
		t.Run(name, func(t *testing.T) {
			line := newLifeline(t)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			us := exec.Command(self)
			us.Env = append(os.Environ(), helper+"="+fmt.Sprintf("exec 5>%q\n%s", line.path, script))
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

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		if _, err := process.Run(b.Context(), shell("true")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBare(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/sh", "-c", "true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestStartConnectsStandardInputAndOutput(t *testing.T) {
	p, err := process.Start(t.Context(), shell(`echo ready >&2; while read -r x; do echo "<$x>"; done; exit 3`))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(p.Stdout)
	for _, word := range []string{"a", "b"} {
		if _, err := fmt.Fprintln(p.Stdin, word); err != nil {
			t.Fatal(err)
		}
		if got, err := lines.ReadString('\n'); err != nil || got != "<"+word+">\n" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	p.Stdin.Close()
	got, err := p.Wait()
	if err != nil || got.Exit != 3 || string(got.Stderr) != "ready\n" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := lines.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after its end: %v", err)
	}
}

func TestStoppedProcessesEndWithTheirChildren(t *testing.T) {
	why := errors.New("why")
	for name, end := range map[string]func(*process.Process, context.CancelCauseFunc){
		"by hand":        func(p *process.Process, _ context.CancelCauseFunc) { p.Stop(); p.Stop() },
		"by the context": func(_ *process.Process, cancel context.CancelCauseFunc) { cancel(why) },
	} {
		t.Run(name, func(t *testing.T) {
			line := newLifeline(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c := shell(fmt.Sprintf(`exec 5>%q; trap '' TERM; sleep 1000 & echo on >&5; wait; sleep 1000`, line.path))
			c.Grace = time.Millisecond
			p, err := process.Start(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Stdin.Close()
			defer p.Stdout.Close()
			line.begun(t)
			end(p, cancel)
			got, err := p.Wait()
			if got.Signal == "" || (err != nil) != (name == "by the context") {
				t.Errorf("%+v, %v", got, err)
			}
			line.dead(t)
		})
	}
}

// Commands that start while others end are not mistaken for leftover processes of those.
func TestConcurrentCommandsAreNotKilledAsLeftovers(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				if got, err := process.Run(t.Context(), shell(`echo on`)); err != nil || got.Exit != 0 ||
					string(got.Stdout) != "on\n" {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}
