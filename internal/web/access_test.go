package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/identity"
)

// as asks for a page with a token and returns the status. Live events are not read.
func (s *site) as(method, path, token string) int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url(path), strings.NewReader("decision=none"))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	w.Body.Close()
	return w.StatusCode
}

// Every page needs credentials, and lets in exactly the roles that have its permission. A program without an approver
// role changes nothing on pages, which act for a person. No GET changes a run.
func TestEveryPageChecksItsPermission(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	token := func(name string, service bool, lifetime time.Duration, roles ...identity.Role) string {
		t.Helper()
		token, err := s.auth.Users().Add(name, service, roles, lifetime)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	tokens := map[identity.Role]string{}
	for _, role := range []identity.Role{
		identity.Viewer, identity.Operator, identity.Approver, "approver:legal", identity.Admin,
		identity.Sender, "starter:gated",
	} {
		tokens[role] = token("person-"+strings.ReplaceAll(string(role), ":", "-"), false, 0, role)
	}
	program := token("program", true, 0, identity.Admin)
	other, err := identity.ProjectToken(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	expired := token("old", false, time.Nanosecond, identity.Admin)
	before := len(s.facts(id))
	pages := 0
	for _, route := range s.pages.Routes() {
		method, path, ok := strings.Cut(route.Pattern, " ")
		if !ok {
			method, path = http.MethodGet, "/nowhere"
		}
		pages++
		path = strings.NewReplacer("{$}", "", "{run}", string(id), "{workflow}",
			"gated", "{step...}", "check", "{file...}", "x", "{action}", "none").Replace(path)
		if got := s.as(method, path, ""); got != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", route.Pattern, got)
		}
		for role, token := range tokens {
			allowed := (identity.Identity{Kind: identity.User, Roles: []identity.Role{role}}).May(route.Needs)
			if allowed && method != http.MethodGet {
				continue // it would act; other tests do that
			}
			got := s.as(method, path, token)
			if (got == http.StatusForbidden) == allowed || got == http.StatusUnauthorized || got >= 500 {
				t.Errorf("%s as %s: %d", route.Pattern, role, got)
			}
		}
		if got := s.as(method, path, program); (got == http.StatusForbidden) != (method != http.MethodGet) {
			t.Errorf("%s as a program: %d", route.Pattern, got)
		}
	}
	// Wrong tokens are refused on every page; after some of them, for a while.
	for _, route := range s.pages.Routes() {
		method, path, ok := strings.Cut(route.Pattern, " ")
		if !ok {
			continue
		}
		for what, token := range map[string]string{"another project's": other, "an expired": expired} {
			got := s.as(method, strings.NewReplacer("{$}", "", "{run}", string(id)).Replace(path), token)
			if got != http.StatusUnauthorized && got != http.StatusTooManyRequests {
				t.Errorf("%s with %s token: %d", route.Pattern, what, got)
			}
		}
	}
	if after := len(s.facts(id)); after != before || pages < 25 {
		t.Errorf("the run has %d facts, before %d; %d pages", after, before, pages)
	}
	if runs, err := s.app.Runs(t.Context(), allRuns); err != nil || len(runs) != 1 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

// Webhooks have the address that the operator has set, whatever the proxy says about the request.
func TestWebhooksHaveThePublicAddress(t *testing.T) {
	s := newSite(t, map[string]string{
		"gated.md":      gated,
		"espalier.yaml": "webhooks: {asked: {workflow: gated, verify: none, simulate: true}}\n",
	})
	for configured, want := range map[bool]string{
		false: s.url("/hooks/asked"), true: "https://flows.example.org/base/hooks/asked",
	} {
		s.app.SetPublicURL("https://flows.example.org/base", configured)
		if _, page := s.get(s.client(), "/triggers"); !strings.Contains(page, want) {
			t.Errorf("no %s on the page", want)
		}
	}
}
