package embedded

import (
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// A task whose kind writes a note before it acts need not wait until its start
// is durable. It starts as soon as it is decided on, and the decision is held
// back until the note arrives: both are one write to the disk instead of two,
// which is most of the cost of a short command.

// mostEarly is how long a decision is held back. Tasks that take longer to
// write their note cost a write of their own.
const mostEarly = 20 * time.Millisecond

// beginEarly starts the tasks of a decision that may start before it is
// durable, and holds the decision back until their notes arrive. It reports
// whether there are such tasks. r.mu is held.
func (r *run) beginEarly(p *pending) bool {
	if r.state.Hold {
		return false
	}
	for i := range p.events {
		x, ok := p.events[i].Fact.(journal.TaskStarted)
		if !ok || x.Rerun > 0 || !r.e.writeAhead[x.Kind] { // a task that is done again has written its note before
			continue
		}
		f := r.state.Frames[x.Frame]
		if f == nil || f.Phase != plan.Working || f.Work() != x.Work {
			continue
		}
		if r.early == nil {
			r.early = map[string]bool{}
		}
		j := r.launch(plan.OpenTask{Work: x.Work, Rerun: x.Rerun, Frame: f})
		r.early[j.Job.Key] = true
		j.holds = p
		p.waits++
	}
	if p.waits == 0 {
		return false
	}
	r.held = p
	if r.holdTimer == nil {
		r.holdTimer = time.AfterFunc(mostEarly, r.flushHeld)
	} else {
		r.holdTimer.Reset(mostEarly)
	}
	return true
}

// flushHeld appends the held decision without waiting for notes. A late timer
// for an earlier decision only costs one extra write.
func (r *run) flushHeld() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		r.held.waits = 0
		r.advance()
	}
}

// noteArrived counts a task whose note is in the queue now. The held decision
// is complete with the note of its last task. r.mu is held.
func (r *run) noteArrived(j *job) {
	if j == nil || j.holds == nil || j.holds != r.held {
		return
	}
	j.holds = nil
	r.held.waits--
	if r.held.waits == 0 {
		r.holdTimer.Stop()
	}
}
