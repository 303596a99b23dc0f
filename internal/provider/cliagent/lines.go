package cliagent

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"unicode/utf8"
)

// How much is read: of one line, and of a program whose output is one text.
const (
	mostLine = 32 << 20
	mostText = 16 << 20
)

// lines reads what a program writes, line by line.
type lines struct {
	r       *bufio.Reader
	most    int
	skipped int // lines that were too long
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 64<<10), most: mostLine} }

// all returns the lines that are not empty, cleaned. The last one need not have an
// end: whoever reads it finds out whether it is whole.
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

// next returns the next line, nil if it is too long to be kept.
func (l *lines) next() ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		piece, err := l.r.ReadSlice('\n')
		if len(line)+len(piece) > l.most {
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

// clean leaves out the zero bytes that some programs write between others, and
// replaces what is no text.
func clean(b []byte) []byte {
	if bytes.IndexByte(b, 0) >= 0 {
		b = bytes.ReplaceAll(b, []byte{0}, nil)
	}
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("�"))
	}
	return b
}
