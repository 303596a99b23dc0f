package server

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A page has many static files: requests of them are not worth a line, unless they fail.
func TestStaticFilesAreLoggedAtDebug(t *testing.T) {
	for _, c := range []struct {
		path   string
		status int
		logged bool
	}{
		{"/static/app.0123456789.css", http.StatusOK, false},
		{"/static/app.0123456789.css", http.StatusNotModified, false},
		{"/static/none.css", http.StatusNotFound, true},
		{"/runs", http.StatusOK, true},
	} {
		var out bytes.Buffer
		next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) })
		handler := withLog(next, slog.New(slog.NewTextHandler(&out, nil)), strings.TrimSpace)
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, c.path, http.NoBody))
		if logged := out.Len() > 0; logged != c.logged {
			t.Errorf("%s, status %d: logged %v, want %v", c.path, c.status, logged, c.logged)
		}
	}
}
