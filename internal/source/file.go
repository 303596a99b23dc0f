package source

import (
	"sort"
	"strings"
	"sync"
	"unicode/utf8"
)

// File is the text of one file.
type File struct {
	// Path is the path that diagnostics print and spans refer to: relative to the working directory if that is shorter,
	// always with forward slashes.
	Path string
	// Abs is the absolute path; empty for text that does not come from a file.
	Abs string
	// Text is the content, unchanged.
	Text string

	once  sync.Once
	lines []int // offset of the first byte of each line
}

// NewFile returns a file with the given display path and text.
func NewFile(path, text string) *File { return &File{Path: path, Text: text} }

// Span returns the span of the bytes [start, end), clamped to the file.
func (f *File) Span(start, end int) Span {
	start = min(max(start, 0), len(f.Text))
	end = min(max(end, start), len(f.Text))
	return Span{File: f.Path, Start: start, End: end}
}

// Position is a line and a column, both starting at 1. Columns count characters.
type Position struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Position returns the position of a byte offset. An offset inside a character has the position of that character.
func (f *File) Position(offset int) Position {
	starts := f.lineStarts()
	offset = min(max(offset, 0), len(f.Text))
	for start := offset; start > max(offset-utf8.UTFMax, 0); {
		start--
		if utf8.RuneStart(f.Text[start]) {
			if _, size := utf8.DecodeRuneInString(f.Text[start:]); start+size > offset {
				offset = start
			}
			break
		}
	}
	i := sort.Search(len(starts), func(i int) bool { return starts[i] > offset }) - 1
	return Position{Line: i + 1, Column: utf8.RuneCountInString(f.Text[starts[i]:offset]) + 1}
}

// Offset returns the byte offset of a line and a column, clamped to the line.
func (f *File) Offset(line, column int) int {
	starts := f.lineStarts()
	line = min(max(line, 1), len(starts))
	text := f.Line(line)
	at := starts[line-1]
	for column > 1 && text != "" {
		_, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		at += size
		column--
	}
	return at
}

// Line returns line n, starting at 1, without its line ending.
func (f *File) Line(n int) string {
	starts := f.lineStarts()
	if n < 1 || n > len(starts) {
		return ""
	}
	end := len(f.Text)
	if n < len(starts) {
		end = starts[n]
	}
	return strings.TrimRight(f.Text[starts[n-1]:end], "\r\n")
}

// Lines returns the number of lines. A last line without a newline counts; the empty text after a final newline does
// not.
func (f *File) Lines() int {
	n := len(f.lineStarts())
	if n > 1 && f.lines[n-1] == len(f.Text) {
		n--
	}
	return n
}

func (f *File) lineStarts() []int {
	f.once.Do(func() {
		f.lines = append(f.lines, 0)
		for i := 0; i < len(f.Text); i++ {
			if f.Text[i] == '\n' {
				f.lines = append(f.lines, i+1)
			}
		}
	})
	return f.lines
}
