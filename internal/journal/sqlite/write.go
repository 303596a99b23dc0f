package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/journal"
)

// Append implements journal.Store. It encodes the events in the caller's
// goroutine rather than in that of the committer, which is the bottleneck.
func (s *Store) Append(b journal.Batch, done func(error)) {
	j := job{batch: b, done: done}
	err := b.Check()
	if err == nil {
		j.body, err = journal.EncodeShort(make([]byte, 0, 192*len(b.Events)), b.Events)
	}
	// A batch that is not valid goes through the queue, too, so that callbacks of one caller stay in order.
	if err != nil {
		j.write = func(*conn) error { return refuse(err) }
	}
	if !s.jobs.Put(j) {
		go done(journal.ErrClosed)
	}
}

// write makes the committer run do, and waits for the outcome.
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

// appendBatch adds a batch in the current transaction. If it returns a refusal, it has changed nothing.
func appendBatch(c *conn, b *journal.Batch, body []byte) error {
	if !mayRefuseLate(b) {
		return appendParts(c, b, body)
	}
	if _, err := c.exec("SAVEPOINT batch"); err != nil {
		return err
	}
	err := appendParts(c, b, body)
	if _, refused := err.(refusal); refused {
		if _, err := c.exec("ROLLBACK TO batch"); err != nil {
			return err
		}
		delete(c.heads, b.Run)
	} else if err != nil {
		return err
	}
	if _, err := c.exec("RELEASE batch"); err != nil {
		return err
	}
	return err
}

// mayRefuseLate reports whether a batch can be refused after a part of it has been written. Only such batches need a
// savepoint, which costs two more statements.
func mayRefuseLate(b *journal.Batch) bool {
	started, ok := b.Started()
	return ok && !hasBlob(b, started.Definition) || len(b.Taken) > 0 || len(b.Children) > 0
}

// hasBlob reports whether a batch contains a blob, or needs none.
func hasBlob(b *journal.Batch, hash string) bool {
	return hash == "" || slices.ContainsFunc(b.Blobs, func(x journal.Blob) bool { return x.Hash == hash })
}

// appendParts writes the parts of a batch: the row of a new run, the append or the change of the row, and the rest.
func appendParts(c *conn, b *journal.Batch, body []byte) (err error) {
	if started, ok := b.Started(); ok {
		if err := addRun(c, b, &started); err != nil {
			return err
		}
	}
	var at head
	if len(b.Events) > 0 {
		at, err = appendEvents(c, b, body)
	} else {
		at.n, err = touch(c, b)
	}
	if err != nil {
		return err
	}
	if len(b.Taken) > 0 || len(b.Blobs) > 0 || b.Snapshot != nil {
		if err := appendRest(c, b, at.n); err != nil {
			return err
		}
	}
	for i := range b.Children {
		if err := putChild(c, &b.Children[i]); err != nil {
			return err
		}
	}
	return nil
}

// addRun adds the row of the run that a batch starts.
func addRun(c *conn, b *journal.Batch, started *journal.RunStarted) error {
	at := int64(b.Events[0].At)
	result, err := c.exec(`INSERT OR IGNORE INTO runs
		(id, root, parent, name, format, definition, started, updated, seq, head, fence, owner,
		status, outcome, wake, waiting)
		VALUES (?, '', '', ?, ?, ?, ?, ?, 0, 0, ?, ?, 'running', '', 0, '')`,
		string(b.Run), started.Name, started.Format, started.Definition, at, at,
		int64(journal.FirstFence), string(b.Owner))
	if err != nil {
		return err
	}
	if added, err := result.RowsAffected(); err != nil {
		return err
	} else if added == 0 {
		return refusef("%w: %s", journal.ErrExists, b.Run)
	}
	n, err := result.LastInsertId()
	if err != nil {
		return err
	}
	// Cache the position: the rest of this batch, and usually the next one, follows it.
	c.found(b.Run, head{
		n: n, fence: journal.FirstFence, running: true, hash: journal.ChainStart(b.Run), hashed: true,
	})
	// The definition is among the blobs of the batch, or the store must have it already, from another run.
	if hasBlob(b, started.Definition) {
		return nil
	}
	used, err := c.changed("INSERT INTO uses (run, blob) SELECT ?, n FROM blobs WHERE hash = ?", n, started.Definition)
	if err == nil && used == 0 {
		return refusef("%w: %s", journal.ErrUnknownBlob, started.Definition)
	}
	return err
}

// head is the cached position of a run. It is valid as long as no other process
// has written.
type head struct {
	n, pos, seq, fence int64 // of the run's row, its newest append, its last event, and its claim
	row                int64 // the append that the run's row names
	running            bool
	hash               journal.ChainHash // of the append at pos
	hashed             bool              // hash is known
}

// maxHeads bounds the number of runs that the committer caches.
const maxHeads = 4096

// found caches the head of a run, until the transaction fails or the run is
// released.
func (c *conn) found(id journal.RunID, at head) {
	if len(c.heads) >= maxHeads {
		clear(c.heads)
	}
	c.heads[id] = at
}

// find returns the head of a run if the batch may follow it.
func (c *conn) find(b *journal.Batch) (at head, err error) {
	if at, known := c.heads[b.Run]; known && at.precedes(b) {
		return at, nil
	}
	// The run is not cached, or the batch does not fit what is cached: the row decides.
	r, err := findRoot(c, b.Run)
	if err != nil {
		return at, err
	}
	if !r.precedes(b) {
		return at, refuse(journal.ErrConflict)
	}
	return r.head, nil
}

// precedes reports whether a batch follows the head and has its fence.
func (h *head) precedes(b *journal.Batch) bool {
	return h.seq == int64(b.After) && h.fence == b.Fence
}

// appendEvents adds the batch's row, and updates the run's row if necessary.
func appendEvents(c *conn, b *journal.Batch, body []byte) (at head, err error) {
	if at, err = c.find(b); err != nil {
		return at, err
	}
	if !at.hashed {
		if at.hash, err = c.chainHash(b.Run, at.pos); err != nil {
			return at, err
		}
	}
	at.hash, at.hashed = at.hash.Next(body), true
	result, err := c.exec(
		"INSERT INTO appends (run, prev, seq, body, at, hash) VALUES (?, ?, ?, ?, ?, ?)", at.n, at.pos,
		int64(b.LastSeq()), body, int64(b.At()), at.hash[:],
	)
	if err != nil {
		return at, err
	}
	if at.pos, err = result.LastInsertId(); err != nil {
		return at, err
	}
	at.seq = int64(b.LastSeq())
	if b.Index != nil || b.Release || !at.running || at.pos-at.row > maxLag {
		return at, c.update(b, at, int64(b.At()))
	}
	c.found(b.Run, at)
	return at, nil
}

// touch updates a run's row for a batch without events. It adds no append.
func touch(c *conn, b *journal.Batch) (n int64, err error) {
	at, err := c.find(b)
	if err != nil || b.Index == nil && !b.Release {
		return at.n, err
	}
	row, err := c.row(1, "SELECT coalesce((SELECT at FROM appends WHERE pos = ?), 0)", at.pos)
	if err != nil {
		return 0, err
	}
	return at.n, c.update(b, at, row[0].(int64))
}

// update updates a run's row. It names indexed columns only if they change:
// SQLite rewrites an index if its column appears in an UPDATE.
func (c *conn) update(b *journal.Batch, at head, updated int64) error {
	query, args := "UPDATE runs SET seq = ?, head = ?, updated = max(updated, ?)", append(
		make([]any, 0, 8), at.seq, at.pos, updated,
	)
	if b.Index != nil {
		query += ", status = ?, outcome = ?, wake = ?, waiting = ?"
		args = append(args,
			string(b.Index.Status), string(b.Index.Outcome), int64(b.Index.Wake), b.Index.Waiting.String())
		at.running = b.Index.Status == journal.Running
	}
	// Raising the fence at a release refuses appends that the same owner sends after it.
	if b.Release {
		query += ", owner = '', fence = fence + 1"
	}
	if _, err := c.exec(query+" WHERE n = ?", append(args, at.n)...); err != nil {
		return err
	}
	if at.row = at.pos; b.Release {
		delete(c.heads, b.Run)
	} else {
		c.found(b.Run, at)
	}
	return nil
}

// appendRest removes the messages that a batch answers, and adds its blobs and its snapshot.
func appendRest(c *conn, b *journal.Batch, n int64) error {
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
		if _, err := c.exec(
			"INSERT OR REPLACE INTO snapshots (run, seq, state) VALUES (?, ?, ?)", n, int64(b.LastSeq()), b.Snapshot,
		); err != nil {
			return err
		}
	}
	return nil
}

// putBlob stores a blob, unless another run has stored it, and notes that the run uses it.
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

// filled returns a non-nil slice: the driver would store nil as NULL.
func filled(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// putChild adds or replaces the row of a child run. A row with the same id that has another root is not replaced: the
// batch is refused.
func putChild(c *conn, e *journal.Entry) error {
	put, err := c.changed(`INSERT INTO runs
		(id, root, parent, name, format, definition, started, updated, seq, head, fence, owner,
		status, outcome, wake, waiting)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, '', ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, name = excluded.name, format = excluded.format,
			definition = excluded.definition, started = excluded.started, updated = excluded.updated,
			seq = excluded.seq, status = excluded.status, outcome = excluded.outcome, wake = excluded.wake,
			waiting = excluded.waiting
		WHERE runs.root = excluded.root`,
		string(e.ID), string(e.Root), string(e.Parent), e.Name, e.Format, e.Definition, int64(e.Started),
		int64(e.Updated), int64(e.Seq),
		string(e.Status), string(e.Outcome), int64(e.Wake), e.Waiting.String())
	if err == nil && put == 0 {
		return refusef("%w: %s", journal.ErrExists, e.ID)
	}
	return err
}

// root is what writers need to know about a run.
type root struct {
	head
	owner      journal.Owner
	definition string
	status     journal.Status
}

// findRoot returns a run that has a stream of its own.
func findRoot(c *conn, id journal.RunID) (r root, err error) {
	row, err := c.row(
		8, "SELECT n, seq, head, fence, owner, definition, status, root FROM runs WHERE id = ?", string(id),
	)
	if errors.Is(err, errNoRow) {
		return r, refusef("%w: %s", journal.ErrUnknownRun, id)
	}
	if err != nil {
		return r, err
	}
	if of := row[7].(string); of != "" {
		return r, refuse(&journal.ChildError{Root: journal.RunID(of)})
	}
	r = root{
		owner: journal.Owner(row[4].(string)), definition: row[5].(string), status: journal.Status(row[6].(string)),
	}
	r.n, r.row, r.fence, r.running = row[0].(int64), row[2].(int64), row[3].(int64), r.status == journal.Running
	r.pos, r.seq, err = c.newest(r.n, r.row, row[1].(int64))
	return r, err
}

// Claim implements journal.Store.
func (s *Store) Claim(ctx context.Context, id journal.RunID, me journal.Owner) (journal.Claim, error) {
	return s.claim(ctx, id, me, false)
}

// Renew implements journal.Ownership.
func (s *Store) Renew(ctx context.Context, id journal.RunID, me journal.Owner) (journal.Claim, error) {
	return s.claim(ctx, id, me, true)
}

// claim implements Claim and Renew. Each change of the owner, and each Renew, raises the fence, so that what the
// previous owner still appends is refused.
func (s *Store) claim(ctx context.Context, id journal.RunID, me journal.Owner, renew bool) (journal.Claim, error) {
	var claim journal.Claim
	err := s.write(ctx, func(c *conn) error {
		r, err := findRoot(c, id)
		if err != nil {
			return err
		}
		if r.owner != me || renew {
			if r.owner != me && r.owner != "" && !s.dead(r.owner) {
				return refuse(&journal.OwnedError{Owner: r.owner})
			}
			r.fence++
			if _, err := c.exec(
				"UPDATE runs SET owner = ?, fence = ? WHERE n = ?", string(me), r.fence, r.n,
			); err != nil {
				return err
			}
			delete(c.heads, id)
		}
		claim = journal.Claim{Fence: r.fence, Seq: journal.Seq(r.seq), Definition: r.definition}
		return nil
	})
	if err != nil {
		return journal.Claim{}, err
	}
	return claim, nil
}

// ClaimNext implements journal.Ownership.
func (s *Store) ClaimNext(
	ctx context.Context, me journal.Owner, n int, skip func(journal.RunID) bool,
) ([]journal.RunID, error) {
	return journal.ClaimByScan(ctx, s, me, n, skip, s.dead)
}

// Enqueue implements journal.Ownership.
func (s *Store) Enqueue(ctx context.Context, id journal.RunID, m journal.Message) (journal.Owner, error) {
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
		_, err = c.exec(
			"INSERT INTO inbox (run, kind, data, at) VALUES (?, ?, ?, ?)", r.n, m.Kind, filled(m.Data), int64(m.At),
		)
		return err
	})
	return owner, err
}

// Remove implements journal.Admin.
func (s *Store) Remove(ctx context.Context, why journal.Removal, ids ...journal.RunID) error {
	for _, id := range ids {
		if err := s.write(ctx, func(c *conn) error { return removeRun(c, why, id) }); err != nil {
			return err
		}
	}
	return nil
}

// removeRun removes a root run, its children, and the blobs that only it uses. Its appends are found along their chain,
// because there is no index on their run.
func removeRun(c *conn, why journal.Removal, id journal.RunID) error {
	r, err := findRoot(c, id)
	if err != nil {
		return err
	}
	if r.status != journal.Finished && !why.Damaged {
		return refusef("%w: %s", journal.ErrUnfinished, id)
	}
	// Every removal leaves a tombstone, which has the hash of the removed chain. It needs the appends, so it comes
	// first.
	if err := addTombstone(c, id, &r, why); err != nil {
		return err
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
		) SELECT pos FROM chain)`, r.pos); err != nil {
		return err
	}
	if why.Damaged { // its chain may be broken
		if _, err := c.exec("DELETE FROM appends WHERE run = ?", r.n); err != nil {
			return err
		}
	}
	if newest[0] != nil { // an emptied row remains of it, so that its position is not used again
		if _, err := c.exec(
			"INSERT OR IGNORE INTO appends (pos, run, prev, seq, body) VALUES (?, 0, 0, 0, x'')", newest[0],
		); err != nil {
			return err
		}
	}
	// Blobs go before their uses, which say which runs need them.
	for _, query := range []string{
		"DELETE FROM blobs WHERE n IN (SELECT blob FROM uses WHERE run = ?1) " +
			"AND NOT EXISTS (SELECT 1 FROM uses WHERE blob = blobs.n AND run <> ?1)",
		"DELETE FROM uses WHERE run = ?1",
		"DELETE FROM inbox WHERE run = ?1",
		"DELETE FROM snapshots WHERE run = ?1",
		"DELETE FROM runs WHERE root = (SELECT id FROM runs WHERE n = ?1) AND root <> ''",
		"DELETE FROM runs WHERE n = ?1",
	} {
		if _, err := c.exec(query, r.n); err != nil {
			return fmt.Errorf("removing %s: %w", id, err)
		}
	}
	delete(c.heads, id)
	return nil
}
