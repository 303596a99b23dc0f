// Package audit implements the audit log: one NDJSON file for each run and child
// run, derived from the journal, in which every record has the hash of the
// previous one. Verify checks such a file.
package audit

// The records are those of the Agent Flow specification, section 7, for runs of
// every format, with some more that its section 8.4 requires. A line is the
// canonical JSON (RFC 8785) of its record, so that the hash of a record is the
// hash of its line, and a short program can verify a file.
//
// A chain alone does not reveal that its end was cut off, or that all of it was
// written again. But a line is a function of the journal: Verify derives the
// records again and compares. So the head of the chain is in the journal, and
// nothing else has to be stored.
