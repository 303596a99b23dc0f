package server

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/journal"
)

// largestWrite is a response that measures the longest write to it.
type largestWrite struct {
	*httptest.ResponseRecorder
	longest int
}

func (w *largestWrite) Write(p []byte) (int, error) {
	w.longest = max(w.longest, len(p))
	return w.ResponseRecorder.Write(p)
}

// Records are streamed: the server never holds a whole one, however long it is.
func TestRecordsAreStreamed(t *testing.T) {
	p := newProject(t)
	question := strings.Repeat("why? ", 100_000)
	start := map[string]any{"workflow": "gated", "input": map[string]any{"question": question}, "simulate": true}
	var s api.Status
	p.call("POST", "/api/v1/runs", start, &s, 201)
	p.until(s.ID, journal.StateWaiting)
	address, err := net.ResolveTCPAddr("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for record, least := range map[string]int{"transcript": len(question), "audit": 1000} {
		r := httptest.NewRequest(http.MethodGet, p.url+"/api/v1/runs/"+s.ID+"/"+record, nil)
		r.Header.Set("Authorization", "Bearer "+p.token)
		w := &largestWrite{ResponseRecorder: httptest.NewRecorder()}
		p.server.Handler(address).ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Body.Len() < least {
			t.Errorf("%s: status %d, %d bytes", record, w.Code, w.Body.Len())
		}
		if w.longest > 64<<10 {
			t.Errorf("%s: %d of %d bytes are written at once", record, w.longest, w.Body.Len())
		}
	}
}
