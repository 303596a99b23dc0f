package server

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// feed has the newest events of all runs. One goroutine reads the journal and encodes events, however many clients
// follow them: a reader for each would query the store a thousand times for every event that a thousand clients get. It
// reads while it has clients.
//
// A client calls join, then after until it wants no more, waiting for batch.changed in between, then leave. Methods are
// safe for concurrent use. If the reader fails, each client gets the error from after, and the next join starts a new
// reader.
type feed struct {
	app    *app.App
	length int // how many events it keeps
	// wakeTime is about what it takes to wake a client and write to it. Events that arrive while the clients could be
	// woken are sent together: with 1,000 clients, a round for each append would be late for the next one.
	wakeTime time.Duration

	mu      sync.Mutex
	clients int
	stop    context.CancelFunc // of the reader; nil if there is none
	recent  []sentEvent        // at most length
	// before is the newest event that is not in recent. A client that has it gets everything else from recent. At the
	// start it is the whole append at the end of the journal.
	before  eventID
	err     error         // that ended the reader
	changed chan struct{} // closed when clients are woken for new events or err
	waking  bool          // clients will be woken
	// Most clients have the same last event, so the text for it is joined once and shared. Only streams of all runs use
	// it.
	joined    batch // what the client that asked last got; joinedFor is the last event that it had
	joinedFor eventID
}

// batch is what after returns to a client.
type batch struct {
	text []byte  // events that the client lacks; clients do not change it
	last eventID // the newest event of the feed
	// upTo is set if the client lacks events which the feed no longer has: it reads the journal up to this position.
	upTo journal.Pos
	// changed is closed when there is more.
	changed <-chan struct{}
}

// sentEvent is an encoded event with its id.
type sentEvent struct {
	id   eventID
	root journal.RunID
	text []byte
}

// feedLength is how far a client may be behind the newest event before it reads the journal itself: about 1 MB.
const feedLength = 4096

const (
	feedWakeTime = 10 * time.Microsecond
	maxGather    = 20 * time.Millisecond // how long events wait for others at most
)

// wholeAppend is larger than the number of any event of an append.
const wholeAppend = math.MaxInt

// join adds a client. The feed reads from then on until the client leaves. ctx only limits how long join waits for the
// store.
func (f *feed) join(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil && f.stop != nil { // clients that are behind have not noticed it yet
		f.stop()
		f.stop = nil
	}
	if f.stop == nil {
		end, err := f.app.Position(ctx)
		if err != nil {
			return err
		}
		var reading context.Context
		// The reader outlives the request that starts it.
		reading, f.stop = context.WithCancel(context.WithoutCancel(ctx))
		f.recent, f.err = nil, nil
		f.before, f.changed = eventID{end, wholeAppend}, make(chan struct{})
		go f.read(reading, end)
	}
	f.clients++
	return nil
}

// leave removes a client. The last one stops the reader; what is left in recent is dropped by the next join.
func (f *feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients--
	if f.clients == 0 && f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// read adds the events after a position until the context ends.
func (f *feed) read(ctx context.Context, after journal.Pos) {
	for e, err := range encoded(ctx, f.app, app.WatchRequest{After: after}) {
		if !f.add(ctx, e, err) {
			return
		}
	}
}

// add adds an event, or the error that ends the reader. It reports whether the reader continues. Only read calls it.
//
// A few clients are woken at once. The more there are, the longer events gather, about as long as waking all clients
// takes, so that one round of writes has several events.
func (f *feed) add(ctx context.Context, e sentEvent, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil { // the clients have left; the feed may be that of another reader
		return false
	}
	if err != nil {
		f.err = err
		f.wake()
		return false
	}
	if len(f.recent) == f.length {
		f.before = f.recent[0].id
		f.recent = f.recent[1:]
	}
	f.recent = append(f.recent, e)
	switch gather := min(time.Duration(f.clients)*f.wakeTime, maxGather); {
	case gather < time.Millisecond:
		f.wake()
	case !f.waking:
		f.waking = true
		time.AfterFunc(gather, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.wake()
		})
	}
	return true
}

// wake wakes the clients: closing the channel reaches all of them, and later ones wait for a new channel. f.mu is held.
func (f *feed) wake() {
	f.waking = false
	close(f.changed)
	f.changed = make(chan struct{})
}

// after returns what follows the last event of a client that follows one run, or all runs if run is empty. A client
// gets the events that precede an error before the error.
func (f *feed) after(run journal.RunID, last eventID) (batch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !last.includes(f.before) {
		return batch{upTo: f.before.pos}, nil
	}
	// Search from the end: clients that keep up lack few events.
	n := len(f.recent)
	for n > 0 && !last.includes(f.recent[n-1].id) {
		n--
	}
	u := batch{last: last, changed: f.changed}
	if n == len(f.recent) {
		return u, f.err
	}
	u.last = f.recent[len(f.recent)-1].id
	if run == "" && f.joinedFor == last && f.joined.last == u.last { // as most clients, which keep up
		u.text = f.joined.text
		return u, f.err
	}
	for _, e := range f.recent[n:] {
		if run == "" || e.root == run {
			u.text = append(u.text, e.text...)
		}
	}
	if run == "" {
		f.joined, f.joinedFor = u, last
	}
	return u, f.err
}
