package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/espalier-run/espalier/internal/journal"
)

// chainHash returns the hash of a run's chain up to an append. It computes the
// hash if an earlier release has written the append.
func (c *conn) chainHash(id journal.RunID, pos int64) (journal.ChainHash, error) {
	hash := journal.ChainStart(id)
	var unhashed []int64
	// Walk back to the newest append that has a hash, or to the first one, and hash forward from there.
	for pos != 0 {
		row, err := c.row(2, "SELECT prev, hash FROM appends WHERE pos = ?", pos)
		if errors.Is(err, errNoRow) {
			err = &journal.CorruptError{Run: id, Pos: journal.Pos(pos), Why: errors.New("it is missing")}
		}
		if err != nil {
			return hash, err
		}
		if stored, ok := journal.ParseChainHash(row[1].([]byte)); ok {
			hash = stored
			break
		}
		// The chain leads to smaller positions, so a damaged one ends.
		prev := row[0].(int64)
		if prev >= pos && prev != 0 {
			return hash, &journal.CorruptError{
				Run: id, Pos: journal.Pos(pos), Why: fmt.Errorf("append %d precedes it", prev),
			}
		}
		unhashed, pos = append(unhashed, pos), prev
	}
	for _, pos := range slices.Backward(unhashed) {
		row, err := c.row(1, "SELECT body FROM appends WHERE pos = ?", pos)
		if err != nil {
			return hash, err
		}
		hash = hash.Next(row[0].([]byte))
	}
	return hash, nil
}

// addTombstone adds the tombstone of a run.
func addTombstone(c *conn, id journal.RunID, r *root, why journal.Removal) error {
	hash, err := c.chainHash(id, r.pos)
	if why.Damaged && errors.Is(err, journal.ErrCorrupt) {
		hash, err = journal.ChainHash{}, nil
	}
	if err != nil {
		return err
	}
	name, err := c.row(1, "SELECT name FROM runs WHERE n = ?", r.n)
	if err != nil {
		return err
	}
	// Tombstones have a chain of their own: removing one shows.
	prev := journal.TombstoneStart()
	last, err := c.row(1, "SELECT hash FROM tombstones ORDER BY n DESC LIMIT 1")
	switch {
	case err == nil:
		prev, _ = journal.ParseChainHash(last[0].([]byte))
	case !errors.Is(err, errNoRow):
		return err
	}
	head := journal.ChainHead{Run: id, Seq: journal.Seq(r.seq), Hash: hash}
	body := journal.NewTombstone(name[0].(string), head, why).Encode()
	next := prev.Next(body)
	_, err = c.exec("INSERT INTO tombstones (body, hash) VALUES (?, ?)", body, next[:])
	return err
}

// linksQuery returns the appends of a page, newest first. Positions decrease from
// row to row, so that a damaged chain ends, too.
var linksQuery = `WITH RECURSIVE chain (pos, prev, seq, body, hash) AS (
		SELECT pos, prev, seq, body, hash FROM appends WHERE pos = ?1
		UNION ALL
		SELECT a.pos, a.prev, a.seq, a.body, a.hash
		FROM chain JOIN appends a ON a.pos = chain.prev AND a.pos < chain.pos
	) SELECT pos, seq, body, hash FROM chain LIMIT ` + strconv.Itoa(page)

// marks returns the last append of each page of a run, newest first.
func (s *Store) marks(ctx context.Context, id journal.RunID) ([]mark, error) {
	n, err := s.rootNumber(ctx, id)
	if err != nil {
		return nil, err
	}
	var head, seq int64
	if err := s.row(ctx, "SELECT head, seq FROM runs WHERE n = ?", n).Scan(&head, &seq); err != nil {
		return nil, s.failed(ctx, err)
	}
	if err := s.row(ctx, newestQuery, head, n).Scan(&head, &seq); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, s.failed(ctx, err)
	}
	return collect(ctx, s, (*mark).columns, marksQuery, head, -1)
}

// Links implements journal.ChainReader. It holds one page in memory.
func (s *Store) Links(ctx context.Context, id journal.RunID) iter.Seq2[journal.Link, error] {
	return func(yield func(journal.Link, error) bool) {
		marks, err := s.marks(ctx, id)
		if err != nil {
			yield(journal.Link{}, err)
			return
		}
		for _, mark := range slices.Backward(marks) {
			links, err := collect(ctx, s, func(l *journal.Link) []any {
				return []any{&l.Pos, &l.Seq, &l.Body, &l.Hash}
			}, linksQuery, mark.pos)
			if err == nil && len(links) == 0 { // the run was removed in the meantime
				err = fmt.Errorf("%w: %s", journal.ErrUnknownRun, id)
			}
			if err != nil {
				yield(journal.Link{}, err)
				return
			}
			for _, link := range slices.Backward(links) {
				if !yield(link, nil) {
					return
				}
			}
		}
	}
}

// Tombstones implements journal.ChainReader.
func (s *Store) Tombstones(ctx context.Context) iter.Seq2[journal.Link, error] {
	return func(yield func(journal.Link, error) bool) {
		after := journal.Pos(0)
		journal.Pages(page, 0, func(n int) ([]journal.Link, error) {
			links, err := collect(ctx, s, func(l *journal.Link) []any { return []any{&l.Pos, &l.Body, &l.Hash} },
				"SELECT n, body, hash FROM tombstones WHERE n > ? ORDER BY n LIMIT ?", after, n)
			if len(links) > 0 {
				after = links[len(links)-1].Pos
			}
			return links, err
		})(yield)
	}
}
