// Package process runs commands as child processes: it limits their time, output and resources, optionally confines
// them in a sandbox, and kills them when their run ends.
package process

// A command runs in its own process group. When the command ends, or must end,
// the whole group is killed, and Run returns only after the group is dead. A
// process that leaves the group (setsid) still carries the command's mark in its
// environment. On Linux its orphans become children of this process, so they are
// found and killed as well.
//
// If this process itself is killed, three mechanisms work together on Linux:
//
//   - The kernel kills the command, because the thread that started it is dead.
//   - A watchdog, a shell script that the first command starts, reads from a pipe
//     whose other end only this process holds. When the pipe closes, it kills the
//     groups in a table that this process keeps in shared memory.
//   - The watchdog also kills every process that carries a mark of this process.
//
// The watchdog does not find a process that has both left its group and cleared
// its environment.
//
// The leader of a group is not reaped before the group is killed and removed
// from the table. Until then the kernel cannot reuse the group's ID.
//
// On other Unix systems, each command is started by a shell that leaves a
// watchdog in the group. It kills that group only.
//
// Concurrency: one locked thread starts a command, polls everything that can
// happen to it, and ends it. No goroutine outlives a command, so commands can
// run inside a testing/synctest bubble. The watchdog and the list of orphans are
// shared by all commands and have their own locks.
