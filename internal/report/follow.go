package report

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Sink is a reader of the journal.
type Sink interface {
	// Record adds appends; one call with many is cheaper than many calls. It must not retain the list. Appends
	// of a run arrive in order, may repeat, and need not start with the run's first, so Record must be
	// idempotent. Errors are logged and following continues; the sink retries.
	Record(ctx context.Context, appends ...journal.Appended) error
}

// Idler is a Sink with maintenance, such as retries. Idle is called from time to time while there are no new
// appends.
type Idler interface {
	Idle(ctx context.Context) error
}

// Sinks feeds several readers, so that the journal is read once.
type Sinks []Sink

// Record passes appends to each sink in turn.
func (s Sinks) Record(ctx context.Context, appends ...journal.Appended) error {
	return errors.Join(xslices.Map(s, func(one Sink) error { return one.Record(ctx, appends...) })...)
}

// Idle runs the maintenance of each sink.
func (s Sinks) Idle(ctx context.Context) error {
	var errs []error
	for _, one := range s {
		if idler, ok := one.(Idler); ok {
			errs = append(errs, idler.Idle(ctx))
		}
	}
	return errors.Join(errs...)
}

// FollowOptions configures Follow.
type FollowOptions struct {
	After journal.Pos
	// Poll is the interval at which appends of other processes are looked for; 0 is one second. Appends of this
	// process are seen at once.
	Poll time.Duration
	Log  *slog.Logger     // nil is slog.Default
	Now  func() time.Time // nil is time.Now; limits how often it warns
}

// Follower feeds one sink in its own goroutine.
type Follower struct {
	journal journal.Tailer
	sink    Sink
	log     *slog.Logger
	now     func() time.Time
	stop    context.CancelFunc
	done    chan struct{}
	// kick makes the goroutine read at once.
	kick      chan struct{}
	delivered int // appends passed to the sink in this round

	mu      sync.Mutex
	pos     journal.Pos
	waiting chan struct{} // closed on the next update; nil if no Flush waits
	failed  error         // of the last Record or Idle
	stuck   error         // of the last read
	asked   int           // calls of Flush
	looked  int           // of these, how many precede the last read to the end of the journal
	warned  time.Time
}

// Follow starts to feed a sink.
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

// run delivers events until the context ends.
func (f *Follower) run(ctx context.Context, poll time.Duration) {
	defer close(f.done)
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	gathering := time.NewTimer(poll)
	defer gathering.Stop()
	idler, _ := f.sink.(Idler)
	idle := false
	busy := 0 // consecutive deliveries, each soon after the one before
	var rested time.Time
	for {
		changed := f.journal.Changed() // before reading, so that no append is missed
		f.delivered = 0
		if f.drain(ctx) && idle && idler != nil {
			if err := idler.Idle(ctx); ctx.Err() == nil {
				f.update(f.Pos(), err, nil)
			}
		}
		idle = false
		if f.delivered > 0 {
			if time.Since(rested) >= minPause {
				busy = 0
			}
			if wait := pause(f.delivered, busy); wait > 0 {
				gathering.Reset(wait)
				select {
				case <-gathering.C:
				case <-f.kick:
					continue
				case <-ctx.Done():
					return
				}
			}
			busy++
			rested = time.Now()
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

// minPause is the shortest batching delay.
const minPause = 5 * time.Millisecond

// pause returns the batching delay after a delivery: 0 for one that nothing precedes, else 5–50 ms, growing with load.
// Two appends in a row are common, such as a start and its first step, and the second one is not delayed.
func pause(delivered, busy int) time.Duration {
	const each, most = 50 * time.Microsecond, 50 * time.Millisecond
	if busy == 0 {
		return 0
	}
	return min(max(time.Duration(delivered)*each, minPause<<min(busy-1, 2)), most)
}

// drain delivers all new appends, and reports whether it succeeded.
func (f *Follower) drain(ctx context.Context) bool {
	f.mu.Lock()
	asked := f.asked
	f.mu.Unlock()
	for {
		read, err := f.page(ctx)
		if len(read) > 0 && !f.deliver(ctx, read) {
			return false
		}
		if len(read) < pageSize || err != nil {
			if ctx.Err() != nil {
				return false // closed; the next process continues at the saved position
			}
			if err == nil {
				f.reachedEnd(asked)
			}
			f.update(0, nil, err)
			return err == nil
		}
	}
}

// reachedEnd records that drain has read the journal to its end, and that it started after asked calls of
// Flush.
func (f *Follower) reachedEnd(asked int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = max(f.looked, asked)
}

// pageSize is the number of appends that are delivered together.
const pageSize = 1024

// page reads the next appends.
func (f *Follower) page(ctx context.Context) (read []journal.Appended, err error) {
	for a, err := range f.journal.Tail(ctx, f.Pos()) {
		if err != nil {
			return read, err
		}
		if read = append(read, a); len(read) == pageSize {
			break
		}
	}
	return read, nil
}

// deliver passes appends to the sink, and reports whether they count as recorded: not if the context has ended
// meanwhile.
func (f *Follower) deliver(ctx context.Context, appends []journal.Appended) bool {
	err := f.sink.Record(ctx, appends...)
	if ctx.Err() != nil {
		return false
	}
	f.delivered += len(appends)
	f.update(appends[len(appends)-1].Pos, err, nil)
	return true
}

// update records the position and the errors, wakes Flush, and logs a warning at most once per second. pos is 0
// if it has not changed.
func (f *Follower) update(pos journal.Pos, failed, stuck error) {
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

// Pos returns the position up to which the sink has received all appends.
func (f *Follower) Pos() journal.Pos {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pos
}

// Flush waits until the sink has received everything that was appended before the call, and returns the error
// of the last Record or Idle.
//
// The newest append may be one that Tail does not return, because its run has been removed. Therefore a drain
// that starts after the call and reaches the end of the journal suffices.
func (f *Follower) Flush(ctx context.Context) error {
	last, err := f.journal.Last(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.stuck = nil // the next read sets it again
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

// Close stops the goroutine and waits for it.
func (f *Follower) Close() {
	f.stop()
	<-f.done
}
