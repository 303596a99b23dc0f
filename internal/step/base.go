package step

import (
	"context"
	"errors"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// Settings is a struct that the settings of a task decode into.
type Settings interface {
	// Validate returns an error for settings that decode but describe no work.
	Validate() error
	// Run does one attempt. An error is an *Error, or the context's.
	Run(ctx context.Context, job *Job) (Result, error)
}

// Base implements Runner, except for Name, for a kind whose settings decode
// into S: nothing to check, the names under "agent" and "tool" as uses, no
// cost, and a rerun after a crash. A kind embeds it and overrides what differs.
type Base[S Settings] struct{}

// Understands reports settings that do not decode or do not validate.
func (Base[S]) Understands(t *ir.Task) error {
	set, err := Decode[S](t)
	return errors.Join(err, set.Validate())
}

// Check finds nothing.
func (Base[S]) Check(*ir.Program, *ir.Step, *ir.Task) diag.List { return nil }

// Uses returns the agent and the tool that the settings name.
func (Base[S]) Uses(t *ir.Task) Uses { return Uses{Agents: Named(t, "agent"), Tools: Named(t, "tool")} }

// Bound returns no cost.
func (Base[S]) Bound(*ir.Program, *ir.Step, *ir.Task) Bound { return Bound{} }

// Recovery returns Rerun.
func (Base[S]) Recovery(*ir.Task, []journal.TaskNoted) Recovery { return Rerun }

// Run decodes the settings and runs them.
func (Base[S]) Run(ctx context.Context, job *Job) (Result, error) {
	set, err := Decode[S](job.Task)
	if err != nil {
		return Result{}, Errorf(ClassInput, "%v", err)
	}
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	return set.Run(ctx, job)
}

// Require returns an error that says what is missing when a setting is empty.
func Require(value, missing string) error {
	if value == "" {
		return errors.New(missing)
	}
	return nil
}
