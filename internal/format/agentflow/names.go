package agentflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/text"
)

var namespaces = []string{"input", "state", "output", "workflow"}

// bareFields are the fields of the frontmatter that a condition may name
// without a namespace (F1).
var bareFields = []string{"risk_profile", "status", "version", "name", "owner", "category"}

// nameTable is what bare names in conditions can stand for (F1).
type nameTable struct {
	fields map[string]bool // of the frontmatter
	input  map[string]bool // properties of the input's schema
	// inputKnown says that the schema lists its properties; without it any
	// name may be one.
	inputKnown bool
	state      map[string]bool // first segments of the keys that steps write
	told       map[string]bool // names that a note was given for
}

func (l *lowering) nameTable() nameTable {
	t := nameTable{fields: map[string]bool{}, input: map[string]bool{}, state: map[string]bool{}, told: map[string]bool{}}
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

// meaning is what a bare name stands for; "" when it stands for nothing.
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

// condition parses a condition and says what its bare names stand for.
func (l *lowering) condition(t text.Text) *expr.Expr {
	if t.IsZero() {
		return nil
	}
	e, list := expr.Parse(expr.AgentFlow, t.Value, t.Span)
	l.add(list)
	if list.Errors() {
		return nil // what it asks for is not known
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
		if e.Names == nil {
			e.Names = map[string]string{}
		}
		e.Names[name] = meaning
		if l.names.told[name] {
			continue
		}
		l.names.told[name] = true
		if l.doc.unread.Header {
			continue // what it stands for may be said there
		}
		if l.names.fields[name] && l.names.input[name] {
			l.report(CodeAmbiguous, diag.Warning, path.Span, fmt.Sprintf("%q is both a field of the frontmatter and a property of the input; it is read as %s.", name, meaning),
				fmt.Sprintf("Write \"workflow.%s\" or \"input.%s\".", name, name))
			continue
		}
		l.report(CodeBound, diag.Note, path.Span, fmt.Sprintf("%q is read as %s.", name, meaning), fmt.Sprintf("Write \"%s\" to say so.", meaning))
	}
	return e
}
