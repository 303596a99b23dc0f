//go:build unix

package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// resume of a run that ends after the command has read it reports how the run ended.
func TestResumeReportsAnEndThatComesMeanwhile(t *testing.T) {
	p := newGatedProject(t)
	s := startServer(p)
	const run = "11111111-1111-4111-8111-111111111111"
	p.wantExit(4, "run", "gated", "--simulate", "--input", "question=why", "--run-id", run)
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	resumed := false
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/resume") {
			resumed = true
			if out, err := p.command("cancel", run).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
		forward.ServeHTTP(w, r)
	}))
	defer between.Close()
	cmd := p.command("resume", run)
	cmd.Dir = t.TempDir()
	cmd.Env = append(cmd.Env, "ESPALIER_SERVER="+between.URL, "ESPALIER_TOKEN="+s.token)
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); !resumed || code != 1 ||
		!strings.Contains(string(out), "run 11111111 of gated was canceled") {
		t.Errorf("resumed: %t, exit code %d: %s", resumed, code, out)
	}
}
