package app

import (
	"context"

	"github.com/espalier-run/espalier/internal/registry"
)

// SpendingStatus is a spending limit with what has been spent today.
type SpendingStatus = registry.SpendingStatus

// Spending returns the spending limits of the project and what has been spent today, over all runs.
func (a *App) Spending(ctx context.Context) ([]SpendingStatus, error) {
	env, err := a.runs(ctx)
	if err != nil {
		return nil, err
	}
	return env.Runtime.Spending(ctx)
}

// ConcurrencyStatus is a concurrency limit with the runs and model calls that count for it.
type ConcurrencyStatus = registry.ConcurrencyStatus

// Concurrency returns the concurrency limits of the project, and how many runs and model calls count for each.
func (a *App) Concurrency(ctx context.Context) ([]ConcurrencyStatus, error) {
	env, err := a.runs(ctx)
	if err != nil {
		return nil, err
	}
	return env.Runtime.Concurrency(ctx)
}
