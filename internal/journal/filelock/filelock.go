package filelock

import "os"

// File is an open file that can be locked.
type File struct{ f *os.File }

// Open opens the file, or makes it for its owner alone. It does not lock it.
func Open(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &File{f}, nil
}

// OpenExisting opens a file that is there already.
func OpenExisting(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &File{f}, nil
}

// Exclusive waits until nobody else has a lock, and takes it.
func (l *File) Exclusive() error { return l.lock(true, true) }

// Shared waits until nobody has an exclusive lock, and takes a shared one.
func (l *File) Shared() error { return l.lock(false, true) }

// TryExclusive takes the lock if nobody has one.
func (l *File) TryExclusive() (bool, error) { return taken(l.lock(true, false)) }

// TryShared takes a shared lock if nobody has an exclusive one.
func (l *File) TryShared() (bool, error) { return taken(l.lock(false, false)) }

func taken(err error) (bool, error) {
	if isHeld(err) {
		return false, nil
	}
	return err == nil, err
}

// Write writes to the file, at its end.
func (l *File) Write(p []byte) (int, error) { return l.f.Write(p) }

// Close closes the file and so gives its lock up.
func (l *File) Close() error { return l.f.Close() }
