package text

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	mdtext "github.com/yuin/goldmark/text"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// Document is the structure of a Markdown file: frontmatter, headings and fences.
type Document struct {
	File *source.File
	// Frontmatter is the text between the --- lines. If it is not closed, it extends to the first empty line.
	Frontmatter                       Region
	HasFrontmatter, FrontmatterClosed bool
	// Body is the text after the frontmatter.
	Body     Region
	Headings []Heading // at the top level, not in lists and quotations
	Fences   []Fence   // outermost fences only; a fence inside a fence is text

	tooDeep source.Span // the first mark that is nested too deep
}

// maxNesting is how many lists and quotations one line may open. The library takes time for each line and each of them.
const maxNesting = 100

// flattened returns a text in which no line opens more than maxNesting lists and quotations, with the same length, and
// where the first mark too many was; -1 when there was none.
func flattened(text string) (body []byte, deep int) {
	body, deep = []byte(text), -1
	for start := 0; start < len(body); {
		depth, i := 0, start
		for i < len(body) && body[i] != '\n' {
			n := containerMark(body[i:])
			switch {
			case n == 0 && (body[i] == ' ' || body[i] == '\t'):
				i++
				continue
			case n == 0:
				for i < len(body) && body[i] != '\n' {
					i++
				}
				continue
			}
			if depth++; depth > maxNesting {
				if deep < 0 {
					deep = i
				}
				body[i] = 'x'
				for i < len(body) && body[i] != '\n' { // the rest is text now
					i++
				}
				continue
			}
			i += n
		}
		start = i + 1
	}
	return body, deep
}

// containerMark returns the length of the mark of a list entry or a quotation that a text begins with; 0 when there is
// none.
func containerMark(b []byte) int {
	n := 0
	switch c := b[0]; {
	case c == '>':
		return 1
	case c == '-' || c == '*' || c == '+':
		n = 1
	default:
		for n < len(b) && n < 10 && b[n] >= '0' && b[n] <= '9' {
			n++
		}
		if n == 0 || n == len(b) || b[n] != '.' && b[n] != ')' {
			return 0
		}
		n++
	}
	if n < len(b) && b[n] != ' ' && b[n] != '\t' && b[n] != '\n' && b[n] != '\r' {
		return 0
	}
	return n
}

// Region is the bytes [Start, End) of a file.
type Region struct{ Start, End int }

// Heading is a Markdown heading.
type Heading struct {
	Level int
	Text  string
	Span  source.Span
}

// Fence is a fenced code block.
type Fence struct {
	Info     string // the first word after the fence: "step"
	InfoSpan source.Span
	// Content is the lines between the two fence lines, including the indentation of a list.
	Content Region
	Span    source.Span // including the fence lines
	Closed  bool
	// Stop is the line that ends an unclosed block: the opening line of the next block, or a malformed fence. Repair
	// sets it.
	Stop     source.Span
	Unopened bool // set by Repair: the opening line is missing, InfoSpan is the first line
	Quoted   bool // in a quotation: every line of Content begins with >
	Heading  int  // index of the heading above it, or -1
}

// blockParser parses blocks only; emphasis and links are not needed.
var blockParser = sync.OnceValue(func() parser.Parser {
	return parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...))
})

// ParseMarkdown parses a file. It cannot fail, because every text is valid Markdown; Problems reports what is
// suspicious.
func ParseMarkdown(f *source.File) *Document {
	d := &Document{File: f}
	d.splitFrontmatter()
	base := d.Body.Start
	body, deep := flattened(f.Text[base:])
	if deep >= 0 {
		line, _ := nextLine(f.Text, base+deep)
		d.tooDeep = f.Span(base+deep, base+deep+min(len(line), 1))
	}
	root := blockParser().Parse(mdtext.NewReader(body))
	// A node in a list or in a quotation is found on the way down; recursion is not needed, so deep nesting costs
	// nothing.
	quotes := 0
	for n := root.FirstChild(); n != nil; {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Parent() == root {
				d.Headings = append(d.Headings, d.heading(n, base))
			}
		case *ast.FencedCodeBlock:
			d.addFence(n, base, quotes > 0)
		}
		if n.FirstChild() != nil {
			if n.Kind() == ast.KindBlockquote {
				quotes++
			}
			n = n.FirstChild()
			continue
		}
		for n != nil && n.NextSibling() == nil {
			n = n.Parent()
			if n == root {
				n = nil
			} else if n != nil && n.Kind() == ast.KindBlockquote {
				quotes--
			}
		}
		if n != nil {
			n = n.NextSibling()
		}
	}
	// A fence line that opens the next block does not close this one: the list or the quotation that this one stood in
	// has ended.
	for i := range d.Fences {
		if fence := &d.Fences[i]; i+1 < len(d.Fences) && fence.Span.End > d.Fences[i+1].Span.Start {
			fence.Closed = false
			fence.Span.End = max(fence.Content.End, fence.Span.Start)
		}
	}
	return d
}

// splitFrontmatter finds the frontmatter, which must begin on the first line.
func (d *Document) splitFrontmatter() {
	text := d.File.Text
	start := len(text) - len(strings.TrimPrefix(text, "\ufeff"))
	d.Body = Region{start, len(text)}
	first, next := nextLine(text, start)
	if !isMarker(first) {
		return
	}
	d.Frontmatter.Start = next
	for at := next; at < len(text); {
		line, after := nextLine(text, at)
		if isMarker(line) {
			d.HasFrontmatter, d.FrontmatterClosed = true, true
			d.Frontmatter.End = at
			d.Body.Start = after
			return
		}
		at = after
	}
	// Without a second line this may be a rule above the text, unless a key follows at once.
	line, _ := nextLine(text, next)
	if key, _, found := strings.Cut(line, ":"); !found || !isKey(key) {
		d.Frontmatter = Region{}
		return
	}
	d.HasFrontmatter = true
	at := next
	for at < len(text) {
		line, after := nextLine(text, at)
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "```") {
			break
		}
		at = after
	}
	d.Frontmatter.End = at
	d.Body.Start = at
}

// nextLine returns the line at an offset without its line break, and the offset of the next line.
func nextLine(s string, at int) (line string, next int) {
	end := strings.IndexByte(s[at:], '\n')
	if end < 0 {
		return s[at:], len(s)
	}
	return strings.TrimSuffix(s[at:at+end], "\r"), at + end + 1
}

// isMarker reports whether a line opens or closes frontmatter.
func isMarker(line string) bool { return strings.TrimRight(line, " \t\r") == "---" }

// heading converts a heading of the library. base is the offset of its text in the file.
func (d *Document) heading(n *ast.Heading, base int) Heading {
	start := min(base+max(n.Pos(), 0), len(d.File.Text))
	end := start
	var parts []string
	for _, line := range n.Lines().Sliced(0, n.Lines().Len()) {
		parts = append(parts, strings.TrimSpace(d.File.Text[base+line.Start:base+line.Stop]))
		end = max(end, base+line.Start+len(strings.TrimRight(d.File.Text[base+line.Start:base+line.Stop], " \t\r\n")))
	}
	if end == start { // nothing but the hashes
		end = start + min(n.Level, len(d.File.Text)-start)
	}
	return Heading{Level: n.Level, Text: strings.Join(parts, " "), Span: d.File.Span(start, end)}
}

// addFence adds a fenced block. If its opening line occurs again inside, the closing line is missing: Markdown would
// treat the next block as text of this one, so the block ends there.
func (d *Document) addFence(n *ast.FencedCodeBlock, base int, quoted bool) {
	fence := d.fence(n, base, quoted)
	if fence.Info != "" {
		text := d.File.Text
		opening, _ := nextLine(text, fence.Span.Start)
		for at := fence.Content.Start; at < fence.Content.End; {
			line, next := nextLine(text, at)
			if trimmed := strings.TrimLeft(line, " "); trimmed == opening {
				cut := fence
				cut.Content.End, cut.Span.End, cut.Closed = at, at, false
				d.Fences = append(d.Fences, cut)
				shift := at + len(line) - len(trimmed) - fence.Span.Start
				fence.Span.Start += shift
				fence.InfoSpan.Start += shift
				fence.InfoSpan.End += shift
				fence.Content.Start = next
			}
			at = next
		}
	}
	d.Fences = append(d.Fences, fence)
}

// fence converts a fenced block of the library. The library reports only its content, so the fence lines are read from
// the text.
func (d *Document) fence(n *ast.FencedCodeBlock, base int, quoted bool) Fence {
	text := d.File.Text
	start := openingFence(text, min(base+max(n.Pos(), 0), len(text)))
	line, after := nextLine(text, start)
	length := fenceLength(line)
	rest := strings.TrimLeft(line[length:], " \t")
	infoStart := start + len(line) - len(rest)
	info := rest
	if i := strings.IndexAny(rest, " \t"); i >= 0 {
		info = rest[:i]
	}
	fence := Fence{
		Info:     info,
		InfoSpan: d.File.Span(infoStart, infoStart+len(info)),
		Content:  Region{after, after},
		Quoted:   quoted,
		Heading:  len(d.Headings) - 1,
	}
	if lines := n.Lines(); lines.Len() > 0 {
		fence.Content.End = min(max(base+lines.At(lines.Len()-1).Stop, after), len(text))
	}
	end := fence.Content.End
	closing, _ := nextLine(text, end)
	if bar := strings.Trim(closing, " \t>"); length > 0 && len(bar) >= length && fenceLength(bar) == len(bar) &&
		bar[0] == line[0] {
		fence.Closed = true
		end += len(strings.TrimRight(closing, " \t"))
	}
	fence.Span = d.File.Span(start, end)
	return fence
}

// openingFence returns the offset of the opening fence in the line at an offset. After a tab in a quotation, the offset
// of the library is inaccurate.
func openingFence(text string, at int) int {
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	line, _ := nextLine(text, begin)
	for i := range line {
		if fenceLength(line[i:]) >= 3 {
			return begin + i
		}
	}
	return at
}

// fenceLength returns the number of fence characters at the start of s.
func fenceLength(s string) int {
	if s == "" || s[0] != '`' && s[0] != '~' {
		return 0
	}
	return len(s) - len(strings.TrimLeft(s, s[:1]))
}

// Problems returns diagnostics for the document, including those that Repair has handled. blocks are the info words of
// the format's fences: a problem with one of them is an error, with any other fence a warning.
func (d *Document) Problems(blocks ...string) diag.List {
	var out diag.List
	if d.HasFrontmatter && !d.FrontmatterClosed {
		found := out.Errorf(CodeFrontmatter, d.opening(), "Write a line with --- after its last key.",
			"The frontmatter that begins here is never closed.")
		inside := strings.TrimRight(d.File.Text[d.Frontmatter.Start:d.Frontmatter.End], " \t\r\n")
		if last := d.Frontmatter.Start + len(inside); inside != "" {
			first := d.Frontmatter.Start + strings.LastIndexByte(inside, '\n') + 1
			found.Relate(d.File.Span(first, last), "perhaps this is its last line")
		}
	}
	if !d.tooDeep.IsZero() {
		out.Errorf(CodeNested, d.tooDeep, "Use fewer levels.",
			"More than %d lists or quotations are nested here; the rest of the line is read as text.", maxNesting)
	}
	for _, fence := range d.Fences {
		ours := slices.Contains(blocks, fence.Info)
		line, _ := nextLine(d.File.Text, fence.Span.Start)
		opening := d.File.Span(fence.Span.Start, fence.Span.Start+len(strings.TrimRight(line, " \t")))
		switch {
		case fence.Unopened:
			found := out.Errorf(CodeUnopened, fence.InfoSpan,
				fmt.Sprintf("Write a line with ```%s above this one.", fence.Info),
				"The line that opens this %s block is missing.", fence.Info)
			d.openFence(found, fence)
		case !fence.Closed:
			found := out.Warnf(CodeFence, opening,
				fmt.Sprintf("Write a line with %s after its last line.", line[:fenceLength(line)]),
				"This block is never closed.")
			if ours {
				found.Severity = diag.Error
			}
			switch {
			case fence.Stop.End == 0:
			case slices.Contains(blocks,
				strings.TrimSpace(strings.TrimLeft(d.File.Text[fence.Stop.Start:fence.Stop.End], "`~"))):
				found.Message = "This block is not closed before the next one begins."
				found.Relate(fence.Stop, "the next one begins here")
			default:
				found.Help = fmt.Sprintf("Write a line with %s and nothing else where the block ends.",
					line[:fenceLength(line)])
				found.Relate(fence.Stop, "this does not close it")
			}
		}
		if fence.Quoted && ours {
			found := out.Errorf(CodeQuoted, opening, "Remove the > at the beginning of its lines.",
				"This %s block is in a quotation and is not read.", fence.Info)
			d.unquote(found, fence)
		}
	}
	return out
}

// blockInside returns the span of a line in a fence that looks like the opening of another block, or the zero span.
func (d *Document) blockInside(fence Fence, blocks []string) source.Span {
	text := d.File.Text
	own := fenceLength(text[fence.Span.Start:])
	for at := fence.Content.Start; at < fence.Content.End; {
		line, next := nextLine(text, at)
		trimmed := strings.TrimSpace(line)
		length := fenceLength(trimmed)
		if length >= own && trimmed[0] == text[fence.Span.Start] && slices.Contains(blocks,
			strings.TrimSpace(trimmed[length:])) {
			start := at + strings.Index(line, trimmed)
			return d.File.Span(start, start+len(trimmed))
		}
		at = next
	}
	return source.Span{}
}

// opening returns the span of the first --- line.
func (d *Document) opening() source.Span {
	start := strings.Index(d.File.Text, "---")
	return d.File.Span(start, start+3)
}

// openFence adds a fix that writes the missing first line of a block, if its last line is three backticks.
func (d *Document) openFence(found *diag.Diagnostic, fence Fence) {
	start, written := fence.InfoSpan.Start, d.File.Text
	closing, _ := nextLine(written, fence.Content.End)
	if strings.TrimRight(closing, " \t") != "```" || start > 0 && written[start-1] != '\n' {
		return
	}
	lineEnd := "\n"
	if strings.HasSuffix(written[:fence.Content.End], "\r\n") {
		lineEnd = "\r\n"
	}
	opening := "```" + fence.Info
	found.Change("Write "+opening+" above it", opening+lineEnd, d.File.Span(start, start))
}

// unquote adds a fix that removes the marks of a quotation from the lines of a block.
func (d *Document) unquote(found *diag.Diagnostic, fence Fence) {
	if !fence.Closed {
		return
	}
	var marks []source.Span
	at := strings.LastIndexByte(d.File.Text[:fence.Span.Start], '\n') + 1
	for at < fence.Span.End {
		line, next := nextLine(d.File.Text, at)
		rest, quoted := strings.CutPrefix(line, ">")
		rest = strings.TrimPrefix(rest, " ")
		if !quoted || len(marks) == 0 && fenceLength(rest) == 0 {
			return
		}
		marks = append(marks, d.File.Span(at, at+len(line)-len(rest)))
		at = next
	}
	if len(marks) > 1 {
		found.Remove("the > before its lines", marks...)
	}
}
