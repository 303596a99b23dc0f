package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/xmaps"
)

// durationBuckets are the upper bounds of the histogram of step durations, in seconds.
var durationBuckets = []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600}

// counters count the events of all runs of the store since the server started, whichever process drives the runs.
// Prometheus allows counters to restart at zero.
type counters struct {
	mu    sync.Mutex
	steps map[string]*histogram // by kind
	used  journal.Usage
}

// histogram counts durations. The counts are those of single buckets; write adds them up, as Prometheus expects them.
type histogram struct {
	counts []int64 // by bucket; the last one has no upper bound
	sum    float64
}

func (h *histogram) add(seconds float64) {
	i, _ := slices.BinarySearch(durationBuckets, seconds)
	h.counts[i]++
	h.sum += seconds
}

// count updates the counters with what follows a position, until the context ends. While the store cannot be reached,
// it tries again each second, from the last event that it has counted. A fact can have several events with the same
// position and number; only its first one counts what the fact has spent.
func (s *Server) count(ctx context.Context, after journal.Pos) {
	last := after
	var seq journal.Seq
	for {
		for e, err := range s.o.App.Watch(ctx, app.WatchRequest{After: last}) {
			if errors.Is(err, journal.ErrUnavailable) {
				s.o.Log.Warn("the counters of /metrics wait for the store", "error", err)
				break
			}
			if err != nil {
				if ctx.Err() == nil {
					s.o.Log.Error("the counters of /metrics have stopped", "error", err)
				}
				return
			}
			s.stats.counters.add(e, e.Pos == last && e.Seq == seq)
			last, seq = e.Pos, e.Seq
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// add counts an event. What a fact spends is counted with its first event.
func (c *counters) add(e app.Event, sameFact bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !sameFact {
		c.used = c.used.Plus(e.Usage)
	}
	if e.Type != report.StepFinished || e.Step == nil {
		return
	}
	h := c.steps[e.Step.Kind]
	if h == nil {
		h = &histogram{counts: make([]int64, len(durationBuckets)+1)}
		xmaps.Set(&c.steps, e.Step.Kind, h)
	}
	h.add(float64(e.At-e.Step.Started) / 1000)
}

// metrics writes the state of the project in the text format of Prometheus, version 0.0.4. Runs and limits are read
// from the store for each request; all known states are written, so that a series does not vanish when it is zero.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	states, err := s.states(r.Context())
	if err != nil {
		return err
	}
	limits, err := s.o.App.Concurrency(r.Context())
	if err != nil {
		return err
	}
	out := &exposition{}
	out.metric("espalier_runs", "gauge", "Unfinished runs by state.")
	for _, state := range slices.Sorted(slices.Values(journal.RunStates)) {
		if state != journal.StateFinished {
			out.sample("espalier_runs", float64(states[state]), "state", string(state))
		}
	}
	if len(limits) > 0 {
		out.metric("espalier_queue_length", "gauge", "Runs and model calls that wait for a concurrency limit.")
		for _, l := range limits {
			out.sample("espalier_queue_length", float64(l.Waiting), "limit", l.Name)
		}
	}
	out.metric("espalier_event_clients", "gauge", "Clients of live events.")
	out.sample("espalier_event_clients", float64(s.stats.clients.Load()))
	s.stats.counters.write(out)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write([]byte(out.String()))
	return nil
}

// write writes the counters. Buckets are cumulative, as Prometheus defines histograms: each counts all durations up to
// its bound, and +Inf counts all.
func (c *counters) write(out *exposition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	const duration = "espalier_step_duration_seconds"
	if len(c.steps) > 0 {
		out.metric(duration, "histogram", "Time from the start of a step to its end, including waits.")
	}
	for _, kind := range slices.Sorted(maps.Keys(c.steps)) {
		h, total := c.steps[kind], int64(0)
		for i, n := range h.counts {
			total += n
			bound := "+Inf"
			if i < len(durationBuckets) {
				bound = strconv.FormatFloat(durationBuckets[i], 'g', -1, 64)
			}
			out.sample(duration+"_bucket", float64(total), "kind", kind, "le", bound)
		}
		out.sample(duration+"_sum", h.sum, "kind", kind)
		out.sample(duration+"_count", float64(total), "kind", kind)
	}
	out.metric("espalier_tokens_total", "counter", "Tokens of model calls.")
	out.sample("espalier_tokens_total", float64(c.used.InputTokens), "direction", "input")
	out.sample("espalier_tokens_total", float64(c.used.OutputTokens), "direction", "output")
	out.metric("espalier_cost_dollars_total", "counter", "Cost of model calls with known prices, in US dollars.")
	out.sample("espalier_cost_dollars_total", float64(c.used.MicroDollars)/1e6)
	out.metric("espalier_model_calls_total", "counter", "Model calls.")
	out.sample("espalier_model_calls_total", float64(c.used.ModelCalls))
	out.metric("espalier_tool_calls_total", "counter", "Tool calls.")
	out.sample("espalier_tool_calls_total", float64(c.used.ToolCalls))
}

// exposition is text in the format of Prometheus.
type exposition struct{ strings.Builder }

func (e *exposition) metric(name, kind, help string) {
	fmt.Fprintf(e, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

var labelValue = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// sample writes a value with its labels, which are pairs of names and values.
func (e *exposition) sample(name string, value float64, labels ...string) {
	e.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		open := ","
		if i == 0 {
			open = "{"
		}
		fmt.Fprintf(e, `%s%s="%s"`, open, labels[i], labelValue.Replace(labels[i+1]))
	}
	if len(labels) > 0 {
		e.WriteString("}")
	}
	fmt.Fprintf(e, " %s\n", strconv.FormatFloat(value, 'g', -1, 64))
}
