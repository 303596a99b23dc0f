// Package private creates and checks files and folders that only their owner may access, against other users of the
// machine. Package protected is about what a run may write.
package private
