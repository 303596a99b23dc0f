package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	sqlite "modernc.org/sqlite"

	"github.com/espalier-run/espalier/internal/journal"
)

// conn is a connection without database/sql: only the committer uses it, and runs the same few statements repeatedly.
// It is not safe for concurrent use; args is reused by every statement.
type conn struct {
	driver.Conn
	prepared map[string]driver.Stmt
	args     []driver.NamedValue
	heads    map[journal.RunID]head // of the runs with recent appends
	version  uint32                 // of the file, when heads were valid
}

// connect opens a connection.
func connect(dsn string) (*conn, error) {
	c, err := new(sqlite.Driver).Open(dsn)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, prepared: map[string]driver.Stmt{}, heads: map[journal.RunID]head{}}, nil
}

// dsn returns the URI of a file, in which all characters of the path are escaped.
func dsn(path string, parameters ...string) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // C:/…
	}
	u := url.URL{Scheme: "file", Path: slashed, RawQuery: strings.Join(parameters, "&")}
	return u.String()
}

// script runs statements that are not prepared.
func (c *conn) script(text string) error {
	_, err := c.Conn.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return err
}

// exec runs a prepared statement. It uses no caller's context: the transaction is
// shared by several callers.
func (c *conn) exec(query string, args ...any) (driver.Result, error) {
	stmt, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	return stmt.(driver.StmtExecContext).ExecContext(context.Background(), c.bind(args))
}

// changed runs a statement and returns the number of rows that it changed.
func (c *conn) changed(query string, args ...any) (int64, error) {
	result, err := c.exec(query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// errNoRow is the error of a query for one row that has none.
var errNoRow = errors.New("no row")

// row runs a query for one row; errNoRow if there is none.
func (c *conn) row(columns int, query string, args ...any) ([]driver.Value, error) {
	stmt, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(context.Background(), c.bind(args))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	values := make([]driver.Value, columns)
	if err := rows.Next(values); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errNoRow
		}
		return nil, err
	}
	return values, nil
}

// rollback undoes a transaction, and drops what it has cached about runs.
func (c *conn) rollback() {
	// SQLite rolls back by itself after some errors; then there is no transaction, and this fails without consequences.
	c.script("ROLLBACK")
	clear(c.heads)
}

// seen records that the cache about runs is valid for the current version of the
// file.
func (c *conn) seen() { c.version, _ = c.Conn.(sqlite.FileControl).FileControlDataVersion("main") }

// recheck drops the cache about runs if another process has written.
func (c *conn) recheck() {
	if version, err := c.Conn.(sqlite.FileControl).FileControlDataVersion("main"); err != nil || version != c.version {
		clear(c.heads)
	}
}

// prepare returns a prepared statement, which stays open as long as the connection. The set of query texts is bounded:
// values are always parameters.
func (c *conn) prepare(query string) (driver.Stmt, error) {
	stmt := c.prepared[query]
	if stmt == nil {
		var err error
		if stmt, err = c.Conn.Prepare(query); err != nil {
			return nil, err
		}
		c.prepared[query] = stmt
	}
	return stmt, nil
}

// bind returns the arguments of a statement. They are valid until the next call.
func (c *conn) bind(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

// Close closes the statements and the connection.
func (c *conn) Close() error {
	for _, stmt := range c.prepared {
		stmt.Close()
	}
	return c.Conn.Close()
}
