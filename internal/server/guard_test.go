package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/identity"
)

// guarded returns a handler that answers with the name of who asks, behind the
// whole guard.
func guarded(t *testing.T, public string) (http.Handler, *authentication, string, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	a, err := identity.NewAuthenticator(dir)
	if err != nil {
		t.Fatal(err)
	}
	token, err := identity.ProjectToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	var at *url.URL
	if public != "" {
		if at, err = url.Parse(public); err != nil {
			t.Fatal(err)
		}
	}
	auth := newAuthentication(a, dir, "/", false)
	var logged bytes.Buffer
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, ok := IdentityOf(r.Context())
		if !ok {
			w.Write([]byte("nobody"))
			return
		}
		w.Write([]byte(id.Kind))
	})
	h = auth.handler(h)
	h = withSameOrigin(h, at)
	h = withHosts(h, servedHosts(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7777}, at))
	h = withSecurityHeaders(h, false)
	log := slog.New(slog.NewJSONHandler(&logged, nil))
	return withLog(h, log, func(text string) string { return text }), auth, token, &logged
}

func ask(h http.Handler, method, target string, set ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(set); i += 2 {
		r.Header.Set(set[i], set[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestRequestsForOtherHostsAreRefused(t *testing.T) {
	h, _, _, _ := guarded(t, "https://flows.example.org/base")
	for host, want := range map[string]int{
		"127.0.0.1:7777": 200, "localhost:7777": 200, "LOCALHOST:7777": 200, "[::1]:7777": 200,
		"flows.example.org": 200, "evil.example": 421, "evil.example:7777": 421, "127.0.0.1": 421, "localhost:1": 421,
		"flows.example.org:7777": 421, "localhost.evil.example:7777": 421,
	} {
		if w := ask(h, "GET", "http://"+host+"/"); w.Code != want {
			t.Errorf("%s: %d, want %d", host, w.Code, want)
		}
	}
}

func TestRequestsFromOtherSitesAreRefused(t *testing.T) {
	h, _, _, _ := guarded(t, "https://flows.example.org")
	for _, c := range []struct {
		set  []string
		want int
	}{
		{nil, 200}, // no browser
		{[]string{"Sec-Fetch-Site", "same-origin"}, 200},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Sec-Fetch-Site", "same-site"}, 403},
		{[]string{"Origin", "https://evil.example"}, 403},
		{[]string{"Origin", "null"}, 403},
		{[]string{"Origin", "http://127.0.0.1:7777"}, 200},
		{[]string{"Origin", "https://flows.example.org", "Sec-Fetch-Site", "cross-site"}, 200},
	} {
		if w := ask(h, "POST", "http://127.0.0.1:7777/", c.set...); w.Code != c.want {
			t.Errorf("%v: %d, want %d", c.set, w.Code, c.want)
		}
	}
}

func TestOnlyHeadersAndSessionsIdentifyUsers(t *testing.T) {
	h, auth, token, logged := guarded(t, "")
	login := httptest.NewRecorder()
	if err := auth.startSession(login, identity.OwnerOf()); err != nil {
		t.Fatal(err)
	}
	cookie := login.Result().Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
		t.Errorf("%+v", cookie)
	}
	session := cookie.Name + "=" + cookie.Value
	for _, c := range []struct {
		what, path string
		set        []string
		code       int
		body       string
	}{
		{"nothing", "", nil, 200, "nobody"},
		{"the project's token", "", []string{"Authorization", "Bearer " + token}, 200, "owner"},
		{"a scheme in lower case", "", []string{"Authorization", "bearer " + token}, 200, "owner"},
		{"a wrong token", "", []string{"Authorization", "Bearer " + token + "x"}, 401, ""},
		{"another scheme", "", []string{"Authorization", "Basic " + token}, 401, ""},
		{"a token in the address", "?token=" + token + "&access_token=" + token, nil, 200, "nobody"},
		{"a token as user", "", []string{"Cookie", cookie.Name + "=" + token}, 200, "nobody"},
		{"a session", "", []string{"Cookie", session}, 200, "owner"},
		{"a forged session", "", []string{"Cookie", session + "x"}, 200, "nobody"},
		{"a session beside a wrong token", "", []string{"Cookie", session, "Authorization", "Bearer x"}, 401, ""},
	} {
		w := ask(h, "GET", "http://localhost:7777/"+c.path, c.set...)
		if w.Code != c.code || c.body != "" && w.Body.String() != c.body {
			t.Errorf("%s: %d %s", c.what, w.Code, w.Body)
		}
	}
	if log := logged.String(); strings.Contains(log, token) || strings.Contains(log, cookie.Value) {
		t.Error("the log holds a credential")
	}
}

func TestGuessingTokensIsSlowedDown(t *testing.T) {
	h, _, token, _ := guarded(t, "")
	refused, limited := 0, 0
	for range 3 * failureBurst {
		switch w := ask(h, "GET", "http://localhost:7777/", "Authorization", "Bearer guess"); w.Code {
		case http.StatusUnauthorized:
			refused++
		case http.StatusTooManyRequests:
			limited++
			if w.Header().Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
	}
	if refused < failureBurst || refused > failureBurst+2 || refused+limited != 3*failureBurst {
		t.Errorf("%d refused, %d limited", refused, limited)
	}
	if w := ask(h, "GET", "http://localhost:7777/", "Authorization", "Bearer "+token); w.Code != 200 {
		t.Errorf("a right token after wrong ones: %d", w.Code)
	}
}

func TestProblemsNameTheRequestAndHideTheQuery(t *testing.T) {
	h, _, _, logged := guarded(t, "")
	w := ask(h, "GET", "http://evil.example/?q=private")
	var p Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil ||
		w.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%v, %v", err, w.Header())
	}
	if p.Request == "" || p.Request != w.Header().Get("X-Request-Id") || !strings.Contains(logged.String(), p.Request) {
		t.Errorf("request id %q, log %s", p.Request, logged)
	}
	if strings.Contains(logged.String(), "private") {
		t.Error("the log holds the query")
	}
	for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy"} {
		if w.Header().Get(name) == "" {
			t.Errorf("no %s", name)
		}
	}
	if policy := w.Header().Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") ||
		strings.Contains(policy, "*") {
		t.Error(policy)
	}
}

// A request has one line in the log, with the id that the client got, and with the run that it was about.
func TestRequestsAreLoggedWithTheirRuns(t *testing.T) {
	p := newProject(t)
	var s api.Status
	start := map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}, "simulate": true}
	started := p.call("POST", "/api/v1/runs", start, &s, 201)
	looked := p.call("GET", "/api/v1/runs/"+s.ID, nil, nil, 200)
	p.stop()
	for _, header := range []http.Header{started, looked} {
		id := header.Get("X-Request-Id")
		var lines []string
		for line := range strings.Lines(p.log.String()) {
			if strings.Contains(line, "request_id="+id+" ") {
				lines = append(lines, line)
			}
		}
		if id == "" || len(lines) != 1 || !strings.Contains(lines[0], "run_id="+s.ID) {
			t.Errorf("request %q of run %s: %q", id, s.ID, lines)
		}
	}
}

// A client may put a secret into an address, and an error may quote one.
func TestLogOfRequestsHasNoSecrets(t *testing.T) {
	const secret = "tok-of-the-vault"
	t.Setenv("TEST_TOKEN", secret)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"espalier.yaml": "secrets: {vault: {env: TEST_TOKEN}}\n", "gated.md": strings.ReplaceAll(gated, "~~~", "```"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := app.New(app.Options{Dir: dir, Home: t.TempDir(), Getenv: os.Getenv})
	defer a.Close()
	an, err := a.Analyze(t.Context(), app.AnalyzeRequest{Workflow: "gated", Reading: catalog.ReadOptions{Run: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Prepare(t.Context(), app.PrepareRequest{
		Workflow: an, Options: app.RunOptions{Simulate: true}, Input: json.RawMessage(`{"question": "why?"}`),
	}); err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	h := withLog(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		logEntryOf(r.Context()).err = errors.New("there is no run " + secret)
	}), slog.New(slog.NewJSONHandler(&logged, nil)), a.Redact)
	ask(h, "GET", "http://127.0.0.1:7777/api/v1/runs/"+secret)
	if text := logged.String(); strings.Contains(text, secret) || strings.Count(text, "[secret vault]") != 2 {
		t.Error(text)
	}
}
