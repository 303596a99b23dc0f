package queue_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/journal/queue"
)

func TestItemsAreTakenOnceAndInOrder(t *testing.T) {
	const putters, each = 8, 2000
	q := queue.New[[2]int]()
	var wg sync.WaitGroup
	for p := range putters {
		wg.Go(func() {
			for i := range each {
				if !q.Put([2]int{p, i}) {
					t.Error("an open queue refused an item")
				}
			}
		})
	}
	go func() { wg.Wait(); q.Close() }()

	var next [putters]int
	q.Drain(100, func(items [][2]int) {
		if len(items) > 100 {
			t.Errorf("%d items at once", len(items))
		}
		for _, item := range items {
			if item[1] != next[item[0]] {
				t.Fatalf("putter %d: took %d, expected %d", item[0], item[1], next[item[0]])
			}
			next[item[0]]++
		}
	})
	for p, n := range next {
		if n != each {
			t.Errorf("putter %d: %d of %d items", p, n, each)
		}
	}
	if q.Put([2]int{}) {
		t.Error("a closed queue took an item")
	}
}

func TestItemsAreTakenAfterClose(t *testing.T) {
	q := queue.New[int]()
	q.Put(1)
	q.Put(2)
	q.Close()
	var got []int
	q.Drain(1, func(items []int) { got = append(got, items...) })
	if !slices.Equal(got, []int{1, 2}) {
		t.Errorf("took %v", got)
	}
}
