package identity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/private"
)

// Authenticator turns credentials into identities. It is safe for concurrent use. Sessions are not stored: a cookie has
// all of a session, signed with a key that is derived from the project's token. Only the sessions that have signed out
// are stored, until they would have expired.
type Authenticator struct {
	users *Users
	oidc  *OIDC  // nil without a provider
	token string // the project's own
	hash  string // of token
	key   []byte // signs sessions
	owner Identity
	now   func() time.Time
	ended *private.File[map[string]time.Time] // nonces of sessions that signed out, with the ends of their lifetimes

	mu     sync.Mutex           // guards logins
	logins map[string]time.Time // hashes of unused login codes, with their ends
}

// Lifetimes of sessions and of login codes.
const (
	SessionLifetime = 30 * 24 * time.Hour
	loginLifetime   = 15 * time.Minute
	// oidcSessionLifetime bounds how long a person keeps roles of a group that
	// they have left.
	oidcSessionLifetime = 8 * time.Hour
)

// NewAuthenticator returns the authenticator of a project.
func NewAuthenticator(stateDir string) (*Authenticator, error) {
	token, err := ProjectToken(stateDir)
	if err != nil {
		return nil, err
	}
	return &Authenticator{
		users: NewUsers(stateDir), token: token, hash: hashToken(token),
		key: sessionKey(token), owner: OwnerOf(), now: time.Now, logins: map[string]time.Time{},
		ended: private.NewFile[map[string]time.Time](filepath.Join(stateDir, "ended-sessions.json")),
	}, nil
}

// Users returns the users file.
func (a *Authenticator) Users() *Users { return a.users }

// UseOIDC lets people sign in through a provider. Call it before the first
// request.
func (a *Authenticator) UseOIDC(s *OIDCSettings) {
	a.oidc = &OIDC{settings: *s, users: a.users, now: func() time.Time { return a.now() }}
}

// OIDC returns the provider through which people sign in; nil if there is none.
func (a *Authenticator) OIDC() *OIDC { return a.oidc }

// Token returns the identity of a bearer token: the project's own, that of a
// user, or an ID token of the OpenID Connect provider.
func (a *Authenticator) Token(ctx context.Context, token string) (Identity, error) {
	if a.oidc != nil && strings.Count(token, ".") == 2 {
		id, err := a.oidc.Token(ctx, token)
		if errors.Is(err, ErrNotAdmitted) {
			err = fmt.Errorf("%w: %w", ErrInvalidToken, err)
		}
		return id, err
	}
	if sameHash(hashToken(token), a.hash) {
		return a.owner, nil
	}
	return a.users.Authenticate(token)
}

// session is the content of a session cookie. It names an account and the token
// that started it; both are looked up with each request, so that a change of
// roles, the end of the token, the removal of a user and EndSessions work at once.
type session struct {
	Name   string    `json:"n"`
	Owner  bool      `json:"o,omitempty"`
	Token  string    `json:"t,omitempty"` // id of the token; the owner has none
	Issued time.Time `json:"i"`
	Ends   time.Time `json:"e"`
	Nonce  string    `json:"x"`
	// Roles are those of a person who has signed in at a provider. Such a person
	// has no account here.
	Roles []Role `json:"r,omitempty"`
}

// NewSession returns the value of a session cookie for an identity and the time
// at which it ends. Each call returns a new session.
func (a *Authenticator) NewSession(id Identity) (value string, ends time.Time, err error) {
	nonce := make([]byte, 12)
	rand.Read(nonce) // never fails
	now := a.now().UTC()
	s := session{
		Name: id.Name, Owner: id.Kind == Owner, Token: id.Token, Issued: now,
		Ends: now.Add(SessionLifetime), Nonce: hex.EncodeToString(nonce),
	}
	if id.Method == ByOIDC {
		s.Roles, s.Ends = id.Roles, now.Add(oidcSessionLifetime)
	}
	value, err = a.seal("", s)
	return value, s.Ends, err
}

// seal returns a signed value for a cookie. The prefix keeps values of one type apart from those of another.
func (a *Authenticator) seal(prefix string, value any) (string, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	text := prefix + base64.RawURLEncoding.EncodeToString(raw)
	return text + "." + a.sign(text), nil
}

func (a *Authenticator) sign(text string) string {
	return base64.RawURLEncoding.EncodeToString(authenticate(a.key, text))
}

// open returns the value of a cookie that seal has signed. The signature is checked first, in constant time, and covers
// the prefix, so a value of one type cannot be used as another.
func (a *Authenticator) open(prefix, cookie string, value any) error {
	text, signature, ok := strings.Cut(cookie, ".")
	if !ok || !hmac.Equal([]byte(signature), []byte(a.sign(text))) {
		return ErrNoSession
	}
	encoded, ok := strings.CutPrefix(text, prefix)
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if !ok || err != nil || json.Unmarshal(raw, value) != nil {
		return ErrNoSession
	}
	return nil
}

// attemptPrefix keeps attempts apart from sessions, which have none.
const attemptPrefix = "attempt-"

// SealAttempt returns an attempt to sign in for a cookie.
func (a *Authenticator) SealAttempt(attempt Attempt) (string, error) {
	return a.seal(attemptPrefix, attempt)
}

// OpenAttempt returns the attempt of a cookie.
func (a *Authenticator) OpenAttempt(value string) (attempt Attempt, err error) {
	err = a.open(attemptPrefix, value, &attempt)
	return attempt, err
}

// ErrNoSession is returned for a cookie that is forged, has expired, has signed
// out, or belongs to an account or a token that no longer exists.
var ErrNoSession = errors.New("the session is not valid")

// Session returns the identity of a session cookie.
func (a *Authenticator) Session(value string) (Identity, error) {
	s, err := a.readSession(value)
	if err != nil {
		return Identity{}, err
	}
	ended, err := a.ended.Read()
	if err != nil {
		return Identity{}, err
	}
	if _, ok := ended[s.Nonce]; ok {
		return Identity{}, ErrNoSession
	}
	id, err := a.sessionIdentity(s)
	id.Session = true
	return id, err
}

// readSession returns the content of a session cookie that is signed and has not expired.
func (a *Authenticator) readSession(value string) (s session, err error) {
	err = a.open("", value, &s)
	if err == nil && !a.now().Before(s.Ends) {
		err = ErrNoSession
	}
	return s, err
}

// EndSession ends the session of a cookie, for everyone who has a copy of it. A cookie that is not valid is ignored.
func (a *Authenticator) EndSession(value string) error {
	s, err := a.readSession(value)
	if err != nil {
		return nil //nolint:nilerr // there is nothing to end
	}
	return a.ended.Update(func(ended map[string]time.Time) (map[string]time.Time, error) {
		kept := map[string]time.Time{s.Nonce: s.Ends}
		for nonce, ends := range ended {
			if a.now().Before(ends) {
				kept[nonce] = ends
			}
		}
		return kept, nil
	})
}

// sessionIdentity returns the identity of a session as it is now. The account and the token that started the session
// are looked up, so that a session has no roles that its account has lost. A session of the OpenID Connect provider has
// its roles in the cookie and ends when the provider is no longer configured.
func (a *Authenticator) sessionIdentity(s session) (Identity, error) {
	if s.Owner {
		return a.owner, nil
	}
	if len(s.Roles) > 0 {
		if a.oidc == nil {
			return Identity{}, ErrNoSession
		}
		return Identity{Name: s.Name, Kind: User, Method: ByOIDC, Roles: s.Roles}, nil
	}
	account, err := a.users.Find(s.Name)
	switch {
	case errors.Is(err, ErrUnknownUser):
		return Identity{}, ErrNoSession
	case err != nil:
		return Identity{}, err
	case s.Issued.Before(account.SessionsAfter):
		return Identity{}, ErrNoSession
	}
	for _, t := range account.Tokens {
		if t.ID == s.Token && t.valid(a.now()) {
			id := account.Identity()
			id.Token = t.ID
			return id, nil
		}
	}
	return Identity{}, ErrNoSession
}

// NewLoginCode returns a code that [Authenticator.RedeemLogin] accepts once,
// for a limited time. It signs the owner in: only who can read the project's
// token, or the terminal of the server, gets one.
func (a *Authenticator) NewLoginCode() string {
	raw := make([]byte, 16)
	rand.Read(raw) // never fails
	code := hex.EncodeToString(raw)
	a.mu.Lock()
	defer a.mu.Unlock()
	for hash, ends := range a.logins {
		if !a.now().Before(ends) {
			delete(a.logins, hash)
		}
	}
	a.logins[hashToken(code)] = a.now().Add(loginLifetime)
	return code
}

// RedeemLogin returns the owner's identity for an unused login code, and makes the code useless.
func (a *Authenticator) RedeemLogin(code string) (Identity, error) {
	hash := hashToken(code)
	a.mu.Lock()
	defer a.mu.Unlock()
	ends, ok := a.logins[hash]
	delete(a.logins, hash)
	if !ok || !a.now().Before(ends) {
		return Identity{}, ErrInvalidToken
	}
	return a.owner, nil
}
