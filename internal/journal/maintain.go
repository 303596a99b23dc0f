package journal

import "context"

// Maintainer is a store that keeps its data in a file of its own. Stores on a
// database server are maintained there.
type Maintainer interface {
	// Check returns what is damaged in the file: its structure, and rows that
	// belong to no run.
	Check(ctx context.Context) ([]string, error)
	// Backup writes a copy of the store to a file that does not exist yet. Other
	// processes may write meanwhile.
	Backup(ctx context.Context, path string) error
	// Compact returns the space of removed runs to the file system, if there is
	// much of it, and reports how many bytes that was.
	Compact(ctx context.Context) (int64, error)
}
