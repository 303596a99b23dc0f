// Package transcript is the agent exchange transcript: one JSONL file for each
// run and child run, written from the journal, and its reader.
package transcript

// The file holds nothing that the journal does not imply: a line is a function
// of the run's events alone, down to its bytes, so that any number of writers
// agree on it. report.Writer does the rest.
