package server

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
)

// user adds an account and returns its token and the id of the token.
func (p *project) user(name string, service bool, roles ...identity.Role) (token, id string) {
	p.t.Helper()
	token, err := p.auth.Users().Add(name, service, roles, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	who, err := p.auth.Token(p.t.Context(), token)
	if err != nil {
		p.t.Fatal(err)
	}
	return token, who.Token
}

func simulated() map[string]any {
	return map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}, "simulate": true}
}

// Programs decide only if they have an approver role, even if they may do everything else.
func TestServicesDecideGatesAsApproversOnly(t *testing.T) {
	p := newProject(t)
	admin, _ := p.user("admin-service", true, identity.Admin)
	approver, _ := p.user("approver-service", true, identity.Approver)
	var s api.Status
	p.call("POST", "/api/v1/runs", simulated(), &s, 201)
	approval := api.DecideBody{Decision: "approve", Digest: p.until(s.ID, journal.StateWaiting).Gates[0].Digest}
	p.call("POST", "/api/v1/runs/"+s.ID+"/decide", approval, nil, 403, "Authorization", "Bearer "+admin)
	p.call("POST", "/api/v1/runs/"+s.ID+"/decide", approval, nil, 200, "Authorization", "Bearer "+approver)
}

// A stream that is open when a token is revoked, or when its user loses the role, sends no further event.
func TestStreamsEndWithTheirCredentials(t *testing.T) {
	for name, end := range map[string]func(u *identity.Users, token string) error{
		"revoked": func(u *identity.Users, token string) error { return u.RevokeToken("eve", token) },
		"removed": func(u *identity.Users, _ string) error { return u.Remove("eve") },
		"role withdrawn": func(u *identity.Users, _ string) error {
			return u.SetRoles("eve", []identity.Role{identity.Sender})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			token, id := p.user("eve", false, identity.Viewer)
			r, err := http.NewRequestWithContext(t.Context(), "GET", p.url+"/api/v1/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			w, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Body.Close()
			lines := bufio.NewScanner(w.Body)
			var before, after api.Status
			p.call("POST", "/api/v1/runs", simulated(), &before, 201)
			for lines.Scan() && !strings.Contains(lines.Text(), before.ID) {
			}
			p.until(before.ID, journal.StateWaiting)
			if err := end(p.auth.Users(), id); err != nil {
				t.Fatal(err)
			}
			p.call("POST", "/api/v1/runs", simulated(), &after, 201)
			for lines.Scan() { // until the server closes the stream
				if strings.Contains(lines.Text(), after.ID) {
					t.Fatalf("an event was sent: %s", lines.Text())
				}
			}
		})
	}
}

// After signing out, a copy of the cookie is of no use.
func TestSigningOutEndsTheSessionAtTheServer(t *testing.T) {
	p := newProject(t)
	token, _ := p.user("ana", false, identity.Viewer)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	post := func(path string, form url.Values) {
		t.Helper()
		w, err := browser.PostForm(p.url+path, form)
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		if w.StatusCode != http.StatusSeeOther {
			t.Fatalf("%s: %d", path, w.StatusCode)
		}
	}
	post("/login", url.Values{"token": {token}})
	address, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	stolen := jar.Cookies(address)
	status := func() int {
		t.Helper()
		r, err := http.NewRequest("GET", p.url+"/api/v1/runs", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range stolen {
			r.AddCookie(c)
		}
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		return w.StatusCode
	}
	if got := status(); got != 200 {
		t.Fatalf("before: %d", got)
	}
	post("/logout", nil)
	if got := status(); got != 401 {
		t.Errorf("after: %d", got)
	}
}

// A request to a webhook is no consent to the commands of an AWF workflow: they need approval of their content.
func TestWebhooksDoNotConsentToCommandsOfAWF(t *testing.T) {
	dir := t.TempDir()
	made := filepath.Join(t.TempDir(), "made")
	for name, text := range map[string]string{
		".awf/workflows/touch.yaml": strings.Replace(awfWorkflow, "%s", made, 1),
		"espalier.yaml": "secrets: {s: {env: TEST_HOOK}}\n" +
			"webhooks: {push: {workflow: touch, verify: github, secret: secret://s}}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TEST_HOOK", "It's a Secret to Everybody")
	t.Setenv("HOME", t.TempDir()) // approvals are stored there
	p := serve(t, dir)
	post := func(body string) answer {
		mac := hmac.New(sha256.New, []byte(os.Getenv("TEST_HOOK")))
		mac.Write([]byte(body))
		return p.hook("push", body, "X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	if got := post(`{"n":1}`); got.Status != 503 || len(got.Started) != 0 || !strings.Contains(got.Detail, "consent") {
		t.Fatalf("%+v", got)
	}
	review, err := p.app.Review(context.Background(), dir, catalog.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.app.Approve(review); err != nil {
		t.Fatal(err)
	}
	got := post(`{"n":1}`) // the same delivery: it has started nothing before
	if len(got.Started) != 1 || got.Duplicate {
		t.Fatalf("after the approval: %+v", got)
	}
	p.until(got.Started[0], journal.StateFinished)
	if _, err := os.Stat(made); err != nil {
		t.Error(err)
	}
}

const awfWorkflow = `name: touch
version: "1"
states:
  initial: touch
  touch:
    type: step
    command: touch %s
    on_success: done
    on_failure: done
  done:
    type: terminal
`

// Starting an AWF workflow over the API is consent to its commands, for which the operator role is needed. A role that
// can do less, an event or a request of another kind starts none of them.
func TestOperatorsConsentToCommandsOfAWF(t *testing.T) {
	dir := t.TempDir()
	made := filepath.Join(t.TempDir(), "made")
	folder := filepath.Join(dir, ".awf", "workflows")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(awfWorkflow, "%s", made, 1)
	if err := os.WriteFile(filepath.Join(folder, "touch.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, dir)
	start := map[string]any{"workflow": "touch"}
	for _, role := range []identity.Role{identity.Viewer, identity.Approver, identity.Sender, "starter:touch"} {
		token, _ := p.user(strings.ReplaceAll(string(role), ":", "-"), false, role)
		p.call("POST", "/api/v1/runs", start, nil, 403, "Authorization", "Bearer "+token)
	}
	if _, err := os.Stat(made); err == nil {
		t.Fatal("a role without the permission has executed a command")
	}
	operator, _ := p.user("operator", false, identity.Operator)
	var s api.Status
	p.call("POST", "/api/v1/runs", start, &s, 201, "Authorization", "Bearer "+operator)
	p.until(s.ID, journal.StateFinished)
	if _, err := os.Stat(made); err != nil {
		t.Error(err)
	}
}
