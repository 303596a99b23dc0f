//go:build !unix

package builtin

// nonBlocking has no effect on systems where a pipe cannot replace a file.
const nonBlocking = 0
