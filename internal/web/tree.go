package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"strings"

	"github.com/espalier-run/espalier/internal/report"
)

// Limits of a JSON tree: how many values it shows, and how deep it is open.
const (
	maxNodes  = 2000
	openDepth = 3
)

// node is a value of a JSON document. Members keep their order. key and text are HTML that is escaped already.
type node struct {
	key      string // HTML
	text     string // HTML; of a container, its first character
	end      string // of a container, its last character
	children []*node
}

// jsonTree returns JSON as a tree that folds, with its parts marked for the style sheet. Text that is not JSON is shown
// as it is. The tree is built from tokens, because decoding into maps would lose the order of members, and numbers keep
// their digits.
func jsonTree(raw json.RawMessage) template.HTML {
	if !json.Valid(raw) {
		return template.HTML(template.HTMLEscapeString(visible(string(raw))))
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	left := maxNodes
	var out strings.Builder
	// readNode counts left down for each value; below zero, the rest was left out.
	readNode(decoder, &left).write(&out, "", 0)
	if left < 0 {
		out.WriteString(`<div class="c">The value is longer than this.</div>`)
	}
	return template.HTML(out.String())
}

// readNode reads the next value of valid JSON. It returns nil if there are too many values; it still reads them, so
// that the decoder stays at the right place.
func readNode(decoder *json.Decoder, left *int) *node {
	token, err := decoder.Token()
	if err != nil {
		return nil
	}
	*left--
	n := &node{}
	switch x := token.(type) {
	case json.Delim:
		n.text, n.end = x.String(), map[json.Delim]string{'{': "}", '[': "]"}[x]
		for decoder.More() {
			key := ""
			if x == '{' {
				name, _ := decoder.Token() // a key is a string
				key = markup("k", quoted(fmt.Sprint(name))) + ": "
			}
			if child := readNode(decoder, left); child != nil {
				child.key = key
				n.children = append(n.children, child)
			}
		}
		_, _ = decoder.Token() // the end of the container
	case string:
		n.text = markup("s", quoted(x))
	case nil:
		n.text = markup("n", "null")
	default:
		n.text = markup("n", fmt.Sprint(x))
	}
	if *left < 0 {
		return nil
	}
	return n
}

// write writes the value as HTML. after is what follows it: a comma, or nothing. The summary of a folded container has
// the number of its members.
func (n *node) write(out *strings.Builder, after string, depth int) {
	if n == nil {
		return
	}
	if len(n.children) == 0 {
		fmt.Fprintf(out, "<div>%s%s%s%s</div>", n.key, n.text, n.end, after)
		return
	}
	open := ""
	if depth < openDepth {
		open = " open"
	}
	fmt.Fprintf(out, `<details%s><summary>%s%s<i>%s%s%s</i></summary><div class="in">`,
		open, n.key, n.text, report.Number(len(n.children)), n.end, after)
	for i, child := range n.children {
		comma := ","
		if i == len(n.children)-1 {
			comma = ""
		}
		child.write(out, comma, depth+1)
	}
	fmt.Fprintf(out, "</div><div>%s%s</div></details>", n.end, after)
}

func markup(class, text string) string {
	return fmt.Sprintf(`<span class="%s">%s</span>`, class, template.HTMLEscapeString(visible(text)))
}

// quoted returns a text as JSON, without escapes that only HTML needs.
func quoted(text string) string {
	raw, _ := json.Marshal(text) // strings always encode
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(raw))
}
