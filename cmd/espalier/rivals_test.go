//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/trust"
)

// own runs a command in a separate process.
func (f *faulty) own(args ...string) (code int, stderr string) {
	f.t.Helper()
	cmd := exec.Command("espalier", args...)
	cmd.Dir, cmd.Env = f.dir, append(os.Environ(), "NO_COLOR=1", "HOME="+f.dir, "GORACE="+quickExit)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		f.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// hold leaves a trace when the test releases it.
const hold = `echo on > ../../../begun; read x < ../../../go; ` + trace

// held resumes the run in a separate process, and returns when a step blocks it.
func (f *faulty) held() *exec.Cmd {
	f.t.Helper()
	for _, name := range []string{"begun", "go"} {
		if err := syscall.Mkfifo(filepath.Join(f.dir, name), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	cmd := exec.Command("espalier", "resume", errandRun)
	cmd.Dir, cmd.Env = f.dir, append(os.Environ(), "NO_COLOR=1", "HOME="+f.dir, "GORACE="+quickExit)
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	begun, err := os.Open(filepath.Join(f.dir, "begun"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer begun.Close()
	if _, err := bufio.NewReader(begun).ReadString('\n'); err != nil {
		f.t.Fatal(err)
	}
	return cmd
}

// goOn releases the step and waits for the end of its process.
func (f *faulty) goOn(cmd *exec.Cmd) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, "go"), []byte("go\n"), 0); err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		f.t.Error(err)
	}
}

// begun starts a run of a program and leaves it to other processes.
func (f *faulty) begun(p *ir.Program) {
	f.t.Helper()
	approvals := trust.Open(func(name string) string { return map[string]string{"HOME": f.dir}[name] })
	r, err := registry.OpenRuntime(filepath.Join(f.dir, ".espalier"), registry.RuntimeOptions{Trust: &approvals})
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Close()
	r.Engine.Hold()
	if err := r.Engine.Start(f.t.Context(), errandRun, &engine.Definition{Program: p}, json.RawMessage("{}"),
		registry.RunOptions{AllowShell: true}.Encode(), journal.Actor{User: "eva"}); err != nil {
		f.t.Fatal(err)
	}
	now := make(chan struct{})
	close(now)
	r.Engine.Close(now)
}

// TestTwoProcessesResumeOneRun checks that one process drives the run, and the other reports which one does.
func TestTwoProcessesResumeOneRun(t *testing.T) {
	f := newFaulty(t)
	f.begun(blocks([]ir.Step{scripted("hold", hold)}))
	first := f.held()
	code, stderr := f.own("resume", errandRun)
	owner := regexp.MustCompile(fmt.Sprintf(`another process is driving this run: espalier, process %d on .+, since `,
		first.Process.Pid))
	if code != 6 || !owner.MatchString(stderr) {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	f.goOn(first)
	f.once("hold#0")
}

// TestDecisionReachesTheActiveProcess checks that the process that drives the run accepts a decision of another
// process, which succeeds.
func TestDecisionReachesTheActiveProcess(t *testing.T) {
	f := newFaulty(t)
	f.begun(fan(ir.JoinAll, []ir.Step{scripted("x", hold)}, []ir.Step{approval("ask")}))
	first := f.held()
	if code, stderr := f.own("approve", errandRun); code != 0 ||
		!strings.Contains(stderr, fmt.Sprintf("process %d", first.Process.Pid)) {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	f.goOn(first)
	f.once("a#0", "fan/x/x#0", "b#0")
}

// TestOneOfManyApprovalsCounts checks that one approval is accepted, and the others report it.
func TestOneOfManyApprovalsCounts(t *testing.T) {
	f := newFaulty(t)
	f.waits()
	var wg sync.WaitGroup
	codes := make([]int, 4)
	for i := range codes {
		wg.Go(func() { codes[i], _ = f.own("approve", errandRun, "--no-continue") })
	}
	wg.Wait()
	heard := 0
	for _, code := range codes {
		switch code {
		case 0:
			heard++
		case 2:
		default:
			t.Errorf("exit code %d", code)
		}
	}
	if heard != 1 {
		t.Errorf("%d of %d approvals were taken", heard, len(codes))
	}
	f.try("resume", errandRun)
	f.once("make#0", "hand_over#0")
}

// TestApproveAgainstTimeout checks that the first of both decides the gate, and that both sides report the same
// decision.
func TestApproveAgainstTimeout(t *testing.T) {
	approved, late := 0, 0
	for i, timeout := range []ir.Millis{1, 60_000, 10, 20, 30, 40} {
		f := newFaulty(t)
		ask := approval("ask")
		ask.Action = ir.Gate{Decider: ir.Person, Timeout: timeout, OnTimeout: ir.TimeoutFail}
		f.begun(blocks([]ir.Step{ask, traced("after")}))
		code, stderr := f.own("approve", errandRun)
		var a asked
		if err := json.Unmarshal([]byte(f.exits(0, nil, "status", errandRun, "--json")), &a); err != nil {
			t.Fatal(err)
		}
		switch {
		case code == 0 && a.Outcome == "ok":
			approved++
			f.once("after#0")
		case code == 2 && a.Outcome == "failed":
			late++
			f.once()
		default:
			t.Errorf("timeout %d ms: exit code %d, but %+v\n%s", timeout, code, a, strings.TrimSpace(stderr))
		}
		if i == 1 && (approved != 1 || late != 1) {
			t.Errorf("after a minute and after a millisecond: %d approved, %d late", approved, late)
		}
	}
}

// interleaved is a journal that reports to the test how far a command has come.
type interleaved struct {
	journal.Store
	claimed, posted func()
}

func (s *interleaved) Claim(ctx context.Context, run journal.RunID, me journal.Owner) (journal.Claim, error) {
	claim, err := s.Store.Claim(ctx, run, me)
	if err == nil {
		s.claimed()
	}
	return claim, err
}

func (s *interleaved) Enqueue(ctx context.Context, run journal.RunID, m journal.Message) (journal.Owner, error) {
	owner, err := s.Store.Enqueue(ctx, run, m)
	s.posted()
	return owner, err
}

// TestApproveTwiceKeepsRunMoving checks a process whose decision is refused after it claimed the run: it finds the
// decision of the other process in the inbox, and drives the run to its end.
func TestApproveTwiceKeepsRunMoving(t *testing.T) {
	for _, verb := range []string{"approve", "reject"} {
		f := newFaulty(t)
		f.waits()
		claimed, posted := make(chan struct{}), make(chan struct{})
		claim := sync.OnceFunc(func() {
			close(claimed)
			<-posted
		})
		loser, winner := *f, *f
		loser.wrap = func(s journal.Store) journal.Store { return &interleaved{s, claim, func() {}} }
		winner.wrap = func(s journal.Store) journal.Store {
			return &interleaved{s, func() {}, sync.OnceFunc(func() { close(posted) })}
		}
		var all sync.WaitGroup
		all.Go(func() { loser.exits(2, []string{"was already approved"}, verb, errandRun) })
		<-claimed
		winner.exits(0, nil, "approve", errandRun)
		all.Wait()
		if status := f.exits(0, nil, "status", errandRun, "--json"); !strings.Contains(status, `"outcome": "ok"`) {
			t.Errorf("approve and %s leave the run as %s", verb, status)
		}
		f.once("make#0", "hand_over#0")
	}
}
