//go:build !linux

package owner

// Only the lock tells whether a process has ended.
func pidNamespace() string { return "" }

func exists(int) bool { return true }
