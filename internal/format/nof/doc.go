// Package nof implements the format of NLKE Orchestration Files (.nof.md): prose, a Mermaid
// diagram and Python code that describe the same workflow.
package nof

// A file passes through parse.go (frontmatter, sections), state.go (the schema), code.go (node
// functions, the pipeline), rules.go (routing rules) and lower.go. drift.go compares the parts
// of the file with each other; cost.go computes costs by the format's price list.
//
// The compiled program keeps the shared state in variables below "state", other values that
// rules can read below "pass", and the last outputs of agents below "agents". Node functions
// stay code: the step kind "node" runs them, and "collect" initializes the state, joins crews
// and returns the result.
//
// The specification is silent or contradicts itself in places. Names of test cases that start with
// the same number, such as N15, are about the same decision.
