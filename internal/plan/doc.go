// Package plan decides what a run does next; package engine executes the decisions. State is the fold of a
// run's events. Decide turns inputs into new facts and returns them as events.
package plan

// The plan is pure: it has no clock, no randomness, no I/O and no goroutines. Time, results, decisions and signals are
// inputs, which become facts or are refused with a reason. Only Apply changes State. Deciding applies each fact at
// once, because closing a frame may end a step, which starts the next one, and so on.
//
// Tests check three laws after every batch: the fold of the events equals the live state; MarkAll and Decide yield
// nothing; a snapshot round trip changes nothing.
//
// Decide changes State before its events are durable. If the append fails, the caller must discard the State and fold
// the run again.
//
// State is not safe for concurrent use. The embedded engine guards it with run.mu.
