package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-run/espalier/internal/journal"
)

// When a network fails, connections are not closed, and a pooler without a free
// connection does not say so: a statement would wait for its result without end.
const (
	unanswered  = 5 * time.Second // how long a statement takes before the server is asked whether it is there
	pingTimeout = 2 * time.Second
)

// read runs a statement that changes nothing.
func (s *Store) read(ctx context.Context, do func(context.Context) error) error {
	wait := unanswered
	if p := journal.WaitLimitOf(ctx); p != nil {
		wait = min(wait, max(p.Limit, 100*time.Millisecond))
	}
	return s.call(ctx, func() error { return s.callWithPing(ctx, wait, do) })
}

// callWithPing runs a statement that may be repeated. If the server does not answer
// any more, the statement counts as one whose connection is lost.
func (s *Store) callWithPing(ctx context.Context, wait time.Duration, do func(context.Context) error) error {
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(wait, func() {
		for watched.Err() == nil {
			if err := s.ping(); err != nil {
				cancel(err)
				return
			}
			select {
			case <-watched.Done():
			case <-time.After(wait):
			}
		}
	}).Stop()
	err := do(watched)
	if lost := context.Cause(watched); err != nil && lost != nil && ctx.Err() == nil {
		return lost
	}
	return err
}

// pings are the questions of several goroutines whether the server is there.
type pings struct {
	mu  sync.Mutex // guards at and err; held during a ping, so that the others wait for its answer
	at  time.Time  // of the last answer
	err error      // that answer
}

// ping returns an error if the server does not answer on a new connection. A slow server is there, and so is one that
// refuses the connection because it has none left.
func (s *Store) ping() error {
	s.pings.mu.Lock()
	defer s.pings.mu.Unlock()
	if time.Since(s.pings.at) < pingTimeout/2 {
		return s.pings.err
	}
	ctx, cancel := context.WithTimeout(s.lifetime, pingTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, s.config)
	if err == nil {
		err = conn.Ping(ctx)
		conn.Close(ctx)
	}
	if !isRetryable(err) || code(err) == codeTooMany {
		err = nil
	}
	if err != nil && s.pooled {
		err = fmt.Errorf("%w (through a pooler: in session mode it needs up to %d connections for each process)", err,
			s.pool.Config().MaxConns+otherConns)
	}
	s.pings.at, s.pings.err = time.Now(), err
	return err
}

// otherConns is how many connections a process has besides those that read: one that writes, one for notifications, and
// one for its lease.
const otherConns = 3

// noticeAfter is how long a call waits for the server before people learn about it.
const noticeAfter = 3 * time.Second

// noticeWaiting reports once that a call waits for the server because of an error, if it began long enough ago.
func (s *Store) noticeWaiting(begun time.Time, err error) {
	if time.Since(begun) < noticeAfter || s.waiting.Swap(true) {
		return
	}
	s.notice(fmt.Sprintf("Waiting for the database, for up to %s: %v", s.maxWait, err))
}

// noticeRecovered reports that the server answers again, if noticeWaiting has reported that it did not.
func (s *Store) noticeRecovered() {
	if s.waiting.Load() && s.waiting.Swap(false) {
		s.notice("The database answers again.")
	}
}
