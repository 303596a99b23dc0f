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
func (q *Queue[T]) Put(item T) bool { return q.put(item, true) }

// PutAside adds an item and wakes nobody: whoever does it takes it, or calls Wake.
func (q *Queue[T]) PutAside(item T) bool { return q.put(item, false) }

func (q *Queue[T]) put(item T, wake bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.items = append(q.items, item)
	if wake {
		q.filled.Signal()
	}
	return true
}

// Wake wakes the one who waits, if there is something to take.
func (q *Queue[T]) Wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) > 0 {
		q.filled.Signal()
	}
}

// Wait waits for items; false when the queue is closed and empty.
func (q *Queue[T]) Wait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.filled.Wait()
	}
	return len(q.items) > 0
}

// Take waits for items and takes all of them. It gives none when the queue is
// closed and empty. The slice belongs to the queue again at the next Take or
// TakeNow, so there is one taker at a time.
func (q *Queue[T]) Take() []T {
	q.Wait()
	return q.TakeNow()
}

// TakeNow takes all items that are there.
func (q *Queue[T]) TakeNow() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.spare)
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
