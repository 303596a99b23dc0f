package text

import (
	"strings"
	"sync"

	"github.com/espalier-run/espalier/internal/source"
)

// SourceMap returns a function that maps byte ranges of the value to spans of its file. It handles block scalars,
// folded lines and quoted strings with common escapes. A range that it cannot map yields the span of the whole text.
func (t Text) SourceMap(f *source.File) func(start, end int) source.Span {
	if t.Span.End-t.Span.Start == len(t.Value) {
		return t.Span.Sub
	}
	// Most texts have no diagnostic, so the offsets are computed when the first span is asked for.
	offsets := sync.OnceValue(func() []int {
		if t.Span.File != f.Path || t.Span.Start < 0 || t.Span.End > len(f.Text) || t.Span.End <= t.Span.Start {
			return nil
		}
		written := f.Text[t.Span.Start:t.Span.End]
		if found := align(t.Value, written, 0, 0); found != nil {
			return found
		}
		if quote := written[0]; quote == '"' || quote == '\'' {
			return align(t.Value, written, 1, quote)
		}
		return nil
	})
	return func(start, end int) source.Span {
		at := offsets()
		if start < 0 || start >= end || end > len(at) {
			return t.Span
		}
		return t.Span.Sub(at[start], at[end-1]+1)
	}
}

// align returns, for each byte of value, its offset in written, starting at from and with the given quote (0 for none).
// It returns nil if the two do not match. Any two runs of white space match, because indentation and folding change
// them.
func align(value, written string, from int, quote byte) []int {
	offsets := make([]int, len(value))
	j := from
	for i := 0; i < len(value); {
		if blank(value[i]) {
			start := j
			j += blanks(written[j:], quote)
			if j == start && i > 0 && strings.TrimSpace(value[i:]) != "" {
				return nil
			}
			for ; i < len(value) && blank(value[i]); i++ {
				offsets[i] = min(start, len(written)-1)
			}
			continue
		}
		if i == 0 {
			j += blanks(written[j:], quote)
		}
		length := 1
		switch rest := written[j:]; {
		case rest == "":
			return nil
		case quote == '"' && rest[0] == '\\' && len(rest) > 1:
			if rest[1] == '\n' || rest[1] == '\r' { // the line continues
				j += 1 + blanks(rest[1:], 0)
				continue
			}
			if rest[1] != value[i] {
				return nil
			}
			length = 2
		case quote == '\'' && strings.HasPrefix(rest, "''"):
			if value[i] != '\'' {
				return nil
			}
			length = 2
		case rest[0] != value[i]:
			return nil
		}
		offsets[i] = j
		i, j = i+1, j+length
	}
	return offsets
}

// blank reports whether a byte is white space or a line break.
func blank(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }

// blanks is how long the blanks at the beginning are, with those that double quotes write as escapes.
func blanks(s string, quote byte) int {
	n := 0
	for n < len(s) {
		switch {
		case blank(s[n]):
			n++
		case quote == '"' && s[n] == '\\' && n+1 < len(s) && strings.IndexByte("ntr \n\r", s[n+1]) >= 0:
			n += 2
		default:
			return n
		}
	}
	return n
}
