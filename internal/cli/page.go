package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
)

// page is a report for the terminal: titles, paragraphs and tables that fit
// its width.
type page struct {
	a       *invocation
	out     strings.Builder
	columns int
}

const pageIndent = "  "

func (a *invocation) page() *page { return &page{a: a, columns: a.columns()} }

func (p *page) title(name, rest string) {
	name, rest = diag.Printable(name), diag.Printable(rest)
	fmt.Fprintf(&p.out, "%s", p.a.paint(p.a.colorOut, p.a.screen, bold, name))
	if rest != "" {
		if diag.Width(name)+3+diag.Width(rest) > p.columns {
			p.out.WriteString("\n")
		} else {
			p.out.WriteString("   ")
		}
		p.out.WriteString(p.a.paint(p.a.colorOut, p.a.screen, dim, rest))
	}
	p.out.WriteString("\n")
}

func (p *page) section(name string) {
	fmt.Fprintf(&p.out, "\n%s\n", p.a.paint(p.a.colorOut, p.a.screen, bold, name))
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
	t.paint = func(s string) string { return p.a.paint(p.a.colorOut, p.a.screen, dim, s) }
	_ = t.write(&p.out, p.columns, pageIndent) // a strings.Builder takes everything
}

func (p *page) print() error {
	_, err := io.WriteString(p.a.stdout, p.out.String())
	return err
}
