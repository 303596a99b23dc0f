// Package step is the seam to leaf work: what a kind of task must say about
// its settings and its worst case, and (when it runs) do.
package step
