package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/espalier-run/espalier/internal/journal"
)

// Import implements journal.Admin. The appends have negative positions, which
// Tail does not come to.
func (s *Store) Import(ctx context.Context, in journal.ImportedRun) error {
	if err := in.Check(); err != nil {
		return err
	}
	unknown := false // an earlier attempt may have been committed
	return s.call(ctx, func() error {
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return s.importRun(ctx, tx, &in) })
		// The run that exists is the one that a lost attempt has imported.
		if unknown && errors.Is(err, journal.ErrExists) {
			return nil
		}
		unknown = unknown || isRetryable(err) && !pgconn.SafeToRetry(err)
		return err
	})
}

// importRun adds a run in a transaction: rows, appends, blobs and messages.
func (s *Store) importRun(ctx context.Context, tx pgx.Tx, in *journal.ImportedRun) error {
	// Lock the row of the journal: two imports must not use the same positions.
	if _, err := tx.Exec(ctx, s.q("SELECT 1 FROM @.journal FOR UPDATE")); err != nil {
		return err
	}
	var n int64
	for i := range in.Runs {
		e, fence, number := &in.Runs[i], 0, int64(0)
		if i == 0 {
			fence = journal.FirstFence
		}
		err := tx.QueryRow(ctx, s.q(`INSERT INTO @.runs
			(id, root, parent, name, format, definition, started, updated, seq, fence, owner,
			status, outcome, wake, waiting)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $14, '', $10, $11, $12, $13)
			ON CONFLICT (id) DO NOTHING RETURNING n`), append(rowOf(e), fence)...).Scan(&number)
		if errors.Is(err, pgx.ErrNoRows) {
			return refusal{fmt.Errorf("%w: %s", journal.ErrExists, e.ID)}
		}
		if err != nil {
			return err
		}
		if i == 0 {
			n = number
		}
	}
	if err := s.importAppends(ctx, tx, in, n); err != nil {
		return err
	}
	for b, err := range in.Blobs {
		if err != nil {
			return refusal{err}
		}
		if err := s.importBlob(ctx, tx, in.Runs[0].ID, n, b); err != nil {
			return err
		}
	}
	for _, m := range in.Inbox {
		if _, err := tx.Exec(ctx, s.q(`INSERT INTO @.inbox (run, token, kind, data, at) VALUES ($1, $2, $3, $4, $5)`),
			n, rand.Text(), encodeText(m.Kind), filled(m.Data), int64(m.At)); err != nil {
			return err
		}
	}
	return nil
}

// importBlob adds a blob of a run, whose number is run.
func (s *Store) importBlob(ctx context.Context, tx pgx.Tx, id journal.RunID, run int64, b journal.Blob) error {
	if name := s.upload(ctx, id, []journal.Blob{b})[b.Hash]; name != "" {
		batch := &pgx.Batch{}
		s.queueObject(batch, encodeText(b.Hash), name)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		added, err := tx.Exec(ctx, s.q("INSERT INTO @.uses (run, blob) SELECT $1, n FROM @.blobs WHERE hash = $2"),
			run, encodeText(b.Hash))
		if err == nil && added.RowsAffected() == 0 { // another process has removed it meanwhile
			err = &pgconn.PgError{Code: codeStale}
		}
		return err
	}
	// The update locks a blob that exists, so that it is not removed meanwhile.
	_, err := tx.Exec(ctx, s.q(`WITH b AS (
			INSERT INTO @.blobs AS b (hash, data) VALUES ($2, $3)
			ON CONFLICT (hash) DO UPDATE SET added = b.added RETURNING n
		) INSERT INTO @.uses (run, blob) SELECT $1::bigint, n FROM b`), run, encodeText(b.Hash), filled(b.Data))
	return err
}

// ImportTombstones implements journal.Admin.
func (s *Store) ImportTombstones(ctx context.Context, all []journal.Link) error {
	return s.call(ctx, func() error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			// Lock the row of the journal: Remove adds tombstones, too.
			if _, err := tx.Exec(ctx, s.q("SELECT 1 FROM @.journal FOR UPDATE")); err != nil {
				return err
			}
			var n int64
			if err := tx.QueryRow(ctx, s.q("SELECT count(*) FROM @.tombstones")).Scan(&n); err != nil {
				return err
			}
			if n > 0 {
				return refusal{fmt.Errorf("%w: tombstones", journal.ErrExists)}
			}
			for i, link := range all {
				if _, err := tx.Exec(ctx, s.q("INSERT INTO @.tombstones (n, body, hash) VALUES ($1, $2, $3)"),
					i+1, link.Body, link.Hash); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// room is how far below all others the positions of an imported run start. It has
// fewer appends.
const room = int64(1) << 40

// importAppends adds the appends of a run.
func (s *Store) importAppends(ctx context.Context, tx pgx.Tx, in *journal.ImportedRun, n int64) error {
	var lowest int64
	if err := tx.QueryRow(ctx, s.q("SELECT least(coalesce(min(pos), 0), 0) FROM @.appends")).Scan(&lowest); err != nil {
		return err
	}
	// Below the positions of earlier imports, and growing along the run.
	pos := lowest - room
	for a, err := range in.Appends() {
		if err != nil {
			return refusal{err}
		}
		pos++
		if _, err := tx.Exec(ctx, s.q(`INSERT INTO @.appends (run, first, last, at, pos, token, body, hash)
			VALUES ($1, $2, $3, $4, $5, 0, $6, $7)`),
			n, int64(a.First), int64(a.Seq), int64(a.At), pos, a.Body, filled(a.Hash),
		); err != nil {
			return err
		}
	}
	return nil
}
