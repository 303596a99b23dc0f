package server

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
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

// A handler that writes nothing has succeeded.
func TestEmptyResponsesAreLoggedWithTheirStatus(t *testing.T) {
	var out bytes.Buffer
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	handler := withLog(next, slog.New(slog.NewTextHandler(&out, nil)), strings.TrimSpace)
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodHead, "/api/v1/events", http.NoBody))
	if !strings.Contains(out.String(), " status=200 ") {
		t.Error(out.String())
	}
}

// Browsers send a host without its port if that is the usual one, and an IPv6 address in brackets.
func TestHostsHaveNoUsualPort(t *testing.T) {
	for port, without := range map[int]bool{80: true, 443: true, 7477: false} {
		hosts := servedHosts(&net.TCPAddr{IP: net.IPv6loopback, Port: port}, nil)
		for _, host := range []string{"localhost", "127.0.0.1", "[::1]"} {
			if slices.Contains(hosts, host) != without || !slices.Contains(hosts, host+":"+strconv.Itoa(port)) {
				t.Errorf("port %d: %q", port, hosts)
			}
		}
	}
}
