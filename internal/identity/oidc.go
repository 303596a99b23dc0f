package identity

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/espalier-run/espalier/internal/private"
	"github.com/espalier-run/espalier/internal/xslices"
)

// OIDCSettings are how people sign in through an OpenID Connect provider.
type OIDCSettings struct {
	Issuer   string `json:"issuer"`
	ClientID string `json:"client_id"`
	// ClientSecret may be empty: the code exchange is protected by PKCE, too.
	ClientSecret string   `json:"client_secret,omitempty"`
	Scopes       []string `json:"scopes,omitempty"` // besides openid; email and profile if empty
	// NameClaim is the claim with the name of the user; email if empty, which has
	// to be verified.
	NameClaim string `json:"name_claim,omitempty"`
	// GroupsClaim is the claim with the groups of the user; groups if empty.
	GroupsClaim string `json:"groups_claim,omitempty"`
	// Roles are the roles of the members of each group.
	Roles map[string][]Role `json:"roles"`
}

// ReadOIDC reads settings from a JSON file that only its owner can change.
func ReadOIDC(path string) (*OIDCSettings, error) {
	if err := private.Check(path); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	s := &OIDCSettings{}
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func (s *OIDCSettings) check() error {
	issuer, err := url.Parse(s.Issuer)
	switch {
	case err != nil || issuer.Host == "" || issuer.Scheme != "https" && !isLoopback(issuer):
		return errors.New("issuer must be an https address")
	case s.ClientID == "":
		return errors.New("client_id is missing")
	case len(s.Roles) == 0:
		return errors.New("roles maps no group to a role, so no user could sign in")
	}
	for group, roles := range s.Roles {
		for _, r := range roles {
			if _, err := ParseRole(string(r)); err != nil {
				return fmt.Errorf("the group %q: %w", group, err)
			}
		}
	}
	return nil
}

func isLoopback(u *url.URL) bool { return u.Hostname() == "127.0.0.1" || u.Hostname() == "localhost" }

// OIDC signs people in through a provider. It is safe for concurrent use.
type OIDC struct {
	settings OIDCSettings
	users    *Users
	now      func() time.Time

	mu       sync.Mutex
	provider *oidc.Provider // nil until the provider has answered once
}

// oidcTimeout limits the time of the provider for one response.
const oidcTimeout = 10 * time.Second

func oidcContext(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, &http.Client{Timeout: oidcTimeout})
}

// connect returns the provider. Its keys are fetched again when a token has a new one, so that it can rotate them. A
// provider that does not answer is asked again by the next request; requests wait for each other meanwhile.
func (o *OIDC) connect(ctx context.Context) (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider != nil {
		return o.provider, nil
	}
	// The provider outlives the request: it keeps the context for its keys.
	p, err := oidc.NewProvider(oidcContext(context.WithoutCancel(ctx)), o.settings.Issuer)
	if err != nil {
		return nil, fmt.Errorf("the OpenID Connect provider does not answer: %w", err)
	}
	o.provider = p
	return p, nil
}

func (o *OIDC) config(p *oidc.Provider, redirect string) *oauth2.Config {
	scopes := o.settings.Scopes
	if len(scopes) == 0 {
		scopes = []string{"email", "profile"}
	}
	return &oauth2.Config{
		ClientID: o.settings.ClientID, ClientSecret: o.settings.ClientSecret, Endpoint: p.Endpoint(),
		RedirectURL: redirect, Scopes: append([]string{oidc.ScopeOpenID}, scopes...),
	}
}

// Attempt is one attempt to sign in. The browser keeps it until the provider
// sends the person back.
type Attempt struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Next     string `json:"to,omitempty"` // where the person wanted to go
}

// Begin returns the address at the provider where a person signs in.
func (o *OIDC) Begin(ctx context.Context, redirect, next string) (string, Attempt, error) {
	p, err := o.connect(ctx)
	if err != nil {
		return "", Attempt{}, err
	}
	// Verifiers are random texts, which is all that the others have to be.
	a := Attempt{
		State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(),
		Verifier: oauth2.GenerateVerifier(), Next: next,
	}
	return o.config(p, redirect).AuthCodeURL(a.State,
		oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), a, nil
}

// ErrNotAdmitted is returned for people who have signed in at the provider, and
// have no role here.
var ErrNotAdmitted = errors.New("none of your groups has a role here")

// Finish returns the identity of a person who comes back from the provider.
func (o *OIDC) Finish(ctx context.Context, redirect string, a Attempt, code string) (Identity, error) {
	p, err := o.connect(ctx)
	if err != nil {
		return Identity{}, err
	}
	token, err := o.config(p, redirect).Exchange(oidcContext(ctx), code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	raw, _ := token.Extra("id_token").(string)
	verified, err := o.verify(ctx, p, raw)
	if err != nil {
		return Identity{}, err
	}
	if verified.Nonce != a.Nonce {
		return Identity{}, fmt.Errorf("%w: the token belongs to another attempt", ErrInvalidToken)
	}
	return o.identity(verified)
}

// Token returns the identity of an ID token that a program sends.
func (o *OIDC) Token(ctx context.Context, raw string) (Identity, error) {
	p, err := o.connect(ctx)
	if err != nil {
		return Identity{}, err
	}
	verified, err := o.verify(ctx, p, raw)
	if err != nil {
		return Identity{}, err
	}
	return o.identity(verified)
}

// verify checks signature, issuer, audience and times of an ID token.
func (o *OIDC) verify(ctx context.Context, p *oidc.Provider, raw string) (*oidc.IDToken, error) {
	token, err := p.Verifier(&oidc.Config{ClientID: o.settings.ClientID, Now: o.now}).Verify(oidcContext(ctx), raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	return token, nil
}

// identity maps the claims of a token to an identity. An email counts only if the provider has verified it: otherwise
// people could choose the name of another person.
func (o *OIDC) identity(token *oidc.IDToken) (Identity, error) {
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrInvalidToken, err)
	}
	claim := cmp.Or(o.settings.NameClaim, "email")
	name, _ := claims[claim].(string)
	if !accountName().MatchString(name) || claim == "email" && claims["email_verified"] != true {
		return Identity{}, fmt.Errorf("%w: the provider has not verified your %s", ErrNotAdmitted, claim)
	}
	// The provider decides about its names; it must not decide about accounts of the users file.
	switch _, err := o.users.Find(name); {
	case err == nil:
		return Identity{}, fmt.Errorf("%w: %s is an account of this server", ErrNotAdmitted, name)
	case !errors.Is(err, ErrUnknownUser):
		return Identity{}, err
	}
	roles := o.roles(claims)
	if len(roles) == 0 {
		return Identity{}, ErrNotAdmitted
	}
	return Identity{Name: name, Kind: User, Method: ByOIDC, Roles: roles}, nil
}

func (o *OIDC) roles(claims map[string]any) []Role {
	claim := cmp.Or(o.settings.GroupsClaim, "groups")
	var roles []Role
	groups, _ := claims[claim].([]any)
	for _, g := range groups {
		group, _ := g.(string)
		roles = xslices.AppendNew(roles, o.settings.Roles[group]...)
	}
	slices.Sort(roles)
	return roles
}
