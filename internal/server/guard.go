package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
)

// The guard is a chain of handlers around all routes, independent of what the
// routes do. The order matters: a request first gets an id and a log line; then
// its host and origin are checked; only then its credentials.

// contentPolicy allows what the server itself serves and nothing else: no
// inline code, no frames, no requests to other hosts.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func withSecurityHeaders(next http.Handler, tls bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store") // routes with public content change it
		if tls {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// withHosts refuses requests for hosts that the server does not serve, with 421 Misdirected Request. A page of another
// site whose name is made to resolve to this server (DNS rebinding) sends that name. Browsers treat such a request as
// one of the same origin, so withSameOrigin would not refuse it.
func withHosts(next http.Handler, hosts []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(hosts, strings.ToLower(r.Host)) {
			writeProblem(w, r, Problem{
				Status: http.StatusMisdirectedRequest, Detail: "This server does not serve the host of the request.",
				Help: "Open the address that \"espalier serve\" printed, or start it with --public-url.",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// servedHosts returns the values of the Host header that belong to a server: the public host, the address that it
// listens on, and the names of this machine if it listens on a loopback or unspecified address. Browsers leave out the
// ports of HTTP and HTTPS.
func servedHosts(listen net.Addr, public *url.URL) []string {
	var hosts []string
	if public != nil {
		hosts = append(hosts, strings.ToLower(public.Host))
	}
	at, err := netip.ParseAddrPort(listen.String())
	if err != nil {
		return hosts
	}
	names := []string{at.Addr().Unmap().String()}
	if at.Addr().IsLoopback() || at.Addr().IsUnspecified() {
		names = append(names, "localhost", "127.0.0.1", "::1")
	}
	for _, name := range names {
		hosts = append(hosts, net.JoinHostPort(name, strconv.Itoa(int(at.Port()))))
		if at.Port() == 80 || at.Port() == 443 {
			if strings.Contains(name, ":") {
				name = "[" + name + "]" // IPv6
			}
			hosts = append(hosts, name)
		}
	}
	return hosts
}

// withSameOrigin refuses requests that another site makes in a person's browser. http.CrossOriginProtection decides by
// Sec-Fetch-Site and Origin; requests without either, as programs send them, and safe methods pass.
func withSameOrigin(next http.Handler, public *url.URL) http.Handler {
	protection := http.NewCrossOriginProtection()
	if public != nil {
		// Behind a proxy the Host header may differ from the origin that the
		// browser sees. The error is for malformed origins.
		_ = protection.AddTrustedOrigin(public.Scheme + "://" + public.Host)
	}
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, r, Problem{Status: http.StatusForbidden, Detail: "The request comes from another site."})
	}))
	return protection.Handler(next)
}

// patience limits how long requests wait for an unreachable database. Workers wait longer; streams wait without a limit
// (journal.WithoutWaitLimit).
const patience = 3 * time.Second

// withPatience makes requests fail soon while the database cannot be reached.
func withPatience(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(journal.WithWaitLimit(r.Context(), patience)))
	})
}

type requestKey struct{}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// withLog gives each request an id and writes a line about it when it ends. Query strings are not logged: they may hold
// what people searched for. redact removes secrets from a text. The line is also written if the handler panics, as it
// does to cut off a response.
func withLog(next http.Handler, log *slog.Logger, redact func(string) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw := make([]byte, 8)
		rand.Read(raw) // never fails
		id := hex.EncodeToString(raw)
		w.Header().Set("X-Request-Id", id)
		entry := &logEntry{}
		ctx := context.WithValue(context.WithValue(r.Context(), requestKey{}, id), logKey{}, entry)
		rec := &recorder{ResponseWriter: w}
		begun := time.Now()
		defer func() {
			level := slog.LevelInfo
			// A server that is not ready yet says so; that is not an error.
			if rec.status >= http.StatusInternalServerError && rec.status != http.StatusServiceUnavailable {
				level = slog.LevelError
			} else if entry.err != nil {
				level = slog.LevelWarn
			} else if rec.status < http.StatusBadRequest && strings.HasPrefix(r.URL.Path, "/static/") {
				level = slog.LevelDebug // a page has many of them
			}
			attrs := []slog.Attr{
				slog.String("request_id", id), slog.String("method", r.Method), slog.String("path", redact(r.URL.Path)),
				slog.Int("status", rec.status), slog.Duration("duration", time.Since(begun)),
			}
			if entry.user != "" {
				attrs = append(attrs, slog.String("user", entry.user))
			}
			if entry.err != nil {
				attrs = append(attrs, slog.String("error", redact(entry.err.Error())))
			}
			if entry.run != "" {
				attrs = append(attrs, slog.String("run_id", entry.run))
			}
			log.LogAttrs(ctx, level, "request", attrs...)
		}()
		next.ServeHTTP(rec, r.WithContext(ctx))
		rec.status = cmp.Or(rec.status, http.StatusOK) // net/http sends it for a handler that writes nothing
	})
}

// logEntry collects what handlers add to the log line of their request. Only the
// goroutine of the request writes to it.
type logEntry struct {
	user, run string
	err       error
}

type logKey struct{}

// logEntryOf returns the entry of a request. Outside of withLog, as in tests, it returns one that is never logged.
func logEntryOf(ctx context.Context) *logEntry {
	if e, ok := ctx.Value(logKey{}).(*logEntry); ok {
		return e
	}
	return &logEntry{}
}

// recorder remembers the status of a response; 0 until the handler writes something.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = cmp.Or(r.status, status)
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.status = cmp.Or(r.status, http.StatusOK)
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
