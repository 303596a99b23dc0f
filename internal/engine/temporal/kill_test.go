//go:build temporal

package temporal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/owner"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/temporaltest"
)

// victimVariable makes the test binary a worker that is killed.
const victimVariable = "ESPALIER_TEST_VICTIM"

// victim is a worker that is killed at a point, and drives a run to its end if the
// point is empty.
type victim struct {
	Point, Dir, Address, Queue string
	Namespace                  string // empty is the default
	Server                     int    // the process of the server, which is killed, too; 0 for none

	mu     sync.Mutex
	counts map[string]int
}

// isVictim makes this process the worker of a test, if it is one.
func isVictim() bool {
	text := os.Getenv(victimVariable)
	if text == "" {
		return false
	}
	v := &victim{counts: map[string]int{}}
	err := json.Unmarshal([]byte(text), v)
	if err == nil {
		err = v.drive()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// reach kills the process if it was to be killed here.
func (v *victim) reach(point string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.counts[point]++
	if v.Point != fmt.Sprint(point, " ", v.counts[point]) {
		return
	}
	if v.Server != 0 {
		_ = syscall.Kill(v.Server, syscall.SIGKILL) // the test notices if it lives
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail
	select {}
}

// request surrounds a request to the server.
func (v *victim) request(
	ctx context.Context, method string, in, out any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption,
) error {
	name := path.Base(method)
	if x, ok := in.(*workflowservice.RespondWorkflowTaskCompletedRequest); ok {
		for _, command := range x.GetCommands() {
			if command.GetCommandType() == enumspb.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION {
				name = "ContinueAsNew"
			}
		}
	}
	v.reach("before " + name)
	err := invoke(ctx, method, in, out, c, o...)
	if x, ok := in.(*workflowservice.RecordActivityTaskHeartbeatRequest); ok && err == nil {
		err = v.noted(x)
	}
	v.reach("after " + name)
	return err
}

// noted writes down which calls are durable after a heartbeat.
func (v *victim) noted(x *workflowservice.RecordActivityTaskHeartbeatRequest) error {
	for _, payload := range x.GetDetails().GetPayloads() {
		var beat struct{ Log []struct{ Note *plan.Note } }
		if err := json.Unmarshal(payload.GetData(), &beat); err != nil {
			return err
		}
		for _, one := range beat.Log {
			if one.Note != nil {
				call := fmt.Sprintf("%s.%s", one.Note.Work.Key(), one.Note.Data)
				if err := v.write("calls", notedPrefix+call); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// notedPrefix precedes a call that is durable, in the file of all calls.
const notedPrefix = "noted:"

// surrounded is a journal whose appends are points.
type surrounded struct {
	journal.Store
	v *victim
}

func (s surrounded) Append(b journal.Batch, done func(error)) {
	s.v.reach("before Append")
	s.Store.Append(b, func(err error) {
		s.v.reach("after Append")
		done(err)
	})
}

// victimKind is the kind of the victim's tasks: those called "call" make two calls
// and note each one, the others have an effect that must not be repeated.
type victimKind struct {
	*enginetest.Kind
	v *victim
}

func (k victimKind) Recovery(*ir.Task, []journal.TaskNoted) step.Recovery { return k.Policy }

func (k victimKind) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	if k.Policy == step.Ask {
		if err := k.v.write("effects", job.Key); err != nil {
			return step.Result{}, err
		}
		k.v.reach("after effect")
	}
	for turn := job.NoteCount("reply"); turn < 2 && k.Policy == step.Rerun; turn++ {
		n, err := job.Log.Reserve(ctx, journal.Usage{OutputTokens: 100})
		if err != nil {
			return step.Result{}, err
		}
		k.v.reach("before call")
		if err := k.v.write("calls", fmt.Sprint(job.Key, ".", turn)); err != nil {
			return step.Result{}, err
		}
		k.v.reach("after call")
		if err := job.Log.Note(ctx, step.Note{
			Kind: "reply", Data: turn, Settles: n, Usage: journal.Usage{OutputTokens: 10},
		}); err != nil {
			return step.Result{}, err
		}
	}
	return step.Result{Value: json.RawMessage(fmt.Sprintf("%q", job.Key))}, nil
}

// write adds a line to a file of what has happened in the world.
func (v *victim) write(name, line string) error {
	f, err := os.OpenFile(filepath.Join(v.Dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

func (v *victim) lines(name string) []string {
	raw, _ := os.ReadFile(filepath.Join(v.Dir, name)) // there may be none yet
	return strings.Fields(string(raw))
}

func victimProgram() *ir.Program {
	task := func(id, kind string) ir.Step {
		return ir.Step{ID: id, Type: "task", Action: ir.Task{Kind: kind}, Writes: []ir.Write{{Path: "state." + id}}}
	}
	p := enginetest.Program([]ir.Step{
		task("call1", "call"), task("act1", "act"),
		{ID: "g", Type: "gate", Action: ir.Gate{Decider: ir.Person}},
		task("act2", "act"), task("act3", "act"), task("call2", "call"), task("act4", "act"),
	})
	p.Budget.Tokens = &ir.Limit{Max: 100_000} // reservations are updates
	return p
}

// victimEffects and victimCalls are what the program does in the world.
var (
	victimEffects = []string{"act1#0", "act2#0", "act3#0", "act4#0"}
	victimCalls   = []string{"call1#0.0", "call1#0.1", "call2#0.0", "call2#0.1"}
)

// open opens the journal and an engine.
func (v *victim) open() (*temporal.Engine, journal.Store, func(), error) {
	process, err := owner.New(filepath.Join(v.Dir, "owners"))
	if err != nil {
		return nil, nil, nil, err
	}
	store, err := sqlite.Open(filepath.Join(v.Dir, "journal.db"), sqlite.Options{Relaxed: true, Dead: process.Dead})
	if err != nil {
		return nil, nil, nil, err
	}
	calls, acts := enginetest.NewKind(), enginetest.NewKind()
	acts.Policy = step.Ask
	e := temporal.New(temporal.Config{
		Config: engine.Config{
			Runners: map[string]step.Runner{"call": victimKind{calls, v}, "act": victimKind{acts, v}},
		},
		Store: surrounded{store, v}, Address: v.Address, Namespace: v.Namespace, TaskQueue: v.Queue,
		Heartbeat: 3 * time.Second, ContinueAfter: 35,
		Client: func(_ context.Context, o *client.Options) error {
			o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions,
				grpc.WithChainUnaryInterceptor(v.request))
			return nil
		},
	})
	return e, store, func() {
		enginetest.Stop(e)
		_ = store.Close()   // what matters is durable
		_ = process.Close() // as above
	}, nil
}

// drive starts or continues the run and drives it to its end. It answers questions
// by looking at the world, as a person would.
func (v *victim) drive() error {
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Minute)
	defer stop()
	e, _, leave, err := v.open()
	if err != nil {
		return err
	}
	defer leave()
	err = e.Start(ctx, enginetest.ID, &engine.Definition{Program: victimProgram()}, json.RawMessage("{}"), nil, actor)
	if errors.Is(err, journal.ErrExists) {
		err = e.Resume(ctx, enginetest.ID)
	}
	if errors.Is(err, journal.ErrFinished) {
		return nil
	}
	for err == nil {
		var entry journal.Entry
		if entry, err = e.Wait(ctx, enginetest.ID); err != nil || entry.Status == journal.Finished {
			return err
		}
		err = v.answer(ctx, e)
	}
	return err
}

func (v *victim) answer(ctx context.Context, e *temporal.Engine) error {
	state, p, _, err := e.Load(ctx, enginetest.ID)
	if err != nil {
		return err
	}
	gates := state.OpenGates()
	if len(gates) == 0 {
		return fmt.Errorf("the run rests, and asks nothing: %+v", state.Summary())
	}
	gate := gates[0]
	_, digest := state.Shown(p, gate)
	d := plan.GateDecision{Step: gate.Step, Answer: journal.AnswerApprove, Digest: digest, By: actor}
	if gate.Gate.Kind == journal.GateOutcome {
		d.Answer = journal.AnswerRerun
		if slices.Contains(v.lines("effects"), gate.Step+"#0") {
			d.Answer, d.Value = journal.AnswerResult, json.RawMessage(`"told"`)
		}
	}
	return e.Send(ctx, enginetest.ID, d, "ref")
}

// die runs the worker in a process of its own. It reports whether it was killed.
func (v *victim) die(t *testing.T, point string) (killed bool) {
	t.Helper()
	raw, err := json.Marshal(victim{
		Point: point, Dir: v.Dir, Address: v.Address, Namespace: v.Namespace, Queue: v.Queue, Server: v.Server,
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+string(raw))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		return true
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// check checks a run that has finished after a worker was killed. One call may be
// repeated: the one that was made and whose note was not durable yet. A heartbeat
// that is under way when the call is made does not contain its note.
func (v *victim) check(t *testing.T) {
	t.Helper()
	*v = victim{
		Dir: v.Dir, Address: v.Address, Namespace: v.Namespace, Queue: v.Queue, counts: map[string]int{},
	}
	e, store, leave, err := v.open()
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	entry, err := store.Entry(t.Context(), enginetest.ID)
	if err != nil || entry.Outcome != journal.OutcomeOK {
		t.Fatalf("%+v %v", entry, err)
	}
	effects := v.lines("effects")
	slices.Sort(effects)
	if !slices.Equal(effects, victimEffects) {
		t.Errorf("effects: %v", effects)
	}
	made, durable, repeated := map[string]bool{}, map[string]bool{}, 0
	for _, line := range v.lines("calls") {
		call, noted := strings.CutPrefix(line, notedPrefix)
		switch {
		case noted:
			durable[call] = true
		case durable[call]:
			t.Errorf("%s was called again although its note was durable", call)
		case made[call]:
			repeated++
		}
		made[call] = true
	}
	if got := slices.Sorted(maps.Keys(made)); !slices.Equal(got, victimCalls) || repeated > 1 ||
		len(made)-len(durable) > 1 {
		t.Errorf("calls: %v", v.lines("calls"))
	}
	verify(t, store, enginetest.ID)
	replay(t, e, histories(t, e, enginetest.ID)) // its last task may be open: all workers have ended
}

// A worker is killed before and after every kind of request to the server and every
// append to the journal, and around what a task does. Another one continues the run:
// no effect happens twice, and no call whose note was durable.
func TestWorkerKilledAtEveryPoint(t *testing.T) {
	for point, numbers := range map[string][]int{
		"Append":                       {1, 2, 3, 5},
		"StartWorkflowExecution":       {1},
		"PollWorkflowTaskQueue":        {1, 3},
		"RespondWorkflowTaskCompleted": {1, 2, 4},
		"ContinueAsNew":                {1},
		"RecordActivityTaskHeartbeat":  {1, 2, 3, 4},
		"UpdateWorkflowExecution":      {1, 2, 3},
		"RespondActivityTaskCompleted": {1, 2, 3},
		"call":                         {1, 2},
		"effect":                       {1, 2},
	} {
		for _, n := range numbers {
			for _, when := range []string{"before", "after"} {
				name := fmt.Sprintf("%s %s %d", when, point, n)
				if when == "before" && point == "effect" {
					continue // the same as before the append
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					v := &victim{Dir: t.TempDir(), Address: temporaltest.Shared(t).Address, Queue: uuid.NewString()}
					if !v.die(t, name) {
						t.Fatal("the worker was not killed")
					}
					v.die(t, "")
					v.check(t)
				})
			}
		}
	}
}

// The worker and the server are killed at the same moment.
func TestWorkerAndServerKilledTogether(t *testing.T) {
	for _, point := range []string{
		"before RespondWorkflowTaskCompleted 2", "after RecordActivityTaskHeartbeat 2", "after effect 1",
		"after call 2", "after Append 3",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			server, err := temporaltest.Start()
			if err != nil {
				t.Fatal(err)
			}
			defer server.Remove()
			v := &victim{Dir: t.TempDir(), Address: server.Address, Queue: uuid.NewString(), Server: server.PID()}
			if !v.die(t, point) {
				t.Fatal("the worker was not killed")
			}
			server.Kill()
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
			v.die(t, "")
			v.check(t)
		})
	}
}
