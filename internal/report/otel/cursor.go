package otel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/journal"
)

// cursor is up to where in a run's stream everything has been delivered.
type cursor struct {
	Spans   journal.Seq `json:"spans"`
	Part    int         `json:"part,omitempty"` // so many spans of the next event, too
	Metrics journal.Seq `json:"metrics"`
}

// reach moves the cursor for spans on; it never goes back.
func (c *cursor) reach(spans journal.Seq, part int) {
	if spans > c.Spans || spans == c.Spans && part > c.Part {
		c.Spans, c.Part = spans, part
	}
}

// ledger is the folder of cursors. A run that is over and delivered has none. A
// run that some process still owes something of is named in a folder of its
// own, with the process, so that whoever comes next need not look at all runs.
type ledger struct {
	dir     string
	me      journal.Owner
	writing *sync.Mutex
}

const (
	owed = "owed"
	// draft is how the names of files begin that are being written; then comes
	// the process that writes.
	draft = ".new-"
)

func (l ledger) path(run journal.RunID) (string, error) { return l.name(l.dir, run) }

func (l ledger) debt(run journal.RunID) (string, error) {
	return l.name(filepath.Join(l.dir, owed), run)
}

// name is a run's file. An id that is not a plain name would lead elsewhere.
func (ledger) name(dir string, run journal.RunID) (string, error) {
	if run == "" || run == owed || strings.HasPrefix(string(run), ".") || strings.ContainsAny(string(run), "/\\:\x00") {
		return "", fmt.Errorf("%q cannot be the name of a file", run)
	}
	return filepath.Join(dir, string(run)), nil
}

// read is a run's cursor. Without one, nothing was delivered; one that cannot
// be read is none, since what arrives twice is the same twice.
func (l ledger) read(run journal.RunID) (cursor, error) {
	path, err := l.path(run)
	if err != nil {
		return cursor{}, err
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cursor{}, nil
	}
	var c cursor
	if err == nil && json.Unmarshal(raw, &c) != nil {
		c = cursor{}
	}
	return c, err
}

func (l ledger) write(run journal.RunID, c cursor) error {
	path, err := l.path(run)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return l.replace(path, raw)
}

// replace puts a file in the place of another, whole. A process has one draft,
// whose name says whose it is.
func (l ledger) replace(path string, raw []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	dir := filepath.Join(l.dir, owed)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name := filepath.Join(dir, draft+string(l.me))
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(name, path)
}

// owe notes that this process has to deliver something of a run.
func (l ledger) owe(run journal.RunID) error {
	path, err := l.debt(run)
	if err != nil {
		return err
	}
	return l.replace(path, []byte(l.me))
}

// paid notes that there is nothing to deliver now.
func (l ledger) paid(run journal.RunID) {
	if path, err := l.debt(run); err == nil {
		os.Remove(path) // a debt too many is looked at in vain, that is all
	}
}

// mostInherited is how many runs one process takes over at most: a collector
// that has been away for long must not become the burden of one.
const mostInherited = 100

// inherit takes over what processes that are gone have left to deliver.
func (l ledger) inherit(gone func(journal.Owner) bool) []journal.RunID {
	entries, err := os.ReadDir(filepath.Join(l.dir, owed))
	if err != nil {
		return nil // there is no such folder, so nobody owes anything
	}
	var out []journal.RunID
	for _, e := range entries {
		if len(out) == mostInherited {
			break
		}
		path := filepath.Join(l.dir, owed, e.Name())
		if who, ok := strings.CutPrefix(e.Name(), draft); ok {
			if gone(journal.Owner(who)) {
				os.Remove(path) // somebody else may have been quicker
			}
			continue
		}
		who, err := os.ReadFile(path)
		if owner := journal.Owner(who); err != nil || owner == l.me || !gone(owner) {
			continue
		}
		if os.Remove(path) == nil { // of several processes, one succeeds
			out = append(out, journal.RunID(e.Name()))
		}
	}
	return out
}

// Forget removes what is kept about a run in a folder of an Exporter.
func Forget(dir string, run journal.RunID) {
	l := ledger{dir: dir}
	if path, err := l.path(run); err == nil {
		os.Remove(path)
		l.paid(run)
	}
}
