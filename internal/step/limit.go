package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
)

// Limit runs work for at most the given time. On timeout, the failure has class TIMEOUT and the given message.
func Limit(
	ctx context.Context, limit time.Duration, message string, work func(context.Context) (Result, error),
) (Result, error) {
	// An error of its own tells this timeout from those around it.
	timeUp := errors.New(message)
	ctx, stop := context.WithTimeoutCause(ctx, limit, timeUp)
	defer stop()
	result, err := work(ctx)
	if err != nil && errors.Is(context.Cause(ctx), timeUp) {
		err = Errorf(ir.ClassTimeout, "%s", message)
	}
	return result, err
}

// LimitByTemplate runs work with a timeout from a template: seconds or a duration. An empty template sets no timeout.
// The engine enforces timeouts that contain no template.
func (j *Job) LimitByTemplate(
	ctx context.Context, template string, work func(context.Context) (Result, error),
) (Result, error) {
	if template == "" {
		return work(ctx)
	}
	text, err := j.Fill(template, j.Values())
	if err != nil {
		return Result{}, err
	}
	limit, err := j.Step.ParseTimeout(text)
	if err != nil {
		return Result{}, Errorf(ir.ClassInput, "%v", err)
	}
	return Limit(ctx, limit.Duration(), fmt.Sprintf("step timed out after %s", limit.Duration()), work)
}
