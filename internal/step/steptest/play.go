package steptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
)

// Play is a task to run, and its expected outcome.
type Play struct {
	Name     string
	Settings Settings
	Replies  []Reply // of the model, by turn
	Tools    map[string]Tool
	// With changes the job before it runs.
	With func(*step.Job)
	// Value is the expected result, as JSON; Class is the expected failure, if any.
	Value string
	Class ir.Class
	// Notes are the kinds of its notes, in order, if they matter.
	Notes []string
	// Repeats allows an interrupted task to do everything again, because a person decided so.
	Repeats bool
}

// Job builds the job of a play.
func (p Play) Job(kind string, dir string, log *Log, world *World) *step.Job {
	s, task := Case{Settings: p.Settings}.Task(kind)
	program := Program()
	program.Tools.AllowAll = true
	job := &step.Job{
		Run: "r1", Key: "work#0", Workflow: program, Step: s, Task: task,
		Reads:   []step.Read{{Path: "state.a", Value: json.RawMessage(`"what a says"`)}},
		History: log.Notes,
		Host: step.Host{
			Dir: dir, Model: world, Tools: world, Log: log, MayRunCommands: true, Machine: step.LocalMachine{},
		},
	}
	if p.With != nil {
		p.With(job)
	}
	return job
}

// fresh returns a new world.
func (p Play) fresh() *World {
	return &World{Replies: p.Replies, Tools: p.Tools}
}

// Done runs a play once, from the notes in log.
func (p Play) Done(t *testing.T, k step.Runner, log *Log, world *World) (step.Result, error) {
	t.Helper()
	job := p.Job(k.Name(), t.TempDir(), log, world)
	result, err := k.Run(t.Context(), job)
	if !errors.Is(err, ErrStopped) {
		log.Finish(result)
	}
	return result, err
}

// Runs checks that a kind keeps the contract of step.Runner.
func Runs(t *testing.T, k step.Runner, plays ...Play) {
	for _, p := range plays {
		t.Run(p.Name, func(t *testing.T) {
			log, world := &Log{}, p.fresh()
			result, err := p.Done(t, k, log, world)
			p.check(t, "undisturbed", result, err)
			if len(log.Open) > 0 {
				t.Errorf("reservations were left open: %v", log.Open)
			}
			if p.Notes != nil && !slices.Equal(log.Kinds(), p.Notes) {
				t.Errorf("notes: %v, want %v", log.Kinds(), p.Notes)
			}
			if t.Failed() {
				return
			}
			t.Run("from every note", func(t *testing.T) { p.fromEveryNote(t, k, log, world) })
			t.Run("stopped at every write", func(t *testing.T) { p.stopped(t, k, log, world) })
			t.Run("cancelled", func(t *testing.T) { p.canceled(t, k) })
			t.Run("in another process", func(t *testing.T) { p.elsewhere(t, k, log) })
		})
	}
}

func (p Play) check(t *testing.T, when string, r step.Result, err error) {
	t.Helper()
	var failure *step.Error
	switch {
	case err != nil && strings.Contains(err.Error(), `setting "`): // as stepkind.Decode reports it
		t.Errorf("%s: the settings of the play do not fit the kind: %v", when, err)
	case p.Class != "" && (!errors.As(err, &failure) || failure.Class != p.Class):
		t.Errorf("%s: got %v, %s; want a failure of class %s", when, err, r.Value, p.Class)
	case p.Class == "" && err != nil:
		t.Errorf("%s: %v", when, err)
	case p.Class == "" && !sameJSON(string(r.Value), p.Value):
		t.Errorf("%s: got %s, want %s", when, r.Value, p.Value)
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return a == b
	}
	return string(step.JSON(x)) == string(step.JSON(y))
}

// fromEveryNote continues the task from each of its notes. The result must be the same, and no answered request
// may be repeated.
func (p Play) fromEveryNote(t *testing.T, k step.Runner, whole *Log, first *World) {
	for n := range len(whole.Notes) + 1 {
		log, world := &Log{Notes: slices.Clone(whole.Notes[:n])}, p.fresh()
		before := reopened(log)
		result, err := p.Done(t, k, log, world)
		p.check(t, fmt.Sprintf("after note %d", n), result, err)
		if p.Repeats {
			continue
		}
		replies, results := count(before, journal.NoteReply, journal.NoteModelError),
			count(before, journal.NoteToolResult)
		if want := len(first.Requests) - replies; len(world.Requests) != want {
			t.Errorf("after note %d: %d model calls, want %d", n, len(world.Requests), want)
		}
		if all := count(whole.Notes, journal.NoteToolResult); len(world.keys()) > all-results {
			t.Errorf("after note %d: tools were called again: %v", n, world.keys())
		}
		for _, key := range world.keys() {
			if first.Calls[key] == 0 {
				t.Errorf("after note %d: a call has another key: %s", n, key)
			}
		}
		if !slices.Equal(log.Kinds(), whole.Kinds()) {
			t.Errorf("after note %d: notes %v, want %v", n, log.Kinds(), whole.Kinds())
		}
	}
}

// Resumed returns the log of a task that continues from notes of an earlier execution.
func Resumed(notes []journal.TaskNoted) *Log {
	log := &Log{Notes: notes}
	reopened(log)
	return log
}

// reopened returns the notes of an earlier execution such that they settle no reservation of this one.
func reopened(log *Log) []journal.TaskNoted {
	for _, n := range log.Notes {
		log.calls = max(log.calls, step.Reservation(n.Settles))
	}
	return slices.Clone(log.Notes)
}

func count(notes []journal.TaskNoted, kinds ...string) int {
	n := 0
	for _, one := range notes {
		if slices.Contains(kinds, one.Kind) {
			n++
		}
	}
	return n
}

// stopped kills the task at each of its writes, and continues it. Only a request in flight may be repeated, and
// only if that is harmless or the kind asks a person.
func (p Play) stopped(t *testing.T, k step.Runner, whole *Log, first *World) {
	for at := 1; ; at++ {
		for _, after := range []bool{false, true} {
			label := fmt.Sprintf("write %d, after %t", at, after)
			log, world := &Log{StopAt: at, After: after}, p.fresh()
			_, err := p.Done(t, k, log, world)
			if !errors.Is(err, ErrStopped) {
				if at == 1 && whole.writes > 0 {
					t.Errorf("%s: it went on: %v", label, err)
				}
				return
			}
			job := p.Job(k.Name(), t.TempDir(), log, world)
			policy := k.Recovery(job.Task, log.Notes)
			log = &Log{Notes: log.Notes}
			reopened(log)
			result, err := p.Done(t, k, log, world)
			p.check(t, label, result, err)
			if p.Repeats {
				continue
			}
			for key, n := range world.Calls {
				if n > first.Calls[key] && policy == step.Rerun && !p.harmless() {
					t.Errorf("%s: %s was called %d times", label, key, n)
				}
			}
			if len(world.Requests) > len(first.Requests)+1 {
				t.Errorf("%s: %d model calls instead of %d", label, len(world.Requests), len(first.Requests))
			}
		}
	}
}

func (p Play) harmless() bool {
	for _, t := range p.Tools {
		if t.Spec.SideEffects && !t.Spec.TakesKey {
			return false
		}
	}
	return true
}

// elsewhere runs the task from the JSON of its job, as another process would, with a Host of its own.
func (p Play) elsewhere(t *testing.T, k step.Runner, whole *Log) {
	log := &Log{}
	job := p.Job(k.Name(), t.TempDir(), log, p.fresh())
	raw, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	sent := &step.Job{Host: job.Host}
	if err := json.Unmarshal(raw, sent); err != nil {
		t.Fatal(err)
	}
	result, err := k.Run(t.Context(), sent)
	log.Finish(result)
	p.check(t, "in another process", result, err)
	if !slices.Equal(log.Kinds(), whole.Kinds()) {
		t.Errorf("notes %v, want %v", log.Kinds(), whole.Kinds())
	}
}

// canceled cancels the context before the task and, if it sends requests, while it waits for a reply.
func (p Play) canceled(t *testing.T, k step.Runner) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	log, world := &Log{}, p.fresh()
	if _, err := k.Run(ctx, p.Job(k.Name(), t.TempDir(), log, world)); !errors.Is(err, why) && !failed(err) {
		t.Errorf("before it began: %v", err)
	}
	if len(world.Requests)+len(world.Calls) > 0 {
		t.Error("a cancelled task asked something of the world")
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	log, world = &Log{}, p.fresh()
	world.Hold = func(inner context.Context) error {
		cancel(why)
		<-inner.Done()
		return context.Cause(inner)
	}
	result, err := k.Run(ctx, p.Job(k.Name(), t.TempDir(), log, world))
	if len(world.Requests)+len(world.Calls) == 0 {
		return // it asks for nothing
	}
	if !errors.Is(err, why) {
		t.Errorf("while it waited: %v", err)
	}
	if result.Usage == (journal.Usage{}) {
		t.Error("a call that may have been paid for is not charged")
	}
}

// failed reports whether an error is a failure from before the cancellation.
func failed(err error) bool {
	var f *step.Error
	return errors.As(err, &f)
}

// Writes returns a function that gives the step of a job several writes, each a part of the result.
func Writes(parts ...string) func(*step.Job) {
	return func(job *step.Job) {
		for _, part := range parts {
			job.Step.Writes = append(job.Step.Writes, ir.Write{Path: "state." + part, Part: part})
		}
	}
}
