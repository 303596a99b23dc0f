package postgres

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/owner"
	"github.com/espalier-run/espalier/internal/journal/queue"
)

// Options configure a Store. The zero Options are the defaults.
type Options struct {
	// Lease is how long after its last sign of life a process counts as alive;
	// 10 seconds if zero.
	Lease time.Duration
	// MaxWait is how long a call waits for a server that is unavailable; one
	// minute if zero.
	MaxWait time.Duration
	Log     *slog.Logger // nil discards
	// Notice receives messages for people; nil discards them.
	Notice func(text string)
	// Objects keeps blobs that are larger than ObjectsAbove, in bytes; 1 MiB if zero. Nil keeps all in the database.
	Objects      Objects
	ObjectsAbove int64
}

const (
	defaultLease   = 10 * time.Second
	minLease       = time.Second
	defaultMaxWait = time.Minute
	openWait       = 3 * time.Second
	connectTimeout = 10 * time.Second // unless the URL has one
)

// Store is a journal.Store in a PostgreSQL database.
type Store struct {
	schema  string        // quoted
	name    string        // not quoted
	pooled  bool          // there is a pooler between this process and the server
	lease   time.Duration // see Options
	maxWait time.Duration // how long a call waits for an unavailable server
	log     *slog.Logger
	notice  func(string)
	config  *pgx.ConnConfig // of connections outside of the pool
	pool    *pgxpool.Pool   // for everything but appends, the lease and notifications

	objects      Objects
	objectsAbove int64
	uploads      sync.WaitGroup

	jobs        *queue.Queue[job] // for the committer
	changes     queue.Notifier
	own         ownTail
	lastPos     atomic.Int64  // position of the last append of this Store
	stopped     chan struct{} // closed when the committer has ended
	closed      atomic.Bool
	lifetime    context.Context // ends with Close
	endLifetime context.CancelFunc
	routines    sync.WaitGroup
	worker      worker
	pings       pings
	waiting     atomic.Bool // people know that the server is unavailable

	conn *pgx.Conn // of the committer; nil when it has to connect

	mu        sync.Mutex              // guards the fields below; locked before worker.mu
	heads     map[journal.RunID]head  // runs that this process owns
	stored    map[string]bool         // blobs that are in the database
	uploading map[journal.RunID][]job // batches that wait for an upload of an earlier one
	noticed   map[journal.RunID]bool  // runs with a notice about an upload
}

var _ journal.Store = (*Store)(nil)

//go:embed migrations/*.sql
var migrations embed.FS

// IsURL reports whether a store setting names a PostgreSQL database.
func IsURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// idleTime is how long a connection for reading is kept without use.
const idleTime = 2 * time.Second

// defaultSchema is the schema of a journal whose URL names none.
const defaultSchema = "espalier"

// errNotURL is the error of a setting that names no database. It does not repeat the text, which may contain a
// password.
var errNotURL = errors.New("the store is not a URL of the form postgres://user@host/database")

// maxName is the length of names, in bytes. PostgreSQL cuts off longer ones without an error.
const maxName = 63

// parse splits a URL into what the driver needs and the schema of the journal.
func parse(text string, o *Options) (*pgxpool.Config, string, error) {
	u, err := url.Parse(text)
	if err != nil || !IsURL(text) {
		return nil, "", errNotURL
	}
	values := u.Query()
	schema := values.Get("schema")
	if text := values.Get("lease"); text != "" {
		if o.Lease, err = time.ParseDuration(text); err != nil || o.Lease < minLease {
			return nil, "", fmt.Errorf("the lease of the store is not a duration of at least %s: %q", minLease, text)
		}
	}
	// Take out the parameters that the driver would pass to the server. The others keep their spelling: to the driver,
	// as to libpq, a plus is no space.
	u.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(parameter string) bool {
		name, _, _ := strings.Cut(parameter, "=")
		name, _ = url.QueryUnescape(name) // the driver reports errors
		return name == "schema" || name == "lease" || parameter == ""
	}), "&")
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, "", err
	}
	config.ConnConfig.ConnectTimeout = cmp.Or(config.ConnConfig.ConnectTimeout, connectTimeout)
	config.PingTimeout = cmp.Or(config.PingTimeout, pingTimeout)
	if !values.Has("pool_max_conns") {
		config.MaxConns = 4
	}
	if !values.Has("pool_max_conn_idle_time") { // others may need them: a server has 100 by default
		config.MaxConnIdleTime, config.HealthCheckPeriod = idleTime, idleTime
	}
	schema = cmp.Or(schema, defaultSchema)
	if len(schema) > maxName || strings.ContainsAny(schema, "'\x00") {
		return nil, "", fmt.Errorf("the schema of the store has to be a name of at most %d bytes without \"'\": %q",
			maxName, schema)
	}
	return config, schema, nil
}

// Open opens the journal in a schema of a database, and creates it if it does
// not exist. The URL is that of libpq. Its parameter "schema" names the schema,
// and "lease" overrides the lease of the options.
func Open(ctx context.Context, url string, o Options) (_ *Store, err error) {
	defer func() { err = unsuitable(err) }()
	config, schema, err := parse(url, &o)
	if err != nil {
		return nil, err
	}
	s := &Store{
		schema: pgx.Identifier{schema}.Sanitize(), name: schema, lease: o.Lease, maxWait: o.MaxWait, log: o.Log,
		notice: o.Notice, objects: o.Objects, objectsAbove: cmp.Or(o.ObjectsAbove, defaultObjectsAbove),
		jobs: queue.New[job](), stopped: make(chan struct{}),
		uploading: map[journal.RunID][]job{}, noticed: map[journal.RunID]bool{},
		heads: map[journal.RunID]head{}, stored: map[string]bool{},
	}
	s.lease = cmp.Or(s.lease, defaultLease)
	s.maxWait = cmp.Or(s.maxWait, defaultMaxWait)
	s.log = cmp.Or(s.log, slog.New(slog.DiscardHandler))
	if s.notice == nil {
		s.notice = func(string) {}
	}
	s.lifetime, s.endLifetime = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			s.endLifetime()
			if s.conn != nil {
				s.conn.Close(context.Background())
			}
			if s.pool != nil {
				s.pool.Close()
			}
		}
	}()
	// Wait for a server that does not answer only for a short time at first: a wrong URL should be reported soon. A
	// server that accepts the connection shows that the URL is right, so then the full time applies.
	maxWait := s.maxWait
	s.maxWait = min(maxWait, openWait) // the URL may be wrong
	err = s.retry(ctx, func() error { return s.probe(ctx, config) })
	s.maxWait = maxWait
	if _, silent := errors.AsType[*silentError](err); silent || code(err) == codeTooMany { // the URL is right
		err = s.retry(ctx, func() error { return s.probe(ctx, config) })
	}
	if err != nil {
		return nil, explain(err)
	}
	// The schema has to exist before the pool is opened and this process gets its row.
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	config.ConnConfig = s.config.Copy()
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, explain(err)
	}
	s.worker.info = owner.Describe("", false)
	// It is the second connection of this process, which a pooler may not have.
	if err := s.retry(ctx, func() error { return s.callWithPing(ctx, noticeAfter, s.register) }); err != nil {
		return nil, explain(err)
	}
	s.routines.Go(s.renewLease)
	go s.commit()
	return s, nil
}

// probe connects, and finds out whether there is a pooler between this process
// and the server: the process ID that a pooler announces is not the server's.
func (s *Store) probe(ctx context.Context, config *pgxpool.Config) error {
	s.config = config.ConnConfig.Copy()
	conn, err := pgx.ConnectConfig(ctx, s.config)
	if err != nil {
		return err
	}
	var pid uint32
	var version int
	var isolation string
	limited, cancel := context.WithTimeout(ctx, unanswered)
	defer cancel()
	err = conn.QueryRow(limited, `SELECT pg_backend_pid(), current_setting('server_version_num')::int,
		current_setting('default_transaction_isolation')`, pgx.QueryExecModeSimpleProtocol,
	).Scan(&pid, &version, &isolation)
	if err != nil {
		conn.Close(ctx)
		if limited.Err() != nil && ctx.Err() == nil {
			return &silentError{config.MaxConns + otherConns, err}
		}
		return err
	}
	s.pooled = pid != conn.PgConn().PID()
	const oldest = 130000
	// The code relies on "read committed": a statement sees what was committed before it, not before its transaction.
	// If that is not the default, it is set for each session, which a pooler would not keep.
	switch {
	case version < oldest:
		err = errUnusable{fmt.Errorf("the journal needs PostgreSQL 13 or later; the server has version %d",
			version/10000)}
	case isolation == "read committed" && !s.pooled:
		s.conn = conn
		return s.keepAlive(ctx)
	case isolation == "read committed":
		s.config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	case s.pooled:
		const form = "the default transaction isolation is %q; behind a pooler it has to be \"read committed\""
		err = errUnusable{fmt.Errorf(form, isolation)}
	default:
		s.config.RuntimeParams["default_transaction_isolation"] = "read committed"
	}
	conn.Close(ctx)
	if err != nil {
		return err
	}
	if s.conn, err = pgx.ConnectConfig(ctx, s.config); err != nil || s.pooled {
		return err
	}
	return s.keepAlive(ctx)
}

// keepAlive lets the server notice within a lease that the machine of this process is gone, on the connection of
// appends and on later ones. Until it does, a group of appends in flight keeps its locks.
func (s *Store) keepAlive(ctx context.Context) error {
	idle, interval := max(1, int(s.lease.Seconds()/2)), max(1, int(s.lease.Seconds()/4))
	var set strings.Builder
	for name, value := range map[string]int{
		"tcp_keepalives_idle": idle, "tcp_keepalives_interval": interval, "tcp_keepalives_count": 2,
		"tcp_user_timeout": 1000 * (idle + 2*interval), // milliseconds
	} {
		if _, own := s.config.RuntimeParams[name]; !own { // the URL may have its own
			s.config.RuntimeParams[name] = strconv.Itoa(value)
			fmt.Fprintf(&set, "SET %s = %d;", name, value)
		}
	}
	_, err := s.conn.Exec(ctx, set.String())
	return err
}

// silentError means that a connection is accepted and a statement not answered.
type silentError struct {
	conns int32 // how many connections a process needs
	err   error
}

func (e *silentError) Error() string {
	return fmt.Sprintf("no answer within %s: if there is a pooler, it may have no free connection (in session mode it "+
		"needs up to %d for each process): %v", unanswered, e.conns, e.err)
}

func (e *silentError) Unwrap() error { return e.err }

// errUnusable is an error that no retry can change.
type errUnusable struct{ error }

func (e errUnusable) Unwrap() error { return e.error }

// q completes the text of a statement: "@" stands for the schema.
func (s *Store) q(text string) string { return strings.ReplaceAll(text, "@", s.schema) }

// prepare migrates the journal if that is necessary, and starts a new era if
// the database was restored from a dump.
func (s *Store) prepare(ctx context.Context) error {
	steps, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	slices.Sort(steps)
	if err := s.retry(ctx, func() error { return s.migrate(ctx, steps) }); err != nil {
		if newer, ok := errors.AsType[*journal.NewerError](err); ok {
			return newer
		}
		return explain(err)
	}
	// Transaction ids start low again after a dump is restored into another cluster; a new era keeps positions growing.
	return explain(s.retry(ctx, func() error {
		_, err := s.conn.Exec(ctx, s.q(`UPDATE @.journal SET era = top - (next << 10) + 1024
			FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next,
				greatest((SELECT mark FROM @.journal), (SELECT max(pos) FROM @.appends)) AS top) x
			WHERE top >= era + (next << 10)`))
		return err
	}))
}

// version returns the version of the journal and the oldest that may use it;
// 0 if the journal does not exist.
func (s *Store) version(ctx context.Context) (version, minimum int, err error) {
	// Not to_regclass: it may answer from a cache that does not know yet what
	// another process has committed.
	var exists bool
	err = s.conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n
		ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'journal')`, s.name).Scan(&exists)
	if err != nil || !exists {
		return 0, 0, err
	}
	err = s.conn.QueryRow(ctx, s.q("SELECT version, minimum FROM @.journal")).Scan(&version, &minimum)
	return version, minimum, err
}

// migrate applies the migrations that are missing. A migration that waits for
// a lock blocks every statement behind it, so it gives up soon and is retried.
func (s *Store) migrate(ctx context.Context, steps []string) error {
	if s.conn.IsClosed() {
		conn, err := pgx.ConnectConfig(ctx, s.config)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	version, minimum, err := s.version(ctx)
	if err != nil {
		return err
	}
	if minimum > len(steps) {
		where := "the journal in the schema " + s.name
		return errUnusable{&journal.NewerError{Path: where, Have: version, Expect: len(steps)}}
	}
	if version >= len(steps) {
		return nil
	}
	return pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('lock_timeout', '500ms', true)"); err != nil {
			return err
		}
		// One process migrates at a time. There may be no table yet that could be locked instead.
		_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('espalier:' || $1, 0))", s.name)
		if err != nil {
			return err
		}
		version, _, err := s.version(ctx) // another process may have been faster
		if err != nil {
			return err
		}
		var exists bool // CREATE … IF NOT EXISTS needs the privilege in any case
		err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1)", s.name).
			Scan(&exists)
		if err != nil {
			return err
		}
		if !exists {
			if _, err := tx.Exec(ctx, s.q("CREATE SCHEMA @")); err != nil {
				return err
			}
		}
		for i := version; i < len(steps); i++ {
			text, err := migrations.ReadFile(steps[i])
			if err != nil {
				return err
			}
			for _, statement := range statements(string(text)) {
				if _, err := tx.Exec(ctx, s.q(statement), pgx.QueryExecModeSimpleProtocol); err != nil {
					return fmt.Errorf("%s: %w", strings.TrimPrefix(steps[i], "migrations/"), err)
				}
			}
		}
		_, err = tx.Exec(ctx, s.q("UPDATE @.journal SET version = greatest(version, $1)"), len(steps))
		return err
	})
}

// statements returns the text of a migration without comments, in which "@"
// means nothing. A server accepts several statements at once.
func statements(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i], _, _ = strings.Cut(line, "--")
	}
	return []string{strings.Join(lines, "\n")}
}

// retry repeats what fails because the server is unavailable or transactions
// collided, until the wait limit of the Store or of the context is exceeded.
func (s *Store) retry(ctx context.Context, try func() error) error {
	maxWait := s.maxWait
	if p := journal.WaitLimitOf(ctx); p != nil {
		maxWait = min(maxWait, p.Limit)
	}
	begun := time.Now()
	deadline := begun.Add(maxWait)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := try()
		if err == nil {
			s.noticeRecovered()
		}
		if _, final := errors.AsType[errUnusable](err); final || !isRetryable(err) || time.Now().After(deadline) {
			return err
		}
		if s.closed.Load() {
			return journal.ErrClosed
		}
		s.noticeWaiting(begun, err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// Close implements journal.Admin.
func (s *Store) Close() error {
	s.mu.Lock()
	closed := s.closed.Swap(true)
	s.mu.Unlock()
	if closed {
		<-s.stopped
		return nil
	}
	// Batches whose uploads are under way are queued first, then the queue is closed and drained.
	s.uploads.Wait()
	s.jobs.Close()
	<-s.stopped
	s.endLifetime()
	s.routines.Wait()
	s.unregister()
	s.pool.Close()
	if s.conn != nil {
		s.conn.Close(context.Background())
	}
	return nil
}
