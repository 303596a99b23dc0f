package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/espalier-run/espalier/internal/journal"
)

// Load implements journal.Registers.
func (s *Store) Load(ctx context.Context, key string) (journal.Register, error) {
	r := journal.Register{Key: key}
	err := s.read(ctx, func(ctx context.Context) error {
		err := s.pool.QueryRow(ctx, s.q("SELECT version, data FROM @.registers WHERE key = $1"), []byte(key)).
			Scan(&r.Version, &r.Data)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return r, err
}

// Save implements journal.Registers.
func (s *Store) Save(ctx context.Context, r journal.Register) (version int64, err error) {
	const (
		create = "INSERT INTO @.registers (key, data) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING version"
		change = "UPDATE @.registers SET data = $2, version = DEFAULT WHERE key = $1 AND version = $3 RETURNING version"
		remove = "DELETE FROM @.registers WHERE key = $1 AND version = $2 RETURNING 0::bigint"
		absent = "SELECT 0::bigint WHERE NOT EXISTS (SELECT 1 FROM @.registers WHERE key = $1)"
	)
	text, args := change, []any{[]byte(r.Key), r.Data, r.Version}
	switch {
	case r.Data == nil && r.Version == 0:
		text, args = absent, args[:1]
	case r.Data == nil:
		text, args = remove, []any{[]byte(r.Key), r.Version}
	case r.Version == 0:
		text, args = create, args[:2]
	}
	err = s.call(ctx, func() error {
		err := s.pool.QueryRow(ctx, s.q(text), args...).Scan(&version)
		if errors.Is(err, pgx.ErrNoRows) {
			return refusal{journal.ErrConflict}
		}
		return err
	})
	return version, err
}

// List implements journal.Registers.
func (s *Store) List(ctx context.Context, prefix string) ([]journal.Register, error) {
	var out []journal.Register
	var key []byte
	var r journal.Register
	err := s.query(ctx, []any{&key, &r.Version, &r.Data}, func() error {
		r.Key = string(key)
		out = append(out, r)
		return nil
	}, "SELECT key, version, data FROM @.registers WHERE key >= $1 AND ($2 = ''::bytea OR key < $2) ORDER BY key",
		[]byte(prefix), []byte(journal.KeysAfter(prefix)))
	return out, err
}
