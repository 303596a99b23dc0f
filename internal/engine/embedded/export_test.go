package embedded

import (
	"context"

	"github.com/espalier-run/espalier/internal/journal"
)

// Admit claims a run and stops just before it begins. movable tells whether
// somebody else could move it by now.
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
		r.begin(nil)
		r.mu.Unlock()
	}
	return movable, begin, e.admit(r)
}
