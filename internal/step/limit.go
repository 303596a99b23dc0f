package step

import (
	"context"
	"errors"
	"time"
)

var errTimeUp = errors.New("the step timed out")

// Within does work for no longer than a template says, in seconds or as a
// duration; an empty one sets no limit. What is written in the workflow as it is
// the engine sees to.
func (j *Job) Within(ctx context.Context, template string, work func(context.Context) (Result, error)) (Result, error) {
	if template == "" {
		return work(ctx)
	}
	limit, err := j.limit(template)
	if err != nil {
		return Result{}, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, limit, errTimeUp)
	defer stop()
	result, err := work(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errTimeUp) {
		err = Errorf(ClassTimeout, "%v", errTimeUp)
	}
	return result, err
}

func (j *Job) limit(template string) (time.Duration, error) {
	text, err := j.Fill(template, j.Values())
	if err != nil {
		return 0, err
	}
	limit, err := j.Step.ParseTimeout(text)
	if err != nil {
		return 0, Errorf(ClassInput, "%v", err)
	}
	return limit.Duration(), nil
}
