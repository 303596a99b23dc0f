package report

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
)

// A long record is kept in two files: FILE has its newest lines as plain text, FILE.gz the lines before them as gzip
// members, the sealed segments. "gzip -dc FILE.gz; cat FILE" prints the record. Offsets count the bytes of the record,
// not those of a file.
//
// Sealing appends a segment with all lines of FILE, syncs it, and then replaces FILE by an empty file. In between, the
// lines are in both files: a process may be killed there, and another one may read there. The header of a segment has
// the hash of its first line, so every reader can tell where FILE starts.

// sealedExt is the suffix of the file with the sealed segments.
const sealedExt = ".gz"

// sealBytes is how long the plain text of a record becomes before it is sealed.
const sealBytes = 64 << 10

// maxSealed is the longest plain text that is sealed. A longer one was written by an earlier release, and remains.
const maxSealed = 4 << 20

// segment is one gzip member.
type segment struct {
	at, size int64             // in the file of segments
	from, to int64             // in the record
	first    [sha256.Size]byte // hash of the first line
}

// The extra field of a member: two letters and the length of the rest (RFC 1952), then size of the member, size of its
// text, and the hash of the first line.
const (
	extraStart = 12 // in the member
	extraSize  = 4 + 8 + 8 + sha256.Size
	headerSize = extraStart + extraSize
)

// extraPrefix is how the extra field begins.
var extraPrefix = []byte{'E', 'S', 8 + 8 + sha256.Size, 0}

// newSegment compresses lines.
func newSegment(text []byte) ([]byte, error) {
	extra := make([]byte, extraSize)
	copy(extra, extraPrefix)
	binary.LittleEndian.PutUint64(extra[12:], uint64(len(text)))
	first, _ := firstLine(bytes.NewReader(text))
	copy(extra[20:], first[:])
	var b bytes.Buffer
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(&b)
	w.Extra = extra
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint64(b.Bytes()[extraStart+4:], uint64(b.Len()))
	return b.Bytes(), nil
}

// compressors are reused: each takes a megabyte.
var compressors = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level exists; it is fast because the run goes on
	return w
}}

// firstLine returns the hash of the first line, and whether there is a complete one.
func firstLine(r io.Reader) (hash [sha256.Size]byte, ok bool) {
	line, err := NewLineReader(r).Next()
	if err != nil || !bytes.HasSuffix(line, []byte{'\n'}) {
		return hash, false
	}
	return sha256.Sum256(line), true
}

// readSegments returns the segments of a file, of which some may be known. It ends at one that is not complete.
func readSegments(path string, known []segment) ([]segment, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var next segment
	if n := len(known); n > 0 {
		last := known[n-1]
		next.at, next.from = last.at+last.size, last.to
	}
	if next.at > info.Size() { // the file is another one
		known, next = nil, segment{}
	}
	for header := make([]byte, headerSize); ; {
		if _, err := f.ReadAt(header, next.at); errors.Is(err, io.EOF) {
			return known, nil
		} else if err != nil {
			return nil, err
		}
		extra := header[extraStart:]
		size, text := binary.LittleEndian.Uint64(extra[4:]), binary.LittleEndian.Uint64(extra[12:])
		if header[0] != 0x1f || header[1] != 0x8b || !bytes.HasPrefix(extra, extraPrefix) || size <= headerSize ||
			size > uint64(info.Size()-next.at) || text > math.MaxInt64/2 {
			return known, nil
		}
		next.size, next.to = int64(size), next.from+int64(text)
		copy(next.first[:], extra[20:])
		known = append(known, next)
		next.at, next.from = next.at+next.size, next.to
	}
}

// plainStart returns the offset at which the plain text starts.
func plainStart(segments []segment, plain io.Reader) int64 {
	if len(segments) == 0 {
		return 0
	}
	if first, ok := firstLine(plain); ok {
		for i := len(segments) - 1; i >= 0; i-- {
			if segments[i].first == first {
				return segments[i].from
			}
		}
	}
	return segments[len(segments)-1].to
}

// RecordFile is a record that is read. It does not change when the record grows.
type RecordFile struct {
	path     string
	plain    *os.File
	segments []segment
	start    int64 // of the plain text
	size     int64
}

// OpenRecord opens the record of which path is the file with the newest lines.
func OpenRecord(path string) (*RecordFile, error) {
	plain, err := os.Open(path) // before the segments, so that no line is in neither
	if err != nil {
		return nil, err
	}
	r := &RecordFile{path: path, plain: plain}
	if r.segments, err = readSegments(path+sealedExt, nil); err != nil {
		plain.Close()
		return nil, err
	}
	info, err := plain.Stat()
	if err != nil {
		plain.Close()
		return nil, err
	}
	r.start = plainStart(r.segments, io.NewSectionReader(plain, 0, info.Size()))
	r.size = r.start + info.Size()
	return r, nil
}

// Size returns the number of bytes of the record.
func (r *RecordFile) Size() int64 { return r.size }

// Close closes the file.
func (r *RecordFile) Close() error { return r.plain.Close() }

// Part returns a reader of the bytes between two offsets. Closing it closes the record.
func (r *RecordFile) Part(from, to int64) io.ReadCloser {
	text := &recordReader{RecordFile: *r, at: from}
	text.size = min(to, r.size)
	return &recordPart{text, r.plain}
}

// recordPart is a part of a record, whose files it closes.
type recordPart struct {
	*recordReader
	plain *os.File
}

func (p *recordPart) Close() error { return errors.Join(p.recordReader.Close(), p.plain.Close()) }

// ReadRecord returns a reader of the record of which path is the file with the newest lines.
func ReadRecord(path string) (io.ReadCloser, error) {
	r, err := OpenRecord(path)
	if err != nil {
		return nil, err
	}
	return r.Part(0, r.size), nil
}

// recordReader reads a record.
type recordReader struct {
	RecordFile
	at     int64 // of the next byte
	sealed *os.File
	text   io.Reader // rest of a segment
	end    int64     // of that segment
}

// ErrSegment reports that a sealed segment cannot be read.
var ErrSegment = errors.New("a compressed part of the record is damaged")

// Read reads the record as one text: first the compressed segments, each of which it decompresses in turn, then the
// plain file.
func (r *recordReader) Read(p []byte) (int, error) {
	switch {
	case r.at >= r.size:
		return 0, io.EOF
	case r.at >= r.start:
		n, err := r.plain.ReadAt(p[:min(int64(len(p)), r.size-r.at)], r.at-r.start)
		r.at += int64(n)
		if n > 0 && errors.Is(err, io.EOF) {
			err = nil
		}
		return n, err
	}
	if r.text == nil || r.at == r.end {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	n, err := r.text.Read(p[:min(int64(len(p)), min(r.end, r.start)-r.at)])
	r.at += int64(n)
	if err != nil && (n == 0 || !errors.Is(err, io.EOF)) {
		return n, fmt.Errorf("%w: %s: %w", ErrSegment, r.path+sealedExt, noEOF(err))
	}
	return n, nil
}

// noEOF returns an error that does not look like the regular end.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// open opens the segment of the next byte.
func (r *recordReader) open() error {
	if r.sealed == nil {
		var err error
		if r.sealed, err = os.Open(r.path + sealedExt); err != nil {
			return err
		}
	}
	for _, s := range r.segments {
		if r.at >= s.to {
			continue
		}
		text, err := gzip.NewReader(io.NewSectionReader(r.sealed, s.at, s.size))
		if err == nil {
			_, err = io.CopyN(io.Discard, text, r.at-s.from)
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrSegment, r.path+sealedExt, noEOF(err))
		}
		r.text, r.end = text, s.to
		return nil
	}
	return io.ErrUnexpectedEOF
}

// Close closes the file of segments.
func (r *recordReader) Close() error {
	if r.sealed == nil {
		return nil
	}
	return r.sealed.Close()
}

// seal moves the plain text to a new segment. The caller holds the lock, and the text ends at offset.
func (f *file) seal() error {
	if f.offset-f.start > maxSealed {
		return nil
	}
	text := make([]byte, f.offset-f.start)
	if _, err := f.f.ReadAt(text, 0); err != nil {
		return err
	}
	member, err := newSegment(text)
	if err != nil {
		return err
	}
	at := int64(0)
	for i, s := range f.segments {
		if s.to > f.start { // its lines are still in the plain text
			f.segments = f.segments[:i]
			break
		}
		at = s.at + s.size
	}
	if err := writeSegment(f.path+sealedExt, at, member); err != nil {
		return err
	}
	empty := emptyPath(f.path)
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		return err
	}
	f.close()
	return os.Rename(empty, f.path)
}

// emptyPath returns the path of the file that replaces a sealed one.
func emptyPath(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
}

// writeSegment appends a segment after those that end at an offset. What follows there is not complete, or still in
// the plain text.
func writeSegment(path string, at int64, member []byte) error {
	sealed, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = sealed.Truncate(at)
	if err == nil {
		_, err = sealed.WriteAt(member, at)
	}
	if err == nil {
		err = sealed.Sync()
	}
	return errors.Join(err, sealed.Close())
}
