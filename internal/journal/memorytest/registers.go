package memorytest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
)

// Load implements journal.Registers.
func (s *Store) Load(ctx context.Context, key string) (journal.Register, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(ctx.Err(), s.open()); err != nil {
		return journal.Register{}, err
	}
	r, ok := s.registers[key]
	if !ok {
		return journal.Register{Key: key}, nil
	}
	r.Data = slices.Clone(r.Data)
	return r, nil
}

// Save implements journal.Registers.
func (s *Store) Save(ctx context.Context, r journal.Register) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(ctx.Err(), s.open()); err != nil {
		return 0, err
	}
	if s.registers[r.Key].Version != r.Version {
		return 0, journal.ErrConflict
	}
	if r.Data == nil {
		delete(s.registers, r.Key)
		return 0, nil
	}
	s.lastRegister++
	s.registers[r.Key] = journal.Register{
		Key: r.Key, Data: append([]byte{}, r.Data...), Version: s.lastRegister,
	}
	return s.lastRegister, nil
}

// List implements journal.Registers.
func (s *Store) List(ctx context.Context, prefix string) ([]journal.Register, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := cmp.Or(ctx.Err(), s.open()); err != nil {
		return nil, err
	}
	var out []journal.Register
	for _, key := range slices.Sorted(maps.Keys(s.registers)) {
		if strings.HasPrefix(key, prefix) {
			r := s.registers[key]
			r.Data = slices.Clone(r.Data)
			out = append(out, r)
		}
	}
	return out, nil
}
