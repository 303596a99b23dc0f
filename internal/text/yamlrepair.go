package text

import (
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// Repair is a value that was not YAML and was read as if it had been written
// in quotes.
type Repair struct {
	Key   string
	Value Text
	// Problem is the error that it would have been.
	Problem diag.Diagnostic

	node *Node // the value, when it is no text
}

// ParseYAMLLenient reads like ParseYAML, but a value of a "key: value" line
// that YAML can only read in quotes is taken as it stands: a colon and a space
// in it, or a reserved character at its beginning. What was taken so is
// returned as data, not reported.
func ParseYAMLLenient(f *source.File, start, end int) (*Node, []Repair, diag.List) {
	return parseRepairing(f, start, end)
}

// maxRepairs bounds the work for a text that is not YAML at all.
const maxRepairs = 30

// parseRepairing reads a region. When a mistake is one that quotes would mend,
// the value is replaced by a harmless word of the same length, so that all
// offsets stay what they are, and the region is read again; at the end the
// value takes the word's place in the tree.
func parseRepairing(f *source.File, start, end int) (*Node, []Repair, diag.List) {
	region := f.Span(start, end)
	start, end = region.Start, region.End
	text := f.Text[start:end]
	node, out := parseOnce(f, start, text)
	if node != nil && !needsRepair(out) {
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
			// The space before the value takes the bracket's place.
			if value, list := parseOnce(f, start+entry.start-1, missing+original); value != nil && len(list) == 0 && !slices.ContainsFunc(value.Keys(), isProse) {
				value.Span = repair.Value.Span
				repair.node = value
			}
		case `"`, "'":
			repair.Value = Text{Value: fold(original[:len(original)-1]), Span: f.Span(start+entry.start, start+entry.end-1)}
		}
		repairs = append(repairs, repair)
		if from, to := problem.Span.Start-start, problem.Span.End-start; strings.IndexByte("[{", mended[entry.start]) >= 0 && isStray(mended[from:to]) {
			// Without what is left over behind it, the list or the map is fine.
			mended = mended[:from] + strings.Repeat(" ", to-from) + mended[to:]
		} else {
			mended = mended[:entry.start] + harmless(mended[entry.start:entry.end]) + mended[entry.end:]
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

// isProse reports whether a key is rather a piece of a sentence.
func isProse(key string) bool { return !isKey(key) }

func needsRepair(l diag.List) bool {
	_, ok := firstRepairable(l)
	return ok
}

func firstRepairable(l diag.List) (diag.Diagnostic, bool) {
	for _, d := range l {
		if repairable(d.Code) {
			return d, true
		}
	}
	return diag.Diagnostic{}, false
}

// entry is the value of a "key: value" line, with the deeper indented lines
// that carry it on.
type entry struct {
	key        string
	start, end int
}

// entryAround finds the entry whose text the offset is in. It must have a
// value on the line of its key.
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

func entryAt(s string, start int) (entry, bool) {
	line := lineAround(s, start)
	trimmed := strings.TrimLeft(line, " ")
	indent := len(line) - len(trimmed)
	for strings.HasPrefix(trimmed, "- ") {
		trimmed = strings.TrimLeft(trimmed[2:], " ")
		indent = len(line) - len(trimmed)
	}
	key, value, found := cutPair(trimmed)
	if !found || !isKey(key) || key[0] == '"' || key[0] == '\'' {
		return entry{}, false
	}
	if value == "" || value[0] == '#' {
		return entry{}, false
	}
	e := entry{key: key, start: start + len(line) - len(value)}
	e.end = start + len(strings.TrimRight(line, " \t"))
	for next := endOfLine(s, start); next < len(s); next = endOfLine(s, next) {
		next += lineBreak(s[next:])
		more := lineAround(s, next)
		text := strings.TrimLeft(more, " ")
		if text == "" {
			continue // an empty line belongs to it if a deeper one follows
		}
		if len(more)-len(text) <= indent {
			break
		}
		e.end = next + len(strings.TrimRight(more, " \t"))
	}
	return e, true
}

// harmless returns a plain scalar that is as long as s and has its lines.
func harmless(s string) string {
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

// fold joins the lines of a plain scalar as YAML does: by a space, or by one
// newline for each empty line between them.
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
