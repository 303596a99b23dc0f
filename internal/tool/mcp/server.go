package mcp

//lint:file-ignore SA1019 Servers use sampling and roots until they follow a later version of the protocol.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/espalier-run/espalier/internal/netguard"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Config is how a server is started, or where it is.
type Config struct {
	Name    string
	Command []string
	Dir     string
	URL     string
	// Sandbox confines the program; nil leaves it what the user may do.
	Sandbox *process.Sandbox
	// Limits bounds what the program uses of the machine.
	Limits process.Limits
	// Secrets finds what the program gets to see of the environment, and the
	// headers of requests, when the server is started; nil is none.
	Secrets func(ctx context.Context) (env []string, headers http.Header, err error)
	// Guard is what an address may reach; the address itself is the user's choice.
	Guard netguard.Options
	// Timeout is how long a call may take without progress; 0 is usualTimeout.
	Timeout time.Duration
	// Only are the tools that may be used; all when empty.
	Only []string
	// Sampling lets the server ask the model of a call.
	Sampling bool
	// OAuth is the client that gets tokens for the URL; nil if it is not registered.
	OAuth *OAuth
	// Logins has the sign-ins of the person; nil if there are none.
	Logins *Logins
	// Hide is called with each access token before it is sent; nil if none has to be hidden.
	Hide func(token string)

	// MaxMessage and MaxFlood are how much it may write: in one message, and
	// since a call began. Each message counts messageCost bytes more than it
	// has. 0 is the usual amount.
	MaxMessage, MaxFlood int
}

// What holds when a Config says nothing else.
const (
	usualTimeout = 60 * time.Second
	longestCall  = 30 * time.Minute // with progress
	startTime    = 60 * time.Second // a program may have to be fetched first
	usualMessage = 16 << 20
	usualFlood   = 64 << 20
	// messageCost is what a message counts besides its bytes: decoding a short
	// one takes as long as reading this many bytes. So the usual flood is at
	// most 16,384 messages.
	messageCost  = 4 << 10
	maxTools     = 5000
	mostStarts   = 5 // within startsWithin
	startsWithin = 10 * time.Minute
)

// Server is one server, whether it runs or not.
type Server struct {
	Config

	starting sync.Mutex // held while it is being started
	mu       sync.Mutex
	now      *session
	starts   []time.Time
	closed   bool
	tokens   atomic.Int64
	waiting  map[string]func(tool.Progress) // by progress token
	calls    map[*running]bool              // that have not returned
	changed  chan struct{}                  // closed when a call returns
	asks     bool                           // the server has made a request of its own
}

// New makes a server. Nothing is started.
func New(c Config) *Server {
	c.Timeout = cmp.Or(c.Timeout, usualTimeout)
	c.MaxMessage = cmp.Or(c.MaxMessage, usualMessage)
	c.MaxFlood = cmp.Or(c.MaxFlood, usualFlood)
	if c.Hide == nil {
		c.Hide = func(string) {}
	}
	return &Server{
		Config: c, waiting: map[string]func(tool.Progress){}, calls: map[*running]bool{}, changed: make(chan struct{}),
	}
}

// Free tells whether it is a program that nothing confines.
func (s *Server) Free() bool { return s.URL == "" && s.Sandbox == nil }

// session is a server that runs.
type session struct {
	client *mcp.ClientSession
	proc   *process.Process // nil over HTTP
	meter  *meter           // nil over HTTP
	tools  []*remote
	seen   schemas
	gone   chan struct{} // closed when the server no longer answers
	ended  atomic.Bool   // by us
}

// over reports whether the server can no longer be used.
func (s *session) over() bool {
	select {
	case <-s.gone:
		return true
	default:
		return s.ended.Load() || s.meter.flooded()
	}
}

// ErrClosed is returned for a server that has been closed for good.
var ErrClosed = errors.New("the MCP server has been closed")

// Tools are what the server offers, under its name. It is started if need be.
func (s *Server) Tools(ctx context.Context) ([]tool.Tool, error) {
	now, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	out := xslices.Map(now.tools, func(t *remote) tool.Tool { return t })
	return out, nil
}

// session is the one that runs, or a new one.
func (s *Server) session(ctx context.Context) (*session, error) {
	s.starting.Lock()
	defer s.starting.Unlock()
	s.mu.Lock()
	now, closed := s.now, s.closed
	s.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if now != nil {
		if !now.over() {
			return now, nil
		}
		now.end()
	}
	s.starts = slices.DeleteFunc(s.starts, func(at time.Time) bool { return time.Since(at) > startsWithin })
	if len(s.starts) == mostStarts {
		return nil, fmt.Errorf("the MCP server %q has ended %d times and is not started again: %s",
			s.Name, mostStarts, now.last())
	}
	s.starts = append(s.starts, time.Now())
	now, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // while it started
		now.end()
		return nil, ErrClosed
	}
	s.now = now
	return now, nil
}

func (s *Server) start(ctx context.Context) (_ *session, err error) {
	ctx, stop := context.WithTimeout(ctx, startTime)
	defer stop()
	var env []string
	var headers http.Header
	if s.Secrets != nil {
		if env, headers, err = s.Secrets(ctx); err != nil {
			return nil, fmt.Errorf("the MCP server %q cannot be started: %w", s.Name, err)
		}
	}
	now := &session{gone: make(chan struct{})}
	defer func() {
		if err != nil {
			now.end() // before it is asked: then it has said everything
			err = fmt.Errorf("the MCP server %q cannot be started: %w%s", s.Name, now.plainly(err), now.complaint())
		}
	}()
	var transport mcp.Transport
	if s.URL != "" {
		var tokens auth.OAuthHandler
		if tokens, err = s.authorizer(ctx, headers); err == nil {
			transport, err = s.overHTTP(now, headers, tokens)
		}
	} else {
		transport, err = s.asProgram(now, env)
	}
	if err != nil {
		return nil, err
	}
	client := s.newClient()
	if now.client, err = client.Connect(ctx, transport, nil); err != nil {
		return nil, err
	}
	go func() {
		_ = now.client.Wait() // why does not matter: it is gone
		close(now.gone)
	}()
	for t, err := range now.client.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if len(s.Only) > 0 && !slices.Contains(s.Only, t.Name) {
			continue
		}
		if len(now.tools) == maxTools {
			return nil, fmt.Errorf("it has more than %d tools", maxTools)
		}
		one, err := s.remote(t, now.seen.of(t.Name))
		if err != nil {
			return nil, err
		}
		now.tools = append(now.tools, one)
	}
	now.seen.close()
	now.tools = append(now.tools, s.readers(now)...)
	return now, nil
}

// newClient returns a client that answers the questions of the server. A program learns its roots; a server somewhere
// else has no use for them.
func (s *Server) newClient() *mcp.Client {
	options := &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, ProgressNotificationHandler: s.progress, ElicitationHandler: s.elicit,
	}
	if s.Sampling {
		options.CreateMessageHandler = s.sample
	}
	local := s.URL == "" && s.Dir != ""
	if local {
		options.Capabilities.RootsV2 = &mcp.RootCapabilities{}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "espalier", Version: "1"}, options)
	if local {
		for _, dir := range s.roots() {
			root := url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
			client.AddRoots(&mcp.Root{Name: filepath.Base(dir), URI: root.String()})
		}
	}
	return client
}

// roots returns the folders that the arguments of the program name, and the project if they name none. Some servers
// use the roots instead of their arguments, and must get neither more nor less than these allow.
func (s *Server) roots() []string {
	var out []string
	for _, argument := range s.Command[1:] {
		if !filepath.IsAbs(argument) {
			argument = filepath.Join(s.Dir, argument)
		}
		if info, err := os.Stat(argument); err == nil && info.IsDir() {
			out = append(out, argument)
		}
	}
	if len(out) == 0 {
		return []string{s.Dir}
	}
	return out
}

// plainly is an error in words that help, where those of the library do not.
func (s *session) plainly(err error) error {
	var request *url.Error
	switch {
	case errors.As(err, &request):
		return &worded{err, netguard.ErrorText(err)}
	case !errors.Is(err, mcp.ErrConnectionClosed) || s.proc == nil || s.client != nil:
		return err
	case s.meter.flooded():
		return &worded{err, errFlood.Error()}
	case s.meter.left.Load() < s.meter.most:
		return &worded{err, "what it writes to its standard output is not MCP"}
	}
	return &worded{err, "it ended without an answer"}
}

// worded is an error in other words.
type worded struct {
	error
	words string
}

func (w *worded) Error() string { return w.words }
func (w *worded) Unwrap() error { return w.error }

func (s *Server) asProgram(now *session, env []string) (mcp.Transport, error) {
	path, err := exec.LookPath(s.Command[0])
	if err != nil {
		return nil, err
	}
	// Not bound to a call: it serves many. Close ends it, and so does our end.
	now.proc, err = process.Start(context.Background(), process.Command{
		Path: path, Args: s.Command[1:], Dir: s.Dir, Env: process.Environment(os.Environ(), env...), Sandbox: s.Sandbox,
		Limits: s.Limits, EarlyLimits: true,
	})
	if err != nil {
		return nil, err
	}
	now.meter = newMeter(now.proc.Stdout, int64(s.MaxFlood), &now.seen, now.proc.Stop)
	now.meter.messages = countLines
	return &mcp.IOTransport{Reader: now.meter, Writer: now.proc.Stdin, MaxLineLength: s.MaxMessage}, nil
}

// authorizer returns what adds tokens to requests; nil if nothing does.
func (s *Server) authorizer(ctx context.Context, headers http.Header) (auth.OAuthHandler, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	client := netguard.Client(s.tokenGuard(u))
	switch {
	case s.OAuth != nil && s.OAuth.Secret != nil:
		return s.OAuth.handler(ctx, client, s.Hide)
	case s.Logins != nil && headers.Get("Authorization") == "":
		return &signedIn{server: s, client: client}, nil
	}
	return nil, nil
}

func (s *Server) overHTTP(now *session, headers http.Header, tokens auth.OAuthHandler) (mcp.Transport, error) {
	u, err := url.Parse(s.URL)
	if err == nil {
		err = netguard.Check(u)
	}
	if err != nil {
		return nil, err
	}
	guard := s.Guard
	guard.Allow = append(slices.Clone(guard.Allow), u.Host)
	guard.Timeout = -1 // an answer may be a stream; calls have times of their own
	client := netguard.Client(guard)
	client.Transport = &withHeaders{
		next: client.Transport, server: u, headers: headers, most: int64(s.MaxFlood), seen: &now.seen,
	}
	return &mcp.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: client, MaxRetries: 2, DisableStandaloneSSE: true, MaxEventSize: s.MaxMessage,
		OAuthHandler: tokens,
	}, nil
}

// withHeaders adds headers to what goes to the server itself, as safely as its
// address says, and bounds what comes back.
type withHeaders struct {
	next    http.RoundTripper
	server  *url.URL
	headers http.Header
	most    int64
	seen    *schemas
}

func (t *withHeaders) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host == t.server.Host && (req.URL.Scheme == "https" || t.server.Scheme != "https") {
		req = req.Clone(req.Context())
		for name, values := range t.headers {
			req.Header[name] = values
		}
	}
	resp, err := t.next.RoundTrip(req)
	if err == nil {
		m := newMeter(resp.Body, t.most, t.seen, func() {})
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			m.messages = new(eventCounter).count
		}
		resp.Body = m
	}
	return resp, err
}

// meter ends a stream that brings more than it may.
type meter struct {
	io.ReadCloser
	most     int64
	left     atomic.Int64
	messages func([]byte) int // counts the messages that end in the next part of the stream; nil for one message in all
	over     func()
	seen     *schemas
	line     []byte // the start of a message, until it is complete
}

// countLines counts the messages of a program, each of which is a line.
func countLines(p []byte) int { return bytes.Count(p, []byte("\n")) }

// eventCounter counts server-sent events, each of which ends with an empty line.
type eventCounter struct{ filled bool } // the current line is not empty

func (c *eventCounter) count(p []byte) (n int) {
	for _, b := range p {
		switch b {
		case '\n':
			if !c.filled {
				n++
			}
			c.filled = false
		case '\r':
		default:
			c.filled = true
		}
	}
	return n
}

func newMeter(of io.ReadCloser, most int64, seen *schemas, over func()) *meter {
	m := &meter{ReadCloser: of, most: most, seen: seen, over: over}
	m.left.Store(most)
	return m
}

var errFlood = errors.New("it wrote more than it may")

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	cost := int64(n)
	if m.messages != nil {
		cost += messageCost * int64(m.messages(p[:n]))
	}
	if m.left.Add(-cost) < 0 {
		m.over()
		return 0, errFlood
	}
	m.collect(p[:n], err != nil)
	return n, err
}

// collect hands complete lines to the schemas, as long as those are open.
func (m *meter) collect(p []byte, end bool) {
	if !m.seen.open() {
		m.line = nil
		return
	}
	for {
		line, rest, whole := bytes.Cut(p, []byte("\n")) // what is in m.line has been searched before
		m.line = append(m.line, line...)
		if !whole && !end {
			return
		}
		m.seen.message(m.line)
		m.line = nil
		if p = rest; !whole {
			return
		}
	}
}

// flooded tells whether that has happened.
func (m *meter) flooded() bool { return m != nil && m.left.Load() < 0 }

// end makes sure that nothing of a session is left.
func (s *session) end() {
	s.ended.Store(true)
	if s.proc != nil {
		s.proc.Stop() // first: a server that does not read cannot be told
	}
	if s.client != nil {
		_ = s.client.Close() // it may be gone already
	}
	if s.proc != nil {
		_, _ = s.proc.Wait() // how it ended is of no interest any more
		s.proc.Stdin.Close()
		s.proc.Stdout.Close()
	}
}

// complaint is the last that a program has said about itself, to be put after
// a sentence.
func (s *session) complaint() string {
	if s.proc == nil {
		return ""
	}
	if lines := lastLines(s.proc.Errors()); lines != "" {
		return "; it says: " + lines
	}
	return ""
}

// last says how a session ended.
func (s *session) last() string {
	if s == nil || s.proc == nil {
		return "it does not answer"
	}
	outcome, _ := s.proc.Wait() // it has ended
	how := fmt.Sprintf("it ended with exit code %d", outcome.Exit)
	if outcome.Signal != "" {
		how = fmt.Sprintf("it was ended by a signal (%s)", outcome.Signal)
	}
	if s.meter.flooded() {
		how = "it was stopped because it wrote more than it may"
	}
	return how + s.complaint()
}

func lastLines(stderr []byte) string {
	const most = 5
	lines := bytes.Split(bytes.TrimSpace(stderr), []byte("\n"))
	return strings.ToValidUTF8(string(bytes.Join(lines[max(0, len(lines)-most):], []byte("\n"))), "�")
}

// Close ends the server for good. When it returns, nothing of it is left.
func (s *Server) Close() {
	s.mu.Lock()
	now := s.now
	s.closed, s.now = true, nil
	s.mu.Unlock()
	if now != nil {
		now.end()
	}
	s.starting.Lock() // one that is just starting ends itself before that is over
	defer s.starting.Unlock()
}
