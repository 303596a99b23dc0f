//go:build race

package embedded_test

// defaultDepth is smaller with the race detector, which makes each order some ten times slower.
const defaultDepth = 5

// Deeper orders of all commands take minutes: make soak tries them.
const (
	defaultPairs   = 1
	defaultTriples = 0
)
