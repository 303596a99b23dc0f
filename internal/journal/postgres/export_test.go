package postgres

import (
	"context"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
)

// PollsWithin is a time in which a process that receives no notifications starts to poll.
const PollsWithin = echoTimeout + 4*pollInterval

// Join adds a living process.
func Join(t testing.TB, s *Store, o journal.Owner) {
	t.Helper()
	s.exec(t, "INSERT INTO @.workers (id, until, about) "+
		"VALUES ($1, clock_timestamp() + interval '1 hour', '{}')", string(o))
}

// Leave ends the lease of a process.
func Leave(t testing.TB, s *Store, o journal.Owner) {
	t.Helper()
	s.exec(t, "UPDATE @.workers SET until = clock_timestamp() - interval '1 second' WHERE id = $1", string(o))
}

// Tamper replaces what is stored of an append.
func Tamper(t testing.TB, s *Store, at journal.Pos, body, hash []byte) {
	t.Helper()
	s.exec(t, "UPDATE @.appends SET body = $2, hash = $3 WHERE pos = $1", int64(at), body, hash)
}

func (s *Store) exec(t testing.TB, text string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(context.Background(), s.q(text), args...); err != nil {
		t.Fatal(err)
	}
}
