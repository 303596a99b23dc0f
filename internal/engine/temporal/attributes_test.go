//go:build temporal

package temporal_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/espalier-run/espalier/internal/engine/enginetest"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/step"
)

// Runs are found in Temporal by their workflow, their status, what they wait for,
// how they ended and what they cost.
func TestRunsAreFoundByTheirSearchAttributes(t *testing.T) {
	w := newWorld(t)
	kind := enginetest.NewKind()
	kind.Hold = func(ctx context.Context, job *step.Job) error {
		n, err := job.Log.Reserve(ctx, journal.Usage{MicroDollars: 500_000})
		if err != nil {
			return err
		}
		return job.Log.Note(ctx,
			step.Note{Kind: "reply", Data: 1, Settles: n, Usage: journal.Usage{MicroDollars: 250_000}})
	}
	e := w.open(map[string]step.Runner{"test": kind})
	p := gated()
	p.Name = "reviews"
	p.Budget.MicroDollars = &ir.Limit{Max: 100_000_000}
	waiting, approved, rejected := start(t, e, p), start(t, e, p), start(t, e, p)
	for _, id := range []journal.RunID{waiting, approved, rejected} {
		rest(t, e, id)
	}
	approve(t, e, approved)
	rest(t, e, approved)
	if err := e.Send(t.Context(), rejected, plan.Cancel{By: actor}, "c"); err != nil {
		t.Fatal(err)
	}
	rest(t, e, rejected)
	for query, want := range map[string][]journal.RunID{
		"EspalierStatus = 'waiting'":                              {waiting},
		"EspalierWaitingFor = 'approval: g'":                      {waiting},
		"EspalierOutcome = 'ok'":                                  {approved},
		"EspalierOutcome = 'cancelled'":                           {rejected},
		"EspalierStatus = 'finished' AND EspalierCost > 0.4":      {approved},
		"EspalierStatus != 'finished' AND EspalierCost = 0.25":    {waiting},
		"EspalierWorkflow = 'reviews' AND EspalierCost < 100":     {approved, rejected, waiting},
		"EspalierWorkflow = 'other'":                              nil,
		"EspalierOutcome = 'ok' AND EspalierStatus != 'finished'": nil,
	} {
		t.Run(query, func(t *testing.T) { found(t, w, e, query, want) })
	}
}

// found lists workflows until there are those that the query should find: Temporal
// lists changes a little later.
func found(t *testing.T, w *world, e *temporal.Engine, query string, want []journal.RunID) {
	t.Helper()
	c, err := e.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, id := range want {
		names[e.WorkflowID(id)] = true
	}
	d := ""
	for range 200 {
		answer, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: fmt.Sprintf("TaskQueue = %q AND %s", w.config.TaskQueue, query),
		})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, one := range answer.GetExecutions() {
			got[one.GetExecution().GetWorkflowId()] = true
		}
		if d = cmp.Diff(names, got); d == "" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error(d)
}
