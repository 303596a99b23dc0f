// Package queue is a line without end: putting never blocks, taking takes all
// that waits.
package queue

// Stores use it to hand appends to whoever commits them: what
// came in while one group was being written is the next group, without any
// delay to gather it.
