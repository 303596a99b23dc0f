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

// Config describes a server: the command that starts it, or its URL.
type Config struct {
	Name    string
	Command []string
	Dir     string
	URL     string
	// Sandbox confines the program; nil runs it with all permissions of the user.
	Sandbox *process.Sandbox
	// Limits bounds the resources of the program.
	Limits process.Limits
	// Secrets returns environment variables for the program and headers for requests when the server is started; nil
	// adds none.
	Secrets func(ctx context.Context) (env []string, headers http.Header, err error)
	// Guard limits which hosts requests may reach. The host of the URL is always allowed.
	Guard netguard.Options
	// Timeout is the time that a call may take without progress; 0 selects defaultTimeout.
	Timeout time.Duration
	// Only are the tools that may be used; empty allows all.
	Only []string
	// Sampling lets the server ask the model of a call.
	Sampling bool
	// OAuth is the client that gets tokens for the URL; nil if it is not registered.
	OAuth *OAuth
	// Logins has the sign-ins of the person; nil if there are none.
	Logins *Logins
	// Hide is called with each access token before it is sent; nil if none has to be hidden.
	Hide func(token string)

	// MaxMessage and MaxOutput limit the bytes of one message, and of all output since a call began, to which each
	// message adds messageCost. 0 selects the defaults.
	MaxMessage, MaxOutput int
}

// Defaults and limits.
const (
	defaultTimeout    = 60 * time.Second
	maxCallTime       = 30 * time.Minute // with progress
	startTimeout      = 60 * time.Second // the command may download the program first
	defaultMaxMessage = 16 << 20
	defaultMaxOutput  = 64 << 20
	// messageCost is charged for each message in addition to its bytes: decoding a short message takes as long as
	// reading this many bytes. So defaultMaxOutput allows at most 16,384 messages.
	messageCost  = 4 << 10
	maxTools     = 5000
	maxStarts    = 5 // within startsWithin
	startsWithin = 10 * time.Minute
)

// Server is an MCP server, which may not be running. It is started by the first call that needs it, and again after it
// has ended, up to maxStarts times. It is safe for concurrent use; several calls share a session.
type Server struct {
	Config

	tokens atomic.Int64

	starting sync.Mutex  // held while the server is started
	starts   []time.Time // guarded by starting

	mu      sync.Mutex // guards the fields below
	sess    *session
	closed  bool
	waiting map[string]func(tool.Progress) // by progress token
	calls   map[*running]bool              // that have not returned
	changed chan struct{}                  // closed when a call returns
	asks    bool                           // the server has made a request of its own
}

// New returns a server without starting it.
func New(c Config) *Server {
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.MaxMessage = cmp.Or(c.MaxMessage, defaultMaxMessage)
	c.MaxOutput = cmp.Or(c.MaxOutput, defaultMaxOutput)
	if c.Hide == nil {
		c.Hide = func(string) {}
	}
	return &Server{
		Config: c, waiting: map[string]func(tool.Progress){}, calls: map[*running]bool{}, changed: make(chan struct{}),
	}
}

// Unconfined reports whether the server is a program without a sandbox.
func (s *Server) Unconfined() bool { return s.URL == "" && s.Sandbox == nil }

// session is a running server. It is not reused after end: the next call starts another one.
type session struct {
	client *mcp.ClientSession
	proc   *process.Process // nil over HTTP
	meter  *meter           // nil over HTTP
	tools  []*remoteTool
	seen   schemas
	gone   chan struct{} // closed when the server no longer answers
	ended  atomic.Bool   // end has been called
}

// dead reports whether the server can no longer be used.
func (s *session) dead() bool {
	select {
	case <-s.gone:
		return true
	default:
		return s.ended.Load() || s.meter.exceeded()
	}
}

// ErrClosed is returned for a server after Close.
var ErrClosed = errors.New("the MCP server has been closed")

// Tools returns the tools of the server, with its name as their prefix. It starts the server if it is not running.
func (s *Server) Tools(ctx context.Context) ([]tool.Tool, error) {
	sess, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	out := xslices.Map(sess.tools, func(t *remoteTool) tool.Tool { return t })
	return out, nil
}

// session returns the running session, or starts one. Only one goroutine starts at a time, and the others get its
// session. A server that keeps ending is not started again until some time has passed.
func (s *Server) session(ctx context.Context) (*session, error) {
	s.starting.Lock()
	defer s.starting.Unlock()
	s.mu.Lock()
	sess, closed := s.sess, s.closed
	s.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if sess != nil {
		if !sess.dead() {
			return sess, nil
		}
		sess.end()
	}
	s.starts = slices.DeleteFunc(s.starts, func(at time.Time) bool { return time.Since(at) > startsWithin })
	if len(s.starts) == maxStarts {
		return nil, fmt.Errorf("the MCP server %q has ended %d times and is not started again: %s",
			s.Name, maxStarts, sess.exitReason())
	}
	s.starts = append(s.starts, time.Now())
	sess, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // while it started
		sess.end()
		return nil, ErrClosed
	}
	s.sess = sess
	return sess, nil
}

// start starts the server and lists its tools. On errors, everything that was started has ended when it returns.
func (s *Server) start(ctx context.Context) (_ *session, err error) {
	ctx, stop := context.WithTimeout(ctx, startTimeout)
	defer stop()
	var env []string
	var headers http.Header
	if s.Secrets != nil {
		if env, headers, err = s.Secrets(ctx); err != nil {
			return nil, fmt.Errorf("the MCP server %q cannot be started: %w", s.Name, err)
		}
	}
	sess := &session{gone: make(chan struct{})}
	defer func() {
		if err != nil {
			sess.end() // first, so that the standard error is complete
			err = fmt.Errorf("the MCP server %q cannot be started: %w%s", s.Name, sess.reword(err), sess.stderrSuffix())
		}
	}()
	var transport mcp.Transport
	if s.URL != "" {
		var tokens auth.OAuthHandler
		if tokens, err = s.authorizer(ctx, headers); err == nil {
			transport, err = s.overHTTP(sess, headers, tokens)
		}
	} else {
		transport, err = s.asProgram(sess, env)
	}
	if err != nil {
		return nil, err
	}
	client := s.newClient()
	if sess.client, err = client.Connect(ctx, transport, nil); err != nil {
		return nil, err
	}
	go func() {
		_ = sess.client.Wait() // the reason does not matter
		close(sess.gone)
	}()
	for t, err := range sess.client.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		if len(s.Only) > 0 && !slices.Contains(s.Only, t.Name) {
			continue
		}
		if len(sess.tools) == maxTools {
			return nil, fmt.Errorf("it has more than %d tools", maxTools)
		}
		one, err := s.remoteTool(t, sess.seen.of(t.Name))
		if err != nil {
			return nil, err
		}
		sess.tools = append(sess.tools, one)
	}
	sess.seen.close()
	sess.tools = append(sess.tools, s.readers(sess)...)
	return sess, nil
}

// newClient returns a client that handles the requests of the server. Only programs get roots: remote servers cannot
// access the folders.
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

// reword replaces messages of the SDK that do not help users: those of failed HTTP requests, and the one for a program
// that closes its output before the session starts. The latter depends on what the program wrote: too much, something
// other than MCP, or nothing.
func (s *session) reword(err error) error {
	var request *url.Error
	switch {
	case errors.As(err, &request):
		return &rewordedError{err, netguard.ErrorText(err)}
	case !errors.Is(err, mcp.ErrConnectionClosed) || s.proc == nil || s.client != nil:
		return err
	case s.meter.exceeded():
		return &rewordedError{err, s.meter.limitError().Error()}
	case s.meter.left.Load() < s.meter.most:
		return &rewordedError{err, "its standard output is not MCP"}
	}
	return &rewordedError{err, "it exited before it responded"}
}

// rewordedError is an error with another message.
type rewordedError struct {
	error
	message string
}

func (e *rewordedError) Error() string { return e.message }
func (e *rewordedError) Unwrap() error { return e.error }

func (s *Server) asProgram(sess *session, env []string) (mcp.Transport, error) {
	path, err := exec.LookPath(s.Command[0])
	if err != nil {
		return nil, err
	}
	// The program serves many calls, so no call's context ends it: Close does, or the end of this process.
	sess.proc, err = process.Start(context.Background(), process.Command{
		Path: path, Args: s.Command[1:], Dir: s.Dir, Env: process.Environment(os.Environ(), env...), Sandbox: s.Sandbox,
		Limits: s.Limits, EarlyLimits: true,
	})
	if err != nil {
		return nil, err
	}
	sess.meter = newMeter(sess.proc.Stdout, int64(s.MaxOutput), &sess.seen, sess.proc.Stop)
	sess.meter.messages = countLines
	return &mcp.IOTransport{Reader: sess.meter, Writer: sess.proc.Stdin, MaxLineLength: s.MaxMessage}, nil
}

// authorizer returns the handler that adds tokens to requests; nil if requests need none.
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

// overHTTP returns the transport of a remote server (streamable HTTP). The stream for messages of the server outside of
// calls is not opened.
func (s *Server) overHTTP(sess *session, headers http.Header, tokens auth.OAuthHandler) (mcp.Transport, error) {
	u, err := url.Parse(s.URL)
	if err == nil {
		err = netguard.Check(u)
	}
	if err != nil {
		return nil, err
	}
	guard := s.Guard
	guard.Allow = append(slices.Clone(guard.Allow), u.Host)
	guard.Timeout = -1 // a response may be a stream; calls have their own timeouts
	client := netguard.Client(guard)
	client.Transport = &withHeaders{
		next: client.Transport, server: u, headers: headers, most: int64(s.MaxOutput), seen: &sess.seen,
	}
	return &mcp.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: client, MaxRetries: 2, DisableStandaloneSSE: true, MaxEventSize: s.MaxMessage,
		OAuthHandler: tokens,
	}, nil
}

// withHeaders adds headers to requests to the server itself, never over plain HTTP if its URL has https, and limits the
// size of responses. Requests to other hosts, as after a redirect, get no headers.
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

// meter ends a stream that exceeds its limit. For a program, the limit is that of the output since a call began: Call
// sets left again. The SDK has no limit of its own on the number of messages.
type meter struct {
	io.ReadCloser
	most     int64
	left     atomic.Int64
	messages func([]byte) int // counts the messages that end in the next part of the stream; nil for one message in all
	onExceed func()
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

func newMeter(of io.ReadCloser, most int64, seen *schemas, onExceed func()) *meter {
	m := &meter{ReadCloser: of, most: most, seen: seen, onExceed: onExceed}
	m.left.Store(most)
	return m
}

func (m *meter) limitError() error {
	return fmt.Errorf("output limit exceeded (%d MiB per call)", m.most>>20)
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	cost := int64(n)
	if m.messages != nil {
		cost += messageCost * int64(m.messages(p[:n]))
	}
	if m.left.Add(-cost) < 0 {
		m.onExceed()
		return 0, m.limitError()
	}
	m.collect(p[:n], err != nil)
	return n, err
}

// collect passes complete lines to m.seen until that is closed, which is when the tools are listed. Only the goroutine
// that reads the stream calls it.
func (m *meter) collect(p []byte, end bool) {
	if !m.seen.open() {
		m.line = nil
		return
	}
	for {
		line, rest, whole := bytes.Cut(p, []byte("\n")) // m.line has no newline
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

// exceeded reports whether the stream has exceeded its limit.
func (m *meter) exceeded() bool { return m != nil && m.left.Load() < 0 }

// end closes the connection, stops the program and waits until its processes have ended. It may be called more than
// once.
func (s *session) end() {
	s.ended.Store(true)
	if s.proc != nil {
		s.proc.Stop() // first: closing the client would block if the server does not read
	}
	if s.client != nil {
		_ = s.client.Close() // it may be closed already
	}
	if s.proc != nil {
		_, _ = s.proc.Wait() // the outcome does not matter
		s.proc.Stdin.Close()
		s.proc.Stdout.Close()
	}
}

// stderrSuffix returns the last lines of the program's standard error, to append to a message.
func (s *session) stderrSuffix() string {
	if s.proc == nil {
		return ""
	}
	if lines := lastLines(s.proc.Errors()); lines != "" {
		return "; stderr: " + lines
	}
	return ""
}

// exitReason describes how a session ended.
func (s *session) exitReason() string {
	if s == nil || s.proc == nil {
		return "it does not respond"
	}
	outcome, _ := s.proc.Wait() // it has ended
	reason := fmt.Sprintf("exit code %d", outcome.Exit)
	if outcome.Signal != "" {
		reason = fmt.Sprintf("killed by a signal (%s)", outcome.Signal)
	}
	if s.meter.exceeded() {
		reason = s.meter.limitError().Error()
	}
	return reason + s.stderrSuffix()
}

func lastLines(stderr []byte) string {
	const most = 5
	lines := bytes.Split(bytes.TrimSpace(stderr), []byte("\n"))
	return strings.ToValidUTF8(string(bytes.Join(lines[max(0, len(lines)-most):], []byte("\n"))), "�")
}

// Close stops the server permanently. When it returns, no process of the server is left. Calls under way fail.
func (s *Server) Close() {
	s.mu.Lock()
	sess := s.sess
	s.closed, s.sess = true, nil
	s.mu.Unlock()
	if sess != nil {
		sess.end()
	}
	s.starting.Lock() // a start under way sees closed and ends its session
	defer s.starting.Unlock()
}
