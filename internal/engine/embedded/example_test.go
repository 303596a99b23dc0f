package embedded_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/step"
)

// Run a program of two tasks in memory.
func Example() {
	ctx := context.Background()
	store := memorytest.New()
	defer store.Close()
	e := embedded.New(embedded.Config{
		Config:  engine.Config{Runners: map[string]step.Runner{"test": enginetest.NewKind()}},
		Store:   store,
		Process: &solo{id: "this process"},
	})
	defer e.Drain()

	program := enginetest.Program([]ir.Step{enginetest.Task("draft"), enginetest.Task("review")})
	definition := &engine.Definition{Program: program}
	const id journal.RunID = "00000000-0000-4000-8000-000000000001"
	if err := e.Start(ctx, id, definition, json.RawMessage("{}"), nil, journal.Actor{User: "eva"}); err != nil {
		fmt.Println(err)
		return
	}
	entry, err := e.Wait(ctx, id)
	if err != nil {
		fmt.Println(err)
		return
	}
	end, err := e.Ending(ctx, entry)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %s: %s\n", entry.Status, end.Outcome, end.Output.JSON)
	// Output: finished ok: "review#0"
}
