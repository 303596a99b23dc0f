package provider

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
)

// Retried is an attempt that failed and is made again.
type Retried struct {
	Error *Error
	Wait  time.Duration // before the next attempt
}

// Retry asks again when a failure may pass. Each failed attempt is told in the
// stream before the wait, so that whoever listens can record it; what had come
// of the reply until then does not count.
type Retry struct {
	Model Model
	Times int // further attempts
	// Jitter is a number from 0 to 1; Pause waits.
	Jitter func() float64
	Pause  func(context.Context, time.Duration) error
}

const (
	firstWait   = time.Second
	longestWait = time.Minute
	// patience is the longest wait that Retry makes itself.
	patience = 15 * time.Minute
)

// Generate asks until there is a reply, or no hope of one.
func (r Retry) Generate(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		for attempt := 0; ; attempt++ {
			var failed *Error
			for c, err := range r.Model.Generate(ctx, req) {
				if err != nil && ctx.Err() == nil && errors.As(err, &failed) {
					break
				}
				if !yield(c, err) || err != nil {
					return
				}
			}
			if failed == nil {
				return
			}
			wait := r.wait(attempt, failed)
			if !failed.Retryable() || attempt >= r.Times || wait > patience {
				yield(Chunk{}, failed)
				return
			}
			if !yield(Chunk{Retried: &Retried{Error: failed, Wait: wait}}, nil) {
				return
			}
			if err := r.Pause(ctx, wait); err != nil {
				yield(Chunk{}, err)
				return
			}
			if !yield(Chunk{Again: true}, nil) {
				return
			}
		}
	}
}

// Busy returns how long to wait before a call can succeed that failed because
// of a rate limit, when that is longer than Retry waits itself; otherwise 0.
func Busy(err error) time.Duration {
	if failed, ok := errors.AsType[*Error](err); ok && failed.Class == RateLimit && failed.RetryAfter > patience {
		return failed.RetryAfter
	}
	return 0
}

// wait returns what the provider asks for, or else twice as long each time, less a
// part that differs, so that many callers do not come back together.
func (r Retry) wait(attempt int, failed *Error) time.Duration {
	if failed.RetryAfter > 0 {
		return failed.RetryAfter
	}
	d := min(firstWait<<min(attempt, 16), longestWait)
	return d - time.Duration(r.Jitter()*float64(d)/2)
}

// Limit lets only so many calls happen at the same time. Models that share a
// Slots share the limit.
type Limit struct {
	Model Model
	Slots Slots
}

// Slots are places for calls.
type Slots chan struct{}

// NewSlots makes n places.
func NewSlots(n int) Slots { return make(Slots, n) }

// Generate waits for a place, and holds it until the stream is over.
func (l Limit) Generate(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		select {
		case l.Slots <- struct{}{}:
		case <-ctx.Done():
			yield(Chunk{}, ctx.Err())
			return
		}
		defer func() { <-l.Slots }()
		l.Model.Generate(ctx, req)(yield)
	}
}

// Deadline gives up on a reply that takes too long.
type Deadline struct {
	Model Model
	After time.Duration
}

// Generate asks, and stops waiting when the time is up.
func (d Deadline) Generate(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		slow := &Error{Class: Timeout, Message: fmt.Sprintf("the model did not answer within %s", ir.Millis(d.After.Milliseconds()).Words()), Spent: true}
		limited, stop := context.WithTimeoutCause(ctx, d.After, slow)
		defer stop()
		for c, err := range d.Model.Generate(limited, req) {
			if err != nil && ctx.Err() == nil && context.Cause(limited) == error(slow) {
				err = slow
			}
			if !yield(c, err) {
				return
			}
		}
	}
}
