package journal

import (
	"reflect"
	"sync"

	"github.com/espalier-run/espalier/internal/jsonfast"
)

// shapes are how all facts look as JSON.
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
	facts := everyFact()
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

// Prepare does what has to be done once before facts can be written or read. The
// first of them does it if nobody else has.
func Prepare() { factShapes() }
