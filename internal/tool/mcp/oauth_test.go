//go:build unix

package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/netguard"
	"github.com/espalier-run/espalier/internal/npmtest"
	"github.com/espalier-run/espalier/internal/tool/mcp"
)

// protected is a remote server that needs tokens of an authorization server.
type protected struct{ url, issuer string }

// newProtected starts a server and npm oidc-provider as its authorization server.
func newProtected(t *testing.T) protected {
	issuer := npmtest.Serve(t, filepath.Join("testdata", "oauth.mjs"), "oidc-provider@9.13.3")
	mux := http.NewServeMux()
	remote := httptest.NewServer(mux)
	t.Cleanup(remote.Close)
	p := protected{remote.URL + "/mcp", issuer}
	mux.HandleFunc("/.well-known/oauth-protected-resource", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q],"scopes_supported":["tools"]}`, p.url, issuer)
	})
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server() }, nil)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if token == "" || p.get(t, "/valid?token="+url.QueryEscape(token)) != "true" {
			w.Header().Set("WWW-Authenticate",
				`Bearer resource_metadata="`+remote.URL+`/.well-known/oauth-protected-resource"`)
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
	return p
}

// get asks the authorization server.
func (p protected) get(t *testing.T, path string) string {
	resp, err := http.Get(p.issuer + path)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(raw)
}

// A remote server that needs a token of an authorization server gets one, with the client secret of the
// configuration. The authorization server is npm oidc-provider.
func TestRemoteServerGetsAToken(t *testing.T) {
	p := newProtected(t)
	issuer, get := p.issuer, func(path string) string { return p.get(t, path) }
	with := func(secret, issuer string) *mcp.Server {
		s := mcp.New(mcp.Config{Name: "fake", URL: p.url, OAuth: &mcp.OAuth{
			ClientID: "espalier", Issuer: issuer, Secret: func(context.Context) (string, error) { return secret, nil },
		}})
		t.Cleanup(s.Close)
		return s
	}
	s := with("hidden", issuer)
	for range 2 {
		if got, class := call(t, s, "fake.echo", `{"say":"roses"}`); class != "" || !strings.Contains(got, "roses") {
			t.Errorf("%s %s", class, got)
		}
	}
	if n := get("/issued"); n != "1" {
		t.Errorf("%s tokens were issued", n)
	}
	other := with("hidden", "https://other.example")
	other.Guard = netguard.Options{Allow: []string{strings.TrimPrefix(issuer, "http://")}}
	for want, s := range map[string]*mcp.Server{
		"client authentication failed":              with("wrong", issuer),
		"does not match pre-registered credentials": other,
		"is a loopback address":                     with("hidden", ""), // the server names an issuer
	} {
		if _, err := s.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, and not %s", err, want)
		}
	}
	failing := mcp.New(mcp.Config{Name: "fake", URL: p.url, OAuth: &mcp.OAuth{
		ClientID: "espalier", Secret: func(context.Context) (string, error) { return "", errors.New("no such secret") },
	}})
	defer failing.Close()
	if _, err := failing.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "no such secret") {
		t.Error(err)
	}
	if n := get("/issued"); n != "1" {
		t.Errorf("%s tokens were issued", n)
	}
}

var formAction = regexp.MustCompile(`action="([^"]+)"`)

// browse signs a person in at the address that a sign-in shows, as a browser does. With refuse, the person declines.
func browse(address string, refuse bool) (string, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	browser := &http.Client{Jar: jar}
	read := func(resp *http.Response, err error) (string, *url.URL, error) {
		if err != nil {
			return "", nil, err
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		return string(page), resp.Request.URL, err
	}
	page, at, err := read(browser.Get(address))
	if refuse && err == nil {
		page, _, err = read(browser.Get(at.String() + "/abort"))
		return page, err
	}
	for _, form := range []url.Values{
		{"prompt": {"login"}, "login": {"ana"}, "password": {"any"}}, {"prompt": {"consent"}},
	} {
		if err != nil {
			return "", err
		}
		action := formAction.FindStringSubmatch(page)
		if action == nil {
			return "", fmt.Errorf("no form in %s", page)
		}
		to, err := at.Parse(action[1])
		if err != nil {
			return "", err
		}
		if page, at, err = read(browser.PostForm(to.String(), form)); err != nil {
			return "", err
		}
	}
	return page, err
}

// A person signs in with a browser at the authorization server of a remote server, npm oidc-provider: with a client
// that registers itself, and with one that is registered. Processes share the sign-in and renew its token.
func TestPersonSignsInAtARemoteServer(t *testing.T) {
	p := newProtected(t)
	guard := netguard.Options{Allow: []string{strings.TrimPrefix(p.issuer, "http://")}}
	for name, client := range map[string]*mcp.OAuth{"new": nil, "registered": {ClientID: "public", Issuer: p.issuer}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state", "logins.json")
			hidden := 0
			start := func() *mcp.Server { // as in a new process
				s := mcp.New(mcp.Config{
					Name: "fake", URL: p.url, OAuth: client, Guard: guard, Logins: mcp.NewLogins(path),
					Hide: func(string) { hidden++ },
				})
				t.Cleanup(s.Close)
				return s
			}
			works := func(s *mcp.Server) {
				t.Helper()
				if got, class := call(t, s, "fake.echo", `{"say":"roses"}`); class != "" || !strings.Contains(got, "roses") {
					t.Errorf("%s %s", class, got)
				}
			}
			needsSignIn := func(want string) {
				t.Helper()
				_, err := start().Tools(t.Context())
				if known, ok := errors.AsType[*mcp.SignInError](err); !ok || known.Server != "fake" ||
					!strings.Contains(err.Error(), want) {
					t.Errorf("%v, and not %s", err, want)
				}
			}
			needsSignIn("you are not signed in")
			signIn := func(refuse bool) error {
				return start().SignIn(t.Context(), func(address string) {
					shown, err := url.Parse(address)
					if err != nil {
						t.Error(err)
					}
					if shown.Query().Get("code_challenge_method") != "S256" {
						t.Errorf("no PKCE in %s", address)
					}
					// A page that does not know the state answers nothing.
					resp, err := http.Get(shown.Query().Get("redirect_uri") + "?code=planted&state=guessed")
					if err != nil || resp.StatusCode != http.StatusBadRequest {
						t.Errorf("%v, %v", resp, err)
					}
					if err == nil {
						resp.Body.Close()
					}
					page, err := browse(address, refuse)
					if err != nil || !strings.Contains(page, "return to the terminal") {
						t.Errorf("%s, %v", page, err)
					}
				})
			}
			if err := signIn(true); err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("a person who declines is signed in: %v", err)
			}
			needsSignIn("you are not signed in")
			if err := signIn(false); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			one, other := start(), start()
			works(one)
			works(other)
			if hidden == 0 {
				t.Error("the token is not hidden")
			}
			for range 2 { // the second time, the refresh token is one of the first
				before, err := mcp.NewLogins(path).AccessToken(p.url)
				if err != nil {
					t.Fatal(err)
				}
				p.get(t, "/revoke?token="+url.QueryEscape(before))
				works(one)
				works(other)
				if after, err := mcp.NewLogins(path).AccessToken(p.url); err != nil || after == before {
					t.Errorf("the token was not renewed: %v", err)
				}
			}
			p.get(t, "/end")
			needsSignIn("your sign-in is no longer valid")
			if found, err := mcp.NewLogins(path).Remove(p.url); !found || err != nil {
				t.Errorf("%v, %v", found, err)
			}
			needsSignIn("you are not signed in")
		})
	}
}
