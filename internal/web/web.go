package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

//go:embed static templates
var files embed.FS

// Options configure the pages.
type Options struct {
	App *app.App
	// Identity returns who makes a request; false if the request has no valid credentials.
	Identity func(context.Context) (identity.Identity, bool)
	// Users are the accounts of the server; nil if there are none.
	Users *identity.Users
	// SSO reports that people can sign in through an OpenID Connect provider.
	SSO bool
	// Base is the path of the server's public address, without a final slash.
	Base    string
	Version string
	// Stopping ends when the server stops: live events end then.
	Stopping context.Context
	Log      *slog.Logger
	Now      func() time.Time // nil is time.Now
}

// Handler serves the pages. It is immutable after New and safe for concurrent use: everything about a request is in a
// request value.
type Handler struct {
	o   Options
	mux *http.ServeMux
	// All templates of the folder, under their file names. html/template escapes by context; a value that must not be
	// escaped has the type template.HTML, and only this package and internal/graph make such values.
	templates *template.Template
	assets    map[string]*asset // by name
	// Shown in the frame of each page. Empty if there is no project.
	project string // name of the project's folder
	routes  []Route
}

// Route is a route of the pages and what it needs. Tests compare the routes with the permissions of each role.
type Route struct {
	Pattern string
	Needs   identity.Permission
}

// asset is a static file. Its address contains a hash of its content, so that browsers can keep it.
type asset struct {
	address     string
	contentType string
	plain, gzip []byte
}

// New returns the handler of all pages. It panics if an embedded template or static file is broken, which tests would
// find.
func New(o Options) *Handler {
	h := &Handler{o: o, mux: http.NewServeMux(), assets: map[string]*asset{}}
	if h.o.Now == nil {
		h.o.Now = time.Now
	}
	h.o.Log = cmp.Or(h.o.Log, slog.New(slog.DiscardHandler))
	h.o.Stopping = cmp.Or(h.o.Stopping, context.Background())
	if root, err := o.App.Root(); err == nil {
		h.project = filepath.Base(root)
	}
	// The functions of templates look up assets by name, so the assets have to be loaded first.
	h.loadAssets()
	h.templates = template.Must(template.New("").Funcs(h.functions()).ParseFS(files, "templates/*.html"))
	h.register()
	return h
}

// ofRun returns a handler of requests about the run that the address names.
func (h *Handler) ofRun(do func(*request, *app.Run) error) func(*request) error {
	return func(r *request) error {
		run, err := h.o.App.Find(r.Context(), r.PathValue("run"))
		if err != nil {
			return err
		}
		return do(r, run)
	}
}

// register registers all pages. Actions are POST requests with an address of their own, which redirect to a page.
func (h *Handler) register() {
	// These two need no credentials: a browser that is not signed in shows the form to sign in.
	h.mux.HandleFunc("GET /static/{file}", h.static)
	h.mux.HandleFunc("GET /login", h.login)
	h.handle("GET /{$}", identity.Read, h.home)
	h.handle("GET /welcome", identity.Read, h.welcome)
	h.handle("POST /welcome", identity.Start, h.startExample)
	h.handle("GET /inbox", identity.Read, h.inbox)
	h.handle("GET /inbox/{run}/{step...}", identity.Read, h.inbox)
	h.handle("GET /runs", identity.Read, h.runs)
	h.handle("GET /runs.csv", identity.Read, h.runsCSV)
	h.handle("GET /runs.json", identity.Read, h.runsJSON)
	h.handle("POST /runs/cancel", identity.Operate, h.cancelRuns)
	h.handle("GET /runs/{run}", identity.Read, h.run)
	// Each tab of a run is a page of its own, so that a tab loads only the records that it shows.
	for name, show := range map[string]func(*request, *runPage) error{
		"transcript": h.transcript, "audit": h.audit, "artifacts": h.artifacts, "state": h.state, "output": h.output,
	} {
		h.handle("GET /runs/{run}/"+name, identity.Read, func(r *request) error { return h.record(r, name, show) })
	}
	h.handle("GET /runs/{run}/artifacts/{file...}", identity.Read, h.ofRun(h.artifact))
	h.handle("POST /runs/{run}/decide", identity.Decide, h.ofRun(h.decide))
	// The permission for an action is that of the route. Actions that need another one, such as pausing a trigger,
	// check it themselves.
	for name, act := range actions {
		do := func(r *request, run *app.Run) error { return h.act(r, run, act) }
		h.handle("POST /runs/{run}/"+name, identity.Operate, h.ofRun(do))
	}
	h.handle("POST /runs/{run}/retry", identity.Operate, h.ofRun(h.retry))
	h.handle("GET /workflows", identity.Read, h.workflows)
	h.handle("GET /workflows/{workflow}", identity.Read, h.workflow)
	h.handle("POST /workflows/{workflow}", identity.Start, h.startRun)
	h.handle("GET /triggers", identity.Read, h.triggers)
	h.handle("POST /triggers/{action}", identity.Operate, h.actOnTrigger)
	h.handle("GET /compare", identity.Read, h.compare)
	h.handle("GET /system", identity.Read, h.system)
	h.handle("POST /system", identity.Operate, h.system) // starts the MCP servers to ask for their tools
	for name, page := range h.exports() {
		h.handle("GET /"+name+".csv", identity.Read, page)
		h.handle("GET /"+name+".json", identity.Read, page)
	}
	h.handle("GET /live", identity.Read, h.live)
	// The most general pattern: mux prefers all others. It also needs an identity, so that paths cannot be probed from
	// outside.
	h.handle("/", identity.Read, func(*request) error {
		return notFound("there is no such page")
	})
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// request is one request of a signed-in user.
type request struct {
	*http.Request
	w  http.ResponseWriter
	id identity.Identity
}

func (r *request) actor() journal.Actor {
	return journal.Actor{User: r.id.Name, Method: string(r.id.Method)}
}

// handle registers a page with the permission that it needs. A request without an identity gets the form to sign in;
// one without the permission gets an error page. serve returns an error only before it has written a response.
func (h *Handler) handle(pattern string, needs identity.Permission, serve func(*request) error) {
	h.routes = append(h.routes, Route{pattern, needs})
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		id, ok := h.o.Identity(r.Context())
		if !ok {
			h.askToSignIn(w, r)
			return
		}
		req := &request{Request: r, w: w, id: id}
		if !id.May(needs) {
			h.fail(req, refused(needs))
			return
		}
		if err := serve(req); err != nil && r.Context().Err() == nil { // the client may be gone
			h.fail(req, err)
		}
	})
}

// invalid returns the error of a request that is not valid. The advice may be empty.
func invalid(message, advice string) error {
	return &app.Error{Kind: app.InvalidRequest, Message: message, Advice: advice}
}

func notFound(message string) error { return &app.Error{Kind: app.NotFound, Message: message} }

const forbidden app.Reason = "forbidden"

func refused(needs identity.Permission) error {
	return &app.Error{
		Kind: app.Refused, Reason: forbidden, Message: "your roles do not allow this",
		Advice: "It needs the permission to " + string(needs) + ". An administrator can change your roles.",
	}
}

// shell is what every page shows around its content. All page types embed it, and layout.html reads it.
type shell struct {
	Title   string
	Section string // entry of the navigation
	Project string
	User    string
	Version string
	Waiting int // number of items that wait for people, in the navigation
	Running []navRun
	Live    string // address of the live events; empty for none
	Notice  string // outcome of the previous action
	Acted   string // run that the action was about; empty if the page shows it anyway
	// What the user may do. Templates hide forms that the user must not send; handle checks the permission again.
	May  map[identity.Permission]bool
	Rail bool
	Icon string // static file of the icon; empty for that of the product
}

type navRun struct{ ID, Name string }

// shell returns the frame of a page. Handlers call it before they read anything else: live events follow from the
// position in the journal that shell reads. If it were read later, a change between reading the content and reading the
// position would not reach the page.
func (h *Handler) shell(r *request, section, title string) shell {
	pos, _ := h.o.App.Position(r.Context()) // the page itself reports errors
	s := shell{
		Title: title, Section: section, Project: h.project, User: r.id.Name, Version: h.o.Version, Rail: true,
		Live: "/live?after=" + strconv.FormatInt(int64(pos), 10),
		May:  map[identity.Permission]bool{}, Notice: notices[r.URL.Query().Get("done")],
	}
	// The address is not trusted: the notice is one of the known texts, and the id has the form of one.
	if id, err := uuid.Parse(r.URL.Query().Get("run")); err == nil && s.Notice != "" {
		s.Acted = id.String()
	}
	for _, p := range []identity.Permission{identity.Start, identity.Operate, identity.Decide, identity.Manage} {
		s.May[p] = r.id.May(p)
	}
	ctx := r.Context()
	s.Waiting, _ = h.o.App.CountAsks(ctx)
	running, _ := h.o.App.Runs(ctx, app.Filter{Status: journal.Running, Limit: 5})
	for i := range running {
		s.Running = append(s.Running, navRun{string(running[i].ID), running[i].Name})
	}
	return s
}

// render writes a page, or its table if the address asks for an export. The page is rendered to memory first, so that
// an error in a template becomes an error page instead of half a page.
func (h *Handler) render(r *request, status int, name string, data any) error {
	if extension := path.Ext(r.URL.Path); extension == ".csv" || extension == ".json" {
		if e, ok := data.(exporter); ok {
			return h.writeTable(r, e.table())
		}
	}
	var out bytes.Buffer
	if err := h.templates.ExecuteTemplate(&out, name, data); err != nil {
		return err
	}
	h.write(r.w, r.Request, status, "text/html; charset=utf-8", out.Bytes())
	return nil
}

// write writes a response, compressed if the client accepts that. Bodies up to 1 KiB are sent as they are: compressing
// them saves no packet.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Add("Vary", "Accept-Encoding")
	if len(body) > 1<<10 && acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		body = compress(body, gzip.BestSpeed)
	}
	w.WriteHeader(status)
	w.Write(body) // the client may be gone
}

func acceptsGzip(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

func compress(body []byte, level int) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, level) // the levels are valid
	z.Write(body)                            // a buffer accepts everything
	z.Close()
	return out.Bytes()
}

// redirect sends the browser to another page after an action, with 303 See Other: the browser then uses GET, and
// reloading the page does not repeat the action. address is without the base path.
func (h *Handler) redirect(r *request, address string) error {
	http.Redirect(r.w, r.Request, h.o.Base+address, http.StatusSeeOther)
	return nil
}

// errorPage is a request that cannot be answered.
type errorPage struct {
	shell
	Status   int
	Heading  string
	Advice   string
	Details  []string
	Commands []string
	// Kept is text that the user has written and that was not sent.
	Kept string
}

// fail shows an error. An unexpected error is logged; the user learns only that there was one, because its text can
// have paths and addresses of the server.
func (h *Handler) fail(r *request, err error) {
	page := errorPage{shell: h.shell(r, "", "Problem"), Status: http.StatusInternalServerError}
	page.Heading, page.Advice = "The server could not do this", "Its log has the reason."
	page.Kept = cmp.Or(r.PostFormValue("note"), r.PostFormValue("text"))
	if known := app.AsError(err); known != nil && known.Kind != app.Internal {
		page.Status, page.Heading, page.Advice = api.HTTPStatus(known.Kind), sentence(known.Message), known.Advice
		page.Details = known.Names
		if known.Reason == app.NoWorkflow { // the names are folders
			page.Details, page.Advice = nil, cmp.Or(known.Advice, "It was renamed or removed.")
		}
		for _, missing := range known.Missing {
			page.Details = append(page.Details, strings.TrimSpace(missing.Text()+". "+missing.Help))
		}
		page.Commands = xslices.Map(known.Commands, app.Command.String)
		if known.Reason == forbidden {
			page.Status = http.StatusForbidden
		}
		// The store or the server that drives runs does not answer: advice is possible, and operators need the cause.
		if detail, help := api.Unreachable(err); detail != "" {
			page.Heading, page.Advice = sentence(detail), help
			h.o.Log.Warn("page", "path", r.URL.Path, "error", err)
		}
	} else {
		h.o.Log.Error("page", "path", r.URL.Path, "error", err)
	}
	page.Title = page.Heading
	if err := h.render(r, page.Status, "error.html", page); err != nil {
		// render fails before it writes, so the response is still empty.
		http.Error(r.w, page.Heading, page.Status)
	}
}

// loginPage asks for a token.
type loginPage struct {
	shell
	Next, Kept string
	Wrong, SSO bool
}

func (h *Handler) login(w http.ResponseWriter, r *http.Request) {
	h.showLogin(w, r, http.StatusOK, r.URL.Query().Get("next"))
}

// askToSignIn shows the form to sign in instead of a page. A comment that was about to be sent is shown again.
func (h *Handler) askToSignIn(w http.ResponseWriter, r *http.Request) {
	next := r.URL.RequestURI()
	if r.Method != http.MethodGet {
		// After signing in, the browser requests the address with GET. That of a form has no page, so the address is
		// the page that had the form. A page of another host is not accepted: the parameter next must not lead away.
		next = "/inbox"
		if back, err := url.Parse(r.Referer()); err == nil && back.Host == r.Host {
			next = strings.TrimPrefix(back.RequestURI(), h.o.Base)
		}
	}
	h.showLogin(w, r, http.StatusUnauthorized, next)
}

func (h *Handler) showLogin(w http.ResponseWriter, r *http.Request, status int, next string) {
	page := loginPage{
		shell: shell{Title: "Sign in", Project: h.project}, Next: next, Wrong: r.URL.Query().Has("wrong"),
		SSO: h.o.SSO,
	}
	if r.Method == http.MethodPost {
		page.Kept = cmp.Or(r.PostFormValue("note"), r.PostFormValue("text"))
	}
	if err := h.render(&request{Request: r, w: w}, status, "login.html", page); err != nil {
		http.Error(w, "Sign in", status)
	}
}

// loadAssets reads the static files. Modules import each other by name; the names are replaced by addresses with
// hashes, so that all pages share one copy of each module. Modules without imports come first, because the hash of a
// module covers the addresses that it imports; a module that imports must therefore not be imported itself.
func (h *Handler) loadAssets() {
	names, _ := fs.Glob(files, "static/*") // the pattern is valid
	for _, importing := range []bool{false, true} {
		for _, name := range names {
			content, err := files.ReadFile(name)
			if err != nil {
				panic(err) // it is embedded
			}
			if imports := bytes.Contains(content, []byte(` from "./`)); imports == importing {
				h.addAsset(path.Base(name), content)
			}
		}
	}
}

func (h *Handler) addAsset(file string, content []byte) {
	for name, a := range h.assets {
		content = bytes.ReplaceAll(content, []byte(`from "./`+name+`"`), []byte(`from "./`+path.Base(a.address)+`"`))
	}
	// Ten hexadecimal digits of the hash tell versions of a file apart. They are no protection.
	sum := sha256.Sum256(content)
	extension := path.Ext(file)
	types := map[string]string{
		".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}
	h.assets[file] = &asset{
		address:     "/static/" + strings.TrimSuffix(file, extension) + "." + hex.EncodeToString(sum[:5]) + extension,
		contentType: types[extension], plain: content, gzip: compress(content, gzip.BestCompression),
	}
}

// static sends a static file. Its address changes with its content, so browsers may keep it for a year.
func (h *Handler) static(w http.ResponseWriter, r *http.Request) {
	// The address is NAME.HASH.EXTENSION.
	extension := path.Ext(r.PathValue("file"))
	name := strings.TrimSuffix(r.PathValue("file"), extension)
	name = strings.TrimSuffix(name, path.Ext(name)) + extension
	a := h.assets[name]
	// An old hash gets 404, not the current content: the response would be kept for a year under the wrong address.
	if a == nil || a.address != r.URL.Path {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("Content-Type", a.contentType)
	w.Header().Add("Vary", "Accept-Encoding")
	body := a.plain
	if acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		body = a.gzip
	}
	w.Write(body) // the client may be gone
}

// home shows the inbox, or how to start if the project has no runs yet.
func (h *Handler) home(r *request) error {
	some, err := h.page(r, app.Filter{Limit: 1})
	switch {
	case err != nil:
		return err
	case len(some) == 0:
		return h.redirect(r, "/welcome")
	}
	return h.redirect(r, "/inbox")
}

// noRuns reports whether an error means that the project has no runs yet.
func noRuns(err error) bool {
	var known *app.Error
	return errors.As(err, &known) && known.Reason == app.NoRuns
}

// runPath returns the address of a run, or of a part of it.
func runPath(id string, parts ...string) string {
	return "/runs/" + url.PathEscape(id) + strings.Join(parts, "")
}

// sentence returns a text that starts with a capital letter, unless its first word is a name such as state.text.
func sentence(text string) string {
	word, _, _ := strings.Cut(text, " ")
	name := func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' && r != '-' }
	first, size := utf8.DecodeRuneInString(text)
	if strings.ContainsFunc(strings.TrimRight(word, ".,:;"), name) || first == utf8.RuneError {
		return text
	}
	return string(unicode.ToUpper(first)) + text[size:]
}
