package engine

import (
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// A task whose kind notes before it acts need not wait until its start is
// durable. It is begun as soon as it is decided on, and the decision waits for
// its note: both are one write to the disk instead of two, and nearly all that
// a short command costs are those.

// mostEarly is how long a decision waits for the tasks that it begins: those
// that take longer than they promise cost a write of their own.
const mostEarly = 20 * time.Millisecond

// beginEarly begins the tasks of a decision that may begin before it is
// durable, and holds it back until they have said something. It is false when
// there are none. r.mu is held.
func (r *run) beginEarly(p *pending) bool {
	if r.state.Hold {
		return false
	}
	for i := range p.events {
		x, ok := p.events[i].Fact.(journal.TaskStarted)
		if !ok || x.Rerun > 0 || !r.e.notesFirst[x.Kind] { // who does it again has noted it before, and would not wait for anything
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
		r.early[j.key] = true
		j.holds = p
		p.waits++
	}
	if p.waits == 0 {
		return false
	}
	r.held = p
	if r.patience == nil {
		r.patience = time.AfterFunc(mostEarly, r.tired)
	} else {
		r.patience.Reset(mostEarly)
	}
	return true
}

// tired goes on without what the tasks of a decision have to say. It may have
// been meant for the decision before: then this one costs a write of its own.
func (r *run) tired() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		r.held.waits = 0
		r.advance()
	}
}

// heardOf takes note that a task has said something, in the queue by now. What
// the decision waits for is complete with the last of its tasks. r.mu is held.
func (r *run) heardOf(j *job) {
	if j == nil || j.holds == nil || j.holds != r.held {
		return
	}
	j.holds = nil
	r.held.waits--
	if r.held.waits == 0 {
		r.patience.Stop()
	}
}
