package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/espalier-run/espalier/internal/netguard"
)

// OAuth is a client that is registered at the authorization server of an MCP server. With a secret, it gets tokens with
// the client credentials grant, so that runs need no person who signs in.
type OAuth struct {
	ClientID string
	// Secret returns the client secret when the server is started; nil if a person signs in.
	Secret func(context.Context) (string, error)
	// Issuer is the authorization server of the client; empty trusts the MCP server to name it.
	Issuer string
}

// handler returns a handler that fetches tokens. It passes each token to hide before the token is used.
func (o *OAuth) handler(ctx context.Context, client *http.Client, hide func(token string)) (auth.OAuthHandler, error) {
	secret, err := o.Secret(ctx)
	if err != nil {
		return nil, err
	}
	inner, err := extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{
		Credentials: &oauthex.ClientCredentials{
			ClientID: o.ClientID, Issuer: o.Issuer, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: secret},
		},
		HTTPClient: client,
	})
	if err != nil {
		return nil, fmt.Errorf("the OAuth client cannot be used: %w", err)
	}
	return &tokens{inner: inner, hide: hide}, nil
}

// tokens makes a handler of the SDK safe for concurrent requests, and keeps its tokens valid after the request that
// fetched the first one.
type tokens struct {
	mu    sync.Mutex // serializes the calls of inner
	inner auth.OAuthHandler
	hide  func(token string)
}

func (t *tokens) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	source, err := t.inner.TokenSource(ctx)
	if source == nil || err != nil {
		return nil, err
	}
	return redactingTokenSource{source, t.hide}, nil
}

// redactingTokenSource registers each token of a source to be redacted.
type redactingTokenSource struct {
	oauth2.TokenSource
	hide func(token string)
}

func (h redactingTokenSource) Token() (*oauth2.Token, error) {
	token, err := h.TokenSource.Token()
	if err == nil {
		h.hide(token.AccessToken)
	}
	return token, err
}

func (t *tokens) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.inner.Authorize(context.WithoutCancel(ctx), req, resp)
}

// tokenGuard returns the guard of requests for tokens: they reach public addresses, the server itself and the issuer.
func (s *Server) tokenGuard(server *url.URL) netguard.Options {
	guard := s.Guard
	guard.Allow = append(slices.Clone(guard.Allow), server.Host)
	if s.OAuth == nil {
		return guard
	}
	if issuer, err := url.Parse(s.OAuth.Issuer); err == nil && issuer.Host != "" {
		guard.Allow = append(guard.Allow, issuer.Host)
	}
	return guard
}
