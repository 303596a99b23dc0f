// Package process runs the commands of a workflow: bounded in time and output,
// and never outliving the run, however that ends.
package process

// A command runs in a process group of its own. When it ends, or has to, the
// whole group is killed and its death is verified, so nothing that it left in
// the background goes on.
//
// If this process itself is killed there is nobody left to do that. So the
// command is started by a few lines of shell which first leave a watcher in
// the group: it reads from a pipe whose other end only we hold, and kills the
// group when that end closes. A program of our own in its place would take
// several times as long to start.
//
// A process that leaves the group (setsid) still carries the command's mark in
// its environment, and on Linux its orphans become our children: it is killed
// like the rest. Elsewhere it is not followed.
