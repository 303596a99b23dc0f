package identity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestRolesGrantWhatTheyName(t *testing.T) {
	all := []Permission{Read, Start, Operate, Decide, Manage}
	for _, c := range []struct {
		roles []Role
		may   string // one letter per permission of all
	}{
		{nil, "-----"},
		{[]Role{"unheard-of"}, "-----"},
		{[]Role{Viewer}, "r----"},
		{[]Role{Operator}, "rso--"},
		{[]Role{Approver}, "r--d-"},
		{[]Role{"approver:legal"}, "r--d-"},
		{[]Role{Admin}, "rsodm"},
		{[]Role{Operator, Approver}, "rsod-"},
	} {
		got := ""
		for _, p := range all {
			letter := "-"
			if (Identity{Kind: User, Roles: c.roles}).May(p) {
				letter = string(p[0])
			}
			got += letter
		}
		if got != c.may {
			t.Errorf("%v may %s, want %s", c.roles, got, c.may)
		}
	}
}

func TestParseRoleRejectsWhatGrantsNothing(t *testing.T) {
	for _, good := range []string{"viewer", "operator", "approver", "admin", "approver:legal", "approver:a.b-c_2"} {
		if _, err := ParseRole(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "*", "root", "Admin", "approver:", "approver:a b", "approver:*"} {
		if r, err := ParseRole(bad); err == nil {
			t.Errorf("%q is the role %q", bad, r)
		}
	}
}

// A second Users stands for another process.
func TestChangesAreSeenByOtherProcessesAtOnce(t *testing.T) {
	dir := t.TempDir()
	mine, theirs := NewUsers(dir), NewUsers(dir)
	token, err := mine.Add("ana", false, []Role{Operator}, 0)
	if err != nil {
		t.Fatal(err)
	}
	id, err := theirs.Authenticate(token)
	if err != nil || id.Name != "ana" || id.Kind != User || id.May(Manage) || !id.May(Start) {
		t.Fatalf("%+v, %v", id, err)
	}
	second, err := theirs.AddToken("ANA", "laptop", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := mine.Authenticate(second); err != nil || id.Token == "" {
		t.Fatalf("%+v, %v", id, err)
	}
	if err := mine.RevokeToken("ana", id.Token); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Authenticate(token); !errors.Is(err, ErrInvalidToken) {
		t.Errorf("a revoked token: %v", err)
	}
	if err := mine.Remove("ana"); err != nil {
		t.Fatal(err)
	}
	if _, err := theirs.Authenticate(second); !errors.Is(err, ErrInvalidToken) {
		t.Errorf("the token of a removed user: %v", err)
	}
}

func TestExpiredTokensAreRefused(t *testing.T) {
	u := NewUsers(t.TempDir())
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	u.now = func() time.Time { return now }
	token, err := u.Add("ci", true, []Role{Operator}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour - time.Second)
	if id, err := u.Authenticate(token); err != nil || id.Kind != Service {
		t.Fatalf("%+v, %v", id, err)
	}
	now = now.Add(time.Second)
	if _, err := u.Authenticate(token); !errors.Is(err, ErrInvalidToken) {
		t.Errorf("an expired token: %v", err)
	}
}

func TestConcurrentChangesAreAllKept(t *testing.T) {
	dir := t.TempDir()
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			if _, err := NewUsers(dir).Add(fmt.Sprintf("user-%02d", i), false, []Role{Viewer}, 0); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	accounts, err := NewUsers(dir).List()
	if err != nil || len(accounts) != 20 {
		t.Fatalf("%d accounts, %v", len(accounts), err)
	}
}

func TestTokensAreNotStored(t *testing.T) {
	dir := t.TempDir()
	token, err := NewUsers(dir).Add("ana", false, []Role{Viewer}, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "users.json"))
	if err != nil || strings.Contains(string(raw), strings.TrimPrefix(token, tokenPrefix)) {
		t.Errorf("%s, %v", raw, err)
	}
	if runtime.GOOS != "windows" {
		if info, err := os.Stat(filepath.Join(dir, "users.json")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
}

func TestBadNamesAndDuplicatesAreRefused(t *testing.T) {
	u := NewUsers(t.TempDir())
	if _, err := u.Add("ana", false, []Role{Viewer}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Add("Ana", false, []Role{Viewer}, 0); !errors.Is(err, ErrUserExists) {
		t.Error(err)
	}
	for _, bad := range []string{"", " ", "a b", "a\n", "-x", "é", strings.Repeat("x", 200)} {
		if _, err := u.Add(bad, false, []Role{Viewer}, 0); err == nil {
			t.Errorf("%q is a user", bad)
		}
	}
	if _, err := u.Add("bo", false, nil, 0); err == nil {
		t.Error("a user without roles")
	}
}

func TestProjectTokenIsOneForAllProcesses(t *testing.T) {
	dir := t.TempDir()
	tokens := make([]string, 20)
	var wait sync.WaitGroup
	for i := range tokens {
		wait.Go(func() {
			var err error
			if tokens[i], err = ProjectToken(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, token := range tokens {
		if token == "" || token != tokens[0] {
			t.Fatalf("several tokens: %q", tokens)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("left behind: %v, %v", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	a, err := NewAuthenticator(dir)
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Token(t.Context(), tokens[0])
	if err != nil || id.Kind != Owner || !slices.Contains(id.ApproverRoles(), "*") {
		t.Errorf("%+v, %v", id, err)
	}
	other, _ := newToken()
	if _, err := a.Token(t.Context(), other); !errors.Is(err, ErrInvalidToken) {
		t.Errorf("the token of another project: %v", err)
	}
}

func TestSessionsEnd(t *testing.T) {
	dir := t.TempDir()
	a, err := NewAuthenticator(dir)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	a.now = func() time.Time { return now }
	a.users.now = a.now
	token, err := a.users.Add("ana", false, []Role{Operator}, 0)
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Token(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	begin := func() string {
		value, _, err := a.NewSession(id)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	good := begin()
	if again := begin(); again == good {
		t.Error("two logins share a session")
	}
	if id, err := a.Session(good); err != nil || id.Name != "ana" || !id.Session || !id.May(Operate) {
		t.Fatalf("%+v, %v", id, err)
	}
	// Another process of the same project accepts it, and one of another
	// project does not.
	if b, err := NewAuthenticator(dir); err != nil {
		t.Error(err)
	} else if _, err := b.Session(good); err != nil {
		t.Error(err)
	}
	if b, err := NewAuthenticator(t.TempDir()); err != nil {
		t.Error(err)
	} else if _, err := b.Session(good); !errors.Is(err, ErrNoSession) {
		t.Errorf("the session of another project: %v", err)
	}
	text, signature, _ := strings.Cut(good, ".")
	for _, forged := range []string{
		"", ".", text, text + ".", "x" + good, text + "x." + signature, text + "." + signature + "x",
	} {
		if _, err := a.Session(forged); !errors.Is(err, ErrNoSession) {
			t.Errorf("%q: %v", forged, err)
		}
	}
	if err := a.users.SetRoles("ana", []Role{Viewer}); err != nil {
		t.Fatal(err)
	}
	if id, err := a.Session(good); err != nil || id.May(Operate) {
		t.Errorf("a role that was taken away: %+v, %v", id, err)
	}
	now = now.Add(time.Minute)
	if err := a.users.EndSessions("ana"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Session(good); !errors.Is(err, ErrNoSession) {
		t.Errorf("after EndSessions: %v", err)
	}
	now = now.Add(time.Second)
	good = begin()
	now = now.Add(SessionLifetime)
	if _, err := a.Session(good); !errors.Is(err, ErrNoSession) {
		t.Errorf("an old session: %v", err)
	}
	now = now.Add(-SessionLifetime)
	if err := a.users.Remove("ana"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Session(good); !errors.Is(err, ErrNoSession) {
		t.Errorf("the session of a removed user: %v", err)
	}
}

// A session lasts no longer than the token that started it. Another account of the same name does not inherit it.
func TestSessionsEndWithTheirToken(t *testing.T) {
	for name, end := range map[string]func(*Users, string) error{
		"revoked": func(u *Users, token string) error { return u.RevokeToken("ana", token) },
		"expired": func(u *Users, _ string) error {
			later := u.now().Add(time.Hour)
			u.now = func() time.Time { return later }
			return nil
		},
		"account of the same name": func(u *Users, _ string) error {
			if err := u.Remove("ana"); err != nil {
				return err
			}
			_, err := u.Add("ana", false, []Role{Admin}, 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := NewAuthenticator(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			a.now = func() time.Time { return a.users.now() }
			token, err := a.users.Add("ana", false, []Role{Operator}, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.users.AddToken("ana", "laptop", 0); err != nil {
				t.Fatal(err)
			}
			id, err := a.Token(t.Context(), token)
			if err != nil {
				t.Fatal(err)
			}
			cookie, _, err := a.NewSession(id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Session(cookie); err != nil {
				t.Fatal(err)
			}
			if err := end(a.users, id.Token); err != nil {
				t.Fatal(err)
			}
			if id, err := a.Session(cookie); !errors.Is(err, ErrNoSession) {
				t.Errorf("%+v, %v", id, err)
			}
		})
	}
}

// A copy of a cookie is of no use after its owner has signed out, also in another process. Other sessions continue.
func TestSigningOutEndsTheSession(t *testing.T) {
	dir := t.TempDir()
	a, err := NewAuthenticator(dir)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewAuthenticator(dir)
	if err != nil {
		t.Fatal(err)
	}
	var cookies []string
	for range 2 {
		cookie, _, err := a.NewSession(OwnerOf())
		if err != nil {
			t.Fatal(err)
		}
		cookies = append(cookies, cookie)
	}
	for _, cookie := range []string{cookies[0], "forged.cookie", ""} {
		if err := a.EndSession(cookie); err != nil {
			t.Errorf("%q: %v", cookie, err)
		}
	}
	for _, process := range []*Authenticator{a, other} {
		if id, err := process.Session(cookies[0]); !errors.Is(err, ErrNoSession) {
			t.Errorf("%+v, %v", id, err)
		}
		if _, err := process.Session(cookies[1]); err != nil {
			t.Error(err)
		}
	}
}

// Only programs with an approver role decide. The permission is what routes ask for.
func TestServicesDecideAsApproversOnly(t *testing.T) {
	for role, want := range map[Role]bool{Admin: false, Operator: false, Approver: true, "approver:legal": true} {
		if got := (Identity{Kind: Service, Roles: []Role{role}}).May(Decide); got != want {
			t.Errorf("a service with the role %s: %v", role, got)
		}
	}
}

func TestLoginCodesWorkOnce(t *testing.T) {
	a, err := NewAuthenticator(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	a.now = func() time.Time { return now }
	code := a.NewLoginCode()
	if id, err := a.RedeemLogin(code); err != nil || id.Kind != Owner {
		t.Fatalf("%+v, %v", id, err)
	}
	if _, err := a.RedeemLogin(code); !errors.Is(err, ErrInvalidToken) {
		t.Errorf("a used code: %v", err)
	}
	code = a.NewLoginCode()
	now = now.Add(loginLifetime)
	if _, err := a.RedeemLogin(code); !errors.Is(err, ErrInvalidToken) {
		t.Errorf("an expired code: %v", err)
	}
	a.NewLoginCode()
	if len(a.logins) != 1 {
		t.Errorf("%d codes are kept", len(a.logins))
	}
}
