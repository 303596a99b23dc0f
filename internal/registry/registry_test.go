package registry

import (
	"maps"
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/catalog"
)

func TestEveryKindHasARunner(t *testing.T) {
	kinds, runners := slices.Sorted(maps.Keys(catalog.Kinds())), slices.Sorted(maps.Keys(Runners()))
	if !slices.Equal(kinds, runners) {
		t.Errorf("the kinds are %q, the runners %q", kinds, runners)
	}
}
