package server

import (
	"context"
	"net/http"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
)

// projectStats are statistics of a project.
type projectStats struct {
	Runs     map[journal.State]int `json:"runs" doc:"Unfinished runs by state"`
	Spending []spendingStats       `json:"spending" doc:"Spending limits, and what has been spent today (UTC)"`
	Clients  int64                 `json:"event_clients" doc:"Clients of live events"`

	Concurrency []concurrencyStats `json:"concurrency" doc:"Concurrency limits, and what counts for them now"`
}

type concurrencyStats struct {
	Name     string `json:"name" doc:"Name of the limit in espalier.yaml"`
	Runs     int64  `json:"runs" doc:"Runs that are being driven"`
	MaxRuns  int64  `json:"max_runs,omitempty" doc:"Absent if runs are not limited"`
	Calls    int64  `json:"calls" doc:"Model calls under way"`
	MaxCalls int64  `json:"max_calls,omitempty" doc:"Absent if calls are not limited"`
	Waiting  int64  `json:"waiting" doc:"Runs and model calls in the queue"`
}

type spendingStats struct {
	Name              string  `json:"name" doc:"Name of the limit in espalier.yaml"`
	Of                string  `json:"of,omitempty" doc:"The workflow, user or token, if there is a limit for each"`
	Dollars           float64 `json:"dollars" doc:"Spent and reserved"`
	MicroDollars      int64   `json:"micro_dollars" doc:"Millionths of a dollar, exactly"`
	LimitDollars      float64 `json:"limit_dollars"`
	LimitMicroDollars int64   `json:"limit_micro_dollars"`
}

func (s *Server) registerStats() {
	handleJSON(s, http.MethodGet, "/stats", identity.Read, "Show the state of the project in numbers", "Stats",
		func(ctx context.Context, _ *struct{}) (*projectStats, error) {
			states, err := s.states(ctx)
			if err != nil {
				return nil, err
			}
			spent, err := s.o.App.Spending(ctx)
			if err != nil {
				return nil, err
			}
			out := &projectStats{Runs: states, Spending: []spendingStats{}, Clients: s.stats.clients.Load()}
			for _, one := range spent {
				out.Spending = append(out.Spending, spendingStats{
					Name: one.Name, Of: one.Of,
					Dollars: float64(one.MicroDollars) / 1e6, MicroDollars: one.MicroDollars,
					LimitDollars: float64(one.Limit) / 1e6, LimitMicroDollars: one.Limit,
				})
			}
			limits, err := s.o.App.Concurrency(ctx)
			if err != nil {
				return nil, err
			}
			out.Concurrency = []concurrencyStats{}
			for _, l := range limits {
				out.Concurrency = append(out.Concurrency, concurrencyStats(l))
			}
			return out, nil
		})
}

// states counts the unfinished runs in each state. It lists them all, because states such as queued and interrupted
// depend on whether a process drives the run.
func (s *Server) states(ctx context.Context) (map[journal.State]int, error) {
	runs, err := s.o.App.Runs(ctx, app.Filter{Unfinished: true})
	if err != nil {
		return nil, err
	}
	states := map[journal.State]int{}
	for i := range runs {
		states[api.NewRun(&runs[i]).State]++
	}
	return states, nil
}
