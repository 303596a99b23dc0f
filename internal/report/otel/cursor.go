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
	"github.com/espalier-run/espalier/internal/report"
)

// cursor is up to where in a run's stream everything has been delivered.
type cursor struct {
	Spans   journal.Seq `json:"spans"`
	Part    int         `json:"part,omitempty"` // so many spans of the next event, too
	Metrics journal.Seq `json:"metrics"`
}

// reach moves the cursor on to where another is; it never goes back.
func (c *cursor) reach(to cursor) {
	if to.Spans > c.Spans || to.Spans == c.Spans && to.Part > c.Part {
		c.Spans, c.Part = to.Spans, to.Part
	}
	c.Metrics = max(c.Metrics, to.Metrics)
}

// ledger is the folder of cursors. A run that is over and delivered has none. A
// run that a process still owes something of is also named in that process's
// own folder, so that whoever comes next need not look at all runs.
type ledger struct {
	dir string
	me  journal.Owner
	// open opens the lock that keeps other processes out while a cursor is
	// moved, when it is first needed; nil is none.
	open func() (Lock, error)
	lock Lock
}

// Lock keeps other processes out.
type Lock interface {
	report.Lock
	io.Closer
}

// alone does something while no other process moves a cursor.
func (l *ledger) alone(do func() error) (err error) {
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
	// owed has a folder for each process, with an empty file for each run that
	// it owes something of.
	owed = "owed"
	// draft is a cursor that is being written; it lies in the process's folder.
	draft = ".new"
)

// isName tells whether an id is a plain name: another one would lead elsewhere.
func isName(run journal.RunID) bool {
	return run != "" && run != owed && !strings.HasPrefix(string(run), ".") && !strings.ContainsAny(string(run), "/\\:\x00")
}

func (l *ledger) path(run journal.RunID) string { return filepath.Join(l.dir, string(run)) }

// mine is the folder of what this process owes.
func (l *ledger) mine() string { return filepath.Join(l.dir, owed, string(l.me)) }

func (l *ledger) debt(run journal.RunID) string { return filepath.Join(l.mine(), string(run)) }

// read is a run's cursor. Without one, nothing was delivered; one that cannot
// be read is none, since what arrives twice is the same twice.
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

// write moves a run's cursor on. Where another process has moved it further, it
// stays.
func (l *ledger) write(run journal.RunID, c cursor) error {
	return l.alone(func() error {
		there, err := l.read(run)
		if err != nil {
			return err
		}
		c.reach(there)
		raw, err := json.Marshal(c)
		if err != nil {
			return err
		}
		name := filepath.Join(l.mine(), draft)
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			return err
		}
		return os.Rename(name, l.path(run))
	})
}

// owe notes that this process has to deliver something of a run.
func (l *ledger) owe(run journal.RunID) error {
	if !isName(run) {
		return fmt.Errorf("%q cannot be the name of a file", run)
	}
	err := os.WriteFile(l.debt(run), nil, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(l.mine(), 0o700); err == nil {
			err = os.WriteFile(l.debt(run), nil, 0o600)
		}
	}
	return err
}

// owes tells whether it still has to. Whoever delivers the end of a run pays
// the debts of all.
func (l *ledger) owes(run journal.RunID) bool {
	_, err := os.Lstat(l.debt(run))
	return !errors.Is(err, fs.ErrNotExist)
}

// paid notes that there is nothing to deliver now.
func (l *ledger) paid(run journal.RunID) {
	os.Remove(l.debt(run)) // a debt too many is looked at in vain, that is all
}

// close leaves nothing behind but what is owed.
func (l *ledger) close() {
	if l.lock != nil {
		l.lock.Close()
	}
	os.Remove(l.mine()) // which fails as long as there are debts in it
}

// mostInherited is how many runs a process takes over at a time: a collector
// that has been away for long must not become the burden of one.
const mostInherited = 100

// inherit takes over what processes that are gone have left to deliver.
func (l *ledger) inherit(gone func(journal.Owner) bool) []journal.RunID {
	owners, err := os.ReadDir(filepath.Join(l.dir, owed))
	if err != nil {
		return nil // there is no such folder, so nobody owes anything
	}
	var out []journal.RunID
	for _, owner := range owners {
		if !owner.IsDir() || owner.Name() == string(l.me) || !gone(journal.Owner(owner.Name())) {
			continue
		}
		theirs := filepath.Join(l.dir, owed, owner.Name())
		debts, err := os.ReadDir(theirs)
		if err != nil || os.MkdirAll(l.mine(), 0o700) != nil {
			continue // somebody else was quicker, or has to be
		}
		for _, debt := range debts {
			run := journal.RunID(debt.Name())
			switch {
			case run == draft:
				os.Remove(filepath.Join(theirs, draft))
			case len(out) == mostInherited:
				return out
			case os.Rename(filepath.Join(theirs, debt.Name()), l.debt(run)) == nil: // of several processes, one succeeds
				out = append(out, run)
			}
		}
		os.Remove(theirs) // unless something is left in it
	}
	return out
}

// Forget removes what is kept about a run in a folder of an Exporter.
func Forget(dir string, run journal.RunID) {
	if !isName(run) {
		return
	}
	owners, err := os.ReadDir(filepath.Join(dir, owed))
	if err != nil {
		owners = nil // nobody owes anything
	}
	// A debt without a cursor would be a run of which nothing was delivered.
	for _, owner := range owners {
		os.Remove(filepath.Join(dir, owed, owner.Name(), string(run)))
	}
	os.Remove(filepath.Join(dir, string(run)))
}
