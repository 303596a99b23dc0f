package identity

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/private"
)

// Account is a person or a program in the users file.
type Account struct {
	Name    string    `json:"name"`
	Service bool      `json:"service,omitempty"`
	Roles   []Role    `json:"roles"`
	Created time.Time `json:"created"`
	Tokens  []Token   `json:"tokens,omitempty"`
	// SessionsAfter ends the browser sessions that began before it.
	SessionsAfter time.Time `json:"sessions_after,omitzero"`
}

// Token is a credential of an account. The token itself is shown once and not
// stored.
type Token struct {
	ID      string    `json:"id"`
	Hash    string    `json:"sha256,omitempty"`
	Note    string    `json:"note,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero means never
}

func (t Token) valid(now time.Time) bool { return t.Expires.IsZero() || now.Before(t.Expires) }

// Users is the users file of a project. It is safe for concurrent use, also by several processes: the file is locked
// while it changes, and each request reads what is in it now.
type Users struct {
	file *private.File[[]Account]
	now  func() time.Time
}

// NewUsers returns the users file in a project's state folder. The file need not
// exist.
func NewUsers(stateDir string) *Users {
	return &Users{file: private.NewFile[[]Account](filepath.Join(stateDir, "users.json")), now: time.Now}
}

// Errors of the users file.
var (
	ErrUnknownUser  = errors.New("unknown user")
	ErrUserExists   = errors.New("the user already exists")
	ErrUnknownToken = errors.New("unknown token ID")
	// ErrInvalidToken is returned for a credential that was never issued, has
	// been revoked or has expired. It does not tell which.
	ErrInvalidToken = errors.New("the token is not valid")
)

var accountName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9@._+-]{0,127}$`)

// List returns all accounts in the order of their names.
func (u *Users) List() ([]Account, error) { return u.file.Read() }

func (u *Users) update(change func([]Account) ([]Account, error)) error {
	return u.file.Update(func(accounts []Account) ([]Account, error) {
		accounts, err := change(slices.Clone(accounts))
		slices.SortFunc(accounts, func(a, b Account) int { return compareNames(a.Name, b.Name) })
		return accounts, err
	})
}

// Add adds an account with its first token, which it returns. A lifetime of 0
// means that the token does not expire.
func (u *Users) Add(name string, service bool, roles []Role, lifetime time.Duration) (token string, err error) {
	if !accountName().MatchString(name) {
		return "", fmt.Errorf("%q is not a name for a user: use letters, digits and . _ @ + -", name)
	}
	if len(roles) == 0 {
		return "", errors.New("a user needs at least one role")
	}
	err = u.update(func(accounts []Account) ([]Account, error) {
		if indexOf(accounts, name) >= 0 {
			return nil, ErrUserExists
		}
		now := u.now().UTC().Truncate(time.Second)
		account := Account{Name: name, Service: service, Roles: roles, Created: now}
		token = account.issue(now, "", lifetime)
		return append(accounts, account), nil
	})
	return token, err
}

// AddToken adds a token to an account and returns it.
func (u *Users) AddToken(name, note string, lifetime time.Duration) (token string, err error) {
	err = u.change(name, func(a *Account) error {
		token = a.issue(u.now().UTC().Truncate(time.Second), note, lifetime)
		return nil
	})
	return token, err
}

func (a *Account) issue(now time.Time, note string, lifetime time.Duration) string {
	token, hash := newToken()
	t := Token{ID: hash[:8], Hash: hash, Note: note, Created: now}
	if lifetime > 0 {
		t.Expires = now.Add(lifetime)
	}
	a.Tokens = append(slices.Clone(a.Tokens), t)
	return token
}

// RevokeToken removes a token from an account. The browser sessions that it has started end.
func (u *Users) RevokeToken(name, id string) error {
	return u.change(name, func(a *Account) error {
		kept := slices.DeleteFunc(slices.Clone(a.Tokens), func(t Token) bool { return t.ID == id })
		if len(kept) == len(a.Tokens) {
			return ErrUnknownToken
		}
		a.Tokens = kept
		return nil
	})
}

// SetRoles replaces the roles of an account.
func (u *Users) SetRoles(name string, roles []Role) error {
	if len(roles) == 0 {
		return errors.New("a user needs at least one role")
	}
	return u.change(name, func(a *Account) error { a.Roles = roles; return nil })
}

// EndSessions ends all browser sessions of an account.
func (u *Users) EndSessions(name string) error {
	return u.change(name, func(a *Account) error { a.SessionsAfter = u.now().UTC(); return nil })
}

// Remove removes an account; its tokens and sessions stop working at once.
func (u *Users) Remove(name string) error {
	return u.update(func(accounts []Account) ([]Account, error) {
		i := indexOf(accounts, name)
		if i < 0 {
			return nil, ErrUnknownUser
		}
		return slices.Delete(accounts, i, i+1), nil
	})
}

func (u *Users) change(name string, change func(*Account) error) error {
	return u.update(func(accounts []Account) ([]Account, error) {
		i := indexOf(accounts, name)
		if i < 0 {
			return nil, ErrUnknownUser
		}
		return accounts, change(&accounts[i])
	})
}

// Find returns the account of a name.
func (u *Users) Find(name string) (Account, error) {
	accounts, err := u.List()
	if err != nil {
		return Account{}, err
	}
	if i := indexOf(accounts, name); i >= 0 {
		return accounts[i], nil
	}
	return Account{}, ErrUnknownUser
}

// Authenticate returns the identity of a token's account. Tokens are stored as hashes, which are compared in constant
// time.
func (u *Users) Authenticate(token string) (Identity, error) {
	accounts, err := u.List()
	if err != nil {
		return Identity{}, err
	}
	hash, now := hashToken(token), u.now()
	for _, a := range accounts {
		for _, t := range a.Tokens {
			if sameHash(t.Hash, hash) && t.valid(now) {
				id := a.Identity()
				id.Token = t.ID
				return id, nil
			}
		}
	}
	return Identity{}, ErrInvalidToken
}

// Identity returns the identity of the account.
func (a Account) Identity() Identity {
	id := Identity{Name: a.Name, Kind: User, Method: ByToken, Roles: a.Roles}
	if a.Service {
		id.Kind = Service
	}
	return id
}

func indexOf(accounts []Account, name string) int {
	return slices.IndexFunc(accounts, func(a Account) bool { return compareNames(a.Name, name) == 0 })
}
