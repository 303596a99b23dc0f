package diag

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Printer writes diagnostics for people: the message, the position, and the lines of the file with carets under the
// span.
type Printer struct {
	Files source.Set
	Color bool
}

// Print writes the list in its order.
func (p Printer) Print(w io.Writer, l List) error {
	out := bufio.NewWriter(w)
	for i, d := range l {
		if i > 0 {
			out.WriteByte('\n')
		}
		p.diagnostic(out, d)
	}
	return out.Flush()
}

// Summary returns the number of diagnostics in words: "2 errors, 1 warning". It is empty for an empty list.
func Summary(l List) string {
	var parts []string
	for _, s := range [...]Severity{Error, Warning, Note} {
		switch n := l.Count(s); n {
		case 0:
		case 1:
			parts = append(parts, "1 "+s.String())
		default:
			parts = append(parts, fmt.Sprintf("%d %ss", n, s))
		}
	}
	return strings.Join(parts, ", ")
}

// style is an ANSI color; the zero style is none.
type style string

const (
	bold   style = "\x1b[1m"
	red    style = "\x1b[1;31m"
	yellow style = "\x1b[1;33m"
	cyan   style = "\x1b[1;36m"
	blue   style = "\x1b[34m"
	green  style = "\x1b[1;32m"
)

func (p Printer) paint(s style, text string) string {
	if !p.Color || text == "" {
		return text
	}
	return string(s) + text + "\x1b[0m"
}

func (s Severity) style() style { return [...]style{cyan, yellow, red}[s] }

func (p Printer) diagnostic(w *bufio.Writer, d Diagnostic) {
	head := d.Severity.String()
	if d.Code != "" {
		head += "[" + string(d.Code) + "]"
	}
	fmt.Fprintf(w, "%s%s\n", p.paint(d.Severity.style(), head), p.paint(bold, ": "+Printable(d.Message)))

	// The gutter is as wide as the largest line number of all frames, so that frames are aligned.
	gutter := 1
	for _, s := range d.spans() {
		if f := p.Files[s.File]; f != nil {
			gutter = max(gutter, len(strconv.Itoa(f.Position(s.End).Line)))
		}
	}
	p.place(w, gutter, "-->", d.Span)
	p.frame(w, gutter, d.Span, d.Severity.style(), '^', "")
	for _, r := range d.Related {
		if r.Span.File != d.Span.File {
			p.place(w, gutter, ":::", r.Span)
		}
		p.frame(w, gutter, r.Span, blue, '-', Printable(r.Message))
	}
	if d.Help != "" {
		fmt.Fprintf(w, "%*s %s %s\n", gutter, "", p.paint(blue, "="), p.paint(green, "help:")+" "+Printable(d.Help))
	}
}

func (d Diagnostic) spans() []source.Span {
	return append([]source.Span{d.Span}, xslices.Map(d.Related, func(r Related) source.Span { return r.Span })...)
}

// place writes "--> file:line:column".
func (p Printer) place(w *bufio.Writer, gutter int, arrow string, s source.Span) {
	if s.IsZero() {
		return
	}
	at := Printable(s.File)
	if f := p.Files[s.File]; f != nil {
		pos := f.Position(s.Start)
		at = fmt.Sprintf("%s:%d:%d", at, pos.Line, pos.Column)
	}
	fmt.Fprintf(w, "%*s%s %s\n", gutter, "", p.paint(blue, arrow), at)
}

// frame writes the lines of a span with marks below. For a span of more than three lines it shows the first and the
// last one.
func (p Printer) frame(w *bufio.Writer, gutter int, s source.Span, st style, mark byte, label string) {
	f := p.Files[s.File]
	if f == nil {
		if label != "" {
			fmt.Fprintf(w, "%*s %s %s\n", gutter, "", p.paint(blue, "="), label)
		}
		return
	}
	bar := p.paint(blue, "|")
	fmt.Fprintf(w, "%*s %s\n", gutter, "", bar)
	parts := lineParts(f, s)
	for i, part := range parts {
		if len(parts) > 3 && i > 0 && i < len(parts)-1 {
			if i == 1 {
				fmt.Fprintf(w, "%s\n", p.paint(blue, strings.Repeat(".", max(gutter, 3))))
			}
			continue
		}
		shown := crop(f.Line(part.line), part.start, part.end)
		fmt.Fprintf(w, "%s %s", p.paint(blue, fmt.Sprintf("%*d", gutter, part.line)), bar)
		if shown.text != "" {
			fmt.Fprintf(w, " %s", shown.text)
		}
		marks := strings.Repeat(string(mark), max(shown.width, 1))
		if label != "" && i == len(parts)-1 {
			marks += " " + label
		}
		fmt.Fprintf(w, "\n%*s %s %s%s\n", gutter, "", bar, strings.Repeat(" ", shown.before), p.paint(st, marks))
	}
}

// linePart is the bytes [start, end) of one line.
type linePart struct{ line, start, end int }

// lineParts splits a span into lines. It omits the indentation of lines after the first, and lines that contain nothing
// of the span.
func lineParts(f *source.File, s source.Span) []linePart {
	first, last := f.Position(s.Start).Line, f.Position(s.End).Line
	var parts []linePart
	for n := first; n <= last; n++ {
		begin := f.Offset(n, 1)
		line := f.Line(n)
		part := linePart{line: n, start: 0, end: len(line)}
		if n == first {
			part.start = min(s.Start-begin, len(line))
		} else {
			part.start = len(line) - len(strings.TrimLeft(line, " \t"))
		}
		if n == last {
			part.end = min(s.End-begin, len(line))
		}
		if n > first && part.end <= part.start {
			continue
		}
		part.end = max(part.end, part.start)
		parts = append(parts, part)
	}
	return parts
}
