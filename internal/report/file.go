package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/espalier-run/espalier/internal/journal"
)

// file is the record of one run, as far as it has been written or compared.
type file struct {
	run    journal.RunID
	path   string
	f      *os.File
	is     os.FileInfo // identity of the opened file
	offset int64       // everything before it is on disk and correct
	used   int64       // tick of the last write
	over   bool        // the run has ended
	lines

	seals    bool // the record is sealed when it gets long
	segments []segment
	start    int64         // offset of the plain text
	sealAt   int64         // offset of the next segment
	sealed   *recordReader // of what has to be compared
}

// lines are lines to be written.
type lines struct {
	pending []byte
	ends    []int // offset of the end of each line
}

// errRebuild reports that the file is not as this writer left it, so that its
// lines have to be made again from the start.
var errRebuild = errors.New("the file has been changed by another program")

// fileName returns the name of a run's file. An id that is not a plain name would
// lead out of the folder, so it is refused.
func fileName(run journal.RunID, ext string) (string, error) {
	if run == "" || strings.HasPrefix(string(run), ".") || strings.ContainsAny(string(run), "/\\:\x00") {
		return "", fmt.Errorf("%q is not a valid file name", run)
	}
	return string(run) + ext, nil
}

// open opens or creates the file, and returns its size.
func (f *file) open() (int64, error) {
	flags := os.O_RDWR | os.O_APPEND | os.O_CREATE
	if f.offset > 0 {
		flags &^= os.O_CREATE // if the file is gone, all of it has to be written
	}
	opened, err := os.OpenFile(f.path, flags, 0o600)
	if errors.Is(err, os.ErrNotExist) && f.offset > 0 {
		return 0, errRebuild
	}
	if errors.Is(err, os.ErrNotExist) {
		// Only this folder: if those around it are gone, the project's storage was removed.
		if err = os.Mkdir(filepath.Dir(f.path), 0o700); err == nil {
			opened, err = os.OpenFile(f.path, flags, 0o600)
		}
	}
	if err != nil {
		return 0, err
	}
	if f.is, err = opened.Stat(); err != nil {
		opened.Close()
		return 0, err
	}
	f.f = opened
	if f.seals {
		if f.segments, err = readSegments(f.path+sealedExt, f.segments); err != nil {
			f.close()
			return 0, err
		}
		f.start = plainStart(f.segments, io.NewSectionReader(f.f, 0, f.is.Size()))
		f.sealAt = f.start + sealBytes
	}
	if f.start+f.is.Size() < f.offset {
		f.close()
		return 0, errRebuild
	}
	return f.start + f.is.Size(), nil
}

// close closes the file on disk. The file can be used again afterwards.
func (f *file) close() {
	if f.sealed != nil {
		f.sealed.Close() // it was only read
		f.sealed = nil
	}
	if f.f != nil {
		f.f.Close() // everything has been written; nothing can fail any more
		f.f = nil
	}
}

// size returns the size on disk. The file may have been deleted or replaced
// while it was open.
func (f *file) size() (int64, error) {
	if f.f == nil {
		return f.open()
	}
	there, err := os.Stat(f.path)
	switch {
	case err == nil && f.seals && !os.SameFile(f.is, there):
		return f.reopen()
	case errors.Is(err, os.ErrNotExist), err == nil && (!os.SameFile(f.is, there) || f.start+there.Size() < f.offset):
		f.close()
		return 0, errRebuild
	case err != nil:
		return 0, err
	}
	return f.start + there.Size(), nil
}

// reopen opens a file that was replaced while it was open, which another process does after it has sealed the lines.
// The segments tell whether it was that.
func (f *file) reopen() (int64, error) {
	f.close()
	before := len(f.segments)
	size, err := f.open()
	if err == nil && len(f.segments) <= before {
		f.close()
		return 0, errRebuild
	}
	return size, err
}

// flush writes the pending lines, each by a system call of its own or all by
// one. It skips those that are there already, which an earlier or another
// process has written.
func (f *file) flush(each bool) error {
	size, err := f.size()
	if err != nil {
		return err
	}
	there := 0
	if size > f.offset {
		if there, err = f.compare(size); err != nil {
			return err
		}
	}
	start := 0
	if there > 0 {
		start = f.ends[there-1]
	}
	ends := f.ends[there:]
	if !each && len(ends) > 0 {
		ends = ends[len(ends)-1:]
	}
	for _, end := range ends {
		n, err := f.f.Write(f.pending[start:end])
		if err != nil {
			return err
		}
		f.offset += int64(n)
		start = end
	}
	return nil
}

// readAt reads at an offset of the record.
func (f *file) readAt(p []byte, offset int64) error {
	if offset >= f.start {
		_, err := f.f.ReadAt(p, offset-f.start)
		return err
	}
	if f.sealed == nil || f.sealed.at != offset {
		if f.sealed != nil {
			f.sealed.Close() // it was only read
		}
		f.sealed = &recordReader{at: offset}
		f.sealed.path, f.sealed.segments, f.sealed.start = f.path, f.segments, f.start
	}
	f.sealed.plain, f.sealed.size = f.f, offset+int64(len(p))
	_, err := io.ReadFull(f.sealed, p)
	return err
}

// compare counts the pending lines that the file has after offset, and cuts off
// a torn last line.
func (f *file) compare(size int64) (there int, err error) {
	rest := make([]byte, min(size-f.offset, int64(len(f.pending))))
	if err := f.readAt(rest, f.offset); errors.Is(err, ErrSegment) {
		return 0, f.setAside()
	} else if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	start := 0
	for _, end := range f.ends {
		if end > len(rest) || !bytes.Equal(rest[start:end], f.pending[start:end]) {
			break
		}
		start, there = end, there+1
	}
	f.offset += int64(start)
	if f.offset == size {
		return there, nil
	}
	whole, err := f.wholeLines(size)
	switch {
	case err != nil:
		return there, err
	case whole < size: // its writer was interrupted
		if err := f.f.Truncate(whole - f.start); err != nil {
			return there, err
		}
	}
	// Another process may be ahead and have written more lines than are pending,
	// unless the run is over: nothing comes after its last line.
	if whole > f.offset && (f.over || there < len(f.ends)) {
		return there, f.setAside()
	}
	return there, nil
}

// wholeLines returns the offset at which the last complete line ends.
func (f *file) wholeLines(size int64) (int64, error) {
	const step = 64 << 10
	floor := max(f.offset, f.start) // a segment ends with a complete line
	for end := size; end > floor; {
		begin := max(floor, end-step)
		part := make([]byte, end-begin)
		if _, err := f.f.ReadAt(part, begin-f.start); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return begin + int64(i) + 1, nil
		}
		end = begin
	}
	return floor, nil
}

// setAside renames a file whose lines do not match the journal. No data is lost,
// and the record is written again.
func (f *file) setAside() error {
	f.close()
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s%s%d", f.path, damaged, n)
		if _, err := os.Lstat(aside); err == nil {
			continue
		}
		if len(f.segments) > 0 {
			if err := os.Rename(f.path+sealedExt, aside+sealedExt); err != nil {
				return err
			}
		}
		if err := os.Rename(f.path, aside); err != nil {
			return err
		}
		return &asideError{aside}
	}
}

// damaged is the suffix of files that were set aside, before a number.
const damaged = ".damaged-"

// asideError says where a damaged file is. It is an errRebuild.
type asideError struct{ path string }

func (e *asideError) Error() string {
	return "a record did not match its run and was kept as " + e.path
}

func (e *asideError) Is(target error) bool { return target == errRebuild }
