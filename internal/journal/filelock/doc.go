// Package filelock is locks on files that the system lets go when their
// process dies, however it dies.
package filelock

// The lock belongs to the open file, not to the process: two Files on one path
// exclude each other even inside one process, and a child process does not
// inherit it. On Windows the same is done with LockFileEx.
