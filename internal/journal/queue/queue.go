package queue

import "sync"

// Queue is a line of items. The zero Queue is not ready; use New.
type Queue[T any] struct {
	mu     sync.Mutex
	filled sync.Cond
	items  []T
	spare  []T
	closed bool
}

// New makes an empty queue.
func New[T any]() *Queue[T] {
	q := new(Queue[T])
	q.filled.L = &q.mu
	return q
}

// Put adds an item at the end. It reports false, and drops the item, when the
// queue is closed.
func (q *Queue[T]) Put(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.items = append(q.items, item)
	if len(q.items) == 1 {
		q.filled.Signal()
	}
	return true
}

// Take waits for items and takes all of them. It gives none when the queue is
// closed and empty. The slice belongs to the queue again at the next Take, so
// there is one taker.
func (q *Queue[T]) Take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.spare)
	for len(q.items) == 0 && !q.closed {
		q.filled.Wait()
	}
	taken := q.items
	q.items, q.spare = q.spare[:0], taken
	return taken
}

// Close lets the taker take what is left and then nothing.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Signal()
}
