// Package engine drives runs: it claims them, decides with plan, makes every
// decision durable before anything happens, has step kinds do the work, and
// makes every result durable before anybody sees it.
package engine

// A run in memory is a struct with a mutex, not a goroutine; only a task that
// is being done has one. While an append is in flight, inputs queue up and the
// next decision takes them all. A run that waits is given up and forgotten:
// what is left of it is its row in the store.
//
// Starting, resuming after a crash, going on after an approval: all are the
// same loop (run.advance). The state in memory runs ahead of what is durable
// by at most one append; when an append fails, it is thrown away.
