// Package graph draws programs: a plain model of nodes, groups and edges, with writers for SVG, PNG, Mermaid, DOT and
// JSON.
package graph

// A picture passes through Build (ir.Program → Graph, plain data), arrange (Graph → positions, layout*.go), compose
// (positions → scene: shapes and text) and the SVG or PNG writer. Mermaid, DOT and JSON are written from the Graph
// alone and leave the layout to the program that reads them. Compact writes small pictures for web pages, with the same
// layout in another style.
//
// Build folds what exceeds the limits in fold.go, and a Tracker marks the progress of a run in the Graph. Neither grows
// with the number of iterations.
//
// The layout is specific to workflows: one vertical chain, branches side by side, fallbacks to the left, artifacts to
// the right. A general layout engine knows none of that, and loading one added forty milliseconds to the start of every
// command, whether it drew or not.
//
// style.go alone determines the color of a step.
