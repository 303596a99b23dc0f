//go:build !race

package embedded_test

// defaultDepth is the smallest at which the orders include two decisions that strand a run.
const defaultDepth = 8
