package temporal

import (
	"context"
	"errors"
	"log/slog"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// The search attributes of workflows, so that Temporal's own tools can list runs
// by what they wait for or what they have cost.
var (
	attributeWorkflow = temporal.NewSearchAttributeKeyKeyword("EspalierWorkflow")
	attributeStatus   = temporal.NewSearchAttributeKeyKeyword("EspalierStatus")
	attributeOutcome  = temporal.NewSearchAttributeKeyKeyword("EspalierOutcome")
	attributeWaiting  = temporal.NewSearchAttributeKeyKeyword("EspalierWaitingFor")
	attributeCost     = temporal.NewSearchAttributeKeyFloat64("EspalierCost")
)

// attributes are the search attributes of a run.
type attributes struct {
	workflow, status, outcome, waiting string
	microDollars                       int64
}

// show updates the search attributes when the run waits or has finished. While it
// works they would change at every step.
func (d *driver) show(ctx workflow.Context) {
	if !d.in.Attributes {
		return
	}
	index := d.state.Summary()
	now := attributes{
		workflow: d.state.Name, status: string(index.Status), outcome: string(index.Outcome),
		waiting: index.Waiting, microDollars: d.shown.microDollars,
	}
	if len(d.tasks)+len(d.starting) == 0 {
		switch {
		case d.state.Spent != nil:
			now.microDollars = d.state.Spent.Used.MicroDollars
		case d.state.Root() != nil && d.state.Root().Ledger != nil:
			now.microDollars = d.state.Root().Ledger.Used.MicroDollars
		}
	}
	if now == d.shown {
		return
	}
	d.shown = now
	updates := []temporal.SearchAttributeUpdate{
		attributeWorkflow.ValueSet(now.workflow), attributeStatus.ValueSet(now.status),
		attributeCost.ValueSet(float64(now.microDollars) / 1e6),
	}
	for key, text := range map[temporal.SearchAttributeKeyKeyword]string{
		attributeOutcome: now.outcome, attributeWaiting: now.waiting,
	} {
		if text == "" {
			updates = append(updates, key.ValueUnset())
		} else {
			updates = append(updates, key.ValueSet(text))
		}
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		panic(err)
	}
}

// registerAttributes adds the search attributes to the namespace. Without the
// permission to do that, runs have none.
func registerAttributes(ctx context.Context, c client.Client, namespace string, log *slog.Logger) bool {
	operator := c.OperatorService()
	known, err := operator.ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		log.Warn("search attributes of Temporal not read", "error", err)
		return false
	}
	missing := map[string]enumspb.IndexedValueType{}
	for _, key := range []temporal.SearchAttributeKey{
		attributeWorkflow, attributeStatus, attributeOutcome, attributeWaiting, attributeCost,
	} {
		if _, ok := known.GetCustomAttributes()[key.GetName()]; !ok {
			missing[key.GetName()] = key.GetValueType()
		}
	}
	if len(missing) == 0 {
		return true
	}
	_, err = operator.AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	if _, ok := errors.AsType[*serviceerror.AlreadyExists](err); err != nil && !ok {
		log.Warn("search attributes of Temporal not added", "error", err)
		return false
	}
	return true
}
