// Package step is the seam to leaf work: what a kind of task must say about
// its settings and its worst case, and (when it runs) do.
package step

// Each kind lives in a folder of its own and is listed once, in builtin. It
// alone understands its settings: the formats write them, nobody else reads
// them. What the checks need to know across kinds (which agents, tools and
// schemas a task names, what it can cost) is asked through Kind.
//
// bounds.go holds every number that an estimate assumes, so that there is one
// place to look at when a figure surprises.
//
// A kind that runs notes before it acts, and what came of it. So after a crash
// its notes tell what it can have done: Recovery reads them, and Run goes on
// from them instead of doing things twice. steptest holds every kind to that,
// from each of its own notes on.
