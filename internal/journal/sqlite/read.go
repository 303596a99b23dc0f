package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
)

// Readers fetch one page at a time and keep no read transaction open while their
// caller works: it would keep the WAL from being reused.
const page = 256

// failed wraps an error of reading in the matching error of journal.
func (s *Store) failed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case s.closed.Load():
		return journal.ErrClosed
	}
	return s.explain(err)
}

// stored is a row of appends.
type stored struct {
	journal.StoredAppend
	run int64 // the run's number
}

// Events implements journal.Store. It reads a page of appends at a time: what is
// in memory does not grow with the run.
func (s *Store) Events(ctx context.Context, id journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		r := eventReader{s: s, run: id, next: after + 1}
		if err := r.read(ctx, after, yield); err != nil {
			yield(journal.Event{}, err)
		}
	}
}

// eventReader reads the stream of one run.
type eventReader struct {
	s      *Store
	run    journal.RunID
	n      int64       // the run's number
	next   journal.Seq // of the next event
	middle bool        // an append has been read
}

// headQuery returns the position that a run's row names, which may lag behind (newest.go).
const headQuery = "SELECT n, head, seq, root FROM runs WHERE id = ?"

// Positions decrease from row to row, so that a damaged chain ends, too.
const chainRows = `WITH RECURSIVE chain (pos, run, prev, seq, body) AS (
		SELECT pos, run, prev, seq, body FROM appends WHERE pos = ?1 AND seq > ?2
		UNION ALL
		SELECT a.pos, a.run, a.prev, a.seq, a.body
		FROM chain JOIN appends a ON a.pos = chain.prev AND a.pos < chain.pos WHERE a.seq > ?2
	) SELECT pos, run, seq, body FROM chain`

// chainQuery returns one append more than a page, to find out whether there are more.
var chainQuery = chainRows + " LIMIT " + strconv.Itoa(page+1)

// marksQuery returns the last append of each page, newest first.
var marksQuery = `WITH RECURSIVE chain (pos, prev, seq, i) AS (
		SELECT pos, prev, seq, 0 FROM appends WHERE pos = ?1 AND seq > ?2
		UNION ALL
		SELECT a.pos, a.prev, a.seq, i + 1
		FROM chain JOIN appends a ON a.pos = chain.prev AND a.pos < chain.pos WHERE a.seq > ?2
	) SELECT pos, seq FROM chain WHERE i % ` + strconv.Itoa(page) + " = 0"

// read yields the events after an event.
func (r *eventReader) read(ctx context.Context, after journal.Seq, yield func(journal.Event, error) bool) error {
	// The chain of a run leads from its newest append to its first, but events are read from the first. A run of one
	// page is read and reversed. For a longer one, open walks along the chain once and keeps only the mark of each
	// page; the pages are then read from the oldest to the newest.
	rows, marks, last, err := r.open(ctx, after)
	if err != nil {
		return err
	}
	if len(marks) == 0 {
		if more, err := r.decode(ctx, rows, after, yield); err != nil || !more {
			return err
		}
	}
	for i, mark := range slices.Backward(marks) {
		since := after
		if i+1 < len(marks) {
			since = marks[i+1].seq
		}
		rows, err := r.page(ctx, nil, mark.pos, since)
		if err != nil {
			return err
		}
		if more, err := r.decode(ctx, rows, after, yield); err != nil || !more {
			return err
		}
		if r.next != mark.seq+1 {
			break
		}
	}
	if r.next > last {
		return nil
	}
	if _, err := r.s.rootNumber(ctx, r.run); err != nil {
		return err // it was deleted meanwhile
	}
	return r.damaged(0, "events %d to %d are missing", r.next, last)
}

// damaged returns the error of a stream that is not complete.
func (r *eventReader) damaged(pos journal.Pos, format string, args ...any) error {
	return &journal.CorruptError{Run: r.run, Pos: pos, Why: fmt.Errorf(format, args...)}
}

// decode yields the events of appends. It reports whether the caller wants more.
func (r *eventReader) decode(
	ctx context.Context, rows []stored, after journal.Seq, yield func(journal.Event, error) bool,
) (bool, error) {
	for i := range rows {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		events, err := rows[i].Decode()
		if err != nil {
			return false, err
		}
		first := events[0].Seq
		// The first append may begin before the wanted event; every later one has to follow the previous one.
		if first > r.next || r.middle && first != r.next {
			return false, r.damaged(rows[i].Pos, "found event %d, expected %d", first, r.next)
		}
		r.middle = true
		for _, e := range events {
			if e.Seq > after && !yield(e, nil) {
				return false, nil
			}
		}
		r.next = rows[i].Last + 1
		rows[i].Body = nil
	}
	return true, nil
}

// mark is the last append of a page.
type mark struct {
	pos int64
	seq journal.Seq
}

// columns returns where collect stores the columns of a row.
func (m *mark) columns() []any { return []any{&m.pos, &m.seq} }

// open returns the number of the run's last event, and its appends after an event,
// oldest first. If they are more than a page, it returns the marks of the pages
// instead, newest first.
func (r *eventReader) open(ctx context.Context, after journal.Seq) (
	rows []stored, marks []mark, last journal.Seq, err error,
) {
	s := r.s
	// Before taking a connection: preparing takes one, too.
	for _, text := range []string{headQuery, newestQuery, chainQuery, marksQuery} {
		if _, err := s.stmt(text); err != nil {
			return nil, nil, 0, s.failed(ctx, err)
		}
	}
	// One read transaction, so that the row of the run, its newest append and the marks are of the same moment.
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return nil, nil, 0, s.failed(ctx, err)
	}
	defer tx.Rollback()
	var head int64
	var of journal.RunID
	err = s.rowIn(ctx, tx, headQuery, r.run).Scan(&r.n, &head, &last, &of)
	if err := s.checkRoot(ctx, err, r.run, of); err != nil {
		return nil, nil, 0, err
	}
	if err := s.rowIn(ctx, tx, newestQuery, head, r.n).
		Scan(&head, &last); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, nil, 0, s.failed(ctx, err)
	}
	if rows, err = r.page(ctx, tx, head, after); err != nil || len(rows) <= page {
		return rows, nil, last, err
	}
	marks, err = collectIn(ctx, s, tx, (*mark).columns, marksQuery, head, after)
	return nil, marks, last, err
}

// page returns the appends after an event up to the one at a position, oldest first.
func (r *eventReader) page(ctx context.Context, tx *sql.Tx, pos int64, after journal.Seq) ([]stored, error) {
	rows, err := collectIn(ctx, r.s, tx, func(a *stored) []any {
		a.Run = r.run
		return []any{&a.Pos, &a.run, &a.Last, &a.Body}
	}, chainQuery, pos, after)
	for i := range rows {
		if rows[i].run != r.n {
			return nil, r.damaged(rows[i].Pos, "the append is another run's")
		}
	}
	slices.Reverse(rows)
	return rows, err
}

// Tail implements journal.Store.
func (s *Store) Tail(ctx context.Context, after journal.Pos) iter.Seq2[journal.Appended, error] {
	return journal.TailPages(ctx, after, page, func(after journal.Pos) ([]journal.StoredAppend, error) {
		rows, err := collect(ctx, s, func(a *journal.StoredAppend) []any {
			return []any{&a.Pos, &a.Last, &a.Body, &a.Run}
		}, tailQuery, after)
		for i := range rows {
			if rows[i].Run == "" {
				return nil, &journal.CorruptError{
					Pos: rows[i].Pos, Why: errors.New("the append refers to an unknown run"),
				}
			}
		}
		return rows, err
	})
}

// The limit is not a parameter: SQLite would plan the query again for each value,
// which takes longer than running it.
var tailQuery = `SELECT a.pos, a.seq, a.body, coalesce(r.id, '') FROM appends a LEFT JOIN runs r ON r.n = a.run
	WHERE a.pos > ? AND a.run <> 0 ORDER BY a.pos LIMIT ` + strconv.Itoa(page)

// Last implements journal.Store.
func (s *Store) Last(ctx context.Context) (journal.Pos, error) {
	var pos journal.Pos
	err := s.row(ctx, "SELECT coalesce(max(pos), 0) FROM appends").Scan(&pos)
	return pos, s.failed(ctx, err)
}

// Changed implements journal.Store.
func (s *Store) Changed() <-chan struct{} { return s.changes.Wait() }

// rootNumber returns the number of a run that has a stream of its own.
func (s *Store) rootNumber(ctx context.Context, id journal.RunID) (int64, error) {
	var n int64
	var of journal.RunID
	err := s.row(ctx, "SELECT n, root FROM runs WHERE id = ?", id).Scan(&n, &of)
	return n, s.checkRoot(ctx, err, id, of)
}

// checkRoot returns the error of reading the row of a run, which must have a stream of its own. of is its root.
func (s *Store) checkRoot(ctx context.Context, err error, id, of journal.RunID) error {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: %s", journal.ErrUnknownRun, id)
	case err == nil && of != "":
		return &journal.ChildError{Root: of}
	}
	return s.failed(ctx, err)
}

// Inbox implements journal.Store.
func (s *Store) Inbox(ctx context.Context, id journal.RunID) ([]journal.InboxMessage, error) {
	n, err := s.rootNumber(ctx, id)
	if err != nil {
		return nil, err
	}
	return collect(ctx, s, func(m *journal.InboxMessage) []any { return []any{&m.ID, &m.Kind, &m.Data, &m.At} },
		"SELECT id, kind, data, at FROM inbox WHERE run = ? ORDER BY id", n)
}

const mailQuery = "SELECT id, owner FROM runs WHERE n IN (SELECT DISTINCT run FROM inbox) AND status <> 'finished'"

// PendingInboxes implements journal.Store.
func (s *Store) PendingInboxes(ctx context.Context) ([]journal.PendingInbox, error) {
	return collect(ctx, s, func(m *journal.PendingInbox) []any { return []any{&m.Run, &m.Owner} }, mailQuery)
}

const dueQuery = "SELECT id, wake FROM runs WHERE wake > 0 AND root = '' AND status <> 'finished' ORDER BY wake, n"

// Due implements journal.Store.
func (s *Store) Due(ctx context.Context, now journal.Millis) ([]journal.RunID, journal.Millis, error) {
	// In ascending order, the first run that is not due yet has the next wake
	// time.
	rows, err := s.queryIn(ctx, nil, dueQuery)
	if err != nil {
		return nil, 0, s.failed(ctx, err)
	}
	defer rows.Close()
	var due []journal.RunID
	for rows.Next() {
		var id journal.RunID
		var wake journal.Millis
		if err := rows.Scan(&id, &wake); err != nil {
			return nil, 0, s.failed(ctx, err)
		}
		if wake > now {
			return due, wake, nil
		}
		due = append(due, id)
	}
	return due, 0, s.failed(ctx, rows.Err())
}

var entryColumns = "id, root, parent, name, format, definition, started, " + orNewer("updated", "at") + ", " + orNewer(
	"seq", "seq",
) +
	", owner, status, outcome, wake, waiting, n"

// listed is a row of runs.
type listed struct {
	journal.Entry
	waiting string
	n       int64
}

// columns returns where collect stores the columns in entryColumns.
func (e *listed) columns() []any {
	return []any{
		&e.ID, &e.Root, &e.Parent, &e.Name, &e.Format, &e.Definition, &e.Started, &e.Updated, &e.Seq, &e.Owner,
		&e.Status, &e.Outcome, &e.Wake, &e.waiting, &e.n,
	}
}

// entry returns the row with its decoded wait.
func (e *listed) entry() journal.Entry {
	e.Waiting = journal.ParseWait(e.waiting)
	return e.Entry
}

// Entry implements journal.Store.
func (s *Store) Entry(ctx context.Context, id journal.RunID) (journal.Entry, error) {
	var e listed
	err := s.row(ctx, "SELECT "+entryColumns+" FROM runs WHERE id = ?", id).Scan(e.columns()...)
	if errors.Is(err, sql.ErrNoRows) {
		return e.Entry, fmt.Errorf("%w: %s", journal.ErrUnknownRun, id)
	}
	return e.entry(), s.failed(ctx, err)
}

// Runs implements journal.Store.
func (s *Store) Runs(ctx context.Context, f journal.Filter) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		query, args := listing(&f)
		before := int64(math.MaxInt64)
		if f.Before != "" {
			err := s.row(ctx, "SELECT n FROM runs WHERE id = ?", f.Before).Scan(&before)
			if errors.Is(err, sql.ErrNoRows) {
				err = fmt.Errorf("%w: %s", journal.ErrUnknownRun, f.Before)
			}
			if err != nil {
				yield(journal.Entry{}, s.failed(ctx, err))
				return
			}
		}
		journal.Pages(page, f.Limit, func(n int) ([]journal.Entry, error) {
			rows, err := collect(ctx, s, (*listed).columns, query, append(slices.Clone(args), before, n)...)
			entries := make([]journal.Entry, len(rows))
			for i := range rows {
				entries[i], before = rows[i].entry(), rows[i].n
			}
			return entries, err
		})(yield)
	}
}

// listing returns the query for a page of runs. Its last two parameters are added
// later: the run before which the page starts, and its size.
func listing(f *journal.Filter) (string, []any) {
	var where []string
	var args []any
	add := func(condition string, values ...any) {
		where = append(where, condition)
		args = append(args, values...)
	}
	number := "n"
	switch {
	case f.Root != "":
		add("root = ? AND root <> ''", f.Root)
	case !f.Children:
		add("root = ''")
	}
	if f.Unfinished || f.Status != "" && f.Status != journal.Finished {
		add("status <> 'finished'") // exactly so, for the partial indexes
	}
	if f.Status != "" {
		add("status = ?", f.Status)
	}
	if f.Name != "" {
		add("name = ?", f.Name)
	}
	if f.Outcome != "" {
		add("outcome = ?", f.Outcome)
	}
	// instr and substr compare exactly; LIKE would ignore case and give "%" and "_" a meaning.
	if f.Text != "" {
		add("(instr(name, ?) > 0 OR substr(id, 1, length(?)) = ?)", f.Text, f.Text, f.Text)
	}
	if f.Since != 0 {
		add("started >= ?", f.Since)
	}
	if f.Until != 0 {
		add("started < ?", f.Until)
	}
	if f.Prefix != "" {
		add("id >= ?", f.Prefix)
		if end := journal.KeysAfter(f.Prefix); end != "" {
			add("id < ?", end)
		}
		number = "+n" // few runs have the prefix: find them by ID, then sort
	}
	add(number + " < ?")
	return "SELECT " + entryColumns + " FROM runs WHERE " + strings.Join(
		where, " AND ",
	) + " ORDER BY " + number + " DESC LIMIT ?", args
}

// Blob implements journal.Store.
func (s *Store) Blob(ctx context.Context, hash string) ([]byte, error) {
	var data []byte
	err := s.row(ctx, "SELECT data FROM blobs WHERE hash = ?", hash).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%w: %s", journal.ErrUnknownBlob, hash)
	}
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	return journal.CheckBlob(hash, data)
}

// Snapshot implements journal.Store.
func (s *Store) Snapshot(ctx context.Context, id journal.RunID) (journal.Seq, []byte, error) {
	n, err := s.rootNumber(ctx, id)
	if err != nil {
		return 0, nil, err
	}
	var seq journal.Seq
	var state []byte
	err = s.row(ctx, "SELECT seq, state FROM snapshots WHERE run = ?", n).Scan(&seq, &state)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil, nil
	}
	return seq, state, s.failed(ctx, err)
}
