package server

import (
	"context"
	"math"
	"sync"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// feed has the newest events of all runs. One goroutine reads the journal and encodes events, however many clients
// follow them: a reader for each would query the store a thousand times for every event that a thousand clients get.
// It reads while it has clients.
type feed struct {
	app    *app.App
	length int // how many events it keeps

	mu      sync.Mutex
	clients int
	stop    context.CancelFunc // of the reader; nil if there is none
	recent  []sentEvent        // at most length
	// before is the newest event that is not in recent. A client that has it gets everything else from recent.
	before  eventID
	err     error         // that ended the reader
	changed chan struct{} // closed when recent or err changes
}

// sentEvent is an event as clients get it.
type sentEvent struct {
	id   eventID
	root journal.RunID
	text []byte
}

// feedLength is how far a client may be behind the newest event before it reads the journal itself: about 1 MB.
const feedLength = 4096

// wholeAppend is a number above those of all events of an append.
const wholeAppend = math.MaxInt

// join adds a client. The feed reads from then on until the client leaves.
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
		reading, f.stop = context.WithCancel(context.WithoutCancel(ctx))
		f.recent, f.err = nil, nil
		f.before, f.changed = eventID{end, wholeAppend}, make(chan struct{})
		go f.read(reading, end)
	}
	f.clients++
	return nil
}

// leave removes a client.
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
		f.mu.Lock()
		if ctx.Err() != nil { // the clients have left; the feed may be that of another reader
			f.mu.Unlock()
			return
		}
		if err != nil {
			f.err = err
		} else {
			if len(f.recent) == f.length {
				f.before = f.recent[0].id
				f.recent = f.recent[1:]
			}
			f.recent = append(f.recent, e)
		}
		close(f.changed)
		f.changed = make(chan struct{})
		f.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// after returns the events that follow the last one of a client, and a channel that is closed when there are more. A
// client that lacks events which the feed no longer has reads the journal up to a position first; it is zero otherwise.
func (f *feed) after(last eventID) (more []sentEvent, upTo journal.Pos, changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !last.includes(f.before) {
		return nil, f.before.pos, nil, nil
	}
	n := len(f.recent)
	for n > 0 && !last.includes(f.recent[n-1].id) {
		n--
	}
	return f.recent[n:len(f.recent):len(f.recent)], 0, f.changed, f.err
}
