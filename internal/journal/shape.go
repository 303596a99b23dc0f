package journal

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// shape is how a type that facts are made of looks as JSON, worked out once
// from its fields and tags, so that a field added to a fact is stored and read
// without anybody having to think of it. It knows no more kinds than facts use.
type shape struct {
	kind    kind
	elem    *shape   // of a pointer, list or table
	members []member // of an object
	flat    []flat   // the same, those of embedded objects in their place
	isValue bool     // Value, which has its own idea of empty
}

type kind int

const (
	object  kind = iota // struct
	text                // string
	number              // int, int64
	truth               // bool
	raw                 // json.RawMessage
	pointer             // nil is left out
	list                // slice
	table               // map with string keys
)

type member struct {
	name     string
	quoted   string // "name":
	index    int
	shape    *shape
	optional bool // left out when empty
	embedded bool // its members are ours
}

// flat is a member wherever it is embedded.
type flat struct {
	name  string
	path  []int
	shape *shape
}

// shapes are the shapes of all facts.
type shapes struct {
	byType map[reflect.Type]*shape
	byName map[string]factShape
}

type factShape struct {
	typ   reflect.Type
	shape *shape
}

var factShapes = sync.OnceValue(func() shapes {
	all := shapes{byType: map[reflect.Type]*shape{}, byName: map[string]factShape{}}
	for _, f := range everyFact() {
		t := reflect.TypeOf(f)
		s := shapeOf(t)
		all.byType[t] = s
		all.byName[f.factName()] = factShape{t, s}
	}
	return all
})

func shapeOf(t reflect.Type) *shape {
	if t == reflect.TypeFor[json.RawMessage]() {
		return &shape{kind: raw}
	}
	switch t.Kind() {
	case reflect.String:
		return &shape{kind: text}
	case reflect.Int, reflect.Int64:
		return &shape{kind: number}
	case reflect.Bool:
		return &shape{kind: truth}
	case reflect.Pointer:
		return &shape{kind: pointer, elem: shapeOf(t.Elem())}
	case reflect.Slice:
		return &shape{kind: list, elem: shapeOf(t.Elem())}
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return &shape{kind: table, elem: shapeOf(t.Elem())}
		}
	case reflect.Struct:
		s := &shape{kind: object, isValue: t == reflect.TypeFor[Value]()}
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			s.members = append(s.members, member{
				name: name, quoted: `"` + name + `":`, index: i, shape: shapeOf(f.Type),
				optional: options != "", embedded: f.Anonymous && name == "",
			})
			m := &s.members[i]
			if !m.embedded {
				s.flat = append(s.flat, flat{name, []int{i}, m.shape})
				continue
			}
			for _, inner := range m.shape.flat {
				s.flat = append(s.flat, flat{inner.name, append([]int{i}, inner.path...), inner.shape})
			}
		}
		return s
	}
	panic(fmt.Sprintf("journal: a fact cannot hold %s", t))
}
