package graph

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/espalier-run/espalier/internal/xslices"
)

// DOT writes the graph for Graphviz. A frame is a cluster; with compound=true, edges of a cluster lead from and to a
// node inside it and are clipped at its border (ltail, lhead).
func (g *Graph) DOT(w io.Writer) error {
	d := &dot{outline: g.outline(), light: palette()}
	fmt.Fprintf(&d.out, "digraph %s {\n", dotString(g.Name))
	d.out.WriteString("  graph [rankdir=TB, compound=true, fontname=\"Helvetica\", fontsize=12, nodesep=0.4, " +
		"ranksep=0.5]\n")
	d.out.WriteString("  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=12, " +
		"margin=\"0.2,0.1\"]\n")
	fmt.Fprintf(&d.out, "  edge [fontname=\"Helvetica\", fontsize=10, color=%q]\n", d.light.hex(paintEdge))
	d.write("", 1)
	for i := range g.Edges {
		d.edge(&g.Edges[i])
	}
	d.out.WriteString("}\n")
	_, err := w.Write(d.out.Bytes())
	return err
}

// dot writes a graph in the language of Graphviz.
type dot struct {
	outline
	light theme
	out   bytes.Buffer
}

// write writes the members of a group, "" for the page.
func (d *dot) write(group string, depth int) {
	pad := strings.Repeat("  ", depth)
	for _, id := range d.members[group] {
		n, c := d.nodes[id], d.groups[id]
		if c == nil {
			fmt.Fprintf(&d.out, "%s%s [label=%s, fillcolor=%q, color=%q, fontcolor=%q%s]\n", pad, dotString(id),
				dotLines(n.lines()),
				d.light.hex(n.Tone.fill()), d.light.hex(n.Tone.line()), d.light.hex(n.Tone.title()), dotShape(n))
			continue
		}
		lines := c.lines()
		if c.Footer != "" {
			lines = append(lines, c.Footer)
		}
		fmt.Fprintf(&d.out, "%ssubgraph %s {\n", pad, dotString("cluster_"+id))
		fmt.Fprintf(&d.out, "%s  graph [label=%s, style=\"rounded,filled\", fillcolor=%q, color=%q, fontcolor=%q]\n",
			pad, dotLines(lines),
			d.light.hex(c.Tone.fill()), d.light.hex(c.Tone.line()), d.light.hex(paintText))
		// An edge of a frame needs a node: an invisible one, clipped at the frame.
		fmt.Fprintf(&d.out, "%s  %s [shape=point, style=invis, width=0.01, label=\"\"]\n", pad, dotString(id))
		d.write(id, depth+1)
		fmt.Fprintf(&d.out, "%s}\n", pad)
	}
}

// dotShape returns the attributes of the shape of a node.
func dotShape(n *Node) string {
	switch {
	case n.Kind == NodeArtifact:
		return `, shape=note, style=filled`
	case n.Tone == ToneDecision:
		return `, shape=hexagon, style=filled`
	case n.Kind == NodeTrigger && n.Off:
		return `, style="rounded,dashed"`
	case n.Icon == IconNested:
		return `, peripheries=2`
	default:
		return ""
	}
}

// edge writes an edge. Edges of data do not affect the layout.
func (d *dot) edge(e *Edge) {
	var attrs []string
	add := func(name, value string) { attrs = append(attrs, name+"="+value) }
	if e.Label != "" {
		add("label", dotLines([]string{shorten(e.Label, 60)}))
	}
	switch {
	case e.Kind.isFailure():
		add("style", "dashed")
		add("color", `"`+d.light.hex(paintError)+`"`)
		add("fontcolor", `"`+d.light.hex(paintError)+`"`)
	case e.Kind == EdgeData:
		add("style", "dashed")
		add("color", `"`+d.light.hex(paintData)+`"`)
		add("fontcolor", `"`+d.light.hex(paintMuted)+`"`)
		add("constraint", "false")
	case e.Kind == EdgeSkipped, e.Kind == EdgeProduces:
		add("style", "dotted")
	}
	if e.Kind == EdgeProduces {
		add("arrowhead", "none")
	}
	if e.Taken {
		add("penwidth", "3")
	}
	if d.groups[e.From] != nil {
		add("ltail", dotString("cluster_"+e.From))
	}
	if d.groups[e.To] != nil {
		add("lhead", dotString("cluster_"+e.To))
	}
	fmt.Fprintf(&d.out, "  %s -> %s", dotString(e.From), dotString(e.To))
	if len(attrs) > 0 {
		fmt.Fprintf(&d.out, " [%s]", strings.Join(attrs, ", "))
	}
	d.out.WriteString(";\n")
}

// dotString quotes a string. In DOT, only quotes are special, and backslashes in a label.
func dotString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// dotLines returns a label of several lines, with ampersands escaped, because DOT decodes entities.
func dotLines(lines []string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `&`, `&amp;`).Replace
	return `"` + strings.Join(xslices.Map(lines, escape), `\n`) + `"`
}
