// Package transform is the step kind that reshapes what it reads: checks it
// against a contract, lets a model rewrite it, or gives a fixed text.
package transform
