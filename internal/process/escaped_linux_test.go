package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/process"
)

// forksAway are ways to leave the group of a command.
var forksAway = map[string]string{
	"a session of its own":       `setsid sh -c 'exec 5>%[1]q; echo on >&5; sleep 1000' & cat %[2]q`,
	"and then an orphan":         `(setsid sh -c 'exec 5>%[1]q; echo on >&5; sleep 1000; sleep 1000' &) ; cat %[2]q`,
	"and a family":               `(setsid sh -c 'exec 5>%[1]q; (setsid sleep 1000 &); sleep 1000 & echo on >&5; wait' &) ; cat %[2]q`,
	"deaf to signals":            `(setsid sh -c 'trap "" TERM HUP INT; exec 5>%[1]q; echo on >&5; sleep 1000; sleep 1000' &) ; cat %[2]q`,
	"in a background job's own":  `set -m; (exec 5>%[1]q; echo on >&5; exec sleep 1000) & cat %[2]q`,
	"without a mark to be known": `(env -i /usr/bin/setsid /bin/sh -c 'exec 5>%[1]q; echo on >&5; sleep 1000' &) ; cat %[2]q`,
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

func TestWhatForksAwayIsKilled(t *testing.T) {
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

func TestWhatForksAwayDiesWithUs(t *testing.T) {
	for name, script := range forksAway {
		if strings.Contains(script, "env -i") {
			continue // with nobody left who adopted it, only its mark could give it away
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
func TestOthersAreLeftAlone(t *testing.T) {
	line := newLifeline(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	ended := make(chan error, 1)
	go func() {
		_, err := process.Run(ctx, shell(fmt.Sprintf(`(setsid sh -c 'exec 5>%q; echo on >&5; read -r x <%q; echo "$x" >&5; sleep 1000' &); sleep 1000`,
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
	if said, err := line.lines.ReadString('\n'); err != nil || said != "alive\n" {
		t.Errorf("%q, %v", said, err)
	}
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Error(err)
	}
	line.dead(t)
}
