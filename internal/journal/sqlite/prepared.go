package sqlite

import (
	"context"
	"database/sql"
	"sync"

	"github.com/espalier-run/espalier/internal/xmaps"
)

// prepared caches the statements of readers. There are few; parsing one costs
// several times what running it does.
type prepared struct {
	mu    sync.Mutex
	stmts map[string]*sql.Stmt
}

// stmt returns a prepared statement. Preparing waits for a connection, and who has one may wait for mu: so mu is not
// held meanwhile, and a transaction asks only for statements that have been prepared before it began.
func (s *Store) stmt(text string) (*sql.Stmt, error) {
	if stmt := s.prepared.get(text); stmt != nil {
		return stmt, nil
	}
	stmt, err := s.reader.Prepare(text)
	if err != nil {
		return nil, err
	}
	return s.prepared.put(text, stmt), nil
}

// get returns a statement that has been prepared; nil if there is none.
func (p *prepared) get(text string) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stmts[text]
}

// put keeps a statement, and returns the one to use: another goroutine may have prepared the same.
func (p *prepared) put(text string, stmt *sql.Stmt) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.stmts[text]; other != nil {
		stmt.Close()
		return other
	}
	xmaps.Set(&p.stmts, text, stmt)
	return stmt
}

// queryIn runs a query in a transaction, which may be nil.
func (s *Store) queryIn(ctx context.Context, tx *sql.Tx, text string, args ...any) (*sql.Rows, error) {
	stmt, err := s.stmtIn(ctx, tx, text)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// stmtIn returns a prepared statement.
func (s *Store) stmtIn(ctx context.Context, tx *sql.Tx, text string) (*sql.Stmt, error) {
	stmt, err := s.stmt(text)
	if err == nil && tx != nil {
		stmt = tx.StmtContext(ctx, stmt)
	}
	return stmt, err
}

// collect returns the rows of a query. columns returns where the columns of a row go.
func collect[T any](ctx context.Context, s *Store, columns func(*T) []any, text string, args ...any) ([]T, error) {
	return collectIn(ctx, s, nil, columns, text, args...)
}

// collectIn is collect in a transaction, which may be nil.
func collectIn[T any](
	ctx context.Context, s *Store, tx *sql.Tx, columns func(*T) []any, text string, args ...any,
) ([]T, error) {
	rows, err := s.queryIn(ctx, tx, text, args...)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		all = append(all, *new(T))
		if err := rows.Scan(columns(&all[len(all)-1])...); err != nil {
			return nil, s.failed(ctx, err)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, s.failed(ctx, err)
	}
	return all, nil
}

// row runs a query for one row.
func (s *Store) row(ctx context.Context, text string, args ...any) oneRow {
	return s.rowIn(ctx, nil, text, args...)
}

// rowIn is row in a transaction, which may be nil.
func (s *Store) rowIn(ctx context.Context, tx *sql.Tx, text string, args ...any) oneRow {
	stmt, err := s.stmtIn(ctx, tx, text)
	if err != nil {
		return oneRow{err: err}
	}
	return oneRow{Row: stmt.QueryRowContext(ctx, args...)}
}

// oneRow is the result of a query for one row.
type oneRow struct {
	*sql.Row
	err error // of preparing the query
}

// Scan reads the row; sql.ErrNoRows if there is none.
func (r oneRow) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.Row.Scan(into...)
}

// close closes the statements. No reader may use them anymore.
func (p *prepared) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, stmt := range p.stmts {
		stmt.Close() // its connections are closed next
	}
}
