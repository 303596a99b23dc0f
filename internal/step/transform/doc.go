// Package transform implements the step kind "transform", which reshapes its
// input: it validates it, has a model rewrite it, or returns a fixed text.
package transform
