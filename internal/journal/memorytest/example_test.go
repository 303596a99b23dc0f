package memorytest_test

import (
	"context"
	"fmt"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
)

// Start a run, finish it, and read its facts.
func Example() {
	ctx := context.Background()
	store := memorytest.New()
	defer store.Close()

	start := journal.Batch{
		Run: "run-1", Fence: journal.FirstFence, Owner: "this process", Index: &journal.Index{Status: journal.Running},
		Events: []journal.Event{{Seq: 1, At: 1000, Fact: journal.RunStarted{Name: "demo"}}},
	}
	finish := journal.Batch{
		Run: "run-1", Fence: journal.FirstFence, After: 1, Release: true,
		Index:  &journal.Index{Status: journal.Finished, Outcome: journal.OutcomeOK},
		Events: []journal.Event{{Seq: 2, At: 2000, Fact: journal.RunFinished{Outcome: journal.OutcomeOK}}},
	}
	for _, batch := range []journal.Batch{start, finish} {
		if err := journal.Append(ctx, store, batch); err != nil {
			fmt.Println(err)
			return
		}
	}
	for event, err := range store.Events(ctx, "run-1", 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d %T\n", event.Seq, event.Fact)
	}
	entry, err := store.Entry(ctx, "run-1")
	fmt.Println(entry.Status, entry.Outcome, err)
	// Output:
	// 1 journal.RunStarted
	// 2 journal.RunFinished
	// finished ok <nil>
}
