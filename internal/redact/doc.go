// Package redact removes from records what a workflow does not want in them:
// personal data, secrets, and text that matches its author's patterns.
package redact

// Rules are data: a name, a regular expression, and a check where digits alone
// would match too much. A match becomes "[redacted NAME]", so that a reader knows
// that something was there, and of which kind. Redaction happens before anything
// is written; a record cannot be restored.
