package sqlite

import (
	"context"

	"github.com/espalier-run/espalier/internal/journal"
)

// Import implements journal.Admin. The appends have negative positions, which
// Tail does not come to.
func (s *Store) Import(ctx context.Context, in journal.ImportedRun) error {
	if err := in.Check(); err != nil {
		return err
	}
	return s.write(ctx, func(c *conn) error {
		if _, err := c.exec("SAVEPOINT import"); err != nil {
			return err
		}
		refused := importRun(c, &in)
		if _, ok := refused.(refusal); ok {
			if _, err := c.exec("ROLLBACK TO import"); err != nil {
				return err
			}
		} else if refused != nil {
			return refused
		}
		if _, err := c.exec("RELEASE import"); err != nil {
			return err
		}
		return refused
	})
}

// insertRun adds a row without an owner. Its head is set when the appends are there.
const insertRun = `INSERT OR IGNORE INTO runs
	(id, root, parent, name, format, definition, started, updated, seq, head, fence, owner,
	status, outcome, wake, waiting)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, '', ?, ?, ?, ?)`

// importRun adds a run in the current transaction. After a refusal, the caller
// undoes what it has added.
func importRun(c *conn, in *journal.ImportedRun) error {
	var n int64
	// The rows of the root, which is the first one, and of its children. Only roots have a fence.
	for i := range in.Runs {
		e, fence := &in.Runs[i], int64(0)
		if i == 0 {
			fence = journal.FirstFence
		}
		result, err := c.exec(insertRun, string(e.ID), string(e.Root), string(e.Parent), e.Name, e.Format, e.Definition,
			int64(e.Started), int64(e.Updated), int64(e.Seq), fence, string(e.Status), string(e.Outcome), int64(e.Wake),
			e.Waiting.String())
		if err != nil {
			return err
		}
		if added, err := result.RowsAffected(); err != nil {
			return err
		} else if added == 0 {
			return refusef("%w: %s", journal.ErrExists, e.ID)
		}
		if i == 0 {
			if n, err = result.LastInsertId(); err != nil {
				return err
			}
		}
	}
	head, err := importAppends(c, in, n)
	if err != nil {
		return err
	}
	for b, err := range in.Blobs {
		if err != nil {
			return refuse(err)
		}
		if err := putBlob(c, n, &b); err != nil {
			return err
		}
	}
	for _, m := range in.Inbox {
		if _, err := c.exec("INSERT INTO inbox (run, kind, data, at) VALUES (?, ?, ?, ?)",
			n, m.Kind, filled(m.Data), int64(m.At)); err != nil {
			return err
		}
	}
	// The position of the last append is known only now.
	_, err = c.exec("UPDATE runs SET head = ? WHERE n = ?", head, n)
	return err
}

// ImportTombstones implements journal.Admin.
func (s *Store) ImportTombstones(ctx context.Context, all []journal.Link) error {
	return s.write(ctx, func(c *conn) error {
		row, err := c.row(1, "SELECT count(*) FROM tombstones")
		if err != nil {
			return err
		}
		if row[0].(int64) > 0 {
			return refusef("%w: tombstones", journal.ErrExists)
		}
		for _, link := range all {
			if _, err := c.exec("INSERT INTO tombstones (body, hash) VALUES (?, ?)", link.Body, link.Hash); err != nil {
				return err
			}
		}
		return nil
	})
}

// room is how far below all others the positions of an imported run start. It has
// fewer appends.
const room = int64(1) << 40

// importAppends adds the appends of a run and returns the position of the last.
func importAppends(c *conn, in *journal.ImportedRun, n int64) (pos int64, err error) {
	row, err := c.row(2, "SELECT coalesce(max(pos), -1), min(coalesce(min(pos), 0), 0) FROM appends")
	if err != nil {
		return 0, err
	}
	if row[0].(int64) < 0 { // SQLite counts on from the largest position, so an empty row makes it 0
		if _, err := c.exec("INSERT INTO appends (pos, run, prev, seq, body) VALUES (0, 0, 0, 0, x'')"); err != nil {
			return 0, err
		}
	}
	// Below the positions of earlier imports, and growing along the run.
	pos = row[1].(int64) - room
	prev := int64(0)
	for a, err := range in.Appends() {
		if err != nil {
			return 0, refuse(err)
		}
		pos++
		if _, err := c.exec("INSERT INTO appends (pos, run, prev, seq, body, at, hash) VALUES (?, ?, ?, ?, ?, ?, ?)",
			pos, n, prev, int64(a.Seq), filled(a.Body), int64(a.At), filled(a.Hash)); err != nil {
			return 0, err
		}
		prev = pos
	}
	return pos, nil
}
