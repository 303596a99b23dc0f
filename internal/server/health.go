package server

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// stats counts what only the server knows.
type stats struct {
	clients  atomic.Int64 // of live events
	counters counters
}

// health answers that the process is alive. Unlike readiness, it checks nothing else.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte("ok\n"))
}

// Probes request readiness every few seconds and wait for a second or two.
const (
	readyPatience = 500 * time.Millisecond
	readyTimeout  = time.Second
)

// readiness returns an error unless the server is driving runs and can reach its store and, if configured, Temporal.
// Its store timeout is shorter than the probe's, so that the probe receives the reason.
func (s *Server) readiness(w http.ResponseWriter, r *http.Request) error {
	select {
	case <-s.isReady:
	default:
		return &Problem{Status: http.StatusServiceUnavailable, Code: "starting", Detail: "The server is starting."}
	}
	if s.stop.Err() != nil {
		return &Problem{Status: http.StatusServiceUnavailable, Code: "stopping", Detail: "The server is stopping."}
	}
	ctx, cancel := context.WithTimeout(journal.WithWaitLimit(r.Context(), readyPatience), readyTimeout)
	defer cancel()
	err := s.o.App.Ready(ctx)
	if app.AsError(err) == nil && errors.Is(err, context.DeadlineExceeded) {
		err = &app.Error{Kind: app.StoreUnavailable, Message: "the store does not answer", Err: err}
	}
	if err != nil {
		return err
	}
	s.health(w, r)
	return nil
}
