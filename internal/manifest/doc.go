// Package manifest is the record of how a workflow is generated: what has been
// done, which files came of it, and how it was promoted.
package manifest

// The file lies beside what is generated and is written as a whole at every
// change. While a run generates, only the reader of the journal writes it;
// after that, only the command that validates and promotes. Errors are only
// ever added.
