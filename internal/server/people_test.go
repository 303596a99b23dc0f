package server

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/npmtest"
)

const chat = "name: chat\nstates:\n  initial: talk\n  talk: {type: agent, provider: claude, mode: conversation, " +
	"prompt: hi, on_success: done}\n  done: {type: terminal}\n"

// Only a person, or a program with an approver role, answers in a conversation. Events never do.
func TestProgramsDoNotAnswerForAPerson(t *testing.T) {
	p := eventProject(t,
		map[string]string{"chat.yaml": chat, "waiter.md": strings.Replace(waiter, "file_uploaded", "talk", 1)})
	pages := false
	p, _, _ = p.again(Options{Pages: func(*Server) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { pages = true })
	}}, nil)
	owner := p.token
	as := func(service bool, roles ...identity.Role) string {
		t.Helper()
		name := "person"
		if service {
			name = "program"
		}
		token, err := p.auth.Users().Add(name+"-"+string(roles[len(roles)-1]), service, roles, 0)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	start := func(workflow string) string {
		t.Helper()
		var s api.Status
		p.token = owner
		p.call("POST", "/api/v1/runs", map[string]any{"workflow": workflow, "simulate": true}, &s, 201)
		p.until(s.ID, journal.StateWaiting)
		return s.ID
	}
	run, other := start("chat.yaml"), start("waiter")
	before, err := p.app.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sender := as(true, identity.Sender)
	for i, token := range []string{sender, as(true, identity.Operator), owner} {
		event := map[string]any{
			"mode": "structured", "id": string(rune('a' + i)), "source": "/x", "type": "talk", "data": "I am a person",
		}
		got := p.sendEvents(token, event)
		if got[0].Status != 202 || (i == 0) != (len(got[0].Woken) == 1) {
			t.Errorf("%d: %+v", i, got[0])
		}
		if i == 0 { // the waitpoint of the other run takes it
			p.until(other, journal.StateFinished)
			if before, err = p.app.Position(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	body := api.SignalBody{Event: "talk", Data: []byte(`"I am a person"`)}
	for token, want := range map[string]int{
		sender: 403, as(true, identity.Admin): 409, as(false, identity.Viewer): 403,
	} {
		p.token = token
		p.call("POST", "/api/v1/runs/"+run+"/signal", body, nil, want)
		// Pages refuse what the API refuses.
		r, err := http.NewRequest(http.MethodPost, p.url+"/runs/"+run+"/reply", strings.NewReader("event=talk&text=x"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		if refused := w.StatusCode == http.StatusForbidden; refused == pages ||
			refused != (want == 409 || token == sender) {
			t.Errorf("a page: %s, and the page was asked: %v", w.Status, pages)
		}
		pages = false
	}
	if after, err := p.app.Position(t.Context()); err != nil || after != before {
		t.Errorf("the journal has continued from %d to %d, %v", before, after, err)
	}
	for _, token := range []string{as(false, identity.Operator), as(true, identity.Operator, identity.Approver)} {
		p.token = token
		p.call("POST", "/api/v1/runs/"+run+"/signal", body, nil, 200)
		p.token = owner
		p.until(run, journal.StateWaiting)
	}
}

// Signing in replaces the session cookie, even a valid one of another user that an attacker has planted in the browser.
func TestPlantedSessionIsNotSignedIn(t *testing.T) {
	p := newProject(t)
	at, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	viewer, err := p.auth.Users().Add("mallory", false, []identity.Role{identity.Viewer}, 0)
	if err != nil {
		t.Fatal(err)
	}
	signIn := func(browser *http.Client, token string) {
		t.Helper()
		w, err := browser.PostForm(p.url+"/login", url.Values{"token": {token}, "next": {"/api/v1/me"}})
		if err != nil {
			t.Fatal(err)
		}
		w.Body.Close()
		if w.StatusCode != 200 {
			t.Fatalf("%s", w.Status)
		}
	}
	me := func(cookie *http.Cookie) (int, string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, p.url+"/api/v1/me", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.AddCookie(cookie)
		w := httptest.NewRecorder()
		p.server.Handler(p.addr()).ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	attacker := newBrowser(t)
	signIn(attacker, viewer)
	valid := attacker.Jar.Cookies(at)[0]
	for _, planted := range []*http.Cookie{
		{Name: valid.Name, Value: valid.Value}, {Name: valid.Name, Value: "chosen"},
	} {
		before, _ := me(planted)
		victim := newBrowser(t)
		victim.Jar.SetCookies(at, []*http.Cookie{planted})
		signIn(victim, p.token)
		var issued []*http.Cookie
		for _, c := range victim.Jar.Cookies(at) {
			if c.Value != planted.Value {
				issued = append(issued, c)
			}
		}
		if len(issued) != 1 {
			t.Fatalf("%v", victim.Jar.Cookies(at))
		}
		if status, text := me(issued[0]); status != 200 || !strings.Contains(text, `"owner"`) {
			t.Errorf("the new session: %d %s", status, text)
		}
		if status, text := me(planted); status != before || strings.Contains(text, `"owner"`) {
			t.Errorf("the planted session: %d, before %d: %s", status, before, text)
		}
	}
}

// No GET changes a run, such as that of a link in a notification that a program previews.
func TestGETDecidesNothing(t *testing.T) {
	p := newProject(t)
	var s api.Status
	start := map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}, "simulate": true}
	p.call("POST", "/api/v1/runs", start, &s, 201)
	digest := p.until(s.ID, journal.StateWaiting).Gates[0].Digest
	before, err := p.app.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, route := range p.server.Routes() {
		path := strings.NewReplacer("{workflow}", "gated", "{run}", s.ID, "{step}", "check",
			"{path}", "x", "{trigger}", "x").
			Replace(route.Path)
		for _, method := range []string{http.MethodGet, http.MethodHead} { // also where only POST is served
			r, err := http.NewRequestWithContext(t.Context(), method,
				p.url+path+"?decision=approve&digest="+digest+"&event=x", strings.NewReader(`{"decision":"approve","digest":"`+digest+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+p.token)
			r.Header.Set("Content-Type", "application/json")
			w, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			w.Body.Close() // live events do not end
			if w.StatusCode >= 500 {
				t.Errorf("%s %s: %s", method, path, w.Status)
			}
			asked++
		}
	}
	after, err := p.app.Position(t.Context())
	if err != nil || after != before || asked < 50 {
		t.Errorf("the journal was at %d, and is at %d, %v; %d requests", before, after, err, asked)
	}
	if s = p.until(s.ID, journal.StateWaiting); s.Gates[0].Digest != digest {
		t.Errorf("%+v", s)
	}
}

// Behind a proxy, the provider sends people back to the public address: it knows no other one.
func TestOIDCRedirectsToThePublicAddress(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "gated.md"), []byte(gated), 0o600); err != nil {
		t.Fatal(err)
	}
	var proxied http.Handler
	proxy := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { proxied.ServeHTTP(w, r) }))
	defer proxy.Close()
	public, err := url.Parse(proxy.URL + "/flows")
	if err != nil {
		t.Fatal(err)
	}
	issuer := npmtest.Serve(t, filepath.Join("testdata", "oidc.mjs"), "oidc-provider@9.13.3",
		public.String()+oidcCallback)
	first := serve(t, dir)
	first.auth.UseOIDC(&identity.OIDCSettings{
		Issuer: issuer, ClientID: "espalier", ClientSecret: "hidden",
		Roles: map[string][]identity.Role{"writers": {identity.Operator}},
	})
	p, _, _ := first.again(Options{PublicURL: public}, nil)
	behind, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	proxied = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind) }}
	p.url = public.String()
	browser := newBrowser(t)
	status, page := p.browse(browser, "ana")
	if status != 200 || !strings.Contains(page, "url=/flows/api/v1/me") {
		t.Fatalf("%d %s", status, page)
	}
	w, err := browser.Get(p.url + "/api/v1/me")
	if err != nil {
		t.Fatal(err)
	}
	w.Body.Close()
	if w.StatusCode != 200 {
		t.Errorf("after signing in: %s", w.Status)
	}
}
