package graph

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/xslices"
)

// fontStack is the font list of an SVG: the Go fonts, in which text is measured, or narrower ones.
const fontStack = `"Go","Helvetica Neue",Helvetica,Arial,"Liberation Sans",sans-serif`

// SVG writes the picture as a self-contained file.
func (g *Graph) SVG(w io.Writer) error {
	p, err := arrange(g, &large)
	if err != nil {
		return err
	}
	s := &svg{scene: compose(g, p)}
	s.write()
	_, err = w.Write(s.out.Bytes())
	return err
}

// svg writes a scene as an SVG.
type svg struct {
	*scene
	markup
}

// markup writes elements.
type markup struct{ out bytes.Buffer }

// open writes a start tag; attributes are names and values in turn. An attribute with an empty value is left out.
func (m *markup) open(tag string, attributes ...string) {
	m.out.WriteString("<" + tag)
	for i := 0; i < len(attributes); i += 2 {
		if attributes[i+1] != "" {
			fmt.Fprintf(&m.out, ` %s="%s"`, attributes[i], escape(attributes[i+1]))
		}
	}
	m.out.WriteString(">")
}

// empty writes an element without content.
func (m *markup) empty(tag string, attributes ...string) {
	m.open(tag, attributes...)
	m.out.Truncate(m.out.Len() - 1)
	m.out.WriteString("/>")
}

// text writes a text element.
func (m *markup) text(text string, attributes ...string) {
	m.open("text", attributes...)
	m.out.WriteString(escape(text) + "</text>")
}

// write writes the whole picture.
func (s *svg) write() {
	name := cmp.Or(s.name, "workflow")
	fmt.Fprintf(&s.out, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" `+
		`role="img" aria-labelledby="graph-title" class="espalier-graph">`,
		number(s.w), number(s.h), number(s.w), number(s.h))
	s.out.WriteByte('\n')
	fmt.Fprintf(&s.out, "<title id=\"graph-title\">%s</title>\n", escape(name))
	if s.description != "" {
		fmt.Fprintf(&s.out, "<desc>%s</desc>\n", escape(s.description))
	}
	s.style()
	fmt.Fprintf(&s.out, "<rect class=\"f-page\" width=\"%s\" height=\"%s\"/>\n", number(s.w), number(s.h))
	for i := range s.parts {
		s.part(&s.parts[i])
	}
	s.out.WriteString("</svg>\n")
}

// style writes the colors as variables, so that a page can override them, with a dark theme for readers who prefer it.
// The plain value comes first for viewers without support for variables.
func (s *svg) style() {
	var light, dark, classes strings.Builder
	for _, c := range colors() {
		fmt.Fprintf(&light, "--%s:#%06x;", c.paint, c.light)
		fmt.Fprintf(&dark, "--%s:#%06x;", c.paint, c.dark)
		fmt.Fprintf(&classes, ".f-%[1]s{fill:#%06[2]x;fill:var(--%[1]s)}"+
			".s-%[1]s{stroke:#%06[2]x;stroke:var(--%[1]s)}\n", c.paint, c.light)
	}
	fmt.Fprintf(&s.out, "<style>\n.espalier-graph{color-scheme:light dark;%s}\n@media "+
		"(prefers-color-scheme:dark){.espalier-graph{%s}}\n", light.String(), dark.String())
	s.out.WriteString(classes.String())
	fmt.Fprintf(&s.out, "text{font-family:%s;white-space:pre}\n"+
		".b{font-weight:bold}.i{font-style:italic}.m{text-anchor:middle}\n", fontStack)
	s.out.WriteString("path{fill:none;stroke-linecap:round;stroke-linejoin:round}\n</style>\n")
}

// part writes a part of the scene as a group, which is a link if the part has one.
func (s *svg) part(p *part) {
	attributes := []string{"id", p.id, "class", p.class}
	for _, d := range p.data {
		attributes = append(attributes, "data-"+d[0], d[1])
	}
	s.open("g", attributes...)
	if p.title != "" {
		fmt.Fprintf(&s.out, "<title>%s</title>", escape(p.title))
	}
	if p.href != "" {
		s.open("a", "href", p.href)
	}
	for i := range p.shapes {
		s.shape(&p.shapes[i])
	}
	if p.href != "" {
		s.out.WriteString("</a>")
	}
	s.out.WriteString("</g>\n")
}

// shape writes one shape. Its colors are classes, whose values depend on the theme.
func (s *svg) shape(sh *shape) {
	var class []string
	if sh.fill != "" {
		class = append(class, "f-"+string(sh.fill))
	}
	if sh.stroke != "" {
		class = append(class, "s-"+string(sh.stroke))
	}
	if t := sh.text; t != nil {
		switch t.cut {
		case bold:
			class = append(class, "b")
		case italic:
			class = append(class, "i")
		}
		if t.anchor == anchorMiddle {
			class = append(class, "m")
		}
		turn := ""
		if t.upward {
			turn = "rotate(-90 " + number(t.x) + " " + number(t.y) + ")"
		}
		s.text(t.text, "class", strings.Join(class, " "), "x", number(t.x), "y", number(t.y),
			"font-size", number(t.size), "transform", turn)
		return
	}
	attributes := []string{"class", strings.Join(class, " "), "d", pathData(sh.path)}
	if sh.stroke != "" {
		attributes = append(attributes, "stroke-width", number(sh.width))
	}
	if len(sh.dash) > 0 {
		parts := xslices.Map(sh.dash, number)
		attributes = append(attributes, "stroke-dasharray", strings.Join(parts, " "))
		if sh.phase != 0 {
			attributes = append(attributes, "stroke-dashoffset", number(sh.phase))
		}
	}
	s.empty("path", attributes...)
}

// pathData returns the "d" attribute of a path.
func pathData(p path) string {
	var out strings.Builder
	for _, c := range p {
		out.WriteByte(c.op)
		n := map[byte]int{'M': 1, 'L': 1, 'Q': 2, 'C': 3, 'Z': 0}[c.op]
		for i, pt := range c.points[:n] {
			if i > 0 {
				out.WriteByte(' ')
			}
			out.WriteString(number(pt.x) + " " + number(pt.y))
		}
	}
	return out.String()
}

// number formats a coordinate with at most one decimal, which keeps files small and the same on all platforms.
func number(x float64) string {
	text := strconv.FormatFloat(x, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0")
}

// escape makes text safe in elements and attributes. Characters that XML does not allow are replaced.
func escape(s string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return "" // unreachable: a bytes.Buffer does not fail
	}
	return b.String()
}
