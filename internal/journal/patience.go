package journal

import (
	"context"
	"sync"
	"time"
)

// Patience is how long calls of a Store wait while its server is unavailable. The calls with one context share it: when
// one of them has waited in vain, the others fail at once.
type Patience struct {
	// Limit replaces the patience of the Store, if it is shorter.
	Limit time.Duration

	mu  sync.Mutex
	err error
}

type patienceKey struct{}

// WithPatience returns a context for calls that wait for at most d for a server that is unavailable.
func WithPatience(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, &Patience{Limit: d})
}

// WithoutPatience returns a context for calls that wait as long as the Store does.
func WithoutPatience(ctx context.Context) context.Context {
	return context.WithValue(ctx, patienceKey{}, (*Patience)(nil))
}

// PatienceOf returns the patience of a context; nil if it is that of the Store.
func PatienceOf(ctx context.Context) *Patience {
	p, _ := ctx.Value(patienceKey{}).(*Patience)
	return p
}

// End makes later calls fail with an error.
func (p *Patience) End(err error) {
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = err
	}
}

// Err returns the error of an earlier call that has waited in vain; nil if there is none.
func (p *Patience) Err() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
