// Package redact hides what a workflow does not want in its records: personal
// data, secrets, and whatever its author describes by a pattern.
package redact

// Rules are data: a name, a regular expression, and a check where digits alone
// would hide too much. A match becomes "[redacted NAME]", so that a reader knows
// that something was there, and what kind. What is hidden is hidden before
// anything is written; nothing can bring it back from a record.
