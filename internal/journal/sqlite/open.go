package sqlite

import (
	"cmp"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/espalier-run/espalier/internal/filelock"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/queue"
)

// Options configure a store. The zero value is the safe one.
type Options struct {
	// Relaxed skips the sync of each commit: appends survive the end of the
	// process, but the newest ones do not survive a power failure.
	Relaxed bool
	// BusyTimeout is how long a write waits for another program that keeps the file
	// locked; 0 is 10 seconds.
	BusyTimeout time.Duration
	// Dead reports whether the process of an owner has ended. It must not call
	// the store. If it is nil, every other owner counts as alive.
	Dead func(journal.Owner) bool
	// Frozen refuses all writes with ErrReadOnly, once the schema of the file is
	// up to date: see Copy.
	Frozen bool
	// Changes is notified of commits. Stores of one process over the same file share it, so that Changed reports the
	// commits of all of them; nil is one of the store's own.
	Changes *queue.Notifier
}

// Store is a journal.Store in a SQLite file.
type Store struct {
	path        string
	busyTimeout time.Duration // see Options
	dead        func(journal.Owner) bool
	jobs        *queue.Queue[job] // for the commit goroutine
	changes     *queue.Notifier
	closed      atomic.Bool
	stopped     chan struct{} // closed when the commit goroutine has ended
	reader      *sql.DB       // for all reads; four connections
	prepared    prepared
	fileInfo    os.FileInfo  // identity of the file
	present     atomic.Int64 // when the file was last seen, in Unix milliseconds

	// Only the commit goroutine uses these fields.
	writer    *conn
	broken    error // why nothing is written: the store is frozen, or a sync has failed
	turn      writeTurn
	callbacks *callbackDispatcher
}

var _ journal.Store = (*Store)(nil)

// applicationID marks a SQLite file as a journal: "Espl".
const applicationID = 0x4573706c

//go:embed migrations/*.sql
var migrations embed.FS

// Open opens the journal in a file, or creates it and its folder.
func Open(path string, o Options) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	s := &Store{
		path: path, busyTimeout: o.BusyTimeout, dead: o.Dead, jobs: queue.New[job](), stopped: make(chan struct{}),
	}
	s.changes = cmp.Or(o.Changes, &queue.Notifier{})
	if s.dead == nil {
		s.dead = func(journal.Owner) bool { return false }
	}
	s.dead = journal.ExceptTemporal(s.dead)
	s.busyTimeout = cmp.Or(s.busyTimeout, 10*time.Second)
	if err := s.open(o); err != nil {
		return nil, err
	}
	if o.Frozen {
		s.broken = journal.ErrReadOnly
	}
	s.callbacks = newCallbackDispatcher()
	go s.commit()
	return s, nil
}

// open creates the file if necessary, opens the connections and migrates the schema. On an error it closes what it has
// opened.
func (s *Store) open(o Options) error {
	if err := create(s.path); err != nil {
		return explain(s.path, err)
	}
	var err error
	// Remember which file this is: Present compares it later with the one at the path.
	if s.fileInfo, err = os.Stat(s.path); err != nil {
		return explain(s.path, err)
	}
	s.present.Store(time.Now().UnixMilli())
	lock, err := filelock.Open(s.path + "-want")
	if err != nil {
		return explain(s.path, err)
	}
	s.turn.file = lock
	if s.writer, err = connect(dsn(s.path, "_txlock=immediate")); err != nil {
		lock.Close()
		return explain(s.path, err)
	}
	if err := s.prepareFile(o); err != nil {
		s.writer.Close()
		lock.Close()
		return err
	}
	// Readers never write. They wait only for a recovery after a crash.
	s.reader, err = sql.Open("sqlite", dsn(s.path, "_busy_timeout=5000", "_query_only=1"))
	if err != nil {
		s.writer.Close()
		lock.Close()
		return explain(s.path, err)
	}
	s.reader.SetMaxOpenConns(4)
	s.reader.SetMaxIdleConns(4)
	return nil
}

// create creates an empty file that only its owner can read. SQLite gives the
// same mode to the files beside it.
func create(path string) error {
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%w: it is not a regular file", journal.ErrNotJournal)
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// prepareFile checks that the file is a journal of a supported version, before it
// changes anything.
func (s *Store) prepareFile(o Options) error {
	steps, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	slices.Sort(steps)
	var version int
	if err := s.retryBusy(func() error {
		version, err = s.version()
		return err
	}); err != nil {
		return s.explain(err)
	}
	if version > len(steps) {
		return &journal.NewerError{Path: s.path, Have: version, Expect: len(steps)}
	}

	// FULL syncs the WAL with each commit, NORMAL only before a checkpoint. A
	// short WAL is reused; a growing one costs more per sync.
	level := "FULL"
	if o.Relaxed {
		level = "NORMAL"
	}
	if err := s.retryBusy(func() error {
		return s.writer.script(
			"PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 250; PRAGMA synchronous = " + level,
		)
	}); err != nil {
		return s.explain(err)
	}
	// PRAGMA journal_mode is stored in the file, the others are settings of the connection, so all run each time.
	if version == len(steps) {
		return nil
	}
	return s.explain(s.migrate(steps))
}

// version returns the number of migrations that the file has.
func (s *Store) version() (int, error) {
	row, err := s.writer.row(
		3,
		"SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version), "+
			"(SELECT count(*) FROM sqlite_schema)",
	)
	if err != nil {
		return 0, err
	}
	id, version, tables := row[0].(int64), row[1].(int64), row[2].(int64)
	if id != applicationID && (id != 0 || version != 0 || tables != 0) {
		return 0, fmt.Errorf("%w: it is a SQLite file of something else", journal.ErrNotJournal)
	}
	return int(version), nil
}

// migrate applies the missing migrations in one transaction, so that a crash leaves the old or the new schema.
func (s *Store) migrate(steps []string) error {
	if err := s.beginImmediate(); err != nil {
		return err
	}
	err := s.upgrade(steps)
	if err == nil {
		_, err = s.writer.exec("COMMIT")
	}
	if err != nil {
		s.writer.rollback()
	}
	return err
}

// upgrade runs the missing migrations in the current transaction.
func (s *Store) upgrade(steps []string) error {
	version, err := s.version() // another process may have migrated it
	if err != nil {
		return err
	}
	for i := version; i < len(steps); i++ {
		text, err := migrations.ReadFile(steps[i])
		if err != nil {
			return err
		}
		if err := s.writer.script(string(text)); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimPrefix(steps[i], "migrations/"), err)
		}
	}
	return s.writer.script(fmt.Sprintf(
		"PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, len(steps),
	))
}

// retryBusy repeats a call that fails because another program holds a lock, for up to busyTimeout. It announces that
// this process waits (writeTurn). Once the store is open, only the committer may call it.
func (s *Store) retryBusy(try func() error) error {
	defer s.turn.enter()
	var deadline time.Time
	for {
		err := try()
		if !isBusy(err) {
			return err
		}
		now := time.Now()
		if deadline.IsZero() {
			deadline = now.Add(s.busyTimeout)
		}
		if now.After(deadline) {
			return err
		}
		s.turn.wait()
	}
}

// beginImmediate starts a transaction with SQLite's write lock: it cannot fail later because another process writes.
func (s *Store) beginImmediate() error {
	return s.retryBusy(func() error {
		_, err := s.writer.exec("BEGIN IMMEDIATE")
		return err
	})
}

// explain wraps an error in the matching error of journal, unless it is one. If the file is gone, that is the reason:
// a new connection may have created an empty file in its place.
func (s *Store) explain(err error) error {
	if err == nil {
		return nil
	}
	if gone := s.Present(); gone != nil {
		return gone
	}
	if errors.Is(err, journal.ErrNotJournal) {
		return fmt.Errorf("%w: %s", err, s.path)
	}
	return explain(s.path, err)
}

var _ journal.Presence = (*Store)(nil)

// Present implements journal.Presence. SQLite itself continues to write a file
// that has no name anymore.
func (s *Store) Present() error {
	there, err := os.Stat(s.path)
	if err == nil && os.SameFile(s.fileInfo, there) {
		s.present.Store(time.Now().UnixMilli())
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // it cannot be seen, which does not mean that it is gone
	}
	return &journal.GoneError{Path: s.path, Since: time.UnixMilli(s.present.Load())}
}

// Close implements journal.Store.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		<-s.stopped
		return nil
	}
	// Batches that are queued are still written, and their callbacks run, before stopped is closed.
	s.jobs.Close()
	<-s.stopped
	s.prepared.close()
	err := errors.Join(s.reader.Close(), s.writer.Close(), s.turn.file.Close())
	return explain(s.path, err)
}
