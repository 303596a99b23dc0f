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
	app     *app
	out     strings.Builder
	columns int
}

const pageIndent = "  "

func (a *app) page() *page { return &page{app: a, columns: a.columns()} }

func (p *page) title(name, rest string) {
	name, rest = diag.Printable(name), diag.Printable(rest)
	fmt.Fprintf(&p.out, "%s", p.app.paint(p.app.colorOut, p.app.screen, bold, name))
	if rest != "" {
		if diag.Width(name)+3+diag.Width(rest) > p.columns {
			p.out.WriteString("\n")
		} else {
			p.out.WriteString("   ")
		}
		p.out.WriteString(p.app.paint(p.app.colorOut, p.app.screen, dim, rest))
	}
	p.out.WriteString("\n")
}

func (p *page) section(name string) {
	fmt.Fprintf(&p.out, "\n%s\n", p.app.paint(p.app.colorOut, p.app.screen, bold, name))
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
	t.paint = func(s string) string { return p.app.paint(p.app.colorOut, p.app.screen, dim, s) }
	_ = t.write(&p.out, p.columns, pageIndent) // a strings.Builder takes everything
}

func (p *page) print() error {
	_, err := io.WriteString(p.app.stdout, p.out.String())
	return err
}
