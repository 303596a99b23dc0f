package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
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
	pos, run, prev int64
	seq            journal.Seq
	body           []byte
}

func (a *stored) decode(run journal.RunID) ([]journal.Event, error) {
	events, err := journal.Decode(a.body)
	if err == nil && (len(events) == 0 || events[len(events)-1].Seq != a.seq) {
		err = fmt.Errorf("it does not end with event %d", a.seq)
	}
	for i := 1; i < len(events) && err == nil; i++ {
		if events[i].Seq != events[i-1].Seq+1 {
			err = fmt.Errorf("event %d follows event %d", events[i].Seq, events[i-1].Seq)
		}
	}
	if err != nil {
		return nil, &journal.CorruptError{Run: run, Pos: journal.Pos(a.pos), Why: err}
	}
	return events, nil
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

const headQuery = "SELECT n, head, seq, root FROM runs WHERE id = ?"

// Positions decrease from row to row, so that a damaged chain ends, too.
const chainRows = `WITH RECURSIVE chain (pos, run, prev, seq, body) AS (
		SELECT pos, run, prev, seq, body FROM appends WHERE pos = ?1 AND seq > ?2
		UNION ALL
		SELECT a.pos, a.run, a.prev, a.seq, a.body FROM chain JOIN appends a ON a.pos = chain.prev AND a.pos < chain.pos WHERE a.seq > ?2
	) SELECT pos, run, prev, seq, body FROM chain`

// chainQuery returns one append more than a page, to find out whether there are more.
var chainQuery = chainRows + " LIMIT " + strconv.Itoa(page+1)

// marksQuery returns the last append of each page, newest first.
var marksQuery = `WITH RECURSIVE chain (pos, prev, seq, i) AS (
		SELECT pos, prev, seq, 0 FROM appends WHERE pos = ?1 AND seq > ?2
		UNION ALL
		SELECT a.pos, a.prev, a.seq, i + 1 FROM chain JOIN appends a ON a.pos = chain.prev AND a.pos < chain.pos WHERE a.seq > ?2
	) SELECT pos, seq FROM chain WHERE i % ` + strconv.Itoa(page) + " = 0"

// read yields the events after an event.
func (r *eventReader) read(ctx context.Context, after journal.Seq, yield func(journal.Event, error) bool) error {
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
		rows, err := r.page(ctx, mark.pos, since)
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

func (r *eventReader) damaged(pos int64, format string, args ...any) error {
	return &journal.CorruptError{Run: r.run, Pos: journal.Pos(pos), Why: fmt.Errorf(format, args...)}
}

// decode yields the events of appends. It reports whether the caller wants more.
func (r *eventReader) decode(
	ctx context.Context, rows []stored, after journal.Seq, yield func(journal.Event, error) bool,
) (bool, error) {
	for i := range rows {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		events, err := rows[i].decode(r.run)
		if err != nil {
			return false, err
		}
		first := events[0].Seq
		if first > r.next || r.middle && first != r.next {
			return false, r.damaged(rows[i].pos, "event %d stands where %d should", first, r.next)
		}
		r.middle = true
		for _, e := range events {
			if e.Seq > after && !yield(e, nil) {
				return false, nil
			}
		}
		r.next = rows[i].seq + 1
		rows[i].body = nil
	}
	return true, nil
}

// mark is the last append of a page.
type mark struct {
	pos int64
	seq journal.Seq
}

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
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return nil, nil, 0, s.failed(ctx, err)
	}
	defer tx.Rollback()
	var head int64
	var of journal.RunID
	switch err := s.rowIn(ctx, tx, headQuery, r.run).Scan(&r.n, &head, &last, &of); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil, 0, fmt.Errorf("%w: %s", journal.ErrUnknownRun, r.run)
	case err != nil:
		return nil, nil, 0, s.failed(ctx, err)
	case of != "":
		return nil, nil, 0, &journal.ChildError{Root: of}
	}
	if err := s.rowIn(ctx, tx, newestQuery, head, r.n).Scan(&head, &last); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, nil, 0, s.failed(ctx, err)
	}
	found, err := s.queryIn(ctx, tx, chainQuery, head, after)
	if err != nil {
		return nil, nil, 0, s.failed(ctx, err)
	}
	if rows, err = r.scan(ctx, found); err != nil || len(rows) <= page {
		return rows, nil, last, err
	}
	found, err = s.queryIn(ctx, tx, marksQuery, head, after)
	if err != nil {
		return nil, nil, 0, s.failed(ctx, err)
	}
	defer found.Close()
	for found.Next() {
		var m mark
		if err := found.Scan(&m.pos, &m.seq); err != nil {
			return nil, nil, 0, s.failed(ctx, err)
		}
		marks = append(marks, m)
	}
	return nil, marks, last, s.failed(ctx, found.Err())
}

// page returns the appends after an event up to the one at a position, oldest first.
func (r *eventReader) page(ctx context.Context, pos int64, after journal.Seq) ([]stored, error) {
	found, err := r.s.query(ctx, chainQuery, pos, after)
	if err != nil {
		return nil, r.s.failed(ctx, err)
	}
	return r.scan(ctx, found)
}

// scan returns the rows of chainQuery, oldest first.
func (r *eventReader) scan(ctx context.Context, found *sql.Rows) ([]stored, error) {
	defer found.Close()
	var rows []stored
	for found.Next() {
		var a stored
		if err := found.Scan(&a.pos, &a.run, &a.prev, &a.seq, &a.body); err != nil {
			return nil, r.s.failed(ctx, err)
		}
		if a.run != r.n {
			return nil, r.damaged(a.pos, "the append is another run's")
		}
		rows = append(rows, a)
	}
	slices.Reverse(rows)
	return rows, r.s.failed(ctx, found.Err())
}

// Tail implements journal.Store.
func (s *Store) Tail(ctx context.Context, after journal.Pos) iter.Seq2[journal.Appended, error] {
	return func(yield func(journal.Appended, error) bool) {
		for {
			rows, ids, err := s.tailPage(ctx, after)
			if err != nil {
				yield(journal.Appended{}, err)
				return
			}
			if len(rows) == 0 {
				s.recent.forget(int64(after))
			}
			for i := range rows {
				events, err := rows[i].decode(ids[i])
				if err == nil {
					err = ctx.Err()
				}
				if err != nil {
					yield(journal.Appended{}, err)
					return
				}
				after = journal.Pos(rows[i].pos)
				if !yield(journal.Appended{Pos: after, Run: ids[i], Events: events}, nil) {
					return
				}
			}
			if len(rows) < page {
				return
			}
		}
	}
}

// The limit is not a parameter: SQLite would plan the query again for each value,
// which takes longer than running it.
var tailQuery = `SELECT a.pos, a.seq, a.body, r.id FROM appends a LEFT JOIN runs r ON r.n = a.run
	WHERE a.pos > ? AND a.run <> 0 ORDER BY a.pos LIMIT ` + strconv.Itoa(page)

func (s *Store) tailPage(ctx context.Context, after journal.Pos) ([]stored, []journal.RunID, error) {
	rows, err := s.query(ctx, tailQuery, after)
	if err != nil {
		return nil, nil, s.failed(ctx, err)
	}
	defer rows.Close()
	var found []stored
	var ids []journal.RunID
	for rows.Next() {
		var a stored
		var id sql.NullString
		if err := rows.Scan(&a.pos, &a.seq, &a.body, &id); err != nil {
			return nil, nil, s.failed(ctx, err)
		}
		if !id.Valid {
			return nil, nil, &journal.CorruptError{
				Pos: journal.Pos(a.pos), Why: errors.New("the append is of a run that is not there"),
			}
		}
		found, ids = append(found, a), append(ids, journal.RunID(id.String))
	}
	return found, ids, s.failed(ctx, rows.Err())
}

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
	switch err := s.row(ctx, "SELECT n, root FROM runs WHERE id = ?", id).Scan(&n, &of); {
	case errors.Is(err, sql.ErrNoRows):
		return 0, fmt.Errorf("%w: %s", journal.ErrUnknownRun, id)
	case err != nil:
		return 0, s.failed(ctx, err)
	case of != "":
		return 0, &journal.ChildError{Root: of}
	}
	return n, nil
}

// Inbox implements journal.Store.
func (s *Store) Inbox(ctx context.Context, id journal.RunID) ([]journal.InboxMessage, error) {
	n, err := s.rootNumber(ctx, id)
	if err != nil {
		return nil, err
	}
	rows, err := s.query(ctx, "SELECT id, kind, data, at FROM inbox WHERE run = ? ORDER BY id", n)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	defer rows.Close()
	var posted []journal.InboxMessage
	for rows.Next() {
		var p journal.InboxMessage
		if err := rows.Scan(&p.ID, &p.Kind, &p.Data, &p.At); err != nil {
			return nil, s.failed(ctx, err)
		}
		posted = append(posted, p)
	}
	return posted, s.failed(ctx, rows.Err())
}

const mailQuery = "SELECT id, owner FROM runs WHERE n IN (SELECT DISTINCT run FROM inbox) AND status <> 'finished'"

// PendingInboxes implements journal.Store.
func (s *Store) PendingInboxes(ctx context.Context) ([]journal.PendingInbox, error) {
	rows, err := s.query(ctx, mailQuery)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	defer rows.Close()
	var boxes []journal.PendingInbox
	for rows.Next() {
		var m journal.PendingInbox
		if err := rows.Scan(&m.Run, &m.Owner); err != nil {
			return nil, s.failed(ctx, err)
		}
		boxes = append(boxes, m)
	}
	return boxes, s.failed(ctx, rows.Err())
}

const dueQuery = "SELECT id, wake FROM runs WHERE wake > 0 AND root = '' AND status <> 'finished' ORDER BY wake, n"

// Due implements journal.Store.
func (s *Store) Due(ctx context.Context, now journal.Millis) ([]journal.RunID, journal.Millis, error) {
	// In ascending order, the first run that is not due yet has the next wake
	// time.
	rows, err := s.query(ctx, dueQuery)
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
	", owner, status, outcome, wake, waiting"

func scanEntry(scan func(...any) error, more ...any) (journal.Entry, error) {
	var e journal.Entry
	err := scan(append([]any{
		&e.ID, &e.Root, &e.Parent, &e.Name, &e.Format, &e.Definition, &e.Started, &e.Updated, &e.Seq, &e.Owner,
		&e.Status, &e.Outcome, &e.Wake, &e.Waiting,
	}, more...)...)
	return e, err
}

// Entry implements journal.Store.
func (s *Store) Entry(ctx context.Context, id journal.RunID) (journal.Entry, error) {
	e, err := scanEntry(s.row(ctx, "SELECT "+entryColumns+" FROM runs WHERE id = ?", id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return e, fmt.Errorf("%w: %s", journal.ErrUnknownRun, id)
	}
	return e, s.failed(ctx, err)
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
		for left := f.Limit; ; {
			size := page
			if f.Limit > 0 {
				size = min(size, left)
			}
			entries, oldest, err := s.runsPage(ctx, query, append(slices.Clone(args), before, size))
			if err != nil {
				yield(journal.Entry{}, err)
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			left -= len(entries)
			if len(entries) < page || f.Limit > 0 && left == 0 {
				return
			}
			before = oldest
		}
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
		if end := afterPrefix(f.Prefix); end != "" {
			add("id < ?", end)
		}
		number = "+n" // few runs have the prefix: find them by ID, then sort
	}
	add(number + " < ?")
	return "SELECT " + entryColumns + ", n FROM runs WHERE " + strings.Join(
		where, " AND ",
	) + " ORDER BY " + number + " DESC LIMIT ?", args
}

// afterPrefix returns the first string after all those that start with prefix;
// empty if there is none.
func afterPrefix(prefix string) string {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return string(end[:i+1])
		}
	}
	return ""
}

func (s *Store) runsPage(ctx context.Context, query string, args []any) ([]journal.Entry, int64, error) {
	rows, err := s.query(ctx, query, args...)
	if err != nil {
		return nil, 0, s.failed(ctx, err)
	}
	defer rows.Close()
	var entries []journal.Entry
	var n int64
	for rows.Next() {
		e, err := scanEntry(rows.Scan, &n)
		if err != nil {
			return nil, 0, s.failed(ctx, err)
		}
		entries = append(entries, e)
	}
	return entries, n, s.failed(ctx, rows.Err())
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
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("%w: the value %s has another hash", journal.ErrCorrupt, hash)
	}
	return data, nil
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
