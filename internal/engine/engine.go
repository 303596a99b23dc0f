package engine

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/secret"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Engine starts runs, drives them and reads them. It is safe for concurrent use.
type Engine interface {
	Driver
	Inspector
}

// Store is the part of a journal.Store that engines use: they read runs, append to them and own them. An engine neither
// removes nor imports runs, and does not close the store.
type Store interface {
	journal.Reader
	journal.Writer
	journal.Ownership
}

// Driver makes runs happen.
type Driver interface {
	// Start starts a run and returns when its start is durable. The engine
	// stores options with the run and passes them to the Provisioner.
	Start(
		ctx context.Context, id journal.RunID, def *Definition, input, options json.RawMessage, by journal.Actor,
	) error
	// StartFrom starts a run that continues from a step of a finished run, with
	// its definition, its options and the values that it had at that step. The
	// edits are made before the first step.
	StartFrom(ctx context.Context, id, old journal.RunID, step string, by journal.Actor, edits ...plan.Edit) error
	// Resume continues a run. It returns when the run is loaded; Wait waits
	// until it rests. If another process drives the run, Resume returns a
	// *journal.OwnedError.
	Resume(ctx context.Context, id journal.RunID) error
	// ResumeAgain is Resume, and runs tasks whose outcome is unknown again
	// without asking a person.
	ResumeAgain(ctx context.Context, id journal.RunID) error
	// Send sends a message to a run and returns when the answer is durable. A
	// refusal is a *plan.Refusal. ref identifies the message and is unique.
	// Afterwards this engine may hold the run, even if it refused the message:
	// if it Owns the run, call Wait, unless the engine is held.
	Send(ctx context.Context, id journal.RunID, in plan.Input, ref string) error
	// Wait drives a run that no other process drives until it rests: it has
	// finished, or waits for a person or an event. Wait returns a run that
	// does not rest only if another process has driven it all along, or if
	// the engine is closed or held.
	Wait(ctx context.Context, id journal.RunID) (journal.Entry, error)
	// Listen delivers messages of other processes to runs of this engine until
	// ctx ends. An engine that runs tasks needs one listener.
	Listen(ctx context.Context)
	// Work drives every run until ctx ends, except those for which skip
	// returns true. skip is called repeatedly and concurrently; nil skips none.
	Work(ctx context.Context, skip func(journal.RunID) bool) error
	// CatchUp decides what is due in runs that no process drives, without
	// starting a task. Commands that only read call it first.
	CatchUp(ctx context.Context) error
	// Hold makes the engine record messages without starting tasks.
	Hold()
	// Owns reports whether this engine holds a run.
	Owns(id journal.RunID) bool
	// Drain waits until every run rests and then closes the engine.
	Drain()
	// Park makes the engine start no task from now on, and cancels the tasks
	// that may run again.
	Park()
	// Close parks every run and waits for the running tasks until now is closed.
	Close(now <-chan struct{})
}

// Inspector reads runs without driving them. Core implements it.
type Inspector interface {
	// Load returns the state of a run, its compiled program and its definition.
	Load(ctx context.Context, id journal.RunID) (*plan.State, *plan.Program, *Definition, error)
	// Ending returns how a finished run ended.
	Ending(ctx context.Context, entry journal.Entry) (*journal.RunFinished, error)
	// Raw returns the JSON of a value, wherever it is stored.
	Raw(v journal.Value) (json.RawMessage, error)
	// Definition returns a pinned definition by its hash.
	Definition(ctx context.Context, hash string) (*Definition, error)
	// Checkpoint returns the values that a run had when it last reached a step
	// of its body, or ErrNotReached.
	Checkpoint(ctx context.Context, id journal.RunID, step string) (plan.Checkpoint, error)
}

// Provisioner supplies tasks with what they need from outside of the engine.
type Provisioner interface {
	// Provision fills in a job's model, tools and folder, as the run's options ask.
	Provision(job *step.Job, options json.RawMessage) error
}

// Config is the part of an engine's configuration that all engines share.
type Config struct {
	Runners     map[string]step.Runner
	Kinds       stepkind.Set // of the steps, whose results simulations vary; nil varies none
	Provisioner Provisioner  // nil provisions no job
	Log         *slog.Logger // nil discards
	// CheckOutput validates a run's output against its contract; nil accepts all.
	// origin describes where a part of the output comes from, or returns "".
	CheckOutput func(p *ir.Program, output json.RawMessage, origin func(path string) string) error
	// CheckVariable validates the new value of a variable that a person edits; nil
	// accepts all.
	CheckVariable func(p *ir.Program, path string, value json.RawMessage) error
	// FillInput adds defaults to the input of a child and validates
	// it against its contract; nil does neither.
	FillInput func(p *ir.Program, input json.RawMessage) (json.RawMessage, error)
	// Secrets are masked in everything that the engine holds and stores.
	Secrets *secret.Registry
	// Machine returns the initial value of a variable that comes from the
	// machine, such as an environment variable; nil knows none.
	Machine func(from string) (string, bool)
	// Inherit copies the files of a run that a new one continues from a step to
	// the folder of the new one; nil copies none. was and now return the
	// variables of both runs at that step.
	Inherit func(p *ir.Program, step string, was, now func(path string) json.RawMessage) error
}

var (
	// ErrNotTemporal means that a run was started without Temporal, and that this engine is Temporal.
	ErrNotTemporal = errors.New("the run was started by the embedded engine, not on Temporal")
	// ErrClosed is returned by an engine that is closed.
	ErrClosed = errors.New("the engine is shutting down")
	// ErrNotReached means that a run cannot continue from a step that it has
	// never reached.
	ErrNotReached = errors.New("the run has never reached that step")
)

// UnavailableError means that the server that drives runs does not answer, or cannot be used as it is configured.
type UnavailableError struct {
	What string // for people: "the Temporal server cannot be reached"
	Help string // what to do; empty if the address, the server and the credentials are to be checked
	Err  error  // may name hosts and files
	// Temporary reports that the server may answer later.
	Temporary bool
}

func (e *UnavailableError) Error() string { return e.What + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Remote is an engine that needs a server to drive runs.
type Remote interface {
	// Ready returns an *UnavailableError if the server does not answer soon.
	Ready(ctx context.Context) error
}
