// Package xslices adds to the standard package slices.
package xslices

import "slices"

// Map returns the results of calling f on each element, in order; nil if there are none.
func Map[T, U any](list []T, f func(T) U) []U {
	out := slices.Grow([]U(nil), len(list))
	for _, one := range list {
		out = append(out, f(one))
	}
	return out
}
