package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/espalier-run/espalier/internal/journal"
)

// page is how many rows are read at once. Readers hold no connection while
// their caller works.
const page = 256

// query reads all rows of a statement. Each row is scanned into the targets, with
// texts as encodeText got them, and then each is called, when all rows have arrived: a statement whose
// connection is lost is repeated.
func (s *Store) query(ctx context.Context, targets []any, each func() error, text string, args ...any) error {
	return s.read(ctx, func(ctx context.Context) error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		rows, err := conn.Query(ctx, s.q(text), args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		// Copy the raw values first. After an error in the middle, nothing has been passed to each, so that the
		// statement can be repeated.
		var values [][]byte
		for rows.Next() {
			for _, value := range rows.RawValues() {
				values = append(values, bytes.Clone(value))
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		plans := make([]pgtype.ScanPlan, len(targets))
		for i, column := range rows.FieldDescriptions() {
			plans[i] = conn.Conn().TypeMap().PlanScan(column.DataTypeOID, column.Format, targets[i])
		}
		for row := range slices.Chunk(values, len(targets)) {
			for i, plan := range plans {
				if err := plan.Scan(row[i], targets[i]); err != nil {
					return err
				}
				decodeTarget(targets[i])
			}
			if err := each(); err != nil {
				return err
			}
		}
		return nil
	})
}

// collect returns all rows of a statement. columns returns what the columns of a row are scanned into.
func collect[T any](
	ctx context.Context, s *Store, columns func(*T) []any, text string, args ...any,
) (all []T, err error) {
	var one T
	err = s.query(ctx, columns(&one), func() error {
		all = append(all, one)
		return nil
	}, text, args...)
	return all, err
}

// rootNumber returns the number of a run that has a stream of its own.
func (s *Store) rootNumber(ctx context.Context, id journal.RunID) (int64, error) {
	var n int64
	err := s.read(ctx, func(ctx context.Context) error {
		var of journal.RunID
		err := s.pool.QueryRow(ctx, s.q("SELECT n, root FROM @.runs WHERE id = $1"), encodeText(id)).Scan(&n, &of)
		return checkRoot(err, id, of)
	})
	return n, err
}

// checkRoot returns the error of reading the row of a run, which must have a stream of its own. of is the stored root.
func checkRoot(err error, id, of journal.RunID) error {
	decodeText(&of)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return refusal{fmt.Errorf("%w: %s", journal.ErrUnknownRun, id)}
	case err == nil && of != "":
		return refusal{&journal.ChildError{Root: of}}
	}
	return err
}

// Events implements journal.EventReader.
func (s *Store) Events(ctx context.Context, id journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		n, err := s.rootNumber(ctx, id)
		if err != nil {
			yield(journal.Event{}, err)
			return
		}
		// One page per statement. An append that starts before the first wanted event is included.
		for next := after + 1; ; {
			// The append that contains the next event may begin before it.
			rows, err := collect(ctx, s, func(a *journal.StoredAppend) []any {
				a.Run = id
				return []any{&a.Pos, &a.First, &a.Last, &a.Body}
			}, `SELECT pos, first, last, body FROM @.appends WHERE run = $1 AND last >= $2
				AND first >= coalesce(
					(SELECT first FROM @.appends WHERE run = $1 AND first <= $2 ORDER BY first DESC LIMIT 1), 0)
				ORDER BY first LIMIT $3`, n, int64(next), page)
			if err != nil {
				yield(journal.Event{}, err)
				return
			}
			for i := range rows {
				events, err := rows[i].Decode()
				if err == nil && (rows[i].First > next || i > 0 && rows[i].First != next) {
					err = &journal.CorruptError{
						Run: id, Pos: rows[i].Pos, Why: fmt.Errorf("event %d follows event %d", rows[i].First, next-1),
					}
				}
				if err = cmp.Or(err, ctx.Err()); err != nil {
					yield(journal.Event{}, err)
					return
				}
				for _, e := range events {
					if e.Seq > after && !yield(e, nil) {
						return
					}
				}
				next = rows[i].Last + 1
			}
			if len(rows) < page {
				return
			}
		}
	}
}

// Tail implements journal.Tailer. It ends before the oldest transaction that
// is still running: what that commits comes first.
func (s *Store) Tail(ctx context.Context, after journal.Pos) iter.Seq2[journal.Appended, error] {
	return journal.TailPages(ctx, after, page, func(after journal.Pos) ([]journal.StoredAppend, error) {
		return s.tailPage(ctx, after)
	})
}

// ownVisible is how long Tail waits until an append of this Store is visible,
// while an older transaction is still running.
const ownVisible = time.Second

// bound is the position that Tail stops at.
const bound = "(SELECT era + (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 10) FROM @.journal)"

// tailPage returns the appends after a position that are final: no transaction that is still running can commit one
// before them. It waits for a moment if the newest append of this Store is not among them yet, so that readers in this
// process see what it has just committed.
func (s *Store) tailPage(ctx context.Context, after journal.Pos) (rows []journal.StoredAppend, err error) {
	deadline := time.Now().Add(ownVisible)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		rows = nil
		own := s.lastPos.Load()
		var a journal.StoredAppend
		var limit int64
		err = s.query(ctx, []any{&a.Pos, &a.First, &a.Last, &a.Body, &a.Run, &limit}, func() error {
			if a.Body != nil {
				rows = append(rows, a)
			}
			return nil
		}, `WITH b AS MATERIALIZED (SELECT `+bound+` AS limit)
			SELECT coalesce(x.pos, 0), coalesce(x.first, 0), coalesce(x.last, 0), x.body, coalesce(x.id, ''), b.limit
			FROM b LEFT JOIN LATERAL (
				SELECT a.pos, a.first, a.last, a.body, r.id FROM @.appends a JOIN @.runs r ON r.n = a.run
				WHERE a.pos > $1 AND a.pos < b.limit ORDER BY a.pos LIMIT $2
			) x ON true ORDER BY x.pos`, int64(after), page)
		if err != nil || len(rows) == page || own <= int64(after) || limit > own || time.Now().After(deadline) {
			return rows, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Last implements journal.Tailer.
func (s *Store) Last(ctx context.Context) (pos journal.Pos, err error) {
	err = s.query(ctx, []any{&pos}, func() error { return nil },
		"SELECT greatest((SELECT mark FROM @.journal), (SELECT max(pos) FROM @.appends))")
	return pos, err
}

// Changed implements journal.Tailer.
func (s *Store) Changed() <-chan struct{} { return s.changes.Wait() }

// Inbox implements journal.Ownership.
func (s *Store) Inbox(ctx context.Context, id journal.RunID) ([]journal.InboxMessage, error) {
	n, err := s.rootNumber(ctx, id)
	if err != nil {
		return nil, err
	}
	return collect(ctx, s, func(m *journal.InboxMessage) []any { return []any{&m.ID, &m.Kind, &m.Data, &m.At} },
		"SELECT id, kind, data, at FROM @.inbox WHERE run = $1 AND NOT taken ORDER BY id", n)
}

// PendingInboxes implements journal.Ownership.
func (s *Store) PendingInboxes(ctx context.Context) ([]journal.PendingInbox, error) {
	return collect(ctx, s, func(box *journal.PendingInbox) []any { return []any{&box.Run, &box.Owner} },
		`SELECT id, owner FROM @.runs
		WHERE n IN (SELECT DISTINCT run FROM @.inbox WHERE NOT taken) AND status <> 'finished'`)
}

// Due implements journal.Ownership.
func (s *Store) Due(ctx context.Context, now journal.Millis) (due []journal.RunID, next journal.Millis, err error) {
	var id journal.RunID
	var wake journal.Millis
	err = s.query(ctx, []any{&id, &wake}, func() error {
		if wake > now {
			next = wake
			return nil
		}
		due = append(due, id)
		return nil
	}, `(SELECT id, wake FROM @.runs WHERE wake > 0 AND wake <= $1 AND root = '' AND status <> 'finished'
			ORDER BY wake, n)
		UNION ALL
		(SELECT id, wake FROM @.runs WHERE wake > $1 AND wake > 0 AND root = '' AND status <> 'finished'
			ORDER BY wake, n LIMIT 1)`,
		int64(now))
	return due, next, err
}

// The row of a root run is not written with each append, so its last event is
// read from the last append.
const entryColumns = `r.id, r.root, r.parent, r.name, r.format, r.definition, r.started,
	greatest(r.updated, a.at), coalesce(a.last, r.seq), r.owner, r.status, r.outcome, r.wake, r.waiting, r.n`

const entryTables = ` FROM @.runs r LEFT JOIN LATERAL
	(SELECT last, at, hash FROM @.appends WHERE run = r.n ORDER BY first DESC LIMIT 1) a ON r.root = '' `

// entries returns rows of runs, and the number of the last one.
func (s *Store) entries(ctx context.Context, where string, args ...any) (all []journal.Entry, n int64, err error) {
	var e journal.Entry
	var waiting string
	targets := []any{
		&e.ID, &e.Root, &e.Parent, &e.Name, &e.Format, &e.Definition, &e.Started, &e.Updated, &e.Seq, &e.Owner,
		&e.Status, &e.Outcome, &e.Wake, &waiting, &n,
	}
	err = s.query(ctx, targets, func() error {
		e.Waiting = journal.ParseWait(waiting)
		all = append(all, e)
		return nil
	}, "SELECT "+entryColumns+entryTables+where, args...)
	return all, n, err
}

// Entry implements journal.Reader.
func (s *Store) Entry(ctx context.Context, id journal.RunID) (journal.Entry, error) {
	found, _, err := s.entries(ctx, "WHERE r.id = $1", encodeText(id))
	switch {
	case err != nil:
		return journal.Entry{}, err
	case len(found) == 0:
		return journal.Entry{}, fmt.Errorf("%w: %s", journal.ErrUnknownRun, id)
	}
	return found[0], nil
}

// Runs implements journal.Reader.
func (s *Store) Runs(ctx context.Context, f journal.Filter) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		where, args := listing(&f)
		before, err := s.before(ctx, f.Before)
		if err != nil {
			yield(journal.Entry{}, err)
			return
		}
		journal.Pages(page, f.Limit, func(n int) (entries []journal.Entry, err error) {
			entries, before, err = s.entries(ctx, where, append([]any{before, n}, args...)...)
			return entries, err
		})(yield)
	}
}

// before returns the number of a run: runs that were added before it have
// smaller numbers. If id is empty, all numbers are smaller.
func (s *Store) before(ctx context.Context, id journal.RunID) (int64, error) {
	if id == "" {
		return math.MaxInt64, nil
	}
	var n int64
	found := false
	err := s.query(ctx, []any{&n}, func() error { found = true; return nil },
		"SELECT n FROM @.runs WHERE id = $1", encodeText(id))
	if err == nil && !found {
		err = fmt.Errorf("%w: %s", journal.ErrUnknownRun, id)
	}
	return n, err
}

// listing returns the condition of a page of runs and its arguments from the
// third on. The first two are the run before which the page begins and its size.
func listing(f *journal.Filter) (string, []any) {
	where := []string{"r.n < $1"}
	var args []any
	add := func(condition string, value any) {
		args = append(args, value)
		where = append(where, fmt.Sprintf(condition, len(args)+2))
	}
	switch {
	case f.Root != "":
		add("r.root = $%d AND r.root <> ''", encodeText(f.Root))
	case !f.Children:
		where = append(where, "r.root = ''")
	}
	if f.Unfinished || f.Status != "" && f.Status != journal.Finished {
		where = append(where, "r.status <> 'finished'") // in these words, so that the partial indexes apply
	}
	if f.Status != "" {
		add("r.status = $%d", encodeText(f.Status))
	}
	if f.Name != "" {
		add("r.name = $%d", encodeText(f.Name))
	}
	if f.Outcome != "" {
		add("r.outcome = $%d", encodeText(f.Outcome))
	}
	if f.Text != "" {
		add("(strpos(r.name, $%[1]d) > 0 OR starts_with(r.id, $%[1]d))", encodeText(f.Text))
	}
	if f.Since != 0 {
		add("r.started >= $%d", int64(f.Since))
	}
	if f.Until != 0 {
		add("r.started < $%d", int64(f.Until))
	}
	if f.Prefix != "" {
		prefix := encodeText(f.Prefix)
		add("r.id >= $%d", prefix)
		add("r.id < $%d", prefix+"\U0010FFFF") // in bytes, no valid text sorts after it
	}
	return "WHERE " + strings.Join(where, " AND ") + " ORDER BY r.n DESC LIMIT $2", args
}

// Blob implements journal.Reader. A blob that no run uses is left over from a
// batch that was refused.
func (s *Store) Blob(ctx context.Context, hash string) ([]byte, error) {
	var data []byte
	var object string
	found := false
	err := s.query(ctx, []any{&data, &object}, func() error { found = true; return nil },
		"SELECT data, object FROM @.blobs b WHERE hash = $1 AND EXISTS (SELECT 1 FROM @.uses WHERE blob = b.n)",
		encodeText(hash))
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, fmt.Errorf("%w: %s", journal.ErrUnknownBlob, hash)
	}
	if object != "" {
		if data, err = s.readObject(ctx, hash, object); err != nil {
			return nil, err
		}
	}
	return journal.CheckBlob(hash, data)
}

// Snapshot implements journal.Reader.
func (s *Store) Snapshot(ctx context.Context, id journal.RunID) (seq journal.Seq, state []byte, err error) {
	n, err := s.rootNumber(ctx, id)
	if err != nil {
		return 0, nil, err
	}
	err = s.query(ctx, []any{&seq, &state}, func() error { return nil },
		"SELECT seq, state FROM @.snapshots WHERE run = $1", n)
	return seq, state, err
}
