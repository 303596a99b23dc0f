package sqlite

import (
	"errors"
	"fmt"
)

// A run's row names its newest append, its last event and when that was. To say
// so anew for each append would be half of the writing. So the row may be behind:
// by at most mostBehind appends of whatever runs. Whoever needs to know looks
// there for a newer one. A row is never behind when its run does not run, or
// nobody has it, or something else in the row has just changed.

// mostBehind is short enough for a look to cost next to nothing.
const mostBehind = 64

// newestWhere finds the appends of a run that its row does not know of.
var newestWhere = fmt.Sprintf(
	"a.pos > %%[1]s AND a.pos <= %%[1]s + %d AND a.run = %%[2]s ORDER BY a.pos DESC LIMIT 1", mostBehind,
)

// newestQuery is given the append that the row names, and the run's number.
var newestQuery = "SELECT a.pos, a.seq FROM appends a WHERE " + fmt.Sprintf(newestWhere, "?1", "?2")

// orNewer is a column of a run's row, as the newest append has it.
func orNewer(column, ofAppend string) string {
	return fmt.Sprintf("CASE WHEN status = 'running' AND root = '' THEN coalesce((SELECT a.%s FROM appends a WHERE %s), %[3]s) ELSE %[3]s END",
		ofAppend, fmt.Sprintf(newestWhere, "runs.head", "runs.n"), column)
}

// newest is the newest append of a run whose row names this one, and its last event.
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
