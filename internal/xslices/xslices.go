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

// Filter returns the elements to keep, in order; nil if there are none. It does not change the list.
func Filter[S ~[]T, T any](list S, keep func(T) bool) S {
	var out S
	for _, one := range list {
		if keep(one) {
			out = append(out, one)
		}
	}
	return out
}

// Find returns the first element that matches, or the zero value.
func Find[T any](list []T, matches func(T) bool) T {
	for _, one := range list {
		if matches(one) {
			return one
		}
	}
	var none T
	return none
}

// FindPointer returns a pointer to the first element that matches, or nil.
func FindPointer[T any](list []T, matches func(*T) bool) *T {
	for i := range list {
		if matches(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// AppendNew appends each value that the list does not contain yet.
func AppendNew[T comparable](list []T, values ...T) []T {
	for _, one := range values {
		if !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	return list
}
