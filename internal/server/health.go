package server

import (
	"net/http"
	"sync/atomic"
)

// stats counts what only the server knows.
type stats struct {
	clients  atomic.Int64 // of live events
	counters counters
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
		writeProblem(w, r,
			Problem{Status: http.StatusServiceUnavailable, Code: "starting", Detail: "The server is starting."})
		return
	}
	if s.stop.Err() != nil {
		writeProblem(w, r,
			Problem{Status: http.StatusServiceUnavailable, Code: "stopping", Detail: "The server is stopping."})
		return
	}
	if _, err := s.o.App.Position(r.Context()); err != nil {
		writeProblem(w, r, *problemOf(r.Context(), err))
		return
	}
	s.health(w, r)
}
