package postgres

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/owner"
	"github.com/espalier-run/espalier/internal/xmaps"
)

// worker is this process as other processes see it. Its methods may be called
// by several goroutines.
type worker struct {
	wakes  chan struct{} // made by the first register; has room for one value; never closed
	listen sync.Once     // starts listening at the first call of Wakes

	mu     sync.Mutex             // guards the fields below; Store.mu is locked before it
	id     journal.Owner          // the present name
	past   map[journal.Owner]bool // names under which this process was sealed
	leaves bool                   // StopDriving has been called
	info   owner.Info             // what this process says about itself

	// canDeclareDeadFrom is when this process may declare others dead: see canDeclareDead.
	canDeclareDeadFrom time.Time

	database time.Time // the database's clock when it was last read
	readAt   time.Time // when that was, on the local clock
}

// names returns the name of this process and those that it had before.
func (w *worker) names() (journal.Owner, map[journal.Owner]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id, w.past
}

// canDeclareDead reports whether this process may declare others dead. After an outage of the database, the leases of
// all processes have ended, and those that come back later than this one are alive.
func (w *worker) canDeclareDead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !time.Now().Before(w.canDeclareDeadFrom)
}

// register adds a row for this process under a new name.
func (s *Store) register(ctx context.Context) error {
	w := &s.worker
	w.mu.Lock()
	leaves, is := w.leaves, w.info
	w.mu.Unlock()
	about, err := json.Marshal(is)
	if err != nil {
		return err
	}
	id := journal.Owner(rand.Text())
	before := time.Now()
	var now time.Time
	err = s.pool.QueryRow(ctx, s.q(`INSERT INTO @.workers (id, until, driving, about)
		VALUES ($1, clock_timestamp() + $2, $3, $4) RETURNING clock_timestamp()`),
		id, s.lease, !leaves, string(about)).Scan(&now)
	if err != nil {
		return err
	}
	// What is known about runs belongs to the old name.
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.heads)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id != "" {
		// names has handed out the old map, which must not change.
		past := maps.Clone(w.past)
		xmaps.Set(&past, w.id, true)
		w.past = past
	}
	if w.wakes == nil {
		w.wakes = make(chan struct{}, 1)
	}
	w.id = id
	w.setClock(before, now)
	return nil
}

// setClock records the time of the database, which a query that started at
// before has returned. w.mu is held.
func (w *worker) setClock(before, database time.Time) {
	// The server read its clock about halfway through the round trip.
	w.database, w.readAt = database, before.Add(time.Since(before)/2)
}

// Now returns the time of the database, which all processes share. Between two
// reads it advances with the monotonic clock: setting the clock of this machine
// does not affect it.
func (s *Store) Now() time.Time {
	s.worker.mu.Lock()
	defer s.worker.mu.Unlock()
	return s.worker.database.Add(time.Since(s.worker.readAt))
}

// registerAgain registers this process under a new name after it was sealed under an old one.
func (s *Store) registerAgain(sealed journal.Owner) {
	if id, _ := s.worker.names(); id != sealed {
		return // done already
	}
	s.log.Warn("lease expired: other processes may have claimed the runs", "worker", sealed)
	if err := s.retry(s.lifetime, func() error { return s.register(s.lifetime) }); err != nil {
		s.log.Error("cannot register again", "error", err)
	}
	s.onWake()
}

// renewLease renews the lease of this process until the Store is closed. It tries four times per lease, so that one
// lost attempt does not end it.
func (s *Store) renewLease() {
	tick := time.NewTicker(s.lease / 4)
	defer tick.Stop()
	var conn *pgx.Conn // its own: reads must not delay it
	defer func() {
		if conn != nil {
			conn.Close(context.Background())
		}
	}()
	for {
		select {
		case <-s.lifetime.Done():
			return
		case <-tick.C:
		}
		id, _ := s.worker.names()
		renewed, err := s.renewLeaseOnce(&conn, id)
		switch {
		case s.lifetime.Err() != nil:
			return
		case err != nil:
			s.log.Warn("cannot renew the lease", "error", err)
			s.worker.mu.Lock()
			// If this process could not renew its lease, perhaps others could not either: give them time to do so.
			s.worker.canDeclareDeadFrom = time.Now().Add(s.lease + s.lease/2)
			s.worker.mu.Unlock()
		case !renewed:
			s.registerAgain(id)
		}
	}
}

// renewLeaseOnce renews the lease once. It reports false if this process is sealed.
func (s *Store) renewLeaseOnce(conn **pgx.Conn, id journal.Owner) (bool, error) {
	ctx, cancel := context.WithTimeout(s.lifetime, s.lease/2)
	defer cancel()
	if *conn == nil || (*conn).IsClosed() {
		fresh, err := pgx.ConnectConfig(ctx, s.config)
		if err != nil {
			return true, err
		}
		*conn = fresh
	}
	before := time.Now()
	rows, err := (*conn).Query(ctx, s.q(`UPDATE @.workers SET until = clock_timestamp() + $2
		WHERE id = $1 AND NOT sealed RETURNING clock_timestamp()`), id, s.lease)
	if err != nil {
		return true, err
	}
	now, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err != nil {
		return true, err
	}
	if len(now) == 0 {
		return false, nil
	}
	s.worker.mu.Lock()
	s.worker.setClock(before, now[0])
	s.worker.mu.Unlock()
	// Messages that were taken are kept only to recognize a repeated insert.
	_, err = (*conn).Exec(ctx, s.q("DELETE FROM @.inbox WHERE taken AND added < now() - interval '10 minutes'"))
	return true, err
}

// unregister tells other processes that this one has ended.
func (s *Store) unregister() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	id, _ := s.worker.names()
	batch := &pgx.Batch{}
	batch.Queue(s.q("UPDATE @.workers SET sealed = true WHERE id = $1"), id)
	// A row is needed as long as a run names it: it is how the run is found.
	batch.Queue(s.q(`DELETE FROM @.workers w WHERE sealed AND NOT EXISTS
		(SELECT 1 FROM @.runs WHERE owner = w.id AND root = '' AND status = 'running')`))
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		s.log.Warn("cannot unregister: the lease remains until it expires", "error", err)
	}
}

// seal makes sure that a process which has died never appends again. It reports
// false if the process is alive. A process is dead if its lease has ended, or if
// it has no row. Sealing waits for the group that the process has in flight.
func (s *Store) seal(ctx context.Context, id journal.Owner) (bool, error) {
	if id == journal.Temporal {
		return false, nil
	}
	var alive bool
	batch := &pgx.Batch{}
	if s.worker.canDeclareDead() {
		batch.Queue(s.q(`WITH gone AS (
				SELECT id FROM @.workers WHERE id = $1 AND NOT sealed AND until < clock_timestamp() FOR UPDATE
			) UPDATE @.workers w SET sealed = true FROM gone WHERE w.id = gone.id`), encodeText(id))
	}
	batch.Queue(s.q("SELECT EXISTS (SELECT 1 FROM @.workers WHERE id = $1 AND NOT sealed)"), encodeText(id)).
		QueryRow(func(row pgx.Row) error { return row.Scan(&alive) })
	err := s.pool.SendBatch(ctx, batch).Close()
	return !alive, err
}

// ID returns the name under which this process owns runs. It changes when another process has declared this one dead.
func (s *Store) ID() journal.Owner {
	id, _ := s.worker.names()
	return id
}

// Dead reports whether a process has ended. If it cannot find out, it reports
// false: a run that waits is better than one with two writers.
func (s *Store) Dead(o journal.Owner) bool {
	id, past := s.worker.names()
	if o == id || o == journal.Temporal || past[o] {
		return past[o]
	}
	_, alive, err := s.stateOf(o)
	return err == nil && !alive
}

// Drives reports whether another process is alive and has not called StopDriving.
func (s *Store) Drives(o journal.Owner) bool {
	driving, alive, err := s.stateOf(o)
	return err == nil && alive && driving
}

// stateOf reads what another process says about itself, without sealing it.
func (s *Store) stateOf(o journal.Owner) (driving, alive bool, err error) {
	ctx := journal.WithWaitLimit(s.lifetime, openWait) // callers have an answer for a server that is unavailable
	err = s.read(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, s.q(`SELECT coalesce(bool_or(driving), false), count(*) > 0 FROM @.workers
			WHERE id = $1 AND NOT sealed AND until >= clock_timestamp()`), encodeText(o)).Scan(&driving, &alive)
	})
	return driving, alive, err
}

// StopDriving announces that this process begins no more work.
func (s *Store) StopDriving() {
	s.worker.mu.Lock()
	s.worker.leaves = true
	id := s.worker.id
	s.worker.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.lifetime, s.lease)
	defer cancel()
	if _, err := s.pool.Exec(ctx, s.q("UPDATE @.workers SET driving = false WHERE id = $1"), id); err != nil {
		s.log.Warn("other processes do not know that this one stops", "error", err)
	}
}

// Publish replaces what this process says about itself.
func (s *Store) Publish(is owner.Info) error {
	s.worker.mu.Lock()
	s.worker.info = is
	id := s.worker.id
	s.worker.mu.Unlock()
	about, err := json.Marshal(is)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(s.lifetime, s.q("UPDATE @.workers SET about = $2 WHERE id = $1"), id, string(about))
	return err
}

// Workers lists the living processes.
func (s *Store) Workers(ctx context.Context) ([]owner.Worker, error) {
	var all []owner.Worker
	var w owner.Worker
	var about string
	err := s.query(ctx, []any{&w.ID, &w.Seen, &about}, func() error {
		w.Info = owner.Info{}
		if err := json.Unmarshal([]byte(about), &w.Info); err != nil {
			return err
		}
		all = append(all, w)
		return nil
	}, `SELECT id, until - $1::interval, about FROM @.workers WHERE NOT sealed AND until >= clock_timestamp()`, s.lease)
	return all, err
}

// Describe returns what a process says about itself.
func (s *Store) Describe(o journal.Owner) (owner.Info, error) {
	var info owner.Info
	var about string
	err := s.read(journal.WithWaitLimit(s.lifetime, openWait), func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, s.q("SELECT about FROM @.workers WHERE id = $1"), encodeText(o)).Scan(&about)
	})
	if err != nil {
		return info, fmt.Errorf("worker %s: %w", o, err)
	}
	return info, json.Unmarshal([]byte(about), &info)
}
