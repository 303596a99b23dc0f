//go:build !linux

package sqlite_test

import "os"

func syncData(f *os.File) error { return f.Sync() }
