// Package aiflow implements the AIFLOW format: JSON with agents and, for each of them, rules
// that select the next agent.
package aiflow

// There are three generations of such files. parse.go parses all of them into one tree and
// records the generation; lower.go compiles the tree to a program: each agent is a step, each
// rule an edge in file order, and a rule that a person decides a gate. Names of test cases
// that start with the same number are about the same open question of the format.
//
// The codes use the names of the format's own validator where it has one, so that its users
// recognize them.
