package text

import "github.com/espalier-run/espalier/internal/source"

// Document is a Markdown file cut into what formats look at.
type Document struct {
	File *source.File
	// Frontmatter is the text between the --- lines.
	Frontmatter                       Region
	HasFrontmatter, FrontmatterClosed bool
	// Body is everything after it.
	Body     Region
	Headings []Heading
	Fences   []Fence // outermost ones only; a fence inside a fence is text
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
	Content  Region      // between the two fence lines
	Span     source.Span // the fences included
	Closed   bool
	Heading  int // index of the heading above it, -1 when there is none
}

// ParseMarkdown cuts a file up. It cannot fail: any text is Markdown.
func ParseMarkdown(f *source.File) *Document { return nil }
