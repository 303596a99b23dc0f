package report

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
)

// Sink is a reader of the journal.
type Sink interface {
	// Record takes appends; many at once cost less than one after the other. It must not retain the list. The appends
	// of a run come in order; one may come again, and the first to come need not be the run's first: a sink finds its
	// place by what it has written. An error, which is that of all that could not be recorded, is reported and does
	// not end the following: a sink makes up for it when it can.
	Record(ctx context.Context, appends ...journal.Appended) error
}

// Idler is a sink that has something to do when nothing happens: to try again
// what went wrong, to let go of what it does not need. It is called now and
// then, when the sink has had everything.
type Idler interface {
	Idle(ctx context.Context) error
}

// Sinks are several readers that are fed as one: the journal is read once.
type Sinks []Sink

// Record gives appends to each of them, to one after the other.
func (s Sinks) Record(ctx context.Context, appends ...journal.Appended) error {
	var errs []error
	for _, one := range s {
		if err := one.Record(ctx, appends...); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Idle lets each of them do what it has to do now and then.
func (s Sinks) Idle(ctx context.Context) error {
	var errs []error
	for _, one := range s {
		if idler, ok := one.(Idler); ok {
			errs = append(errs, idler.Idle(ctx))
		}
	}
	return errors.Join(errs...)
}

// FollowOptions are where and how to follow.
type FollowOptions struct {
	After journal.Pos
	// Poll is how often to look for what other processes have appended; 0 is
	// once in a second. Appends of this process are seen at once.
	Poll time.Duration
	Log  *slog.Logger     // nil is slog.Default
	Now  func() time.Time // nil is time.Now; only how often it warns depends on it
}

// Follower feeds one sink in a goroutine of its own.
type Follower struct {
	journal journal.Tailer
	sink    Sink
	log     *slog.Logger
	now     func() time.Time
	stop    context.CancelFunc
	done    chan struct{}
	// kick makes the goroutine look at once.
	kick   chan struct{}
	handed int // appends, since it began to look

	mu      sync.Mutex
	pos     journal.Pos
	waiting chan struct{} // closed when something has moved; nil when nobody waits
	failed  error         // of the last appends, or of idling since
	stuck   error         // of the last look
	asked   int           // calls of Flush
	looked  int           // of these, how many precede the last look that reached the end of the journal
	warned  time.Time
}

// Follow begins to feed a sink.
func Follow(j journal.Tailer, sink Sink, o FollowOptions) *Follower {
	ctx, stop := context.WithCancel(context.Background())
	f := &Follower{
		journal: j, sink: sink, log: o.Log, now: o.Now, stop: stop, done: make(chan struct{}),
		kick: make(chan struct{}, 1), pos: o.After,
	}
	f.log = cmp.Or(f.log, slog.Default())
	if f.now == nil {
		f.now = time.Now
	}
	poll := o.Poll
	if poll <= 0 {
		poll = time.Second
	}
	go f.run(ctx, poll)
	return f
}

func (f *Follower) run(ctx context.Context, poll time.Duration) {
	defer close(f.done)
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	gathering := time.NewTimer(poll)
	defer gathering.Stop()
	idler, _ := f.sink.(Idler)
	idle := false
	busy := 0 // how often in a row more had come by the time that some were gathered
	for {
		changed := f.journal.Changed() // before reading, so that nothing falls between
		f.handed = 0
		if f.look(ctx) && idle && idler != nil {
			if err := idler.Idle(ctx); ctx.Err() == nil {
				f.moved(f.Pos(), err, nil)
			}
		}
		idle = false
		if wait := pause(f.handed, busy); wait > 0 {
			gathering.Reset(wait)
			select {
			case <-gathering.C:
			case <-f.kick:
				continue
			case <-ctx.Done():
				return
			}
			select {
			case <-changed:
				busy++
			default:
				busy = 0
			}
		}
		select {
		case <-changed:
		case <-f.kick:
		case <-ticker.C:
			idle = true
		case <-ctx.Done():
			return
		}
	}
}

// pause is how long appends gather after so many were handed over, of what has
// been coming for so many pauses in a row. What comes alone is handed over at
// once; of what comes thick and fast a sink takes many for little more than one,
// and nobody sees that it is some milliseconds late.
func pause(handed, busy int) time.Duration {
	const each, least, most = 50 * time.Microsecond, 5 * time.Millisecond, 50 * time.Millisecond
	if handed == 0 {
		return 0
	}
	return min(max(time.Duration(handed)*each, least<<min(busy, 2)), most)
}

// look hands over everything that is there, and tells whether it could.
func (f *Follower) look(ctx context.Context) bool {
	f.mu.Lock()
	asked := f.asked
	f.mu.Unlock()
	for {
		read, err := f.page(ctx)
		if len(read) > 0 && !f.hand(ctx, read) {
			return false
		}
		if len(read) < atOnce || err != nil {
			if ctx.Err() != nil {
				return false // Close has ended the look; the next process continues at the saved position
			}
			if err == nil {
				f.reachedEnd(asked)
			}
			f.moved(0, nil, err)
			return err == nil
		}
	}
}

// reachedEnd records that a look has read the journal to its end. Its start follows asked calls of Flush.
func (f *Follower) reachedEnd(asked int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = max(f.looked, asked)
}

// atOnce is how many appends are read before they are handed over.
const atOnce = 1024

// page reads what comes next.
func (f *Follower) page(ctx context.Context) (read []journal.Appended, err error) {
	for a, err := range f.journal.Tail(ctx, f.Pos()) {
		if err != nil {
			return read, err
		}
		if read = append(read, a); len(read) == atOnce {
			break
		}
	}
	return read, nil
}

// hand gives appends to the sink. It tells whether it could: when following
// ends in between, they count as not recorded.
func (f *Follower) hand(ctx context.Context, appends []journal.Appended) bool {
	err := f.sink.Record(ctx, appends...)
	if ctx.Err() != nil {
		return false
	}
	f.handed += len(appends)
	f.moved(appends[len(appends)-1].Pos, err, nil)
	return true
}

// moved notes how far following has come, or what keeps it from going on, and
// warns about trouble, once in a second at most. pos is 0 when there is no
// append to speak of.
func (f *Follower) moved(pos journal.Pos, failed, stuck error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stuck = stuck
	if pos != 0 {
		f.pos, f.failed = pos, failed
	}
	if f.waiting != nil {
		close(f.waiting)
		f.waiting = nil
	}
	err := cmp.Or(failed, stuck)
	if err == nil {
		return
	}
	if now := f.now(); now.Sub(f.warned) >= time.Second {
		f.warned = now
		f.log.Warn("a report could not be written; it will be completed later", "error", err)
	}
}

// Pos is the place up to which the sink has had everything.
func (f *Follower) Pos() journal.Pos {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pos
}

// Flush waits until the sink has had everything that was appended before the
// call. It returns what went wrong with the last appends, if anything did; what
// a sink still owes, the sink itself says when it is closed.
//
// The newest append may be one that Tail does not return, because its run has been
// removed. Therefore a look that starts after the call and reaches the end of the
// journal suffices.
func (f *Follower) Flush(ctx context.Context) error {
	last, err := f.journal.Last(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.stuck = nil // what the next look says counts
	f.asked++
	asked := f.asked
	f.mu.Unlock()
	select {
	case f.kick <- struct{}{}:
	default:
	}
	for {
		f.mu.Lock()
		pos, looked, failed, stuck := f.pos, f.looked, f.failed, f.stuck
		if f.waiting == nil {
			f.waiting = make(chan struct{})
		}
		moved := f.waiting
		f.mu.Unlock()
		switch {
		case stuck != nil:
			return stuck
		case pos >= last || looked >= asked:
			return failed
		}
		select {
		case <-moved:
		case <-f.done:
			return errors.New("report: following has ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close ends the following and waits for it.
func (f *Follower) Close() {
	f.stop()
	<-f.done
}
