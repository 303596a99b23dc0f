package cli

import (
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
)

// page is a report for the terminal: titles, paragraphs and tables that fit its width. It is collected, and printed as
// a whole.
type page struct {
	a       *invocation
	out     strings.Builder
	columns int
}

const pageIndent = "  "

func (a *invocation) page() *page { return &page{a: a, columns: a.columns()} }

// title starts the page with a name. rest is printed after the name, or on the next line if it does not fit.
func (p *page) title(name, rest string) {
	name, rest = diag.Printable(name), diag.Printable(rest)
	p.out.WriteString(p.a.bold(name))
	if rest != "" {
		if diag.Width(name)+3+diag.Width(rest) > p.columns {
			p.out.WriteString("\n")
		} else {
			p.out.WriteString("   ")
		}
		p.out.WriteString(p.a.dim(rest))
	}
	p.out.WriteString("\n")
}

func (p *page) section(name string) {
	fmt.Fprintf(&p.out, "\n%s\n", p.a.bold(name))
}

func (p *page) paragraph(text string) {
	for _, line := range wrap(text, p.columns) {
		p.out.WriteString(line + "\n")
	}
}

func (p *page) text(text string) {
	for _, line := range wrap(text, p.columns-len(pageIndent)) {
		p.out.WriteString(pageIndent + line + "\n")
	}
}

func (p *page) table(t table) {
	t.paint = p.a.dim
	p.out.WriteString(t.text(p.columns, pageIndent))
}

// tableSection adds a section with a table, unless the table is empty.
func (p *page) tableSection(name string, t table) {
	if len(t.rows) > 0 {
		p.section(name)
		p.table(t)
	}
}

func (p *page) print() { fmt.Fprint(p.a.stdout, p.out.String()) }
