package sqlite

import (
	"errors"
	"fmt"
)

// A run's row names its newest append, the last event and its time. Updating it
// with each append would double the writes. So the row may lag behind by at most
// maxLag appends of any runs, and readers look for newer ones there. A row
// does not lag if its run is not running, has no owner, or another column has
// just changed.

// maxLag is small enough for the lookup to be cheap.
const maxLag = 64

// newestWhere selects the newest append of a run after the one that its row
// names.
var newestWhere = fmt.Sprintf(
	"a.pos > %%[1]s AND a.pos <= %%[1]s + %d AND a.run = %%[2]s ORDER BY a.pos DESC LIMIT 1", maxLag,
)

// newestQuery has two parameters: the append that the row names, and the run's
// number.
var newestQuery = "SELECT a.pos, a.seq FROM appends a WHERE " + fmt.Sprintf(newestWhere, "?1", "?2")

// orNewer returns the SQL of a column of a run's row with the value of the newest
// append.
func orNewer(column, ofAppend string) string {
	return fmt.Sprintf("CASE WHEN status = 'running' AND root = '' "+
		"THEN coalesce((SELECT a.%s FROM appends a WHERE %s), %[3]s) ELSE %[3]s END",
		ofAppend, fmt.Sprintf(newestWhere, "runs.head", "runs.n"), column)
}

// newest returns the newest append of a run and its last event, given those that
// its row names.
func (c *conn) newest(n, named, seq int64) (pos, last int64, err error) {
	row, err := c.row(2, newestQuery, named, n)
	if errors.Is(err, errNoRow) {
		return named, seq, nil
	}
	if err != nil {
		return 0, 0, err
	}
	return row[0].(int64), row[1].(int64), nil
}
