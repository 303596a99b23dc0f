package web

import (
	"bytes"
	"encoding/json"
	"html/template"
	"regexp"
	"slices"
	"strings"
)

// valueView is a JSON value in the form that suits it: prose, a table or JSON. One of the forms is set.
type valueView struct {
	Blocks []block // of prose
	Head   []string
	Rows   [][]valueView
	JSON   json.RawMessage
	Plain  string // a short text or a number
}

// block is one part of prose.
type block struct {
	Kind  string // p, h, li or code
	Parts []part
}

type part struct {
	Text       string
	Bold, Code bool
}

// Limits of what is shown of one value.
const (
	maxRows    = 100
	maxText    = 200_000
	maxColumns = 8
)

// showValue chooses the form of a value: short texts and scalars as they are, long texts as prose, lists of flat
// objects as a table, and everything else as a JSON tree.
func showValue(raw json.RawMessage) valueView {
	raw = bytes.TrimSpace(raw)
	var text string
	if json.Unmarshal(raw, &text) == nil && len(raw) > 0 && raw[0] == '"' {
		if len(text) > maxText {
			text = text[:maxText] + "…"
		}
		text = visible(text)
		if !strings.Contains(text, "\n") && len(text) < 80 {
			return valueView{Plain: text}
		}
		return valueView{Blocks: prose(text)}
	}
	var list []map[string]json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 && len(list) <= maxRows {
		if v, ok := table(list); ok {
			return v
		}
	}
	if len(raw) > 0 && raw[0] != '{' && raw[0] != '[' {
		return valueView{Plain: string(raw)}
	}
	return valueView{JSON: raw}
}

// showReply chooses the form of what a model or a file says: JSON, or prose.
func showReply(text string) valueView {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		if raw := json.RawMessage(trimmed); json.Valid(raw) {
			return valueView{JSON: raw}
		}
	}
	return valueView{Blocks: prose(visible(text))}
}

// table returns a list of flat objects as a table; false if an object has a nested value or there are too many columns.
func table(list []map[string]json.RawMessage) (valueView, bool) {
	var v valueView
	for _, row := range list {
		for key, cell := range row {
			if len(cell) > 0 && (cell[0] == '{' || cell[0] == '[') {
				return v, false
			}
			if !slices.Contains(v.Head, key) {
				v.Head = append(v.Head, key)
			}
		}
	}
	slices.Sort(v.Head)
	if len(v.Head) == 0 || len(v.Head) > maxColumns {
		return v, false
	}
	for _, row := range list {
		var cells []valueView
		for _, key := range v.Head {
			cell := showValue(row[key])
			if len(row[key]) == 0 {
				cell = valueView{Plain: "—"}
			}
			cells = append(cells, cell)
		}
		v.Rows = append(v.Rows, cells)
	}
	return v, true
}

var inline = regexp.MustCompile("\\*\\*([^*\n]+)\\*\\*|`([^`\n]+)`")

// prose reads the small part of Markdown that helps reading: headings, lists, code, bold. Everything else, links and
// HTML included, stays the text that it is: a model must not be able to make a page load an image or lead a person
// away. A fence that is not closed extends to the end.
func prose(text string) []block {
	var out []block
	var lines []string
	flush := func() {
		if len(lines) > 0 {
			out = append(out, block{"p", parts(strings.Join(lines, "\n"))})
			lines = nil
		}
	}
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```"):
			flush()
			if fenced = !fenced; fenced {
				out = append(out, block{Kind: "code", Parts: []part{{}}})
			}
		case fenced:
			code := &out[len(out)-1].Parts[0]
			code.Text += line + "\n"
		case trimmed == "":
			flush()
		case strings.HasPrefix(trimmed, "#"):
			flush()
			out = append(out, block{"h", parts(strings.TrimLeft(trimmed, "# "))})
		case strings.HasPrefix(trimmed, "- "), strings.HasPrefix(trimmed, "* "):
			flush()
			out = append(out, block{"li", parts(trimmed[2:])})
		default:
			lines = append(lines, line)
		}
	}
	flush()
	return out
}

func parts(text string) []part {
	var out []part
	at := 0
	for _, m := range inline.FindAllStringSubmatchIndex(text, -1) {
		if m[0] > at {
			out = append(out, part{Text: text[at:m[0]]})
		}
		if m[2] >= 0 {
			out = append(out, part{Text: text[m[2]:m[3]], Bold: true})
		} else {
			out = append(out, part{Text: text[m[4]:m[5]], Code: true})
		}
		at = m[1]
	}
	if at < len(text) {
		out = append(out, part{Text: text[at:]})
	}
	return out
}

// inlineHTML marks a picture as HTML that the template need not escape. Only pictures of internal/graph may be passed,
// which escapes the texts that it draws.
func inlineHTML(svg []byte) template.HTML { return template.HTML(svg) }
