//go:build unix && !solaris && !aix

package filelock

import (
	"errors"
	"syscall"
)

func (l *File) lock(exclusive, wait bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	if !wait {
		how |= syscall.LOCK_NB
	}
	return l.flock(how)
}

// Unlock releases the lock.
func (l *File) Unlock() error { return l.flock(syscall.LOCK_UN) }

func (l *File) flock(how int) error {
	for {
		err := syscall.Flock(int(l.f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func isHeld(err error) bool { return errors.Is(err, syscall.EWOULDBLOCK) }
