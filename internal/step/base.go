package step

import (
	"context"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Settings is a struct that the settings of a task decode into.
type Settings interface {
	// Run does one attempt. An error is an *Error, or the context's.
	Run(ctx context.Context, job *Job) (Result, error)
}

// Base implements Runner, except for Name, for a kind whose settings decode
// into S: stepkind.Base, and a rerun after a crash. A kind embeds it and
// overrides what differs.
type Base[S Settings] struct{ stepkind.Base[S] }

// Recovery returns Rerun.
func (Base[S]) Recovery(*ir.Task, []journal.TaskNoted) Recovery { return Rerun }

// Run decodes the settings and runs them.
func (Base[S]) Run(ctx context.Context, job *Job) (Result, error) {
	set, err := stepkind.Decode[S](job.Task)
	if err != nil {
		return Result{}, Errorf(ClassInput, "%v", err)
	}
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	return set.Run(ctx, job)
}
