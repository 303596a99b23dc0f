package config

import (
	"math"

	"github.com/espalier-run/espalier/internal/text"
)

// Concurrency limits how many runs or model calls happen at the same time, over all processes that share a store, and
// orders those that wait.
type Concurrency struct {
	Workflow text.Text // only runs of this workflow, and their calls
	Provider text.Text // only calls of models of this provider
	Each     string    // EachWorkflow or EachProvider: one limit for each of them
	Runs     int64     // runs that are driven at the same time; 0 is no limit
	Calls    int64     // model calls at the same time; 0 is no limit
	Priority int64     // runs and calls with a higher priority go first
}

// EachProvider is a value of Concurrency.Each.
const EachProvider = "provider"

// readConcurrency reads the concurrency section. An entry with only a priority limits nothing and orders what waits for
// other limits.
func readConcurrency(f *fields) []Named[Concurrency] {
	return entries(f, "concurrency", "concurrency limit",
		"How many runs and model calls happen at the same time, over all processes.",
		func(name text.Text, f *fields) Concurrency {
			c := Concurrency{
				Workflow: f.text("workflow", "Only runs of this workflow, and their calls."),
				Provider: f.text("provider", "Only calls of models of this provider."),
				Each: f.choice("each", "One limit for each workflow, or for each provider.",
					EachWorkflow, EachProvider),
				Runs:  f.number("runs", "How many runs are driven at the same time.", 1, math.MaxInt32),
				Calls: f.number("calls", "How many model calls are made at the same time.", 1, math.MaxInt32),
				Priority: f.number("priority", "Runs and calls with a higher priority go first; 0 if not set.",
					0, math.MaxInt32),
			}
			if name.Value == "" {
				return c
			}
			if f.lacks("runs", "calls", "priority") {
				f.out.Errorf(CodeMissing, name.Span, "Add runs: 4, calls: 4 or priority: 10.",
					"The concurrency limit %q limits nothing.", name.Value)
			}
			if c.Runs > 0 && (c.Provider.Value != "" || c.Each == EachProvider) {
				f.out.Errorf(CodeBadValue, f.r.KeySpan("runs"), "Use calls to limit a provider.",
					"%q limits runs, which do not belong to a provider.", name.Value)
			}
			return c
		})
}
