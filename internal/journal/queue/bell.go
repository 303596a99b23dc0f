package queue

import "sync"

// Bell tells everybody who listens that something has happened.
type Bell struct {
	mu      sync.Mutex
	waiting chan struct{}
}

// Next gives a channel that the next Ring closes.
func (b *Bell) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = make(chan struct{})
	}
	return b.waiting
}

// Ring wakes all that hold a channel of Next.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting != nil {
		close(b.waiting)
		b.waiting = nil
	}
}
