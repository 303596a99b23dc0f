// Package queue implements an unbounded queue whose consumer takes all waiting
// items at once, and a broadcast notifier.
package queue

// Stores use the queue to pass appends to the committer: what is queued while one
// group is written is the next group, without a delay.
