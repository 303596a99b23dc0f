// Package graph is the picture of a program: a plain model of nodes, groups
// and edges, and its writers for SVG, PNG, Mermaid, DOT and JSON.
package graph

// The line a picture travels: Build (ir.Program → Graph, plain data) →
// arrange (Graph → places, layout*.go) → compose (places → scene: shapes and
// text) → SVG or PNG. Mermaid, DOT and JSON are written from the Graph alone
// and leave the layout to whoever reads them.
//
// The layout is our own and knows what a workflow is: one vertical chain,
// arms side by side, stand-ins to the left, artifacts to the right. A general
// layout engine knew none of that, and loading one cost forty milliseconds at
// the start of every command, whether it drew or not.
//
// Which colour a step has is decided once, in style.go.
