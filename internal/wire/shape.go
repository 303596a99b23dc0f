package wire

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// Shape is how a type looks as JSON.
type Shape struct {
	kind    kind
	elem    *Shape    // of a pointer, list or table; of what stands in for a value
	members []member  // of an object
	flat    []flat    // the same, those of embedded objects in their place
	boxes   sync.Pool // of what stands in for a value, empty
}

type kind int

const (
	object  kind = iota // struct
	text                // string
	number              // int, int64
	truth               // bool
	raw                 // json.RawMessage
	pointer             // nil is null
	list                // slice
	table               // map with string keys
	textual             // encoding.TextMarshaler
	boxed               // Boxed
	foreign             // whatever encoding/json makes of it
)

type member struct {
	quoted   string // "name":
	index    int
	shape    *Shape
	optional bool // left out when empty
	embedded bool // its members are ours
}

// flat is a member wherever it is embedded.
type flat struct {
	name  string
	path  []int
	shape *Shape
}

// Boxed is a pointer to a struct in whose place another one is written and
// read: because one of its fields can be of several types. The type itself
// must be written and read by encoding/json in the same way.
type Boxed interface {
	// NewBox makes a pointer to what stands in.
	NewBox() any
	FillBox(box any) error
	TakeBox(box any) error
}

// Of works out the shape of a type.
func Of(t reflect.Type) *Shape { return shapes{}.of(t) }

// OfAll works out the shapes of types that have much in common.
func OfAll(types ...reflect.Type) []*Shape {
	all, out := shapes{}, make([]*Shape, len(types))
	for i, t := range types {
		out[i] = all.of(t)
	}
	return out
}

// shapes are those known so far: types may hold themselves.
type shapes map[reflect.Type]*Shape

func (all shapes) of(t reflect.Type) *Shape {
	if s := all[t]; s != nil {
		return s
	}
	s := &Shape{}
	all[t] = s
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		s.kind = raw
	case t.Implements(reflect.TypeFor[Boxed]()) && t.Kind() == reflect.Pointer:
		all.plain(s, t)
	case reflect.PointerTo(t).Implements(reflect.TypeFor[Boxed]()):
		s.kind = boxed
		s.elem = all.of(reflect.TypeOf(reflect.New(t).Interface().(Boxed).NewBox()).Elem())
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) && t.Kind() != reflect.Pointer, t.Implements(reflect.TypeFor[json.Marshaler]()):
		s.kind = foreign
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		s.kind = textual
	default:
		all.plain(s, t)
	}
	return s
}

func (all shapes) plain(s *Shape, t reflect.Type) {
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

func (all shapes) field(s *Shape, f reflect.StructField, i int) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	embedded := f.Anonymous && name == ""
	if name == "-" || !f.IsExported() && !embedded {
		return
	}
	if name == "" {
		name = f.Name
	}
	m := member{quoted: `"` + name + `":`, index: i, shape: all.of(f.Type), optional: options != "", embedded: embedded}
	s.members = append(s.members, m)
	if !embedded {
		s.flat = append(s.flat, flat{name, []int{i}, m.shape})
		return
	}
	for _, inner := range m.shape.flat {
		s.flat = append(s.flat, flat{inner.name, append([]int{i}, inner.path...), inner.shape})
	}
}

// Codec writes and reads values of one type.
type Codec[T any] struct{ shape *Shape }

// New makes the Codec of a type.
func New[T any]() Codec[T] { return Codec[T]{Of(reflect.TypeFor[T]())} }

// Append appends a value.
func (c Codec[T]) Append(b []byte, v *T) ([]byte, error) {
	b, _, err := c.AppendExact(b, v)
	return b, err
}

// AppendExact is Append, and tells whether reading gives the same value again,
// but for lists and maps that are empty: they may be nil then.
func (c Codec[T]) AppendExact(b []byte, v *T) (_ []byte, exact bool, err error) {
	if b == nil {
		b = make([]byte, 0, 128) // most are smaller
	}
	var e Encoder
	b, err = e.Value(b, c.shape, reflect.ValueOf(v).Elem())
	return b, !e.Changed && err == nil, err
}

// Read reads a value, whoever has written it.
func (c Codec[T]) Read(data []byte, into *T) error {
	if c.shape.Read(data, reflect.ValueOf(into).Elem()) {
		return nil
	}
	var zero T
	*into = zero
	return json.Unmarshal(data, into)
}

// known are the shapes of what Unmarshal has read.
var known sync.Map // of *Shape, by reflect.Type

// Unmarshal is json.Unmarshal into a pointer to a struct, of which nothing
// stays from before, and faster when an Encoder has written it.
func Unmarshal(data []byte, into any) error {
	v := reflect.ValueOf(into).Elem()
	v.SetZero()
	shape, ok := known.Load(v.Type())
	if !ok {
		shape, _ = known.LoadOrStore(v.Type(), Of(v.Type()))
	}
	if shape.(*Shape).Read(data, v) {
		return nil
	}
	v.SetZero()
	return json.Unmarshal(data, into)
}
