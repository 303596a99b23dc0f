// Package filelock implements locks on files that the system releases when their
// process ends, however it ends.
package filelock

// A lock belongs to the open file, not to the process: two Files on one path
// exclude each other even inside one process, and a child process does not
// inherit it. Windows uses LockFileEx.
