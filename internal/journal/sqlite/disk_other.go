//go:build !linux

package sqlite

import "os"

// syncFile returns when the content of a file is durable.
func syncFile(f *os.File) error { return f.Sync() }
