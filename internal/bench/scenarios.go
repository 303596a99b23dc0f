package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/step"
)

// work is a step.Runner that takes no time, so that a scenario measures the overhead of the engine. It calls do, which
// may be nil, at the start of each task.
type work struct {
	do func(context.Context, *step.Job)
}

func (work) Name() string { return "bench" }

func (work) Recovery(*ir.Task, []journal.TaskNoted) step.Recovery { return step.Rerun }

func (w work) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	if w.do != nil {
		w.do(ctx, job)
	}
	return step.Result{Value: json.RawMessage(`"done well"`)}, ctx.Err()
}

// task returns a step that reads one variable and writes another.
func task(id, reads string) ir.Step {
	s := ir.Step{ID: id, Type: "task", Action: ir.Task{Kind: "bench"}, Writes: []ir.Write{{Path: "state." + id}}}
	if reads != "" {
		s.Reads = []ir.Ref{{Path: reads}}
	}
	return s
}

func gateStep(id string) ir.Step {
	return ir.Step{ID: id, Type: "gate", Action: ir.Gate{Decider: ir.Person}}
}

// program connects the steps of each block in order.
func program(blocks ...[]ir.Step) *engine.Definition {
	p := &ir.Program{Name: "bench", Format: "bench"}
	for _, steps := range blocks {
		for i := range steps[:len(steps)-1] {
			steps[i].Next = []ir.Edge{{
				On: []ir.Outcome{ir.OK, ir.Skipped}, To: ir.Target{Step: steps[i+1].ID},
				Sequential: true,
			}}
		}
		p.Blocks = append(p.Blocks, ir.Block{Steps: steps})
	}
	return &engine.Definition{Program: p}
}

// chainOf returns a program of n steps, each of which reads what the one before has written.
func chainOf(n int) *engine.Definition {
	steps := make([]ir.Step, n)
	reads := ""
	for i := range steps {
		id := fmt.Sprintf("s%d", i)
		steps[i] = task(id, reads)
		reads = "state." + id
	}
	return program(steps)
}

// loopOf returns a program with one step in a loop of n rounds.
func loopOf(n int) *engine.Definition {
	return program(
		[]ir.Step{{ID: "loop", Type: "loop", Action: ir.Loop{Block: 1, Max: n}}},
		[]ir.Step{task("turn", "loop.index")})
}

// gatedLoopOf returns a loop beside a gate.
func gatedLoopOf(n int) *engine.Definition {
	return program(
		[]ir.Step{{
			ID: "both", Type: "parallel",
			Action: ir.Parallel{
				Join:     ir.JoinAll,
				Branches: []ir.Branch{{Name: "loop", Block: 1}, {Name: "ask", Block: 2}},
			},
		}},
		[]ir.Step{{ID: "loop", Type: "loop", Action: ir.Loop{Block: 3, Max: n}}},
		[]ir.Step{gateStep("ask")},
		[]ir.Step{task("turn", "loop.index")})
}

// fanOut returns a program with one task per item of its input.
func fanOut() (*engine.Definition, error) {
	list, problems := expr.ParseValue(expr.AgentFlow, "input.items", source.Span{})
	if problems.Errors() {
		return nil, fmt.Errorf("the list: %s", problems[0].Message)
	}
	return program(
		[]ir.Step{{
			ID: "fan", Type: "parallel",
			Action: ir.Parallel{Join: ir.JoinAll, Each: &ir.Each{Items: list, Var: "item", Block: 1}},
		}},
		[]ir.Step{task("branch", "item")}), nil
}

// measure runs one round of a scenario and prints its figures.
func measure(scenario, dir string) error {
	base, err := rawAppendTime(dir)
	if err != nil {
		return err
	}
	if profile := os.Getenv("BENCH_PROFILE"); profile != "" {
		out, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer out.Close()
		if err := pprof.StartCPUProfile(out); err != nil {
			return err
		}
	}
	var f figures
	switch scenario {
	case "chain":
		f, err = measureRuns(dir, base, 1, 1000, false)
	case "chain-relaxed":
		f, err = measureRuns(dir, base, 1, 1000, true)
	case "runs-64":
		f, err = measureRuns(dir, base, 64, 20, false)
	case "runs-1000":
		f, err = measureRuns(dir, base, 1000, 20, false)
	case "fan-out":
		f, err = measureFanOut(dir)
	case "loop":
		f, err = measureLoop(dir)
	case "waiting":
		f, err = measureWaiting(dir)
	case "resume-loop", "resume-chain":
		f, err = measureResume(dir, scenario)
	case "resume-long":
		f, err = measureLong(dir, scenario)
	case "approve", "approve-busy":
		f, err = measureApprovals(dir, scenario)
	case "cold":
		f, err = measureCold(dir)
	case "serve":
		f, err = measureServerStart(dir)
	case "events":
		f, err = measureEvents(dir)
	default:
		err = fmt.Errorf("there is no scenario %q", scenario)
	}
	if err != nil {
		return err
	}
	f["bare"] = float64(base)
	if used, err := processorTime(); err == nil {
		f["cpu"] = milliseconds(used)
	}
	if profile := os.Getenv("BENCH_PROFILE"); profile != "" {
		pprof.StopCPUProfile()
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

func open(dir string, o registry.RuntimeOptions, do func(context.Context, *step.Job)) (*registry.Runtime, error) {
	o.Runners = []step.Runner{work{do}}
	return registry.OpenRuntime(filepath.Join(dir, "store"), o)
}

// shut closes a runtime without waiting for its tasks.
func shut(r *registry.Runtime) error {
	now := make(chan struct{})
	close(now)
	r.Engine.Close(now)
	return r.Close()
}

var nothing = json.RawMessage("{}")

func begin(r *registry.Runtime, id journal.RunID, def *engine.Definition, input json.RawMessage) error {
	return r.Engine.Start(context.Background(), id, def, input, nil, journal.Actor{User: "bench"})
}

// toRest starts runs of a program at once and waits until all are at rest.
func toRest(r *registry.Runtime, def *engine.Definition, ids []journal.RunID) error {
	failed := make(chan error, 1)
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			err := begin(r, id, def, nothing)
			if err == nil {
				_, err = r.Engine.Wait(context.Background(), id)
			}
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func newIDs(n int) []journal.RunID {
	ids := make([]journal.RunID, n)
	for i := range ids {
		ids[i] = journal.RunID(uuid.NewString())
	}
	return ids
}

// pace records when the steps of a run start.
type pace struct {
	last time.Time
	gaps []time.Duration
}

// measureRuns drives chains of steps at the same time. step is the time for each step in nanoseconds, ratio and rate
// compare it with base, the time of a bare durable append, and gap is the time between two steps of a run (99th
// percentile).
func measureRuns(dir string, base time.Duration, runs, steps int, relaxed bool) (figures, error) {
	p := chainOf(steps)
	ids := newIDs(runs)
	paces := make(map[journal.RunID]*pace, runs)
	for _, id := range ids {
		paces[id] = &pace{gaps: make([]time.Duration, 0, steps)}
	}
	r, err := open(dir, registry.RuntimeOptions{Relaxed: relaxed}, func(_ context.Context, job *step.Job) {
		at, now := paces[job.Run], time.Now() // the tasks of a run are sequential
		if !at.last.IsZero() {
			at.gaps = append(at.gaps, now.Sub(at.last))
		}
		at.last = now
	})
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := toRest(r, p, ids); err != nil {
		return nil, err
	}
	each := float64(time.Since(began)) / float64(runs*steps)
	var gaps []time.Duration
	for _, at := range paces {
		gaps = append(gaps, at.gaps...)
	}
	slices.Sort(gaps)
	return figures{
		"step": each, "ratio": each / float64(base), "rate": float64(base) / each, "steps": 1e9 / each,
		"gap": milliseconds(gaps[len(gaps)*99/100]), "gap50": milliseconds(gaps[len(gaps)/2]),
	}, shut(r)
}

// measureFanOut measures a run whose 1,000 tasks start at once.
func measureFanOut(dir string) (figures, error) {
	p, err := fanOut()
	if err != nil {
		return nil, err
	}
	r, err := open(dir, registry.RuntimeOptions{}, nil)
	if err != nil {
		return nil, err
	}
	items := make([]int, 1000)
	for i := range items {
		items[i] = i
	}
	input, err := json.Marshal(map[string][]int{"items": items})
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := begin(r, theRun, p, input); err != nil {
		return nil, err
	}
	if _, err := r.Engine.Wait(context.Background(), theRun); err != nil {
		return nil, err
	}
	return figures{"whole": milliseconds(time.Since(began))}, shut(r)
}

// measureLoop measures whether a long run slows down: growth is the time of its last thousand rounds relative to its
// first thousand.
func measureLoop(dir string) (figures, error) {
	const turns = 10_000
	at := make([]time.Time, 0, turns)
	r, err := open(dir, registry.RuntimeOptions{}, func(context.Context, *step.Job) { at = append(at, time.Now()) })
	if err != nil {
		return nil, err
	}
	if err := toRest(r, loopOf(turns), newIDs(1)); err != nil {
		return nil, err
	}
	if len(at) != turns {
		return nil, fmt.Errorf("%d turns, not %d", len(at), turns)
	}
	first, last := at[999].Sub(at[0]), at[turns-1].Sub(at[turns-1000])
	return figures{
		"step": float64(at[turns-1].Sub(at[0])) / (turns - 1), "growth": ratio(last, first),
	}, shut(r)
}

// measureWaiting starts 100,000 runs that wait at a gate, and measures what each holds in memory and on the disk, and
// the processor time per second while nothing happens. The runs of the first thousand are left out, so that one-time
// costs do not count.
func measureWaiting(dir string) (figures, error) {
	const runs, settle, idle = 100_000, 3 * time.Second, 3 * time.Second
	r, err := open(dir, registry.RuntimeOptions{}, nil)
	if err != nil {
		return nil, err
	}
	p := program([]ir.Step{gateStep("ask")})
	began := time.Now()
	var heap uint64
	var disk int64
	for i := range 1 + runs/1000 {
		if err := toRest(r, p, newIDs(1000)); err != nil {
			return nil, err
		}
		if i == 0 { // exclude one-time costs of the first tasks
			heap, disk = heapSize(), diskSize(dir)
			began = time.Now()
		}
	}
	took := time.Since(began)
	if err := r.Flush(context.Background()); err != nil {
		return nil, err
	}
	time.Sleep(settle) // idle files are closed after a second or two
	f := figures{
		"heap": (float64(heapSize()) - float64(heap)) / runs, "disk": float64(diskSize(dir)-disk) / runs,
		"begun": runs / took.Seconds(), "goroutines": float64(runtime.NumGoroutine()),
	}
	before, err := processorTime()
	if err != nil {
		return nil, err
	}
	time.Sleep(idle)
	after, err := processorTime()
	if err != nil {
		return nil, err
	}
	f["idle"] = milliseconds(after-before) / idle.Seconds()
	return f, shut(r)
}

// heapSize returns the memory in use. It first returns free memory to the system, because the runtime would do so later
// and its CPU time would count as the cost of waiting.
func heapSize() uint64 {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// diskSize returns the size of the journal's files.
func diskSize(dir string) (size int64) {
	for _, name := range []string{"espalier.db", "espalier.db-wal"} {
		if info, err := os.Stat(filepath.Join(dir, "store", name)); err == nil {
			size += info.Size()
		}
	}
	return size
}

// theRun is the run that the processes of a scenario share.
const theRun journal.RunID = "00000000-0000-4000-8000-000000000001"

// other is an additional process of a scenario. It prints numbers, one on each line, that the measuring process reads.
type other struct {
	cmd *exec.Cmd
	out *bufio.Scanner
	in  io.WriteCloser
}

func startOther(part, dir string, args ...string) (*other, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProcess(exec.Command(self, append([]string{playCommand, part, dir}, args...)...))
}

func startProcess(cmd *exec.Cmd) (*other, error) {
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &other{cmd: cmd, out: bufio.NewScanner(out), in: in}, cmd.Start()
}

// number reads the next line: a time or a count.
func (o *other) number() (int64, error) {
	if !o.out.Scan() {
		return 0, cmp.Or(o.out.Err(), fmt.Errorf("%v ended too soon", o.cmd.Args))
	}
	return strconv.ParseInt(o.out.Text(), 10, 64)
}

func (o *other) kill() {
	o.cmd.Process.Kill() // it may have exited already
	o.cmd.Wait()         // which reports that it was killed
}

// printTime prints a time for the process that measures.
func printTime(moment time.Time) { fmt.Println(moment.UnixNano()) }

// play runs an additional process of a scenario.
func play(part, dir string, args []string) error {
	switch part {
	case "resume-loop":
		return playUntil(dir, loopOf(10_000), 9_990, false)
	case "resume-chain":
		return playUntil(dir, chainOf(1000), 990, false)
	case "resume-long":
		return playUntil(dir, gatedLoopOf(100_000), 99_990, true)
	case "resumer":
		return playResumer(dir)
	case "status", "approve-long", "cancel":
		return playActor(dir, part)
	case "approve":
		return playOwner(dir, false)
	case "approve-busy":
		return playOwner(dir, true)
	case "approver":
		return playApprover(dir)
	}
	return fmt.Errorf("there is no part %q", part)
}

// playUntil runs a program up to its n-th task and blocks there.
func playUntil(dir string, p *engine.Definition, n int, relaxed bool) error {
	count := 0
	r, err := open(dir, registry.RuntimeOptions{Relaxed: relaxed}, func(ctx context.Context, _ *step.Job) {
		if count++; count == n {
			fmt.Println(n)
			<-ctx.Done()
		}
	})
	if err != nil {
		return err
	}
	return toRest(r, p, []journal.RunID{theRun})
}

// playResumer resumes a run and reports when its first task starts.
func playResumer(dir string) error {
	begun := make(chan time.Time, 1)
	r, err := open(dir, registry.RuntimeOptions{}, func(ctx context.Context, _ *step.Job) {
		begun <- time.Now()
		<-ctx.Done()
	})
	if err != nil {
		return err
	}
	printTime(time.Now())
	if err := r.Engine.Resume(context.Background(), theRun); err != nil {
		return err
	}
	printTime(<-begun)
	return shut(r)
}

// measureResume kills a process in the middle of a run and measures how long another one takes until it starts the next
// task, from its own start on.
func measureResume(dir, part string) (figures, error) {
	before, err := startOther(part, dir)
	if err != nil {
		return nil, err
	}
	_, err = before.number()
	before.kill()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	after, err := startOther("resumer", dir)
	if err != nil {
		return nil, err
	}
	defer after.kill()
	opened, err := after.number()
	if err != nil {
		return nil, err
	}
	first, err := after.number()
	if err != nil {
		return nil, err
	}
	since := func(moment int64) float64 { return milliseconds(time.Duration(moment - began.UnixNano())) }
	err = after.cmd.Wait()
	return figures{"opened": since(opened), "first": since(first), "memory": peakMemory(after.cmd.ProcessState)}, err
}

// playActor looks at a run, and approves its gate or cancels it. It reports when that is done.
func playActor(dir, part string) error {
	r, err := open(dir, registry.RuntimeOptions{}, func(ctx context.Context, _ *step.Job) { <-ctx.Done() })
	if err != nil {
		return err
	}
	r.Engine.Hold()
	ctx := context.Background()
	state, program, _, err := r.Engine.Load(ctx, theRun)
	if err != nil {
		return err
	}
	gates := state.OpenGates()
	switch part {
	case "approve-long":
		d := plan.GateDecision{Step: gates[0].Step, Answer: journal.AnswerApprove}
		_, d.Digest = state.Shown(program, gates[0])
		err = r.Engine.Send(ctx, theRun, d, uuid.NewString())
	case "cancel":
		if err = r.Engine.Send(ctx, theRun, plan.Cancel{}, uuid.NewString()); err == nil {
			_, err = r.Engine.Wait(ctx, theRun)
		}
	}
	if err != nil {
		return err
	}
	printTime(time.Now())
	return shut(r)
}

// measureLong measures resuming a long run, and then commands that act on it, each in a process of its own.
func measureLong(dir, part string) (figures, error) {
	f, err := measureResume(dir, part)
	if err != nil {
		return nil, err
	}
	for _, act := range []string{"status", "approve-long", "cancel"} {
		began := time.Now()
		actor, err := startOther(act, dir)
		if err != nil {
			return nil, err
		}
		done, err := actor.number()
		if err = errors.Join(err, actor.cmd.Wait()); err != nil {
			return nil, fmt.Errorf("%s: %w", act, err)
		}
		f[act] = milliseconds(time.Duration(done - began.UnixNano()))
		f["memory"] = max(f["memory"], peakMemory(actor.cmd.ProcessState))
	}
	return f, nil
}

const approvals = 20

// playOwner owns a run that requests one approval after the other, and reports when each decision arrives. It runs
// until it is killed.
func playOwner(dir string, busy bool) error {
	asks := []ir.Step{}
	for i := range approvals {
		asks = append(asks, gateStep(fmt.Sprintf("ask%d", i)), task(fmt.Sprintf("heard%d", i), ""))
	}
	p := program(
		[]ir.Step{{
			ID: "both", Type: "parallel",
			Action: ir.Parallel{
				Join:     ir.JoinAll,
				Branches: []ir.Branch{{Name: "stay", Block: 1}, {Name: "ask", Block: 2}},
			},
		}},
		[]ir.Step{task("stay", "")}, asks)
	owned := make(chan struct{})
	r, err := open(dir, registry.RuntimeOptions{}, func(ctx context.Context, job *step.Job) {
		switch {
		case job.Step.ID == "stay": // keeps the run owned by this process
			close(owned)
			<-ctx.Done()
		case job.Run == theRun:
			printTime(time.Now())
		}
	})
	if err != nil {
		return err
	}
	go r.Engine.Listen(context.Background())
	if busy {
		endless := loopOf(1_000_000)
		for _, id := range newIDs(64) {
			if err := begin(r, id, endless, nothing); err != nil {
				return err
			}
		}
	}
	if err := begin(r, theRun, p, nothing); err != nil {
		return err
	}
	<-owned
	fmt.Println(0)
	select {}
}

// playApprover approves the gate of the run on request, and reports when it started to.
func playApprover(dir string) error {
	r, err := open(dir, registry.RuntimeOptions{}, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for requests := bufio.NewScanner(os.Stdin); requests.Scan(); {
		var gates []*plan.Frame
		var state *plan.State
		var program *plan.Program
		for len(gates) == 0 { // the owner may not have reached the next gate yet
			if state, program, _, err = r.Engine.Load(ctx, theRun); err != nil {
				return err
			}
			gates = state.OpenGates()
		}
		d := plan.GateDecision{Step: gates[0].Step, Answer: journal.AnswerApprove}
		_, d.Digest = state.Shown(program, gates[0])
		began := time.Now()
		if err := r.Engine.Send(ctx, theRun, d, uuid.NewString()); err != nil {
			return err
		}
		printTime(began)
	}
	return shut(r)
}

// measureApprovals measures how long a decision takes from one process to the process that drives the run. Both print
// times of the same clock.
func measureApprovals(dir, part string) (figures, error) {
	owner, err := startOther(part, dir)
	if err != nil {
		return nil, err
	}
	defer owner.kill()
	if _, err := owner.number(); err != nil {
		return nil, err
	}
	approver, err := startOther("approver", dir)
	if err != nil {
		return nil, err
	}
	defer approver.kill()
	took := make([]time.Duration, approvals)
	for i := range took {
		if _, err := fmt.Fprintln(approver.in); err != nil {
			return nil, err
		}
		began, err := approver.number()
		if err != nil {
			return nil, err
		}
		heard, err := owner.number()
		if err != nil {
			return nil, err
		}
		took[i] = time.Duration(heard - began)
	}
	slices.Sort(took)
	return figures{"median": milliseconds(took[len(took)/2]), "worst": milliseconds(took[len(took)-1])}, nil
}

// measureCold starts the program itself in a project without a store.
func measureCold(dir string) (figures, error) {
	flow := filepath.Join(dir, "flow.md")
	if err := os.WriteFile(flow, []byte(twelveSteps), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(filepath.Dir(dir), espalierFile), "run", flow, "--simulate", "--json", "--follow",
		"--input", "ticket=It broke", "--input", "customer_id=42")
	cmd.Dir = dir
	began := time.Now()
	p, err := startProcess(cmd)
	if err != nil {
		return nil, err
	}
	defer p.kill()
	for p.out.Scan() {
		if bytes.Contains(p.out.Bytes(), []byte(`"step.started"`)) {
			return figures{"first": milliseconds(time.Since(began))}, nil
		}
	}
	return nil, fmt.Errorf("espalier run reported no step")
}
