package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: dbos URL SCENARIO")
		os.Exit(2)
	}
	figures, err := measure(os.Args[1], os.Args[2])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(figures)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dbos:", err)
		os.Exit(1)
	}
}

// task is what a step does: as little as the step of Espalier that it is compared with.
func task(context.Context) (string, error) { return "done well", nil }

// gaps are the times between the starts of two steps of a workflow.
var gaps struct {
	sync.Mutex
	all []time.Duration
}

// chain is a workflow of steps one after the other.
func chain(ctx dbos.DBOSContext, steps int) (string, error) {
	var last time.Time
	var mine []time.Duration
	for range steps {
		_, err := dbos.RunAsStep(ctx, func(ctx context.Context) (string, error) {
			now := time.Now()
			if !last.IsZero() {
				mine = append(mine, now.Sub(last))
			}
			last = now
			return task(ctx)
		}, dbos.WithStepName("task"))
		if err != nil {
			return "", err
		}
	}
	gaps.Lock()
	defer gaps.Unlock()
	gaps.all = append(gaps.all, mine...)
	return "", nil
}

// fanOut is a workflow of steps side by side.
func fanOut(ctx dbos.DBOSContext, items int) (string, error) {
	waits := make([]chan dbos.StepOutcome[string], items)
	for i := range waits {
		var err error
		if waits[i], err = dbos.Go(ctx, task, dbos.WithStepName("task")); err != nil {
			return "", err
		}
	}
	for _, wait := range waits {
		if outcome := <-wait; outcome.Err != nil {
			return "", outcome.Err
		}
	}
	return "", nil
}

// measure runs one scenario and returns the figures that the same scenario of Espalier has: times in nanoseconds for
// step, in milliseconds for gap and whole.
func measure(url, scenario string) (map[string]float64, error) {
	app, err := dbos.NewDBOSContext(context.Background(), dbos.Config{
		AppName: "bench", DatabaseURL: url, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	dbos.RegisterWorkflow(app, chain)
	dbos.RegisterWorkflow(app, fanOut)
	if err := dbos.Launch(app); err != nil {
		return nil, err
	}
	defer dbos.Shutdown(app, time.Second)
	switch scenario {
	case "chain":
		return runs(app, 1, 1000)
	case "runs-64":
		return runs(app, 64, 20)
	case "runs-1000":
		return runs(app, 1000, 20)
	case "fan-out":
		began := time.Now()
		err := all(app, fanOut, 1, 1000)
		return map[string]float64{"whole": float64(time.Since(began)) / 1e6}, err
	}
	return nil, fmt.Errorf("there is no scenario %q", scenario)
}

// runs measures workflows of several steps that run at the same time.
func runs(app dbos.DBOSContext, workflows, steps int) (map[string]float64, error) {
	began := time.Now()
	if err := all(app, chain, workflows, steps); err != nil {
		return nil, err
	}
	each := float64(time.Since(began)) / float64(workflows*steps)
	slices.Sort(gaps.all)
	return map[string]float64{
		"step": each, "steps": 1e9 / each, "gap": float64(gaps.all[len(gaps.all)*99/100]) / 1e6,
	}, nil
}

// all runs workflows at the same time.
func all(app dbos.DBOSContext, workflow dbos.Workflow[int, string], workflows, input int) error {
	errs := make([]error, workflows)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			handle, err := dbos.RunWorkflow(app, workflow, input)
			if err == nil {
				_, err = handle.GetResult()
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
