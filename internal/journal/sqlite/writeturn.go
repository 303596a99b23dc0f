package sqlite

import (
	"time"

	"github.com/espalier-run/espalier/internal/filelock"
)

// writeTurn lets processes that wait to write in between the transactions of a
// process that writes without pause: waiting processes hold a shared lock on a
// file. Measured with one busy process, a message of another one waits at most
// 1.7 ms, and more than a second with SQLite's busy handler.
type writeTurn struct {
	file    *filelock.File
	waiting bool
	wrote   time.Time // end of the last transaction
}

const (
	retryEvery = 200 * time.Microsecond // interval of a waiting process
	yieldStep  = 100 * time.Microsecond // interval of a yielding process
	yieldSteps = 20
)

// yield lets waiting processes write before the next transaction, unless they
// have just had the time to.
func (w *writeTurn) yield() {
	if time.Since(w.wrote) > 2*retryEvery {
		return
	}
	for range yieldSteps {
		free, err := w.file.TryExclusive()
		if err != nil || free {
			// Without the lock others only wait longer.
			w.file.Unlock()
			return
		}
		time.Sleep(yieldStep)
	}
}

// wait announces that this process waits, and sleeps for a moment.
func (w *writeTurn) wait() {
	if !w.waiting {
		w.waiting = w.file.Shared() == nil
	}
	time.Sleep(retryEvery)
}

// enter ends the announcement.
func (w *writeTurn) enter() {
	if w.waiting {
		w.waiting = false
		w.file.Unlock()
	}
}
