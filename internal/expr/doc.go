// Package expr is the conditions that workflows are written with: one grammar,
// a dialect and a coercion profile per format; parsed, checked and evaluated
// without side effects.
package expr
