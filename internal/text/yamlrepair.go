package text

import (
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// Repair is an invalid value that was parsed as if it were quoted.
type Repair struct {
	Key   string
	Value Text
	// Problem is the error that strict parsing reports.
	Problem diag.Diagnostic

	node *Node // the value, if it is not a text
}

// ParseYAMLLenient is like ParseYAML but accepts a value in a "key: value" line that needs quotes because it contains a
// colon and a space or begins with a reserved character. It returns such values as repairs instead of reporting them.
func ParseYAMLLenient(f *source.File, start, end int) (*Node, []Repair, diag.List) {
	return parseRepairing(f, start, end)
}

// maxRepairs limits the work for a text that is not YAML.
const maxRepairs = 30

// parseRepairing parses a region. If an error can be fixed by quotes, it replaces the value by a plain word of the same
// length, which keeps all offsets, and parses the region again. Finally it puts the value into the tree. If nothing can
// be repaired, it returns the errors of the first attempt.
func parseRepairing(f *source.File, start, end int) (*Node, []Repair, diag.List) {
	region := f.Span(start, end)
	start, end = region.Start, region.End
	text := f.Text[start:end]
	node, out := parseOnce(f, start, text)
	if _, needed := firstRepairable(out); node != nil && !needed {
		return node, nil, out
	}
	firstOut := out
	var repairs []Repair
	mended := text
	for len(repairs) < maxRepairs {
		problem, ok := firstRepairable(out)
		if !ok {
			break
		}
		entry, ok := entryAround(mended, problem.Span.Start-start)
		if !ok {
			break
		}
		original := text[entry.start:entry.end]
		repair := Repair{
			Key:     entry.key,
			Value:   Text{Value: fold(original), Span: f.Span(start+entry.start, start+entry.end)},
			Problem: problem,
		}
		switch missing := missingOpening(original); missing {
		case "{":
			// The missing bracket replaces the space before the value.
			if value, list := parseOnce(f, start+entry.start-1, missing+original); value != nil && len(list) == 0 &&
				!slices.ContainsFunc(value.Keys(), isProse) {
				value.Span = repair.Value.Span
				repair.node = value
			}
		case `"`, "'":
			repair.Value = Text{
				Value: fold(original[:len(original)-1]),
				Span:  f.Span(start+entry.start, start+entry.end-1),
			}
		}
		repairs = append(repairs, repair)
		if from, to := problem.Span.Start-start,
			problem.Span.End-start; strings.IndexByte("[{", mended[entry.start]) >= 0 &&
			isStray(mended[from:to]) {
			// The list or map is valid without the stray marks after it.
			mended = mended[:from] + strings.Repeat(" ", to-from) + mended[to:]
		} else {
			mended = mended[:entry.start] + filler(mended[entry.start:entry.end]) + mended[entry.end:]
		}
		node, out = parseOnce(f, start, mended)
	}
	if len(repairs) == 0 {
		return node, nil, firstOut
	}
	if node != nil {
		put := map[int]Repair{}
		for _, r := range repairs {
			put[r.Value.Span.Start] = r
		}
		replace(node, put)
	}
	return node, repairs, out
}

// isProse reports whether a key looks like part of a sentence.
func isProse(key string) bool { return !isKey(key) }

// firstRepairable returns the first error that quotes would fix.
func firstRepairable(l diag.List) (diag.Diagnostic, bool) {
	for _, d := range l {
		if repairable(d.Code) {
			return d, true
		}
	}
	return diag.Diagnostic{}, false
}

// entry is the value of a "key: value" line, including continuation lines.
type entry struct {
	key        string
	start, end int
}

// entryAround returns the entry that contains an offset. The value must start on the line of its key.
func entryAround(s string, at int) (entry, bool) {
	start := lineStart(s, at)
	for {
		line := lineAround(s, start)
		if e, ok := entryAt(s, start); ok && e.end > at {
			return e, true
		}
		if start == 0 || line == strings.TrimLeft(line, " ") && line != "" {
			return entry{}, false
		}
		start = lineStart(s, start-1)
	}
}

// entryAt returns the entry whose line starts at an offset.
func entryAt(s string, start int) (entry, bool) {
	line := lineAround(s, start)
	trimmed := strings.TrimLeft(line, " ")
	indent := len(line) - len(trimmed)
	for strings.HasPrefix(trimmed, "- ") {
		trimmed = strings.TrimLeft(trimmed[2:], " ")
		indent = len(line) - len(trimmed)
	}
	key, value, found := cutPair(trimmed)
	if !found || !isKey(key) || key[0] == '"' || key[0] == '\'' || value == "" || value[0] == '#' {
		return entry{}, false
	}
	e := entry{key: key, start: start + len(line) - len(value)}
	e.end = start + len(strings.TrimRight(line, " \t"))
	for next := endOfLine(s, start); next < len(s); next = endOfLine(s, next) {
		next += lineBreak(s[next:])
		more := lineAround(s, next)
		text := strings.TrimLeft(more, " ")
		if text == "" {
			continue // an empty line is part of it if a deeper one follows
		}
		if len(more)-len(text) <= indent {
			break
		}
		e.end = next + len(strings.TrimRight(more, " \t"))
	}
	return e, true
}

// filler returns a plain scalar with the same length and line breaks as s.
func filler(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		size := lineBreak(s[i:])
		switch {
		case size > 0:
			b.WriteString(s[i : i+size])
		case isSpace(s[i]):
			size = 1
			b.WriteByte(' ')
		default:
			size = 1
			b.WriteByte('x')
		}
		i += size
	}
	return b.String()
}

// fold joins the lines of a plain scalar like YAML: with a space, or with one newline for each empty line between them.
func fold(s string) string {
	var b strings.Builder
	empty := 0
	for at := 0; ; {
		end := endOfLine(s, at)
		switch line := strings.Trim(s[at:end], " \t"); {
		case line == "":
			empty++
		case empty > 0:
			b.WriteString(strings.Repeat("\n", empty) + line)
			empty = 0
		case at > 0:
			b.WriteString(" " + line)
		default:
			b.WriteString(line)
		}
		if end == len(s) {
			return b.String()
		}
		at = end + lineBreak(s[end:])
	}
}

// replace puts the repaired values into a tree, by their offsets.
func replace(n *Node, put map[int]Repair) {
	if r, ok := put[n.Span.Start]; ok && n.Kind < List {
		if r.node != nil {
			*n = *r.node
			return
		}
		n.Kind, n.Value, n.Span = String, r.Value.Value, r.Value.Span
	}
	for _, item := range n.Items {
		replace(item, put)
	}
	for _, pair := range n.Pairs {
		replace(pair.Value, put)
	}
}
