package plan

import (
	"cmp"
	"container/heap"

	"github.com/espalier-run/espalier/internal/journal"
)

// timer is a time at which a frame may have to act. Timers that have become obsolete stay in the heap; nextTimer drops
// them.
type timer struct {
	due   journal.Millis
	path  string
	limit bool // the deadline of the frame's ledger, not its retry or gate
	group bool // the time limit of the frame's group
}

// timers is a heap of timers, the earliest first. It is not part of snapshots: rebuildTimers computes it.
type timers []timer

// Len, Less and Swap implement heap.Interface.
func (t timers) Len() int      { return len(t) }
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t timers) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(t[i].due, t[j].due), cmp.Compare(t[i].path, t[j].path)) < 0
}

// Push implements heap.Interface.
func (t *timers) Push(x any) { *t = append(*t, x.(timer)) }

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// addTimer adds a timer unless its time is 0 (never).
func (s *State) addTimer(t timer) {
	if t.due != 0 {
		heap.Push(&s.timers, t)
	}
}

// setDue sets the due time of a frame's retry or gate; 0 is none.
func (s *State) setDue(f *Frame, due journal.Millis) {
	f.Due = due
	s.addTimer(timer{due: due, path: f.Path})
}

// nextTimer returns the earliest timer that is not obsolete.
func (s *State) nextTimer() (timer, *Frame, bool) {
	// A timer counts only if its frame still has that due time; raising a limit or answering a gate leaves the old
	// timer in the heap.
	for len(s.timers) > 0 {
		t := s.timers[0]
		f := s.Frames[t.path]
		switch {
		case f == nil:
		case t.limit && f.Ledger != nil && f.Ledger.deadline() == t.due && !f.Canceled && !(s.Expired && t.path == ""):
			return t, f, true
		case t.group:
			if g := f.Group; g != nil && f.Phase == Grouped && g.Clock.due(g.Limit) == t.due && !g.TimedOut &&
				!f.Canceled {
				return t, f, true
			}
		case !t.limit && f.Due == t.due && !f.Canceled:
			return t, f, true
		}
		heap.Pop(&s.timers)
	}
	return timer{}, nil, false
}

// rebuildTimers computes the timers from the frames. Restore calls it.
func (s *State) rebuildTimers() {
	s.timers = nil
	for _, path := range s.paths() {
		f := s.Frames[path]
		s.addTimer(timer{due: f.Due, path: path})
		if f.Ledger != nil {
			s.addTimer(timer{due: f.Ledger.deadline(), path: path, limit: true})
		}
		if g := f.Group; g != nil && g.Limit > 0 {
			s.addTimer(timer{due: g.Clock.due(g.Limit), path: path, group: true})
		}
	}
}

// Wake returns the due time of the next timer; false if there is none.
func (s *State) Wake() (journal.Millis, bool) {
	if s.Finished != nil {
		return 0, false
	}
	t, _, ok := s.nextTimer()
	return t.due, ok
}
