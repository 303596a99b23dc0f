// Package nof is the format of NLKE Orchestration Files (.nof.md): prose, a
// Mermaid diagram and Python code that say the same thing.
package nof

// A file travels parse.go (frontmatter, sections) → state.go (the schema),
// code.go (node functions, the pipeline), rules.go (routing rules) → lower.go.
// drift.go compares what the parts of the file say; cost.go adds up the price
// list of the format.
//
// The program that a file becomes keeps the shared state in variables below
// "state", what rules can read besides in "pass", and the last outputs of
// agents in "agents". Node functions stay code: the step kind "node" runs
// them, and "collect" begins the state, joins crews and gives the result.
//
// N1, N2, … are the numbers of decisions where the specification is silent or
// contradicts itself.
