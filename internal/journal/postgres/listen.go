package postgres

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-run/espalier/internal/journal"
)

// channel returns the name of the journal's notification channel.
func (s *Store) channel() string {
	sum := sha256.Sum256([]byte(s.name))
	return "espalier_" + hex.EncodeToString(sum[:8])
}

// Wake wakes a process; the empty owner stands for all of them. Commit first
// what the process is to find.
func (s *Store) Wake(o journal.Owner) {
	if id, _ := s.worker.names(); o == id {
		s.onWake()
		return
	}
	ctx, cancel := context.WithTimeout(s.lifetime, s.lease)
	defer cancel()
	if _, err := s.pool.Exec(ctx, "SELECT pg_notify($1, $2)", s.channel(), string(o)); err != nil {
		s.log.Warn("wake-up not sent", "error", err) // the process polls
	}
}

// Wakes returns a channel that is sent to when another process wakes this one.
func (s *Store) Wakes() <-chan struct{} {
	s.worker.listen.Do(func() { s.routines.Go(s.listen) })
	return s.worker.wakes
}

// onWake sends to wakes, unless a wake-up is waiting there.
func (s *Store) onWake() {
	select {
	case s.worker.wakes <- struct{}{}:
	default:
	}
}

// How long to wait for a notification to oneself, and how often a process looks
// that receives none.
const (
	echoTimeout  = 2 * time.Second
	pollInterval = 250 * time.Millisecond
)

// listen receives notifications until the Store is closed. Through a pooler
// that shares server connections between transactions none arrive; the process
// polls then.
func (s *Store) listen() {
	for s.lifetime.Err() == nil {
		err := s.listenOnce()
		if s.lifetime.Err() == nil {
			s.log.Debug("no notifications; polling", "error", err)
		}
		s.pollFor(5 * time.Second)
	}
}

// listenOnce receives notifications on a connection of its own, until the connection is lost or none arrive.
func (s *Store) listenOnce() error {
	conn, err := pgx.ConnectConfig(s.lifetime, s.config)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	limited, stop := context.WithTimeout(s.lifetime, connectTimeout) // a pooler may have no free connection
	defer stop()
	if _, err := conn.Exec(limited, "LISTEN "+s.channel()); err != nil {
		return err
	}
	// A pooler may accept LISTEN and deliver nothing. So this process sends a notification to itself; if it does not
	// arrive in time, WaitForNotification fails, and the process polls.
	echo := "echo " + rand.Text()
	if _, err := s.pool.Exec(s.lifetime, "SELECT pg_notify($1, $2)", s.channel(), echo); err != nil {
		return err
	}
	s.onWake() // for what came before
	ctx, cancel := context.WithTimeout(s.lifetime, echoTimeout)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Payload == echo {
			ctx = s.lifetime
			continue
		}
		if id, _ := s.worker.names(); n.Payload == "" || n.Payload == string(id) {
			s.onWake()
		}
	}
}

// pollFor wakes this process regularly for a while.
func (s *Store) pollFor(d time.Duration) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		select {
		case <-s.lifetime.Done():
			return
		case <-tick.C:
			s.onWake()
		}
	}
}
