package step

import (
	"errors"
	"sync"
)

// Deadline lets the calls of a task finish after the deadline of its run has passed. A call that has been sent may be
// billed and may act, so cutting it off would make it necessary to send it again. Everything else in the task is
// interrupted as soon as no call is in progress.
type Deadline struct {
	interrupt func()

	mu     sync.Mutex
	calls  int // in progress
	passed bool
}

// NewDeadline returns the deadline of a task. interrupt ends the task.
func NewDeadline(interrupt func()) *Deadline { return &Deadline{interrupt: interrupt} }

// Pass refuses further calls, and interrupts the task as soon as none is in progress.
func (d *Deadline) Pass() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.passed = true
	if d.calls == 0 {
		d.interrupt()
	}
}

func (d *Deadline) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.passed {
		return false
	}
	d.calls++
	return true
}

func (d *Deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls--
	if d.passed && d.calls == 0 {
		d.interrupt()
	}
}

// ErrNoCall is the error of a call that is not made because the deadline of the run has passed.
var ErrNoCall = errors.New("the deadline of the run has passed before the call was made")

// BeginCall announces a call of a model or a tool, which the deadline of the run does not cut off. The caller calls end
// once, after the call. BeginCall fails with ErrNoCall if the deadline has passed.
func (j *Job) BeginCall() (end func(), err error) {
	if j.Deadline == nil {
		return func() {}, nil
	}
	if !j.Deadline.begin() {
		return nil, ErrNoCall
	}
	return j.Deadline.end, nil
}
