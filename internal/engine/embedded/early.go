package embedded

import (
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// A write-ahead task writes a note before it acts, so it may start before its
// start is durable. It starts as soon as it is decided on, and the decision is
// held until the note arrives: both are one write to the disk instead of two,
// which is most of the cost of a short command.

// maxHold is how long a decision is held. A task that takes longer to write its
// note costs a separate write.
const maxHold = 20 * time.Millisecond

// startEarly starts the write-ahead tasks of a decision and holds the decision
// until their notes arrive. It reports whether there are such tasks. r.mu is
// held.
func (r *run) startEarly(p *pending) bool {
	if r.state.Hold {
		return false
	}
	for i := range p.events {
		x, ok := p.events[i].Fact.(journal.TaskStarted)
		if !ok || x.Rerun > 0 || !r.e.writeAhead[x.Kind] { // a rerun task has written its note before
			continue
		}
		// A later fact of the same decision may have ended the attempt or canceled its frame.
		f := r.state.Frames[x.Frame]
		if f == nil || f.Phase != plan.Working || f.Work() != x.TaskID {
			continue
		}
		if r.early == nil {
			r.early = map[string]bool{}
		}
		// Starting before the append is safe: the task returns from its first Note only when the append with the note,
		// and so with this decision, is durable. Until then it does not act.
		j := r.launch(plan.OpenTask{TaskID: x.TaskID, Rerun: x.Rerun, Frame: f})
		r.early[j.Job.Key] = true
		j.heldDecision = p
		p.waits++
	}
	if p.waits == 0 {
		return false
	}
	r.held = p
	if r.holdTimer == nil {
		r.holdTimer = time.AfterFunc(maxHold, r.flushHeld)
	} else {
		r.holdTimer.Reset(maxHold)
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

// noteArrived counts a task that has queued its note, or has ended without one. The held decision is complete when the
// last of its tasks is counted; the caller then calls advance. j is nil if a request does not come from a task. r.mu is
// held.
func (r *run) noteArrived(j *job) {
	if j == nil || j.heldDecision == nil || j.heldDecision != r.held {
		return
	}
	j.heldDecision = nil
	r.held.waits--
	if r.held.waits == 0 {
		r.holdTimer.Stop()
	}
}
