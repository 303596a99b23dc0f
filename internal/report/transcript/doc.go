// Package transcript is the agent exchange transcript: one JSONL file for each
// run and child run, written from the journal, and its reader.
package transcript

// The file holds nothing that the journal does not imply: a line is a function
// of the run's events alone, down to its bytes, so that any number of writers
// agree on it. A writer compares what a file has with what it ought to have,
// skips what is there, repairs a line that was torn, and appends the rest. That
// is all there is to resuming, to rebuilding a deleted file, and to two
// processes that write at the same time. There is no state beside the files;
// the position file only says where in the journal to begin to look.
