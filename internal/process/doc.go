// Package process runs the commands of a workflow: bounded in time and output,
// and never outliving the run, however that ends.
package process

// A command runs in a process group of its own. When it ends, or has to, the
// whole group is killed and its death is verified, so nothing that it left in
// the background goes on. A process that leaves the group (setsid) still
// carries the command's mark in its environment, and on Linux its orphans become
// our children: it is killed like the rest.
//
// If this process itself is killed there is nobody left to do that. On Linux
// three things then work together, and none of them costs a command more than a
// few microseconds:
//
//   - the kernel kills the command itself, as the thread that started it is dead;
//   - a guardian, a few lines of shell that the first command brings into being,
//     reads from a pipe whose other end only we hold. When that closes it kills
//     the groups in a table that we keep for it in memory that both share;
//   - and whatever carries our mark.
//
// The dead first process of a group is not reaped before the group was killed
// and is out of the table: until then its number cannot go to somebody else.
// What has left its group and cleared its environment is not found by the
// guardian.
//
// Elsewhere each command is started by a shell that leaves a watcher in the
// group, which does the same for that group alone; what leaves it is not
// followed.
//
// One thread starts a command, waits for everything that can happen, and ends
// it. Nothing that we start in the background outlives a command, so that tests
// with a clock of their own can run some.
