package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/journal"
)

// Append implements journal.Store. It encodes the events here, where many
// goroutines can do it at once, and not in the one that commits.
func (s *Store) Append(b journal.Batch, done func(error)) {
	j := job{batch: b, done: done}
	err := b.Check()
	if err == nil {
		j.body, err = journal.Encode(nil, b.Events)
	}
	if err != nil {
		j.write = func(*conn) error { return refuse(err) }
	}
	if !s.jobs.Put(j) {
		go done(journal.ErrClosed)
	}
}

// write has the committer do something, and waits for the outcome.
func (s *Store) write(ctx context.Context, do func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	outcome := make(chan error, 1)
	if !s.jobs.Put(job{write: do, done: func(err error) { outcome <- err }}) {
		return journal.ErrClosed
	}
	return <-outcome
}

// appendBatch adds a batch inside the transaction, and says where its row is.
// When it refuses, it has changed nothing.
func appendBatch(c *conn, b *journal.Batch, body []byte) (pos int64, err error) {
	// Only these can be refused after something has been written.
	if b.After > 0 && len(b.Taken) == 0 && len(b.Children) == 0 {
		return appendParts(c, b, body)
	}
	if _, err := c.exec("SAVEPOINT batch"); err != nil {
		return 0, err
	}
	pos, err = appendParts(c, b, body)
	if _, refused := err.(refusal); refused {
		if _, err := c.exec("ROLLBACK TO batch"); err != nil {
			return 0, err
		}
	} else if err != nil {
		return 0, err
	}
	if _, err := c.exec("RELEASE batch"); err != nil {
		return 0, err
	}
	return pos, err
}

func appendParts(c *conn, b *journal.Batch, body []byte) (pos int64, err error) {
	if started, ok := b.Started(); ok {
		if err := begin(c, b, &started); err != nil {
			return 0, err
		}
	}
	if len(b.Events) > 0 {
		if pos, err = appendEvents(c, b, body); err != nil {
			return 0, err
		}
	}
	if len(b.Events) == 0 || b.Release || len(b.Taken) > 0 || len(b.Blobs) > 0 || b.Snapshot != nil {
		if err := appendRest(c, b); err != nil {
			return 0, err
		}
	}
	for i := range b.Children {
		if err := putChild(c, &b.Children[i]); err != nil {
			return 0, err
		}
	}
	return pos, nil
}

func begin(c *conn, b *journal.Batch, started *journal.RunStarted) error {
	at := int64(b.Events[0].At)
	added, err := c.changed(`INSERT OR IGNORE INTO runs
		(id, root, parent, name, format, definition, started, updated, seq, head, fence, owner, status, outcome, wake, waiting)
		VALUES (?, '', '', ?, ?, ?, ?, ?, 0, 0, ?, ?, 'running', '', 0, '')`,
		string(b.Run), started.Name, started.Format, started.Definition, at, at, int64(journal.FirstFence), string(b.Owner))
	if err != nil {
		return err
	}
	if added == 0 {
		return refusef("%w: %s", journal.ErrExists, b.Run)
	}
	brought := slices.ContainsFunc(b.Blobs, func(x journal.Blob) bool { return x.Hash == started.Definition })
	if started.Definition == "" || brought {
		return nil
	}
	used, err := c.changed("INSERT INTO uses (run, blob) SELECT runs.n, blobs.n FROM runs, blobs WHERE runs.id = ? AND blobs.hash = ?",
		string(b.Run), started.Definition)
	if err == nil && used == 0 {
		return refusef("%w: %s", journal.ErrUnknownBlob, started.Definition)
	}
	return err
}

func appendEvents(c *conn, b *journal.Batch, body []byte) (pos int64, err error) {
	last := int64(b.LastSeq())
	result, err := c.exec("INSERT INTO appends (run, prev, seq, body) SELECT n, head, ?, ? FROM runs WHERE id = ? AND seq = ? AND fence = ? AND root = ''",
		last, body, string(b.Run), int64(b.After), b.Fence)
	if err != nil {
		return 0, err
	}
	if added, err := result.RowsAffected(); err != nil {
		return 0, err
	} else if added == 0 {
		return 0, whyNot(c, b)
	}
	if pos, err = result.LastInsertId(); err != nil {
		return 0, err
	}
	if b.Index == nil {
		_, err = c.exec("UPDATE runs SET seq = ?, head = ?, updated = ? WHERE id = ?", last, pos, int64(b.At()), string(b.Run))
		return pos, err
	}
	_, err = c.exec("UPDATE runs SET seq = ?, head = ?, updated = ?, status = ?, outcome = ?, wake = ?, waiting = ? WHERE id = ?",
		last, pos, int64(b.At()), string(b.Index.Status), b.Index.Outcome, int64(b.Index.Wake), b.Index.Waiting, string(b.Run))
	return pos, err
}

// whyNot says why a batch found no run that it could be appended to.
func whyNot(c *conn, b *journal.Batch) error {
	if _, err := findRoot(c, b.Run); err != nil {
		return err
	}
	return refuse(journal.ErrConflict)
}

func appendRest(c *conn, b *journal.Batch) error {
	row, err := c.row(1, "SELECT n FROM runs WHERE id = ? AND seq = ? AND fence = ? AND root = ''", string(b.Run), int64(b.LastSeq()), b.Fence)
	if errors.Is(err, errNoRow) {
		return whyNot(c, b)
	}
	if err != nil {
		return err
	}
	n := row[0].(int64)
	for _, id := range b.Taken {
		if taken, err := c.changed("DELETE FROM inbox WHERE id = ? AND run = ?", int64(id), n); err != nil {
			return err
		} else if taken == 0 {
			return refuse(journal.ErrConflict)
		}
	}
	for i := range b.Blobs {
		if err := putBlob(c, n, &b.Blobs[i]); err != nil {
			return err
		}
	}
	if b.Snapshot != nil {
		if _, err := c.exec("INSERT OR REPLACE INTO snapshots (run, seq, state) VALUES (?, ?, ?)", n, int64(b.LastSeq()), b.Snapshot); err != nil {
			return err
		}
	}
	if len(b.Events) == 0 && b.Index != nil {
		if _, err := c.exec("UPDATE runs SET status = ?, outcome = ?, wake = ?, waiting = ? WHERE n = ?",
			string(b.Index.Status), b.Index.Outcome, int64(b.Index.Wake), b.Index.Waiting, n); err != nil {
			return err
		}
	}
	if b.Release {
		if _, err := c.exec("UPDATE runs SET owner = '', fence = fence + 1 WHERE n = ?", n); err != nil {
			return err
		}
	}
	return nil
}

func putBlob(c *conn, run int64, b *journal.Blob) error {
	row, err := c.row(1, "SELECT n FROM blobs WHERE hash = ?", b.Hash)
	var n int64
	switch {
	case err == nil:
		n = row[0].(int64)
	case !errors.Is(err, errNoRow):
		return err
	default:
		result, err := c.exec("INSERT INTO blobs (hash, data) VALUES (?, ?)", b.Hash, filled(b.Data))
		if err != nil {
			return err
		}
		if n, err = result.LastInsertId(); err != nil {
			return err
		}
	}
	_, err = c.exec("INSERT OR IGNORE INTO uses (run, blob) VALUES (?, ?)", run, n)
	return err
}

// filled keeps the driver from taking an empty value for NULL.
func filled(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

func putChild(c *conn, e *journal.Entry) error {
	put, err := c.changed(`INSERT INTO runs
		(id, root, parent, name, format, definition, started, updated, seq, head, fence, owner, status, outcome, wake, waiting)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, '', ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, name = excluded.name, format = excluded.format,
			definition = excluded.definition, started = excluded.started, updated = excluded.updated, seq = excluded.seq,
			status = excluded.status, outcome = excluded.outcome, wake = excluded.wake, waiting = excluded.waiting
		WHERE runs.root = excluded.root`,
		string(e.ID), string(e.Root), string(e.Parent), e.Name, e.Format, e.Definition, int64(e.Started), int64(e.Updated), int64(e.Seq),
		string(e.Status), e.Outcome, int64(e.Wake), e.Waiting)
	if err == nil && put == 0 {
		return refusef("%w: %s", journal.ErrExists, e.ID)
	}
	return err
}

// root is what writers need to know of a run.
type root struct {
	n, seq, head, fence int64
	owner               journal.Owner
	definition          string
	status              journal.Status
}

// findRoot looks a run up that has a stream of its own.
func findRoot(c *conn, id journal.RunID) (root, error) {
	row, err := c.row(8, "SELECT n, seq, head, fence, owner, definition, status, root FROM runs WHERE id = ?", string(id))
	if errors.Is(err, errNoRow) {
		return root{}, refusef("%w: %s", journal.ErrUnknownRun, id)
	}
	if err != nil {
		return root{}, err
	}
	if of := row[7].(string); of != "" {
		return root{}, refuse(&journal.ChildError{Root: journal.RunID(of)})
	}
	return root{
		n: row[0].(int64), seq: row[1].(int64), head: row[2].(int64), fence: row[3].(int64),
		owner: journal.Owner(row[4].(string)), definition: row[5].(string), status: journal.Status(row[6].(string)),
	}, nil
}

// Claim implements journal.Store.
func (s *Store) Claim(ctx context.Context, id journal.RunID, me journal.Owner, dead func(journal.Owner) bool) (journal.Claim, error) {
	var claim journal.Claim
	err := s.write(ctx, func(c *conn) error {
		r, err := findRoot(c, id)
		if err != nil {
			return err
		}
		if r.owner != me {
			if r.owner != "" && !dead(r.owner) {
				return refuse(&journal.OwnedError{Owner: r.owner})
			}
			r.fence++
			if _, err := c.exec("UPDATE runs SET owner = ?, fence = ? WHERE n = ?", string(me), r.fence, r.n); err != nil {
				return err
			}
		}
		claim = journal.Claim{Fence: r.fence, Seq: journal.Seq(r.seq), Definition: r.definition}
		return nil
	})
	if err != nil {
		return journal.Claim{}, err
	}
	return claim, nil
}

// Post implements journal.Store.
func (s *Store) Post(ctx context.Context, id journal.RunID, m journal.Message) (journal.Owner, error) {
	var owner journal.Owner
	err := s.write(ctx, func(c *conn) error {
		r, err := findRoot(c, id)
		if err != nil {
			return err
		}
		if r.status == journal.Finished {
			return refusef("%w: %s", journal.ErrFinished, id)
		}
		owner = r.owner
		_, err = c.exec("INSERT INTO inbox (run, kind, data, at) VALUES (?, ?, ?, ?)", r.n, m.Kind, filled(m.Data), int64(m.At))
		return err
	})
	return owner, err
}

// Delete implements journal.Store.
func (s *Store) Delete(ctx context.Context, ids ...journal.RunID) error {
	for _, id := range ids {
		if err := s.write(ctx, func(c *conn) error { return deleteRun(c, id) }); err != nil {
			return err
		}
	}
	return nil
}

func deleteRun(c *conn, id journal.RunID) error {
	r, err := findRoot(c, id)
	if err != nil {
		return err
	}
	if r.status != journal.Finished {
		return refusef("%w: %s", journal.ErrUnfinished, id)
	}
	newest, err := c.row(1, "SELECT max(pos) FROM appends")
	if err != nil {
		return err
	}
	if _, err := c.exec(`DELETE FROM appends WHERE pos IN (
		WITH RECURSIVE chain (pos, prev) AS (
			SELECT pos, prev FROM appends WHERE pos = ?
			UNION ALL
			SELECT a.pos, a.prev FROM chain JOIN appends a ON a.pos = chain.prev AND a.pos < chain.pos
		) SELECT pos FROM chain)`, r.head); err != nil {
		return err
	}
	if newest[0] == r.head {
		if _, err := c.exec("INSERT INTO appends (pos, run, prev, seq, body) VALUES (?, 0, 0, 0, x'')", r.head); err != nil {
			return err
		}
	}
	for _, query := range []string{
		"DELETE FROM blobs WHERE n IN (SELECT blob FROM uses WHERE run = ?1) AND NOT EXISTS (SELECT 1 FROM uses WHERE blob = blobs.n AND run <> ?1)",
		"DELETE FROM uses WHERE run = ?1",
		"DELETE FROM inbox WHERE run = ?1",
		"DELETE FROM snapshots WHERE run = ?1",
		"DELETE FROM runs WHERE root = (SELECT id FROM runs WHERE n = ?1) AND root <> ''",
		"DELETE FROM runs WHERE n = ?1",
	} {
		if _, err := c.exec(query, r.n); err != nil {
			return fmt.Errorf("deleting %s: %w", id, err)
		}
	}
	return nil
}
