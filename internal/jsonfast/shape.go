package jsonfast

import (
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// Shape describes how a type is encoded. It is immutable and safe for
// concurrent use.
type Shape struct {
	kind    kind
	elem    *Shape       // of a pointer, list, table or surrogate
	members []member     // of an object
	flat    []flatMember // the same with embedded structs expanded
}

type kind int

const (
	object    kind = iota // struct
	text                  // string
	number                // int, int64
	truth                 // bool
	raw                   // json.RawMessage
	pointer               // nil is null
	list                  // slice
	table                 // map with string keys
	textual               // encoding.TextMarshaler
	surrogate             // Surrogate
	foreign               // anything else: left to encoding/json
)

// member is a field of a struct.
type member struct {
	quoted   string // "name":
	index    int
	shape    *Shape
	optional bool // omitted when empty
	embedded bool // an embedded struct, whose members are inlined
}

// flatMember is a member of the struct itself or of a struct embedded in it.
type flatMember struct {
	name  string
	path  []int
	shape *Shape
}

// Surrogate is implemented by pointers to structs that are encoded as another
// struct, because one of their fields holds values of several types. Their
// MarshalJSON and UnmarshalJSON must produce and accept the same JSON.
type Surrogate interface {
	// NewSurrogate returns a pointer to an empty surrogate.
	NewSurrogate() any
	// ToSurrogate fills a surrogate from the receiver.
	ToSurrogate(to any) error
	// FromSurrogate sets the receiver from a surrogate.
	FromSurrogate(from any) error
}

// ShapeOf returns the shape of a type.
func ShapeOf(t reflect.Type) *Shape { return shapes{}.of(t) }

// ShapesOf returns the shapes of several types. Types used by more than one of
// them are analyzed once.
func ShapesOf(types ...reflect.Type) []*Shape {
	all, out := shapes{}, make([]*Shape, len(types))
	for i, t := range types {
		out[i] = all.of(t)
	}
	return out
}

// shapes holds the shapes made so far. It makes recursive types possible.
type shapes map[reflect.Type]*Shape

// of returns the shape of a type. It stores the shape before it fills it, so that a type that contains itself finds it.
func (all shapes) of(t reflect.Type) *Shape {
	if s := all[t]; s != nil {
		return s
	}
	s := &Shape{}
	all[t] = s
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		s.kind = raw
	case t.Implements(reflect.TypeFor[Surrogate]()) && t.Kind() == reflect.Pointer:
		all.fillByKind(s, t)
	case reflect.PointerTo(t).Implements(reflect.TypeFor[Surrogate]()):
		s.kind = surrogate
		s.elem = all.of(reflect.TypeOf(reflect.New(t).Interface().(Surrogate).NewSurrogate()).Elem())
	case t.Implements(reflect.TypeFor[json.Marshaler]()),
		t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()):
		s.kind = foreign
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		s.kind = textual
	default:
		all.fillByKind(s, t)
	}
	return s
}

// fillByKind fills the shape of a type that has no methods of its own for JSON.
func (all shapes) fillByKind(s *Shape, t reflect.Type) {
	s.kind = foreign
	switch t.Kind() {
	case reflect.String:
		s.kind = text
	case reflect.Int, reflect.Int64:
		s.kind = number
	case reflect.Bool:
		s.kind = truth
	case reflect.Pointer:
		s.kind, s.elem = pointer, all.of(t.Elem())
	case reflect.Slice:
		s.kind, s.elem = list, all.of(t.Elem())
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			s.kind, s.elem = table, all.of(t.Elem())
		}
	case reflect.Struct:
		s.kind = object
		for i := range t.NumField() {
			all.field(s, t.Field(i), i)
		}
	}
}

// field adds the field with index i of a struct to its shape. Fields that encoding/json does not encode are left out.
func (all shapes) field(s *Shape, f reflect.StructField, i int) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	embedded := f.Anonymous && name == ""
	if name == "-" || !f.IsExported() && !embedded {
		return
	}
	name = cmp.Or(name, f.Name)
	m := member{
		quoted: `"` + name + `":`, index: i, shape: all.of(f.Type), optional: options != "", embedded: embedded,
	}
	s.members = append(s.members, m)
	if !embedded {
		s.flat = append(s.flat, flatMember{name, []int{i}, m.shape})
		return
	}
	for _, inner := range m.shape.flat {
		s.flat = append(s.flat, flatMember{inner.name, append([]int{i}, inner.path...), inner.shape})
	}
}

// Codec encodes and decodes values of one type.
type Codec[T any] struct{ shape *Shape }

// New returns the Codec of a type.
func New[T any]() Codec[T] { return Codec[T]{ShapeOf(reflect.TypeFor[T]())} }

// Append appends the encoding of v to b.
func (c Codec[T]) Append(b []byte, v *T) ([]byte, error) {
	return c.shape.Append(b, reflect.ValueOf(v).Elem())
}

// Read decodes data, which may be any JSON that encoding/json accepts for T.
func (c Codec[T]) Read(data []byte, into *T) error {
	if c.shape.Read(data, reflect.ValueOf(into).Elem()) {
		return nil
	}
	var zero T
	*into = zero
	return json.Unmarshal(data, into)
}

// known caches the shapes for Unmarshal.
var known sync.Map // of *Shape, by reflect.Type

// Unmarshal is like json.Unmarshal for a pointer to a struct, which it clears
// first. It is faster if Append wrote data.
func Unmarshal(data []byte, into any) error {
	v := reflect.ValueOf(into).Elem()
	v.SetZero()
	shape, ok := known.Load(v.Type())
	if !ok {
		shape, _ = known.LoadOrStore(v.Type(), ShapeOf(v.Type()))
	}
	if shape.(*Shape).Read(data, v) {
		return nil
	}
	v.SetZero()
	return json.Unmarshal(data, into)
}
