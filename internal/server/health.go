package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/espalier-run/espalier/internal/api"
)

// stats counts what only the server knows.
type stats struct {
	clients atomic.Int64 // of live events
}

// health reports that the process answers.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte("ok\n"))
}

// readiness reports whether the server drives runs and its store can be read.
func (s *Server) readiness(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.isReady:
	default:
		writeProblem(w, r, Problem{Status: http.StatusServiceUnavailable, Code: "starting", Detail: "The server is starting."})
		return
	}
	if s.stop.Err() != nil {
		writeProblem(w, r, Problem{Status: http.StatusServiceUnavailable, Code: "stopping", Detail: "The server is stopping."})
		return
	}
	if _, err := s.o.App.Position(r.Context()); err != nil {
		writeProblem(w, r, *problemOf(r.Context(), err))
		return
	}
	s.health(w, r)
}

// metrics writes the state of the project in the text format of Prometheus.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	states, err := s.states(r.Context())
	if err != nil {
		writeProblem(w, r, *problemOf(r.Context(), err))
		return
	}
	var out strings.Builder
	metric := func(name, kind, help string) {
		fmt.Fprintf(&out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	metric("espalier_runs", "gauge", "Unfinished runs by state.")
	all := []api.State{
		api.Queued, api.Running, api.Waiting, api.Sleeping, api.Paused, api.Interrupted, api.Budget, api.Unknown,
	}
	for _, state := range slices.Sorted(slices.Values(all)) {
		fmt.Fprintf(&out, "espalier_runs{state=%q} %d\n", state, states[state])
	}
	metric("espalier_event_clients", "gauge", "Clients of live events.")
	fmt.Fprintf(&out, "espalier_event_clients %d\n", s.stats.clients.Load())
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write([]byte(out.String()))
}
