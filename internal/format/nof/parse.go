package nof

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/python"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// document is the syntax tree of a file: the frontmatter, the sections, and what their code and diagram contain.
type document struct {
	file *source.File
	md   *text.Document

	name, description, stateSchema, routing, estimate, version text.Text
	agents                                                     []text.Text
	crews                                                      []crew
	meta                                                       *text.Node
	title                                                      text.Text // from "# Workflow: …"

	sections map[string]*section
	chart    *text.Flowchart
	chartAt  source.Span
	fence    text.Region // of the diagram
	state    *stateSchema
	schema   *python.Module // the State Schema block
	helpers  *python.Module // the Agent Nodes block
	nodes    []*node
	runners  []string // the names of AgentRunner
	pipeline *pipeline
	rules    []*rule

	known map[string]*entry
	// unread is set if a part could not be read, so that missing definitions may be in it.
	unread bool
	// broken is set if code has syntax errors.
	broken bool
}

// crew is a group of agents that may run in parallel.
type crew struct {
	name    text.Text
	members []text.Text
}

// section is a part of the file below a second-level heading.
type section struct {
	heading text.Heading
	at      text.Region // the content below the heading
	fences  []*text.Fence
}

// The section headings. The first four are required.
const (
	philosophy   = "Philosophy"
	topology     = "Topology"
	agentNodes   = "Agent Nodes"
	executionOf  = "Execution"
	stateSection = "State Schema"
	ruleSection  = "Routing Rules"
)

// required are the sections that a file must have.
var required = []string{philosophy, topology, agentNodes, executionOf}

// The routing modes.
const (
	sequential   = "sequential"
	hierarchical = "hierarchical"
	dynamic      = "dynamic"
)

// codes are the codes of problems with keys. An unknown key is a warning.
var codes = text.Codes{
	WrongType: CodeWrongType, Missing: CodeMissing, Unknown: CodeUnknownKey, BadValue: CodeBadValue,
	UnknownAs: diag.Warning,
}

// parse parses a file. It returns nil if the file is unusable.
func parse(f *source.File, out *diag.List) *document {
	d := &document{file: f, md: text.ParseMarkdown(f), sections: map[string]*section{}}
	*out = append(*out, d.md.Problems("python", "mermaid")...)
	if !d.md.HasFrontmatter {
		line, _, _ := strings.Cut(f.Text, "\n")
		out.Errorf(CodeVersion, f.Span(0, len(line)),
			"Start the file with a line of ---, the keys format, name, description and agents, and another line of "+
				"---.", "The file has no frontmatter.")
		return nil
	}
	if !d.frontmatter(out) {
		return nil
	}
	d.fileName(out)
	d.split(out)
	d.headings(out)
	d.blocks(out)
	return d
}

// versionForm matches the format and version in the frontmatter.
var versionForm = lazyregexp.New(`^nof/([0-9]+)\.([0-9]+)$`)

// frontmatter parses section 4. It returns false if the version is not supported.
func (d *document) frontmatter(out *diag.List) bool {
	node, list := text.ParseYAML(d.file, d.md.Frontmatter.Start, d.md.Frontmatter.End)
	*out = append(*out, list...)
	d.unread = list.Errors()
	d.meta = node
	r := frontmatterShape.Read(node, "frontmatter", codes, out)
	format := r.String("format")
	m := versionForm().FindStringSubmatch(format.Value)
	later := false
	switch {
	case format.IsZero():
	case m == nil || m[1] != "1":
		out.Errorf(CodeVersion, format.Span, "Use format: nof/1.0.", "Format %q is not supported.", format.Value).
			WriteValue(format.Span, "nof/1.0")
		return false
	case m[2] != "0":
		later = true
		out.Warnf(CodeMinor, format.Span, "Use format: nof/1.0 unless you need a newer feature.",
			"%q is newer than nof/1.0. New keys and sections are ignored.", format.Value).
			WriteValue(format.Span, "nof/1.0")
	}
	d.name, d.description, d.version = r.String("name"), r.String("description"), r.String("version")
	d.agents = r.Strings("agents")
	d.stateSchema = r.String("state_schema")
	d.routing = r.Choice("routing")
	d.estimate = d.money(r, out)
	r.String("created")
	r.Strings("tags")
	d.crewList(r.Map("crews"), out)
	r.RequireDeclared()
	if !later {
		r.Done()
	}
	if n := r.Node("agents"); n != nil && n.Kind == text.List && len(n.Items) == 0 {
		out.Errorf(CodeMissing, r.KeySpan("agents"), "List at least one agent, such as - cost-advisor.",
			"The workflow has no agents.")
	}
	return true
}

// money parses the cost estimate, with or without a dollar sign.
func (d *document) money(r *text.Reader, out *diag.List) text.Text {
	n := r.Node("cost_estimate")
	if n == nil {
		return text.Text{}
	}
	if n.Kind != text.Int && n.Kind != text.Float && n.Kind != text.String {
		return r.String("cost_estimate")
	}
	t := n.Text()
	if _, ok := microDollars(t.Value); !ok {
		out.Errorf(CodeBadValue, t.Span, `Use an amount such as "$0.00625".`, "%q is not an amount in dollars.",
			t.Value)
		return text.Text{}
	}
	return t
}

// microDollars parses an amount such as "$0.00625" exactly.
func microDollars(s string) (int64, bool) {
	s = strings.TrimSpace(strings.ReplaceAll(s, ",", ""))
	s = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(s, "$"), "USD"))
	whole, part, _ := strings.Cut(s, ".")
	if whole == "" && part == "" {
		return 0, false
	}
	if len(part) > 6 {
		if strings.Trim(part[6:], "0") != "" {
			f, err := strconv.ParseFloat(s, 64)
			return int64(f*1e6 + 0.5), err == nil
		}
		part = part[:6]
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", 6-len(part)), 10, 64)
	return n, err == nil && n >= 0
}

// crewList parses the crews.
func (d *document) crewList(n *text.Node, out *diag.List) {
	if n == nil {
		return
	}
	for _, p := range n.Pairs {
		r := text.Read(n, "list of crews", codes, out)
		c := crew{name: p.Key.Text(), members: r.Strings(p.Key.Value)}
		if len(c.members) == 0 {
			if p.Value.Kind == text.List || p.Value.Kind == text.Null {
				out.Warnf(CodeCrew, p.Key.Span, "List the agents that run in parallel, or remove the crew.",
					"Crew %q has no members.", c.name.Value)
			}
			continue
		}
		d.crews = append(d.crews, c)
	}
}

// fileName warns about a file with another extension.
func (d *document) fileName(out *diag.List) {
	if strings.HasSuffix(strings.ToLower(d.file.Path), ".nof.md") {
		return
	}
	base := path.Base(d.file.Path)
	stem, _, _ := strings.Cut(base, ".")
	out.Warnf(CodeFileName,
		d.file.Span(d.md.Frontmatter.Start,
			d.md.Frontmatter.Start+strings.IndexByte(d.file.Text[d.md.Frontmatter.Start:]+"\n", '\n')),
		fmt.Sprintf("Rename it to %s.nof.md.", stem), "The file name %q does not end in .nof.md.", base)
}

// split finds the sections.
func (d *document) split(out *diag.List) {
	names := append(slices.Clone(required), stateSection, ruleSection)
	for i, h := range d.md.Headings {
		if h.Level != 2 {
			continue
		}
		s := &section{heading: h, at: text.Region{Start: h.Span.End, End: d.md.Body.End}}
		for _, next := range d.md.Headings[i+1:] {
			if next.Level <= 2 {
				s.at.End = next.Span.Start
				break
			}
		}
		for j := range d.md.Fences {
			if f := &d.md.Fences[j]; f.Span.Start >= s.at.Start && f.Span.Start < s.at.End && !f.Quoted {
				s.fences = append(s.fences, f)
			}
		}
		k := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, strings.TrimSpace(h.Text)) })
		if k < 0 {
			near := diag.Nearest(h.Text, names)
			present := slices.ContainsFunc(d.md.Headings, func(o text.Heading) bool {
				return o.Level == 2 && strings.EqualFold(o.Text, near)
			})
			if near != "" && !present {
				out.Warnf(CodeSection, h.Span, fmt.Sprintf("Did you mean %q?", near), "Section %q is not recognized.",
					h.Text)
			}
			continue
		}
		if first := d.sections[names[k]]; first != nil {
			out.Errorf(CodeSection, h.Span, "Merge the two.", "Duplicate section %q.", names[k]).
				Relate(first.heading.Span, "the first one")
			continue
		}
		d.sections[names[k]] = s
	}
}

// isTitle reports whether a name has no characters with a meaning in Markdown.
func isTitle(name string) bool {
	return name != "" && strings.TrimSpace(name) == name && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" -.,()", r)
	})
}

// addTitle adds a fix that writes the title below the frontmatter.
func (d *document) addTitle(found *diag.Diagnostic) {
	at := d.md.Body.Start
	if !d.md.HasFrontmatter || !d.md.FrontmatterClosed || !isTitle(d.name.Value) ||
		at == 0 || d.file.Text[at-1] != '\n' {
		return
	}
	lineEnd := "\n"
	if strings.HasSuffix(d.file.Text[:at], "\r\n") {
		lineEnd = "\r\n"
	}
	title := "# Workflow: " + d.name.Value
	written := lineEnd + title + lineEnd
	if !strings.HasPrefix(d.file.Text[at:], lineEnd) {
		written += lineEnd
	}
	found.Change(fmt.Sprintf("Add %q", title), written, d.file.Span(at, at))
}

// headings checks the title and the required and recommended sections. Other sections may occur
// anywhere, in any order.
func (d *document) headings(out *diag.List) {
	place := d.file.Span(d.md.Body.Start, d.md.Body.Start)
	if len(d.md.Headings) > 0 {
		place = d.md.Headings[0].Span
	} else if d.md.HasFrontmatter {
		place = d.file.Span(0, 3)
	}
	const form = "# Workflow: NAME"
	if len(d.md.Headings) == 0 || d.md.Headings[0].Level != 1 ||
		!strings.HasPrefix(strings.ToLower(d.md.Headings[0].Text), "workflow:") {
		found := out.Errorf(CodeSection, place,
			fmt.Sprintf("Add \"# Workflow: %s\" after the frontmatter.", d.name.Value),
			"The first heading is not %q.", form)
		d.addTitle(found)
	} else {
		h := d.md.Headings[0]
		_, name, _ := strings.Cut(h.Text, ":")
		name = strings.TrimSpace(name)
		at := h.Span.Start + max(strings.LastIndex(d.file.Text[h.Span.Start:h.Span.End], name), 0)
		d.title = text.Text{Value: name, Span: d.file.Span(at, at+len(name))}
		if name == "" {
			d.title.Span = h.Span
		}
		if !d.name.IsZero() && name != d.name.Value {
			found := out.Warnf(CodeName, d.title.Span, "Use the same name in both places.",
				"The heading names the workflow %q, but the frontmatter %q.", name, d.name.Value).
				Relate(d.name.Span, "the name in the frontmatter")
			if name != "" && isTitle(d.name.Value) {
				found.Rewrite(d.title.Span, name, d.name.Value)
			}
		}
	}
	for _, name := range required {
		if d.sections[name] == nil {
			out.Errorf(CodeSection, place, fmt.Sprintf("Add \"## %s\" with %s.", name, purposes[name]),
				"Section %q is missing.", name)
		}
	}
	if len(d.agents) > 2 {
		for _, name := range []string{stateSection, ruleSection} {
			if d.sections[name] == nil {
				out.Notef(CodeRecommended, place, fmt.Sprintf("Add \"## %s\" with %s.", name, purposes[name]),
					"Section %[2]q is recommended for a workflow of %[1]d agents.", len(d.agents), name)
			}
		}
	}
}

// purposes are what each section should contain, for messages.
var purposes = map[string]string{
	philosophy: "the purpose of the workflow", topology: "a mermaid block with the diagram",
	agentNodes:  "a python block with a function for each agent",
	executionOf: "a python block with the pipeline", stateSection: "a python block with a TypedDict",
	ruleSection: "a list of rules",
}

// blocks parses the code and the diagram in the sections.
func (d *document) blocks(out *diag.List) {
	if f := d.block(topology, "mermaid", out); f != nil {
		chart, list := text.ParseFlowchart(d.file, f.Content.Start, f.Content.End)
		*out = append(*out, list...)
		d.chart, d.chartAt, d.fence = chart, f.InfoSpan, f.Content
		d.unread = d.unread || list.Errors()
	}
	if f := d.block(stateSection, "python", out); f != nil {
		d.schema = d.code(f, out)
		d.readState(d.schema, out)
	}
	if f := d.block(agentNodes, "python", out); f != nil {
		d.helpers = d.code(f, out)
		d.runners = runnerNames(d.helpers)
		d.readNodes(out)
	}
	if f := d.block(executionOf, "python", out); f != nil {
		d.pipeline = d.readPipeline(d.code(f, out))
		d.runners = append(d.runners, runnerNames(d.pipeline.module)...)
	}
	d.analyze(out)
	d.readRules(out)
}

// analyze finds mistakes in the code. Code with syntax errors is incomplete and would have too many.
func (d *document) analyze(out *diag.List) {
	if d.broken || d.helpers == nil {
		return
	}
	nodes := python.Nodes{Functions: xslices.Map(d.nodes, func(n *node) string { return n.function })}
	if d.state != nil && !d.state.open {
		nodes.Fields = map[string]python.Type{}
		for _, f := range d.state.fields {
			t := f.kind.python()
			t.Grows = f.reducer == reduceAppend || f.reducer == reduceMerge
			nodes.Fields[f.name] = *t
		}
	}
	keep := func(list diag.List, m *python.Module) {
		for _, one := range list {
			if at := one.Span.Start; at >= m.Base && at <= m.Base+len(m.Code) {
				out.Add(one)
			}
		}
	}
	modules := d.program(d.helpers)
	list := python.Analyze(modules, nodes)
	for _, m := range modules {
		keep(list, m)
	}
	if d.pipeline != nil {
		keep(python.Analyze(d.program(d.helpers, d.pipeline.module), nodes), d.pipeline.module)
	}
}

// program returns the blocks that run as one program. The State Schema block is one of them only if
// the others use what it defines: annotations are not evaluated, so that it need not be complete.
func (d *document) program(blocks ...*python.Module) []*python.Module {
	out := xslices.Filter(blocks, func(m *python.Module) bool { return m != nil })
	if d.schema != nil && python.Uses(out, d.schema) {
		out = append([]*python.Module{d.schema}, out...)
	}
	return out
}

// code parses a block of Python.
func (d *document) code(f *text.Fence, out *diag.List) *python.Module {
	m, list := python.Parse(d.file, f.Content.Start, f.Content.End)
	*out = append(*out, list...)
	d.unread = d.unread || list.Errors()
	d.broken = d.broken || list.Errors()
	return m
}

// block returns the only block of a section with the given label.
func (d *document) block(name, label string, out *diag.List) *text.Fence {
	s := d.sections[name]
	if s == nil {
		return nil
	}
	var found *text.Fence
	for _, f := range s.fences {
		if !strings.EqualFold(f.Info, label) && !(label == "python" && strings.EqualFold(f.Info, "py")) {
			continue
		}
		if found != nil {
			out.Errorf(CodeBlock, f.InfoSpan, "Merge the two.", "Section %q has a second %s block.", name, label).
				Relate(found.InfoSpan, "the first one")
			return found
		}
		found = f
	}
	if found == nil {
		d.unread = true
		span := s.heading.Span
		help := fmt.Sprintf("Add %s, labeled ```%s.", purposes[name], label)
		for _, f := range s.fences {
			span, help = d.file.Span(f.Span.Start, f.Content.Start-1), fmt.Sprintf("Label the block ```%s.", label)
		}
		out.Errorf(CodeBlock, span, help, "Section %q has no %s block.", name, label)
	}
	return found
}

// agentSpan returns the position of an agent in the frontmatter.
func (d *document) agentSpan(key string) source.Span {
	if i := d.position(key); i >= 0 {
		return d.agents[i].Span
	}
	return d.name.Span
}

// lists reports whether the frontmatter lists an agent.
func (d *document) lists(key string) bool { return d.position(key) >= 0 }

// position returns the index of an agent in the list, or -1.
func (d *document) position(key string) int {
	return slices.IndexFunc(d.agents, func(a text.Text) bool { return a.Value == key })
}

// keys returns the keys of the agents, in the order of the list.
func (d *document) keys() []string { return text.Values(d.agents) }

// mode returns the routing mode.
func (d *document) mode() string {
	return cmp.Or(d.routing.Value, sequential)
}

// span returns the source position of a range in a module.
func (d *document) span(m *python.Module, at python.Range) source.Span {
	return d.file.Span(m.Base+at.Start, m.Base+at.End)
}
