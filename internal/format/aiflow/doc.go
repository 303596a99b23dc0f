// Package aiflow reads AIFLOW files: JSON with agents and, for each of them,
// rules that say which agent comes next.
package aiflow

// There are three generations of such files. parse.go reads all of them into
// one tree and records which one it was; lower.go makes a program of it: each
// agent is a step, each rule an edge in the order of the file, a rule that a
// person decides a gate. Numbers such as A7 are the format's own open
// questions, and tests carry them.
//
// The codes are the names that the format's own validator has, where it has
// one, so that people who know it find their way.
