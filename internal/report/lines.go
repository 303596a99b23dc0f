package report

import (
	"bufio"
	"errors"
	"io"
	"iter"
)

// Lines returns the lines of a file, with their line feeds. A line is valid until
// the next one is read.
func Lines(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := NewLineReader(r)
		for {
			line, err := in.Next()
			if errors.Is(err, io.EOF) || !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// LineReader reads a file line by line.
type LineReader struct {
	in   *bufio.Reader
	line []byte
}

// NewLineReader returns a LineReader.
func NewLineReader(r io.Reader) *LineReader { return &LineReader{in: bufio.NewReaderSize(r, 16<<10)} }

// Next returns the next line with its line feed, which the last line may lack.
// The line is valid until the next call. The error is io.EOF after the last line.
func (l *LineReader) Next() ([]byte, error) {
	l.line = l.line[:0]
	for {
		piece, err := l.in.ReadSlice('\n')
		l.line = append(l.line, piece...)
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(l.line) > 0:
			return l.line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
