package xslices_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/espalier-run/espalier/internal/xslices"
)

// Nothing stays nil, which JSON omits.
func TestMapKeepsOrderAndNil(t *testing.T) {
	if got := xslices.Map([]int{3, 1, 2}, strconv.Itoa); !slices.Equal(got, []string{"3", "1", "2"}) {
		t.Errorf("%q", got)
	}
	if got := xslices.Map([]int{}, strconv.Itoa); got != nil {
		t.Errorf("%#v", got)
	}
}
