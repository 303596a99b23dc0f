// Package embedded drives runs: it claims them, decides with plan, makes every
// decision durable before anything happens, has step kinds do the work, and
// makes every result durable before any reader sees it.
package embedded

// A run in memory is a struct with a mutex, not a goroutine; only a task that
// is being done has one. While an append is in flight, inputs queue up and the
// next decision takes them all. A run that waits is released and forgotten:
// what is left of it is its row in the store.
//
// Starting, resuming after a crash and going on after an approval are the same
// loop (run.advance). The state in memory runs ahead of what is durable by at
// most one append; when an append fails, the state is discarded.
//
// Several processes share a store. These rules hold between them:
//
//   - One writer per run: the owner, fenced by the store. A process claims a
//     run only if it has no owner, or if its owner is dead.
//   - A process that holds a run when it becomes runnable drives it to its next
//     resting point, whatever became of the process's own message (Drive). A
//     process gives a run up only at rest (Drain), or when it is told to stop
//     (Close, Hold), which it announces first (Process.StopDriving).
//   - A process whose message was accepted leaves the run to its owner only if
//     the owner drives it (Wait).
//   - A message stays in the inbox until the append that answers it is durable.
//     Its sender polls for the answer, and claims the run if the owner dies or
//     releases it.
//   - Wake-ups only save time: every wait ends after a bounded time and then
//     reads the store.
//
// Locks are taken in this order: run.mu, then Engine.mu. No lock is held during
// a call of the store, except Append, which does not block.
