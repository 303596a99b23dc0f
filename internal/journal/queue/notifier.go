package queue

import "sync"

// Notifier wakes any number of goroutines at once. The zero value is ready for use.
type Notifier struct {
	mu      sync.Mutex
	waiting chan struct{} // nil while no goroutine waits; guarded by mu
}

// Wait returns a channel that the next Broadcast closes.
func (n *Notifier) Wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		n.waiting = make(chan struct{})
	}
	return n.waiting
}

// Broadcast closes every channel that Wait has returned since the last Broadcast.
func (n *Notifier) Broadcast() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting != nil {
		close(n.waiting)
		n.waiting = nil
	}
}
