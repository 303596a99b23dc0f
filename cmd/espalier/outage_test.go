//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/pgtest"
)

// requestText makes a request, and returns the status and the body. A request that waits as long as workers do fails
// the test.
func (s *serverProcess) requestText(method, path, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return 0, ""
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	w, err := (&http.Client{Timeout: 45 * time.Second}).Do(r)
	if err != nil {
		s.t.Error(err)
		return 0, ""
	}
	defer w.Body.Close()
	raw, err := io.ReadAll(w.Body)
	if err != nil {
		s.t.Error(err)
	}
	return w.StatusCode, string(raw)
}

// While the database is down, requests fail soon and say why, and the process counts as alive. When the database is
// back, everything works again.
func TestServerSurvivesAnOutageOfItsDatabase(t *testing.T) {
	for name, outage := range map[string]func(*testing.T, *pgtest.Server) (host string, down, up func()){
		"killed": func(t *testing.T, server *pgtest.Server) (string, func(), func()) {
			return server.Dir(), server.Kill, func() {
				if err := server.Run(); err != nil {
					t.Fatal(err)
				}
			}
		},
		"cut off": func(t *testing.T, server *pgtest.Server) (string, func(), func()) {
			n := newNetwork(t, server)
			return n.dir, n.mu.Lock, n.mu.Unlock
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := pgtest.Start()
			pgtest.Require(t, err)
			t.Cleanup(server.Remove)
			host, down, up := outage(t, server)
			t.Setenv("ESPALIER_STORE", "postgres://espalier@/postgres?host="+url.QueryEscape(host))
			p := newAWF(t, awfChain)
			writeApproved(t, filepath.Join(p.dir, "espalier.yaml"), "allow: {shell: true}\n")
			var log bytes.Buffer
			s := startServerTo(p, &log)
			run := s.call("POST", "/api/v1/runs", `{"workflow": "flow"}`, 201)["run_id"].(string)
			s.waitForState(run, "finished")

			down()
			if status, body := s.requestText("GET", "/healthz", ""); status != 200 {
				t.Errorf("/healthz: %d %s", status, body)
			}
			var requests sync.WaitGroup // all at once, because each waits a while for the database
			for _, path := range []string{"/readyz", "/api/v1/runs", "/api/v1/runs/" + run} {
				requests.Go(func() {
					status, body := s.requestText("GET", path, "")
					checkStoreUnavailable(t, path, status, body)
				})
			}
			requests.Go(func() {
				status, body := s.requestText("POST", "/api/v1/runs", `{"workflow": "flow"}`)
				checkStoreUnavailable(t, "start", status, body)
			})
			requests.Go(func() {
				status, body := s.requestText("GET", "/runs", "")
				if status != 503 || !strings.Contains(body, "The database cannot be reached") {
					t.Errorf("page: %d %s", status, body)
				}
			})
			requests.Wait()

			up()
			s.waitReady()
			again := s.call("POST", "/api/v1/runs", `{"workflow": "flow"}`, 201)["run_id"].(string)
			s.waitForState(again, "finished")
			p.wantTrace("a", "b", "c", "a", "b", "c")
			s.cmd.Process.Kill()
			s.cmd.Wait()
			if !strings.Contains(log.String(), "the database cannot be reached: ") {
				t.Errorf("the log does not have the reason: %s", &log)
			}
		})
	}
}

// checkStoreUnavailable checks the answer to a request while the database is down. It names neither the host nor the
// user.
func checkStoreUnavailable(t *testing.T, what string, status int, body string) {
	t.Helper()
	var problem struct{ Code, Detail string }
	if err := json.Unmarshal([]byte(body), &problem); err != nil || status != 503 ||
		problem.Code != "store-unavailable" {
		t.Errorf("%s: %d %s %v", what, status, body, err)
	}
	if strings.Contains(body, "PGSQL") || strings.Contains(body, "user=") {
		t.Errorf("%s: the answer names the database: %s", what, body)
	}
}
