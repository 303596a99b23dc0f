package journal

import (
	"context"
	"iter"
	"time"
)

// Store keeps the streams of all runs of a project, their inboxes and an
// index of them. Every implementation passes journaltest. Its methods may be
// called by many goroutines at once.
//
// Streams, inboxes and claims belong to root runs; asked for those of a child
// run, a store answers with a *ChildError that names the root.
type Store interface {
	// Append adds a batch, all or nothing, and then calls done exactly once:
	// with nil when all of it is durable, else when nothing of it remains.
	// Append itself never blocks and never calls done; done must not wait
	// for the store. Batches of one caller are appended, and reported, in order.
	//
	// A batch that does not follow the run's last event, has an old fence, or
	// takes a message that is not in the inbox is refused with ErrConflict; one
	// that begins a run which is there already, with ErrExists.
	Append(b Batch, done func(error))
	// Events reads a run's stream after a Seq, in order.
	Events(ctx context.Context, run RunID, after Seq) iter.Seq2[Event, error]
	// Tail reads the appends of all runs in commit order after a Pos, and
	// ends where nothing more has been committed.
	Tail(ctx context.Context, after Pos) iter.Seq2[Appended, error]
	// Last is the place of the newest append.
	Last(ctx context.Context) (Pos, error)
	// Changed gives a channel that is closed when this Store has committed
	// something after the call. It does not see other processes: see Follow.
	Changed() <-chan struct{}
	// Claim makes me the one writer of a run. dead tells whether another
	// owner is gone; a living one gives an *OwnedError. Claiming what is mine
	// already changes nothing. Read the inbox after claiming, never before.
	Claim(ctx context.Context, run RunID, me Owner, dead func(Owner) bool) (Claim, error)
	// Post puts a message in a run's inbox and says whom to wake. A finished
	// run takes none: ErrFinished.
	Post(ctx context.Context, run RunID, m Message) (Owner, error)
	// Inbox reads a run's messages in the order in which they came.
	Inbox(ctx context.Context, run RunID) ([]Posted, error)
	// Mail lists the unfinished runs that have messages, whoever owns them.
	Mail(ctx context.Context) ([]Mailbox, error)
	// Due lists the unfinished runs whose wake time has come, whoever owns
	// them, and the next wake time after now (zero when there is none).
	Due(ctx context.Context, now Millis) ([]RunID, Millis, error)
	// Runs lists the index, newest first.
	Runs(ctx context.Context, f Filter) iter.Seq2[Entry, error]
	// Entry is one run's index row; ErrUnknownRun when there is none.
	Entry(ctx context.Context, run RunID) (Entry, error)
	// Blob reads a value by its hash; ErrUnknownBlob when there is none.
	Blob(ctx context.Context, hash string) ([]byte, error)
	// Snapshot returns the newest snapshot of a run; 0 and nil when it has none.
	Snapshot(ctx context.Context, run RunID) (Seq, []byte, error)
	// Delete removes finished root runs, their children and everything that
	// only they need. Each run goes whole; the first one that may not go
	// (ErrUnfinished) ends it.
	Delete(ctx context.Context, runs ...RunID) error
	// Close waits for what has been handed to Append. Later appends fail with ErrClosed.
	Close() error
}

// Recaller is a Store that remembers what it has just committed, so that those
// who follow at its heels need not read it again.
type Recaller interface {
	// Recall gives appends that follow a Pos without a gap, or none when it
	// would have to read them. There may be more, of this Store or another
	// process: Tail finds them.
	Recall(after Pos) ([]Appended, error)
}

// Batch is one append.
type Batch struct {
	Run   RunID
	Fence int64 // from the Claim; FirstFence for the run that this batch begins
	After Seq   // the last event before this batch; 0 begins the run
	// Owner is who begins the run; it counts only when After is 0.
	Owner Owner
	// Events are numbered After+1, After+2, … The first batch of a run begins
	// with RunStarted; later ones may have none. The store may keep them: nobody
	// changes them, or what they hold, from now on.
	Events []Event
	// Taken are the messages that these events answer.
	Taken []InboxID
	// Index is the run's new index; nil when it has not changed, which is cheaper.
	Index *Index
	// Children are index rows of child runs that are new or have changed.
	Children []Entry
	// Blobs are the values that the events name by hash for the first time in
	// this run. One that is there already is kept, not written again.
	Blobs []Blob
	// Snapshot is a cache of the fold up to the last of these events; it
	// takes the place of an older one. Nil keeps that.
	Snapshot []byte
	// Release gives the run up, so that anybody may claim it without asking.
	Release bool
}

// FirstFence is the fence of a run's first owner.
const FirstFence = 1

// Blob is a value that is kept once and named by its hash.
type Blob struct {
	Hash string // SHA-256 of Data, hex
	Data []byte
}

// Index is what the run list and the clock need to know about a run.
type Index struct {
	Status  Status `json:"status"`
	Outcome string `json:"outcome,omitempty"`
	Wake    Millis `json:"wake,omitempty"`    // 0: nothing to wake for
	Waiting string `json:"waiting,omitempty"` // for whom or what, in a few words
}

// Status is what a run is doing.
type Status string

// The statuses.
const (
	Running  Status = "running"
	Waiting  Status = "waiting"  // for a person or an event
	Sleeping Status = "sleeping" // until a time comes
	PausedAt Status = "paused"   // by a person
	Exceeded Status = "exceeded" // a budget or the deadline holds it
	Finished Status = "finished"
)

// Entry is a run in the list.
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

// Filter narrows a listing; zero fields narrow nothing.
type Filter struct {
	Status     Status
	Unfinished bool // every status but Finished
	Name       string
	Prefix     string // of the id
	Children   bool   // child runs too
	Root       RunID  // only the child runs of this one
	// Before lists only runs that were added before this one; an unknown run is an error.
	Before RunID
	Limit  int
}

// Owner names a process that may write runs.
type Owner string

// Claim is the right to append to a run.
type Claim struct {
	Fence      int64
	Seq        Seq
	Definition string
}

// InboxID names a message in an inbox.
type InboxID int64

// Message is something that another process wants the run's owner to hear.
type Message struct {
	Kind string
	Data []byte
	At   Millis
}

// Posted is a message in an inbox.
type Posted struct {
	ID InboxID
	Message
}

// Mailbox is an inbox that is not empty.
type Mailbox struct {
	Run   RunID
	Owner Owner // empty: nobody's
}

// Appended is one committed append, as Tail sees it. Others may see the same
// events: whoever reads them changes nothing in them.
type Appended struct {
	Pos    Pos
	Run    RunID
	Events []Event
}

// Time converts to a time in UTC.
func (m Millis) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// MillisOf converts from a time.
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }
