package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/terminal"
)

// Options configure a Server.
type Options struct {
	App  *app.App
	Auth *identity.Authenticator
	// StateDir is the state folder of the project.
	StateDir string
	// PublicURL is the address under which people reach the server, if it is behind a proxy; nil means the address that
	// it listens on. Its path, if any, is in front of all routes.
	PublicURL *url.URL
	// TLS reports that connections are encrypted, here or at a proxy.
	TLS bool
	// Encrypts reports that the server itself encrypts connections.
	Encrypts bool
	Version  string
	Log      *slog.Logger
	Now      func() time.Time // nil is time.Now
	// Pages returns the handler of the pages for people; nil for none.
	Pages func(*Server) http.Handler
	// MCP serves /mcp for the actor of a request, who presents the token with the returned id; nil serves none.
	MCP func(caller func(*http.Request) (by journal.Actor, token string)) http.Handler

	timeouts timeouts // zero is standardTimeouts
}

// Server serves one project.
type Server struct {
	o    Options
	auth *authentication
	api  huma.API
	mux  *http.ServeMux
	base string // path of the public URL, without a final slash

	pages http.Handler // nil for none

	stats   stats
	feed    feed
	stop    context.Context // ends when the server stops
	stopNow context.CancelFunc
	ready   sync.Once
	isReady chan struct{}
	routes  []Route
}

// Route is a route of the API with what it needs.
type Route struct {
	Method, Path string
	Needs        identity.Permission
}

// maxBody is the maximum size of the body of a request, in bytes. Inputs of workflows may contain whole documents.
const maxBody = 16 << 20

// New returns a server. Serve starts it; a server that is never served holds no resources besides its context.
func New(o Options) *Server {
	o.timeouts = cmp.Or(o.timeouts, standardTimeouts)
	s := &Server{o: o, mux: http.NewServeMux(), isReady: make(chan struct{}), feed: feed{
		app: o.App, length: feedLength, wakeTime: feedWakeTime,
	}}
	if o.PublicURL != nil {
		s.base = strings.TrimSuffix(path.Clean("/"+o.PublicURL.Path), "/")
	}
	s.auth = newAuthentication(o.Auth, o.StateDir, s.base+"/", o.TLS)
	s.stop, s.stopNow = context.WithCancel(context.Background())
	// The API registers its routes on the same mux. The routes below are not part of its description, or describe adds
	// them.
	s.newAPI()
	// Probes have no credentials.
	s.mux.HandleFunc("GET /healthz", s.health)
	s.mux.Handle("GET /readyz", endpoint(s.readiness))
	s.mux.Handle("GET /metrics", s.needs(identity.Read, endpoint(s.metrics)))
	if o.Pages != nil {
		s.pages = forPeople(o.Pages(s))
	}
	s.mux.HandleFunc("GET "+identity.ProofPath, s.prove)
	s.mux.Handle("GET /login", endpoint(s.login))
	s.mux.Handle("POST /login", endpoint(s.loginWithToken))
	if o.Auth.OIDC() != nil {
		s.mux.Handle("GET /login/oidc", endpoint(s.beginOIDC))
		s.mux.Handle("GET "+oidcCallback, endpoint(s.finishOIDC))
	}
	// The signature of a webhook replaces credentials.
	s.mux.Handle("POST /hooks/{name}", endpoint(s.receiveHook))
	s.mux.Handle("POST /logout", endpoint(s.logout))
	if o.MCP != nil {
		h := o.MCP(func(r *http.Request) (journal.Actor, string) { return actor(r.Context()), token(r.Context()) })
		s.mux.Handle("/mcp", s.needs(identity.Operate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r.WithContext(journal.WithoutWaitLimit(r.Context()))) // a call can wait for a run
		})))
	}
	s.mux.Handle("/", endpoint(s.index))
	return s
}

// newAPI creates the API and registers its operations. The description follows from the types of requests and
// responses; testdata has the description of the previous release, with which tests compare it.
func (s *Server) newAPI() {
	// These are global variables of huma, so all servers of a process share the format of errors.
	huma.NewErrorWithContext = newHumaError
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return newHumaError(nil, status, message, errs...)
	}
	config := huma.DefaultConfig("Espalier", s.o.Version)
	config.Info.Description = "Workflows, runs, decisions and records of one project."
	config.Info.Contact = &huma.Contact{Name: "Espalier", URL: "https://github.com/espalier-run/espalier"}
	config.Servers = []*huma.Server{{URL: cmp.Or(s.base, "/"), Description: "This server"}}
	config.Tags = []*huma.Tag{
		{Name: "Workflows", Description: "Files that describe what runs do."},
		{Name: "Runs", Description: "Executions of workflows, and what people decide about them."},
		{Name: "Records", Description: "What happened in a run: transcript, audit log, files and pictures."},
		{Name: "Events", Description: "Live events of runs, and events that workflows and runs wait for."},
		{Name: "Triggers", Description: "What starts runs without a person."},
		{Name: "Identity", Description: "Who makes requests."},
		{Name: "Stats", Description: "The project in numbers."},
	}
	config.DocsPath, config.SchemasPath, config.OpenAPIPath = "", "", "/api/v1/openapi"
	config.CreateHooks = nil // no $schema in bodies
	config.Formats = maps.Clone(config.Formats)
	// Texts in responses come from models and files. The command line prints responses to terminals, so control
	// characters are escaped in JSON.
	for name, format := range config.Formats {
		marshal := format.Marshal
		format.Marshal = func(w io.Writer, v any) error { return marshal(terminal.JSON(w), v) }
		config.Formats[name] = format
	}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "A token of a user, or that of the project."},
	}
	// huma derives the schema from the Go type, which is a number, but the type encodes itself as text.
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[diag.Severity](), reflect.TypeFor[severity]())
	config.Security = []map[string][]string{{"token": {}}}
	s.api = humago.New(s.mux, config)
	s.registerWorkflows()
	s.registerRuns()
	s.registerRecords()
	s.registerEvents()
	s.registerProgress()
	s.registerIdentity()
	s.registerStats()
	s.registerTriggers()
	s.registerCloudEvents()
}

// severity describes diag.Severity, which encodes itself as text.
type severity string

// Schema implements huma.SchemaProvider.
func (severity) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Enum: []any{"note", "warning", "error"}}
}

// describe adds a route that huma does not serve to the description of the API.
func (s *Server) describe(op huma.Operation, needed identity.Permission) {
	op.OperationID = operationID(op.Method, strings.TrimPrefix(op.Path, "/api/v1"))
	s.routes = append(s.routes, Route{Method: op.Method, Path: op.Path, Needs: needed})
	s.api.OpenAPI().AddOperation(&op)
}

func (s *Server) now() time.Time {
	if s.o.Now != nil {
		return s.o.Now()
	}
	return time.Now()
}

// Handler returns the handler of all routes, behind the guard. listen is the address of the listener, which decides
// which hosts are served. The last wrapper gets a request first: log, base path, security headers, hosts, origins,
// credentials, size of the body, compression, ETag. Compression is outside of ETag, so that the tag is that of the
// plain body.
func (s *Server) Handler(listen net.Addr) http.Handler {
	h := withETag(withPatience(s.mux))
	h = withGzip(h)
	h = http.MaxBytesHandler(h, maxBody)
	h = s.auth.handler(h)
	h = withSameOrigin(h, s.o.PublicURL)
	h = withHosts(h, servedHosts(listen, s.o.PublicURL))
	h = withSecurityHeaders(h, s.o.TLS)
	// The guard below sees paths without the base path, as if there were none.
	if s.base != "" {
		h = stripBase(s.base, h)
	}
	return withLog(h, s.o.Log, s.o.App.Redact)
}

// stripBase removes the path of the public URL. Some proxies have removed it already: other paths pass unchanged.
func stripBase(base string, next http.Handler) http.Handler {
	stripped := http.StripPrefix(base, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == base || strings.HasPrefix(r.URL.Path, base+"/") {
			if r.URL.Path == base {
				http.Redirect(w, r, base+"/", http.StatusPermanentRedirect)
				return
			}
			stripped.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// timeouts of connections. Responses as a whole have none: live events last for hours.
type timeouts struct {
	header time.Duration // for the header of a request
	read   time.Duration // for a request with its body
	idle   time.Duration // between requests
	// write is how long a client of live events may take to accept data. A slower one is dropped; it reconnects and
	// continues where it was.
	write time.Duration
}

var standardTimeouts = timeouts{
	header: 10 * time.Second, read: time.Minute, idle: 2 * time.Minute, write: 10 * time.Second,
}

// Serve serves a listener until the context ends, and then until the requests under way have been answered or grace has
// passed. Live events end at once. It closes the listener, and is called once. It returns nil if the server has stopped
// in order, also if clients were cut off at the end of grace.
func (s *Server) Serve(ctx context.Context, l net.Listener, grace time.Duration) error {
	h := &http.Server{
		Handler: s.Handler(l.Addr()), ReadHeaderTimeout: s.o.timeouts.header, ReadTimeout: s.o.timeouts.read,
		IdleTimeout: s.o.timeouts.idle, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelWarn),
	}
	// The counters start at this position. It is read before the first request is served, so that no run which a
	// request starts is missed.
	now, err := s.o.App.Position(context.WithoutCancel(ctx)) // a server that stops at once stops in order
	if err != nil {
		return err
	}
	var counting sync.WaitGroup
	counting.Go(func() { s.count(s.stop, now) })
	defer counting.Wait()
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	select {
	case err := <-ended:
		s.stopNow()
		return err
	case <-ctx.Done():
	}
	s.stopNow()
	// Streams have ended with stopNow: Shutdown would wait for them until grace has passed.
	drain, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err = h.Shutdown(drain)
	if err != nil {
		h.Close()
	}
	// Serve of net/http returns as soon as Shutdown begins. Any other error means that it ended by itself.
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		return served
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // the clients that were cut off ask again
	}
	return err
}

// Base returns the path of the public URL, without a final slash.
func (s *Server) Base() string { return s.base }

// Stopping returns a context that ends when the server stops.
func (s *Server) Stopping() context.Context { return s.stop }

// SetReady makes /readyz succeed: runs are being driven.
func (s *Server) SetReady() { s.ready.Do(func() { close(s.isReady) }) }

// URL returns the address under which people reach the server.
func (s *Server) URL(listen net.Addr) string {
	base := "http://" + listen.String() + s.base
	if s.o.TLS {
		base = "https://" + listen.String() + s.base
	}
	if s.o.PublicURL != nil {
		base = s.o.PublicURL.Scheme + "://" + s.o.PublicURL.Host + s.base
	}
	return base
}

// LocalURL returns the address of the server on this machine, without its proxy. A server that listens on all addresses
// is reached at 127.0.0.1.
func (s *Server) LocalURL(listen net.Addr) string {
	scheme := "http://"
	if s.o.Encrypts {
		scheme = "https://"
	}
	host := listen.String()
	if at, err := netip.ParseAddrPort(host); err == nil && at.Addr().IsUnspecified() {
		host = net.JoinHostPort("127.0.0.1", strconv.Itoa(int(at.Port())))
	}
	return scheme + host
}

// LoginURL returns an address that signs the owner in once.
func (s *Server) LoginURL(listen net.Addr) string {
	return s.URL(listen) + "/login?code=" + s.o.Auth.NewLoginCode()
}

// OpenAPI returns the description of the API.
func (s *Server) OpenAPI() ([]byte, error) { return s.api.OpenAPI().MarshalJSON() }

// needs refuses requests without a permission.
func (s *Server) needs(p identity.Permission, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if problem := permit(r.Context(), p); problem != nil {
			writeProblem(w, r, *problem)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// permit returns why the request is not allowed; nil if it is. Without credentials that is 401, with the wrong role
// 403.
func permit(ctx context.Context, needed identity.Permission) *Problem {
	id, ok := IdentityOf(ctx)
	switch {
	case !ok:
		return &Problem{
			Status: http.StatusUnauthorized, Code: "sign-in", Detail: "Sign in, or send a token.",
			Help: "Send the header \"Authorization: Bearer TOKEN\".",
		}
	case !id.May(needed):
		return &Problem{
			Status: http.StatusForbidden, Code: "forbidden",
			Detail: "Your roles do not allow this: it needs the permission to " + string(needed) + ".",
		}
	}
	return nil
}

// handle registers an operation of the API. Every operation names the permission that it needs. It is checked before
// the body is read, and errors of do become problems. adjust changes the description, for example the status of a
// success.
func handle[I, O any](
	s *Server, method, path string, needed identity.Permission, summary, tag string,
	do func(context.Context, *I) (*O, error), adjust ...func(*huma.Operation),
) {
	op := huma.Operation{
		Method: method, Path: "/api/v1" + path, Summary: summary, Tags: []string{tag}, MaxBodyBytes: maxBody,
		BodyReadTimeout: s.o.timeouts.read, OperationID: operationID(method, path),
		Errors: []int{
			http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict,
			http.StatusUnprocessableEntity, http.StatusFailedDependency, http.StatusServiceUnavailable,
		},
	}
	for _, change := range adjust {
		change(&op)
	}
	s.routes = append(s.routes, Route{Method: method, Path: op.Path, Needs: needed})
	op.Middlewares = huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		if problem := permit(ctx.Context(), needed); problem != nil {
			r, w := humago.Unwrap(ctx)
			writeProblem(w, r, *problem)
			return
		}
		next(ctx)
	}}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, problemOf(ctx, err)
		}
		return out, nil
	})
}

// handleJSON registers an operation whose response is JSON.
func handleJSON[I, T any](
	s *Server, method, path string, needed identity.Permission, summary, tag string,
	do func(context.Context, *I) (*T, error),
) {
	handle(s, method, path, needed, summary, tag, func(ctx context.Context, in *I) (*body[T], error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, err
		}
		return &body[T]{*out}, nil
	})
}

// operationID returns a name for an operation: the method and the words of its path. Generated clients name their
// functions after it, so it must not change for a path.
func operationID(method, path string) string {
	words := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("/{}.", r) })
	return strings.ToLower(method) + "-" + strings.Join(words, "-")
}
