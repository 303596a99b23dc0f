package text

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Flowchart is a Mermaid flowchart.
type Flowchart struct {
	Direction string // TD, LR, …
	Nodes     []*FlowNode
	Edges     []FlowEdge
	Subgraphs []*Subgraph
	// Classes are the names that classDef defines.
	Classes []Text
}

// FlowNode is a node of a flowchart.
type FlowNode struct {
	ID string
	// Label is the text in the shape, or the ID without a shape.
	Label    Text
	Shape    string // its brackets, such as "[]" or "(())"; "" without a shape
	Span     source.Span
	Subgraph int    // index in Subgraphs, or -1
	Class    []Text // names of its classes
}

// The styles of edges.
const (
	EdgeSolid     = "solid"
	EdgeDotted    = "dotted"
	EdgeThick     = "thick"
	EdgeInvisible = "invisible"
)

// FlowEdge is an edge. From and To are IDs of nodes or subgraphs.
type FlowEdge struct {
	From, To string
	Style    string
	Arrow    bool // has a head
	Both     bool // has a head at both ends
	Label    Text
	Span     source.Span // of the link, without its ends
}

// Subgraph is a group of nodes.
type Subgraph struct {
	ID      string
	Title   Text
	Span    source.Span
	Parent  int // index in Subgraphs, or -1
	Members []string
}

// Node returns the node with an ID, or nil.
func (c *Flowchart) Node(id string) *FlowNode {
	return xslices.Find(c.Nodes, func(n *FlowNode) bool { return n.ID == id })
}

// Subgraph returns the subgraph with an ID, or nil.
func (c *Flowchart) Subgraph(id string) *Subgraph {
	return xslices.Find(c.Subgraphs, func(s *Subgraph) bool { return s.ID == id })
}

// ParseFlowchart parses the Mermaid flowchart at [start, end) of a file. Text that does not parse is an error, so no
// edge is dropped silently.
func ParseFlowchart(f *source.File, start, end int) (*Flowchart, diag.List) {
	p := &flowParser{file: f, chart: &Flowchart{}}
	header := false
	for at := start; at < end; {
		line, next := nextLine(f.Text[:end], at)
		p.pos, p.stop = at, at+len(line)
		at = next
		if p.space(); p.pos == p.stop || p.starts("%%") {
			continue
		}
		if !header {
			header = true
			if p.header() {
				continue
			}
			if p.foreign {
				return p.chart, p.out
			}
		}
		p.statements()
	}
	// An edge may lead to a subgraph that is defined further down.
	p.chart.Nodes = slices.DeleteFunc(p.chart.Nodes,
		func(n *FlowNode) bool { return n.Shape == "" && p.chart.Subgraph(n.ID) != nil })
	for _, s := range p.chart.Subgraphs {
		s.Members = slices.DeleteFunc(s.Members, func(id string) bool { return p.chart.Node(id) == nil })
	}
	for _, i := range p.open {
		s := p.chart.Subgraphs[i]
		p.out.Errorf(CodeFlowBlock, s.Span, "Write a line with end after its last node.",
			"The subgraph %q is never closed.", s.ID)
	}
	return p.chart, p.out
}

// flowParser parses a flowchart line by line. After an error it skips the rest of the line.
type flowParser struct {
	file      *source.File
	chart     *Flowchart
	pos, stop int   // of the line
	open      []int // enclosing subgraphs
	foreign   bool  // another kind of diagram
	out       diag.List
}

// rest returns the rest of the line.
func (p *flowParser) rest() string { return p.file.Text[p.pos:p.stop] }

// starts reports whether the rest of the line begins with a text.
func (p *flowParser) starts(with string) bool { return strings.HasPrefix(p.rest(), with) }

// space skips white space.
func (p *flowParser) space() {
	p.pos = p.stop - len(strings.TrimLeft(p.rest(), " \t\r"))
}

// take consumes a word.
func (p *flowParser) take(word string) Text {
	start := p.pos
	p.pos += len(word)
	return Text{Value: word, Span: p.file.Span(start, p.pos)}
}

// label returns the text at an offset without the space around it and its quotes.
func (p *flowParser) label(at int, written string) Text {
	text := strings.TrimSpace(written)
	from := at + strings.Index(written, text)
	return Text{Value: strings.Trim(text, `"`), Span: p.file.Span(from, from+len(text))}
}

// word returns the letters at the current position.
func (p *flowParser) word() string {
	rest := p.rest()
	for i, r := range rest {
		if r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return rest[:i]
		}
	}
	return rest
}

// directions are the directions of flowcharts.
var directions = []string{"TB", "TD", "BT", "RL", "LR"}

// otherDiagrams are the other diagram types of Mermaid.
var otherDiagrams = []string{
	"sequenceDiagram", "classDiagram", "stateDiagram", "stateDiagram-v2", "erDiagram", "journey", "gantt", "pie",
	"mindmap", "timeline", "gitGraph",
	"quadrantChart", "requirementDiagram", "block-beta", "sankey-beta", "xychart-beta", "architecture-beta", "kanban",
}

// header parses "graph TD". It returns false for any other line.
func (p *flowParser) header() bool {
	start := p.pos
	word := p.word()
	if slices.Contains(otherDiagrams, word) {
		p.foreign = true
		p.out.Errorf(CodeFlowHeader, p.file.Span(start, start+len(word)),
			"Draw the topology as a flowchart: begin with graph TD.", "This is a %s, not a flowchart.", word)
		return false
	}
	if word != "graph" && word != "flowchart" && word != "flowchart-elk" {
		found := p.out.Errorf(CodeFlowHeader, p.file.Span(start, p.stop),
			"Write graph TD on a line of its own before this one.",
			"The diagram does not begin with graph or flowchart.")
		line := strings.LastIndexByte(p.file.Text[:start], '\n') + 1
		indent := p.file.Text[line:start]
		isFlow := strings.Contains(p.rest(), "-->") || strings.Contains(p.rest(), "[") || word == "subgraph"
		if isFlow && strings.TrimSpace(indent) == "" {
			found.Change("Write \"graph TD\" before it", "graph TD\n"+indent, p.file.Span(start, start))
		}
		return false
	}
	p.pos += len(word)
	p.space()
	if dir := p.word(); slices.Contains(directions, dir) {
		p.chart.Direction = dir
		p.pos += len(dir)
	}
	p.space()
	if p.starts(";") {
		p.pos++
		p.statements()
		return true
	}
	if p.pos < p.stop && !p.starts("%%") {
		p.out.Errorf(CodeFlowSyntax, p.file.Span(p.pos, p.stop), "Begin a new line after graph TD.",
			"Unexpected %q after the direction.", p.rest())
	}
	return true
}

// statements parses a line.
func (p *flowParser) statements() {
	for {
		if p.space(); p.pos >= p.stop || p.starts("%%") {
			return
		}
		if p.starts(";") {
			p.pos++
			continue
		}
		if !p.statement() {
			return
		}
	}
}

// statement parses one statement. It returns false at the end of the line.
func (p *flowParser) statement() bool {
	start := p.pos
	switch word := p.word(); word {
	case "subgraph":
		p.pos += len(word)
		p.subgraph(start)
		return false
	case "end":
		if after := strings.TrimLeft(p.rest()[len(word):], " \t\r"); after == "" || after[0] == ';' ||
			strings.HasPrefix(after, "%%") {
			p.pos += len(word)
			if len(p.open) == 0 {
				p.out.Errorf(CodeFlowBlock, p.file.Span(start, p.pos), "Remove it, or write subgraph NAME above.",
					"This end closes no subgraph.")
				return true
			}
			p.open = p.open[:len(p.open)-1]
			return true
		}
	case "direction":
		return false
	case "style", "linkStyle", "click", "accTitle", "accDescr":
		if after := p.rest()[len(word):]; after != "" && (after[0] == ' ' || after[0] == ':' || after[0] == '\t') {
			return false // styles are ignored
		}
	case "classDef":
		p.pos += len(word)
		p.space()
		p.chart.Classes = append(p.chart.Classes, p.names()...)
		return false
	case "class":
		if after := p.rest()[len(word):]; after != "" && after[0] == ' ' {
			p.pos += len(word)
			p.class(start)
			return false
		}
	}
	return p.chain()
}

// names parses words separated by commas.
func (p *flowParser) names() []Text {
	var out []Text
	for {
		p.space()
		word := p.word()
		if word == "" {
			return out
		}
		out = append(out, p.take(word))
		p.space()
		if !p.starts(",") {
			return out
		}
		p.pos++
	}
}

// class parses a class statement.
func (p *flowParser) class(start int) {
	nodes := p.names()
	p.space()
	name := p.word()
	if len(nodes) == 0 || name == "" {
		p.out.Errorf(CodeFlowSyntax, p.file.Span(start, p.stop), "Write class NODE,NODE NAME.",
			"This line does not say which nodes get which class.")
		return
	}
	class := p.take(name)
	for _, id := range nodes {
		n := p.chart.Node(id.Value)
		if n == nil {
			p.out.Errorf(CodeFlowSyntax, id.Span, "", "There is no node %q.", id.Value).Suggest(id.Value, p.ids())
			continue
		}
		n.Class = append(n.Class, class)
	}
}

// ids returns the IDs of all nodes so far.
func (p *flowParser) ids() []string {
	return xslices.Map(p.chart.Nodes, func(n *FlowNode) string { return n.ID })
}

// subgraph parses the first line of a subgraph, which stays open until its end.
func (p *flowParser) subgraph(start int) {
	p.space()
	s := &Subgraph{Parent: -1}
	if n := len(p.open); n > 0 {
		s.Parent = p.open[n-1]
	}
	at := p.pos
	id := p.id()
	s.Span = p.take(id).Span
	p.space()
	if id != "" && p.starts("[") {
		s.ID = id
		if label, _, ok := p.shape(); ok {
			s.Title = label
		}
	} else { // a title without brackets is also the ID
		line, _, _ := strings.Cut(p.file.Text[at:p.stop], "%%")
		title := strings.TrimSpace(line)
		s.Span = p.file.Span(at, at+len(title))
		title = strings.Trim(title, `"`)
		s.ID, s.Title = title, Text{Value: title, Span: s.Span}
	}
	if s.ID == "" {
		s.ID = fmt.Sprintf("subgraph %d", len(p.chart.Subgraphs)+1)
		s.Span = p.file.Span(start, p.stop)
	}
	if s.Title.IsZero() {
		s.Title = Text{Value: s.ID, Span: s.Span}
	}
	p.open = append(p.open, len(p.chart.Subgraphs))
	p.chart.Subgraphs = append(p.chart.Subgraphs, s)
}

// chain parses nodes connected by edges.
func (p *flowParser) chain() bool {
	from, ok := p.group()
	if !ok {
		return p.syntaxError()
	}
	for {
		p.space()
		if p.pos >= p.stop || p.starts(";") || p.starts("%%") {
			return true
		}
		link, ok := p.link()
		if !ok {
			return p.syntaxError()
		}
		p.space()
		to, ok := p.group()
		if !ok {
			if p.pos >= p.stop {
				p.out.Errorf(CodeFlowSyntax, link.Span, "Write the node that it leads to.", "This arrow leads nowhere.")
				return false
			}
			return p.syntaxError()
		}
		for _, a := range from {
			for _, b := range to {
				edge := link
				edge.From, edge.To = a, b
				p.chart.Edges = append(p.chart.Edges, edge)
			}
		}
		from = to
	}
}

// syntaxError reports the rest of the line, which does not parse, and skips it. It returns false.
func (p *flowParser) syntaxError() bool {
	rest := strings.TrimRight(p.rest(), " \t\r")
	p.out.Errorf(CodeFlowSyntax, p.file.Span(p.pos, p.pos+max(len(rest), 1)),
		"Write nodes as ID[label] and arrows as -->, -.-> or ==>, with labels as -->|text|.",
		"%q is not valid in a flowchart.", clip(rest))
	p.pos = p.stop
	return false
}

// clip shortens a text for a message.
func clip(s string) string {
	if len(s) > 40 {
		cut := 40
		for cut > 40-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		return s[:cut] + "…"
	}
	return s
}

// group parses nodes separated by &.
func (p *flowParser) group() ([]string, bool) {
	var out []string
	for {
		id, ok := p.node()
		if !ok {
			return out, false
		}
		out = append(out, id)
		save := p.pos
		p.space()
		if !p.starts("&") {
			p.pos = save
			return out, true
		}
		p.pos++
		p.space()
	}
}

// id parses the ID of a node: letters, digits, _, and inner - or .
func (p *flowParser) id() string {
	rest := p.rest()
	i := 0
	for i < len(rest) {
		r, size := utf8.DecodeRuneInString(rest[i:])
		if r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			i += size
			continue
		}
		if (r == '-' || r == '.') && i > 0 {
			next, _ := utf8.DecodeRuneInString(rest[i+1:])
			if next == '_' || unicode.IsLetter(next) || unicode.IsDigit(next) {
				i += size
				continue
			}
		}
		break
	}
	return rest[:i]
}

// node parses a node with its label and class, and adds it when its ID occurs first. It belongs to the subgraph in
// which that is.
func (p *flowParser) node() (string, bool) {
	id := p.id()
	if id == "" {
		return "", false
	}
	span := p.take(id).Span
	n := p.chart.Node(id)
	if n == nil && p.chart.Subgraph(id) == nil {
		n = &FlowNode{ID: id, Label: Text{Value: id, Span: span}, Span: span, Subgraph: -1}
		p.chart.Nodes = append(p.chart.Nodes, n)
	}
	if n != nil && n.Subgraph < 0 && len(p.open) > 0 {
		n.Subgraph = p.open[len(p.open)-1]
		s := p.chart.Subgraphs[n.Subgraph]
		s.Members = append(s.Members, id)
	}
	if label, shape, ok := p.shape(); ok {
		if n == nil {
			return id, true
		}
		if n.Shape == "" {
			n.Label, n.Shape = label, shape
			n.Span = span
		} else if n.Label.Value != label.Value {
			p.out.Warnf(CodeFlowLabel, label.Span, "Write its label once, or give this node a name of its own.",
				"The node %q has another label here.", id).Relate(n.Label.Span, "the first label")
		}
	}
	if p.starts(":::") {
		p.pos += 3
		name := p.word()
		if class := p.take(name); n != nil && name != "" {
			n.Class = append(n.Class, class)
		}
	}
	return id, true
}

// shapes are the brackets around labels, in order of decreasing length.
var shapes = [][2]string{
	{"(((", ")))"},
	{"((", "))"},
	{"([", "])"},
	{"[[", "]]"},
	{"[(", ")]"},
	{"[/", "/]"},
	{"[\\", "\\]"},
	{"[/", "\\]"},
	{"[\\", "/]"},
	{"{{", "}}"},
	{"[", "]"},
	{"(", ")"},
	{"{", "}"},
	{">", "]"},
}

// shape parses a label in brackets.
func (p *flowParser) shape() (Text, string, bool) {
	rest := p.rest()
	for _, s := range shapes {
		if !strings.HasPrefix(rest, s[0]) {
			continue
		}
		inner := rest[len(s[0]):]
		begin := p.pos + len(s[0])
		length := -1
		if trimmed := strings.TrimLeft(inner, " "); strings.HasPrefix(trimmed, `"`) {
			skip := len(inner) - len(trimmed)
			if q := strings.IndexByte(trimmed[1:], '"'); q >= 0 {
				after := trimmed[q+2:]
				if strings.HasPrefix(strings.TrimLeft(after, " "), s[1]) {
					p.pos = begin + skip + q + 2 + (len(after) - len(strings.TrimLeft(after, " "))) + len(s[1])
					return Text{Value: trimmed[1 : q+1], Span: p.file.Span(begin+skip+1, begin+skip+q+1)}, s[0] + s[1],
						true
				}
			}
		} else {
			length = strings.Index(inner, s[1])
		}
		if length < 0 || strings.ContainsAny(inner[:length], "[](){}") && len(s[0]) == 1 {
			continue
		}
		p.pos = begin + length + len(s[1])
		text := strings.TrimSpace(inner[:length])
		at := begin + strings.Index(inner[:length], text)
		return Text{Value: text, Span: p.file.Span(at, at+len(text))}, s[0] + s[1], true
	}
	return Text{}, "", false
}

// Patterns of links: whole ones, and the two halves around a label.
var (
	wholeLink = lazyregexp.New(`^(<)?(-{2,}>|-{3,}[ox]?|-{2,}[ox]|-\.+->|-\.+-[ox]?|={2,}>|={3,}[ox]?|={2,}[ox]|~{3,})`)
	openLink  = lazyregexp.New(`^(<)?(--|-\.|==)`)
	closings  = map[string]func() *regexp.Regexp{
		"--": lazyregexp.New(`-{2,}>|-{3,}|--[ox]`), "-.": lazyregexp.New(`\.+->|\.+-[ox]?`),
		"==": lazyregexp.New(`={2,}>|={3,}|==[ox]`),
	}
)

// styleOf returns the style of a link.
func styleOf(link string) string {
	switch {
	case strings.HasPrefix(link, "~"):
		return EdgeInvisible
	case strings.HasPrefix(link, "="):
		return EdgeThick
	case strings.Contains(link, "."):
		return EdgeDotted
	}
	return EdgeSolid
}

// link parses an edge with its label.
func (p *flowParser) link() (FlowEdge, bool) {
	start := p.pos
	var e FlowEdge
	if m := wholeLink().FindStringSubmatch(p.rest()); m != nil && !p.isLabeled(m[2]) {
		e.Style, e.Arrow, e.Both = styleOf(m[2]), strings.HasSuffix(m[2], ">"), m[1] != ""
		p.pos += len(m[0])
	} else if m := openLink().FindStringSubmatch(p.rest()); m != nil {
		inner := p.rest()[len(m[0]):]
		at := closings[m[2]]().FindStringIndex(inner)
		if at == nil {
			return e, false
		}
		e.Label = p.label(p.pos+len(m[0]), inner[:at[0]])
		e.Style, e.Arrow, e.Both = styleOf(m[2]), strings.HasSuffix(inner[at[0]:at[1]], ">"), m[1] != ""
		p.pos += len(m[0]) + at[1]
	} else {
		return e, false
	}
	e.Span = p.file.Span(start, p.pos)
	save := p.pos
	p.space()
	if p.starts("|") {
		end := strings.IndexByte(p.rest()[1:], '|')
		if end < 0 {
			return e, false
		}
		e.Label = p.label(p.pos+1, p.rest()[1:end+1])
		p.pos += end + 2
		e.Span = p.file.Span(start, p.pos)
		return e, true
	}
	p.pos = save
	return e, true
}

// isLabeled reports whether the match of a whole link is the first half of a link around a label: --open--> is, --o B
// is not.
func (p *flowParser) isLabeled(link string) bool {
	last := link[len(link)-1]
	if last != 'o' && last != 'x' {
		return false
	}
	after := p.rest()[len(link):]
	return after != "" && after[0] != ' ' && after[0] != '|' && after[0] != '\t'
}
