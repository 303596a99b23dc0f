package nof

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/python"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xslices"
)

// stateSchema is the state schema (section 7).
type stateSchema struct {
	name   string
	at     source.Span
	fields []field
	// open is set if the file has no schema: the fields are those that the nodes use.
	open bool
}

// field is one field of the state.
type field struct {
	name    string
	at      source.Span
	kind    fieldType
	reducer string // "", or one of the constants below
}

// The reducers.
const (
	reduceAppend = "append" // appends lists
	reduceMerge  = "merge"  // merges dicts
	reduceAdd    = "add"    // adds numbers, concatenates strings
)

// fieldType is a type annotation.
type fieldType struct {
	name string // str, int, float, bool, list, dict, any
	elem *fieldType
	null bool // may be None
}

// accumulators are the required fields of every schema, with their types.
var accumulators = []struct{ name, written string }{
	{"recommendations", "Annotated[List[Dict[str, Any]], operator.add]"},
	{"rules_applied", "Annotated[List[str], operator.add]"},
	{"meta_insights", "Annotated[List[str], operator.add]"},
	{"errors", "Annotated[List[str], operator.add]"},
}

// accumulator returns a required field of the schema.
func accumulator(name string, at source.Span) field {
	return field{name: name, at: at, kind: fieldType{name: "list"}, reducer: reduceAppend}
}

// find returns a field, or nil.
func (s *stateSchema) find(name string) *field {
	return xslices.FindPointer(s.fields, func(one *field) bool { return one.name == name })
}

// names returns the names of all fields.
func (s *stateSchema) names() []string {
	return xslices.Map(s.fields, func(f field) string { return f.name })
}

// refs returns reads of all fields.
func (s *stateSchema) refs() []ir.Ref {
	return xslices.Map(s.fields, func(f field) ir.Ref { return ir.Ref{Path: statePath(f.name), Span: f.at} })
}

// zeros are the initial values of fields by their types, as JSON.
var zeros = map[string]string{
	"str": `""`, "int": "0", "float": "0.0", "bool": "false", "list": "[]", "dict": "{}",
}

// zero returns the initial value of a field.
func (t fieldType) zero() json.RawMessage {
	if t.null {
		return json.RawMessage("null")
	}
	return json.RawMessage(cmp.Or(zeros[t.name], "null"))
}

// python returns the type for the analysis of code.
func (t fieldType) python() *python.Type {
	out := &python.Type{Name: t.name, Null: t.null}
	if t.elem != nil {
		out.Elem = t.elem.python()
	}
	return out
}

// jsonTypes are the types as JSON Schema names them.
var jsonTypes = map[string]string{
	"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object",
}

// schema returns the type as a JSON Schema.
func (t fieldType) schema() map[string]any {
	kind := jsonTypes[t.name]
	out := map[string]any{}
	switch {
	case kind == "":
		return out
	case t.null:
		out["type"] = []string{kind, "null"}
	default:
		out["type"] = kind
	}
	if t.elem != nil && t.elem.name != "any" {
		key := "items"
		if t.name == "dict" {
			key = "additionalProperties"
		}
		out[key] = t.elem.schema()
	}
	return out
}

// text returns the type in the short form that the step kind parses: "list[float]".
func (t fieldType) text() string {
	out := t.name
	if t.elem != nil {
		out += "[" + t.elem.text() + "]"
	}
	if t.null {
		out += "?"
	}
	return out
}

// readState parses the class of the schema.
func (d *document) readState(m *python.Module, out *diag.List) {
	var class *python.ClassDef
	var all []string
	for _, s := range m.Body {
		c, ok := s.(*python.ClassDef)
		if !ok || !c.IsTypedDict() {
			continue
		}
		all = append(all, c.Name)
		if class == nil || c.Name == d.stateSchema.Value {
			class = c
		}
	}
	if class == nil {
		if !d.unread {
			out.Errorf(CodeSchema, d.sections[stateSection].heading.Span,
				"Add \"class NAME(TypedDict):\" with a line for each field.",
				"The state schema has no TypedDict class.")
		}
		return
	}
	s := &stateSchema{name: class.Name, at: d.span(m, class.NameAt)}
	switch {
	case d.stateSchema.IsZero():
		out.Warnf(CodeSchema, s.at, fmt.Sprintf("Add \"state_schema: %s\" to the frontmatter.", class.Name),
			"The frontmatter does not name the state schema %q.", class.Name).
			AddEntry(d.meta.PlaceFor("state_schema"), "state_schema", class.Name)
	case d.stateSchema.Value != class.Name:
		out.Errorf(CodeSchema, d.stateSchema.Span, "", "TypedDict %q is not defined.", d.stateSchema.Value).
			Relate(s.at, "the defined class").Suggest(d.stateSchema.Value, all)
	}
	for _, line := range class.Body {
		switch line := line.(type) {
		case *python.AnnAssign:
			name, ok := line.Target.(*python.Name)
			if !ok {
				continue
			}
			f := field{name: name.ID, at: d.span(m, name.Where())}
			f.kind, f.reducer = d.annotation(m, line.Type, out)
			if first := s.find(f.name); first != nil {
				out.Errorf(CodeSchema, f.at, "Remove one of the two.", "Duplicate field %q.", f.name).
					Relate(first.at, "the first one")
				continue
			}
			s.fields = append(s.fields, f)
		case *python.ExprStmt, *python.Jump: // a docstring or pass
		default:
			out.Errorf(CodeSchema, d.span(m, line.Where()), "Use only lines such as \"score: float\".",
				"The state schema contains something other than fields.")
		}
	}
	for _, a := range accumulators {
		f := s.find(a.name)
		switch {
		case f == nil:
			found := out.Errorf(CodeAccumulator, s.at, fmt.Sprintf("Add \"%s: %s\".", a.name, a.written),
				"The state schema has no accumulator %q.", a.name)
			d.addField(found, m, class, a.name+": "+a.written)
			s.fields = append(s.fields, accumulator(a.name, s.at))
		case f.kind.name != "list" || f.reducer != reduceAppend:
			found := out.Errorf(CodeAccumulator, f.at, fmt.Sprintf("Use \"%s: %s\".", a.name, a.written),
				"%q is not an appended list.", a.name)
			for _, line := range class.Body {
				if line, ok := line.(*python.AnnAssign); ok && d.span(m, line.Target.Where()) == f.at {
					found.Write(d.span(m, line.Type.Where()), a.written)
				}
			}
			*f = accumulator(a.name, f.at)
		}
	}
	d.state = s
}

// addField adds a fix that writes a field below the last line of the class.
func (d *document) addField(found *diag.Diagnostic, m *python.Module, class *python.ClassDef, written string) {
	if len(class.Body) == 0 {
		return
	}
	last, all := d.span(m, class.Body[len(class.Body)-1].Where()), d.file.Text
	line := strings.LastIndexByte(all[:last.Start], '\n') + 1
	end := strings.IndexByte(all[last.End:], '\n')
	if indent := all[line:last.Start]; end >= 0 && line > 0 && indent != "" && strings.TrimSpace(indent) == "" {
		end += last.End
		rest, lineEnd := all[last.End:end], "\n"
		if strings.HasSuffix(rest, "\r") {
			end, rest, lineEnd = end-1, strings.TrimSuffix(rest, "\r"), "\r\n"
		}
		if rest = strings.TrimSpace(rest); rest == "" || rest[0] == '#' {
			found.Change(fmt.Sprintf("Add %q", written), lineEnd+indent+written, d.file.Span(end, end))
		}
	}
}

// annotation parses a type and its reducer.
func (d *document) annotation(m *python.Module, x python.Expr, out *diag.List) (fieldType, string) {
	if index, ok := x.(*python.Index); ok && lastName(index.X) == "Annotated" {
		parts, ok := index.Key.(*python.Seq)
		if !ok || len(parts.Items) < 2 {
			out.Errorf(CodeAnnotation, d.span(m, x.Where()), "Use Annotated[List[str], operator.add].",
				"Annotated has no type or no reducer.")
			return fieldType{name: "any"}, ""
		}
		t := d.typeOf(m, parts.Items[0], out)
		return t, d.reducer(m, t, parts.Items[1], out)
	}
	return d.typeOf(m, x, out), ""
}

// reducer parses the reducer of a field, which has to fit its type.
func (d *document) reducer(m *python.Module, t fieldType, x python.Expr, out *diag.List) string {
	name := lastName(x)
	switch {
	case name == "add" && t.name == "list":
		return reduceAppend
	case name == "add" && slices.Contains([]string{"int", "float", "str"}, t.name):
		return reduceAdd
	case (name == "or_" || name == "ior") && t.name == "dict":
		return reduceMerge
	}
	out.Errorf(CodeAnnotation, d.span(m, x.Where()),
		"Use operator.add for lists, numbers and strings, or operator.or_ for dicts.",
		"The reducer does not apply to a field of type %s.", t.text())
	if t.name == "list" {
		return reduceAppend
	}
	return ""
}

// lastName returns x for a.b.x.
func lastName(x python.Expr) string {
	switch x := x.(type) {
	case *python.Name:
		return x.ID
	case *python.Attr:
		return x.Name
	}
	return ""
}

// typeOf parses a type.
func (d *document) typeOf(m *python.Module, x python.Expr, out *diag.List) fieldType {
	anything := fieldType{name: "any"}
	switch x := x.(type) {
	case *python.Const:
		if x.Value == nil {
			return fieldType{name: "any", null: true}
		}
		if s, ok := x.Value.(string); ok { // a quoted type
			return fieldType{name: simpleType(s)}
		}
	case *python.Binary:
		if x.Op == "|" {
			a, b := d.typeOf(m, x.X, out), d.typeOf(m, x.Y, out)
			switch {
			case b.name == "any" && b.null:
				a.null = true
				return a
			case a.name == "any" && a.null:
				b.null = true
				return b
			}
			return anything
		}
	case *python.Name, *python.Attr:
		if t := simpleType(lastName(x)); t != "" {
			return fieldType{name: t}
		}
	case *python.Index:
		name := lastName(x.X)
		args := []python.Expr{x.Key}
		if s, ok := x.Key.(*python.Seq); ok && s.Kind == '(' {
			args = s.Items
		}
		switch t := simpleType(name); {
		case t == "list":
			elem := d.typeOf(m, args[0], out)
			return fieldType{name: "list", elem: &elem}
		case t == "dict":
			elem := d.typeOf(m, args[len(args)-1], out)
			return fieldType{name: "dict", elem: &elem}
		case name == "Optional":
			t := d.typeOf(m, args[0], out)
			t.null = true
			return t
		case name == "Literal":
			if _, isText := literalText(args[0]); isText {
				return fieldType{name: "str"}
			}
			return anything
		case name == "Union", name == "NotRequired", name == "Required":
			if len(args) == 1 {
				return d.typeOf(m, args[0], out)
			}
			return anything
		}
	}
	out.Errorf(CodeAnnotation, d.span(m, x.Where()),
		"Use str, int, float, bool, List, Dict, Optional or Any. The state is stored as JSON.",
		"The type is not supported for state fields.")
	return anything
}

// simpleType returns the type of a field for a name of Python; "" if it is not supported.
func simpleType(name string) string {
	switch name {
	case "str", "int", "float", "bool":
		return name
	case "list", "List", "Sequence", "Iterable", "tuple", "Tuple", "set", "Set":
		return "list"
	case "dict", "Dict", "Mapping":
		return "dict"
	case "Any", "object":
		return "any"
	}
	return ""
}

// openState returns the schema of a file without one: the accumulators, and the fields that the
// nodes use.
func (d *document) openState() *stateSchema {
	s := &stateSchema{open: true, at: d.name.Span}
	for _, a := range accumulators {
		s.fields = append(s.fields, accumulator(a.name, d.name.Span))
	}
	add := func(name string, at source.Span) {
		if s.find(name) == nil {
			s.fields = append(s.fields, field{name: name, at: at, kind: fieldType{name: "any"}})
		}
	}
	for _, n := range d.nodes {
		for _, use := range slices.Concat(n.reads, n.writes) {
			add(use.Value, use.Span)
		}
	}
	if d.pipeline != nil {
		for _, one := range d.pipeline.initial {
			add(one.name, one.at)
		}
	}
	return s
}
