package sqlite

import (
	"sync"

	"github.com/espalier-run/espalier/internal/journal"
)

// recentAppends has the newest appends of this process, as long as no other
// process has appended in between.
type recentAppends struct {
	mu    sync.Mutex
	rows  []remembered
	bytes int
	had   journal.Pos // a reader has read everything up to here
}

type remembered struct {
	journal.StoredAppend                 // without a body if there are events
	events               []journal.Event // as appended; nil if the stored form differs
	size                 int             // of the stored form
}

// Bounds. A reader that is further behind reads the file.
const (
	maxRemembered      = 64 * maxGroup
	maxRememberedBytes = 8 << 20
	maxRecalled        = 16 * maxGroup // per call
)

// add adds an append that is durable.
func (m *recentAppends) add(row remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.rows); n > 0 && m.rows[n-1].Pos+1 != row.Pos {
		m.rows, m.bytes = m.rows[:0], 0
	}
	m.rows = append(m.rows, row)
	m.bytes += row.size
	if len(m.rows) <= maxRemembered && m.bytes <= maxRememberedBytes {
		return
	}
	// Drop half of the rows at once, to amortize the cost of moving the rest.
	m.drop((len(m.rows) + 1) / 2)
}

// drop removes the oldest rows.
func (m *recentAppends) drop(n int) {
	for i := range n {
		m.bytes -= m.rows[i].size
	}
	kept := copy(m.rows, m.rows[n:])
	clear(m.rows[kept:])
	m.rows = m.rows[:kept]
}

// forget records that a reader has read everything up to a position, and drops
// what was there at the previous call: other readers have had the time to get it,
// and can read the file.
func (m *recentAppends) forget(pos journal.Pos) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.rows); n > 0 {
		m.drop(int(min(max(m.had+1-m.rows[0].Pos, 0), journal.Pos(n))))
	}
	if len(m.rows) == 0 {
		m.rows = nil
	}
	m.had = pos
}

// after returns rows that follow a position, at most maxRecalled.
func (m *recentAppends) after(pos journal.Pos) []remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.rows) == 0 || pos+1 < m.rows[0].Pos {
		return nil
	}
	from := int(pos + 1 - m.rows[0].Pos)
	if from >= len(m.rows) {
		return nil
	}
	return append([]remembered(nil), m.rows[from:min(from+maxRecalled, len(m.rows))]...)
}

var _ journal.TailCache = (*Store)(nil)

// CachedTail implements journal.TailCache.
func (s *Store) CachedTail(after journal.Pos) ([]journal.Appended, error) {
	rows := s.recent.after(after)
	out := make([]journal.Appended, len(rows))
	for i := range rows {
		events := rows[i].events
		if events == nil {
			var err error
			if events, err = rows[i].Decode(); err != nil {
				return nil, err
			}
		}
		out[i] = journal.Appended{Pos: rows[i].Pos, Run: rows[i].Run, Events: events}
	}
	return out, nil
}
