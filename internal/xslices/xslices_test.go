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

func odd(n int) bool { return n%2 == 1 }

func TestFilterKeepsOrderNilAndTheList(t *testing.T) {
	list := []int{3, 2, 1}
	if got := xslices.Filter(list, odd); !slices.Equal(got, []int{3, 1}) {
		t.Errorf("%v", got)
	}
	if want := []int{3, 2, 1}; !slices.Equal(list, want) {
		t.Errorf("the list became %v", list)
	}
	if got := xslices.Filter([]int{2}, odd); got != nil {
		t.Errorf("%#v", got)
	}
}

func TestFindReturnsTheFirstMatch(t *testing.T) {
	if got := xslices.Find([]int{2, 5, 7}, odd); got != 5 {
		t.Errorf("found %d", got)
	}
	if got := xslices.Find([]int{2}, odd); got != 0 {
		t.Errorf("found %d", got)
	}
}

func TestFindPointerPointsIntoTheList(t *testing.T) {
	list := []int{2, 5, 7}
	if got := xslices.FindPointer(list, func(n *int) bool { return odd(*n) }); got != &list[1] {
		t.Errorf("found %v", got)
	}
	if got := xslices.FindPointer(list[:1], func(n *int) bool { return odd(*n) }); got != nil {
		t.Errorf("found %d", *got)
	}
}

func TestAppendNewAppendsEachValueOnce(t *testing.T) {
	if got := xslices.AppendNew([]int{1, 2}, 2, 3, 3); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("%v", got)
	}
}
