//go:build !unix

package builtin

// nonBlocking matters only where a pipe can take a file's place.
const nonBlocking = 0
