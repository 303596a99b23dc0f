package queue

import (
	"slices"
	"sync"
)

// Queue is an unbounded queue of items. Create one with New.
type Queue[T any] struct {
	mu     sync.Mutex
	filled sync.Cond
	items  []T
	spare  []T
	closed bool
}

// New returns an empty queue.
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
	q.filled.Signal()
	return true
}

// Drain calls handle with all items, at most limit at a time, in order, until the queue is closed and empty. handle
// must not retain the slice, so a queue has one consumer.
func (q *Queue[T]) Drain(limit int, handle func([]T)) {
	for {
		items := q.removeAll()
		if len(items) == 0 {
			return
		}
		for group := range slices.Chunk(items, limit) {
			handle(group)
		}
	}
}

// removeAll waits for items and removes all of them. It returns none when the queue is closed and empty. The returned
// slice is valid until the next call.
func (q *Queue[T]) removeAll() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.filled.Wait()
	}
	clear(q.spare)
	taken := q.items
	q.items, q.spare = q.spare[:0], taken
	return taken
}

// Close makes Put fail. The consumer still receives the items that are left.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Signal()
}
