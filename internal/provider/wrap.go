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

// Retry asks again when a failure may pass. The stream reports each failed
// attempt before the wait, so that readers can record it; what had arrived of
// the reply until then does not count.
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

// Bounds of replies. The longest replies of models have about 128,000 tokens, which is half a megabyte of text.
const (
	MaxReply     = 8 << 20 // bytes of texts and of the inputs of tools
	MaxToolCalls = 500     // in one reply
)

// Bound fails a reply that is larger than any model's: servers of models can be hostile, or broken.
type Bound struct{ Model Model }

// Generate asks, and stops listening when the reply is too large. The call is not repeated.
func (b Bound) Generate(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		size := 0
		for c, err := range b.Model.Generate(ctx, req) {
			size += len(c.Text)
			if size > MaxReply || c.Reply != nil && c.Reply.size() > MaxReply {
				yield(Chunk{}, &Error{
					Class:   BadRequest,
					Message: fmt.Sprintf("the reply is larger than %d MiB", MaxReply>>20), Spent: true,
				})
				return
			}
			if c.Reply != nil && c.Reply.toolCalls() > MaxToolCalls {
				yield(Chunk{}, &Error{
					Class:   BadRequest,
					Message: fmt.Sprintf("the reply has more than %d tool calls", MaxToolCalls), Spent: true,
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

// Deadline gives up on a reply that takes too long.
type Deadline struct {
	Model Model
	After time.Duration
}

// Generate asks, and stops waiting when the time is up.
func (d Deadline) Generate(ctx context.Context, req Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		slow := &Error{
			Class:   Timeout,
			Message: fmt.Sprintf("the model did not answer within %s", ir.Millis(d.After.Milliseconds()).Words()),
			Spent:   true,
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
