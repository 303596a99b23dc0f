// Package awf implements the AWF format: states with transitions, as YAML.
package awf

// parse.go parses a file into a tree with a span on every node; lower.go compiles the tree to a
// program. A state becomes a step in every block that contains it: the body, loops that list
// it, and branches. on_success, on_failure, transitions and the order of a loop's body become
// edges (edges.go). Templates stay as text. The variables that they read are recorded with the
// step (reads.go), so that the step kinds can evaluate them.
//
// Where AWF's documentation and its reference program differ, both forms are accepted.
