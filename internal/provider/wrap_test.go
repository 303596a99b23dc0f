package provider_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/providertest"
)

// flaky fails with the errors in turn and then answers.
type flaky struct {
	errs  []error
	calls *int
}

func (f flaky) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		n := *f.calls
		*f.calls++
		if n < len(f.errs) {
			if yield(provider.Chunk{Type: provider.Text, Text: "half "}, nil) {
				yield(provider.Chunk{}, f.errs[n])
			}
			return
		}
		provider.Play(ctx, req, provider.Reply{
			Blocks: []provider.Block{{Type: provider.Text, Text: "whole"}}, Stop: provider.Done, Model: "m",
		})(yield)
	}
}

func TestRetryRepeatsOnlyTransientFailures(t *testing.T) {
	limited := &provider.Error{
		Class: ir.ClassRateLimit, Status: 429, RetryAfter: 7 * time.Second, Message: "slow down",
	}
	broken := &provider.Error{Class: ir.ClassAPI, Status: 500, Message: "broken"}
	refused := &provider.Error{Class: ir.ClassBadRequest, Status: 400, Message: "no"}
	quota := &provider.Error{Class: ir.ClassNoQuota, Status: 429, Message: "used up"}
	late := &provider.Error{Class: ir.ClassRateLimit, Status: 429, RetryAfter: time.Hour, Message: "tomorrow"}
	for name, c := range map[string]struct {
		errs  []error
		waits []time.Duration
		err   error
	}{
		"at once":    {},
		"as it asks": {errs: []error{limited}, waits: []time.Duration{7 * time.Second}},
		"longer each time": {errs: []error{broken, broken, broken}, waits: []time.Duration{
			750 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second,
		}},
		"in the end not": {
			errs:  []error{broken, broken, broken, limited},
			waits: []time.Duration{750 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second}, err: limited,
		},
		"never":             {errs: []error{refused}, err: refused},
		"never for quota":   {errs: []error{quota}, err: quota},
		"not for that long": {errs: []error{late}, err: late},
		"not ours":          {errs: []error{errors.ErrUnsupported}, err: errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			var waits []time.Duration
			calls := 0
			m := provider.Retry{
				Model: flaky{c.errs, &calls}, Times: 3, Jitter: func() float64 { return 0.5 },
				Pause: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil },
			}
			announced := 0
			stream := func(yield func(provider.Chunk, error) bool) {
				for c, err := range m.Generate(t.Context(), providertest.AskText()) {
					if c.Retried != nil {
						if announced != len(waits) {
							t.Error("it waits before it announces the attempt")
						}
						announced++
					}
					if !yield(c, err) {
						return
					}
				}
			}
			r, err := providertest.Collect(t, stream)
			if !errors.Is(err, c.err) || err == nil && r.Text() != "whole" ||
				!slices.Equal(waits, c.waits) || announced != len(waits) {
				t.Errorf("%v, %v, %d announced, %v", r, err, announced, waits)
			}
		})
	}
}

func TestRetryStopsWhenCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	m := provider.Retry{
		Model: flaky{[]error{&provider.Error{Class: ir.ClassAPI}}, &calls},
		Times: 3, Jitter: func() float64 { return 0 },
		Pause: func(ctx context.Context, _ time.Duration) error { cancel(); return ctx.Err() },
	}
	if _, err := providertest.Collect(t, m.Generate(ctx, providertest.AskText())); !errors.Is(err,
		context.Canceled) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// blocking answers when it is released.
type blocking struct{ begun, let chan struct{} }

func (b blocking) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		b.begun <- struct{}{}
		select {
		case <-b.let:
		case <-ctx.Done():
			yield(provider.Chunk{}, ctx.Err())
			return
		}
		provider.Play(ctx, req, provider.Reply{Stop: provider.Done, Model: "m"})(yield)
	}
}

func TestLimitBoundsConcurrentCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := blocking{begun: make(chan struct{}, 9), let: make(chan struct{})}
		m := provider.Limit{Model: b, Slots: provider.NewSlots(2)}
		done := make(chan error, 9)
		for range 3 {
			go func() {
				_, err := providertest.Collect(t, m.Generate(t.Context(), providertest.AskText()))
				done <- err
			}()
		}
		synctest.Wait()
		if len(b.begun) != 2 {
			t.Errorf("%d calls at once", len(b.begun))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := providertest.Collect(t, m.Generate(ctx, providertest.AskText())); !errors.Is(err,
			context.Canceled) {
			t.Errorf("waiting in vain: %v", err)
		}
		close(b.let)
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestDeadlineFailsSlowCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := blocking{begun: make(chan struct{}, 1), let: make(chan struct{})}
		_, err := providertest.Collect(t,
			provider.Deadline{Model: b, After: time.Minute}.Generate(t.Context(), providertest.AskText()))
		var failed *provider.Error
		if !errors.As(err, &failed) || failed.Class != ir.ClassTimeout || !failed.Billable {
			t.Errorf("got %v", err)
		}
	})
}

// The call fails without a retry.
func TestOversizedRepliesFail(t *testing.T) {
	piece := provider.Chunk{Type: provider.Text, Text: strings.Repeat("x", 1<<20)}
	calls := func(n int) *provider.Reply {
		return &provider.Reply{Blocks: slices.Repeat([]provider.Block{{Type: provider.ToolUse, ToolName: "Read"}}, n)}
	}
	for name, c := range map[string]struct {
		next func(i int) (provider.Chunk, bool) // false at the end
		want string
	}{
		"endless stream": {func(int) (provider.Chunk, bool) { return piece, true }, "larger than 8 MiB"},
		"large input": {func(i int) (provider.Chunk, bool) {
			input := make([]byte, 9<<20)
			return provider.Chunk{
				Reply: &provider.Reply{Blocks: []provider.Block{{Type: provider.ToolUse, Input: input}}},
			}, i == 0
		}, "larger than 8 MiB"},
		"many calls": {func(i int) (provider.Chunk, bool) {
			return provider.Chunk{Reply: calls(501)}, i == 0
		}, "more than 500 tool calls"},
		"within bounds": {func(i int) (provider.Chunk, bool) {
			if i == 7 {
				return provider.Chunk{Reply: calls(500)}, true
			}
			return piece, i < 7
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			attempts := 0
			endless := generator(func(yield func(provider.Chunk, error) bool) {
				attempts++
				for i := 0; ; i++ {
					if next, ok := c.next(i); !ok || !yield(next, nil) {
						return
					}
				}
			})
			m := provider.Retry{
				Model: provider.Bound{Model: endless}, Times: 3, Jitter: func() float64 { return 0 },
				Pause: func(context.Context, time.Duration) error { return nil },
			}
			var got error
			for _, err := range m.Generate(t.Context(), provider.Request{}) {
				got = errors.Join(got, err)
			}
			if (got == nil) != (c.want == "") || got != nil && !strings.Contains(got.Error(), c.want) {
				t.Errorf("%v, want %q", got, c.want)
			}
			if attempts != 1 {
				t.Errorf("%d attempts", attempts)
			}
		})
	}
}

type generator func(yield func(provider.Chunk, error) bool)

func (g generator) Generate(context.Context, provider.Request) iter.Seq2[provider.Chunk, error] {
	return iter.Seq2[provider.Chunk, error](g)
}
