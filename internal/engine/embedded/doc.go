// Package embedded implements the engine that drives runs in this process. It
// claims runs, decides with plan, makes every decision durable before it takes
// effect, runs tasks, and makes every result durable before readers see it. A
// task that writes a note before it acts may start earlier: its note and the
// decision are one append (early.go).
package embedded

// A run in memory is a struct with a mutex, not a goroutine; only a running task
// has one. While an append is in flight, inputs are queued, and the next decision
// handles all of them. A run that waits is released and dropped from memory: it
// is one row in the store.
//
// Starting a run, resuming it after a crash and continuing after an approval are
// the same loop (run.advance). The state in memory is ahead of the durable state
// by at most one append. When an append fails, the state is discarded.
//
// Several processes share a store. These rules hold between them:
//
//   - One writer per run: the owner, fenced by the store. A process claims a
//     run only if it has no owner, or if its owner is dead.
//   - A process that holds a run when it becomes runnable drives it to its next
//     resting point, whatever became of the process's own message (see enginetest.Drive). A
//     process releases a run only at rest (Drain), or when it has to stop
//     (Close, Hold), which it announces first (Process.StopDriving).
//   - A process that sent an accepted message leaves the run to its owner only
//     if the owner drives it (Wait).
//   - A message stays in the inbox until the append that answers it is durable.
//     Its sender polls for the answer, and claims the run if the owner dies or
//     releases it.
//   - Wake-ups only save time: every wait ends after a bounded time and then
//     reads the store.
//
// Locks are acquired in this order: run.mu, then Engine.mu, then clock.mu. No
// lock is held during a call of the store, except for Append, which does not
// block, and for Blob, which the plan calls with run.mu held.
