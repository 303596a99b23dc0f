// Package transform runs steps of kind "transform", which reshape their input: they
// validate it, have a model rewrite it, or return a fixed text.
package transform
