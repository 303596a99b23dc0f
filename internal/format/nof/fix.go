package nof

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

var _ format.Drifter = Format{}

// driftCodes are the codes of disagreements between parts of a file.
var driftCodes = []diag.Code{
	CodeName, CodeNodeName, CodeInert, CodeUnsafeCrew, CodeEstimate, CodeCeiling, CodePolicy,
	CodeDiagram, CodeOrder, CodePipeline, CodeDepends, CodeDrawnCrew, CodeTier, CodeDrawnRule,
}

// Drift returns the diagnostics about parts that disagree.
func (Format) Drift(list diag.List) diag.List {
	var out diag.List
	for _, d := range list {
		if slices.Contains(driftCodes, d.Code) {
			out = append(out, d)
		}
	}
	return out
}

// FixTopology regenerates the diagram from the agents, the crews that can run in parallel, the
// pipeline's dependencies, and the routing rules.
func (o Format) FixTopology(f *source.File, files format.Reader) (string, diag.List) {
	var list diag.List
	d := parse(f, &list)
	if d == nil || d.chart == nil {
		return f.Text, list
	}
	l := &lowering{Format: o, doc: d, files: files, out: &list}
	l.program()
	if list.Errors() {
		return f.Text, list
	}
	return f.Text[:d.fence.Start] + l.redrawn() + f.Text[d.fence.End:], list
}

// redrawn returns the text of the diagram.
func (l *lowering) redrawn() string {
	d := l.doc
	ids := l.nodeIDs()
	var b strings.Builder
	direction := d.chart.Direction
	if direction == "" {
		direction = "TD"
	}
	fmt.Fprintf(&b, "graph %s\n", direction)
	label := func(key string) string { return fmt.Sprintf("%s[%s]", ids[key], key) }
	begin, end := l.terminal("START((Start))", true), l.terminal("END((End))", false)
	var inCrew []string
	for i := range d.crews {
		c := &d.crews[i]
		if !l.safe[c] {
			continue
		}
		fmt.Fprintf(&b, "    subgraph %s[%s]\n", alphanumeric(c.name.Value), c.name.Value)
		for _, m := range c.members {
			fmt.Fprintf(&b, "        %s\n", label(m.Value))
			inCrew = append(inCrew, m.Value)
		}
		b.WriteString("    end\n")
	}
	shown := map[string]bool{}
	show := func(key string) string {
		if shown[key] || slices.Contains(inCrew, key) {
			return ids[key]
		}
		shown[key] = true
		return label(key)
	}
	links := l.links()
	for _, a := range d.agents {
		if !slices.ContainsFunc(links, func(x arrow) bool { return x.to == a.Value }) {
			fmt.Fprintf(&b, "    %s --> %s\n", begin, show(a.Value))
			begin, _, _ = strings.Cut(begin, "(")
		}
	}
	for _, x := range links {
		from := show(x.from)
		fmt.Fprintf(&b, "    %s --> %s\n", from, show(x.to))
	}
	for _, a := range d.agents {
		if !slices.ContainsFunc(links, func(x arrow) bool { return x.from == a.Value }) {
			fmt.Fprintf(&b, "    %s --> %s\n", show(a.Value), end)
			end, _, _ = strings.Cut(end, "(")
		}
	}
	for _, r := range d.rules {
		from := ""
		switch r.kind {
		case skipRule:
			first := len(d.agents)
			for _, s := range r.skips {
				first = min(first, d.position(s.Value))
			}
			if first > 0 && first < len(d.agents) {
				from = d.agents[first-1].Value
			}
		case cycleRule:
			from = d.agents[len(d.agents)-1].Value
		case routeRule:
			if !slices.ContainsFunc(links, func(x arrow) bool { return x.to == r.target.Value }) &&
				d.position(r.target.Value) > 0 {
				from = d.agents[0].Value
			}
		}
		if from != "" && from != r.target.Value {
			fmt.Fprintf(&b, "    %s -.->|\"%s\"| %s\n", show(from),
				strings.Join(strings.Fields(strings.ReplaceAll(r.cond.Text, `"`, "'")), " "), show(r.target.Value))
		}
	}
	l.styles(&b, ids)
	return b.String()
}

// links returns the arrows of the pipeline or, if it has none, of the order of agents.
func (l *lowering) links() []arrow {
	d := l.doc
	var out []arrow
	for _, n := range d.needs() {
		if d.lists(n.from) && d.lists(n.to) {
			out = append(out, n)
		}
	}
	if len(out) > 0 {
		return out
	}
	for i := 1; i < len(l.units); i++ {
		from := l.units[i-1].agents
		if d.mode() == hierarchical {
			from = l.units[0].agents
		}
		for _, a := range from {
			for _, b := range l.units[i].agents {
				out = append(out, arrow{from: a, to: b})
			}
		}
	}
	return out
}

// nodeIDs returns the diagram's existing IDs, and new ones for the other agents.
func (l *lowering) nodeIDs() map[string]string {
	out, taken := map[string]string{}, map[string]bool{"START": true, "END": true}
	for _, n := range l.doc.chart.Nodes {
		taken[n.ID] = true
		if key := n.Label.Value; l.doc.lists(key) && out[key] == "" && !terminal(n) {
			out[key] = n.ID
		}
	}
	for _, a := range l.doc.agents {
		if out[a.Value] != "" {
			continue
		}
		id := alias(a.Value)
		for n := 2; taken[id]; n++ {
			id = fmt.Sprintf("%s%d", alias(a.Value), n)
		}
		out[a.Value], taken[id] = id, true
	}
	return out
}

// terminal returns the existing start or end node of the diagram, or else the given default.
func (l *lowering) terminal(otherwise string, start bool) string {
	for _, n := range l.doc.chart.Nodes {
		if !terminal(n) {
			continue
		}
		out := slices.ContainsFunc(l.doc.chart.Edges, func(e text.FlowEdge) bool { return e.From == n.ID })
		if out == start {
			half := len(n.Shape) / 2
			return n.ID + n.Shape[:half] + n.Label.Value + n.Shape[half:]
		}
	}
	return otherwise
}

func alphanumeric(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
}

// styles keeps the class definitions, and assigns the classes of tiers if the diagram had any.
func (l *lowering) styles(b *strings.Builder, ids map[string]string) {
	d := l.doc
	defined := false
	for line := range strings.Lines(d.file.Text[d.fence.Start:d.fence.End]) {
		if strings.HasPrefix(strings.TrimSpace(line), "classDef ") {
			if !defined {
				b.WriteString("\n")
			}
			defined = true
			b.WriteString("    " + strings.TrimSpace(line) + "\n")
		}
	}
	tiered := slices.ContainsFunc(d.chart.Nodes, func(n *text.FlowNode) bool {
		return slices.ContainsFunc(n.Class,
			func(c text.Text) bool { _, ok := prices[strings.ToLower(c.Value)]; return ok })
	})
	if !tiered {
		return
	}
	for _, tier := range []string{opus, sonnet, haiku} {
		var nodes []string
		for _, a := range d.agents {
			if e := d.known[a.Value]; e != nil && e.tier == tier {
				nodes = append(nodes, ids[a.Value])
			}
		}
		if len(nodes) > 0 {
			fmt.Fprintf(b, "    class %s %s\n", strings.Join(nodes, ","), tier)
		}
	}
}
