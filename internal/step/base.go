package step

import (
	"context"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Named has the name of a kind, as every stepkind.Kind has.
type Named interface{ Name() string }

// Settings is a struct that the settings of a task decode into.
type Settings interface {
	// Run does one attempt. An error is an *Error, or the context's.
	Run(ctx context.Context, job *Job) (Result, error)
}

// Base implements Runner for tasks of kind K whose settings decode into S, with a rerun after a crash. A runner embeds
// it and overrides what differs.
type Base[K Named, S Settings] struct{}

// Name returns the name of the kind.
func (Base[K, S]) Name() string {
	var kind K
	return kind.Name()
}

// Recovery returns Rerun.
func (Base[K, S]) Recovery(*ir.Task, []journal.TaskNoted) Recovery { return Rerun }

// Run decodes the settings and runs them.
func (Base[K, S]) Run(ctx context.Context, job *Job) (Result, error) {
	set, err := stepkind.Decode[S](job.Task)
	if err != nil {
		return Result{}, Errorf(ir.ClassInput, "%v", err)
	}
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	return set.Run(ctx, job)
}
