package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/espalier-run/espalier/internal/journal"
)

var _ journal.Maintainer = (*Store)(nil)

// orphans are queries for rows that belong to no run, and what the rows are.
var orphans = []struct{ what, query string }{
	{"appends of no run", "SELECT count(*) FROM appends WHERE run <> 0 AND run NOT IN (SELECT n FROM runs)"},
	{"messages to no run", "SELECT count(*) FROM inbox WHERE run NOT IN (SELECT n FROM runs)"},
	{"snapshots of no run", "SELECT count(*) FROM snapshots WHERE run NOT IN (SELECT n FROM runs)"},
	{
		"child runs without their root",
		"SELECT count(*) FROM runs WHERE root <> '' AND root NOT IN (SELECT id FROM runs)",
	},
	{"values that no run uses", "SELECT count(*) FROM blobs WHERE n NOT IN (SELECT blob FROM uses)"},
	{"uses of values that are missing", "SELECT count(*) FROM uses WHERE blob NOT IN (SELECT n FROM blobs)"},
}

// Check implements journal.Maintainer.
func (s *Store) Check(ctx context.Context) ([]string, error) {
	found, err := collect(ctx, s, func(line *string) []any { return []any{line} }, "PRAGMA integrity_check(100)")
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(line string) bool { return line == "ok" })
	for _, o := range orphans {
		var n int64
		if err := s.reader.QueryRowContext(ctx, o.query).Scan(&n); err != nil {
			return nil, s.failed(ctx, err)
		}
		if n > 0 {
			found = append(found, fmt.Sprintf("%d %s", n, o.what))
		}
	}
	return found, nil
}

// Backup implements journal.Maintainer.
func (s *Store) Backup(ctx context.Context, path string) error {
	// SQLite would fill an empty file. The copy is as private as the original.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	err = s.withOwnConnection(ctx, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, "VACUUM INTO ?", path)
		return err
	})
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// Compact implements journal.Maintainer. Vacuuming writes the whole file, so it
// waits until a quarter of the file is free.
func (s *Store) Compact(ctx context.Context) (freed int64, err error) {
	err = s.withOwnConnection(ctx, func(db *sql.DB) error {
		var pages, free, size int64
		if err := db.QueryRowContext(ctx,
			"SELECT (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count), "+
				"(SELECT page_size FROM pragma_page_size)").Scan(&pages, &free, &size); err != nil {
			return err
		}
		if free == 0 || free*4 < pages {
			return nil
		}
		if _, err := db.ExecContext(ctx, "VACUUM"); err != nil {
			return err
		}
		freed = free * size
		_, err := db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
		return err
	})
	return freed, err
}

// withOwnConnection calls do with a connection of its own.
func (s *Store) withOwnConnection(ctx context.Context, do func(*sql.DB) error) error {
	db, err := sql.Open("sqlite", dsn(s.path, fmt.Sprintf("_busy_timeout=%d", s.busyTimeout.Milliseconds())))
	if err != nil {
		return s.failed(ctx, err)
	}
	db.SetMaxOpenConns(1)
	return s.failed(ctx, errors.Join(do(db), db.Close()))
}
