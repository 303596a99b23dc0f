package nof

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

var _ format.Drifter = Format{}

// driftCodes are the codes of disagreements between parts of a file.
var driftCodes = []diag.Code{
	CodeName, CodeNodeName, CodeInert, CodeUnsafeCrew, CodeEstimate, CodeCeiling, CodePolicy,
	CodeDiagram, CodeOrder, CodePipeline, CodeDepends, CodeDrawnCrew, CodeTier, CodeDrawnRule,
}

// Drift returns the diagnostics about parts that disagree.
func (Format) Drift(list diag.List) diag.List {
	return xslices.Filter(list, func(d diag.Diagnostic) bool { return slices.Contains(driftCodes, d.Code) })
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
	before := f.Text[d.fence.Start:d.fence.End]
	redrawn := l.redrawn()
	after := withComments(redrawn+d.linkStyles(redrawn), before)
	if strings.Contains(before, "\r\n") {
		after = strings.ReplaceAll(after, "\n", "\r\n")
	}
	return f.Text[:d.fence.Start] + after + f.Text[d.fence.End:], list
}

// linkStyles returns the linkStyle statements of the old diagram for a new one, where links have other numbers. Styles
// of links that are gone are left out.
func (d *document) linkStyles(diagram string) string {
	chart, _ := text.ParseFlowchart(source.NewFile("", diagram), 0, len(diagram))
	var b strings.Builder
	for line := range strings.Lines(d.file.Text[d.fence.Start:d.fence.End]) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "linkStyle" {
			continue
		}
		var links []string
		for number := range strings.SplitSeq(words[1], ",") {
			old, err := strconv.Atoi(number)
			if err != nil { // "default"
				links = append(links, number)
				continue
			}
			if old < 0 || old >= len(d.chart.Edges) {
				continue
			}
			was := d.chart.Edges[old]
			now := slices.IndexFunc(chart.Edges,
				func(e text.FlowEdge) bool { return e.From == was.From && e.To == was.To })
			if now >= 0 {
				links = append(links, strconv.Itoa(now))
			}
		}
		if len(links) > 0 {
			fmt.Fprintf(&b, "    linkStyle %s %s\n", strings.Join(links, ","), strings.Join(words[2:], " "))
		}
	}
	return b.String()
}

// withComments adds the comments of the old diagram to the new one: each before the statement that it was before or
// behind, or else at the end.
func withComments(diagram, old string) string {
	before := map[string][]string{} // comments, by the statement below
	var order, waiting []string
	for line := range strings.Lines(old) {
		line = strings.TrimRight(line, " \t\r\n")
		statement := strings.TrimSpace(line)
		if strings.HasPrefix(statement, "%%") {
			waiting = append(waiting, line)
			continue
		}
		if code, comment, ok := strings.Cut(statement, " %%"); ok && strings.Count(code, `"`)%2 == 0 {
			waiting = append(waiting, line[:len(line)-len(strings.TrimLeft(line, " \t"))]+"%%"+comment)
			statement = strings.TrimSpace(code)
		}
		if statement != "" && len(waiting) > 0 {
			if before[statement] == nil {
				order = append(order, statement)
			}
			before[statement] = append(before[statement], waiting...)
			waiting = nil
		}
	}
	var b strings.Builder
	write := func(comments []string) {
		for _, comment := range comments {
			b.WriteString(comment + "\n")
		}
	}
	for line := range strings.Lines(diagram) {
		statement := strings.TrimSpace(line)
		write(before[statement])
		delete(before, statement)
		b.WriteString(line)
	}
	for _, statement := range order {
		write(before[statement])
	}
	write(waiting)
	return b.String()
}

// redrawn returns the text of the diagram.
func (l *lowering) redrawn() string {
	d := l.doc
	ids := l.nodeIDs()
	var b strings.Builder
	b.WriteString(l.header() + "\n")
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

// header returns the first statement of the diagram as it is written.
func (l *lowering) header() string {
	d := l.doc
	for line := range strings.Lines(d.file.Text[d.fence.Start:d.fence.End]) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "graph" || word == "flowchart" {
			return strings.TrimSpace(line)
		}
	}
	return "graph TD"
}

// links returns the arrows of the pipeline or, if it has none, of the order of agents.
func (l *lowering) links() []arrow {
	d := l.doc
	out := xslices.Filter(d.needs(), func(n arrow) bool { return d.lists(n.from) && d.lists(n.to) })
	if len(out) > 0 {
		return out
	}
	for i := 1; i < len(l.units); i++ {
		from := l.units[i-1].agents
		if d.mode() == hierarchical {
			from = l.units[0].agents
		}
		for _, a := range from {
			out = append(out, xslices.Map(l.units[i].agents, func(b string) arrow { return arrow{from: a, to: b} })...)
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

// alphanumeric replaces what an identifier of a diagram cannot have.
func alphanumeric(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
}

// styles keeps the class definitions and the styles and links of nodes, and assigns the classes of tiers
// if the diagram had any.
func (l *lowering) styles(b *strings.Builder, ids map[string]string) {
	d := l.doc
	defined := false
	known := func(id string) bool {
		return slices.Contains(slices.Collect(maps.Values(ids)), id) ||
			slices.ContainsFunc(d.chart.Nodes, func(n *text.FlowNode) bool { return n.ID == id && terminal(n) })
	}
	for line := range strings.Lines(d.file.Text[d.fence.Start:d.fence.End]) {
		words := strings.Fields(line)
		if len(words) > 1 && (words[0] == "classDef" || (words[0] == "style" || words[0] == "click") &&
			known(words[1])) {
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
