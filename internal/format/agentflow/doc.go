// Package agentflow is the format of Agent Flow workflows and of SKILL.md,
// which is their Layer 0.
package agentflow

// A file travels parse.go (text → a private tree with a span on every node) →
// lower.go (tree → ir.Program). schema.go holds the one list of keys: bind.go
// reads blocks by it and editors get their JSON Schemas from it. skill.go is
// the lenient side: any SKILL.md that exists in the wild must load.
//
// Only names that lowering needs are resolved here (steps, bundles, files);
// what must hold for any program is the business of package check. A program
// is well-formed even when the file has errors: an unknown target is replaced
// by the nearest name or left out. What could not be read (broken blocks,
// values of the wrong type, misspelt keys) is kept in ir.Unread, and whoever
// would complain that a name is missing asks there first. So one mistake is
// reported once.
//
// F1, F2, … are the numbers of decisions where the specification is silent.
