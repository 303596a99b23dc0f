package web_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/server"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/web"
)

// site is a running server with pages, over a project in a temporary folder.
type site struct {
	t    testing.TB
	dir  string
	home string
	addr string // stays the same when the server restarts
	app  *app.App
	auth *identity.Authenticator
	stop func()
	srv  *server.Server

	pages *web.Handler
	wrap  func(journal.Store) journal.Store
	env   map[string]string
	now   func() time.Time // the clock of the pages; nil is time.Now
	user  string           // who starts runs; by default "tester"
	log   *lockedBuffer
}

type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// newSite serves a project with the given files.
func newSite(t *testing.T, files map[string]string) *site {
	t.Helper()
	s := &site{t: t, dir: filepath.Join(t.TempDir(), "orchard-desk"), home: t.TempDir(), addr: "127.0.0.1:0"}
	s.write(files)
	s.start()
	t.Cleanup(func() {
		s.stop()
		if text := s.log.String(); strings.Contains(text, "level=ERROR") {
			t.Errorf("the server logged errors:\n%s", text)
		}
	})
	return s
}

// write creates the project.
func (s *site) write(files map[string]string) {
	s.t.Helper()
	for name, text := range files {
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "~~~", "```")), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(s.dir, ".espalier"), 0o700); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) start() {
	s.t.Helper()
	s.app = app.New(app.Options{
		Dir: s.dir, Home: s.home, Relaxed: true, Journal: s.wrap,
		Getenv: func(name string) string { return s.env[name] },
	})
	state, err := s.app.StateDir(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	if s.auth, err = identity.NewAuthenticator(state); err != nil {
		s.t.Fatal(err)
	}
	s.log = &lockedBuffer{}
	log := slog.New(slog.NewTextHandler(s.log, nil))
	s.srv = server.New(server.Options{
		App: s.app, Auth: s.auth, StateDir: state, Version: "test", Log: log,
		Pages: func(srv *server.Server) http.Handler {
			s.pages = web.New(web.Options{
				App: s.app, Identity: server.IdentityOf, Users: s.auth.Users(), Base: srv.Base(), Version: "test",
				Stopping: srv.Stopping(), Log: log, Now: s.now,
			})
			return s.pages
		},
	})
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() {
		ended <- s.app.Work(ctx, func(string) {}, func(r *app.Run, why *app.Error) { s.t.Errorf("%s: %v", r.ID, why) })
	}()
	go func() { ended <- s.srv.Serve(ctx, l, time.Second) }()
	var once sync.Once
	s.stop = func() {
		once.Do(func() {
			cancel()
			for range 2 {
				if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
					s.t.Error(err)
				}
			}
			if err := s.app.Close(); err != nil {
				s.t.Error(err)
			}
		})
	}
}

func (s *site) url(path string) string { return "http://" + s.addr + path }

// begin starts a run of a workflow.
func (s *site) begin(workflow string, o app.RunOptions, fields ...app.Field) journal.RunID {
	s.t.Helper()
	return s.prepare(workflow, app.PrepareRequest{Options: o, Fields: fields})
}

// play starts a run whose replies are in a script.
func (s *site) play(workflow, script string, fields ...app.Field) journal.RunID {
	s.t.Helper()
	return s.prepare(workflow, app.PrepareRequest{
		Script: source.NewFile("replies.yaml", script), Fields: fields, Options: app.RunOptions{RecordStream: true},
	})
}

func (s *site) prepare(workflow string, how app.PrepareRequest) journal.RunID {
	s.t.Helper()
	ctx := s.t.Context()
	an, err := s.app.Analyze(ctx, app.AnalyzeRequest{Workflow: workflow, Reading: catalog.ReadOptions{Run: true}})
	if err != nil {
		s.t.Fatal(err)
	}
	how.Workflow = an
	prepared, err := s.app.Prepare(ctx, how)
	if err != nil {
		s.t.Fatal(err)
	}
	id, err := s.app.Start(ctx, prepared, "", journal.Actor{User: cmp.Or(s.user, "tester")})
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// rest waits until a run is at rest.
func (s *site) rest(id journal.RunID) *app.Run {
	s.t.Helper()
	run, err := s.app.Wait(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

// facts returns the facts of a run.
func (s *site) facts(id journal.RunID) []journal.Fact {
	s.t.Helper()
	j, err := s.app.Journal(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []journal.Fact
	for e, err := range j.Events(s.t.Context(), id, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		out = append(out, e.Fact)
	}
	return out
}

// client returns an HTTP client that is signed in as the owner and follows no redirects.
func (s *site) client() *http.Client {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &http.Client{Jar: jar, CheckRedirect: stay}
	response, err := c.Get(s.url("/login?code=" + s.auth.NewLoginCode()))
	if err != nil {
		s.t.Fatal(err)
	}
	response.Body.Close()
	return c
}

// chrome is the browser that all tests share.
var chrome struct {
	once    sync.Once
	ctx     context.Context
	missing string
	dir     string
	cancel  context.CancelFunc
}

var screenshots = flag.String("screenshots", "", "write pictures of all pages to this folder")

func TestMain(m *testing.M) {
	process.Confine(os.Args)
	flag.Parse()
	code := m.Run()
	if chrome.cancel != nil {
		chrome.cancel()
		os.RemoveAll(chrome.dir)
	}
	os.Exit(code)
}

// startChrome starts the browser once.
func startChrome() {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		chrome.missing = "no Chromium was found: install chromium to test the pages"
		return
	}
	dir, err := os.MkdirTemp("", "espalier-chrome-")
	if err != nil {
		chrome.missing = err.Error()
		return
	}
	chrome.dir = dir
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(dir),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true))
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	if err := chromedp.Do(ctx); err != nil {
		chrome.missing = "Chromium does not start: " + err.Error()
	}
	chrome.ctx = ctx
	chrome.cancel = func() { cancel(); cancelAllocator() }
}

// tab is a tab of its own browser profile.
type tab struct {
	t   testing.TB
	s   *site
	ctx context.Context

	mu       sync.Mutex
	messages []string
	expected []string // parts of messages that the test causes on purpose
}

// open returns a tab that is signed in as the owner of the project.
func (s *site) open() *tab {
	s.t.Helper()
	b := s.blank()
	b.visit("/login?code=" + s.auth.NewLoginCode())
	return b
}

// openAs returns a tab of another user.
func (s *site) openAs(name string, roles ...identity.Role) *tab {
	s.t.Helper()
	token, err := s.auth.Users().Add(name, false, roles, time.Hour)
	if err != nil {
		s.t.Fatal(err)
	}
	b := s.blank()
	b.visit("/login")
	b.set("#token", token)
	b.click("form button")
	b.wait(`!!document.querySelector(".rail")`)
	return b
}

func (s *site) blank() *tab {
	s.t.Helper()
	chrome.once.Do(startChrome)
	if chrome.missing != "" {
		if os.Getenv("CI") != "" {
			s.t.Fatal(chrome.missing)
		}
		s.t.Skip(chrome.missing)
	}
	ctx, cancel := chromedp.NewContext(chrome.ctx, chromedp.WithNewBrowserContext())
	b := &tab{t: s.t, s: s, ctx: ctx}
	console := chromedp.Console(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for m, err := range console {
			if err != nil {
				return
			}
			if m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleException ||
				m.Type == chromedp.ConsoleWarning {
				b.mu.Lock()
				b.messages = append(b.messages, m.Text)
				b.mu.Unlock()
			}
		}
	}()
	s.t.Cleanup(func() {
		cancel()
		<-watched
		for _, m := range b.unexpected() {
			s.t.Errorf("the browser reported: %s", m)
		}
	})
	b.size(1280, 900)
	return b
}

// unexpected returns what the browser reported, such as violations of the content security policy and exceptions.
func (b *tab) unexpected() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
next:
	for _, m := range b.messages {
		for _, part := range b.expected {
			if strings.Contains(m, part) {
				continue next
			}
		}
		out = append(out, m)
	}
	return out
}

func (b *tab) expect(parts ...string) { b.expected = append(b.expected, parts...) }

// limited returns a context for one action.
func (b *tab) limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.ctx, time.Minute)
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	err := chromedp.Do(ctx, steps...)
	// Right after a navigation, chromedp may look for an element of the page that was there before, and then does
	// nothing with it.
	for err != nil && strings.Contains(err.Error(), "Could not find node with given id") && ctx.Err() == nil {
		err = chromedp.Do(ctx, steps...)
	}
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.describe())
	}
}

func (b *tab) size(width, height int64) { b.t.Helper(); b.do(chromedp.EmulateViewport(width, height)) }

func (b *tab) visit(path string) { b.t.Helper(); b.do(chromedp.Navigate(b.s.url(path))) }

// inject evaluates JavaScript on every page before its own.
func (b *tab) inject(script string) {
	b.t.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: script,
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.do(chromedp.ScrollIntoView(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector)))
}

func (b *tab) set(selector, value string) {
	b.t.Helper()
	eval[string](b, fmt.Sprintf("document.querySelector(%q).value = ''", selector))
	b.do(chromedp.SendKeys(chromedp.CSS(selector), value))
}

// press presses a key.
func (b *tab) press(key string) { b.t.Helper(); b.do(chromedp.KeyEvent(key)) }

// eval evaluates JavaScript.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return out
}

// wait waits until a condition holds on a page that is loaded, across navigations. Before it is loaded, a page has an
// address and contents but may not react to keys.
func (b *tab) wait(condition string) {
	b.t.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	condition = `document.readyState === "complete" && (` + condition + `)`
	for {
		// A navigation ends the evaluation with an error; the condition is then that of the next page.
		ok, err := chromedp.Run(ctx, chromedp.Poll[bool](condition, chromedp.WithPollingTimeout(5*time.Second)))
		if err == nil && ok {
			return
		}
		if ctx.Err() != nil {
			b.t.Fatalf("never: %s\n%s", condition, b.describe())
		}
	}
}

// waitText waits until an element contains a text.
func (b *tab) waitText(selector, text string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.textContent.includes(%q))", selector, text))
}

func (b *tab) describe() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](
		`location.href + "\n" + document.querySelector("main")?.innerText.slice(0, 1500)`))
	if err != nil {
		return err.Error()
	}
	return text
}

// theme emulates the color scheme of the system.
func (b *tab) theme(name string) {
	b.t.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// signOut removes the cookies of the tab, as if the session had expired.
func (b *tab) signOut() {
	b.t.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	if _, err := chromedp.Call(ctx, network.ClearBrowserCookies, struct{}{}); err != nil {
		b.t.Fatal(err)
	}
}

// get returns the body of a page.
func (s *site) get(c *http.Client, path string) (int, string) {
	s.t.Helper()
	response, err := c.Get(s.url(path))
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(raw)
}
