package sqlite

import (
	"context"
	"os"

	"github.com/espalier-run/espalier/internal/journal"
)

// Script runs SQL on the connection that writes, between two groups.
func (s *Store) Script(text string) error {
	return s.write(context.Background(), func(c *conn) error { return c.script(text) })
}

// Pragma reads a setting of the connection that writes.
func (s *Store) Pragma(name string) (value any, err error) {
	err = s.write(context.Background(), func(c *conn) error {
		row, err := c.row(1, "PRAGMA "+name)
		if err == nil {
			value = row[0]
		}
		return err
	})
	return value, err
}

// The queries, for a look at their plans.
var (
	DueQuery  = dueQuery
	TailQuery = tailQuery
	MailQuery = mailQuery
)

// ListingQuery is the query of a page of the run list.
func ListingQuery(f journal.Filter) string {
	query, _ := listing(&f)
	return query
}

// OnSync has somebody else make commits durable from the next one on; he is given
// what would do it.
func (s *Store) OnSync(do func(f *os.File, sync func(*os.File) error) error) {
	_ = s.write(context.Background(), func(*conn) error {
		sync := s.disk.sync
		s.disk.sync = func(f *os.File) error { return do(f, sync) }
		return refuse(errNoRow) // nothing was written
	})
}
