package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncFile returns when the content of a file is durable.
func syncFile(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
