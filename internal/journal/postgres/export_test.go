package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-run/espalier/internal/journal"
)

// PollsWithin is a time in which a process that receives no notifications starts to poll.
const PollsWithin = echoTimeout + 4*pollInterval

// ClaimPage is how many rows ClaimNext looks at in one transaction.
const ClaimPage = claimPage

// DropIndexes makes queries use the other indexes.
func DropIndexes(t testing.TB, s *Store, names ...string) {
	t.Helper()
	for _, name := range names {
		s.exec(t, "DROP INDEX @."+name)
	}
}

// Join adds a living process.
func Join(t testing.TB, s *Store, o journal.Owner) {
	t.Helper()
	s.exec(t, "INSERT INTO @.workers (id, until, about) "+
		"VALUES ($1, clock_timestamp() + interval '1 hour', '{}')", string(o))
}

// Keepalives returns the settings of the server for the connection of the committer and for one of the pool.
func Keepalives(t testing.TB, s *Store) (settings []string) {
	t.Helper()
	const query = `SELECT current_setting('tcp_keepalives_idle') || ' ' || current_setting('tcp_keepalives_interval')
		|| ' ' || current_setting('tcp_keepalives_count') || ' ' || current_setting('tcp_user_timeout')`
	for _, row := range []pgx.Row{s.conn.QueryRow(t.Context(), query), s.pool.QueryRow(t.Context(), query)} {
		var one string
		if err := row.Scan(&one); err != nil {
			t.Fatal(err)
		}
		settings = append(settings, one)
	}
	return settings
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

// Plans returns how often the connection of the committer has executed statements, and how often the server has planned
// one of them anew. No append is in flight.
func Plans(t testing.TB, s *Store) (executions, anew int) {
	t.Helper()
	if err := s.conn.QueryRow(t.Context(), `SELECT sum(generic_plans + custom_plans)::int, sum(custom_plans)::int
		FROM pg_prepared_statements WHERE statement !~ 'pg_prepared'`).Scan(&executions, &anew); err != nil {
		t.Fatal(err)
	}
	return executions, anew
}

// Age makes what was uploaded and is not used older than an upload takes.
func Age(t testing.TB, s *Store) {
	t.Helper()
	s.exec(t, "UPDATE @.garbage SET added = added - 2 * $1::interval", orphanAge)
	s.exec(t, "UPDATE @.blobs SET added = added - 2 * $1::interval", orphanAge)
}

// RuntimeParams returns the parameters that the driver sends to the server of a URL.
func RuntimeParams(t testing.TB, url string) map[string]string {
	t.Helper()
	config, _, err := parse(url, &Options{})
	if err != nil {
		t.Fatal(err)
	}
	return config.ConnConfig.RuntimeParams
}
