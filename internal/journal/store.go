package journal

import (
	"context"
	"iter"
	"time"
)

// Store keeps the streams of all runs of a project, their inboxes and an index
// of them. Every implementation passes journaltest. All methods are safe for
// concurrent use.
//
// Streams, inboxes and claims belong to root runs. For a child run, a store
// returns a *ChildError that names the root.
//
// Consumers ask for the smallest part that they need: records and listings for
// a Reader, verification for a ChainReader, commands that remove runs for an
// Admin; only engines need a Writer and an Ownership.
type Store interface {
	Reader
	ChainReader
	Writer
	Ownership
	Registers
	Admin
}

// Reader reads runs. It needs no claim and changes nothing.
type Reader interface {
	EventReader
	Tailer
	// Runs lists the index, newest first.
	Runs(ctx context.Context, f Filter) iter.Seq2[Entry, error]
	// Entry returns one run's index row, or ErrUnknownRun.
	Entry(ctx context.Context, run RunID) (Entry, error)
	// Blob returns a value by its hash, or ErrUnknownBlob.
	Blob(ctx context.Context, hash string) ([]byte, error)
	// Snapshot returns the newest snapshot of a run, or 0 and nil if it has none.
	Snapshot(ctx context.Context, run RunID) (Seq, []byte, error)
}

// EventReader reads the stream of one run.
type EventReader interface {
	// Events reads a run's stream after a Seq, in order.
	Events(ctx context.Context, run RunID, after Seq) iter.Seq2[Event, error]
}

// Tailer reads the appends of all runs.
type Tailer interface {
	// Tail reads the appends of all runs in commit order after a Pos. It ends
	// at the newest append.
	Tail(ctx context.Context, after Pos) iter.Seq2[Appended, error]
	// Last returns the position of the newest append.
	Last(ctx context.Context) (Pos, error)
	// Changed returns a channel that is closed after the next commit of this
	// Store. Commits of other processes do not close it: see Follow.
	Changed() <-chan struct{}
}

// Writer appends to runs.
type Writer interface {
	// Append adds a batch, all or nothing, and then calls done exactly once:
	// with nil when the batch is durable, otherwise when nothing of it remains.
	// Append does not block and does not call done itself. done runs on the
	// store's goroutine and must not wait for the store. Batches of one caller
	// to one run are appended, and their done functions called, in order.
	//
	// A batch of a process that another one has declared dead fails with
	// ErrFenced. Append refuses with ErrConflict a batch that does not follow
	// the run's last event, has an old fence, or takes a message that is not in
	// the inbox; with ErrExists a batch that starts a run that exists.
	Append(b Batch, done func(error))
}

// Ownership decides which process writes a run and carries messages to it.
type Ownership interface {
	// Claim makes me the only writer of a run. The store decides whether the
	// current owner is alive; if it is, Claim returns an *OwnedError. Claiming
	// a run again changes nothing. The owner reads the inbox after the claim:
	// then no message is lost between two owners.
	Claim(ctx context.Context, run RunID, me Owner) (Claim, error)
	// Renew is like Claim, but also changes the fence of a run that me owns:
	// appends with an earlier fence are refused from then on.
	Renew(ctx context.Context, run RunID, me Owner) (Claim, error)
	// ClaimNext claims up to n running root runs that no living process owns,
	// and returns them together with those that me owns already. It leaves out
	// runs for which skip returns true. Processes that call it at the same time
	// do not get the same runs.
	ClaimNext(ctx context.Context, me Owner, n int, skip func(RunID) bool) ([]RunID, error)
	// Enqueue puts a message into a run's inbox and returns the owner to wake.
	// A finished run accepts none: ErrFinished.
	Enqueue(ctx context.Context, run RunID, m Message) (Owner, error)
	// Inbox returns a run's messages in the order of their IDs, which is the
	// order in which they were enqueued.
	Inbox(ctx context.Context, run RunID) ([]InboxMessage, error)
	// PendingInboxes lists the unfinished runs that have messages, with or
	// without an owner.
	PendingInboxes(ctx context.Context) ([]PendingInbox, error)
	// Due lists the unfinished runs whose wake time is not after now, with or
	// without an owner, and the next wake time after now (zero if there is none).
	Due(ctx context.Context, now Millis) ([]RunID, Millis, error)
}

// Registers keeps small values that belong to no run, such as the state of a
// schedule. Processes share them and change them by compare-and-swap.
type Registers interface {
	// Load returns the register of a key. A register that does not exist has
	// version 0 and no data.
	Load(ctx context.Context, key string) (Register, error)
	// Save replaces a register if its version is r.Version, and returns the new
	// version; otherwise it returns ErrConflict. Version 0 creates a register.
	// Nil data removes it, and the version returned is 0. Versions of a store
	// are never reused.
	Save(ctx context.Context, r Register) (int64, error)
	// List returns the registers whose keys start with a prefix, in the order of
	// their keys.
	List(ctx context.Context, prefix string) ([]Register, error)
}

// Register is a value with its key and version.
type Register struct {
	Key     string
	Data    []byte
	Version int64
}

// KeysAfter returns the smallest key that is larger than every key with the
// prefix; empty if there is none.
func KeysAfter(prefix string) string {
	end := []byte(prefix)
	for len(end) > 0 {
		if last := len(end) - 1; end[last] < 0xff {
			end[last]++
			return string(end)
		}
		end = end[:len(end)-1]
	}
	return ""
}

// Admin maintains a store.
type Admin interface {
	// Remove removes finished root runs, their children and everything that
	// only they need, and adds a Tombstone for each. Each run is removed
	// completely or not at all. Remove stops at the first run that it must not
	// remove (ErrUnfinished), unless the Removal says that it is damaged.
	Remove(ctx context.Context, why Removal, runs ...RunID) error
	// Import adds a run of another store, completely or not at all. Its appends
	// keep their bodies and hashes. They did not happen here, so Tail does not
	// return them. The run has no owner. A run that exists, also as a child, is an
	// ErrExists. The caller has verified the run.
	Import(ctx context.Context, run ImportedRun) error
	// ImportTombstones adds the tombstones of another store, all or none, to a
	// store that has none; otherwise it returns ErrExists.
	ImportTombstones(ctx context.Context, all []Link) error
	// Close waits for the batches that were passed to Append. Later appends
	// fail with ErrClosed.
	Close() error
}

// Batch is one append.
type Batch struct {
	Run   RunID
	Fence int64 // from the Claim; FirstFence for the run that this batch starts
	After Seq   // the last event before this batch; 0 starts the run
	// Owner is the first owner of the run. It counts only if After is 0.
	Owner Owner
	// Events are numbered After+1, After+2, … The first batch of a run starts
	// with RunStarted; later batches may have no events. The store may retain
	// them: the caller must not change them, or what they refer to, anymore.
	Events []Event
	// Taken are the messages that these events answer. They leave the inbox.
	Taken []InboxID
	// Index is the run's new index; nil if it has not changed, which is cheaper.
	Index *Index
	// Children are the index rows of child runs that are new or have changed.
	Children []Entry
	// Blobs are the values that the events name by hash for the first time in
	// this run. The store does not write those that it has.
	Blobs []Blob
	// Snapshot is a cache of the fold up to the last of these events. It
	// replaces the previous one; nil keeps it.
	Snapshot []byte
	// Release ends the claim: any process can claim the run.
	Release bool
}

// FirstFence is the fence of a run's first owner.
const FirstFence = 1

// Blob is a value that is stored once under its hash.
type Blob struct {
	Hash string // SHA-256 of Data, hex
	Data []byte
}

// Index is the part of a run's state that listings and timers need.
type Index struct {
	Status  Status  `json:"status"`
	Outcome Outcome `json:"outcome,omitempty"`
	Wake    Millis  `json:"wake,omitempty"` // when a timer is due; 0 if there is none
	Waiting Wait    `json:"waiting,omitzero"`
}

// OutcomeUnknown reports whether the run waits for a person to resolve a step whose outcome is unknown.
func (i Index) OutcomeUnknown() bool { return i.Waiting.Kind == WaitOutcome }

// Status is the status of a run.
type Status string

// The statuses.
const (
	Running  Status = "running"
	Waiting  Status = "waiting"  // for a person or an event
	Sleeping Status = "sleeping" // until its wake time
	PausedAt Status = "paused"   // by a person
	Exceeded Status = "exceeded" // a budget or the deadline is exhausted
	Finished Status = "finished"
)

// AtRest reports whether a run has no work in progress and no retry that continues it. A gate may still time out: see
// Index.Wake.
func (s Status) AtRest() bool { return s != Running && s != Sleeping }

// Entry is the index row of a run.
type Entry struct {
	ID         RunID  `json:"id"`
	Root       RunID  `json:"root,omitempty"` // of a child run
	Parent     RunID  `json:"parent,omitempty"`
	Name       string `json:"name"`
	Format     string `json:"format,omitempty"`
	Definition string `json:"definition,omitempty"`
	Started    Millis `json:"started"`
	Updated    Millis `json:"updated"`
	Seq        Seq    `json:"seq"`
	Owner      Owner  `json:"owner,omitempty"`
	Index
}

// Filter selects runs; zero fields select all.
type Filter struct {
	Status     Status
	Unfinished bool // every status except Finished
	Name       string
	Prefix     string // of the id
	Children   bool   // child runs too
	Root       RunID  // only the child runs of this one
	Outcome    Outcome
	Text       string // in the name, or the start of the id
	Since      Millis // only runs that started at this time or later
	Until      Millis // only runs that started before this time
	// Before lists only runs that were added before this one; an unknown run is an error.
	Before RunID
	Limit  int
}

// Owner is the ID of a process that can own runs.
type Owner string

// Temporal is the owner of the runs that Temporal drives. It never dies: no
// process can claim such a run.
const Temporal Owner = "temporal"

// Claim is the right to append to a run.
type Claim struct {
	Fence      int64
	Seq        Seq
	Definition string
}

// InboxID is the ID of a message. IDs of one inbox grow in the order of Enqueue.
type InboxID int64

// Message is a request of another process to the owner of a run.
type Message struct {
	Kind string
	Data []byte
	At   Millis
}

// InboxMessage is a message with its ID.
type InboxMessage struct {
	ID InboxID
	Message
}

// PendingInbox is a run that has messages.
type PendingInbox struct {
	Run   RunID
	Owner Owner // empty if the run has none
}

// Appended is one committed append. Several readers share its events and must
// not change them.
type Appended struct {
	Pos    Pos
	Run    RunID
	Events []Event
}

// Time converts to a time in UTC.
func (m Millis) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// MillisOf converts from a time.
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }
