package journal

import (
	"reflect"
	"sync"

	"github.com/espalier-run/espalier/internal/jsonfast"
)

// shapes are the codecs of all facts.
type shapes struct {
	byType map[reflect.Type]*jsonfast.Shape
	byName map[string]factShape
}

type factShape struct {
	typ   reflect.Type
	shape *jsonfast.Shape
}

var factShapes = sync.OnceValue(func() shapes {
	all := shapes{byType: map[reflect.Type]*jsonfast.Shape{}, byName: map[string]factShape{}}
	facts := EveryFact()
	types := make([]reflect.Type, len(facts))
	for i, f := range facts {
		types[i] = reflect.TypeOf(f)
	}
	for i, s := range jsonfast.ShapesOf(types...) {
		all.byType[types[i]] = s
		all.byName[facts[i].factName()] = factShape{types[i], s}
	}
	return all
})

// Prepare initializes the codecs. The first Encode or Decode does it otherwise.
func Prepare() { factShapes() }
