package agentflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// document is the syntax tree of a file.
type document struct {
	file *source.File
	md   *text.Document
	// front is the frontmatter's map; nil when there is none or it is hopeless.
	front *text.Node
	// workflow says that the kind is Agent Flow's; otherwise this is a skill
	// and nothing below is filled.
	workflow bool
	head     *values // the frontmatter by its shape

	steps, agents, bundles, overrides []*values
	runtime, observability            *values // nil without such a block
	// unread is what could not be read.
	unread   ir.Unread
	purpose  text.Text
	baseText text.Text // what stands under "Base Skill"
}

// The headings that mean something, and the blocks that usually stand below.
var sections = map[string]string{
	"purpose": "", "agents": "agent", "steps": "step", "bundles": "bundle", "runtime": "runtime",
	"observability": "observability", "base skill": "",
}

// parse reads a file; nil when nothing can be made of it.
func parse(f *source.File, out *diag.List) *document {
	d := &document{file: f, md: text.ParseMarkdown(f)}
	if d.md.HasFrontmatter {
		d.readFrontmatter(out)
	}
	if !d.workflow {
		*out = append(*out, d.md.Problems()...)
		if d.md.HasFrontmatter && d.front == nil {
			return nil
		}
		if at, ok := d.unopened(); ok {
			out.Add(diag.Diagnostic{
				Code: CodeNoKind, Severity: diag.Error, Span: at,
				Message: "The line of --- that opens the frontmatter is missing, so this file is no workflow.",
				Help:    "Write --- and nothing else on the first line of the file.",
			})
			return nil
		}
		d.noteBlocks(out)
		return d
	}
	d.md.Mend(blockNames, guessBlock)
	*out = append(*out, d.md.Problems(blockNames...)...)
	d.readBlocks(out)
	d.purpose = d.section("purpose")
	d.baseText = d.section("base skill")
	return d
}

// readFrontmatter decides whether the file is a workflow, and how strictly
// its frontmatter is to be read: exactly in a workflow, leniently in a skill.
func (d *document) readFrontmatter(out *diag.List) {
	node, repairs, list := text.ParseYAMLLenient(d.file, d.md.Frontmatter.Start, d.md.Frontmatter.End)
	kindText := ""
	if node == nil || node.Kind != text.Map {
		for key, value := range frontmatterLines(d.file.Text) {
			if key == "kind" {
				kindText = value
			}
		}
	} else if k := node.Get("kind"); k != nil {
		kindText = k.Value
	} else if i := slices.IndexFunc(node.Pairs, func(p text.Pair) bool { return p.Value.Value == workflowKind }); i >= 0 {
		kindText = workflowKind // under a key that is misspelt
	}
	d.workflow = kindText == workflowKind || strings.HasPrefix(kindText, "agent-flow/") || diag.Nearest(kindText, []string{workflowKind}) != ""
	for _, r := range repairs {
		problem := r.Problem
		if !d.workflow {
			problem.Code, problem.Severity, problem.Lenient = CodeRepaired, diag.Note, true
			problem.Message = fmt.Sprintf("The value of %q is not YAML as it stands; it was read as if it were in quotes.", r.Key)
			problem.Help = "Put the value in double quotes."
			problem.Span = r.Value.Span
		}
		out.Add(problem)
	}
	if !d.workflow && node != nil {
		// It could be read all the same, so the skill loads.
		for i := range list {
			if list[i].Severity == diag.Error {
				list[i].Severity, list[i].Lenient = diag.Note, true
			}
		}
	}
	*out = append(*out, list...)
	d.unread = ir.Unread{Header: true, Texts: []string{d.file.Text[d.md.Frontmatter.Start:d.md.Frontmatter.End]}} // unless it proves usable
	if node == nil {
		return
	}
	if node.Kind == text.Null {
		node = &text.Node{Kind: text.Map, Span: node.Span}
	}
	if node.Kind != text.Map {
		out.Add(diag.Diagnostic{
			Code: CodeWrongType, Severity: diag.Error, Span: node.Span,
			Message: fmt.Sprintf("The frontmatter must be a map, but this is %s.", node.Kind),
			Help:    `Write lines of "key: value" between the two --- lines.`,
		})
		return
	}
	d.front, d.unread = node, ir.Unread{}
	if d.workflow {
		b := binder{out: out, broken: errorsIn(list)}
		for _, r := range repairs {
			b.broken = append(b.broken, r.Problem.Span)
		}
		d.head = b.bind(node, frontmatterShape, frontmatterShape.what, nil)
		d.unread.Header = len(repairs) > 0 || list.Errors() || len(b.unread) > 0
		d.keep(&b)
	}
}

// noteBlocks says that a skill's blocks are not read (F32, F33).
func (d *document) noteBlocks(out *diag.List) {
	for _, fence := range d.md.Fences {
		if slices.Contains(blockNames, fence.Info) {
			out.Add(diag.Diagnostic{
				Code: CodeNoKind, Severity: diag.Warning, Span: fence.InfoSpan,
				Message: fmt.Sprintf("This %s block is not read, because the file is a plain skill.", fence.Info),
				Help:    fmt.Sprintf("Add \"kind: %s\" to the frontmatter to make it a workflow, or label the block yaml if it is only an example.", workflowKind),
			})
			return
		}
	}
}

// unopened finds the first line of a workflow's frontmatter that no line of
// three hyphens opens: perhaps there are two or four of them.
func (d *document) unopened() (source.Span, bool) {
	if d.md.HasFrontmatter {
		return source.Span{}, false
	}
	at, first := 0, source.Span{}
	kind := false
	for line := range strings.Lines(d.file.Text) {
		words := strings.TrimSpace(line)
		if first.File == "" && words != "" {
			first = d.file.Span(at, at+len(words))
		}
		switch key, value, _ := strings.Cut(words, ":"); {
		case words == "---":
			return first, kind
		case strings.HasPrefix(words, "#"), strings.HasPrefix(words, "```"):
			return source.Span{}, false
		case key == "kind":
			kind = kind || strings.TrimSpace(value) == workflowKind
		}
		at += len(line)
	}
	return source.Span{}, false
}

// readBlocks reads the labelled fences. The label decides, the heading above
// is only a custom (F33).
func (d *document) readBlocks(out *diag.List) {
	strayed := map[string]bool{}
	for i := range d.md.Fences {
		fence := &d.md.Fences[i]
		if fence.Quoted {
			continue
		}
		if !slices.Contains(blockNames, fence.Info) {
			d.lookAtOther(fence, out)
			continue
		}
		if !strayed[fence.Info] {
			strayed[fence.Info] = d.checkSection(fence, out)
		}
		d.readBlock(fence, out)
	}
}

func (d *document) readBlock(fence *text.Fence, out *diag.List) {
	label := fence.Info
	node, list := text.ParseYAML(d.file, fence.Content.Start, fence.Content.End)
	*out = append(*out, list...)
	if !fence.Closed && fence.Content.End == len(d.file.Text) {
		d.unread.Rest, d.unread.Steps = true, true
	}
	if list.Errors() || node == nil || node.Kind != text.Map {
		d.skip(&d.unread.Texts, d.file.Span(fence.Content.Start, fence.Content.End))
	}
	if node == nil || node.Kind != text.Map {
		d.unread.Steps = d.unread.Steps || label == stepShape.what
		if node != nil {
			out.Add(diag.Diagnostic{
				Code: CodeWrongType, Severity: diag.Error, Span: fence.InfoSpan,
				Message: fmt.Sprintf("The %s block must hold keys and values, but there is %s.", label, node.Kind),
				Help:    `Write lines of "key: value".`,
			})
		}
		return
	}
	s := blockShapes[slices.IndexFunc(blockShapes, func(s *shape) bool { return s.what == label })]
	b := binder{out: out, broken: errorsIn(list), cut: !fence.Closed}
	v := b.bind(node, s, s.what, nil)
	d.keep(&b)
	switch s {
	case stepShape:
		d.steps = append(d.steps, v)
	case agentShape:
		d.agents = append(d.agents, v)
	case bundleShape:
		d.bundles = append(d.bundles, v)
	case overrideShape:
		d.overrides = append(d.overrides, v)
	case runtimeShape:
		d.only(&d.runtime, v, fence.InfoSpan, out)
	case observabilityShape:
		d.only(&d.observability, v, fence.InfoSpan, out)
	}
}

// keep remembers what a binder could not read.
func (d *document) keep(b *binder) {
	d.skip(&d.unread.Texts, b.unread...)
	d.skip(&d.unread.Warned, b.warned...)
}

// skip notes that parts of the file were not read.
func (d *document) skip(list *[]string, places ...source.Span) {
	for _, at := range places {
		*list = append(*list, d.file.Text[at.Start:at.End])
	}
}

// only keeps the first block of a kind that there can be only one of.
func (d *document) only(slot **values, v *values, at source.Span, out *diag.List) {
	if *slot == nil {
		*slot = v
		return
	}
	out.Add(diag.Diagnostic{
		Code: CodeSecondBlock, Severity: diag.Error, Span: at,
		Message: fmt.Sprintf("There is a second %s block.", v.shape.what),
		Help:    "Put its keys into the first one.",
		Related: []diag.Related{{Span: (*slot).first, Message: "the first one"}},
	})
}

// lookAtOther warns of fences that were probably meant as blocks.
func (d *document) lookAtOther(fence *text.Fence, out *diag.List) {
	if near := diag.Nearest(fence.Info, blockNames); fence.Info != "" && near != "" {
		out.Add(diag.Diagnostic{
			Code: CodeNearFence, Severity: diag.Warning, Span: fence.InfoSpan,
			Message: fmt.Sprintf("A block labelled %q is not read.", fence.Info),
			Help:    fmt.Sprintf("Did you mean %q?", near),
		})
		d.skip(&d.unread.Warned, fence.Span)
		return
	}
	switch strings.ToLower(fence.Info) {
	case "", "yaml", "yml":
	default:
		if block, at := guessBlock(d.file.Text[fence.Content.Start:fence.Content.End]); block != "" && at == 0 {
			out.Add(diag.Diagnostic{
				Code: CodeNearFence, Severity: diag.Warning, Span: fence.InfoSpan,
				Message: fmt.Sprintf("A block labelled %q is not read, and its keys are those of %s block.", fence.Info, article(block)),
				Help:    fmt.Sprintf("Begin it with ```%s, or label it yaml if it is only an example.", block),
			})
			d.skip(&d.unread.Warned, fence.Span)
		}
		return
	}
	if usual := sections[d.wellKnown(fence.Heading)]; usual != "" {
		span := fence.InfoSpan
		if fence.Info == "" {
			span = d.file.Span(fence.Span.Start, fence.Span.Start+3)
		}
		out.Add(diag.Diagnostic{
			Code: CodeUnlabeled, Severity: diag.Warning, Span: span,
			Message: fmt.Sprintf("This block is not read, because it is not labelled %q.", usual),
			Help:    fmt.Sprintf("Begin it with ```%s.", usual),
		})
		d.skip(&d.unread.Warned, fence.Span)
	}
}

// guessBlock tells which block the keys in some lines make, and where the
// first of them stands; "" when they make none.
func guessBlock(lines string) (block string, start int) {
	best := 1
	for _, s := range blockShapes {
		first, known, at := -1, 0, 0
		for line := range strings.Lines(lines) {
			key, _, _ := strings.Cut(line, ":")
			if len(key) < len(line) && s.field(key) != nil {
				if known++; first < 0 {
					first = at
				}
			} else if strings.TrimSpace(line) == "" && known == 1 {
				first, known = -1, 0 // a lone line with a colon, in prose
			}
			at += len(line)
		}
		if known > best {
			block, start, best = s.what, first, known
		}
	}
	return block, start
}

// checkSection says when a block stands under another heading than usual.
func (d *document) checkSection(fence *text.Fence, out *diag.List) bool {
	usual := ""
	for heading, block := range sections {
		if block == fence.Info {
			usual = heading
		}
	}
	above := d.wellKnown(fence.Heading)
	if usual == "" || above == usual {
		return false
	}
	title := upper(usual)
	found := diag.Diagnostic{
		Code: CodeSection, Severity: diag.Note, Span: fence.InfoSpan,
		Message: fmt.Sprintf("This %s block does not stand under the heading %q.", fence.Info, title),
		Help:    fmt.Sprintf("Write \"## %s\" above the %s blocks, so that readers find them.", title, fence.Info),
	}
	if written := d.nearestHeading(fence.Heading, usual); !written.Span.IsZero() {
		found.Severity, found.Span = diag.Warning, written.Span
		found.Message = fmt.Sprintf("The heading %q above the %s blocks is not a usual one.", written.Text, fence.Info)
		found.Help = fmt.Sprintf("Did you mean %q?", title)
	} else if above != "" {
		found.Severity = diag.Warning
		found.Message = fmt.Sprintf("This %s block stands under the heading %q.", fence.Info, upper(above))
		found.Help = fmt.Sprintf("Move it under a heading %q.", "## "+title)
	}
	out.Add(found)
	return true
}

// nearestHeading is the heading that a heading stands under, itself included,
// when it is nearly the usual one.
func (d *document) nearestHeading(heading int, usual string) text.Heading {
	level := 7
	for i := heading; i >= 0; i-- {
		h := d.md.Headings[i]
		if h.Level >= level {
			continue
		}
		level = h.Level
		name := strings.ToLower(h.Text)
		if hasSection(name) {
			break
		}
		if diag.Nearest(name, []string{usual}) != "" {
			return h
		}
	}
	return text.Heading{}
}

// wellKnown is the innermost well-known heading that a heading stands under,
// itself included, in lower case; "" when there is none.
func (d *document) wellKnown(heading int) string {
	level := 7
	for i := heading; i >= 0; i-- {
		h := d.md.Headings[i]
		if h.Level >= level {
			continue
		}
		level = h.Level
		if name := strings.ToLower(h.Text); hasSection(name) {
			return name
		}
	}
	return ""
}

func hasSection(name string) bool { _, ok := sections[name]; return ok }

// section is the text between a heading and the next well-known one, without
// the blocks that mean something.
func (d *document) section(name string) text.Text {
	for i, h := range d.md.Headings {
		if strings.ToLower(h.Text) != name {
			continue
		}
		end := len(d.file.Text)
		for _, next := range d.md.Headings[i+1:] {
			if hasSection(strings.ToLower(next.Text)) {
				end = next.Span.Start
				break
			}
		}
		return text.Text{Value: d.prose(h.Span.End, end), Span: h.Span}
	}
	return text.Text{}
}

// prose is the text between two offsets without blocks, trimmed.
func (d *document) prose(start, end int) string {
	var b strings.Builder
	for _, fence := range d.md.Fences {
		if fence.Span.Start < start || fence.Span.Start >= end || !slices.Contains(blockNames, fence.Info) {
			continue
		}
		b.WriteString(d.file.Text[start:fence.Span.Start])
		start = min(fence.Span.End, end)
	}
	b.WriteString(d.file.Text[start:end])
	return strings.TrimSpace(strings.ReplaceAll(b.String(), "\r\n", "\n"))
}
