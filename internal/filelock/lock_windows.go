package filelock

import (
	"errors"

	"golang.org/x/sys/windows"
)

// The locked byte is far behind the end of the file, because Windows prevents
// others from reading what is locked.
const lockedByte = 1 << 30

func (l *File) lock(exclusive, wait bool) error {
	var flags uint32
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	if !wait {
		flags |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	return windows.LockFileEx(windows.Handle(l.f.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: lockedByte})
}

// Unlock releases the lock.
func (l *File) Unlock() error {
	return windows.UnlockFileEx(windows.Handle(l.f.Fd()), 0, 1, 0, &windows.Overlapped{Offset: lockedByte})
}

func isHeld(err error) bool { return errors.Is(err, windows.ERROR_LOCK_VIOLATION) }
