//go:build unix

package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/netguard"
	"github.com/espalier-run/espalier/internal/npmtest"
	"github.com/espalier-run/espalier/internal/tool/mcp"
)

// A remote server that needs a token of an authorization server gets one, with the client secret of the
// configuration. The authorization server is npm oidc-provider.
func TestRemoteServerGetsAToken(t *testing.T) {
	issuer := npmtest.Serve(t, filepath.Join("testdata", "oauth.mjs"), "oidc-provider@9.13.3")
	get := func(address string) string {
		resp, err := http.Get(address)
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
	mux := http.NewServeMux()
	remote := httptest.NewServer(mux)
	defer remote.Close()
	mux.HandleFunc("/.well-known/oauth-protected-resource", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q]}`, remote.URL+"/mcp", issuer)
	})
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server() }, nil)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if token == "" || get(issuer+"/valid?token="+url.QueryEscape(token)) != "true" {
			w.Header().Set("WWW-Authenticate",
				`Bearer resource_metadata="`+remote.URL+`/.well-known/oauth-protected-resource"`)
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
	with := func(secret, issuer string) *mcp.Server {
		s := mcp.New(mcp.Config{Name: "fake", URL: remote.URL + "/mcp", OAuth: &mcp.OAuth{
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
	if n := get(issuer + "/issued"); n != "1" {
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
	failing := mcp.New(mcp.Config{Name: "fake", URL: remote.URL + "/mcp", OAuth: &mcp.OAuth{
		ClientID: "espalier", Secret: func(context.Context) (string, error) { return "", errors.New("no such secret") },
	}})
	defer failing.Close()
	if _, err := failing.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "no such secret") {
		t.Error(err)
	}
	if n := get(issuer + "/issued"); n != "1" {
		t.Errorf("%s tokens were issued", n)
	}
}
