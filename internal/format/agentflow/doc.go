// Package agentflow implements the format of Agent Flow workflows and of SKILL.md files, which
// are its Layer 0.
package agentflow

// A file is parsed by parse.go (text → a private tree with a span on every node) and lowered by
// lower.go (tree → ir.Program). schema.go declares every key once: bind.go reads blocks by that
// table, and the JSON Schemas for editors are generated from it. skill.go is lenient: every
// SKILL.md that other tools accept must load.
//
// This package resolves only the names that lowering needs (steps, bundles, files). Package
// check verifies what must be true of any program. A program is well-formed even if the file
// has errors: an unknown target is replaced by the nearest name or left out. Parts that could
// not be read (broken blocks, values of the wrong type, misspelled keys) are kept in ir.Unread,
// and checks for missing names consult it first. One mistake is therefore reported once.
//
// F1, F2, … number the decisions made where the specification is silent. Those that matter to
// authors are in docs/formats/agent-flow.md, the clauses of the specification and their tests in
// docs/formats/agent-flow-clauses.md.
