package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/espalier-run/espalier/internal/netguard"
	"github.com/espalier-run/espalier/internal/private"
)

// Logins are the sign-ins of a person, by server address. Processes share the file that stores them.
type Logins struct {
	file *private.File[map[string]login]
}

// login is an OAuth client that a person has authorized for a server.
type login struct {
	ClientID     string           `json:"client_id"`
	ClientSecret string           `json:"client_secret,omitempty"`
	TokenURL     string           `json:"token_url"`
	AuthStyle    oauth2.AuthStyle `json:"auth_style,omitempty"`
	Token        *oauth2.Token    `json:"token"`
}

// NewLogins returns the sign-ins in a file, which need not exist.
func NewLogins(path string) *Logins { return &Logins{private.NewFile[map[string]login](path)} }

var errNoLogin = errors.New("you are not signed in")

// AccessToken returns the newest token for the server at an address. It may have expired.
func (l *Logins) AccessToken(server string) (string, error) {
	all, err := l.file.Read()
	if err != nil {
		return "", err
	}
	if all[server].Token == nil {
		return "", errNoLogin
	}
	return all[server].Token.AccessToken, nil
}

// Remove removes a sign-in and reports whether it existed.
func (l *Logins) Remove(server string) (found bool, err error) {
	return found, l.change(func(all map[string]login) error {
		_, found = all[server]
		delete(all, server)
		return nil
	})
}

func (l *Logins) change(change func(map[string]login) error) error {
	return l.file.Update(func(old map[string]login) (map[string]login, error) {
		all := maps.Clone(old)
		if all == nil {
			all = map[string]login{}
		}
		return all, change(all)
	})
}

// token returns a valid token other than one that the server has refused. It renews an expired one under the lock of
// the file, because an authorization server may accept a refresh token only once, and revoke the sign-in if the token
// is reused (OAuth 2.1, refresh token rotation).
func (l *Logins) token(ctx context.Context, server, refused string) (token *oauth2.Token, err error) {
	usable := func(t *oauth2.Token) bool { return t.Valid() && t.AccessToken != refused }
	all, err := l.file.Read()
	if token = all[server].Token; err != nil || usable(token) {
		return token, err
	}
	err = l.change(func(all map[string]login) error {
		one, ok := all[server]
		if !ok {
			return errNoLogin
		}
		if token = one.Token; usable(token) { // another process has renewed it
			return nil
		}
		client := oauth2.Config{
			ClientID: one.ClientID, ClientSecret: one.ClientSecret,
			Endpoint: oauth2.Endpoint{TokenURL: one.TokenURL, AuthStyle: one.AuthStyle},
		}
		renewed, err := client.TokenSource(ctx, &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
		if err != nil {
			return err
		}
		token, one.Token = renewed, renewed
		all[server] = one
		return nil
	})
	return token, err
}

// SignInError reports that a person has to sign in to a server, for the first time or again.
type SignInError struct {
	Server string // its name
	Why    error
}

func (e *SignInError) Error() string { return e.Why.Error() }
func (e *SignInError) Unwrap() error { return e.Why }

// signedIn sends the token of a sign-in with requests.
type signedIn struct {
	server *Server
	client *http.Client // for new tokens
}

func (s *signedIn) TokenSource(context.Context) (oauth2.TokenSource, error) {
	_, err := s.server.Logins.AccessToken(s.server.URL)
	if errors.Is(err, errNoLogin) {
		return nil, nil // the server may need none
	}
	return s, err
}

// Token implements oauth2.TokenSource.
func (s *signedIn) Token() (*oauth2.Token, error) { return s.token(context.Background(), "") }

func (s *signedIn) token(ctx context.Context, refused string) (*oauth2.Token, error) {
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, s.client)
	token, err := s.server.Logins.token(ctx, s.server.URL, refused)
	if err != nil {
		return nil, &SignInError{s.server.Name, fmt.Errorf("your sign-in is no longer valid: %w", err)}
	}
	s.server.Hide(token.AccessToken)
	return token, nil
}

// Authorize renews a token that the server has refused.
func (s *signedIn) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		return nil // the SDK repeats the request and returns its error
	}
	refused, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return &SignInError{s.server.Name, errNoLogin}
	}
	_, err := s.token(ctx, refused)
	return err
}

// SignIn lets a person sign in at the authorization server of a remote server, by the authorization code flow of the
// MCP specification. It shows the address that the person opens in a browser on this machine, and waits until the
// browser returns from there to a listener on a loopback address (RFC 8252). Without a registered client, it registers
// one (RFC 7591).
func (s *Server) SignIn(ctx context.Context, show func(address string)) error {
	switch {
	case s.URL == "":
		return errors.New("it is a program, which needs no sign-in")
	case s.OAuth != nil && s.OAuth.Secret != nil:
		return errors.New("it gets tokens with its client secret, and needs no sign-in")
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	saved := false
	var refused error // the person was asked, and is not asked again
	config := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: "http://" + l.Addr().String() + "/callback", RequestRefreshToken: true,
		AcceptUnadvertisedIss: true, Client: netguard.Client(s.tokenGuard(u)),
		AuthorizationCodeFetcher: func(
			ctx context.Context, args *auth.AuthorizationArgs,
		) (*auth.AuthorizationResult, error) {
			if refused != nil { // the connection is tried again
				return nil, refused
			}
			var code *auth.AuthorizationResult
			code, refused = fetchCode(ctx, l, args.URL, show)
			return code, refused
		},
		NewTokenSource: func(
			ctx context.Context, c *oauth2.Config, token *oauth2.Token,
		) (oauth2.TokenSource, error) {
			saved = true
			return oauth2.StaticTokenSource(token), s.Logins.change(func(all map[string]login) error {
				all[s.URL] = login{c.ClientID, c.ClientSecret, c.Endpoint.TokenURL, c.Endpoint.AuthStyle, token}
				return nil
			})
		},
	}
	if s.OAuth != nil {
		config.PreregisteredClient = &oauthex.ClientCredentials{ClientID: s.OAuth.ClientID, Issuer: s.OAuth.Issuer}
	} else {
		config.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{
			Metadata: &oauthex.ClientRegistrationMetadata{
				ClientName: "Espalier", RedirectURIs: []string{config.RedirectURL}, TokenEndpointAuthMethod: "none",
				GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
			},
		}
	}
	handler, err := auth.NewAuthorizationCodeHandler(config)
	if err != nil {
		return err
	}
	var headers http.Header
	if s.Secrets != nil {
		if _, headers, err = s.Secrets(ctx); err != nil {
			return err
		}
	}
	sess := &session{gone: make(chan struct{})}
	transport, err := s.overHTTP(sess, headers, handler)
	if err != nil {
		return err
	}
	client, err := s.newClient().Connect(ctx, transport, nil)
	switch {
	case refused != nil:
		return refused
	case err != nil:
		return sess.reword(err)
	}
	_ = client.Close() // the sign-in is stored
	if !saved {
		return errors.New("it does not ask for a sign-in")
	}
	return nil
}

// fetchCode shows the address of an authorization server and returns the code that its redirect brings to the listener.
// A request with another state is refused, so that a page cannot inject a code of its own.
func fetchCode(
	ctx context.Context, l net.Listener, address string, show func(string),
) (*auth.AuthorizationResult, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	state := u.Query().Get("state")
	answers := make(chan url.Values, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/callback" || q.Get("state") != state { // from another page
			http.Error(w, "This is not the response to a sign-in of Espalier.", http.StatusBadRequest)
			return
		}
		fmt.Fprintln(w, "You can close this page and return to the terminal.")
		select {
		case answers <- q:
		default: // it has been answered
		}
	})}
	go func() { _ = server.Serve(l) }() // until Shutdown
	defer func() { _ = server.Shutdown(context.WithoutCancel(ctx)) }()
	show(address)
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case q := <-answers:
		if problem := q.Get("error"); problem != "" {
			return nil, fmt.Errorf("the authorization server refused: %s", cmp.Or(q.Get("error_description"), problem))
		}
		return &auth.AuthorizationResult{Code: q.Get("code"), State: state, Iss: q.Get("iss")}, nil
	}
}
