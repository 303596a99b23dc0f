// Package audit is the audit log: one NDJSON file for each run and child run,
// written from the journal, in which every record carries the hash of the one
// before, and the program that verifies it.
package audit

// The records are those of the Agent Flow specification, section 7, for runs of
// every format, with some more that its section 8.4 asks for. A line is the
// canonical JSON (RFC 8785) of its record, so that the hash of a record is the
// hash of its line, and anybody can verify a file with a few lines of their own.
//
// A chain alone does not show that its end was cut off, or that all of it was
// made anew. But a line is a function of the journal: verifying makes the
// records again and compares. So the head of the chain is kept where the truth
// is, and nothing besides has to be written.
