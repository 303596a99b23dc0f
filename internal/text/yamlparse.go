package text

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

const (
	// maxDepth limits nesting and thereby recursion.
	maxDepth = 100
	// maxExpanded limits the number of nodes that aliases add to a tree, counting every alias as a copy of its anchor.
	maxExpanded = 10_000
)

// ParseYAML parses the bytes [start, end) of a file as one YAML document. It returns a Null node for an empty document,
// and nil only with an error. It may return a tree together with errors such as duplicate keys or a value that needs
// quotes, so that one error does not hide the next.
func ParseYAML(f *source.File, start, end int) (*Node, diag.List) {
	n, repairs, out := parseRepairing(f, start, end)
	if len(repairs) > 0 {
		found := make(diag.List, 0, len(out)+len(repairs))
		for _, r := range repairs {
			found = append(found, r.Problem)
		}
		out = append(found, out...)
	}
	return n, out
}

// yamlParser converts the tree of the library, which has the line and column of the start of a node, to nodes with byte
// spans. The library does not report where values end: each method computes that from the text, and returns it, because
// the end of a list or map is that of its last entry or bracket.
type yamlParser struct {
	file *source.File
	base int    // offset of text in the file
	text string // the region, possibly with repaired lines of equal length
	out  diag.List

	anchors  map[*yaml.Node]*anchored
	expanded int
	line     int // of the cursor; lines and columns start at 1 as in the library
	column   int
	offset   int // of the cursor in text
	nodes    []Node
	made     int // number of nodes created
	guess    int // estimated number of nodes; 0 if not estimated yet
	last     int // end of the last value
}

// anchored is the value of an anchor, and its size with all aliases expanded.
type anchored struct {
	node *Node
	size int
	open bool // being converted: an alias to it would be a cycle
}

// parseOnce parses text, which starts at base in the file. text may differ from the file there, in words of equal
// length.
func parseOnce(f *source.File, base int, text string) (*Node, diag.List) {
	if rest, ok := strings.CutPrefix(text, "\ufeff"); ok {
		base, text = base+len(text)-len(rest), rest
	}
	// The library refuses the directive %YAML 1.2, which says nothing that matters here.
	if line, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(line, "%YAML 1.") {
		text = "#" + text[1:]
	}
	p := &yamlParser{file: f, base: base, text: text, line: 1, column: 1}
	if at := invalidUTF8(text); at >= 0 {
		p.report(CodeCharacter, at, at+1, "Save the file in the UTF-8 encoding.",
			"This byte is not part of UTF-8 text.")
		return nil, p.out
	}
	if n := parsePlain(p); n != nil {
		return n, nil
	}
	hidden, restore := hideSeparators(text)
	if restore == nil {
		return p.parseAny()
	}
	p.text = hidden
	n, out := p.parseAny()
	if n != nil {
		n.eachScalar(func(s *Node) { s.Value = restore(s.Value) })
	}
	for i := range out {
		out[i].Message, out[i].Help = restore(out[i].Message), restore(out[i].Help)
	}
	return n, out
}

// hideSeparators replaces characters that the library treats as line breaks, but YAML 1.2 does not, by characters of
// the same length that the text does not contain. restore reverses it; it is nil if nothing was replaced.
func hideSeparators(s string) (hidden string, restore func(string) string) {
	var hide, back []string
	spare := map[int]rune{2: '\u07FF', 3: '\uE000'}
	for _, separator := range [...]string{"\u0085", "\u2028", "\u2029"} {
		if !strings.Contains(s, separator) {
			continue
		}
		stand := spare[len(separator)]
		for strings.ContainsRune(s, stand) {
			stand--
			if stand < 0xE000 && len(separator) == 3 {
				stand = 0xF8FF // wrap around in the private use area
			}
		}
		spare[len(separator)] = stand - 1
		hide = append(hide, separator, string(stand))
		back = append(back, string(stand), separator)
	}
	if hide == nil {
		return s, nil
	}
	return strings.NewReplacer(hide...).Replace(s), strings.NewReplacer(back...).Replace
}

// eachScalar visits the scalars of a tree, including keys, once per occurrence.
func (n *Node) eachScalar(visit func(*Node)) {
	if n.Kind < List {
		visit(n)
	}
	for _, item := range n.Items {
		item.eachScalar(visit)
	}
	for _, pair := range n.Pairs {
		visit(pair.Key)
		pair.Value.eachScalar(visit)
	}
}

// parseAny parses the text with the library.
func (p *yamlParser) parseAny() (*Node, diag.List) {
	f, base, text := p.file, p.base, p.text
	limit := &depthLimit{}
	loader, err := yaml.NewLoader(strings.NewReader(text), yaml.WithPlugin(limit))
	if err != nil { // unreachable: only invalid options cause an error
		p.report(CodeSyntax, 0, 0, lookHere, "This is not YAML: %s.", err.Error())
		return nil, p.out
	}
	var document, second yaml.Node
	if err := loader.Load(&document); errors.Is(err, io.EOF) {
		return &Node{Span: f.Span(base, base)}, nil
	} else if err != nil {
		p.explain(err, limit.hit)
		return nil, p.out
	}
	var root *Node
	if len(document.Content) > 0 {
		root, _ = p.node(document.Content[0])
	}
	if err := loader.Load(&second); err == nil {
		at := p.seek(second.Line, second.Column)
		p.report(CodeSecond, at, endOfLine(text, at),
			"Remove the line with --- and what follows it, or indent it if it is part of a string.",
			"A second YAML document begins here; only one is allowed.")
	} else if !errors.Is(err, io.EOF) {
		p.explain(err, limit.hit)
		return nil, p.out
	}
	return root, p.out
}

// depthLimit stops the library at maxDepth, before its own recursion becomes deep. The limits of the library for
// aliases are off: alias has its own, which knows the place.
type depthLimit struct{ hit bool }

// errDepth stops the library. It does not reach the author: hit makes a message with a place.
var errDepth = errors.New("nested too deep")

// CheckDepth implements the interface of the library.
func (d *depthLimit) CheckDepth(depth int, _ *yaml.DepthContext) error {
	if depth > maxDepth {
		d.hit = true
		return errDepth
	}
	return nil
}

// CheckAlias implements the interface of the library. It never stops it.
func (*depthLimit) CheckAlias(int, int) error { return nil }

// invalidUTF8 returns the offset of the first byte that is not part of UTF-8 text, or -1.
func invalidUTF8(s string) int {
	if utf8.ValidString(s) {
		return -1
	}
	for i, r := range s {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return i
			}
		}
	}
	return -1
}

// report adds an error at offsets in text.
func (p *yamlParser) report(code diag.Code, start, end int, help, format string, args ...any) *diag.Diagnostic {
	return p.out.Errorf(code, p.span(start, end), help, format, args...)
}

// span converts offsets in text to a span of the file.
func (p *yamlParser) span(start, end int) source.Span {
	end = min(end, len(p.text))
	return p.file.Span(p.base+min(start, end), p.base+end)
}

// new returns a node. Nodes are kept in slices, one allocation for many.
func (p *yamlParser) new(kind Kind, value string, start, end int) *Node {
	if len(p.nodes) == cap(p.nodes) {
		// Allocate nodes in bulk: about a key and a value for each colon and a value for each comma.
		if p.guess == 0 {
			p.guess = 2*strings.Count(p.text, ":") + strings.Count(p.text, ",") + 4
		}
		p.nodes = make([]Node, 0, min(max(p.guess-p.made, 8), 256))
	}
	p.made++
	p.nodes = append(p.nodes, Node{Kind: kind, Value: value, Span: p.span(start, end)})
	return &p.nodes[len(p.nodes)-1]
}

// seek moves the cursor to a line and column and returns its offset. The tree is visited in the order of the text, so
// the cursor rarely moves backwards.
func (p *yamlParser) seek(line, column int) int {
	if line < p.line || line == p.line && column < p.column {
		p.line, p.column, p.offset = 1, 1, 0
	}
	for p.offset < len(p.text) && (p.line < line || p.line == line && p.column < column) {
		if size := lineBreak(p.text[p.offset:]); size > 0 {
			if p.line == line {
				break
			}
			p.offset += size
			p.line++
			p.column = 1
			continue
		}
		size := 1
		if p.text[p.offset] >= utf8.RuneSelf {
			_, size = utf8.DecodeRuneInString(p.text[p.offset:])
		}
		p.offset += size
		p.column++
	}
	return p.offset
}

// lineBreak returns the length of the line break at the start of s, or 0.
func lineBreak(s string) int {
	switch s[0] {
	case '\n':
		return 1
	case '\r':
		if len(s) > 1 && s[1] == '\n' {
			return 2
		}
		return 1
	}
	return 0
}

// isSpace reports whether a byte is a space or a tab.
func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// node converts n and returns the end of its text, including closing quotes and brackets.
func (p *yamlParser) node(n *yaml.Node) (*Node, int) {
	start := p.seek(n.Line, n.Column)
	if n.Kind == yaml.AliasNode {
		return p.alias(n, start)
	}
	var a *anchored
	if n.Anchor != "" {
		a = &anchored{open: true}
		if p.anchors == nil {
			p.anchors = map[*yaml.Node]*anchored{}
		}
		p.anchors[n] = a
	}
	behind, content := start, start
	if n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 || n.Tag == "!" {
		behind, content = p.properties(start)
	}
	var node *Node
	var end int
	switch n.Kind {
	case yaml.MappingNode:
		node, end = p.mapping(n, content)
	case yaml.SequenceNode:
		node, end = p.sequence(n, content)
	default:
		node, end = p.scalar(n, behind, content)
	}
	if a != nil {
		*a = anchored{node: node, size: p.size(node)}
	}
	return node, end
}

// size returns the number of nodes, counting every alias as a copy. It is used for anchored nodes only and stops at the
// limit.
func (p *yamlParser) size(n *Node) int {
	total := 1
	for _, item := range n.Items {
		if total <= maxExpanded {
			total += p.size(item)
		}
	}
	for _, pair := range n.Pairs {
		if total <= maxExpanded {
			total += 1 + p.size(pair.Value)
		}
	}
	return total
}

// alias returns the node of an anchor. The number of nodes that all aliases stand for is bounded, because later passes
// visit each of them as often as it occurs.
func (p *yamlParser) alias(n *yaml.Node, start int) (*Node, int) {
	end := p.nameEnd(start)
	name := n.Value
	a := p.anchors[n.Alias]
	if a == nil || a.open {
		p.report(CodeAnchor, start, end,
			"Write the value out here, or put the anchor on a part that does not contain the alias.",
			"The alias %q is inside the value that it repeats.", name)
		return p.new(Null, "", start, start), end
	}
	if p.expanded > maxExpanded {
		return p.new(Null, "", start, start), end // already reported
	}
	p.expanded += a.size
	if p.expanded > maxExpanded {
		p.report(CodeTooMuch, start, end, "Write out what is needed instead of repeating it by aliases.",
			"The aliases of this file repeat more than %d values.", maxExpanded)
		return p.new(Null, "", start, start), end
	}
	return a.node, end
}

// properties skips &anchors and !tags at an offset. It returns their end and the start of the content, which differ if
// a line break follows.
func (p *yamlParser) properties(at int) (behind, content int) {
	behind = at
	sameLine := true
	for at < len(p.text) && (p.text[at] == '&' || p.text[at] == '!') {
		if strings.HasPrefix(p.text[at:], "!<") {
			if closing := strings.IndexByte(p.text[at:], '>'); closing > 0 {
				at += closing
			}
		}
		at = p.nameEnd(at)
		if sameLine {
			behind = at
		}
		next := p.skipBlank(at)
		sameLine = sameLine && endOfLine(p.text, at) >= next
		at = next
	}
	if at == len(p.text) {
		return behind, behind
	}
	return behind, at
}

// nameEnd returns the end of the name of an anchor, an alias or a tag.
func (p *yamlParser) nameEnd(at int) int {
	for at < len(p.text) && !isSpace(p.text[at]) && lineBreak(p.text[at:]) == 0 &&
		strings.IndexByte(",[]{}", p.text[at]) < 0 {
		at++
	}
	return at
}

// skipBlank returns the offset after white space and comments.
func (p *yamlParser) skipBlank(at int) int {
	for at < len(p.text) {
		switch size := lineBreak(p.text[at:]); {
		case size > 0:
			at += size
		case isSpace(p.text[at]):
			at++
		case p.text[at] == '#' && (at == 0 || isSpace(p.text[at-1]) || endsWithBreak(p.text[:at])):
			at = endOfLine(p.text, at)
		default:
			return at
		}
	}
	return at
}

// endsWithBreak reports whether a text ends with a line break.
func endsWithBreak(s string) bool {
	return strings.HasSuffix(s, "\n") || strings.HasSuffix(s, "\r")
}

// endOfLine returns the offset of the line break after at.
func endOfLine(s string, at int) int {
	for at < len(s) && lineBreak(s[at:]) == 0 {
		at++
	}
	return at
}

// sequence converts a list.
func (p *yamlParser) sequence(n *yaml.Node, start int) (*Node, int) {
	p.checkTag(n, "!!seq")
	node := p.new(List, "", start, start)
	node.Items = make([]*Node, 0, len(n.Content))
	end := start
	for _, c := range n.Content {
		item, itemEnd := p.node(c)
		end = max(end, itemEnd)
		if n.Style&yaml.FlowStyle == 0 && c.Style == 0 && c.Kind == yaml.ScalarNode && c.Anchor == "" &&
			strings.Contains(c.Value, " - ") {
			if entries := p.swallowedEntries(item, itemEnd, len(n.Content) == 1); entries != nil {
				node.Items = append(node.Items, entries...)
				continue
			}
		}
		node.Items = append(node.Items, item)
	}
	end = p.close(n, '[', ']', start, end)
	node.Span = p.span(start, end)
	return node, end
}

// swallowedEntries returns the entries that YAML reads as part of the entry above, because they are indented further.
// alone is set if the list has no other entries.
func (p *yamlParser) swallowedEntries(item *Node, end int, alone bool) []*Node {
	at := item.Span.Start - p.base
	dash := strings.LastIndexByte(p.text[:at], '-')
	column := dash - lineStart(p.text, dash)
	var entries []*Node
	for at < end {
		stop := min(endOfLine(p.text, at), end)
		value := strings.TrimRight(p.text[at:stop], " \t")
		entries = append(entries, p.new(scalarKind(value), value, at, at+len(value)))
		if stop == end {
			break
		}
		line := strings.TrimLeft(p.text[stop:end], " \t\r\n")
		at = end - len(line)
		rest := strings.TrimLeft(strings.TrimPrefix(line, "- "), " ")
		if len(rest) == len(line) || rest == "" {
			return nil
		}
		at += len(line) - len(rest)
	}
	if len(entries) < 2 {
		return nil
	}
	second := lineStart(p.text, entries[1].Span.Start-p.base)
	below := strings.IndexByte(p.text[second:], '-')
	if len(entries) > 2 {
		found := p.report(CodeIndentation, item.Span.Start-p.base, entries[0].Span.End-p.base,
			indentHelp(below, column),
			"This entry is indented less than those below, so YAML reads them as words of this one.")
		if alone {
			p.fixIndent(found, lineStart(p.text, dash), column, below)
		}
		return entries
	}
	found := p.report(CodeIndentation, entries[1].Span.Start-p.base, entries[1].Span.End-p.base,
		indentHelp(column, below),
		"This entry is indented further than the one above, so YAML reads it as words of that one.")
	p.fixIndent(found, second, below, column)
	return entries
}

// close returns the end of a flow list or map; block collections end with their last entry.
func (p *yamlParser) close(n *yaml.Node, opening, closing byte, start, end int) int {
	if n.Style&yaml.FlowStyle == 0 || start >= len(p.text) || p.text[start] != opening {
		return end
	}
	end = max(end, start+1)
	for {
		end = p.skipBlank(end)
		switch {
		case end >= len(p.text):
			return end
		case p.text[end] == closing:
			return end + 1
		case strings.IndexByte(",:?", p.text[end]) >= 0:
			end++ // a trailing comma, or an empty entry
		default:
			return end
		}
	}
}

// mapping converts a map. Keys of merged maps (<<) come after its own and do not replace them.
func (p *yamlParser) mapping(n *yaml.Node, start int) (*Node, int) {
	p.checkTag(n, "!!map")
	node := p.new(Map, "", start, start)
	node.Pairs = make([]Pair, 0, len(n.Content)/2)
	seen := make(map[string]*Node, len(n.Content)/2)
	var merges []*Node
	end := start
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, keyEnd := p.node(n.Content[i])
		value, valueEnd := p.node(n.Content[i+1])
		end = max(end, keyEnd, valueEnd)
		if i == 0 && n.Content[i].Kind != yaml.AliasNode {
			start = min(start, key.Span.Start-p.base) // an anchor of the key may look like an anchor of the map
		}
		switch {
		case key.Kind == Map && strings.HasPrefix(p.text[start:], "{{") && key.Span.Start == p.base+start+1:
			p.report(CodeNeedsQuotes, start, start+2,
				fmt.Sprintf("Put the whole value in quotes, with %q in it.",
					"{"+p.file.Text[key.Span.Start:key.Span.End]+"}"),
				"A value without quotes cannot begin with {{, which YAML reads as a map in a map.")
		case key.Kind == List || key.Kind == Map:
			p.report(CodeKey, key.Span.Start-p.base, key.Span.End-p.base,
				"Write a plain key, and put lists and maps after its colon.",
				"A key must be a word or a string, not %s.", key.Kind.String())
		case n.Style&yaml.FlowStyle == 0 && n.Content[i].Style == 0 && value.Kind < List && p.gluedPair(key, node,
			seen):
		case n.Content[i].Tag == "!!merge":
			merges = append(merges, p.merged(value)...)
		default:
			if first := seen[key.Value]; first != nil {
				p.out.Errorf(CodeDuplicate, key.Span, "Keep one of the two, or give the second one another name.",
					"The key %q is written twice.", key.Value).Relate(first.Span, "first written here")
				node.repeated = append(node.repeated, key.Value)
				continue
			}
			seen[key.Value] = key
			node.Pairs = append(node.Pairs, Pair{Key: key, Value: value})
		}
	}
	for _, m := range merges {
		for _, pair := range m.Pairs {
			if seen[pair.Key.Value] == nil {
				seen[pair.Key.Value] = pair.Key
				node.Pairs = append(node.Pairs, pair)
			} else {
				node.repeated = append(node.repeated, pair.Key.Value)
			}
		}
	}
	end = p.close(n, '{', '}', start, end)
	node.Span = p.span(start, end)
	return node, end
}

// gluedPair parses a line without ": " between a key and a value in brackets, such as "tags [a: b]", which YAML takes
// for a pair with the key "tags [a".
func (p *yamlParser) gluedPair(key, parent *Node, seen map[string]*Node) bool {
	start := key.Span.Start - p.base
	content := strings.TrimRight(p.text[start:endOfLine(p.text, start)], " \t")
	name, bracket, ok := cutGlued(content)
	if !ok {
		return false
	}
	p.reportGlued(start, content, name, bracket)
	value, list := parseOnce(p.file, p.base+start+bracket, content[bracket:])
	if first := seen[name]; value != nil && first == nil && !list.Errors() {
		key.Value, key.Span = name, p.span(start, start+len(name))
		seen[name] = key
		parent.Pairs = append(parent.Pairs, Pair{Key: key, Value: value})
	}
	return true
}

// merged returns the maps in the value of a << key.
func (p *yamlParser) merged(value *Node) []*Node {
	maps := []*Node{value}
	if value.Kind == List {
		maps = value.Items
	}
	for _, m := range maps {
		if m.Kind != Map {
			if p.expanded > maxExpanded {
				return nil // an alias that was reported
			}
			p.report(CodeMerge, m.Span.Start-p.base, m.Span.End-p.base,
				`Let << point to a map, as in "<<: *defaults", or put the key in quotes if it is a name.`,
				"Only a map can be merged by <<, not %s.", m.Kind.String())
			return nil
		}
	}
	return maps
}

// scalar converts a scalar. An empty one is at behind, after its properties; all others begin at content.
func (p *yamlParser) scalar(n *yaml.Node, behind, content int) (*Node, int) {
	kind := p.kind(n, content)
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle
	const block = yaml.LiteralStyle | yaml.FoldedStyle
	switch {
	case n.Style&quoted != 0:
		end := closingQuote(p.text, content)
		inner, innerEnd := min(content+1, end), max(end-1, content)
		if innerEnd >= inner && p.text[inner:innerEnd] == n.Value {
			return p.new(kind, n.Value, inner, innerEnd), end
		}
		return p.inexact(kind, n.Value, content, end), end
	case n.Style&block != 0:
		return p.block(n, kind, content)
	case n.Value == "":
		return p.new(kind, "", behind, behind), behind // an empty value
	case strings.HasPrefix(p.text[content:], n.Value):
		end := content + len(n.Value)
		return p.new(kind, n.Value, content, end), end
	default:
		end := foldedEnd(p.text, content, n.Value)
		return p.inexact(kind, n.Value, content, end), end
	}
}

// inexact returns a scalar whose content differs from the text in the file. By the contract of Node the lengths must
// differ; if they are equal by accident, the span excludes the last byte.
func (p *yamlParser) inexact(kind Kind, value string, start, end int) *Node {
	if end-start == len(value) && end > start {
		end--
	}
	return p.new(kind, value, start, end)
}

// closingQuote returns the offset after the quotation mark that closes the one at start.
func closingQuote(s string, start int) int {
	if start >= len(s) {
		return len(s)
	}
	quote := s[start]
	for i := start + 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quote == '"':
			i++
		case s[i] == quote && quote == '\'' && i+1 < len(s) && s[i+1] == '\'':
			i++
		case s[i] == quote:
			return i + 1
		}
	}
	return len(s)
}

// foldedEnd returns the end of a plain scalar over several lines: the file has line breaks and indentation where value
// has a space or line breaks.
func foldedEnd(s string, start int, value string) int {
	at, v := start, 0
	for v < len(value) && at < len(s) {
		gap, broken := at, false
		for gap < len(s) {
			size := lineBreak(s[gap:])
			if size == 0 && !isSpace(s[gap]) {
				break
			}
			broken = broken || size > 0
			gap += max(size, 1)
		}
		if broken {
			for v < len(value) && (lineBreak(value[v:]) > 0 || value[v] == ' ') {
				v += max(lineBreak(value[v:]), 1)
			}
			at = gap
			continue
		}
		if s[at] != value[v] {
			break
		}
		at, v = at+1, v+1
	}
	return at
}

// block returns the node of a block scalar. Its content starts in the line after its header.
func (p *yamlParser) block(n *yaml.Node, kind Kind, header int) (*Node, int) {
	type line struct{ start, end int }
	var lines []line // of the content, without line breaks
	at := endOfLine(p.text, header)
	headerEnd := at
	lead := func(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }
	indent := -1
	for at < len(p.text) {
		at += lineBreak(p.text[at:])
		end := endOfLine(p.text, at)
		text := p.text[at:end]
		if strings.Trim(text, " ") != "" {
			if indent < 0 {
				indent = lead(text) - lead(strings.TrimLeft(n.Value, "\r\n"))
			}
			marker := strings.HasPrefix(text, "---") || strings.HasPrefix(text, "...")
			if lead(text) < indent || n.Value == "" || indent == 0 && marker {
				break
			}
			lines = append(lines, line{at, end})
		} else if at < len(p.text) {
			lines = append(lines, line{at, end})
		}
		at = end
	}
	for len(lines) > 0 && strings.Trim(p.text[lines[len(lines)-1].start:lines[len(lines)-1].end], " ") == "" {
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 {
		return p.inexact(kind, n.Value, header, headerEnd), headerEnd
	}
	start, end := lines[0].start, lines[len(lines)-1].end
	start += min(max(indent, 0), lead(p.text[start:lines[0].end]))
	for _, e := range [...]int{end, end + 1} {
		if e <= len(p.text) && p.text[start:e] == n.Value {
			return p.new(kind, n.Value, start, e), e
		}
	}
	return p.inexact(kind, n.Value, start, end), end
}

// kind returns the kind of a scalar.
func (p *yamlParser) kind(n *yaml.Node, at int) Kind {
	const text = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.Style&yaml.TaggedStyle == 0 {
		if n.Style&text != 0 || n.Tag == "!" {
			return String
		}
		return p.finite(n.Value, at)
	}
	switch n.Tag {
	case "!!str":
		return String
	case "!!null", "!!bool", "!!int", "!!float":
		if kind := p.finite(n.Value, at); kind == tagKinds[n.Tag] || kind == Int && n.Tag == "!!float" {
			return kind
		}
	}
	p.badTag(n)
	return String
}

// tagKinds are the types that a tag can give to a scalar.
var tagKinds = map[string]Kind{"!!null": Null, "!!bool": Bool, "!!int": Int, "!!float": Float}

// finite is like scalarKind and reports numbers that JSON cannot represent.
func (p *yamlParser) finite(s string, start int) Kind {
	if isEndless(s) {
		p.report(CodeNumber, start, start+len(s),
			fmt.Sprintf("Write a finite number, or %q in quotes if a string is meant.", s),
			"%s is not a number that a workflow can use.", s)
	}
	return scalarKind(s)
}

// checkTag reports a tag that is not the usual one of a list or map.
func (p *yamlParser) checkTag(n *yaml.Node, own string) {
	if n.Style&yaml.TaggedStyle != 0 && n.Tag != own {
		p.badTag(n)
	}
}

// badTag reports the tag of a node.
func (p *yamlParser) badTag(n *yaml.Node) {
	at := p.seek(n.Line, n.Column)
	if tag := strings.IndexByte(p.text[at:endOfLine(p.text, at)], '!'); tag >= 0 {
		at += tag // after an anchor
	}
	end := p.nameEnd(at)
	p.report(CodeTag, at, end,
		"Remove it, or put the whole value in quotes if the exclamation mark is part of the string.",
		"Unsupported tag %q.", p.text[at:end])
}
