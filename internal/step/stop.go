package step

import (
	"cmp"
	"errors"
	"sync"
)

// Calls lets the calls of a task finish after the task was stopped, because the deadline of its run has passed or
// the process is ending. A call that has been sent may be billed and may act, so cutting it off would make it necessary
// to send it again. Everything else in the task is interrupted as soon as no call is in progress.
type Calls struct {
	interrupt func(cause error)

	mu      sync.Mutex
	open    int // calls in progress
	stopped error
}

// NewCalls returns the calls of a task. interrupt ends the task.
func NewCalls(interrupt func(cause error)) *Calls { return &Calls{interrupt: interrupt} }

// Stop refuses further calls, and interrupts the task as soon as none is in progress.
func (c *Calls) Stop(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = cmp.Or(c.stopped, cause)
	if c.open == 0 {
		c.interrupt(c.stopped)
	}
}

// tryStart counts a call and returns true, unless calls are stopped.
func (c *Calls) tryStart() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped != nil {
		return false
	}
	c.open++
	return true
}

// end counts the end of a call. After Stop, the last one interrupts the task.
func (c *Calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.stopped != nil && c.open == 0 {
		c.interrupt(c.stopped)
	}
}

// ErrNoCall is the error of a call that is not made because the task was stopped.
var ErrNoCall = errors.New("the task was stopped before the call was made")

// BeginCall announces a call of a model or a tool, which Stop does not cut off. The caller calls
// end once, after the call. BeginCall fails with ErrNoCall after Stop.
func (j *Job) BeginCall() (end func(), err error) {
	if j.Calls == nil {
		return func() {}, nil
	}
	if !j.Calls.tryStart() {
		return nil, ErrNoCall
	}
	return j.Calls.end, nil
}
