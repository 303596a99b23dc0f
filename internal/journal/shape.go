package journal

import (
	"reflect"
	"sync"

	"github.com/espalier-run/espalier/internal/wire"
)

// shapes are how all facts look as JSON.
type shapes struct {
	byType map[reflect.Type]*wire.Shape
	byName map[string]factShape
}

type factShape struct {
	typ   reflect.Type
	shape *wire.Shape
}

var factShapes = sync.OnceValue(func() shapes {
	all := shapes{byType: map[reflect.Type]*wire.Shape{}, byName: map[string]factShape{}}
	for _, f := range everyFact() {
		t := reflect.TypeOf(f)
		s := wire.Of(t)
		all.byType[t] = s
		all.byName[f.factName()] = factShape{t, s}
	}
	return all
})
