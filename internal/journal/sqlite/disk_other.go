//go:build !linux

package sqlite

import "os"

// startWriting has the disk begin, where that is possible.
func startWriting(*os.File) {}

// syncFile returns when the content of a file is durable.
func syncFile(f *os.File) error { return f.Sync() }
