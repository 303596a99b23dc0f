package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// startWriting has the disk begin. Where that is not possible it begins when
// somebody waits for it.
func startWriting(f *os.File) {
	_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}

// syncFile returns when the content of a file is durable.
func syncFile(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
