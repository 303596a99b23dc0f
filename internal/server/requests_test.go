package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/journal"
)

// again serves the app of a project with other options. stop begins to stop the server; the channel gets what Serve
// returns.
func (p *project) again(
	o Options, wrap func(net.Listener) net.Listener,
) (other *project, stop func(), ended chan error) {
	p.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	if wrap != nil {
		l = wrap(l)
	}
	o.App, o.Auth, o.StateDir, o.Version = p.app, p.auth, p.server.o.StateDir, "test"
	o.Log = slog.New(slog.DiscardHandler)
	s := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	go func() {
		ended <- s.Serve(ctx, l, time.Minute)
		close(ended)
	}()
	p.t.Cleanup(func() {
		cancel()
		<-ended
	})
	return &project{
		t: p.t, dir: p.dir, app: p.app, server: s, url: "http://" + l.Addr().String(), token: p.token, auth: p.auth,
		contract: p.contract,
	}, cancel, ended
}

// dial opens a connection and sends a text. Reading from it fails after a minute.
func (p *project) dial(text string) net.Conn {
	p.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		p.t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// head returns the header of a request with a token.
func (p *project) head(method, path string, length int, more ...string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n%s\r\n",
		method, path, strings.TrimPrefix(p.url, "http://"), p.token, length, strings.Join(more, ""))
}

// A body that is too large is refused with 413, wherever it is sent to, and a header with 431.
func TestOversizedRequestsAreRefused(t *testing.T) {
	t.Setenv("TEST_STANDARD", standardSecret)
	p := eventProject(t, map[string]string{"subscriber.md": subscriber, "espalier.yaml": hookConfig})
	large := func() io.Reader {
		return io.MultiReader(strings.NewReader(`{"workflow":"`), io.LimitReader(zeros{}, maxBody), strings.NewReader(`"}`))
	}
	for path, header := range map[string]string{
		"/api/v1/runs": "application/json", "/api/v1/events": structuredEvent, "/hooks/paid": "application/json",
	} {
		for _, length := range []int64{-1, maxBody + 15} { // without a length, the body itself is counted
			r, err := http.NewRequest(http.MethodPost, p.url+path, large())
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = length
			r.Header.Set("Content-Type", header)
			if !strings.HasPrefix(path, "/hooks") {
				r.Header.Set("Authorization", "Bearer "+p.token)
			}
			w, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			w.Body.Close()
			if w.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%s with %d bytes: %s", path, length, w.Status)
			}
		}
	}
	r, err := http.NewRequest(http.MethodGet, p.url+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Large", strings.Repeat("x", 100<<10))
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	w.Body.Close()
	if w.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large header: %s", w.Status)
	}
	var list runList
	if p.call("GET", "/api/v1/runs", nil, &list, 200); len(list.Runs) != 0 {
		t.Errorf("%d runs were started", len(list.Runs))
	}
}

// zeros is an endless text.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}

// A client that sends a header or a body too slowly is cut off, while others are served.
func TestSlowRequestsAreCutOff(t *testing.T) {
	t.Setenv("TEST_STANDARD", standardSecret)
	first := eventProject(t, map[string]string{"subscriber.md": subscriber, "espalier.yaml": hookConfig})
	short := standardTimeouts
	short.header, short.read = 50*time.Millisecond, 100*time.Millisecond
	p, _, _ := first.again(Options{timeouts: short}, nil)
	header := p.dial("GET /healthz HTTP/1.1\r\nHost: ")
	bodies := map[string]net.Conn{}
	for path, media := range map[string]string{
		"/api/v1/runs": "application/json", "/api/v1/events": structuredEvent, "/hooks/paid": "application/json",
	} {
		bodies[path] = p.dial(p.head("POST", path, 1000, "Content-Type: "+media+"\r\n") + `{"workflow": `)
	}
	p.call("GET", "/api/v1/runs", nil, nil, 200)
	if rest, err := io.ReadAll(header); err != nil || strings.Contains(string(rest), "200") {
		t.Errorf("a slow header: %q, %v", rest, err)
	}
	for path, c := range bodies {
		w, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		w.Body.Close()
		if w.StatusCode != http.StatusRequestTimeout {
			t.Errorf("a slow body for %s: %s", path, w.Status)
		}
	}
	if standardTimeouts.header > time.Minute || standardTimeouts.read > 10*time.Minute ||
		standardTimeouts.write > time.Minute {
		t.Errorf("%+v", standardTimeouts)
	}
}

// small limits the send buffers of connections, so that a client that does not read is noticed after a few kilobytes.
type small struct{ net.Listener }

func (l small) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

// A client that does not read its events is dropped, while another one gets them all.
func TestSlowClientsOfLiveEventsAreDropped(t *testing.T) {
	first := newProject(t)
	short := standardTimeouts
	short.write = 100 * time.Millisecond
	p, _, _ := first.again(Options{timeouts: short}, func(l net.Listener) net.Listener { return small{l} })
	slow := p.dial(p.head("GET", "/api/v1/events?after=0", 0))
	if err := slow.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.Read(make([]byte, 12)); err != nil { // the response has begun
		t.Fatal(err)
	}
	var last string
	for range 40 {
		var s api.Status
		start := map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}, "simulate": true}
		p.call("POST", "/api/v1/runs", start, &s, 201)
		last = s.ID
	}
	p.until(last, journal.StateWaiting)
	followed := false
	p.events("/api/v1/events", "0", func(_, data string) bool {
		followed = strings.Contains(data, last)
		return followed
	})
	if !followed {
		t.Error("the other client does not get all events")
	}
	for end := time.Now().Add(time.Minute); p.server.stats.clients.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d clients remain", p.server.stats.clients.Load())
		}
	}
}

// A server that stops accepts no connections, and answers the request that is under way.
func TestStoppingServerAnswersRequestsUnderWay(t *testing.T) {
	p, stop, ended := newProject(t).again(Options{}, nil)
	const body = `{"workflow": "gated", "input": {"question": "why?"}, "simulate": true}`
	c := p.dial(p.head("POST", "/api/v1/runs", len(body), "Content-Type: application/json\r\nExpect: 100-continue\r\n"))
	in := bufio.NewReader(c)
	if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") { // the handler reads
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	stop()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		other, err := net.Dial("tcp", c.RemoteAddr().String())
		if err != nil {
			break
		}
		other.Close()
		if time.Now().After(end) {
			t.Fatal("the server accepts connections")
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("the server has stopped: %v", err)
	default:
	}
	if _, err := io.WriteString(c, body); err != nil {
		t.Fatal(err)
	}
	w, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Body.Close()
	if w.StatusCode != http.StatusCreated {
		t.Errorf("%s", w.Status)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// /healthz answers without credentials as long as the process does. /readyz says whether runs are driven.
func TestReadyzFollowsStartAndStop(t *testing.T) {
	p, _, _ := newProject(t).again(Options{}, nil)
	status := func(path string) int {
		t.Helper()
		w, err := http.Get(p.url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		text, err := io.ReadAll(w.Body)
		if err != nil || w.StatusCode == 200 && string(text) != "ok\n" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
		return w.StatusCode
	}
	if alive, ready := status("/healthz"), status("/readyz"); alive != 200 || ready != 503 {
		t.Errorf("while it starts: %d, %d", alive, ready)
	}
	p.server.SetReady()
	if alive, ready := status("/healthz"), status("/readyz"); alive != 200 || ready != 200 {
		t.Errorf("%d, %d", alive, ready)
	}
	p.server.stopNow()
	if alive, ready := status("/healthz"), status("/readyz"); alive != 200 || ready != 503 {
		t.Errorf("while it stops: %d, %d", alive, ready)
	}
}
