//go:build !unix

package private

import "io/fs"

// checkOwner accepts every file: access control lists are not examined.
func checkOwner(string, fs.FileInfo) error { return nil }
