package postgres

import "context"

// Size returns how many bytes the tables of the journal and their indexes use.
func (s *Store) Size(ctx context.Context) (int64, error) {
	var bytes int64
	err := s.query(ctx, []any{&bytes}, func() error { return nil },
		`SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`, s.name)
	return bytes, err
}
