package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/owner"
	"github.com/espalier-run/espalier/internal/journal/postgres"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
	"github.com/espalier-run/espalier/internal/trust"
	"github.com/espalier-run/espalier/internal/xslices"
)

// The journal in the storage folder of a project, and its name after its runs
// were moved to a database.
const (
	JournalFile  = "espalier.db"
	MigratedFile = JournalFile + ".migrated"
)

// InUseError lists the processes that use the storage folder of a project, or the database that its runs are moved to.
type InUseError []owner.Worker

func (e InUseError) Error() string {
	all := xslices.Map(e, func(p owner.Worker) string { return fmt.Sprintf("%s (process %d)", p.Command, p.PID) })
	return "other processes use the runs: " + strings.Join(all, ", ")
}

// MigrateStore moves the runs in the storage folder of a project to a database,
// and renames the journal in the folder so that no process continues them there.
// It returns the path of the renamed journal. An interrupted migration can be
// repeated. It fails with an InUseError while another process uses the folder.
func MigrateStore(
	ctx context.Context, dir, url string, by *trust.Store, log *slog.Logger,
) (done journal.Copied, kept string, err error) {
	if err := makeStorage(dir, by); err != nil {
		return done, "", err
	}
	path, kept := filepath.Join(dir, JournalFile), filepath.Join(dir, MigratedFile)
	if _, err := os.Lstat(kept); !errors.Is(err, fs.ErrNotExist) {
		return done, "", StoreError(fmt.Sprintf(
			"%s already exists: an earlier migration has left it. Move it away", kept))
	}
	process, err := owner.New(filepath.Join(dir, "owners"))
	if err != nil {
		return done, "", err
	}
	defer process.Close()
	if others, err := process.Workers(ctx); err != nil || len(others) > 0 {
		return done, "", errors.Join(err, InUseError(others))
	}
	if done, err = copyToDatabase(ctx, path, url, process, log); err != nil {
		return done, "", err
	}
	if err := renameJournal(path, kept); err != nil {
		return done, "", err
	}
	// A process that has started meanwhile may have added to the journal.
	if others, err := process.Workers(ctx); err != nil || len(others) > 0 {
		return done, "", errors.Join(err, InUseError(others), renameJournal(kept, path))
	}
	return done, kept, moveRecords(dir)
}

// moveRecords moves the records of runs to where this machine keeps those of a
// database. Files that are not records, such as positions in the journal, stay.
func moveRecords(dir string) error {
	from, to := recordsIn(dir, false), recordsIn(dir, true)
	for _, folder := range []string{"transcripts", "audit"} {
		entries, err := os.ReadDir(filepath.Join(from, folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.MkdirAll(filepath.Join(to, folder), 0o700); err != nil {
			return err
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				continue
			}
			name := filepath.Join(folder, e.Name())
			if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyToDatabase copies all runs. Both stores are closed on return, so the journal can be renamed.
func copyToDatabase(
	ctx context.Context, path, url string, process *owner.Process, log *slog.Logger,
) (done journal.Copied, err error) {
	from, err := sqlite.Open(path, sqlite.Options{Dead: process.Dead})
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := postgres.Open(ctx, url, postgres.Options{Log: log})
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	others, err := to.Workers(ctx)
	if err != nil {
		return done, err
	}
	// Workers would drive runs while others may still fail to move.
	others = slices.DeleteFunc(others, func(w owner.Worker) bool { return !w.Works })
	if len(others) > 0 {
		return done, InUseError(others)
	}
	return journal.Copy(ctx, from, to)
}

// renameJournal renames the file of a closed journal, and those that SQLite may have left beside it. The database file
// comes last: MigrateStore looks at its name, so an interrupted migration can be repeated.
func renameJournal(from, to string) error {
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if err := os.Rename(from+suffix, to+suffix); err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return nil
}
