// Package transcript implements the agent exchange transcript: one JSONL file for
// each run and child run, derived from the journal, and a reader of such files.
package transcript

// A line is a function of the run's events alone, down to its bytes, so that any
// number of writers agree on it. report.Writer does the rest.
