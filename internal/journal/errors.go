package journal

import (
	"errors"
	"fmt"
)

// What stores refuse with. They come wrapped in errors that say more; ask
// with errors.Is.
var (
	// ErrConflict: somebody else has appended, or owns the run now.
	ErrConflict = errors.New("the run has moved on under another writer")
	// ErrUnknownRun: there is no such run.
	ErrUnknownRun = errors.New("there is no such run")
	// ErrExists: a run with that id is there already.
	ErrExists = errors.New("a run with that id exists")
	// ErrFinished: the run is over.
	ErrFinished = errors.New("the run has finished")
	// ErrUnfinished: the run is not over.
	ErrUnfinished = errors.New("the run has not finished")
	// ErrUnknownBlob: no value has that hash.
	ErrUnknownBlob = errors.New("there is no value with that hash")
	// ErrInvalid: the batch could never be appended, whatever the store holds.
	ErrInvalid = errors.New("the batch is not well formed")
	// ErrClosed: the store has been closed.
	ErrClosed = errors.New("the journal is closed")
	// ErrCorrupt: what is stored cannot be what was written.
	ErrCorrupt = errors.New("the journal is damaged")
	// ErrFull: there is no room left to write.
	ErrFull = errors.New("the disk is full")
	// ErrNotKept: the disk has failed to keep what was written, and nobody knows
	// what it has.
	ErrNotKept = errors.New("the disk did not keep what was written")
	// ErrReadOnly: the journal may not be written here.
	ErrReadOnly = errors.New("the journal cannot be written")
	// ErrBusy: another program has kept the journal locked for too long.
	ErrBusy = errors.New("another program keeps the journal locked")
	// ErrNotJournal: the file is something else.
	ErrNotJournal = errors.New("the file is not a journal")
)

// OwnedError says who owns a run.
type OwnedError struct{ Owner Owner }

func (e *OwnedError) Error() string { return fmt.Sprintf("the run is owned by %s", e.Owner) }

// ChildError says that a run has no stream of its own.
type ChildError struct{ Root RunID }

func (e *ChildError) Error() string { return fmt.Sprintf("the run is part of run %s", e.Root) }

// CorruptError says where the journal is damaged. It is an ErrCorrupt.
type CorruptError struct {
	Run RunID // empty when it is not known
	Pos Pos
	Why error
}

func (e *CorruptError) Error() string {
	if e.Run == "" {
		return fmt.Sprintf("%v: append %d: %v", ErrCorrupt, e.Pos, e.Why)
	}
	return fmt.Sprintf("%v: run %s, append %d: %v", ErrCorrupt, e.Run, e.Pos, e.Why)
}

// Unwrap makes it an ErrCorrupt.
func (e *CorruptError) Unwrap() []error { return []error{ErrCorrupt, e.Why} }

// NewerError says that a later release of Espalier has written the journal.
type NewerError struct {
	Path         string
	Have, Expect int // version of the file, and the newest that this release knows
}

func (e *NewerError) Error() string {
	return fmt.Sprintf(
		"%s was written by a newer Espalier (journal version %d; this one knows %d)", e.Path, e.Have, e.Expect,
	)
}
