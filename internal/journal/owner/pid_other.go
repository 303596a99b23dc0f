//go:build !linux

package owner

// pidNamespace returns "": a process has ended only when its lock is free.
func pidNamespace() string { return "" }

// exists returns true: it is not known whether there is a process.
func exists(int) bool { return true }
