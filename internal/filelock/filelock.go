package filelock

import "os"

// File is an open file that can be locked.
type File struct{ f *os.File }

// Open opens a file, or creates it with access for its owner only. It does not
// lock it.
func Open(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &File{f}, nil
}

// OpenExisting opens a file that exists. If this process may only read it, most
// systems can lock it all the same.
func OpenExisting(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		read, readErr := os.Open(path)
		if readErr != nil {
			return nil, err
		}
		f = read
	}
	return &File{f}, nil
}

// Exclusive waits for an exclusive lock.
func (l *File) Exclusive() error { return l.lock(true, true) }

// Shared waits for a shared lock.
func (l *File) Shared() error { return l.lock(false, true) }

// TryExclusive acquires an exclusive lock and reports whether it was free.
func (l *File) TryExclusive() (bool, error) { return taken(l.lock(true, false)) }

// TryShared acquires a shared lock and reports whether there was no exclusive
// one.
func (l *File) TryShared() (bool, error) { return taken(l.lock(false, false)) }

func taken(err error) (bool, error) {
	if isHeld(err) {
		return false, nil
	}
	return err == nil, err
}

// Replace replaces the content of the file. A concurrent reader may see a part
// of it.
func (l *File) Replace(content []byte) error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt(content, 0)
	return err
}

// Close closes the file and releases its lock.
func (l *File) Close() error { return l.f.Close() }

// IsAt reports whether a path leads to this file. Another process may have removed or replaced it.
func (l *File) IsAt(path string) bool {
	mine, err := l.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}
