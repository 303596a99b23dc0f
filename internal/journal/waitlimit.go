package journal

import (
	"context"
	"sync"
	"time"
)

// WaitLimit bounds how long calls of a Store wait while its server is unavailable. Calls with the same context share
// it: after one of them has waited in vain, the others fail at once.
type WaitLimit struct {
	// Limit replaces the limit of the Store, if it is shorter.
	Limit time.Duration

	mu  sync.Mutex
	err error
}

type waitLimitKey struct{}

// WithWaitLimit returns a context for calls that wait at most d for a server that is unavailable.
func WithWaitLimit(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, waitLimitKey{}, &WaitLimit{Limit: d})
}

// WithoutWaitLimit returns a context for calls that wait as long as the Store does.
func WithoutWaitLimit(ctx context.Context) context.Context {
	return context.WithValue(ctx, waitLimitKey{}, (*WaitLimit)(nil))
}

// WaitLimitOf returns the limit of a context; nil if the Store's own limit applies.
func WaitLimitOf(ctx context.Context) *WaitLimit {
	l, _ := ctx.Value(waitLimitKey{}).(*WaitLimit)
	return l
}

// Exceed makes later calls fail with an error.
func (l *WaitLimit) Exceed(err error) {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = err
	}
}

// Err returns the error of an earlier call that exceeded the limit, or nil.
func (l *WaitLimit) Err() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
