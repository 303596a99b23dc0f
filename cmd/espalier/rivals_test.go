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

// runSubprocess runs a command in a separate process.
func (f *faultyProject) runSubprocess(args ...string) (code int, stderr string) {
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

// blockUntilReleased is a script that blocks until release, and then records its side effect.
const blockUntilReleased = `echo on > ../../../begun; read x < ../../../go; ` + recordEffect

// resumeUntilBlocked resumes the run in a separate process, and returns when a step blocks it.
func (f *faultyProject) resumeUntilBlocked() *exec.Cmd {
	f.t.Helper()
	for _, name := range []string{"begun", "go"} {
		if err := syscall.Mkfifo(filepath.Join(f.dir, name), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	cmd := exec.Command("espalier", "resume", testRunID)
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

// release unblocks the step and waits for the end of its process.
func (f *faultyProject) release(cmd *exec.Cmd) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, "go"), []byte("go\n"), 0); err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		f.t.Error(err)
	}
}

// startDetached starts a run of a program, which other processes then drive.
func (f *faultyProject) startDetached(p *ir.Program) {
	f.t.Helper()
	approvals := trust.Open(func(name string) string { return map[string]string{"HOME": f.dir}[name] })
	r, err := registry.OpenRuntime(filepath.Join(f.dir, ".espalier"), registry.RuntimeOptions{Trust: &approvals})
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Close()
	r.Engine.Hold()
	if err := r.Engine.Start(f.t.Context(), testRunID, &engine.Definition{Program: p}, json.RawMessage("{}"),
		registry.RunOptions{AllowShell: true}.Encode(), journal.Actor{User: "eva"}); err != nil {
		f.t.Fatal(err)
	}
	now := make(chan struct{})
	close(now)
	r.Engine.Close(now)
}

// TestTwoProcessesResumeOneRun checks that one process drives the run, and the other reports which one does.
func TestTwoProcessesResumeOneRun(t *testing.T) {
	f := newFaultyProject(t)
	f.startDetached(newProgram([]ir.Step{scriptStep("hold", blockUntilReleased)}))
	first := f.resumeUntilBlocked()
	code, stderr := f.runSubprocess("resume", testRunID)
	owner := regexp.MustCompile(fmt.Sprintf(`another process is driving this run: espalier, process %d on .+, since `,
		first.Process.Pid))
	if code != 6 || !owner.MatchString(stderr) {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	f.release(first)
	f.wantEffects("hold#0")
}

// TestDecisionReachesTheActiveProcess checks that the process that drives the run accepts a decision of another
// process, which succeeds.
func TestDecisionReachesTheActiveProcess(t *testing.T) {
	f := newFaultyProject(t)
	f.startDetached(fanOut(ir.JoinAll, []ir.Step{scriptStep("x", blockUntilReleased)}, []ir.Step{gateStep("ask")}))
	first := f.resumeUntilBlocked()
	if code, stderr := f.runSubprocess("approve", testRunID); code != 0 ||
		!strings.Contains(stderr, fmt.Sprintf("process %d", first.Process.Pid)) {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	f.release(first)
	f.wantEffects("a#0", "fan/x/x#0", "b#0")
}

// TestOneOfManyApprovalsCounts checks that one approval is accepted, and the others report it.
func TestOneOfManyApprovalsCounts(t *testing.T) {
	f := newFaultyProject(t)
	f.startAtGate()
	var wg sync.WaitGroup
	codes := make([]int, 4)
	for i := range codes {
		wg.Go(func() { codes[i], _ = f.runSubprocess("approve", testRunID, "--no-continue") })
	}
	wg.Wait()
	accepted := 0
	for _, code := range codes {
		switch code {
		case 0:
			accepted++
		case 2:
		default:
			t.Errorf("exit code %d", code)
		}
	}
	if accepted != 1 {
		t.Errorf("%d of %d approvals were accepted", accepted, len(codes))
	}
	f.run("resume", testRunID)
	f.wantEffects("make#0", "hand_over#0")
}

// TestFirstOfApprovalAndTimeoutDecides checks that the first of both decides the gate, and that both sides report the
// same decision.
func TestFirstOfApprovalAndTimeoutDecides(t *testing.T) {
	approved, late := 0, 0
	for i, timeout := range []ir.Millis{1, 60_000, 10, 20, 30, 40} {
		f := newFaultyProject(t)
		ask := gateStep("ask")
		ask.Action = ir.Gate{Decider: ir.Person, Timeout: timeout, OnTimeout: ir.TimeoutFail}
		f.startDetached(newProgram([]ir.Step{ask, effectStep("after")}))
		code, stderr := f.runSubprocess("approve", testRunID)
		var a statusOutput
		if err := json.Unmarshal([]byte(f.wantExit(0, nil, "status", testRunID, "--json")), &a); err != nil {
			t.Fatal(err)
		}
		switch {
		case code == 0 && a.Outcome == "ok":
			approved++
			f.wantEffects("after#0")
		case code == 2 && a.Outcome == "failed":
			late++
			f.wantEffects()
		default:
			t.Errorf("timeout %d ms: exit code %d, but %+v\n%s", timeout, code, a, strings.TrimSpace(stderr))
		}
		if i == 1 && (approved != 1 || late != 1) {
			t.Errorf("after a minute and after a millisecond: %d approved, %d late", approved, late)
		}
	}
}

// observedStore is a journal that reports to the test how far a command has come.
type observedStore struct {
	journal.Store
	claimed, posted func()
}

func (s *observedStore) Claim(ctx context.Context, run journal.RunID, me journal.Owner) (journal.Claim, error) {
	claim, err := s.Store.Claim(ctx, run, me)
	if err == nil {
		s.claimed()
	}
	return claim, err
}

func (s *observedStore) Enqueue(ctx context.Context, run journal.RunID, m journal.Message) (journal.Owner, error) {
	owner, err := s.Store.Enqueue(ctx, run, m)
	s.posted()
	return owner, err
}

// TestApproveTwiceKeepsRunMoving checks a process whose decision is refused after it claimed the run: it finds the
// decision of the other process in the inbox, and drives the run to its end.
func TestApproveTwiceKeepsRunMoving(t *testing.T) {
	for _, verb := range []string{"approve", "reject"} {
		f := newFaultyProject(t)
		f.startAtGate()
		claimed, posted := make(chan struct{}), make(chan struct{})
		claim := sync.OnceFunc(func() {
			close(claimed)
			<-posted
		})
		loser, winner := *f, *f
		loser.wrapJournal = func(s journal.Store) journal.Store { return &observedStore{s, claim, func() {}} }
		winner.wrapJournal = func(s journal.Store) journal.Store {
			return &observedStore{s, func() {}, sync.OnceFunc(func() { close(posted) })}
		}
		var all sync.WaitGroup
		all.Go(func() { loser.wantExit(2, []string{"was already approved"}, verb, testRunID) })
		<-claimed
		winner.wantExit(0, nil, "approve", testRunID)
		all.Wait()
		if status := f.wantExit(0, nil, "status", testRunID, "--json"); !strings.Contains(status, `"outcome": "ok"`) {
			t.Errorf("approve and %s leave the run as %s", verb, status)
		}
		f.wantEffects("make#0", "hand_over#0")
	}
}
