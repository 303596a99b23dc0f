package text

import (
	"fmt"
	"maps"

	"github.com/espalier-run/espalier/internal/diag"
)

// Shape declares the keys of one kind of map. A format has one table of shapes: its parser can read no other keys,
// messages suggest these keys and values, and the JSON Schema for editors is generated from them.
type Shape struct {
	fields []Field
	index  map[string]*Field
	// Open shapes accept other keys, for example names that the author chooses.
	open bool
}

// Field is one key of a Shape.
type Field struct {
	Name, Doc string
	Form      Form
	Required  bool
	Choices   []string // the allowed strings; nil if any
	Pattern   string   // a regular expression for a string; empty if any
	Shape     *Shape   // of an Object, or of the entries of Objects
	// Hidden keys are accepted, but not offered: deprecated spellings.
	Hidden bool
	// More are further keywords of the JSON Schema. They replace generated ones.
	More map[string]any
}

// Form is the form of a value in a JSON Schema.
type Form int

// The forms.
const (
	AString Form = iota
	ABool
	AnInt
	ANumber
	Strings // a list of strings
	AMap    // any map
	AList   // any list
	Object  // a map with a Shape
	Objects // a list of such maps
	AnyForm
)

// NewShape returns a shape that accepts the given keys alone.
func NewShape(fields ...Field) *Shape {
	s := &Shape{fields: fields, index: make(map[string]*Field, len(fields))}
	for i := range fields {
		if s.index[fields[i].Name] != nil {
			panic(fmt.Sprintf("text: a shape declares %q twice", fields[i].Name)) // a mistake in a table
		}
		s.index[fields[i].Name] = &fields[i]
	}
	return s
}

// Open makes a shape accept other keys, too.
func (s *Shape) Open() *Shape {
	s.open = true
	return s
}

// Field returns the declaration of a key. It panics if there is none: a parser can read declared keys alone.
func (s *Shape) Field(key string) *Field {
	f := s.index[key]
	if f == nil {
		panic(fmt.Sprintf("text: the key %q is read, but not declared", key)) // a mistake in a table
	}
	return f
}

// Hidden returns the hidden keys.
func (s *Shape) Hidden() []string {
	var out []string
	for i := range s.fields {
		if s.fields[i].Hidden {
			out = append(out, s.fields[i].Name)
		}
	}
	return out
}

// Read returns a Reader of a map. what names the map in messages.
func (s *Shape) Read(n *Node, what string, codes Codes, out *diag.List) *Reader {
	r := Read(n, what, codes, out)
	r.shape = s
	return r
}

// Schema returns the JSON Schema of the shape.
func (s *Shape) Schema() map[string]any {
	properties := map[string]any{}
	var required []string
	for i := range s.fields {
		f := &s.fields[i]
		if f.Hidden {
			continue
		}
		properties[f.Name] = f.schema()
		if f.Required {
			required = append(required, f.Name)
		}
	}
	out := map[string]any{"type": "object", "properties": properties}
	if required != nil {
		out["required"] = required
	}
	if !s.open {
		out["additionalProperties"] = false
	}
	return out
}

func (f *Field) schema() map[string]any {
	out := map[string]any{}
	switch f.Form {
	case AString:
		out["type"] = "string"
	case ABool:
		out["type"] = "boolean"
	case AnInt:
		out["type"] = "integer"
	case ANumber:
		out["type"] = "number"
	case Strings:
		out["type"], out["items"] = "array", map[string]any{"type": "string"}
	case AMap:
		out["type"] = "object"
	case AList:
		out["type"] = "array"
	case Object:
		out = f.Shape.Schema()
	case Objects:
		out["type"], out["items"] = "array", f.Shape.Schema()
	}
	switch {
	case len(f.Choices) == 1:
		out = map[string]any{"const": f.Choices[0]}
	case len(f.Choices) > 1:
		out = map[string]any{"enum": f.Choices}
	case f.Pattern != "":
		out["pattern"] = f.Pattern
	}
	if f.Doc != "" {
		out["description"] = f.Doc
	}
	maps.Copy(out, f.More)
	return out
}
