package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/espalier-run/espalier/internal/identity"
)

type identityKey struct{}

// IdentityOf returns the identity that makes a request; false for a request without valid credentials.
func IdentityOf(ctx context.Context) (identity.Identity, bool) {
	id, ok := ctx.Value(identityKey{}).(identity.Identity)
	return id, ok
}

// authentication checks the credentials of requests and refuses invalid ones. Whether a route requires credentials is
// up to the route. Cookies of sessions are accepted for all routes; cross-site requests have been refused before (see
// withSameOrigin).
type authentication struct {
	*identity.Authenticator
	cookie   string
	secure   bool   // the browser reaches the server over TLS
	base     string // path of the cookie
	failures failures
}

// newAuthentication returns the authentication of a project's server. Browsers share cookies between the ports of a
// host, so the name of the cookie differs between projects: it has a part of the hash of the state folder.
func newAuthentication(a *identity.Authenticator, stateDir, base string, secure bool) *authentication {
	sum := sha256.Sum256([]byte(stateDir))
	return &authentication{
		Authenticator: a, cookie: "espalier_" + hex.EncodeToString(sum[:4]), secure: secure, base: base,
		failures: failures{limiters: map[string]*limiter{}},
	}
}

// handler puts the identity of a request into its context. A request without credentials passes without one.
func (a *authentication) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := a.identify(r)
		switch {
		case errors.Is(err, errNoCredentials):
			next.ServeHTTP(w, r)
			return
		case errors.Is(err, identity.ErrNoSession):
			// An expired cookie is not an attack: the route asks the person to sign in again.
			a.endSession(w)
			next.ServeHTTP(w, r)
			return
		case errors.Is(err, identity.ErrInvalidToken):
			writeProblem(w, r, *a.refusal(w, r))
			return
		case err != nil:
			writeProblem(w, r,
				Problem{Status: http.StatusInternalServerError, Detail: "The users file cannot be read."})
			return
		}
		logEntryOf(r.Context()).user = id.Name
		// The credentials are checked again for each write to a stream, which can last for days.
		still := func() bool {
			now, err := a.identify(r)
			return err == nil && reflect.DeepEqual(now, id)
		}
		ctx := context.WithValue(r.Context(), identityKey{}, id)
		next.ServeHTTP(&streamWriter{ResponseWriter: w, still: still}, r.WithContext(ctx))
	})
}

// streamWriter ends a stream of events when the credentials of its request have changed: a token was revoked, a session
// has ended, or roles have changed. A client that reconnects is checked again. Other responses are short and are not
// checked. Keep-alive comments are also writes, so a quiet stream ends within seconds.
type streamWriter struct {
	http.ResponseWriter
	still func() bool
	begun bool // the header is complete
	ends  bool // the response is a stream of events
}

var errCredentials = errors.New("the credentials of the request have changed")

func (w *streamWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.begun, w.ends = true, strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream")
	}
	if w.ends && !w.still() {
		return 0, errCredentials
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *streamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

var errNoCredentials = errors.New("the request has no credentials")

// identify returns the identity of a request. Tokens are accepted in the Authorization header alone: addresses end up
// in logs and histories. A header counts even if there is a cookie, so that a program with a wrong token is not taken
// for the person whose browser it uses.
func (a *authentication) identify(r *http.Request) (identity.Identity, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return identity.Identity{}, identity.ErrInvalidToken
		}
		return a.Token(r.Context(), strings.TrimSpace(token))
	}
	cookie, err := r.Cookie(a.cookie)
	if err != nil {
		return identity.Identity{}, errNoCredentials
	}
	return a.Session(cookie.Value)
}

// refusal returns the answer to a request with a wrong token, and slows down guessing. It counts a failure.
func (a *authentication) refusal(w http.ResponseWriter, r *http.Request) *Problem {
	if wait := a.failures.add(remoteHost(r)); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		return &Problem{Status: http.StatusTooManyRequests, Detail: "Too many requests with a wrong token."}
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="espalier", error="invalid_token"`)
	return &Problem{
		Status: http.StatusUnauthorized, Detail: "The token is not valid.",
		Help: "It may have been revoked, or have expired. \"espalier user token NAME\" creates a new one.",
	}
}

// startSession signs a browser in. It always issues a new session, so that a
// cookie that an attacker has planted (session fixation) gains nothing.
func (a *authentication) startSession(w http.ResponseWriter, id identity.Identity) error {
	value, ends, err := a.NewSession(id)
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{
		Name: a.cookie, Value: value, Path: a.base, Expires: ends, HttpOnly: true, Secure: a.secure,
		SameSite: http.SameSiteStrictMode,
	})
	return nil
}

func (a *authentication) endSession(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{
		Name: a.cookie, Path: a.base, MaxAge: -1, HttpOnly: true, Secure: a.secure, SameSite: http.SameSiteStrictMode,
	})
}

// remoteHost returns the address of the connection. Headers such as X-Forwarded-For are not read, because any client
// can send them: behind a proxy, all clients share one limit.
func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// failures limits wrong credentials for each address: a burst of ten, then one
// in six seconds.
type failures struct {
	mu       sync.Mutex
	limiters map[string]*limiter
}

type limiter struct {
	*rate.Limiter
	used time.Time
}

const (
	failureBurst    = 10
	failureInterval = 6 * time.Second
	// maxLimiters is how many addresses are remembered, so that an attacker with many addresses cannot fill the memory.
	maxLimiters = 10_000
)

// add counts a failure and returns how long the address has to wait; 0 when it need not. An attempt during the wait
// does not extend it: its reservation is canceled.
func (f *failures) add(host string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	l := f.limiters[host]
	if l == nil {
		if len(f.limiters) >= maxLimiters {
			f.forget(now)
		}
		l = &limiter{Limiter: rate.NewLimiter(rate.Every(failureInterval), failureBurst)}
		f.limiters[host] = l
	}
	l.used = now
	reservation := l.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// forget removes the addresses whose limits have fully recovered, or all addresses if too many remain. f.mu is held.
func (f *failures) forget(now time.Time) {
	for host, l := range f.limiters {
		if now.Sub(l.used) > failureBurst*failureInterval {
			delete(f.limiters, host)
		}
	}
	if len(f.limiters) >= maxLimiters {
		clear(f.limiters)
	}
}
