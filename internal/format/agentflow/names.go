package agentflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xmaps"
)

// namespaces are the roots of names that need no resolution.
var namespaces = []string{"input", "state", "output", "workflow"}

// bareFields are the frontmatter fields that a condition may name without a namespace (F1).
var bareFields = []string{"risk_profile", "status", "version", "name", "owner", "category"}

// nameTable resolves bare names in conditions (F1).
type nameTable struct {
	fields map[string]bool // of the frontmatter
	input  map[string]bool // properties of the input's schema
	// inputKnown is set if the schema lists its properties. Otherwise any name may be an input
	// property.
	inputKnown bool
	state      map[string]bool // first segments of the keys that steps write
	reported   map[string]bool // names with a note about their meaning
}

// nameTable collects the meanings of bare names, which must be complete before the first condition is compiled.
func (l *lowering) nameTable() nameTable {
	t := nameTable{
		fields: map[string]bool{}, input: map[string]bool{}, state: map[string]bool{},
		reported: map[string]bool{},
	}
	for _, name := range bareFields {
		t.fields[name] = l.doc.head.has(name)
	}
	if l.p.Input != nil {
		var schema struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if json.Unmarshal(l.p.Input.Schema, &schema) == nil && schema.Properties != nil {
			t.inputKnown = true
			for name := range schema.Properties {
				t.input[name] = true
			}
		}
	}
	for _, s := range l.doc.steps {
		for _, w := range s.words("writes") {
			if key, ok := strings.CutPrefix(w.Value, "state."); ok {
				first, _, _ := strings.Cut(key, ".")
				t.state[first] = true
			}
		}
	}
	return t
}

// meaning returns the path that a bare name resolves to, or "".
func (t *nameTable) meaning(name string) string {
	switch {
	case t.fields[name]:
		return "workflow." + name
	case t.input[name]:
		return "input." + name
	case t.state[name]:
		return "state." + name
	case !t.inputKnown:
		return "input." + name
	default:
		return ""
	}
}

// condition parses a condition and resolves its bare names.
func (l *lowering) condition(t text.Text) *expr.Expr {
	if t.IsZero() {
		return nil
	}
	e, list := expr.Parse(expr.AgentFlow, t.Value, t.Span)
	l.add(list)
	if list.Errors() {
		return nil // its names are unknown
	}
	for _, path := range e.Paths() {
		name := path.Written[0]
		if slices.Contains(namespaces, name) {
			continue
		}
		meaning := l.names.meaning(name)
		if meaning == "" {
			continue
		}
		xmaps.Set(&e.Names, name, meaning)
		if l.names.reported[name] {
			continue
		}
		l.names.reported[name] = true
		if l.doc.unread.Header {
			continue // the unreadable header may define it
		}
		if l.names.fields[name] && l.names.input[name] {
			found := l.out.Warnf(CodeAmbiguous, path.Span,
				fmt.Sprintf("Use \"workflow.%s\" or \"input.%s\".", name, name),
				"%q is both a frontmatter field and an input property; it means %s.", name, meaning)
			writeName(found, path, meaning)
			for _, other := range []string{"workflow." + name, "input." + name} {
				if other != meaning {
					writeName(found, path, other)
				}
			}
			continue
		}
		found := l.out.Notef(CodeBound, path.Span, fmt.Sprintf("Use \"%s\" to make it explicit.", meaning),
			"%q means %s.", name, meaning)
		writeName(found, path, meaning)
	}
	return e
}

// writeName adds a fix that replaces the first part of a name in an expression. There is none if the place of the name
// is not known exactly.
func writeName(found *diag.Diagnostic, path expr.Path, meaning string) {
	written := strings.Join(path.Written, ".")
	if name := path.Written[0]; path.Span.End-path.Span.Start == len(written) {
		found.Rewrite(path.Span, written, meaning+strings.TrimPrefix(written, name))
	}
}
