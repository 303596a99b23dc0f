package embedded

import (
	"cmp"
	"context"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/xmaps"
)

// job is a running task. It has a goroutine.
type job struct {
	*engine.Task
	r      *run
	cancel context.CancelCauseFunc

	// r.mu guards everything below.
	history      []journal.TaskNoted // every note of the task so far; only appended to
	last         int                 // number of the last note
	calls        int                 // number of the last reservation
	waiting      int                 // number of the reservation that the task waits for; 0 for none
	answered     chan grant          // of that reservation
	heldDecision *pending            // held until the task writes a note
}

// recovery returns what happens to the task if its outcome stays unknown. r.mu is held.
func (j *job) recovery() journal.Recovery { return j.r.e.Recovery(j.Job.Task, j.history) }

// notes returns the notes of the task so far. Callers may keep the slice: later notes are only appended.
func (j *job) notes() []journal.TaskNoted {
	j.r.mu.Lock()
	defer j.r.mu.Unlock()
	return j.history
}

// launch runs a task in a goroutine of its own. r.mu is held.
func (r *run) launch(t plan.OpenTask) *job {
	ctx, cancel := context.WithCancelCause(context.Background())
	key := t.Key()
	j := &job{r: r, cancel: cancel, history: r.history[key]}
	// The task owns its notes while it runs. Numbers of notes and reservations continue after those of earlier
	// executions of the attempt.
	delete(r.history, key)
	for _, n := range j.history {
		j.last, j.calls = max(j.last, n.N), max(j.calls, n.Settles)
	}
	j.Task = r.e.NewTask(r.state, r.program, r.def, t, j.history)
	j.Job.Log = j
	j.Job.Calls = step.NewCalls(cancel)
	r.jobs[key] = j
	// The context does not derive from that of a caller: the task ends with its result, or when the run cancels it.
	r.e.tasks.Go(func() {
		defer cancel(nil)
		result, cause, err := r.e.Run(ctx, j.Task, j.notes)
		r.ended(j, result, cause, err)
	})
	return j
}

// ended passes the end of a task to the run.
func (r *run) ended(j *job, result step.Result, cause, err error) {
	notes, unwritten := j.requests(result.Notes)
	err = cmp.Or(err, unwritten)
	in, blob := r.e.Ended(j.Task, j.notes(), result, cause, err)
	switch in.(type) {
	case plan.TaskLost, plan.Ask, plan.Sleep: // the task continues from its notes later
		r.keepHistory(j)
	}
	r.conclude(j, notes, request{in: in, blob: blob})
}

// keepHistory stores a task's notes for the next execution to continue it. ended calls it before conclude, because the
// decision there may launch that execution at once.
func (r *run) keepHistory(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	xmaps.Set(&r.history, j.Job.Key, j.history)
}

// conclude removes a task that has ended and queues its last requests.
func (r *run) conclude(j *job, notes []request, last request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The run may have launched the same task again meanwhile; that job stays. A run that was dropped counts the end
	// for waitTasks.
	if r.jobs[j.Job.Key] == j {
		delete(r.jobs, j.Job.Key)
		if r.gone {
			r.e.taskEnded(r.id)
		}
	}
	if r.gone {
		return
	}
	// The last notes and the end of the task are queued together, so that one decision and one append have both.
	r.queue = append(append(r.queue, notes...), last)
	r.noteArrived(j)
	r.advance()
}

// Note implements step.Log. It returns when the last of the notes is durable; those before it are in the same append or
// an earlier one.
func (j *job) Note(ctx context.Context, notes ...step.Note) error {
	requests, err := j.requests(notes)
	if err != nil || len(requests) == 0 {
		return err
	}
	done := make(chan error, 1)
	requests[len(requests)-1].done = func(err error) { done <- err }
	j.r.push(j, requests...)
	select {
	case err := <-done:
		return j.abortTask(err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// requests numbers notes, adds them to the history of the task, and returns the requests that record them. If a note
// cannot be encoded, those before it stay in the history, and the task fails.
func (j *job) requests(notes []step.Note) ([]request, error) {
	var out []request
	j.r.mu.Lock()
	defer j.r.mu.Unlock()
	for _, n := range notes {
		note, noted, err := engine.NewNote(j.Work, j.Job.Rerun, j.last+1, n)
		if err != nil {
			return nil, err
		}
		j.last++
		out = append(out, request{in: note})
		j.history = append(j.history, noted)
	}
	return out, nil
}

// grant is the answer to a reservation.
type grant struct {
	amount journal.Usage
	err    error
}

// Reserve implements step.Log. The notes become durable in the same append.
func (j *job) Reserve(ctx context.Context, amount journal.Usage, notes ...step.Note) (step.Reservation, error) {
	n, _, err := j.ReserveUpTo(ctx, amount, 0, notes...)
	return n, err
}

// ReserveUpTo implements step.Log.
func (j *job) ReserveUpTo(
	ctx context.Context, most journal.Usage, least int64, notes ...step.Note,
) (step.Reservation, journal.Usage, error) {
	requests, err := j.requests(notes)
	if err != nil {
		return 0, most, err
	}
	j.r.mu.Lock()
	// Expect the answer before the request is pushed: a repeated reservation is granted by grantAgain while push runs.
	j.calls++
	n := j.calls
	j.waiting, j.answered = n, make(chan grant, 1)
	answered := j.answered
	j.r.mu.Unlock()
	// The answer comes by one of two ways. Reserved or BudgetRefused, perhaps much later, reach answered through
	// effect; done only reports a failed append or a refused input, such as one of a task that has ended.
	refused := make(chan error, 1)
	requests = append(requests, request{
		in: plan.Reserve{Work: j.Work, Rerun: j.Job.Rerun, N: n, Amount: most, Least: least},
		done: func(err error) {
			if err != nil {
				refused <- err
			}
		},
	})
	j.r.push(j, requests...)
	select {
	case got := <-answered:
		return step.Reservation(n), got.amount, got.err
	case err := <-refused:
		return 0, most, j.abortTask(err)
	case <-ctx.Done():
		return 0, most, context.Cause(ctx)
	}
}

// abortTask cancels a task after the run has refused its note or reservation.
func (j *job) abortTask(err error) error {
	if err == nil {
		return nil
	}
	j.cancel(engine.ErrParked)
	return err
}

// answer passes the answer to a reservation to its task. r.mu is held.
func (r *run) answer(w journal.TaskID, n int, amount journal.Usage, err error) {
	if j := r.jobs[w.Key()]; j != nil && j.waiting == n {
		j.waiting = 0
		j.answered <- grant{amount, err}
	}
}
