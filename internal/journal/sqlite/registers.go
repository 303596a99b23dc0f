package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/espalier-run/espalier/internal/journal"
)

// Load implements journal.Registers.
func (s *Store) Load(ctx context.Context, key string) (journal.Register, error) {
	r := journal.Register{Key: key}
	err := s.row(ctx, "SELECT version, data FROM registers WHERE key = ?", []byte(key)).Scan(&r.Version, &r.Data)
	if errors.Is(err, sql.ErrNoRows) {
		return r, nil
	}
	r.Data = filled(r.Data)
	return r, s.failed(ctx, err)
}

// Save implements journal.Registers.
func (s *Store) Save(ctx context.Context, r journal.Register) (version int64, err error) {
	err = s.write(ctx, func(c *conn) error {
		row, err := c.row(1, "SELECT coalesce((SELECT version FROM registers WHERE key = ?), 0)", []byte(r.Key))
		switch {
		case err != nil:
			return err
		case row[0].(int64) != r.Version:
			return refuse(journal.ErrConflict)
		}
		if _, err := c.exec("DELETE FROM registers WHERE key = ?", []byte(r.Key)); err != nil || r.Data == nil {
			return err
		}
		added, err := c.exec("INSERT INTO registers (key, data) VALUES (?, ?)", []byte(r.Key), r.Data)
		if err != nil {
			return err
		}
		version, err = added.LastInsertId()
		return err
	})
	if err != nil {
		return 0, err
	}
	return version, nil
}

// List implements journal.Registers.
func (s *Store) List(ctx context.Context, prefix string) ([]journal.Register, error) {
	registers, err := collect(ctx, s, func(r *journal.Register) []any { return []any{&r.Key, &r.Version, &r.Data} },
		"SELECT key, version, data FROM registers WHERE key >= ?1 AND (?2 = x'' OR key < ?2) ORDER BY key",
		[]byte(prefix), filled([]byte(journal.KeysAfter(prefix))))
	for i := range registers {
		registers[i].Data = filled(registers[i].Data)
	}
	return registers, err
}
