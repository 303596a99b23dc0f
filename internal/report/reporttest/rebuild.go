package reporttest

import (
	"context"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// Deriver derives records from the journal. It is a report.Writer.
type Deriver interface {
	Derive(
		ctx context.Context, run journal.RunID, line func(run *report.Run, line []byte) error,
		applied func(journal.Seq),
	) error
}

// Rebuild returns the records of a root run and of its children from the journal, whatever is on disk.
func Rebuild(ctx context.Context, w Deriver, run journal.RunID) (map[journal.RunID][]byte, error) {
	all := map[journal.RunID][]byte{}
	err := w.Derive(ctx, run, func(run *report.Run, line []byte) error {
		all[run.ID] = append(all[run.ID], line...)
		return nil
	}, nil)
	return all, err
}
