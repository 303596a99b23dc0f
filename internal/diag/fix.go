package diag

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/source"
)

// Fix is a change of the text that removes a diagnostic.
type Fix struct {
	Title string // an imperative: Replace "sumary" with "summary"
	Edits []Edit
}

// Edit replaces the text of a span.
type Edit struct {
	Span    source.Span
	NewText string

	old     string // the part of the span to replace; Located narrows the span to it
	unquote bool   // Located extends the span by the quotes around it
	whole   string // the text of the span; Located drops the fix if the file has another one there
	// within is the expression that gets NewText as a text in quotes. Located chooses the quotes.
	within source.Span
	// resolve computes the edit from the text of the file; Located drops the fix if it cannot.
	resolve func(text string, at *Edit) (Edit, bool)
}

// Suggest completes a diagnostic about an unknown name: it sets the help text of DidYouMean and, if a candidate is
// close, adds a fix, unless that candidate is among taken: keys that exist already. It does nothing if d is nil.
func (d *Diagnostic) Suggest(name string, candidates []string, taken ...string) {
	if d == nil {
		return
	}
	d.Help = DidYouMean(name, candidates)
	if near := Nearest(name, candidates); !slices.Contains(taken, near) {
		d.Replace(name, near)
	}
}

// SuggestNear is Suggest for a diagnostic whose help text stays if no candidate is close to the name.
func (d *Diagnostic) SuggestNear(name string, candidates []string) {
	if d != nil && Nearest(name, candidates) != "" {
		d.Suggest(name, candidates)
	}
}

// Replace adds a fix that replaces a word inside the diagnostic's span. It does nothing if d is nil or no replacement
// is known.
func (d *Diagnostic) Replace(old, replacement string) {
	if d != nil {
		d.ReplaceAt(d.Span, old, replacement)
	}
}

// ReplaceAt adds a fix that replaces a word inside another span. It does nothing if d is nil, no replacement is known,
// or the word has a line break, which the style of the value adds.
func (d *Diagnostic) ReplaceAt(at source.Span, old, replacement string) {
	if d == nil || old == "" || replacement == "" || at.IsZero() || strings.ContainsAny(old, "\r\n") {
		return
	}
	d.Fixes = append(d.Fixes, Fix{
		Title: fmt.Sprintf("Replace %q with %q", old, replacement),
		Edits: []Edit{{Span: at, NewText: replacement, old: old}},
	})
}

// Write adds a fix that replaces a span as a whole. It does nothing if d is nil.
func (d *Diagnostic) Write(at source.Span, newText string) {
	if d != nil && !at.IsZero() {
		d.Fixes = append(d.Fixes, Fix{
			Title: fmt.Sprintf("Write %q", newText), Edits: []Edit{{Span: at, NewText: newText}},
		})
	}
}

// WriteValue is Write for a value that may be in quotes: they are replaced, too. Located drops the fix if the file has
// aliases, which may repeat the value, or the value has a tag, which the new one would get.
func (d *Diagnostic) WriteValue(at source.Span, newText string) {
	if d != nil && !at.IsZero() {
		d.Write(at, newText)
		d.Fixes[len(d.Fixes)-1].Edits[0].unquote = true
	}
}

// Rewrite is Write for a part of a text that the file may have in another form, with other characters in the place of
// white space. Then there is no fix.
func (d *Diagnostic) Rewrite(at source.Span, old, newText string) {
	if d != nil && !at.IsZero() {
		d.Write(at, newText)
		fix := &d.Fixes[len(d.Fixes)-1]
		fix.Edits[0].whole = old
		if newText == "" {
			fix.Title = fmt.Sprintf("Remove %q", old)
		}
	}
}

// RewriteText is Rewrite for a text in an expression: the new text gets quotes that differ from those around the
// expression. newText must not contain quotes or escapes.
func (d *Diagnostic) RewriteText(at, expression source.Span, old, newText string) {
	if d != nil && !at.IsZero() {
		d.Fixes = append(d.Fixes, Fix{
			Title: fmt.Sprintf("Write %q in quotes", newText),
			Edits: []Edit{{Span: at, NewText: newText, whole: old, within: expression}},
		})
	}
}

// Remove adds a fix that removes spans of the text. what names them in its title. It does nothing if d is nil.
func (d *Diagnostic) Remove(what string, at ...source.Span) {
	if d != nil {
		d.Change("Remove "+what, "", at...)
	}
}

// Change adds a fix with a title of its own that replaces each of some spans. It does nothing if d is nil.
func (d *Diagnostic) Change(title, newText string, at ...source.Span) {
	if d == nil {
		return
	}
	fix := Fix{Title: title}
	for _, span := range at {
		fix.Edits = append(fix.Edits, Edit{Span: span, NewText: newText})
	}
	d.Fixes = append(d.Fixes, fix)
}

// Located returns the list with the spans of all edits narrowed to the words that they replace. It drops fixes that
// cannot be applied as they are: the file is not in files, the word is written in another way, for example with
// escapes, or it occurs several times in the span.
func (l List) Located(files source.Set) List {
	out := slices.Clone(l)
	for i := range out {
		var fixes []Fix
		for _, fix := range out[i].Fixes {
			if fix, ok := located(fix, files); ok {
				fixes = append(fixes, fix)
			}
		}
		out[i].Fixes = fixes
	}
	return out
}

func located(fix Fix, files source.Set) (Fix, bool) {
	edits := slices.Clone(fix.Edits)
	for i := range edits {
		e := &edits[i]
		f := files[e.Span.File]
		if f == nil || e.Span.Start < 0 || e.Span.End > len(f.Text) || e.Span.Start > e.Span.End {
			return fix, false
		}
		if e.resolve != nil {
			resolved, ok := e.resolve(f.Text, e)
			if !ok {
				return fix, false
			}
			*e = resolved
		}
		if e.unquote {
			if inBlock(f.Text, e.Span.Start) || hasTag(f.Text[:e.Span.Start]) || repeats(f.Text) {
				return fix, false
			}
			e.Span.Start, e.Span.End = quotedAt(f.Text, e.Span)
			e.unquote = false
		}
		if e.whole != "" && f.Text[e.Span.Start:e.Span.End] != e.whole {
			return fix, false
		}
		if !e.within.IsZero() {
			quote, ok := innerQuote(f.Text, e)
			if !ok {
				return fix, false
			}
			e.NewText = quote + e.NewText + quote
			e.within = source.Span{}
		}
		e.whole = ""
		if e.old == "" {
			continue
		}
		at := words(f.Text[e.Span.Start:e.Span.End], e.old)
		if len(at) != 1 || !isPlain(e.NewText) {
			return fix, false
		}
		e.Span = e.Span.Sub(at[0], at[0]+len(e.old))
		e.old = ""
	}
	fix.Edits = edits
	return fix, true
}

// inBlock reports whether a text is the first line below the header of a block scalar, where quotes are part of it.
func inBlock(text string, start int) bool {
	line := strings.LastIndexByte(text[:start], '\n')
	if line < 0 || strings.TrimLeft(text[line:start], "\n ") != "" {
		return false
	}
	return blockHeader().MatchString(text[strings.LastIndexByte(text[:line], '\n')+1 : line])
}

// hasTag reports whether what comes before a value ends with a YAML tag, such as !!str, and perhaps an anchor.
func hasTag(before string) bool {
	for {
		before = strings.TrimRight(before, " \t\r\n\"'")
		word := before[strings.LastIndexAny(before, " \t\n[{,")+1:]
		if !strings.HasPrefix(word, "&") {
			return strings.HasPrefix(word, "!")
		}
		before = strings.TrimSuffix(before, word)
	}
}

// blockHeader matches a line that ends with the header of a block scalar.
var blockHeader = lazyregexp.New(`[|>][-+0-9]*[ \t]*(\s#.*)?\r?$`)

// innerQuote returns the quotes for a text in an expression that may be in quotes itself. There are none for a text at
// the start of an expression without quotes, because YAML would take it for the whole value.
func innerQuote(text string, e *Edit) (string, bool) {
	start, end := e.within.Start, e.within.End
	if start > 0 && end < len(text) && text[start-1] == text[end] {
		switch text[end] {
		case '"':
			return "'", true
		case '\'':
			return `"`, true
		}
	}
	return `"`, e.Span.Start > start
}

// words returns the offsets at which text contains word and not a longer one.
func words(text, word string) []int {
	var out []int
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return out
		}
		start, end := from+i, from+i+len(word)
		if (start == 0 || !isWordByte(text[start-1])) && (end == len(text) || !isWordByte(text[end])) {
			out = append(out, start)
		}
		from = end
	}
}

func isWordByte(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// isPlain reports whether text means the same in all formats, with and without quotes.
func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r > 0x7e || !isWordByte(byte(r)) && !strings.ContainsRune("./", r)
	})
}

// Apply returns the text of a file with the edits of a fix. Edits of other files are ignored.
func (f Fix) Apply(file *source.File) string {
	edits := slices.Clone(f.Edits)
	slices.SortFunc(edits, func(a, b Edit) int { return b.Span.Start - a.Span.Start })
	text := file.Text
	for _, e := range edits {
		if e.Span.File == file.Path {
			text = text[:e.Span.Start] + e.NewText + text[e.Span.End:]
		}
	}
	return text
}
