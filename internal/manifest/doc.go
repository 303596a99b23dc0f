// Package manifest implements the record of a workflow's generation: its steps, the files it produced, and its
// promotion.
package manifest

// The file is next to the generated files and is rewritten atomically at every change. While a run generates, only the
// reader of the journal writes it; afterward, only the command that validates and promotes. Errors are only ever
// appended.
