package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/npmtest"
)

// withProvider returns a project whose people sign in at an OpenID Connect
// provider, and the address of the provider.
func withProvider(t *testing.T) (*project, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "gated.md"), []byte(gated), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	issuer := npmtest.Serve(t, filepath.Join("testdata", "oidc.mjs"), "oidc-provider@9.13.3",
		"http://"+l.Addr().String()+oidcCallback)
	p := serveOn(t, dir, l, func(a *identity.Authenticator) {
		a.UseOIDC(&identity.OIDCSettings{
			Issuer: issuer, ClientID: "espalier", ClientSecret: "hidden",
			Roles: map[string][]identity.Role{
				"writers": {identity.Operator, "approver:legal"}, "staff": {identity.Viewer},
			},
		})
	})
	return p, issuer
}

var formAction = regexp.MustCompile(`action="([^"]+)"`)

// browse signs a person in as a browser does, and returns the last response
// before the pages of the server.
func (p *project) browse(browser *http.Client, name string) (int, string) {
	p.t.Helper()
	w, err := browser.Get(p.url + "/login/oidc?next=/api/v1/me")
	for _, form := range []url.Values{
		{"prompt": {"login"}, "login": {name}, "password": {"any"}}, {"prompt": {"consent"}},
	} {
		if err != nil {
			p.t.Fatal(err)
		}
		page, _ := io.ReadAll(w.Body)
		w.Body.Close()
		action := formAction.FindSubmatch(page)
		if action == nil {
			p.t.Fatalf("%d: no form in %s", w.StatusCode, page)
		}
		to, parseErr := w.Request.URL.Parse(string(action[1]))
		if parseErr != nil {
			p.t.Fatal(parseErr)
		}
		w, err = browser.PostForm(to.String(), form)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	defer w.Body.Close()
	page, err := io.ReadAll(w.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return w.StatusCode, string(page)
}

func newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar}
}

// People sign in at the provider; their groups decide what they may do here.
func TestPeopleSignInAtAnOpenIDConnectProvider(t *testing.T) {
	p, _ := withProvider(t)
	browser := newBrowser(t)
	if status, page := p.browse(browser, "ana"); status != 200 || !strings.Contains(page, "url=/api/v1/me") {
		t.Fatalf("%d %s", status, page)
	}
	w, err := browser.Get(p.url + "/api/v1/me")
	if err != nil {
		t.Fatal(err)
	}
	me, _ := io.ReadAll(w.Body)
	w.Body.Close()
	for _, want := range []string{`"ana@example.org"`, `"oidc"`, `"operator"`, `"approver:legal"`, `"viewer"`} {
		if !strings.Contains(string(me), want) {
			t.Errorf("%s is missing in %s", want, me)
		}
	}
	if _, err := p.auth.Users().Add("root@example.org", false, []identity.Role{identity.Viewer}, 0); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"ben": "none of your groups", "eve": "not verified your email", "root": "is an account of this server",
	} {
		other := newBrowser(t)
		if status, page := p.browse(other, name); status != 403 || !strings.Contains(page, want) {
			t.Errorf("%s: %d %s", name, status, page)
		}
		w, err := other.Get(p.url + "/api/v1/me")
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		if w.StatusCode != 401 {
			t.Errorf("%s has a session: %d", name, w.StatusCode)
		}
	}
	// A callback without the cookie of its attempt does not sign in.
	w, err = newBrowser(t).Get(p.url + oidcCallback + "?code=x&state=y")
	if err != nil {
		t.Fatal(err)
	}
	w.Body.Close()
	if w.StatusCode != 403 {
		t.Errorf("a foreign attempt: %d", w.StatusCode)
	}
}

// Programs send ID tokens. Tokens that are expired, issued for another client, or
// signed with a key that the provider no longer has, are refused.
func TestIDTokensOfTheProviderAreVerified(t *testing.T) {
	p, issuer := withProvider(t)
	fetch := func(address string) string {
		t.Helper()
		w, err := http.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		raw, err := io.ReadAll(w.Body)
		if err != nil || w.StatusCode != 200 {
			t.Fatalf("%d %s %v", w.StatusCode, raw, err)
		}
		return string(raw)
	}
	status := func(token string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, p.url+"/api/v1/me", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		return w.StatusCode
	}
	good := fetch(issuer + "/mint?sub=ana")
	for what, c := range map[string]struct {
		token string
		want  int
	}{
		"a valid token":   {good, 200},
		"expired":         {fetch(issuer + "/mint?sub=ana&ttl=-60"), 401},
		"wrong audience":  {fetch(issuer + "/mint?sub=ana&aud=other"), 401},
		"wrong issuer":    {fetch(issuer + "/mint?sub=ana&iss=https://evil.example"), 401},
		"missing group":   {fetch(issuer + "/mint?sub=ben"), 401},
		"no name":         {fetch(issuer + "/mint?sub=nobody"), 401},
		"changed":         {good[:len(good)-10] + "AAAAAAAAAA", 401},
		"without a seal":  {strings.Join(strings.Split(good, ".")[:2], ".") + ".", 401},
		"unsigned tokens": {"eyJhbGciOiJub25lIn0." + strings.Split(good, ".")[1] + ".", 401},
	} {
		if got := status(c.token); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
	fetch(issuer + "/rotate")
	if got := status(fetch(issuer + "/mint?sub=ana")); got != 200 {
		t.Errorf("a token with the new key: %d", got)
	}
	if got := status(fetch(issuer + "/mint?sub=ana&key=old")); got != 401 {
		t.Errorf("a token with the key that was replaced: %d", got)
	}
	// What such a person does is recorded with how they were identified.
	p.token = fetch(issuer + "/mint?sub=ana")
	var s api.Status
	start := map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}, "simulate": true}
	p.call("POST", "/api/v1/runs", start, &s, 201)
	p.until(s.ID, journal.StateWaiting)
	var log []byte
	p.call("GET", "/api/v1/runs/"+s.ID+"/audit", nil, &log, 200)
	if !strings.Contains(string(log), `"actor":"ana@example.org","actor_method":"oidc"`) {
		t.Errorf("%s", log)
	}
}
