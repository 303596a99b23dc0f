//go:build !linux

package owner

// pidNamespace returns "": a process has ended only when its lock is free.
func pidNamespace() string { return "" }

func exists(int) bool { return true }
