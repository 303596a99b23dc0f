package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// begun says what a program wrote that was started in a way, and how it ended.
func begun(t *testing.T, way spawner, path string, argv []string, dir string, env []string) (said string) {
	t.Helper()
	onThread(func() {
		null, err := nothing()
		if err != nil {
			t.Fatal(err)
		}
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		pid, exit, err := way(path, argv, dir, env, files{null, int(write.Fd()), int(write.Fd())})
		write.Close()
		if err != nil {
			said = fmt.Sprintf("%#v", err)
			return
		}
		defer unix.Close(exit)
		text, err := io.ReadAll(read)
		if err != nil {
			t.Error(err)
		}
		await([]unix.PollFd{{Fd: int32(exit), Events: unix.POLLIN}}, forever)
		status, err := reap(pid)
		said = fmt.Sprintf("%s%v %v", text, status, err)
	})
	return said
}

type spawner func(path string, argv []string, dir string, env []string, f files) (pid, exit int, err error)

// A command finds everything as it would if Go had started it.
func TestBothWaysAreTheSame(t *testing.T) {
	if !withLimit(t) {
		return
	}
	// Signals that somebody listens to, and one that nobody wants to hear of.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, unix.SIGUSR1)
	defer signal.Stop(heard)
	signal.Ignore(unix.SIGUSR2)
	defer signal.Reset(unix.SIGUSR2)

	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"plain": 0o600, "script": 0o700, "named": 0o700, "lost": 0o700} {
		text := map[string]string{"named": "#!/bin/sh\necho \"$0 $1\"", "lost": "#!/no/such/program\n"}[name]
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	sh := func(script string) []string { return []string{"sh", "-c", script, "sh", "an argument", ""} }
	for name, c := range map[string]struct {
		path string
		argv []string
		dir  string
		env  []string
	}{
		"arguments":         {"/bin/sh", sh(`printf '<%s>' "$0" "$@"`), "", nil},
		"variables":         {"/usr/bin/env", []string{"env"}, "", []string{"A=1", "B=", "C=a b\nc"}},
		"no variables":      {"/usr/bin/env", []string{"env"}, "", []string{}},
		"many variables":    {"/usr/bin/env", []string{"env"}, "", strings.Fields(strings.Repeat("A=1 B=2 C=3 ", 1000))},
		"a large one":       {"/usr/bin/env", []string{"env"}, "", []string{"A=" + strings.Repeat("x", 100_000)}},
		"one too large":     {"/usr/bin/env", []string{"env"}, "", []string{"A=" + strings.Repeat("x", 1<<20)}},
		"a folder":          {"/bin/pwd", []string{"pwd", "-P"}, dir, nil},
		"no such folder":    {"/bin/pwd", []string{"pwd"}, dir + "/nowhere", nil},
		"signals":           {"/bin/grep", []string{"grep", "^Sig[BIC]", "/proc/self/status"}, "", nil},
		"its files":         {"/bin/sh", sh(`for f in /proc/$$/fd/*; do echo "${f##*/}"; done`), "", nil},
		"how many files":    {"/bin/sh", sh("ulimit -Sn; ulimit -Hn"), "", nil},
		"its group":         {"/bin/sh", sh(`read -r all </proc/$$/stat; set -- ${all##*) }; [ "$3" = $$ ] && echo leads it; echo $2`), "", nil},
		"how it ends":       {"/bin/sh", sh("echo out; echo err >&2; exit 3"), "", nil},
		"how it is killed":  {"/bin/sh", sh("kill -s TERM $$"), "", nil},
		"nothing there":     {dir + "/nothing", []string{"nothing"}, "", nil},
		"not executable":    {dir + "/plain", []string{"plain"}, "", nil},
		"not a program":     {dir + "/script", []string{"script"}, "", nil},
		"a script":          {dir + "/named", []string{"other", "x"}, "", nil},
		"in a folder":       {"./named", []string{"other", "x"}, dir, nil},
		"without its shell": {dir + "/lost", []string{"lost"}, "", nil},
		"a folder itself":   {dir, []string{"x"}, "", nil},
		"half an argument":  {"/bin/echo", []string{"echo", "a\x00b"}, "", nil},
		"half a variable":   {"/usr/bin/env", []string{"env"}, "", []string{"A=a\x00b"}},
		"half a path":       {"/bin/echo\x00", []string{"echo"}, "", nil},
		"half a folder":     {"/bin/echo", []string{"echo"}, "/\x00", nil},
	} {
		t.Run(name, func(t *testing.T) {
			want := begun(t, forkExec, c.path, c.argv, c.dir, c.env)
			if got := begun(t, spawn, c.path, c.argv, c.dir, c.env); got != want {
				t.Errorf("%.1000s\nand Go's way: %.1000s", got, want)
			}
		})
	}
	if oldWay.Load() {
		t.Error("this kernel does not know the new way: nothing was compared")
	}
}

// withLimit has a test go on in a process that was started with a limit that Go
// raises. It is false in the one that is not.
func withLimit(t *testing.T) bool {
	t.Helper()
	const variable = "ESPALIER_TEST_LIMIT"
	if os.Getenv(variable) == "" {
		us := exec.Command("/bin/sh", "-c", `ulimit -Sn 123 && exec "$0" "$@"`, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		us.Env = append(os.Environ(), variable+"=on")
		out, err := us.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if !strings.Contains(string(out), "--- PASS: "+t.Name()+"/how_many_files") {
			t.Errorf("it did not run: %s", out)
		}
		return false
	}
	if got, err := Run(t.Context(), Command{Path: "/bin/sh", Args: []string{"-c", "ulimit -Sn"}}); err != nil || string(got.Stdout) != "123\n" {
		t.Errorf("a command may open %s files, %v", got.Stdout, err)
	}
	return true
}

// What the child cannot do is heard of by us, and leaves nothing.
func TestABirthThatFails(t *testing.T) {
	if _, err := Run(t.Context(), Command{Path: "/bin/true"}); err != nil { // brings the guardian into being
		t.Fatal(err)
	}
	onThread(func() {
		null, err := nothing()
		if err != nil {
			t.Fatal(err)
		}
		open := func() int {
			all, err := os.ReadDir("/proc/self/fd")
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		before := open()
		for range 3 {
			b := new(birth)
			if !b.prepare("/bin/true", []string{"true"}, "", nil, files{null, null, null}, *watched.limit.Load()) {
				t.Fatal("it cannot be prepared")
			}
			for i := range b.calls {
				if b.calls[i].number == unix.SYS_GETPPID {
					b.calls[i].want++ // its parent is not who it should be
				}
			}
			if pid, err := b.bear(); err != syscall.ESRCH {
				t.Errorf("%d, %v", pid, err)
			}
		}
		if after := open(); after != before {
			t.Errorf("%d files are open, %d before", after, before)
		}
		if pid, _ := unix.Wait4(-1, nil, unix.WNOHANG|unix.WNOTHREAD, nil); pid > 0 {
			t.Errorf("%d is dead and was not buried", pid)
		}
	})
}

// Where there is no new way, the old one is taken.
func TestTheOldWay(t *testing.T) {
	oldWay.Store(true)
	defer oldWay.Store(false)
	got, err := Run(t.Context(), Command{Path: "/bin/sh", Args: []string{"-c", "echo on; exit 2"}})
	if err != nil || string(got.Stdout) != "on\n" || got.Exit != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A signal that comes before the process is another program must not have it do
// what we do at that signal: it has our memory.
func TestSignalsBeforeItIsAProgram(t *testing.T) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, unix.SIGUSR1)
	defer signal.Stop(heard)
	onThread(func() {
		null, err := nothing()
		if err != nil {
			t.Fatal(err)
		}
		b := new(birth)
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		if !b.prepare("/bin/true", []string{"true"}, "", nil, files{null, null, null}, limit) {
			t.Fatal("it cannot be prepared")
		}
		last := slices.IndexFunc(b.calls[:], func(c call) bool { return c.number == unix.SYS_EXECVE })
		copy(b.calls[last+1:], b.calls[last:]) // there is room, because it stays in our folder
		b.calls[last] = call{number: unix.SYS_KILL, args: [4]uintptr{0, uintptr(unix.SIGUSR1)}}
		pid, err := b.bear()
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(int(b.exit))
		if status, err := reap(pid); err != nil || status.Signal() != unix.SIGUSR1 {
			t.Errorf("it ended with %v, %v", status, err)
		}
	})
	select {
	case s := <-heard:
		t.Errorf("we heard of %v", s)
	default:
	}
}
