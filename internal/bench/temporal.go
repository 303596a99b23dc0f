//go:build temporal

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/temporaltest"
)

// onTemporal compares runs on a Temporal server with plain Temporal code that does the same work: a workflow that
// executes one activity after the other, or waits for an update at each gate. Both use the same development server.
func onTemporal() error {
	server, err := temporaltest.Start()
	if err != nil {
		return err
	}
	defer server.Remove()
	dir, err := os.MkdirTemp("", "espalier-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := newPlain(server.Address)
	if err != nil {
		return err
	}
	defer p.close()
	fmt.Printf("%-24s %28s %28s %8s\n", "", "plain Temporal", "Espalier", "factor")
	for _, c := range []struct {
		name, kind  string
		runs, steps int
	}{
		{"transform", "transform", 1, 100},
		{"command", "command", 1, 100},
		{"agent (simulated)", "agent", 1, 100},
		{"loop", "loop", 1, 100},
		{"parallel branches", "fan-out", 1, 100},
		{"gate", "gate", 1, 50},
		{"command of 1 s", "sleep", 1, 10},
		{"1,000 runs × 20", "transform", 1000, 20},
	} {
		theirs, err := p.measure(c.kind, c.runs, c.steps)
		if err != nil {
			return fmt.Errorf("plain %s: %w", c.name, err)
		}
		o, err := newOurs(server.Address, filepath.Join(dir, uuid.NewString()))
		if err != nil {
			return err
		}
		ours, err := o.measure(c.kind, c.runs, c.steps)
		if err := errors.Join(err, o.close()); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("%-24s %28s %28s %8.2f\n", c.name, theirs, ours, ours.step/theirs.step)
	}
	return nil
}

// temporalCost is what a step costs.
type temporalCost struct{ step, events float64 }

func (c temporalCost) String() string { return fmt.Sprintf("%.1f ms, %.1f events", c.step, c.events) }

// costOf divides what runs have cost by the number of steps. The start and the end of a workflow count, too. took is
// the wall time of all runs together.
func costOf(took time.Duration, events, runs, steps int) temporalCost {
	all := float64(runs * steps)
	return temporalCost{float64(took) / float64(time.Millisecond) / all, float64(events) / all}
}

// eachRun calls a function for every run, for as many at the same time as are useful.
func eachRun(runs int, do func(i int) error) error {
	errs := make([]error, runs)
	slots := make(chan struct{}, 100)
	var all sync.WaitGroup
	for i := range runs {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = do(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// eventsOf returns how many events the histories of a workflow have.
func eventsOf(c client.Client, id string) (n int, err error) {
	for run := ""; ; {
		const all = enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT
		events := c.GetWorkflowHistory(context.Background(), id, run, false, all)
		run = ""
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				return 0, err
			}
			n++
			if x := event.GetWorkflowExecutionStartedEventAttributes(); x != nil {
				run = x.GetContinuedExecutionRunId()
			}
		}
		if run == "" {
			return n, nil
		}
	}
}

// plain is Temporal code without Espalier.
type plain struct {
	client client.Client
	worker worker.Worker
}

const plainQueue = "plain"

// newPlain starts a worker with the plain workflow, in this process.
func newPlain(address string) (*plain, error) {
	c, err := client.Dial(client.Options{HostPort: address, Logger: quietLog{}})
	if err != nil {
		return nil, err
	}
	p := &plain{c, worker.New(c, plainQueue, worker.Options{})}
	p.worker.RegisterWorkflowWithOptions(plainWorkflow, workflow.RegisterOptions{Name: "plain"})
	p.worker.RegisterActivityWithOptions(plainActivity, activity.RegisterOptions{Name: "work"})
	return p, p.worker.Start()
}

func (p *plain) close() {
	p.worker.Stop()
	p.client.Close()
}

// plainWorkflow executes an activity for each step, and passes the results on.
func plainWorkflow(ctx workflow.Context, kind string, steps int) (map[string]string, error) {
	state := map[string]string{}
	approved := 0
	if err := workflow.SetUpdateHandler(ctx, "approve", func(workflow.Context) error {
		approved++
		return nil
	}); err != nil {
		return nil, err
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Hour})
	if kind == "fan-out" {
		var all []workflow.Future
		for range steps {
			all = append(all, workflow.ExecuteActivity(ctx, "work", kind, state))
		}
		for i, one := range all {
			var out string
			if err := one.Get(ctx, &out); err != nil {
				return nil, err
			}
			state[fmt.Sprint("s", i)] = out
		}
		return state, nil
	}
	for i := range steps {
		if kind == "gate" {
			if err := workflow.Await(ctx, func() bool { return approved > i }); err != nil {
				return nil, err
			}
			continue
		}
		var out string
		if err := workflow.ExecuteActivity(ctx, "work", kind, state).Get(ctx, &out); err != nil {
			return nil, err
		}
		state[fmt.Sprint("s", i%5)] = out
	}
	return state, nil
}

// plainActivity does what a step of a kind does.
func plainActivity(_ context.Context, kind string, state map[string]string) (string, error) {
	switch kind {
	case "command", "sleep":
		out, err := exec.Command("sh", "-c", shellScripts[kind]).Output()
		return string(out), err
	case "agent":
		return "A reply of a simulated model.", nil
	}
	raw, err := json.Marshal(state)
	return string(raw[:min(len(raw), 20)]), err
}

var shellScripts = map[string]string{"command": `echo '{"n": 1}'`, "sleep": `sleep 1; echo '{"n": 1}'`}

// measure runs the plain workflow for some runs at the same time. The events of the first run stand for those of all,
// which do the same.
func (p *plain) measure(kind string, runs, steps int) (temporalCost, error) {
	begun := time.Now()
	prefix := uuid.NewString()
	id := func(i int) string { return fmt.Sprint(prefix, "-", i) }
	err := eachRun(runs, func(i int) error {
		ctx := context.Background()
		options := client.StartWorkflowOptions{ID: id(i), TaskQueue: plainQueue}
		run, err := p.client.ExecuteWorkflow(ctx, options, "plain", kind, steps)
		for n := 0; err == nil && kind == "gate" && n < steps; n++ {
			var handle client.WorkflowUpdateHandle
			handle, err = p.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
				WorkflowID: id(i), UpdateName: "approve", WaitForStage: client.WorkflowUpdateStageCompleted,
			})
			if err == nil {
				err = handle.Get(ctx, nil)
			}
		}
		if err != nil {
			return err
		}
		return run.Get(ctx, nil)
	})
	took := time.Since(begun)
	if err != nil {
		return temporalCost{}, err
	}
	events, err := eventsOf(p.client, id(0))
	return costOf(took, events*runs, runs, steps), err
}

// ours is a project whose runs Temporal drives.
type ours struct {
	queue   string
	runtime *registry.Runtime
	client  client.Client
}

// newOurs opens a new project that uses the same server. Its worker is in this process, as the one of the plain
// workflow is.
func newOurs(address, dir string) (o *ours, err error) {
	o = &ours{}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if o.client, err = client.Dial(client.Options{HostPort: address, Logger: quietLog{}}); err != nil {
		return nil, err
	}
	o.runtime, err = registry.OpenRuntime(filepath.Join(dir, ".espalier"), registry.RuntimeOptions{
		Getenv: func(name string) string {
			if name == registry.TemporalVariable {
				return address
			}
			return ""
		},
	})
	if err != nil {
		return nil, err
	}
	kept, err := o.runtime.Store.Load(context.Background(), "temporal/task-queue")
	o.queue = string(kept.Data)
	return o, err
}

func (o *ours) close() error {
	o.client.Close()
	return shut(o.runtime)
}

// flowOf returns a workflow with steps of one kind.
func flowOf(kind string, steps int) string {
	var b strings.Builder
	b.WriteString("---\nname: flow\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: flow\n" +
		"input: {schema: {type: object}}\n---\n" +
		"```agent\nid: writer\nrole: Writer\ngoal: Write\nmax_tokens: 500\n```\n")
	for i := range steps {
		fmt.Fprintf(&b, "```step\nid: t%d\ndescription: Step %d\n", i, i)
		switch kind {
		case "transform":
			fmt.Fprintf(&b, "type: transform\nreads: [input]\nwrites: [state.s%d]\n", i%5)
		case "agent":
			fmt.Fprintf(&b, "type: skill\nagent: writer\nwrites: [state.s%d]\n", i%5)
		case "gate":
			b.WriteString("type: gate\ngate_method: human_review\n")
		default:
			fmt.Fprintf(&b, "type: transform\nwrites: [state.s%d]\n", i%5)
			fmt.Fprintf(&b, "code: {language: sh, script: %q}\n", shellScripts[kind])
		}
		b.WriteString("```\n")
	}
	return b.String()
}

// workOf returns a workflow with steps of one kind, and its input. Loops and fan-outs are those of the other
// benchmarks, with their own step kind replaced by one that ships, which a worker of Temporal knows.
func workOf(kind string, steps int) (def *engine.Definition, input json.RawMessage, err error) {
	input = nothing
	switch kind {
	case "loop":
		def = loopOf(steps)
	case "fan-out":
		if def, err = fanOut(); err != nil {
			return nil, nil, err
		}
		input = json.RawMessage(`{"items": [0` + strings.Repeat(", 0", steps-1) + `]}`)
	default:
		def, err = compileFlow(flowOf(kind, steps))
		return def, input, err
	}
	transform := ir.Task{Kind: "transform"}
	transform.Settings.Put("mode", "text", source.Span{})
	transform.Settings.Put("text", "done", source.Span{})
	for _, block := range def.Program.Blocks {
		for i := range block.Steps {
			if _, ok := block.Steps[i].Action.(ir.Task); ok {
				block.Steps[i].Action = transform
			}
		}
	}
	return def, input, nil
}

// measure drives runs of a kind to their ends, and approves their gates. Wait returns when the run is at rest in the
// journal; the workflow on the server can end a little later, so its end is waited for before its events are counted.
func (o *ours) measure(kind string, runs, steps int) (temporalCost, error) {
	def, input, err := workOf(kind, steps)
	if err != nil {
		return temporalCost{}, err
	}
	options := registry.RunOptions{Simulate: kind == "agent", AllowShell: true}.Encode()
	ids := make([]journal.RunID, runs)
	begun := time.Now()
	err = eachRun(runs, func(i int) error {
		ctx := context.Background()
		ids[i] = journal.RunID(uuid.NewString())
		err := o.runtime.Engine.Start(ctx, ids[i], def, input, options, journal.Actor{User: "bench"})
		if err != nil {
			return err
		}
		for {
			entry, err := o.runtime.Engine.Wait(ctx, ids[i])
			if err != nil {
				return err
			}
			if entry.Status == journal.Finished {
				if entry.Outcome != journal.OutcomeOK {
					return fmt.Errorf("a run ended %s", entry.Outcome)
				}
				return nil
			}
			if err := o.approve(ctx, ids[i]); err != nil {
				return err
			}
		}
	})
	took := time.Since(begun)
	if err != nil {
		return temporalCost{}, err
	}
	id := o.queue + "/" + string(ids[0])
	if err := o.client.GetWorkflow(context.Background(), id, "").Get(context.Background(), nil); err != nil {
		return temporalCost{}, err
	}
	events, err := eventsOf(o.client, id)
	return costOf(took, events*runs, runs, steps), err
}

func (o *ours) approve(ctx context.Context, id journal.RunID) error {
	state, p, _, err := o.runtime.Engine.Load(ctx, id)
	if err != nil {
		return err
	}
	gates := state.OpenGates()
	if len(gates) == 0 {
		return fmt.Errorf("the run waits for something else: %+v", state.Summary())
	}
	_, digest := state.Shown(p, gates[0])
	approval := plan.GateDecision{Step: gates[0].Step, Answer: journal.AnswerApprove, Digest: digest}
	return o.runtime.Engine.Send(ctx, id, approval, "")
}

func compileFlow(text string) (*engine.Definition, error) {
	compiled := catalog.Formats().Compile(source.NewFile("flow.md", text), alone{})
	if compiled.Diagnostics.Errors() {
		return nil, fmt.Errorf("%v", compiled.Diagnostics)
	}
	return &engine.Definition{Program: compiled.Program, Path: "flow.md"}, nil
}

// alone is a project with one file.
type alone struct{}

func (alone) Read(*source.File, string) (*source.File, error) { return nil, os.ErrNotExist }
func (alone) Skill(string) (*source.File, error)              { return nil, os.ErrNotExist }

// quietLog discards what the client logs.
type quietLog struct{}

func (quietLog) Debug(string, ...any) {}
func (quietLog) Info(string, ...any)  {}
func (quietLog) Warn(string, ...any)  {}
func (quietLog) Error(string, ...any) {}
