package sqlite

import "os"

// disk makes commits durable. SQLite could do it as part of each, and the one
// who commits would only wait. Done here, the disk writes while there is
// something else to do; and other processes need not wait for our disk before
// they can write. They may see a commit a moment before it is durable: but
// whatever they write after it is behind it in the same file, and is durable no
// earlier.
//
// What else has to be durable in its time, the beginning of a file that is used
// again, and all of it before it goes into the database, is SQLite's business.
type disk struct {
	path string // of the file that commits are written to; none is needed when empty
	file *os.File
	sync func(*os.File) error // another one in tests
}

// settle returns when everything that was committed before is durable.
func (d *disk) settle() error {
	if d.path == "" {
		return nil
	}
	if d.file == nil {
		// It is there since the first commit, and remains the same file as long
		// as the database is open. SQLite has no locks on it that closing it
		// could lose.
		f, err := os.OpenFile(d.path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		d.file = f
	}
	return d.sync(d.file)
}

func (d *disk) close() error {
	if d.file == nil {
		return nil
	}
	return d.file.Close()
}
