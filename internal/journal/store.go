package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Store keeps the streams of all runs of a project, their inboxes and an
// index of them. Every implementation passes journaltest.
type Store interface {
	// Create makes a run with its definition and its first batch.
	Create(ctx context.Context, r NewRun, b Batch) (Claim, error)
	// Append adds a batch: facts, inbox rows taken, index: all or nothing. A
	// batch that does not follow Claim.Seq or has an old fence is refused
	// with ErrConflict, and nothing of it remains.
	Append(ctx context.Context, b Batch) error
	// Events reads a run's stream after a Seq, in order.
	Events(ctx context.Context, run RunID, after Seq) iter.Seq2[Event, error]
	// Tail reads the appends of all runs in commit order after a Pos.
	Tail(ctx context.Context, after Pos) iter.Seq2[Appended, error]
	// Claim makes me the one writer of a run. dead tells whether another
	// owner is gone; a living one gives ErrOwned. Claiming what is mine
	// already changes nothing.
	Claim(ctx context.Context, run RunID, me Owner, dead func(Owner) bool) (Claim, error)
	// Release gives a run up, so that anybody may claim it without asking.
	Release(ctx context.Context, run RunID, fence int64) error
	// Post puts a message in a run's inbox and says whom to wake.
	Post(ctx context.Context, run RunID, m Message) (Owner, error)
	// Inbox reads a run's messages in the order in which they came.
	Inbox(ctx context.Context, run RunID) ([]Posted, error)
	// Due lists unfinished runs whose wake time has come, whoever owns them,
	// and the next wake time after now (zero when there is none).
	Due(ctx context.Context, now Millis) ([]RunID, Millis, error)
	// Runs lists the index, newest first.
	Runs(ctx context.Context, f Filter) iter.Seq2[Entry, error]
	// Entry is one run's index row; ErrUnknownRun when there is none.
	Entry(ctx context.Context, run RunID) (Entry, error)
	// PutBlobs keeps values by their hash, each once; Blob reads one back.
	PutBlobs(ctx context.Context, blobs map[string][]byte) error
	Blob(ctx context.Context, hash string) ([]byte, error)
	// PutSnapshot keeps a cache of the fold up to a Seq; Snapshot returns the newest.
	PutSnapshot(ctx context.Context, run RunID, at Seq, state []byte) error
	Snapshot(ctx context.Context, run RunID) (Seq, []byte, error)
	// Delete removes finished runs and everything that only they need.
	Delete(ctx context.Context, runs ...RunID) error
	Close() error
}

// NewRun is what a run begins with.
type NewRun struct {
	ID         RunID
	Definition string // hash of a blob
	Owner      Owner
}

// Batch is one append.
type Batch struct {
	Run   RunID
	Fence int64
	After Seq // the last event before this batch
	// Events are numbered After+1, After+2, …
	Events []Event
	Taken  []InboxID
	Index  Index
	// Children are index rows of child runs that changed.
	Children []Entry
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
	Waiting  Status = "waiting"  // for a person, an event or a time
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

// Filter narrows a listing.
type Filter struct {
	Status   Status
	Name     string
	Prefix   string // of the id
	Children bool   // child runs too
	Limit    int
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

// Appended is one committed append, as Tail sees it.
type Appended struct {
	Pos    Pos
	Run    RunID
	Events []Event
}

// What stores refuse with.
var (
	// ErrConflict: somebody else has appended, or owns the run now.
	ErrConflict = errors.New("the run has moved on under another writer")
	// ErrUnknownRun: there is no such run.
	ErrUnknownRun = errors.New("there is no such run")
	// ErrExists: a run with that id is there already.
	ErrExists = errors.New("a run with that id exists")
	// ErrCorrupt: what is stored cannot be what was written.
	ErrCorrupt = errors.New("the journal is damaged")
)

// OwnedError says who owns a run.
type OwnedError struct{ Owner Owner }

func (e *OwnedError) Error() string { return fmt.Sprintf("the run is owned by %s", e.Owner) }

// Time converts to a time in UTC.
func (m Millis) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// MillisOf converts from a time.
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }
