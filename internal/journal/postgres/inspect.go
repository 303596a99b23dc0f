package postgres

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/espalier-run/espalier/internal/journal"
)

// Info describes a database and the journal in it for people.
type Info struct {
	Address  string // host and port, or the folder of a socket; several are separated by commas
	Database string
	Schema   string
	Role     string // the user of the URL

	// What only the server knows.
	Server  string        // its version
	Latency time.Duration // of a statement
	Pooled  bool          // there is a pooler between this process and the server
	Version int           // of the journal; 0 if it does not exist
	Latest  int           // the version that this release creates
}

// inspectTimeout is how long Inspect waits for the server.
const inspectTimeout = 5 * time.Second

// Describe returns what a URL says about a database, without its password.
func Describe(url string) (Info, error) {
	_, info, err := describe(url)
	return info, unsuitable(err)
}

// describe is Describe with the configuration of the driver. A URL can have several hosts, and the driver adds
// fallbacks with and without TLS for each.
func describe(url string) (*pgxpool.Config, Info, error) {
	config, schema, err := parse(url, &Options{})
	if err != nil {
		return nil, Info{}, err
	}
	c := config.ConnConfig
	var hosts []string
	add := func(host string, port uint16) {
		if !filepath.IsAbs(host) {
			host = net.JoinHostPort(host, strconv.Itoa(int(port)))
		}
		if !slices.Contains(hosts, host) { // with TLS and without
			hosts = append(hosts, host)
		}
	}
	add(c.Host, c.Port)
	for _, f := range c.Fallbacks {
		add(f.Host, f.Port)
	}
	return config, Info{
		Address: strings.Join(hosts, ","), Database: cmp.Or(c.Database, c.User), Role: c.User, Schema: schema,
	}, nil
}

// Inspect asks the server of a URL whether it can be used. It changes nothing. The information is that of Describe if
// the server cannot be reached.
func Inspect(ctx context.Context, url string) (info Info, err error) {
	defer func() { err = unsuitable(explain(err)) }()
	config, info, err := describe(url)
	if err != nil {
		return info, err
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	// A Store that is not opened: it has only what probe and version need.
	s := &Store{schema: pgx.Identifier{info.Schema}.Sanitize(), name: info.Schema}
	if err := s.probe(ctx, config); err != nil {
		return info, err
	}
	defer s.conn.Close(context.Background())
	info.Pooled = s.pooled
	if err := s.conn.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&info.Server); err != nil {
		return info, err
	}
	begun := time.Now()
	if err := s.conn.Ping(ctx); err != nil {
		return info, err
	}
	info.Latency = time.Since(begun)
	steps, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return info, err
	}
	info.Latest = len(steps)
	version, minimum, err := s.version(ctx)
	info.Version = version
	switch {
	case err != nil:
		return info, err
	case minimum > info.Latest:
		where := "the journal in the schema " + s.name
		return info, &journal.NewerError{Path: where, Have: version, Expect: info.Latest}
	case version == 0:
		return info, s.mayCreate(ctx)
	}
	return info, s.mayUse(ctx)
}

// mayCreate returns an error if the role of the connection has no right to create the journal.
func (s *Store) mayCreate(ctx context.Context) error {
	var may bool
	err := s.conn.QueryRow(ctx, `SELECT coalesce(
		(SELECT has_schema_privilege(oid, 'CREATE') FROM pg_catalog.pg_namespace WHERE nspname = $1),
		has_database_privilege(current_database(), 'CREATE'))`, s.name).Scan(&may)
	if err == nil && !may {
		err = fmt.Errorf("the role has no right to create the schema %s and its tables", s.name)
	}
	return err
}

// mayUse returns an error if the role of the connection lacks a right on a table of the journal.
func (s *Store) mayUse(ctx context.Context) error {
	var lacks string
	err := s.conn.QueryRow(ctx, `SELECT coalesce(string_agg(c.relname, ', ' ORDER BY c.relname), '')
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind = 'r' AND NOT (
			has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
			AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))`, s.name).Scan(&lacks)
	if err == nil && lacks != "" {
		err = fmt.Errorf("the role lacks rights on tables of the schema %s: %s", s.name, lacks)
	}
	return err
}
