// Package process runs the commands of a workflow: bounded in time and output,
// and never outliving the run, however that ends.
package process

// A command runs in a process group of its own. When it ends, or has to, the
// whole group is killed and its death is verified, so nothing that it left in
// the background goes on.
//
// If this process itself is killed there is nobody left to do that. So the
// first command brings a guardian into being, a few lines of shell in a group
// of its own: it reads from a pipe whose other end only we hold, and kills all
// groups in a table that we keep for it when that end closes. One for all
// commands costs a command nothing but three small writes. The table is a file
// and not what the pipe says, so that the guardian sleeps until it is needed.
//
// The dead first process of a group is not reaped before the group was killed
// and is out of the table: until then its number cannot go to somebody else.
//
// A process that leaves the group (setsid) still carries the command's mark in
// its environment, and on Linux its orphans become our children: it is killed
// like the rest. Elsewhere it is not followed.
