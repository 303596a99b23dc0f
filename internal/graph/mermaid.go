package graph

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// Mermaid writes the graph as a Mermaid flowchart.
func (g *Graph) Mermaid(w io.Writer) error {
	m := &mermaid{graph: g, outline: g.outline(), names: map[string]string{}, taken: map[string]bool{}}
	m.out.WriteString("flowchart TD\n")
	m.write("", 1)
	for i := range g.Edges {
		m.edge(i)
	}
	m.styles()
	_, err := w.Write(m.out.Bytes())
	return err
}

// mermaid is the state of Mermaid. Edges are written in the order of Graph.Edges, because linkStyle names them by their
// position in the file.
type mermaid struct {
	outline
	graph *Graph
	out   bytes.Buffer
	names map[string]string
	taken map[string]bool
	red   []string // indexes of red edges
	gray  []string
	bold  []string
}

// name returns the ID in the flowchart. Its prefix avoids Mermaid's keywords ("end", "subgraph") and the letters o and
// x that change an arrow's head.
func (m *mermaid) name(id string) string {
	if n := m.names[id]; n != "" {
		return n
	}
	var s strings.Builder
	s.WriteString("n_")
	for _, r := range strings.TrimPrefix(id, "step-") {
		if r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			s.WriteRune(r)
		} else {
			s.WriteByte('_')
		}
	}
	name := s.String()
	for n := 2; m.taken[name]; n++ {
		name = s.String() + "_" + strconv.Itoa(n)
	}
	m.taken[name] = true
	m.names[id] = name
	return name
}

// write writes the elements of a group, and those of the groups in it.
func (m *mermaid) write(group string, depth int) {
	pad := strings.Repeat("  ", depth)
	for _, id := range m.members[group] {
		n, c := m.nodes[id], m.groups[id]
		if c == nil {
			open, shut := mermaidShape(n)
			fmt.Fprintf(&m.out, "%s%s%s\"%s\"%s:::%s\n", pad, m.name(id), open, mermaidText(n.lines()), shut,
				mermaidClass(n.Tone))
			continue
		}
		// Mermaid reserves one line for the title of a subgraph.
		title := c.Title
		if c.Detail != "" {
			title += ": " + c.Detail
		} else if c.Text != "" {
			title += ": " + c.Text
		}
		fmt.Fprintf(&m.out, "%ssubgraph %s[\"%s\"]\n%s  direction TB\n", pad, m.name(id),
			mermaidText([]string{shorten(title, 40)}), pad)
		m.write(id, depth+1)
		fmt.Fprintf(&m.out, "%send\n", pad)
	}
}

// mermaidShape returns the brackets around the text of a node, which are its shape.
func mermaidShape(n *Node) (open, shut string) {
	switch {
	case n.Kind == NodeTrigger, n.Kind == NodeStart, n.Kind == NodeEnd:
		return "([", "])"
	case n.Kind == NodeArtifact:
		return "[/", "/]"
	case n.Kind == NodeWait, n.Kind == NodeFail, n.Kind == NodeExit:
		return "(", ")"
	case n.Tone == ToneDecision:
		return "{{", "}}"
	case n.Icon == IconNested:
		return "[[", "]]"
	default:
		return "[", "]"
	}
}

// edge writes an edge. Mermaid counts edges and styles them by number, so their order must be that of the graph.
func (m *mermaid) edge(i int) {
	e := &m.graph.Edges[i]
	arrow := "-->"
	n := strconv.Itoa(i)
	switch {
	case e.Kind.isFailure():
		arrow = "-.->"
		m.red = append(m.red, n)
	case e.Kind == EdgeData:
		arrow = "-.->"
		m.gray = append(m.gray, n)
	case e.Kind == EdgeSkipped, e.Kind == EdgeProduces:
		arrow = "-.->"
	}
	if e.Taken {
		m.bold = append(m.bold, n)
	}
	label := ""
	if e.Label != "" {
		label = `|"` + mermaidText([]string{shorten(e.Label, 60)}) + `"|`
	}
	fmt.Fprintf(&m.out, "  %s %s%s %s\n", m.name(e.From), arrow, label, m.name(e.To))
}

// styles writes the colors of the light theme. It sets the text color too, so that a dark page does not show white text
// on a light surface.
func (m *mermaid) styles() {
	light := palette()
	used := map[Tone]bool{}
	for i := range m.graph.Nodes {
		used[m.graph.Nodes[i].Tone] = true
	}
	for _, one := range toneColors {
		if t := one.tone; used[t] {
			fmt.Fprintf(&m.out, "  classDef %s fill:%s,stroke:%s,color:%s\n", mermaidClass(t), light.hex(t.fill()),
				light.hex(t.line()), light.hex(t.title()))
		}
	}
	for i := range m.graph.Groups {
		c := &m.graph.Groups[i]
		fmt.Fprintf(&m.out, "  style %s fill:%s,stroke:%s,color:%s\n", m.name(c.ID), light.hex(c.Tone.fill()),
			light.hex(c.Tone.line()), light.hex(paintText))
	}
	for _, l := range []struct {
		edges []string
		style string
	}{
		{m.red, "stroke:" + light.hex(paintError)},
		{m.gray, "stroke:" + light.hex(paintData)},
		{m.bold, "stroke-width:3px"},
	} {
		if len(l.edges) > 0 {
			fmt.Fprintf(&m.out, "  linkStyle %s %s\n", strings.Join(l.edges, ","), l.style)
		}
	}
}

// mermaidClass returns a class name that is not a Mermaid keyword.
func mermaidClass(t Tone) string { return "tone_" + string(t) }

// mermaidText joins lines and encodes every character with a meaning in Mermaid, Markdown or HTML as a numeric entity.
// Texts come from files, which can be hostile. An empty label would be a syntax error.
func mermaidText(lines []string) string {
	var s strings.Builder
	for i, line := range lines {
		if i > 0 {
			s.WriteString("<br/>")
		}
		digits := true // only digits so far: "1." would start a list
		for at, r := range line {
			plain := unicode.IsLetter(r) || unicode.IsDigit(r) || r > 0xA0 || strings.ContainsRune(" ,:'/_()=!?", r) ||
				r == '.' && !digits || (r == '-' || r == '+') && at > 0
			if r != '.' && !unicode.IsDigit(r) {
				digits = false
			}
			switch {
			case r == '"':
				s.WriteString("#quot;")
			case plain:
				s.WriteRune(r)
			default:
				fmt.Fprintf(&s, "#%d;", r)
			}
		}
	}
	if s.Len() == 0 {
		return " "
	}
	return s.String()
}
