package source

import (
	"fmt"
	"strconv"
	"strings"
)

// Span is the byte range [Start, End) of a file. The zero Span means no location.
type Span struct {
	File       string
	Start, End int
}

// IsZero reports whether the span has no location.
func (s Span) IsZero() bool { return s == Span{} }

// Sub returns the part [start, end) of the span, relative to its start and clamped to it.
func (s Span) Sub(start, end int) Span {
	start = min(max(start, 0), s.End-s.Start)
	end = min(max(end, start), s.End-s.Start)
	return Span{File: s.File, Start: s.Start + start, End: s.Start + end}
}

// MarshalText returns "file#start-end", so that a span is one short string in JSON. The zero span is the empty string.
func (s Span) MarshalText() ([]byte, error) {
	return s.AppendText(make([]byte, 0, len(s.File)+16))
}

// AppendText appends the result of MarshalText.
func (s Span) AppendText(b []byte) ([]byte, error) {
	if s.IsZero() {
		return b, nil
	}
	b = strconv.AppendInt(append(append(b, s.File...), '#'), int64(s.Start), 10)
	return strconv.AppendInt(append(b, '-'), int64(s.End), 10), nil
}

// UnmarshalText parses the result of MarshalText.
func (s *Span) UnmarshalText(b []byte) error {
	text := string(b)
	if text == "" {
		*s = Span{}
		return nil
	}
	hash := strings.LastIndexByte(text, '#')
	if hash < 0 {
		return fmt.Errorf("span %q has no #", text)
	}
	from, to, ok := strings.Cut(text[hash+1:], "-")
	start, err1 := strconv.Atoi(from)
	end, err2 := strconv.Atoi(to)
	if !ok || err1 != nil || err2 != nil || start < 0 || end < start {
		return fmt.Errorf("span %q is not file#start-end", text)
	}
	*s = Span{File: text[:hash], Start: start, End: end}
	return nil
}

// Set holds files by path, to resolve the spans that refer to them.
type Set map[string]*File

// Add adds files to the set; nil files are skipped.
func (s Set) Add(files ...*File) {
	for _, f := range files {
		if f != nil {
			s[f.Path] = f
		}
	}
}
