package agentflow

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// document is the syntax tree of a file. Its blocks are bound to their shapes, with a span on every value, and are in
// the order of the file; references between them are not resolved.
type document struct {
	file *source.File
	md   *text.Document
	// front is the frontmatter's map; nil if it is missing or unreadable.
	front *text.Node
	// workflow is set if the kind is Agent Flow's. Otherwise the file is a skill and the fields
	// below are empty.
	workflow bool
	head     *values // the frontmatter, bound to its shape

	steps, agents, bundles, overrides []*values
	runtime, observability            *values // nil if the file has no such block
	// unread describes what could not be read.
	unread   ir.Unread
	purpose  text.Text
	baseText text.Text // the text under "Base Skill"
}

// sections maps the headings with a meaning to the blocks that belong below them.
var sections = map[string]string{
	"purpose": "", "agents": "agent", "steps": "step", "bundles": "bundle", "runtime": "runtime",
	"observability": "observability", "base skill": "",
}

// parse parses a file. It returns nil if the file is unusable.
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
			out.Errorf(CodeNoKind, at, "Put --- alone on the first line of the file.",
				"The opening --- of the frontmatter is missing, so the file is not a workflow.")
			return nil
		}
		d.noteBlocks(out)
		return d
	}
	d.md.Repair(blockNames, guessBlock)
	*out = append(*out, d.md.Problems(blockNames...)...)
	d.readBlocks(out)
	d.purpose = d.section("purpose")
	d.baseText = d.section("base skill")
	return d
}

// readFrontmatter determines whether the file is a workflow, and parses its frontmatter:
// strictly in a workflow, leniently in a skill.
func (d *document) readFrontmatter(out *diag.List) {
	node, repairs, list := text.ParseYAMLLenient(d.file, d.md.Frontmatter.Start, d.md.Frontmatter.End)
	// The kind decides how strictly everything else is read. So it is looked for even in frontmatter that does not
	// parse, and near misses count: rejecting a workflow with a typo is more helpful than accepting it as a skill
	// without steps.
	kindText := ""
	if node == nil || node.Kind != text.Map {
		for key, value := range frontmatterLines(d.file.Text) {
			if key == "kind" {
				kindText = value
			}
		}
	} else if k := node.Get("kind"); k != nil {
		kindText = k.Value
	} else if i := slices.IndexFunc(node.Pairs,
		func(p text.Pair) bool { return p.Value.Value == workflowKind }); i >= 0 {
		kindText = workflowKind // under a misspelled key
	}
	d.workflow = kindText == workflowKind || strings.HasPrefix(kindText, "agent-flow/") ||
		diag.Nearest(kindText, []string{workflowKind}) != ""
	for _, r := range repairs {
		problem := r.Problem
		if !d.workflow {
			problem.Code, problem.Severity, problem.Lenient = CodeRepaired, diag.Note, true
			problem.Message = fmt.Sprintf("The value of %q is not valid YAML. It is read as a quoted string.", r.Key)
			problem.Help = "Put the value in double quotes."
			problem.Span = r.Value.Span
			problem.Fixes = nil
			if !strings.ContainsAny(r.Value.Value, "\"\\") {
				problem.Rewrite(r.Value.Span, r.Value.Value, strconv.Quote(r.Value.Value))
			}
		}
		out.Add(problem)
	}
	if !d.workflow && node != nil {
		// It could be read nevertheless, so the skill loads.
		for i := range list {
			if list[i].Severity == diag.Error {
				list[i].Severity, list[i].Lenient = diag.Note, true
			}
		}
	}
	*out = append(*out, list...)
	d.unread = ir.Unread{Header: true, Texts: []string{
		d.file.Text[d.md.Frontmatter.Start:d.md.Frontmatter.End],
	}} // until it proves usable
	if node == nil {
		return
	}
	if node.Kind == text.Null {
		node = &text.Node{Kind: text.Map, Span: node.Span}
	}
	if node.Kind != text.Map {
		out.Errorf(CodeWrongType, node.Span, `Use lines of "key: value" between the two --- lines.`,
			"The frontmatter is %s, not a map.", node.Kind)
		return
	}
	d.front, d.unread = node, ir.Unread{}
	if d.workflow {
		b := binder{out: out, broken: errorsIn(list)}
		b.broken = append(b.broken, xslices.Map(repairs, func(r text.Repair) source.Span { return r.Problem.Span })...)
		d.head = b.bind(node, frontmatterShape, frontmatterShape.What, nil)
		d.unread.Header = len(repairs) > 0 || list.Errors() || len(b.unread) > 0
		d.keep(&b)
	}
}

// noteBlocks warns that the blocks of a skill are ignored (F32, F33).
func (d *document) noteBlocks(out *diag.List) {
	for _, fence := range d.md.Fences {
		if slices.Contains(blockNames, fence.Info) {
			out.Warnf(CodeNoKind, fence.InfoSpan,
				fmt.Sprintf(
					"Add \"kind: %s\" to the frontmatter to make the file a workflow, or label the block yaml if it "+
						"is an example.", workflowKind), "The %s block is ignored: the file is a plain skill.",
				fence.Info)
			return
		}
	}
}

// unopened returns the first line of a workflow's frontmatter that lacks its opening line of
// three hyphens: there may be two or four of them.
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

// readBlocks parses the labeled fences. The label determines the kind of block; the heading
// above is only a convention (F33).
func (d *document) readBlocks(out *diag.List) {
	misplaced := map[string]bool{}
	for i := range d.md.Fences {
		fence := &d.md.Fences[i]
		if fence.Quoted {
			continue
		}
		if !slices.Contains(blockNames, fence.Info) {
			d.checkOther(fence, out)
			continue
		}
		if !misplaced[fence.Info] {
			misplaced[fence.Info] = d.checkSection(fence, out)
		}
		d.readBlock(fence, out)
	}
}

// readBlock parses the YAML of one labeled fence and binds it to its shape.
func (d *document) readBlock(fence *text.Fence, out *diag.List) {
	label := fence.Info
	node, list := text.ParseYAML(d.file, fence.Content.Start, fence.Content.End)
	*out = append(*out, list...)
	// A fence that is not closed may have swallowed all blocks after it.
	if !fence.Closed && fence.Content.End == len(d.file.Text) {
		d.unread.Rest, d.unread.Steps = true, true
	}
	if list.Errors() || node == nil || node.Kind != text.Map {
		d.skip(&d.unread.Texts, d.file.Span(fence.Content.Start, fence.Content.End))
	}
	if node == nil || node.Kind != text.Map {
		d.unread.Steps = d.unread.Steps || label == stepShape.What
		if node != nil {
			out.Errorf(CodeWrongType, fence.InfoSpan, `Use lines of "key: value".`, "The %s block is %s, not a map.",
				label, node.Kind)
		}
		return
	}
	s := blockShapes[slices.IndexFunc(blockShapes, func(s *text.Shape) bool { return s.What == label })]
	b := binder{out: out, broken: errorsIn(list), cut: !fence.Closed}
	v := b.bind(node, s, s.What, nil)
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

// keep records what a binder could not read.
func (d *document) keep(b *binder) {
	d.skip(&d.unread.Texts, b.unread...)
	d.skip(&d.unread.Warned, b.warned...)
}

// skip records that parts of the file were not read.
func (d *document) skip(list *[]string, places ...source.Span) {
	*list = append(*list, xslices.Map(places, func(at source.Span) string { return d.file.Text[at.Start:at.End] })...)
}

// only stores the first block of a kind that may occur once, and reports any other.
func (d *document) only(slot **values, v *values, at source.Span, out *diag.List) {
	if *slot == nil {
		*slot = v
		return
	}
	out.Errorf(CodeSecondBlock, at, "Move its keys to the first one.", "The file has a second %s block.", v.shape.What).
		Relate((*slot).first, "the first one")
}

// checkOther warns about fences that were probably meant as blocks.
func (d *document) checkOther(fence *text.Fence, out *diag.List) {
	if near := diag.Nearest(fence.Info, blockNames); fence.Info != "" && near != "" {
		out.Warnf(CodeNearFence, fence.InfoSpan, fmt.Sprintf("Did you mean %q?", near),
			"The block labeled %q is ignored.", fence.Info).Replace(fence.Info, near)
		d.skip(&d.unread.Warned, fence.Span)
		return
	}
	switch strings.ToLower(fence.Info) {
	case "", "yaml", "yml":
	default:
		if block, at := guessBlock(d.file.Text[fence.Content.Start:fence.Content.End]); block != "" && at == 0 {
			out.Warnf(CodeNearFence, fence.InfoSpan, fmt.Sprintf("Label it ```%s, or yaml if it is an example.", block),
				"The block labeled %q is ignored, but it has the keys of %s block.", fence.Info, article(block))
			d.skip(&d.unread.Warned, fence.Span)
		}
		return
	}
	if usual := sections[d.wellKnown(fence.Heading)]; usual != "" {
		span := fence.InfoSpan
		if fence.Info == "" {
			span = d.file.Span(fence.Span.Start, fence.Span.Start+3)
		}
		out.Warnf(CodeUnlabeled, span, fmt.Sprintf("Label it ```%s.", usual),
			"The block is ignored: it is not labeled %q.", usual)
		d.skip(&d.unread.Warned, fence.Span)
	}
}

// guessBlock returns the kind of block that the keys in some lines belong to, and the offset of
// the first key. It returns "" if there is none.
func guessBlock(lines string) (block string, start int) {
	best := 1
	for _, s := range blockShapes {
		first, known, at := -1, 0, 0
		for line := range strings.Lines(lines) {
			key, _, _ := strings.Cut(line, ":")
			if len(key) < len(line) && s.Find(key) != nil {
				if known++; first < 0 {
					first = at
				}
			} else if strings.TrimSpace(line) == "" && known == 1 {
				first, known = -1, 0 // a single line with a colon, in prose
			}
			at += len(line)
		}
		if known > best {
			block, start, best = s.What, first, known
		}
	}
	return block, start
}

// checkSection reports whether a block is not below its usual heading, and adds a diagnostic if
// so.
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
	if written := d.nearestHeading(fence.Heading, usual); !written.Span.IsZero() {
		out.Warnf(CodeSection, written.Span, fmt.Sprintf("Did you mean %q?", title),
			"The heading %q above the %s blocks is not recognized.", written.Text, fence.Info)
	} else if above != "" {
		out.Warnf(CodeSection, fence.InfoSpan, fmt.Sprintf("Move it under a heading %q.", "## "+title),
			"The %s block is under the heading %q.", fence.Info, upper(above))
	} else {
		found := out.Notef(CodeSection, fence.InfoSpan,
			fmt.Sprintf("Add the heading \"## %s\" above the %s blocks.", title, fence.Info),
			"The %s block is not under the heading %q.", fence.Info, title)
		found.Lenient = true
		if at := fence.Span.Start; d.isLastKind(fence) && (at == 0 || d.file.Text[at-1] == '\n') && !fence.Unopened {
			found.Change(fmt.Sprintf("Add the heading \"## %s\"", title), "## "+title+d.lineEnd()+d.lineEnd(),
				d.file.Span(at, at))
		}
	}
	return true
}

// isLastKind reports whether no block of another kind follows before the next heading: it would be under the heading of
// this one.
func (d *document) isLastKind(fence *text.Fence) bool {
	return !slices.ContainsFunc(d.md.Fences, func(other text.Fence) bool {
		return other.Heading == fence.Heading && other.Span.Start > fence.Span.Start && other.Info != fence.Info
	})
}

// lineEnd returns what ends the lines of the file.
func (d *document) lineEnd() string {
	if first, _, _ := strings.Cut(d.file.Text, "\n"); strings.HasSuffix(first, "\r") {
		return "\r\n"
	}
	return "\n"
}

// nearestHeading returns the heading itself or one that encloses it, if its text is nearly the
// usual one.
func (d *document) nearestHeading(heading int, usual string) text.Heading {
	for name, h := range d.enclosing(heading) {
		if hasSection(name) {
			break
		}
		if diag.Nearest(name, []string{usual}) != "" {
			return h
		}
	}
	return text.Heading{}
}

// enclosing yields a heading and those that enclose it, from the inside out, with their texts in lower case.
func (d *document) enclosing(heading int) iter.Seq2[string, text.Heading] {
	return func(yield func(string, text.Heading) bool) {
		level := 7
		for i := heading; i >= 0; i-- {
			h := d.md.Headings[i]
			if h.Level < level && !yield(strings.ToLower(h.Text), h) {
				return
			}
			level = min(level, h.Level)
		}
	}
}

// wellKnown returns the innermost well-known heading that encloses a heading, or the heading
// itself, in lower case. It returns "" if there is none.
func (d *document) wellKnown(heading int) string {
	for name := range d.enclosing(heading) {
		if hasSection(name) {
			return name
		}
	}
	return ""
}

// hasSection reports whether a heading, in lower case, has a meaning.
func hasSection(name string) bool { _, ok := sections[name]; return ok }

// section returns the text between a heading and the next well-known one, without the labeled
// blocks.
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

// prose returns the text between two offsets without labeled blocks, trimmed.
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
