package embedded

import (
	"context"

	"github.com/espalier-run/espalier/internal/journal"
)

// Admit claims a run and stops before it continues. movable reports whether
// another goroutine could advance the run.
func (e *Engine) Admit(ctx context.Context, id journal.RunID) (movable func() bool, begin func(), err error) {
	r, err := e.load(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	movable = func() bool {
		free := r.mu.TryLock()
		if free {
			r.mu.Unlock()
		}
		return free
	}
	begin = func() {
		r.continueLoaded(nil)
		r.mu.Unlock()
	}
	return movable, begin, e.admit(r)
}
