//go:build unix

package private

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

func checkOwner(path string, info fs.FileInfo) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return &Error{
			Path: path, Why: fmt.Sprintf("belongs to another user (uid %d, and you are %d)", stat.Uid, os.Geteuid()),
			Help: "Run Espalier as that user, or remove the folder if you do not need what is in it.",
		}
	}
	if info.Mode().Perm()&0o022 != 0 {
		return &Error{
			Path: path, Why: fmt.Sprintf("can be changed by other users (mode %04o)", info.Mode().Perm()),
			Help: fmt.Sprintf("If no other user has changed it: chmod -R go-w %s", path),
		}
	}
	return nil
}
