package temporal

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
		waiting: index.Waiting.String(), microDollars: d.shown.microDollars,
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
	// The order of a map is random, which does no harm here: the command contains all attributes as one map.
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

// searchAttributes are all search attributes.
var searchAttributes = []temporal.SearchAttributeKey{
	attributeWorkflow, attributeStatus, attributeOutcome, attributeWaiting, attributeCost,
}

// listAttributes returns which search attributes the namespace lacks, and describes those that it has with another
// type: workflows that set them would fail.
func listAttributes(
	ctx context.Context, c client.Client, namespace string,
) (missing map[string]enumspb.IndexedValueType, wrong string, err error) {
	known, err := c.OperatorService().ListSearchAttributes(ctx,
		&operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, "", err
	}
	missing = map[string]enumspb.IndexedValueType{}
	var others []string
	for _, key := range searchAttributes {
		switch has, ok := known.GetCustomAttributes()[key.GetName()]; {
		case !ok:
			missing[key.GetName()] = key.GetValueType()
		case has != key.GetValueType():
			others = append(others, fmt.Sprintf("%s has type %v, not %v", key.GetName(), has, key.GetValueType()))
		}
	}
	if len(others) > 0 {
		wrong = fmt.Sprintf("runs have no search attributes, because in namespace %s %s", namespace,
			strings.Join(others, " and "))
	}
	return missing, wrong, nil
}

// registerAttributes adds the search attributes to the namespace. Without the permission to do that, runs have none.
func (e *Engine) registerAttributes(ctx context.Context, c client.Client) bool {
	missing, wrong, err := listAttributes(ctx, c, e.c.Namespace)
	if err != nil {
		e.Log.Warn("search attributes of Temporal not read", "error", err)
		return false
	}
	if wrong != "" {
		e.c.Notice("On Temporal, " + wrong + ".")
		return false
	}
	if len(missing) == 0 {
		return true
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: e.c.Namespace, SearchAttributes: missing,
	})
	if _, ok := errors.AsType[*serviceerror.AlreadyExists](err); err != nil && !ok {
		e.Log.Warn("search attributes of Temporal not added", "error", err)
		return false
	}
	return true
}
