package text

import (
	"fmt"
	"maps"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Shape declares the keys of one kind of map. A format has one table of shapes: its parser can read no other keys,
// messages suggest these keys and values, and the JSON Schema for editors is generated from them.
type Shape struct {
	What   string // such a map in messages: "step"
	Doc    string
	Fields []Field // do not change them
	index  map[string]*Field
	// IsOpen is set if the shape accepts other keys, for example names that the author chooses.
	IsOpen bool
	// Guards is set if every key restricts what a run may do.
	Guards bool
}

// Field is one key of a Shape.
type Field struct {
	Name, Doc string
	Form      Form
	Required  bool
	Choices   []string // the allowed strings; nil if any
	Pattern   string   // a regular expression for a string; empty if any
	Min       int      // the least value of an integer
	Shape     *Shape   // of an Object, or of the entries of Objects
	Types     []string // the types of step that use the key; nil if all
	// Remark keys inform readers only; a run does not depend on them.
	Remark bool
	// Condition keys contain an expression.
	Condition bool
	// Guards is set if the key restricts what a run may do. An unknown key that is probably this one is an error: a run
	// without the restriction must not start.
	Guards bool
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
	Strings      // a list of strings
	OneOrStrings // a string, or a list of strings
	OneOrInts    // an integer, or a list of integers
	AMap         // any map
	AList        // any list
	Object       // a map with a Shape
	Objects      // a list of such maps
	AnyForm
)

// NewShape returns a shape that accepts the given keys alone.
func NewShape(fields ...Field) *Shape {
	s := &Shape{Fields: fields, index: make(map[string]*Field, len(fields))}
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
	s.IsOpen = true
	return s
}

// Guard marks a shape whose keys all restrict what a run may do.
func (s *Shape) Guard() *Shape {
	s.Guards = true
	return s
}

// Find returns the declaration of a key, or nil.
func (s *Shape) Find(key string) *Field { return s.index[key] }

// Names returns the keys.
func (s *Shape) Names() []string {
	return xslices.Map(s.Fields, func(one Field) string { return one.Name })
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
	return names(s.Fields, func(f Field) bool { return f.Hidden })
}

// names returns the names of some fields.
func names(fields []Field, which func(Field) bool) []string {
	return xslices.Map(xslices.Filter(fields, which), func(f Field) string { return f.Name })
}

// section returns the first section of the shape that has the key, other than one; nil if there is none.
func (s *Shape) section(key string, other *Shape) *Field {
	if s == nil {
		return nil
	}
	for i := range s.Fields {
		if f := &s.Fields[i]; f.Form == Object && f.Shape != other && f.Shape.index[key] != nil {
			return f
		}
	}
	return nil
}

// Home is where a misplaced key belongs.
type Home struct {
	Help    string
	Section *Shape // all keys of which are probably misplaced; nil if only the one is
	Guards  bool   // the key restricts what a run may do
}

// HomeOf returns where an unknown key of a map belongs: beside the map, in a section beside it, or in a section of its
// own. The map is the value of what in parent, which may be nil.
func (s *Shape) HomeOf(p Pair, what string, parent *Shape) (Home, bool) {
	key := p.Key.Value
	if parent != nil && parent.index[key] != nil {
		f := parent.index[key]
		home := Home{Help: fmt.Sprintf("Move it next to %q: give both the same indentation.", what), Guards: f.Guards}
		if f.Form == Object && p.Value.Kind == Null {
			home.Section = f.Shape
			home.Help = fmt.Sprintf("Move it next to %q: give both the same indentation, and indent its keys more.",
				what)
		}
		return home, true
	}
	if f := parent.section(key, s); f != nil {
		help := fmt.Sprintf("Move it under %q; check the keys next to it, too.", f.Name)
		return Home{Help: help, Section: f.Shape, Guards: f.Shape.Guards}, true
	}
	if f := s.section(key, nil); f != nil {
		return Home{Help: fmt.Sprintf("Indent it below %q.", f.Name), Guards: f.Shape.Guards}, true
	}
	return Home{}, false
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
	for i := range s.Fields {
		f := &s.Fields[i]
		if f.Hidden {
			continue
		}
		properties[f.Name] = f.schema()
		if f.Required {
			required = append(required, f.Name)
		}
	}
	out := map[string]any{"type": "object", "properties": properties}
	if s.Doc != "" {
		out["description"] = s.Doc
	}
	if required != nil {
		out["required"] = required
	}
	if !s.IsOpen {
		out["additionalProperties"] = false
	}
	return out
}

// aString is the schema of a string.
var aString = map[string]any{"type": "string"}

// integer returns the schema of an integer. A minimum of 0 means that there is none.
func integer(least int) map[string]any {
	if least == 0 {
		return map[string]any{"type": "integer"}
	}
	return map[string]any{"type": "integer", "minimum": least}
}

// schema returns the JSON Schema of the value.
func (f *Field) schema() map[string]any {
	out := map[string]any{}
	switch f.Form {
	case AString:
		out["type"] = "string"
	case ABool:
		out["type"] = "boolean"
	case AnInt:
		out = integer(f.Min)
	case ANumber:
		out["type"] = "number"
	case Strings:
		out["type"], out["items"] = "array", aString
	case OneOrStrings:
		out["anyOf"] = []any{aString, map[string]any{"type": "array", "items": aString}}
	case OneOrInts:
		out["anyOf"] = []any{integer(f.Min), map[string]any{"type": "array", "items": integer(f.Min)}}
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
