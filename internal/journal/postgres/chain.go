package postgres

import (
	"context"
	"errors"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-run/espalier/internal/journal"
)

// querier runs queries in a transaction or outside of one.
type querier interface {
	Query(ctx context.Context, text string, args ...any) (pgx.Rows, error)
}

// chainHash computes the hash of a run's chain from its first append on.
func (s *Store) chainHash(ctx context.Context, q querier, n int64, id journal.RunID) (journal.ChainHash, error) {
	hash := journal.ChainStart(id)
	rows, err := q.Query(ctx, s.q("SELECT body FROM @.appends WHERE run = $1 ORDER BY first"), n)
	if err != nil {
		return hash, err
	}
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&body}, func() error {
		hash = hash.Next(body)
		return nil
	})
	return hash, err
}

// computeHashes computes the hashes that are not stored because an earlier
// release has written the last appends.
func (g *group) computeHashes(ctx context.Context, conn *pgx.Conn) error {
	for id, h := range g.heads {
		if h == nil || h.root != "" || h.hashed {
			continue
		}
		var err error
		if h.hash, err = g.s.chainHash(ctx, conn, h.n, id); err != nil {
			return err
		}
		h.hashed = true
	}
	return nil
}

// addTombstone adds the tombstone of a run. The caller has locked the row of
// the journal.
func (s *Store) addTombstone(
	ctx context.Context, tx pgx.Tx, n int64, id journal.RunID, name string, why journal.Removal,
) error {
	head := journal.ChainHead{Run: id}
	var stored []byte
	err := tx.QueryRow(ctx, s.q("SELECT last, hash FROM @.appends WHERE run = $1 ORDER BY first DESC LIMIT 1"), n).
		Scan(&head.Seq, &stored)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	var ok bool
	if head.Hash, ok = journal.ParseChainHash(stored); !ok {
		head.Hash, err = s.chainHash(ctx, tx, n, id)
		if why.Damaged && errors.Is(err, journal.ErrCorrupt) {
			head.Hash, err = journal.ChainHash{}, nil
		}
		if err != nil {
			return err
		}
	}
	// The chain of tombstones goes on from the last one. The lock on the row of the journal keeps others from adding
	// one meanwhile.
	last, prev := int64(0), journal.TombstoneStart()
	switch err := tx.QueryRow(ctx, s.q("SELECT n, hash FROM @.tombstones ORDER BY n DESC LIMIT 1")).
		Scan(&last, &stored); {
	case err == nil:
		prev, _ = journal.ParseChainHash(stored)
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	body := journal.NewTombstone(name, head, why).Encode()
	next := prev.Next(body)
	_, err = tx.Exec(ctx, s.q("INSERT INTO @.tombstones (n, body, hash) VALUES ($1, $2, $3)"), last+1, body, next[:])
	return err
}

// Links implements journal.ChainReader.
func (s *Store) Links(ctx context.Context, id journal.RunID) iter.Seq2[journal.Link, error] {
	return func(yield func(journal.Link, error) bool) {
		n, err := s.rootNumber(ctx, id)
		if err != nil {
			yield(journal.Link{}, err)
			return
		}
		s.links(ctx, yield, `SELECT pos, last, body, hash, last FROM @.appends
			WHERE run = $1 AND last > $2 ORDER BY first LIMIT $3`, n)
	}
}

// Tombstones implements journal.ChainReader.
func (s *Store) Tombstones(ctx context.Context) iter.Seq2[journal.Link, error] {
	return func(yield func(journal.Link, error) bool) {
		s.links(ctx, yield, `SELECT n, 0::bigint, body, hash, n FROM @.tombstones
			WHERE $1::bigint = 0 AND n > $2 ORDER BY n LIMIT $3`, 0)
	}
}

// links reads the pages of a chain. The last column of the query is its second
// argument for the next page.
func (s *Store) links(ctx context.Context, yield func(journal.Link, error) bool, query string, of int64) {
	after := int64(0)
	journal.Pages(page, 0, func(n int) (links []journal.Link, err error) {
		var link journal.Link
		err = s.query(ctx, []any{&link.Pos, &link.Seq, &link.Body, &link.Hash, &after}, func() error {
			links = append(links, link)
			return nil
		}, query, of, after, n)
		return links, err
	})(yield)
}
