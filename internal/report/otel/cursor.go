package otel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/protected"
	"github.com/espalier-run/espalier/internal/report"
)

// cursor is the position up to which a run's stream has been delivered.
type cursor struct {
	Spans   journal.Seq `json:"spans"`
	Part    int         `json:"part,omitempty"` // number of delivered spans of the next event
	Metrics journal.Seq `json:"metrics"`
}

// reach advances the cursor to another one; it never moves back.
func (c *cursor) reach(to cursor) {
	if to.Spans > c.Spans || to.Spans == c.Spans && to.Part > c.Part {
		c.Spans, c.Part = to.Spans, to.Part
	}
	c.Metrics = max(c.Metrics, to.Metrics)
}

// ledger is the folder of cursors. A run that is over and delivered has none. If a process has not delivered everything
// of a run, the run also has a file in that process's folder, so that a later process need not read all runs.
type ledger struct {
	dir string
	me  journal.Owner
	// open opens the lock that excludes other processes while a cursor is written, when it is first needed; nil when
	// there are no others.
	open func() (Lock, error)
	lock Lock
}

// Lock excludes other processes.
type Lock interface {
	report.Lock
	io.Closer
}

// exclusively calls a function while no other process writes a cursor.
func (l *ledger) exclusively(do func() error) (err error) {
	if l.open == nil {
		return do()
	}
	if l.lock == nil {
		if l.lock, err = l.open(); err != nil {
			l.lock = nil
			return err
		}
	}
	if err := l.lock.Exclusive(); err != nil {
		return err
	}
	return errors.Join(do(), l.lock.Unlock())
}

const (
	// undeliveredDir has a folder for each process, with an empty file for each run that it has to deliver.
	undeliveredDir = "owed"
	// draft is the name of a cursor that is being written, in the process's folder.
	draft = ".new"
)

// isName reports whether an id is a plain file name.
func isName(run journal.RunID) bool {
	name := string(run)
	return name != "" && name != undeliveredDir && !strings.HasPrefix(name, ".") &&
		!strings.ContainsAny(name, "/\\:\x00")
}

// path returns the file of a run's cursor.
func (l *ledger) path(run journal.RunID) string { return filepath.Join(l.dir, string(run)) }

// checkpoint returns the file of a run's checkpoint. No run has such a name.
func (l *ledger) checkpoint(run journal.RunID) string { return checkpointIn(l.dir, run) }

// checkpointIn returns the file of a run's checkpoint in a folder of cursors.
func checkpointIn(dir string, run journal.RunID) string {
	return filepath.Join(dir, "."+string(run)+".checkpoint")
}

// ownDir returns this process's folder in undeliveredDir.
func (l *ledger) ownDir() string { return filepath.Join(l.dir, undeliveredDir, string(l.me)) }

// createOwnDir creates ownDir and undeliveredDir.
func (l *ledger) createOwnDir() error {
	storage, telemetry := filepath.Split(l.dir)
	return protected.MkdirIn(storage, filepath.Join(telemetry, undeliveredDir, string(l.me)))
}

// marker returns the file that marks a run as undelivered.
func (l *ledger) marker(run journal.RunID) string { return filepath.Join(l.ownDir(), string(run)) }

// read returns a run's cursor. A missing or unreadable one is zero: spans that arrive twice have the same ids.
func (l *ledger) read(run journal.RunID) (cursor, error) {
	raw, err := os.ReadFile(l.path(run))
	if errors.Is(err, fs.ErrNotExist) {
		return cursor{}, nil
	}
	var c cursor
	if err == nil && json.Unmarshal(raw, &c) != nil {
		c = cursor{}
	}
	return c, err
}

// write advances a run's cursor, unless another process has advanced it further.
func (l *ledger) write(run journal.RunID, c cursor) error {
	return l.exclusively(func() error {
		there, err := l.read(run)
		if err != nil {
			return err
		}
		c.reach(there)
		raw, err := json.Marshal(c)
		if err != nil {
			return err
		}
		name := filepath.Join(l.ownDir(), draft)
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			return err
		}
		return os.Rename(name, l.path(run))
	})
}

// markUndelivered records that this process has to deliver something of a run.
func (l *ledger) markUndelivered(run journal.RunID) error {
	if !isName(run) {
		return fmt.Errorf("invalid file name %q", run)
	}
	err := os.WriteFile(l.marker(run), nil, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = l.createOwnDir(); err == nil {
			err = os.WriteFile(l.marker(run), nil, 0o600)
		}
	}
	return err
}

// isUndelivered reports whether this process still has to deliver something of a run. The process that delivers the end
// of a run removes the markers of all processes.
func (l *ledger) isUndelivered(run journal.RunID) bool {
	_, err := os.Lstat(l.marker(run))
	return !errors.Is(err, fs.ErrNotExist)
}

// markDelivered records that this process has nothing to deliver of a run.
func (l *ledger) markDelivered(run journal.RunID) {
	os.Remove(l.marker(run)) // if this fails, a later process finds nothing to deliver
}

// close releases the lock and removes the folder of this process if it is empty.
func (l *ledger) close() {
	if l.lock != nil {
		l.lock.Close()
	}
	os.Remove(l.ownDir()) // fails if there are markers in it
}

// maxInherited is how many runs a process takes over at a time: one process must not deliver everything that
// accumulated during a long outage.
const maxInherited = 100

// inherit takes over what processes that have ended did not deliver.
func (l *ledger) inherit(gone func(journal.Owner) bool) []journal.RunID {
	owners, err := os.ReadDir(filepath.Join(l.dir, undeliveredDir))
	if err != nil {
		return nil // there is no such folder, so everything is delivered
	}
	var out []journal.RunID
	for _, owner := range owners {
		if !owner.IsDir() || owner.Name() == string(l.me) || !gone(journal.Owner(owner.Name())) {
			continue
		}
		theirs := filepath.Join(l.dir, undeliveredDir, owner.Name())
		markers, err := os.ReadDir(theirs)
		if err != nil || l.createOwnDir() != nil {
			continue // another process was faster, or will do it
		}
		for _, marker := range markers {
			run := journal.RunID(marker.Name())
			switch {
			case run == draft:
				os.Remove(filepath.Join(theirs, draft))
			case len(out) == maxInherited:
				return out
			case os.Rename(filepath.Join(theirs, marker.Name()), l.marker(run)) == nil: // only one process succeeds
				out = append(out, run)
			}
		}
		os.Remove(theirs) // fails if something is left in it
	}
	return out
}

// Forget removes the files of a run from a folder of an Exporter.
func Forget(dir string, run journal.RunID) {
	if !isName(run) {
		return
	}
	owners, err := os.ReadDir(filepath.Join(dir, undeliveredDir))
	if err != nil {
		owners = nil // everything is delivered
	}
	// Markers go first: one without a cursor would mean that nothing was delivered.
	for _, owner := range owners {
		os.Remove(filepath.Join(dir, undeliveredDir, owner.Name(), string(run)))
	}
	os.Remove(checkpointIn(dir, run)) // it may have none
	os.Remove(filepath.Join(dir, string(run)))
}
