package sqlite

import (
	"sync"

	"github.com/espalier-run/espalier/internal/journal"
)

// memory is the newest appends of this process, as long as no other process
// has appended in between.
type memory struct {
	mu    sync.Mutex
	rows  []remembered
	bytes int
}

type remembered struct {
	stored
	id journal.RunID
}

// What is remembered at most: readers are a few groups behind, or they read.
const (
	maxRemembered      = 4 * maxGroup
	maxRememberedBytes = 1 << 20
)

// add remembers an append that is durable.
func (m *memory) add(row remembered) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.rows); n > 0 && m.rows[n-1].pos+1 != row.pos {
		m.rows, m.bytes = m.rows[:0], 0
	}
	m.rows = append(m.rows, row)
	m.bytes += len(row.body)
	if len(m.rows) <= maxRemembered && m.bytes <= maxRememberedBytes {
		return
	}
	// Half of it at once, so that moving the rest costs next to nothing for each.
	drop := (len(m.rows) + 1) / 2
	for i := range drop {
		m.bytes -= len(m.rows[i].body)
	}
	kept := copy(m.rows, m.rows[drop:])
	clear(m.rows[kept:])
	m.rows = m.rows[:kept]
}

// after gives what follows a place, at most a page of it.
func (m *memory) after(pos int64) []remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.rows) == 0 || pos+1 < m.rows[0].pos {
		return nil
	}
	from := int(pos + 1 - m.rows[0].pos)
	if from >= len(m.rows) {
		return nil
	}
	return append([]remembered(nil), m.rows[from:min(from+page, len(m.rows))]...)
}

var _ journal.Recaller = (*Store)(nil)

// Recall implements journal.Recaller.
func (s *Store) Recall(after journal.Pos) ([]journal.Appended, error) {
	rows := s.recent.after(int64(after))
	out := make([]journal.Appended, len(rows))
	for i := range rows {
		events, err := rows[i].decode(rows[i].id)
		if err != nil {
			return nil, err
		}
		out[i] = journal.Appended{Pos: journal.Pos(rows[i].pos), Run: rows[i].id, Events: events}
	}
	return out, nil
}
