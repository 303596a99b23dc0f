package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// reserved is how many commands the guardian is told of.
func reserved() int {
	watched.mu.Lock()
	defer watched.mu.Unlock()
	return len(watched.groups) - len(watched.free)
}

// The first command of all cannot be prepared: the guardian is nobody's child but
// that of a thread which runs commands.
func TestTheFirstIsNotPrepared(t *testing.T) {
	const variable = "ESPALIER_TEST_FIRST"
	if os.Getenv(variable) == "" {
		us := exec.Command(os.Args[0], "-test.run=^TestTheFirstIsNotPrepared$", "-test.v")
		us.Env = append(os.Environ(), variable+"=on")
		if out, err := us.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestTheFirstIsNotPrepared") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for i := range 2 {
		l := NewLaunch(Command{Path: "/bin/true"})
		if l.Prepare(); reserved() != i {
			t.Errorf("%d commands were prepared before the guardian was there", reserved())
		}
		if _, err := l.Run(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if children, ok := firstThread.children(); !ok || len(children) > 0 {
		t.Errorf("the first thread has children: %v", children)
	}
}

// What was prepared is used, or given back.
func TestPrepared(t *testing.T) {
	if _, err := Run(t.Context(), Command{Path: "/bin/true"}); err != nil {
		t.Fatal(err)
	}
	command := Command{Path: "/bin/sh", Args: []string{"-c", "echo $A"}, Env: []string{"A=here"}}
	for name, do := range map[string]func(*Launch) error{
		"and run": func(l *Launch) error {
			got, err := l.Run(t.Context())
			if string(got.Stdout) != "here\n" {
				t.Errorf("%q", got.Stdout)
			}
			return err
		},
		"twice, and run": func(l *Launch) error {
			l.Prepare()
			_, err := l.Run(t.Context())
			return err
		},
		"for nothing": func(*Launch) error { return nil },
		"too late": func(l *Launch) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := l.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			return nil
		},
		"without files left": func(l *Launch) error {
			for range mostSpare { // which it has in stock
				ours, theirs, err := spares.take()
				if err != nil {
					return err
				}
				defer unix.Close(int(ours))
				defer unix.Close(theirs)
			}
			null.fd = 0 // as if it were the first of all
			var limit unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
				return err
			}
			if err := unix.Prlimit(os.Getpid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max}, nil); err != nil {
				return err
			}
			_, err := l.Run(t.Context())
			if !errors.Is(err, unix.EMFILE) {
				t.Errorf("%v", err)
			}
			return unix.Prlimit(os.Getpid(), unix.RLIMIT_NOFILE, &limit, nil)
		},
		"and not startable": func(l *Launch) error {
			l.command.Dir = "/nowhere"
			if _, err := l.Run(t.Context()); !errors.Is(err, unix.ENOENT) {
				t.Errorf("%v", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := reserved()
			l := NewLaunch(command)
			l.Prepare()
			if got := reserved(); got != before+1 {
				t.Fatalf("%d commands, %d before", got, before)
			}
			if err := do(&l); err != nil {
				t.Error(err)
			}
			l.Drop()
			l.Drop() // changes nothing
			if got := reserved(); got != before {
				t.Errorf("%d commands are left, %d before", got, before)
			}
		})
	}
}
