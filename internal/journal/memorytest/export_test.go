package memorytest

import "github.com/espalier-run/espalier/internal/journal"

// Tamper replaces what is stored of an append.
func (s *Store) Tamper(at journal.Pos, body, hash []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.log {
		if x.pos == at {
			x.body, x.hash = body, hash
		}
	}
}
