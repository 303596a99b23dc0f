package sqlite

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/queue"
)

// job is something to write: a batch, or another change.
type job struct {
	batch journal.Batch
	body  []byte
	// write makes a change that is not the append of a batch.
	write func(*conn) error
	err   error
	done  func(error)
}

// refusal is the error of one job that has changed nothing. The other jobs of its
// group are not affected.
type refusal struct{ error }

// refuse marks an error as a refusal.
func refuse(err error) error { return refusal{err} }

// refusef returns a refusal with a formatted message.
func refusef(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// maxGroup bounds a group, so that neither another process nor the first job of
// the group waits long for its end.
const maxGroup = 256

// commit is the only goroutine that writes. What is queued while it writes one
// group is its next group: one transaction and one sync for many appends.
func (s *Store) commit() {
	defer close(s.stopped)
	defer s.callbacks.close()
	s.jobs.Drain(maxGroup, s.commitGroup)
}

// commitGroup writes a group and reports its outcome. Changed is signaled before the callbacks, which may take long.
func (s *Store) commitGroup(group []job) {
	s.turn.yield()
	err := s.transact(group)
	s.turn.wrote = time.Now()
	if err != nil && len(group) > 1 && !isBusy(err) {
		// One job cannot be written: write each one separately.
		for i := range group {
			if err := s.transact(group[i : i+1]); err != nil {
				group[i].err = err
			}
		}
	} else if err != nil {
		for i := range group {
			group[i].err = err
		}
	}
	if slices.ContainsFunc(group, succeeded) {
		s.changes.Broadcast()
	}
	s.callbacks.dispatch(group)
}

// succeeded reports whether a job has been written.
func succeeded(j job) bool { return j.err == nil }

// transact writes a group in one transaction. It sets the err of jobs that are
// refused. A returned error applies to the whole group, which is rolled back.
func (s *Store) transact(group []job) error {
	if s.broken != nil {
		return s.broken
	}
	if err := s.beginImmediate(); err != nil {
		return s.explain(err)
	}
	// The transaction holds the write lock, so what is cached stays valid until the commit if it is valid now.
	s.writer.recheck()
	for i := range group {
		j := &group[i]
		if j.write != nil {
			j.err = j.write(s.writer)
		} else {
			j.err = appendBatch(s.writer, &j.batch, j.body)
		}
		if _, refused := j.err.(refusal); j.err != nil && !refused {
			s.writer.rollback()
			return s.explain(j.err)
		}
	}
	if _, err := s.writer.exec("COMMIT"); err != nil {
		s.writer.rollback()
		if isSyncFailure(err) {
			// What the disk has stored is unknown, and later commits would build
			// on it.
			s.broken = fmt.Errorf("%w: %w", journal.ErrNotKept, s.explain(err))
			return s.broken
		}
		return s.explain(err)
	}
	s.writer.seen()
	s.broken = s.Present() // a file that was removed before or during the commit does not count
	return s.broken
}

// callbackDispatcher calls the done functions of appends, in the order of the
// appends. The committer does it for small groups; for large ones another
// goroutine does it while the next group is written.
type callbackDispatcher struct {
	line    *queue.Queue[outcome]
	pending atomic.Int64 // queued callbacks that have not returned
	stopped chan struct{}
}

// outcome is a callback with its argument.
type outcome struct {
	done func(error)
	err  error
}

// dispatchedAtOnce is the size of the largest group whose callbacks the committer calls itself, which saves a switch of
// goroutines.
const dispatchedAtOnce = 4

// newCallbackDispatcher starts the goroutine that calls the queued callbacks. It ends with close.
func newCallbackDispatcher() *callbackDispatcher {
	t := &callbackDispatcher{line: queue.New[outcome](), stopped: make(chan struct{})}
	go func() {
		defer close(t.stopped)
		t.line.Drain(maxGroup, func(outcomes []outcome) {
			for _, o := range outcomes {
				o.done(o.err)
			}
			t.pending.Add(int64(-len(outcomes)))
		})
	}()
	return t
}

// dispatch calls or queues the callbacks of a group. Only the committer calls it.
func (t *callbackDispatcher) dispatch(group []job) {
	// Run inline only if no earlier callback is queued.
	if len(group) <= dispatchedAtOnce && t.pending.Load() == 0 {
		for i := range group {
			group[i].done(unwrapRefusal(group[i].err))
		}
		return
	}
	t.pending.Add(int64(len(group)))
	for i := range group {
		t.line.Put(outcome{group[i].done, unwrapRefusal(group[i].err)})
	}
}

// close returns when all queued callbacks have returned.
func (t *callbackDispatcher) close() {
	t.line.Close()
	<-t.stopped
}

// unwrapRefusal returns the error inside a refusal, and other errors as they are.
func unwrapRefusal(err error) error {
	if r, ok := err.(refusal); ok {
		return r.error
	}
	return err
}
