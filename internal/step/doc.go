// Package step is the seam to running leaf work: a Runner does one attempt at a
// task, its Job, with what the Host offers.
package step

// A Job is plain data, so that an engine can send it to another process; what
// cannot be sent is in Host. Package stepkind describes the same kinds to code
// that does not run them.
//
// A Runner notes before it acts, and notes the result. After a crash, Recovery
// decides from the notes what the task can have done, and Run continues from
// them instead of acting twice. steptest holds every kind to that, from each of
// its own notes on.
