package server

import (
	"errors"
	"html"
	"net/http"
	"time"

	"github.com/espalier-run/espalier/internal/identity"
)

// oidcCallback is where the provider sends people back to.
const oidcCallback = "/login/oidc/callback"

// attemptLifetime is how long a person may take to sign in at the provider.
const attemptLifetime = 10 * time.Minute

// redirectURL returns the address of the callback, as the provider knows it.
func (s *Server) redirectURL(r *http.Request) string {
	if p := s.o.PublicURL; p != nil {
		return p.Scheme + "://" + p.Host + s.base + oidcCallback
	}
	scheme := "http://"
	if s.o.TLS {
		scheme = "https://"
	}
	return scheme + r.Host + s.base + oidcCallback // the guard has checked the host
}

// attemptCookie returns the cookie of an attempt to sign in. The provider's page leads back here, so that browsers
// would withhold a strict cookie; a lax one is sent when a person is led to an address. Its value is sealed: the
// browser can neither read nor change it.
func (s *Server) attemptCookie(value string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: s.auth.cookie + "_oidc", Value: value, Path: s.base + oidcCallback, MaxAge: int(age / time.Second),
		HttpOnly: true, Secure: s.o.TLS, SameSite: http.SameSiteLaxMode,
	}
}

// beginOIDC sends a person to the provider.
func (s *Server) beginOIDC(w http.ResponseWriter, r *http.Request) error {
	next := localPath(r.URL.Query().Get("next"))
	to, attempt, err := s.o.Auth.OIDC().Begin(r.Context(), s.redirectURL(r), next)
	if err != nil {
		logEntryOf(r.Context()).err = err
		return &Problem{
			Status: http.StatusBadGateway, Code: "oidc", Detail: "The OpenID Connect provider does not answer.",
		}
	}
	sealed, err := s.o.Auth.SealAttempt(attempt)
	if err != nil {
		return &Problem{Status: http.StatusInternalServerError}
	}
	http.SetCookie(w, s.attemptCookie(sealed, attemptLifetime))
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// finishOIDC signs in a person who comes back from the provider. The state in the address has to be that of the attempt
// in the cookie: otherwise another site could sign the person in to the account of an attacker (login CSRF, RFC
// 6749, section 10.12).
func (s *Server) finishOIDC(w http.ResponseWriter, r *http.Request) error {
	refuse := func(err error, detail string) error {
		logEntryOf(r.Context()).err = err
		if s.auth.failures.add(remoteHost(r)) > 0 {
			return &Problem{Status: http.StatusTooManyRequests, Detail: "Too many attempts to sign in."}
		}
		return &Problem{Status: http.StatusForbidden, Code: "oidc", Detail: detail}
	}
	cookie, err := r.Cookie(s.attemptCookie("", 0).Name)
	var attempt identity.Attempt
	if err == nil {
		attempt, err = s.o.Auth.OpenAttempt(cookie.Value)
	}
	query := r.URL.Query()
	if err != nil || attempt.State == "" || query.Get("state") != attempt.State {
		return refuse(err, "This attempt to sign in is not yours, or is too old. Start again.")
	}
	// An attempt is used once, whether it succeeds or not.
	http.SetCookie(w, s.attemptCookie("", -time.Second))
	id, err := s.o.Auth.OIDC().Finish(r.Context(), s.redirectURL(r), attempt, query.Get("code"))
	switch {
	case errors.Is(err, identity.ErrNotAdmitted):
		return refuse(err, "You have signed in, but "+err.Error()+".")
	case err != nil:
		return refuse(err, "The provider has not signed you in.")
	}
	if err := s.auth.startSession(w, id); err != nil {
		return &Problem{Status: http.StatusInternalServerError}
	}
	// A redirect would still belong to the provider's page, so that browsers would
	// not send the strict session cookie. A page of our own leads on.
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	to := html.EscapeString(s.base + localPath(attempt.Next))
	w.Write([]byte(`<!doctype html><title>Espalier</title><meta http-equiv="refresh" content="0;url=` + to + `">` +
		`<a href="` + to + `">Continue</a>` + "\n"))
	return nil
}
