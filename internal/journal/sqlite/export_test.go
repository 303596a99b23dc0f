package sqlite

import (
	"context"

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
