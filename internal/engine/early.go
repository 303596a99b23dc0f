package engine

import (
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
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
		if !ok || x.Rerun > 0 { // who does it again has noted it before, and would not wait for anything
			continue
		}
		f := r.state.Frames[x.Frame]
		if f == nil || f.Phase != plan.Working || f.Work() != x.Work {
			continue
		}
		if _, ok := r.e.Kinds[r.state.TaskOf(r.program, f).Kind].(step.NotesFirst); !ok {
			continue
		}
		if p.tasks == nil {
			p.tasks = map[*job]bool{}
		}
		if r.early == nil {
			r.early = map[string]bool{}
		}
		r.early[x.Key()] = true
		p.tasks[r.launch(plan.OpenTask{Work: x.Work, Rerun: x.Rerun, Frame: f})] = true
	}
	if p.tasks == nil {
		return false
	}
	r.held = p
	p.timer = time.AfterFunc(mostEarly, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.held == p {
			clear(p.tasks)
			r.advance()
		}
	})
	return true
}

// heardOf takes note that a task has said something, in the queue by now. What
// the decision waits for is complete with the last of its tasks. r.mu is held.
func (r *run) heardOf(j *job) {
	if r.held == nil || !r.held.tasks[j] {
		return
	}
	delete(r.held.tasks, j)
	if len(r.held.tasks) == 0 {
		r.held.timer.Stop()
	}
}
