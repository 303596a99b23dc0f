package cliagent

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"unicode/utf8"
)

// Limits of the output, in bytes: of one line, and of a program whose output is a single text.
const (
	maxLine = 32 << 20
	maxText = 16 << 20
)

// lines reads the output of a program line by line.
type lines struct {
	r       *bufio.Reader
	max     int
	skipped int // number of lines above the limit
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 64<<10), max: maxLine} }

// all returns the lines that are not empty, cleaned. The last one may lack a newline; its parser detects whether it is
// complete.
func (l *lines) all() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			line, err := l.next()
			if line = bytes.TrimSpace(clean(line)); len(line) > 0 && !yield(line) {
				return
			}
			if err != nil {
				return
			}
		}
	}
}

// next returns the next line, or nil if it exceeds the limit: such a line is skipped and counted, without being kept in
// memory.
func (l *lines) next() ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		piece, err := l.r.ReadSlice('\n')
		if len(line)+len(piece) > l.max {
			tooLong, line = true, nil
		}
		if !tooLong {
			line = append(line, piece...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if tooLong {
			l.skipped++
		}
		return line, err
	}
}

// clean removes the zero bytes that some programs write, and replaces invalid UTF-8.
func clean(b []byte) []byte {
	if bytes.IndexByte(b, 0) >= 0 {
		b = bytes.ReplaceAll(b, []byte{0}, nil)
	}
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("�"))
	}
	return b
}
