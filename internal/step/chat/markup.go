package chat

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Models put their answers into XML elements, Markdown lists and Markdown tables, also if a prompt asks for JSON.

// answerTags are the elements that models put an answer into.
var answerTags = []string{"answer", "finalanswer", "final", "result", "output", "response", "reply", "json"}

// reasoningTags are the elements that models put their reasoning into, before the answer.
var reasoningTags = []string{
	"think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "analysis",
}

// openTag matches the start of an XML element.
var openTag = lazyregexp.New(`<([A-Za-z_][A-Za-z0-9_-]*)(?:\s[^<>]*)?>`)

// element finds the first XML element whose name matches. Names are compared as plainKey returns them.
func element(text string, match func(name string) bool) (start, end int, inner string, ok bool) {
	for _, tag := range openTag().FindAllStringSubmatchIndex(text, -1) {
		name := text[tag[2]:tag[3]]
		if !match(plainKey(name)) {
			continue
		}
		closing := "</" + name + ">"
		if length := strings.Index(text[tag[1]:], closing); length >= 0 {
			end := tag[1] + length
			return tag[0], end + len(closing), strings.TrimSpace(text[tag[1]:end]), true
		}
	}
	return 0, 0, "", false
}

// elements returns the contents of the XML elements whose names match.
func elements(text string, match func(name string) bool) []string {
	var out []string
	for {
		_, end, inner, ok := element(text, match)
		if !ok {
			return out
		}
		out = append(out, inner)
		text = text[end:]
	}
}

// onlyElement returns the content of the only XML element of a text. It reports false unless the element is on lines of
// its own and contains no other one.
func onlyElement(text string) (string, bool) {
	start, end, inner, ok := element(text, func(string) bool { return true })
	if !ok || len(openTag().FindAllStringIndex(text, 2)) > 1 {
		return "", false
	}
	before, after := strings.TrimRight(text[:start], " \t"), strings.TrimLeft(text[end:], " \t\r")
	return inner, (before == "" || strings.HasSuffix(before, "\n")) && (after == "" || after[0] == '\n')
}

// withoutReasoning returns a reply without the elements that contain reasoning, unless nothing else is left.
func withoutReasoning(text string) string {
	rest := text
	for {
		start, end, _, ok := element(rest, func(name string) bool { return slices.Contains(reasoningTags, name) })
		if !ok {
			break
		}
		rest = rest[:start] + "\n" + rest[end:]
	}
	if rest = strings.TrimSpace(rest); rest == "" {
		return text
	}
	return rest
}

// bullet matches an item of a Markdown list at the start of a line.
var bullet = lazyregexp.New(`^(?:[-*•+]|\d+[.)])\s+(\S.*)$`)

// parseBullets reads the only Markdown list of a text as a list of texts or of JSON values. Other text may precede and
// follow the list.
func parseBullets(text string, n *schema.Node) (json.RawMessage, bool) {
	if !wants(n, "array") {
		return nil, false
	}
	var items []any
	ended := false // other text follows
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		m := bullet().FindStringSubmatch(line)
		switch {
		case line == "":
		case m != nil && ended:
			return nil, false // a second list
		case m == nil && len(items) > 0 && strings.TrimLeft(line, " \t") != line:
			return nil, false // a list inside the list, or a second line of an item
		case m == nil:
			ended = len(items) > 0
		case isText(n.Items):
			items = append(items, m[1])
		default:
			items = append(items, jsonOrText(m[1]))
		}
	}
	return step.JSON(items), len(items) > 0
}

// jsonOrText returns the JSON value that a text is, or the text.
func jsonOrText(text string) any {
	if value, ok := parse(text); ok {
		return value
	}
	return text
}

// parseTable reads the only Markdown table of a text as a list. It has a column for each property, and an item in each
// row.
func parseTable(text string, n *schema.Node) (json.RawMessage, bool) {
	header, rows, ok := table(text)
	if !ok || !wants(n, "array") {
		return nil, false
	}
	var items []map[string]any
	for _, row := range rows {
		one, ok := propertiesOf(header, row, target(n.Items))
		if !ok {
			return nil, false
		}
		items = append(items, one)
	}
	return step.JSON(items), len(items) > 0
}

// tableObject reads the only Markdown table of a text as an object, nil if it is none. The table has a column for each
// property and one row, or two columns: one for the names of properties and one for their values. alone reports whether
// the text is nothing but the table.
func tableObject(text string, n *schema.Node) (object map[string]any, alone bool) {
	header, rows, ok := table(text)
	if !ok {
		return nil, false
	}
	alone = strings.Count(text, "\n") == len(rows)+1
	if len(rows) == 1 {
		if object, ok = propertiesOf(header, rows[0], n); ok {
			return object, alone
		}
	}
	if len(header) != 2 {
		return nil, false
	}
	var names, values []string
	for _, row := range rows {
		names, values = append(names, row[0]), append(values, row[1])
	}
	if object, ok = propertiesOf(names, values, n); !ok {
		return nil, false
	}
	return object, alone
}

// propertiesOf returns the properties of an object that are among names, with their values. It reports false if there
// are none, or one has two values.
func propertiesOf(names, values []string, n *schema.Node) (map[string]any, bool) {
	out := map[string]any{}
	if n == nil || !wants(n, "object") {
		return nil, false
	}
	for property := range n.Properties {
		for i, name := range names {
			if plainKey(name) != plainKey(property) {
				continue
			}
			if _, twice := out[property]; twice {
				return nil, false
			}
			out[property] = values[i]
		}
	}
	return out, len(out) > 0
}

// ruler matches the line below the header of a Markdown table.
var ruler = lazyregexp.New(`^\|?(?:\s*:?-+:?\s*\|?)+$`)

// table returns the cells of the only Markdown table of a text.
func table(text string) (header []string, rows [][]string, ok bool) {
	var all [][]string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "|") {
			all = append(all, cells(line))
			if ruler().MatchString(line) && len(all) != 2 {
				return nil, nil, false // a second table
			}
		}
	}
	if len(all) < 3 || !ruler().MatchString(strings.Join(all[1], "|")) {
		return nil, nil, false
	}
	for _, row := range all[2:] {
		if len(row) != len(all[0]) {
			return nil, nil, false
		}
	}
	return all[0], all[2:], true
}

// cells returns the cells of a row, without the marks for bold and code.
func cells(line string) []string {
	return xslices.Map(strings.Split(strings.Trim(line, "|"), "|"), func(cell string) string {
		return strings.TrimSpace(strings.Trim(strings.TrimSpace(cell), "*`"))
	})
}
