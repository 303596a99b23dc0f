package provider

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
)

// Retried is a failed attempt that will be repeated.
type Retried struct {
	Error *Error
	Wait  time.Duration // before the next attempt
}

// Retry repeats calls that fail with a retryable error. The stream reports each failed attempt before the wait, so that
// consumers can record it; the chunks of that attempt are void. NextAttempt follows when the wait is over.
type Retry struct {
	Model Model
	Times int // maximum number of retries
	// Jitter returns a number from 0 to 1; Pause waits.
	Jitter func() float64
	Pause  func(context.Context, time.Duration) error
}

const (
	firstBackoff = time.Second
	maxBackoff   = time.Minute
	// maxRetryAfter is the longest requested wait that Retry honors; for longer ones the call fails, and RateLimitWait
	// returns the wait, so that the task can end and its run can sleep.
	maxRetryAfter = 15 * time.Minute
)

// Generate calls the model until it replies or a retry is pointless. Errors of the context are not retried.
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
			if !failed.Retryable() || attempt >= r.Times || wait > maxRetryAfter {
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
			if !yield(Chunk{NextAttempt: true}, nil) {
				return
			}
		}
	}
}

// Sleep waits, unless the context ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// RateLimitWait returns the wait that a rate limit requests, if it is longer
// than Retry waits itself; otherwise 0.
func RateLimitWait(err error) time.Duration {
	failed, ok := errors.AsType[*Error](err)
	if ok && failed.Class == ir.ClassRateLimit && failed.RetryAfter > maxRetryAfter {
		return failed.RetryAfter
	}
	return 0
}

// wait returns the wait that the provider requests, or else exponential backoff: 1 s, 2 s, 4 s, … up to a minute, of
// which jitter takes away up to a half, so that calls that failed together are not repeated together.
func (r Retry) wait(attempt int, failed *Error) time.Duration {
	if failed.RetryAfter > 0 {
		return failed.RetryAfter
	}
	d := min(firstBackoff<<min(attempt, 16), maxBackoff)
	return d - time.Duration(r.Jitter()*float64(d)/2)
}

// Limit bounds the number of concurrent calls. Models with the same Slots share
// the limit.
type Limit struct {
	Model Model
	Slots Slots
}

// Slots is a semaphore for concurrent calls.
type Slots chan struct{}

// NewSlots returns a semaphore for n calls.
func NewSlots(n int) Slots { return make(Slots, n) }

// Generate waits for a slot and holds it until the stream ends. A consumer that reads slowly holds the slot longer.
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

// Limits of a reply. The longest replies of models have about 128,000 tokens, which is half a megabyte of text.
const (
	MaxReply     = 8 << 20 // bytes of texts and tool inputs
	MaxToolCalls = 500     // in one reply
)

// Bound rejects replies above the limits, which only hostile or broken servers send.
type Bound struct{ Model Model }

// Generate calls the model and fails as soon as the reply exceeds a limit. The error is not retryable.
func (b Bound) Generate(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		size := 0
		for c, err := range b.Model.Generate(ctx, req) {
			size += len(c.Text)
			if size > MaxReply || c.Reply != nil && c.Reply.size() > MaxReply {
				yield(Chunk{}, &Error{
					Class:   ir.ClassBadRequest,
					Message: fmt.Sprintf("the reply is larger than %d MiB", MaxReply>>20), Billable: true,
				})
				return
			}
			if c.Reply != nil && c.Reply.toolCalls() > MaxToolCalls {
				yield(Chunk{}, &Error{
					Class:   ir.ClassBadRequest,
					Message: fmt.Sprintf("the reply has more than %d tool calls", MaxToolCalls), Billable: true,
				})
				return
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

func (r *Reply) size() (n int) {
	for i := range r.Blocks {
		n += len(r.Blocks[i].Text) + len(r.Blocks[i].Input)
	}
	return n
}

func (r *Reply) toolCalls() (n int) {
	for i := range r.Blocks {
		if r.Blocks[i].Type == ToolUse {
			n++
		}
	}
	return n
}

// Deadline limits the duration of a call, including the time that the consumer takes to read the stream.
type Deadline struct {
	Model Model
	After time.Duration
}

// Generate calls the model and fails with a Timeout error after d.After. An error counts as that timeout only if the
// context of the caller is not done: a cancellation stays one.
func (d Deadline) Generate(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		slow := &Error{
			Class:    ir.ClassTimeout,
			Message:  fmt.Sprintf("the model did not answer within %s", ir.Millis(d.After.Milliseconds()).Words()),
			Billable: true,
		}
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
