package xmaps_test

import (
	"maps"
	"testing"

	"github.com/espalier-run/espalier/internal/xmaps"
)

func TestSetMakesTheMap(t *testing.T) {
	var m map[string]int
	xmaps.Set(&m, "a", 1)
	same := m
	xmaps.Set(&m, "b", 2)
	if want := map[string]int{"a": 1, "b": 2}; !maps.Equal(m, want) || !maps.Equal(same, want) {
		t.Errorf("%v, %v", m, same)
	}
}
