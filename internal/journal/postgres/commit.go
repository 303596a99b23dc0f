package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/espalier-run/espalier/internal/journal"
)

// job is a batch to append. Its err is set before or by the committer; done is called once with it.
type job struct {
	batch journal.Batch
	body  []byte
	// uploaded are the names of the objects that contain blobs of the batch, by their hashes.
	uploaded map[string]string
	err      error
	done     func(error)
}

// Append implements journal.Writer. It encodes the events in the goroutine of
// the caller, so that the committer has less to do.
func (s *Store) Append(b journal.Batch, done func(error)) {
	j := job{batch: b, done: done, err: b.Check()}
	if j.err == nil {
		j.body, j.err = journal.Encode(make([]byte, 0, 192*len(b.Events)), b.Events)
	}
	if !s.uploadFirst(j) {
		s.put(j)
	}
}

// put queues a batch for the committer. done runs in a goroutine of its own if the Store is closed: Append must not
// call it.
func (s *Store) put(j job) {
	if !s.jobs.Put(j) {
		go j.done(journal.ErrClosed)
	}
}

// maxGroup bounds how long the first append of a group waits for the last. A
// position has room for 1,023 appends of one transaction.
const maxGroup = 256

// commit is the goroutine that appends.
func (s *Store) commit() {
	defer close(s.stopped)
	s.jobs.Drain(maxGroup, s.commitGroup)
}

// commitGroup appends a group and reports the outcome of each batch.
func (s *Store) commitGroup(jobs []job) {
	err := s.appendGroup(jobs)
	if err != nil && len(jobs) > 1 && !isForAll(err) {
		// One of the batches cannot be written: find out which, and write the others.
		for i := range jobs {
			if jobs[i].err == nil {
				jobs[i].err = s.appendGroup(jobs[i : i+1])
			}
		}
	} else if err != nil {
		for i := range jobs {
			jobs[i].err = cmp.Or(jobs[i].err, err)
		}
	}
	if slices.ContainsFunc(jobs, func(j job) bool { return j.err == nil }) {
		s.changes.Broadcast()
	}
	for i := range jobs {
		jobs[i].done(jobs[i].err)
	}
}

// isForAll reports whether an error of a group does not depend on its batches.
func isForAll(err error) bool {
	return errors.Is(err, journal.ErrFenced) || errors.Is(err, journal.ErrUnavailable) ||
		errors.Is(err, journal.ErrFull) || errors.Is(err, journal.ErrReadOnly)
}

// maxAttempts is how often a group is looked up again because other processes
// have changed something in between.
const maxAttempts = 10

// appendGroup appends the batches of a group that are not refused, in one
// transaction. It sets the err of refused jobs. If it returns an error, nothing
// of the group remains.
func (s *Store) appendGroup(jobs []job) error {
	ctx := context.Background()
	token := newToken()
	begun := time.Now()
	deadline := begun.Add(s.maxWait)
	pause := 5 * time.Millisecond
	lookUp, unknown := false, false // check everything; an earlier attempt may have been committed
	refused := make([]error, len(jobs))
	// The first attempt trusts what this process knows. Later ones look everything up. There are three reasons for
	// another attempt: the group is stale; the server is unavailable or transactions collided; or the connection was
	// lost during the commit, after which each attempt first looks for the token of this group.
	for stale := 0; ; {
		g, err := s.newGroup(ctx, jobs, refused, token, lookUp, unknown)
		if err == nil && !g.committed {
			err = g.write(ctx)
			if code(err) == codeFenced && unknown {
				// No transaction of the sealed process is running any more.
				var again *group
				if again, err = s.newGroup(ctx, jobs, refused, token, true, true); err == nil {
					if g = again; !g.committed {
						err = &pgconn.PgError{Code: codeFenced}
					}
				}
			}
		}
		switch {
		case err == nil:
			for i := range jobs {
				jobs[i].err = cmp.Or(jobs[i].err, refused[i])
			}
			g.remember()
			s.noticeRecovered()
			return nil
		case code(err) == codeFenced:
			s.registerAgain(g.worker)
			return journal.ErrFenced
		case isStale(err):
			if stale++; stale == maxAttempts {
				return fmt.Errorf("%w: %w", journal.ErrConflict, err)
			}
			lookUp = true
		// The outcome is unknown if the statements may have reached the server and no error of the server says that it
		// has rolled back. An error before anything was sent is safe to retry.
		case isRetryable(err):
			lost := s.conn != nil && s.conn.IsClosed()
			unknown = unknown || code(err) == "" && !pgconn.SafeToRetry(err) || code(err) != "" && lost
			if time.Now().After(deadline) {
				return explain(err)
			}
			s.noticeWaiting(begun, err)
			time.Sleep(pause)
			pause = min(2*pause, 500*time.Millisecond)
			lookUp = true
		default:
			return explain(err)
		}
	}
}

// connected returns the connection of the committer.
func (s *Store) connected(ctx context.Context) (*pgx.Conn, error) {
	if s.conn != nil && !s.conn.IsClosed() {
		return s.conn, nil
	}
	conn, err := pgx.ConnectConfig(ctx, s.config)
	if err != nil {
		return nil, err
	}
	s.conn = conn
	return conn, nil
}

// newToken returns a random token of a group.
func newToken() int64 {
	var b [8]byte
	rand.Read(b[:])
	return int64(binary.NativeEndian.Uint64(b[:]))
}
