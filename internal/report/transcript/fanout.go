package transcript

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
)

// Buffer is how many events a subscriber may lag behind before it loses some.
const Buffer = 256

// FanOut sends events to subscribers and never waits for one: events that do not
// fit into a subscriber's buffer are dropped for that subscriber, and counted.
// The file has all of them.
type FanOut struct {
	log *slog.Logger
	now func() time.Time

	mu     sync.Mutex
	subs   map[*Subscription]struct{}
	next   int
	closed bool
}

// Subscription receives the events of one subscriber.
type Subscription struct {
	// C receives the events in the order of the file. Close closes it.
	C <-chan Event

	fan     *FanOut
	c       chan Event
	id      int
	run     journal.RunID
	sent    int64
	dropped int64
	warned  time.Time
}

// SubscriberStats are the counters of one subscriber.
type SubscriberStats struct {
	Subscriber int           `json:"subscriber"`
	Run        journal.RunID `json:"run,omitempty"` // empty: all runs
	Sent       int64         `json:"sent"`
	Dropped    int64         `json:"dropped"`
	Waiting    int           `json:"waiting"` // in its buffer
}

// NewFanOut returns a FanOut without subscribers. Nil means slog.Default and time.Now.
func NewFanOut(log *slog.Logger, now func() time.Time) *FanOut {
	if log == nil {
		log = slog.Default()
	}
	if now == nil {
		now = time.Now
	}
	return &FanOut{log: log, now: now, subs: map[*Subscription]struct{}{}}
}

// Subscribe returns a Subscription to what is published from now on: by the given
// run, or by all runs if it is empty.
func (f *FanOut) Subscribe(run journal.RunID) *Subscription {
	c := make(chan Event, Buffer)
	s := &Subscription{C: c, fan: f, c: c, run: run}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		close(c)
		return s
	}
	f.next++
	s.id = f.next
	f.subs[s] = struct{}{}
	return s
}

// Wanted reports whether a run has subscribers.
func (f *FanOut) Wanted(run journal.RunID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.subs {
		if s.run == "" || s.run == run {
			return true
		}
	}
	return false
}

// Publish sends an event to every subscriber.
func (f *FanOut) Publish(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.subs {
		if s.run != "" && string(s.run) != e.RunID {
			continue
		}
		select {
		case s.c <- e:
			s.sent++
		default:
			f.drop(s)
		}
	}
}

func (f *FanOut) drop(s *Subscription) {
	s.dropped++
	if now := f.now(); now.Sub(s.warned) >= time.Second {
		s.warned = now
		f.log.Warn("transcript subscriber is too slow, dropping events", "subscriber", s.id, "dropped", s.dropped)
	}
}

// Stats returns the counters of the subscribers, in the order of their subscription.
func (f *FanOut) Stats() []SubscriberStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]SubscriberStats, 0, len(f.subs))
	for s := range f.subs {
		out = append(out, SubscriberStats{s.id, s.run, s.sent, s.dropped, len(s.c)})
	}
	slices.SortFunc(out, func(a, b SubscriberStats) int { return cmp.Compare(a.Subscriber, b.Subscriber) })
	return out
}

// Close ends the subscription; buffered events can still be received. It may be
// called again.
func (s *Subscription) Close() {
	s.fan.mu.Lock()
	defer s.fan.mu.Unlock()
	if _, open := s.fan.subs[s]; open {
		delete(s.fan.subs, s)
		close(s.c)
	}
}

// Close ends all subscriptions. It may be called again.
func (f *FanOut) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for s := range f.subs {
		delete(f.subs, s)
		close(s.c)
	}
}
