// Package awf reads AWF workflows: states with transitions, as YAML.
package awf

// parse.go makes a tree of a file, with a place for everything in it; lower.go
// makes a program of the tree. A state becomes a step in every block that it
// belongs to: the body, loops that list it and branches. What AWF says by
// on_success, on_failure, transitions and the order of a loop's body becomes
// edges (edges.go); texts with templates stay as they are, and what they read
// is noted with the step (reads.go), so that the step kinds can fill them in.
//
// Where AWF's documentation and its program differ, both forms are read.
