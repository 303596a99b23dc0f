package journal

import (
	"errors"
	"fmt"
	"time"
)

// The errors of stores. They are wrapped with details; test with errors.Is.
var (
	// ErrConflict means that another writer has appended to the run or owns it
	// now.
	ErrConflict = errors.New("another process has written to the run")
	// ErrFenced means that another process has declared this one dead and may
	// have claimed its runs. Nothing of the batch is stored.
	ErrFenced = errors.New("this process has lost its runs to others")
	// ErrUnavailable means that the server of the journal cannot be reached. The
	// batch may be stored or not: read the run later to find out.
	ErrUnavailable = errors.New("the journal's server is unavailable")
	// ErrUnknownRun means that there is no such run.
	ErrUnknownRun = errors.New("there is no such run")
	// ErrExists means that a run with that ID exists.
	ErrExists = errors.New("a run with that id exists")
	// ErrUnsuitable means that a database cannot be used as a store: its URL, the
	// rights of its role, or its settings have to change.
	ErrUnsuitable = errors.New("the database cannot be used as a store")
	// ErrFinished means that the run has finished.
	ErrFinished = errors.New("the run has finished")
	// ErrUnfinished means that the run has not finished.
	ErrUnfinished = errors.New("the run has not finished")
	// ErrUnknownBlob means that the store has no value with that hash.
	ErrUnknownBlob = errors.New("there is no value with that hash")
	// ErrInvalid means that the batch is malformed, whatever the store contains.
	ErrInvalid = errors.New("the batch is not well formed")
	// ErrClosed means that the store is closed.
	ErrClosed = errors.New("the journal is closed")
	// ErrCorrupt means that stored data differs from what was written.
	ErrCorrupt = errors.New("the journal is damaged")
	// ErrFull means that the disk is full.
	ErrFull = errors.New("the disk is full")
	// ErrNotKept means that the disk failed to sync: what it has stored is
	// unknown.
	ErrNotKept = errors.New("the disk did not keep what was written")
	// ErrReadOnly means that the journal cannot be written.
	ErrReadOnly = errors.New("the journal cannot be written")
	// ErrBusy means that another program has kept the journal locked for too
	// long.
	ErrBusy = errors.New("another program keeps the journal locked")
	// ErrNotJournal means that the file is not a journal.
	ErrNotJournal = errors.New("the file is not a journal")
)

// UnavailableError means that a server cannot be used for now. It is an ErrUnavailable.
type UnavailableError struct {
	What string // for people: "the database cannot be reached"
	Err  error  // may name hosts and users
}

func (e *UnavailableError) Error() string { return e.What + ": " + e.Err.Error() }

// Unwrap returns ErrUnavailable and the cause.
func (e *UnavailableError) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// OwnedError is the error of a claim on a run that another process owns.
type OwnedError struct {
	Owner Owner
	Place string // the server, namespace and task queue of Temporal that it uses, if they are not those of this process
}

func (e *OwnedError) Error() string { return fmt.Sprintf("the run is owned by %s", e.Owner) }

// ChildError is the error for a run that is part of another one and has no stream
// of its own.
type ChildError struct{ Root RunID }

func (e *ChildError) Error() string { return fmt.Sprintf("the run is part of run %s", e.Root) }

// CorruptError locates damage in the journal. It is an ErrCorrupt.
type CorruptError struct {
	Run RunID // empty if unknown
	Pos Pos
	Why error
}

func (e *CorruptError) Error() string {
	if e.Run == "" {
		return fmt.Sprintf("%v: append %d: %v", ErrCorrupt, e.Pos, e.Why)
	}
	return fmt.Sprintf("%v: run %s, append %d: %v", ErrCorrupt, e.Run, e.Pos, e.Why)
}

// Unwrap returns ErrCorrupt and the cause.
func (e *CorruptError) Unwrap() []error { return []error{ErrCorrupt, e.Why} }

// NewerError means that a later release of Espalier has written the journal.
type NewerError struct {
	Path         string
	Have, Expect int // version of the file, and the newest that this release supports
}

func (e *NewerError) Error() string {
	return fmt.Sprintf(
		"%s was written by a newer Espalier (journal version %d; this one knows %d)", e.Path, e.Have, e.Expect,
	)
}

// GoneError means that the file of the journal was removed or replaced while it
// was in use. It is an ErrNotKept.
type GoneError struct {
	Path  string
	Since time.Time // everything before was kept
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("%s was removed or replaced; what was done since %s is not kept",
		e.Path, e.Since.Local().Format(time.DateTime))
}

// Unwrap returns ErrNotKept.
func (e *GoneError) Unwrap() error { return ErrNotKept }

// Presence is a store that can be taken away while it is in use.
type Presence interface {
	// Present returns a *GoneError if what was written is not where other
	// processes look for it.
	Present() error
}
