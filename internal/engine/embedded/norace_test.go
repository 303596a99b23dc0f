//go:build !race

package embedded_test

// defaultDepth is the smallest at which the orders include two decisions that strand a run.
const defaultDepth = 8

// Deeper orders of all commands take minutes: make soak tries them.
const (
	defaultPairs   = 3
	defaultTriples = 1
)
