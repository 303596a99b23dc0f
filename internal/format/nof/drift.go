package nof

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// arrow is an edge of the diagram between two agents.
type arrow struct {
	from, to    string
	conditional bool
	at          source.Span
}

// drawn maps the IDs of the diagram's nodes to agent keys. Several nodes may represent one
// agent.
func (d *document) drawn() map[string]string {
	out := map[string]string{}
	for _, n := range d.chart.Nodes {
		if !terminal(n) {
			out[n.ID] = n.Label.Value
		}
	}
	return out
}

// isDrawn reports whether the diagram contains an agent.
func (d *document) isDrawn(key string) bool {
	return slices.Contains(slices.Collect(maps.Values(d.drawn())), key)
}

// terminal reports whether a node is a start or end of the diagram.
func terminal(n *text.FlowNode) bool {
	return n.Shape == "(())" || n.Shape == "([])" || n.Shape == "((()))"
}

// arrows returns the edges between agents. An edge of a subgraph applies to each of its members.
func (d *document) arrows() []arrow {
	if d.chart == nil {
		return nil
	}
	keys := d.drawn()
	var members func(id string) []string
	members = func(id string) []string {
		if key, ok := keys[id]; ok {
			return []string{key}
		}
		var out []string
		for i, s := range d.chart.Subgraphs {
			if s.ID != id {
				continue
			}
			for _, m := range s.Members {
				out = append(out, members(m)...)
			}
			for _, inner := range d.chart.Subgraphs {
				if inner.Parent == i {
					out = append(out, members(inner.ID)...)
				}
			}
		}
		return out
	}
	var out []arrow
	for _, e := range d.chart.Edges {
		if e.Style == text.EdgeInvisible {
			continue
		}
		for _, from := range members(e.From) {
			for _, to := range members(e.To) {
				out = append(out, arrow{from: from, to: to, conditional: e.Style == text.EdgeDotted ||
					isCondition(e.Label.Value), at: e.Span})
			}
		}
	}
	return out
}

// isCondition reports whether a label is a comparison.
func isCondition(label string) bool {
	if !strings.ContainsAny(label, "<>=!") && !strings.Contains(label, " is ") &&
		!strings.Contains(label, " contains ") {
		return false
	}
	cond, list := expr.Parse(expr.NOF, label, source.Span{})
	return !list.Errors() && len(cond.Paths()) > 0
}

// leads reports whether a path of arrows connects two agents.
func leads(arrows []arrow, from, to string) bool {
	reached := []string{from}
	for i := 0; i < len(reached); i++ {
		for _, a := range arrows {
			if a.from != reached[i] {
				continue
			}
			if a.to == to {
				return true
			}
			reached = xslices.AppendNew(reached, a.to)
		}
	}
	return false
}

// needs returns the dependencies in depends_on as arrows.
func (d *document) needs() []arrow {
	if d.pipeline == nil {
		return nil
	}
	var out []arrow
	for _, a := range d.pipeline.adds {
		for _, dep := range a.dependsOn {
			out = append(out, arrow{from: dep.Value, to: a.agent.Value, at: dep.Span})
		}
	}
	return out
}

// depends reports whether one agent depends on another, by the pipeline or the diagram, and
// where.
func (d *document) depends(first, then string) (source.Span, bool) {
	for _, list := range [][]arrow{d.needs(), d.arrows()} {
		if !leads(list, first, then) {
			continue
		}
		for _, a := range list {
			if a.to == then && (a.from == first || leads(list, first, a.from)) {
				return a.at, true
			}
		}
	}
	return source.Span{}, false
}

// drift reports disagreements between the parts of the file.
func (l *lowering) drift() {
	d := l.doc
	l.inertRules()
	l.policy()
	if l.unknownAgents {
		return // unknown agents would cause follow-up diagnostics
	}
	if d.chart != nil && !d.unread {
		l.diagramAgents()
		l.diagramOrder()
		l.drawnCrews()
		l.tiers()
		l.drawnRules()
	}
	if d.pipeline != nil && len(d.pipeline.adds) > 0 {
		l.pipelineAgents()
		l.dependencies()
	}
}

// inertRules warns about rules that the routing mode ignores.
func (l *lowering) inertRules() {
	inert := xslices.Filter(l.doc.rules, func(r *rule) bool { return l.doc.inert(r, l.HonorRules) })
	if len(inert) == 0 {
		return
	}
	what := "The routing rule is"
	if len(inert) > 1 {
		what = fmt.Sprintf("This and %d more routing rules are", len(inert)-1)
	}
	l.out.Warnf(CodeInert, inert[0].at,
		"Set \"routing: dynamic\" in the frontmatter, or run the workflow with --honor-rules.",
		"%s ignored: the routing mode is %s.", what, l.doc.mode()).Relate(l.doc.routing.Span, "the routing mode")
}

// failurePolicy matches the sentence of the specification's examples: "If AGENT fails, abort the pipeline".
var failurePolicy = lazyregexp.New(
	"(?i)if\\s+`?([a-z0-9][a-z0-9_-]*)`?\\s+fails,?\\s+(?:then\\s+)?(?:the\\s+)?(?:pipeline\\s+is\\s+)?abort")

// policy notes a failure policy that only the prose states.
func (l *lowering) policy() {
	s := l.doc.sections[philosophy]
	if s == nil || len(l.active(abortRule)) > 0 {
		return
	}
	prose := l.doc.file.Text[s.at.Start:s.at.End]
	for _, m := range failurePolicy().FindAllStringSubmatchIndex(prose, -1) {
		if key := prose[m[2]:m[3]]; l.doc.lists(key) {
			l.out.Notef(CodePolicy, l.doc.file.Span(s.at.Start+m[0], s.at.Start+m[1]),
				"Add \"- **If** `errors` is non-empty **then** abort pipeline, return partial results\", with "+
					"routing: dynamic.",
				"The prose says that a failure of %q aborts the workflow, but there is no such rule.", key)
			return
		}
	}
}

// diagramAgents compares the agents in the diagram with the list of agents.
func (l *lowering) diagramAgents() {
	d := l.doc
	drawn := d.drawn()
	for _, a := range d.agents {
		if !d.isDrawn(a.Value) {
			l.out.Warnf(CodeDiagram, a.Span,
				fmt.Sprintf("Add a node such as %s[%s] to the diagram.", alias(a.Value), a.Value),
				"The diagram does not contain agent %q.", a.Value).Relate(d.chartAt, "the diagram")
		}
	}
	for _, n := range d.chart.Nodes {
		if key, ok := drawn[n.ID]; ok && !d.lists(key) {
			l.out.Warnf(CodeDiagram, n.Label.Span, "", "The diagram contains %q, which is not one of the agents.", key).
				Relate(d.agentsSpan(), "the agents").Suggest(key, d.keys())
		}
	}
}

// agentsSpan returns the position of the list of agents.
func (d *document) agentsSpan() source.Span {
	if len(d.agents) > 0 {
		return d.agents[0].Span
	}
	return d.name.Span
}

// alias returns a short node ID: the initials of the words of a key.
func alias(key string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(key, "-") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]))
		}
	}
	return b.String()
}

// diagramOrder compares the arrows with the order of the list.
func (l *lowering) diagramOrder() {
	d := l.doc
	arrows := d.arrows()
	for _, a := range arrows {
		from, to := d.position(a.from), d.position(a.to)
		back := slices.ContainsFunc(d.rules, func(r *rule) bool {
			return r.kind == cycleRule &&
				r.target.Value == a.to
		})
		if from < 0 || to < 0 || from < to || a.conditional || back || from == to {
			continue
		}
		l.out.Warnf(CodeOrder, a.at, "Reverse the arrow, or change the order of the agents.",
			"The diagram leads from %q to %q, but %q comes first in the list of agents.", a.from, a.to, a.to).
			Relate(d.agents[to].Span, "the list")
	}
	if d.mode() == hierarchical {
		return
	}
	for i := 1; i < len(l.units); i++ {
		before, after := l.units[i-1], l.units[i]
		linked := slices.ContainsFunc(before.agents, func(a string) bool {
			return slices.ContainsFunc(after.agents, func(b string) bool { return leads(arrows, a, b) })
		})
		both := slices.ContainsFunc(slices.Concat(before.agents, after.agents), func(key string) bool {
			return !d.isDrawn(key)
		})
		together := d.crewOf(before.agents[0]) != nil && d.crewOf(before.agents[0]) == d.crewOf(after.agents[0])
		if !linked && !both && !together {
			l.out.Warnf(CodeOrder, d.agentSpan(after.agents[0]),
				"Add the arrow, put both in a crew, or change the order of the agents.",
				"%q runs after %q, but the diagram has no arrow between them.", after.agents[0],
				before.agents[len(before.agents)-1]).Relate(d.chartAt, "the diagram")
		}
	}
}

// drawnCrews compares crews with subgraphs.
func (l *lowering) drawnCrews() {
	d := l.doc
	drawn := d.drawn()
	used := map[*text.Subgraph]bool{}
	for _, c := range d.crews {
		var match *text.Subgraph
		for _, s := range d.chart.Subgraphs {
			id := strings.ToLower(s.ID + " " + s.Title.Value)
			if strings.Contains(id, strings.ToLower(c.name.Value)) || sameMembers(s, drawn, c) {
				match = s
				break
			}
		}
		if match == nil {
			l.out.Notef(CodeDrawnCrew, c.name.Span,
				fmt.Sprintf("Move its members into \"subgraph %s … end\".", c.name.Value),
				"The diagram does not contain crew %q.", c.name.Value).Relate(d.chartAt, "the diagram")
			continue
		}
		used[match] = true
		if !sameMembers(match, drawn, c) {
			l.out.Warnf(CodeDrawnCrew, match.Span, "Use the members that the frontmatter lists.",
				"Subgraph %q and crew %q have different members.", match.ID, c.name.Value).
				Relate(c.name.Span, "the crew")
		}
	}
	for _, s := range d.chart.Subgraphs {
		if !used[s] {
			l.out.Warnf(CodeDrawnCrew, s.Span, "Add it to \"crews\" in the frontmatter, or remove the subgraph.",
				"Subgraph %q is not a crew, so its agents run sequentially.", s.ID)
		}
	}
}

// sameMembers reports whether a subgraph contains exactly the members of a crew.
func sameMembers(s *text.Subgraph, drawn map[string]string, c crew) bool {
	a := xslices.Map(s.Members, func(id string) string { return drawn[id] })
	b := text.Values(c.members)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// tiers compares the classes of nodes with the tiers of their agents.
func (l *lowering) tiers() {
	d := l.doc
	drawn := d.drawn()
	for _, n := range d.chart.Nodes {
		e := d.known[drawn[n.ID]]
		if e == nil || e.tier == "" {
			continue
		}
		for _, class := range n.Class {
			tier := strings.ToLower(class.Value)
			if _, known := prices[tier]; known && tier != e.tier {
				found := l.out.Warnf(CodeTier, class.Span, fmt.Sprintf("Use \"class %s %s\".", n.ID, e.tier),
					"The diagram shows %q as %s, but its tier is %s.", e.key, tier, e.tier).Relate(n.Span, "the node")
				if d.isAlone(class, n.ID) {
					found.Rewrite(class.Span, class.Value, e.tier)
				}
			}
		}
	}
}

// isAlone reports whether a class is written for one node only, as in "class ID NAME" and "ID:::NAME".
func (d *document) isAlone(class text.Text, id string) bool {
	before := d.file.Text[:class.Span.Start]
	line := strings.Fields(before[strings.LastIndexByte(before, '\n')+1:])
	return strings.HasSuffix(before, ":::") || slices.Equal(line, []string{"class", id})
}

// drawnRules compares conditional arrows with routing rules.
func (l *lowering) drawnRules() {
	d := l.doc
	arrows := d.arrows()
	for _, a := range arrows {
		if !a.conditional || !d.lists(a.from) || !d.lists(a.to) {
			continue
		}
		if !slices.ContainsFunc(d.rules, func(r *rule) bool {
			return r.kind != saveRule && r.kind != abortRule &&
				r.target.Value == a.to
		}) {
			l.out.Warnf(CodeDrawnRule, a.at,
				fmt.Sprintf("Add a rule with \"route to `%s`\", or draw the arrow as -->.", a.to),
				"The diagram has a conditional arrow from %q to %q, but no rule for it.", a.from, a.to)
		}
	}
	if d.mode() != dynamic {
		return
	}
	for _, r := range d.rules {
		if r.kind != skipRule && r.kind != cycleRule || !d.isDrawn(r.target.Value) {
			continue
		}
		ok := slices.ContainsFunc(arrows, func(a arrow) bool {
			if a.to != r.target.Value {
				return false
			}
			if r.kind == cycleRule {
				return d.position(a.from) >= d.position(a.to)
			}
			return d.position(a.from) >= 0 && !text.Contains(r.skips, a.from)
		})
		if !ok {
			l.out.Notef(CodeDrawnRule, r.at, "Add a conditional arrow: -.->|condition|.",
				"The diagram has no arrow for this rule, which routes to %q.", r.target.Value).
				Relate(d.chartAt, "the diagram")
		}
	}
}

// pipelineAgents compares the pipeline with the list of agents.
func (l *lowering) pipelineAgents() {
	d := l.doc
	var order []text.Text
	for _, a := range d.pipeline.adds {
		if !d.lists(a.agent.Value) {
			l.out.Warnf(CodePipeline, a.agent.Span, "", "The pipeline adds %q, which is not one of the agents.",
				a.agent.Value).Relate(d.agentsSpan(), "the agents").Suggest(a.agent.Value, d.keys())
			continue
		}
		order = append(order, a.agent)
	}
	for _, a := range d.agents {
		if !text.Contains(order, a.Value) {
			l.out.Warnf(CodePipeline, a.Span, fmt.Sprintf("Add pipeline.add(%q, …).", a.Value),
				"The pipeline does not add agent %q.", a.Value).Relate(d.pipeline.adds[0].at, "the pipeline")
		}
	}
	for i := 1; i < len(order); i++ {
		if d.position(order[i].Value) < d.position(order[i-1].Value) {
			l.out.Warnf(CodeOrder, order[i].Span, "Use the same order in both places.",
				"The pipeline adds %q after %q, but the list of agents has the reverse order.", order[i].Value,
				order[i-1].Value).Relate(d.agentSpan(order[i].Value), "the list")
		}
	}
}

// dependencies compares depends_on with the arrows of the diagram.
func (l *lowering) dependencies() {
	d := l.doc
	needs, arrows := d.needs(), d.arrows()
	for _, n := range needs {
		if !d.lists(n.from) {
			l.out.Warnf(CodeDepends, n.at, "", "%q depends on %q, which is not one of the agents.", n.to, n.from).
				Suggest(n.from, d.keys())
			continue
		}
		if d.chart != nil && !d.unread && d.lists(n.to) && !leads(arrows, n.from, n.to) {
			l.out.Warnf(CodeDepends, n.at, "Add the arrow, or remove the dependency.",
				"In the pipeline, %q depends on %q, but the diagram has no arrow between them.", n.to, n.from).
				Relate(d.chartAt, "the diagram")
		}
	}
	for _, a := range arrows {
		i := slices.IndexFunc(d.pipeline.adds, func(p addition) bool { return p.agent.Value == a.to })
		if a.conditional || i < 0 || !d.lists(a.from) || !d.lists(a.to) || d.position(a.from) >= d.position(a.to) ||
			leads(needs, a.from, a.to) {
			continue
		}
		l.out.Warnf(CodeDepends, a.at, fmt.Sprintf("Add depends_on=[%q], or remove the arrow.", a.from),
			"The diagram leads from %q to %q, but in the pipeline %q does not depend on it.", a.from, a.to, a.to).
			Relate(d.pipeline.adds[i].agent.Span, "the pipeline")
	}
}
