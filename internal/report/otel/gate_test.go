package otel_test

import (
	"net/http"
	"strings"
	"sync"
)

// gate accepts a number of requests with spans, and none with metrics, until it is opened.
type gate struct {
	mu   sync.Mutex
	most int
	free bool
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free = true
}

func (g *gate) answer(r *http.Request, _ http.Header) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.free:
	case strings.HasSuffix(r.URL.Path, "metrics"), g.most == 0:
		return http.StatusServiceUnavailable
	default:
		g.most--
	}
	return http.StatusOK
}
