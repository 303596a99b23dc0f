package otel_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/otel"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// spansOf returns the number of spans of a recording.
func spansOf(t *testing.T, r *reporttest.Recording) int { return len(export(t, r, nil, nil).Spans()) }

// undelivered returns the runs that are not delivered, each with the process that has to.
func undelivered(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "owed", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Close does not wait for a collector that hangs longer than its context allows.
func TestCloseDoesNotWaitForHangingCollector(t *testing.T) {
	hangs := make(chan struct{})
	c := reporttest.NewCollector(t)
	t.Cleanup(func() { close(hangs) }) // before the server, which waits for it
	asked := make(chan struct{}, 100)
	c.Answer(func(r *http.Request, _ http.Header) int {
		asked <- struct{}{}
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
		return http.StatusServiceUnavailable
	})
	r := reporttest.Recorded(t, "agent-with-tools")
	l := newLife(t, t.TempDir(), r.Program, variables{"OTEL_BSP_SCHEDULE_DELAY": "1"}.at(c), nil)
	l.sees(r.Appends)
	<-asked // a request is in progress
	s := l.Close(time.Millisecond)
	if s.Waiting != spansOf(t, r) || !s.Measured || s.Problem != "it does not answer in time" {
		t.Errorf("%+v", s)
	}
}

// Many collectors accept traces only. That is reported, and metrics are dropped; spans that no collector accepts are
// kept until the address is corrected.
func TestCollectorWithoutMetricsStillReceivesSpans(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	for _, status := range []int{
		http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented,
		http.StatusBadRequest,
	} {
		for _, signal := range []string{"metrics", "traces"} {
			c := reporttest.NewCollector(t)
			c.Answer(func(r *http.Request, _ http.Header) int {
				if strings.HasSuffix(r.URL.Path, signal) {
					return status
				}
				return http.StatusOK
			})
			dir := t.TempDir()
			l := newLife(t, dir, r.Program, variables{}.at(c), nil)
			l.sees(r.Appends)
			s := l.Close(time.Minute)
			kept := signal == "traces" && status != http.StatusBadRequest
			if s.Unmeasured != (signal == "metrics") || s.Measured || (s.Waiting > 0) != kept ||
				(len(undelivered(t, dir)) > 0) != kept || s.Problem == "" {
				t.Errorf("%d at %s: %+v, undelivered: %q", status, signal, s, undelivered(t, dir))
			}
		}
	}
}

// Rejected spans are not sent again, and the others are delivered.
func TestRejectedSpansAreNotSentAgain(t *testing.T) {
	c := reporttest.NewCollector(t)
	n := 0
	c.Answer(func(r *http.Request, _ http.Header) int {
		if n++; n == 2 {
			return http.StatusBadRequest
		}
		return http.StatusOK
	})
	r := reporttest.Recorded(t, "agent-with-tools")
	dir := t.TempDir()
	l := newLife(t, dir, r.Program, variables{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1"}.at(c), nil)
	l.sees(r.Appends)
	s := l.Close(time.Minute)
	if want := spansOf(t, r); s.Refused != 1 || s.Waiting != 0 || s.Delivered != want-1 || len(c.Spans()) != want-1 ||
		!strings.Contains(s.Problem, "400") {
		t.Errorf("%+v, %d spans", s, len(c.Spans()))
	}
	if left := undelivered(t, dir); len(left) > 0 {
		t.Errorf("it is still undelivered: %q", left)
	}
}

// A collector may reject some spans of a request.
func TestPartiallyRejectedSpansAreCounted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte{0x0a, 0x02, 0x08, 0x03}) // three were rejected
	}))
	defer server.Close()
	r := reporttest.Recorded(t, "linear")
	l := newLife(t, t.TempDir(), r.Program, variables{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": server.URL}, nil)
	l.sees(r.Appends)
	if s := l.Close(time.Minute); s.Refused != 3 || s.Delivered != spansOf(t, r)-3 {
		t.Errorf("%+v", s)
	}
}

// Keys in headers are sent only to the configured address.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it went there") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	r := reporttest.Recorded(t, "linear")
	l := newLife(t, t.TempDir(), r.Program,
		variables{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=k3y"}, nil)
	l.sees(r.Appends)
	if s := l.Close(time.Minute); s.Waiting == 0 || !strings.Contains(s.Problem, "307") {
		t.Errorf("%+v", s)
	}
}

// A collector with a private certificate authority is trusted only if the authority is configured.
func TestPrivateCertificateAuthority(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs refused handshakes
	server.StartTLS()
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, known := range []string{"", authority} {
		s := otel.FromEnvironment(variables{
			"OTEL_EXPORTER_OTLP_ENDPOINT":    server.URL,
			"OTEL_EXPORTER_OTLP_CERTIFICATE": known,
		}.getenv)
		if err := s.Traces.Reach(t.Context()); (err == nil) != (known != "") {
			t.Errorf("authority %q: %v", known, err)
		}
	}
}

// Delivery is retried while the process lives.
func TestDeliveryIsRetried(t *testing.T) {
	c := reporttest.NewCollector(t)
	var mu sync.Mutex
	down, arrived := true, make(chan struct{}, 100)
	c.Answer(func(r *http.Request, _ http.Header) int {
		mu.Lock()
		defer mu.Unlock()
		if down {
			down = false
			return http.StatusBadGateway
		}
		arrived <- struct{}{}
		return http.StatusOK
	})
	r := reporttest.Recorded(t, "linear")
	l := newLife(t, t.TempDir(), r.Program,
		variables{"OTEL_BSP_SCHEDULE_DELAY": "1", "OTEL_METRICS_EXPORTER": "none"}.at(c), nil)
	l.sees(r.Appends)
	<-arrived
	if s := l.Close(time.Minute); s.Waiting+s.Refused > 0 || s.Delivered != spansOf(t, r) {
		t.Errorf("%+v", s)
	}
}

// With a queue of two spans, everything is delivered.
func TestJournalIsTheQueue(t *testing.T) {
	for _, r := range reporttest.All(t) {
		env := variables{"OTEL_BSP_MAX_QUEUE_SIZE": "2", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1"}
		if got, want := export(t, r, env, nil).Spans(),
			export(t, r, nil, nil).Spans(); reporttest.Tree(got, formatSpan) != reporttest.Tree(want, formatSpan) {
			t.Errorf("%s: %d spans, not %d", r.Name, len(got), len(want))
		}
	}
}

// growing is a journal that is read while it grows.
type growing struct {
	mu      sync.Mutex
	appends []journal.Appended
}

func (g *growing) commit(appends []journal.Appended) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.appends = appends
}

func (g *growing) Events(ctx context.Context, run journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	g.mu.Lock()
	defer g.mu.Unlock()
	return (&reporttest.RecordingReader{Appends: g.appends}).Events(ctx, run, after)
}

// A storage folder that was removed is not created again: it would lack the signature of its owner.
func TestRemovedStorageStaysRemoved(t *testing.T) {
	r := reporttest.Recorded(t, "gate-approved")
	storage := filepath.Join(t.TempDir(), "removed")
	l := newLife(t, filepath.Join(storage, "telemetry"), r.Program, variables{}.at(reporttest.NewCollector(t)), nil)
	l.sees(r.Appends)
	if s := l.Close(time.Minute); s.Unreadable == nil {
		t.Errorf("%+v", s)
	}
	if _, err := os.Stat(storage); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the storage folder: %v", err)
	}
}

// Two processes that drive a run in turn deliver every span once, also when both run all the time.
func TestTwoProcessesDeliverEverySpanOnce(t *testing.T) {
	r := reporttest.Recorded(t, "gate-approved")
	c := reporttest.NewCollector(t)
	arrived := make(chan struct{}, 100)
	c.Answer(func(*http.Request, http.Header) int { arrived <- struct{}{}; return http.StatusOK })
	dir := t.TempDir()
	env := variables{"OTEL_BSP_SCHEDULE_DELAY": "1", "OTEL_METRICS_EXPORTER": "none"}.at(c)
	var processes []*life
	var journals []*growing // each process has its own
	for _, name := range []journal.Owner{"a", "b"} {
		j := &growing{}
		journals = append(journals, j)
		processes = append(processes, newLife(t, dir, r.Program, env, func(o *otel.Options) {
			o.Source, o.Process, o.Gone = j, name, func(journal.Owner) bool { return false }
		}))
	}
	for i, a := range r.Appends {
		p := processes[i%2]
		journals[i%2].commit(r.Appends[:i+1])
		p.Appended(a.Run, a.Events[len(a.Events)-1].Seq)
		ends := false
		for _, e := range a.Events {
			switch e.Fact.(type) {
			case journal.TaskEnded, journal.GateDecided:
				ends = true
			}
		}
		if ends {
			<-arrived
			awaitCursor(t, dir, a.Run, a.Events[len(a.Events)-1].Seq, i == len(r.Appends)-1)
		}
	}
	for _, p := range processes {
		if s := p.Close(time.Minute); s.Waiting > 0 {
			t.Errorf("%+v", s)
		}
	}
	want := export(t, r, nil, nil)
	if got := reporttest.Tree(c.Spans(), formatSpan); got != reporttest.Tree(want.Spans(), formatSpan) {
		t.Errorf("%s", got)
	}
}

// awaitCursor waits until a cursor is saved.
func awaitCursor(t *testing.T, dir string, run journal.RunID, seq journal.Seq, over bool) {
	t.Helper()
	await(func() bool {
		raw, err := os.ReadFile(filepath.Join(dir, string(run)))
		var c struct{ Spans journal.Seq }
		return over && errors.Is(err, os.ErrNotExist) || err == nil && json.Unmarshal(raw, &c) == nil && c.Spans >= seq
	})
}

// await waits for a change to files by another goroutine.
func await(done func() bool) {
	for !done() {
		runtime.Gosched()
	}
}

// A slow process does not move back a cursor that another one has advanced.
func TestCursorNeverMovesBack(t *testing.T) {
	r := reporttest.Recorded(t, "gate-approved")
	dir := t.TempDir()
	process := func(name journal.Owner, c *reporttest.Collector, appends []journal.Appended) *life {
		l := newLife(t, dir, r.Program, variables{"OTEL_METRICS_EXPORTER": "none"}.at(c), func(o *otel.Options) {
			o.Process, o.Gone = name, func(journal.Owner) bool { return false }
		})
		l.sees(appends)
		return l
	}
	slow, asked, goOn := reporttest.NewCollector(t), make(chan struct{}), make(chan struct{})
	slow.Answer(func(*http.Request, http.Header) int {
		close(asked)
		<-goOn
		return http.StatusOK
	})
	first := process("first", slow, r.Appends[:2])
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		first.Close(time.Minute)
	}()
	<-asked
	most := r.Appends[:len(r.Appends)-1]
	process("second", reporttest.NewCollector(t), most).Close(time.Minute)
	before, err := os.ReadFile(filepath.Join(dir, string(reporttest.Run)))
	if err != nil {
		t.Fatal(err)
	}
	close(goOn)
	<-closed
	after, err := os.ReadFile(filepath.Join(dir, string(reporttest.Run)))
	if err != nil || string(after) != string(before) {
		t.Errorf("the cursor was %s and is %s: %v", before, after, err)
	}
}

// left returns a folder in which a killed process has left a run undelivered.
func left(t *testing.T, runs ...journal.RunID) string {
	t.Helper()
	dir := t.TempDir()
	dead := newLife(t, dir, &ir.Program{}, variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, nil)
	for _, run := range runs {
		dead.Appending(run)
	}
	return dir
}

// A process without runs delivers what others have left, and a long-lived one does so repeatedly.
func TestStartDeliversWhatOthersLeft(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	dir := left(t, reporttest.Run)
	c := reporttest.NewCollector(t)
	arrived := make(chan struct{}, 100)
	c.Answer(func(*http.Request, http.Header) int { arrived <- struct{}{}; return http.StatusOK })
	var now atomic.Int64
	j := &growing{}
	l := newLife(t, dir, r.Program, variables{"OTEL_BSP_SCHEDULE_DELAY": "1", "OTEL_METRICS_EXPORTER": "none"}.at(c),
		func(o *otel.Options) {
			o.Source, o.Process, o.Now = j, "worker", func() time.Time { return time.UnixMilli(now.Load()) }
		})
	j.commit(r.Appends)
	l.Start()
	l.Start()
	<-arrived
	const other, own = "22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333"
	await(func() bool { return len(undelivered(t, dir)) == 0 })
	late := newLife(t, dir, &ir.Program{}, variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, nil)
	late.Appending(other)
	now.Add(time.Minute.Milliseconds())
	j.commit(append(renamed(r.Appends, other), renamed(r.Appends, own)...))
	l.Appended(own, 1)
	await(func() bool { return len(undelivered(t, dir)) == 0 })
	if s := l.Close(time.Minute); s.Waiting > 0 || s.Delivered != 3*spansOf(t, r) {
		t.Errorf("%+v", s)
	}
	l.Start() // after Close
}

// Several processes share what a killed one has left, without repetitions.
func TestInheritanceIsShared(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	var runs []journal.RunID
	var all []journal.Appended
	for i := range 40 {
		runs = append(runs, journal.RunID(fmt.Sprintf("%08d-1111-4111-8111-111111111111", i)))
		all = append(all, renamed(r.Appends, runs[i])...)
	}
	dir := left(t, runs...)
	c := reporttest.NewCollector(t)
	var inheriting sync.WaitGroup
	for _, name := range []journal.Owner{"a", "b", "c"} {
		inheriting.Go(func() {
			l := newLife(t, dir, r.Program, variables{}.at(c), func(o *otel.Options) {
				o.Process, o.Gone = name, func(o journal.Owner) bool { return o == "process" }
			})
			l.shelf.Appends = all
			l.Start()
			l.Close(time.Minute)
		})
	}
	inheriting.Wait()
	if got, want := len(c.Spans()), len(runs)*spansOf(t, r); got != want {
		t.Errorf("%d spans, not %d", got, want)
	}
	if left := undelivered(t, dir); len(left) > 0 {
		t.Errorf("undelivered: %q", left)
	}
}

// One process resumes a run while another has inherited what its last process has not delivered. Neither removes the
// other's mark while there is something to deliver, and when one has delivered the end, the other has nothing to do.
func TestResumedRunAndInheritorDeliverOnce(t *testing.T) {
	r := reporttest.Recorded(t, "gate-approved")
	for _, over := range []bool{false, true} {
		dir := left(t, reporttest.Run)
		c := reporttest.NewCollector(t)
		begins := func(name journal.Owner, appends []journal.Appended) *life {
			l := newLife(t, dir, r.Program, variables{"OTEL_BSP_SCHEDULE_DELAY": "3600000"}.at(c),
				func(o *otel.Options) {
					o.Process, o.Gone = name, func(o journal.Owner) bool { return o == "process" }
				})
			l.shelf.Appends = appends
			return l
		}
		next := begins("next", r.Appends[:3])
		next.Start()
		await(func() bool {
			return slices.Contains(undelivered(t, dir), filepath.Join(dir, "owed", "next", string(reporttest.Run)))
		})
		owner := begins("owner", r.Appends)
		owner.Appending(reporttest.Run)
		if over {
			owner.Appended(reporttest.Run, 100)
			owner.Close(time.Minute)
		}
		next.Close(time.Minute)
		if over {
			if got, want := len(c.Spans()), spansOf(t, r); got != want {
				t.Errorf("%d spans, not %d", got, want)
			}
		}
		if left := undelivered(t, dir); (len(left) == 1) == over {
			t.Errorf("over %t: undelivered: %q", over, left)
		}
	}
}

// What a dead process has not delivered is inherited; what a live one has not delivered is not.
func TestOnlyDeadProcessesAreInherited(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	for _, gone := range []bool{true, false} {
		dir := t.TempDir()
		dead := newLife(t, dir, r.Program, variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, nil)
		dead.sees(r.Appends)
		if s := dead.Close(time.Minute); s.Waiting == 0 {
			t.Errorf("%+v", s)
		}
		c := reporttest.NewCollector(t)
		next := newLife(t, dir, r.Program, variables{}.at(c), func(o *otel.Options) {
			o.Process, o.Gone = "next", func(journal.Owner) bool { return gone }
		})
		next.shelf.Appends = append(renamed(r.Appends, "22222222-2222-4222-8222-222222222222"), r.Appends...)
		next.Appended("22222222-2222-4222-8222-222222222222", 100)
		if s := next.Close(time.Minute); s.Waiting > 0 {
			t.Errorf("%+v", s)
		}
		traces := map[string]bool{}
		for _, s := range c.Spans() {
			traces[fmt.Sprintf("%x", s.TraceId[:2])] = true
		}
		if len(traces) != map[bool]int{true: 2, false: 1}[gone] {
			t.Errorf("gone %t: traces %v", gone, traces)
		}
	}
}

// What a process has appended but not read when it is killed is delivered by the next one. Appends in progress stay
// undelivered.
func TestNextProcessDeliversUnreadEvents(t *testing.T) {
	const other = "22222222-2222-4222-8222-222222222222"
	r := reporttest.Recorded(t, "linear")
	dir := t.TempDir()
	killed := newLife(t, dir, r.Program, variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, nil)
	killed.Appending(reporttest.Run)
	c := reporttest.NewCollector(t)
	next := newLife(t, dir, r.Program, variables{}.at(c), func(o *otel.Options) { o.Process = "next" })
	next.shelf.Appends = append(renamed(r.Appends[:1], other), r.Appends...)
	next.Appending(other)
	next.Appending(other) // and does not finish
	next.Appended(other, 1)
	next.Close(time.Minute)
	if got, want := len(c.Spans()), spansOf(t, r); got != want {
		t.Errorf("%d spans, not %d", got, want)
	}
	if left := undelivered(t, dir); len(left) != 1 || filepath.Base(left[0]) != other {
		t.Errorf("undelivered: %q", left)
	}
	const late = "33333333-3333-4333-8333-333333333333"
	next.Appending(late) // after Close: another process delivers it
	if left := undelivered(t, dir); len(left) != 2 || filepath.Base(left[1]) != late {
		t.Errorf("undelivered: %q", left)
	}
}

func renamed(appends []journal.Appended, run journal.RunID) []journal.Appended {
	out := make([]journal.Appended, len(appends))
	for i, a := range appends {
		a.Run = run
		out[i] = a
	}
	return out
}

// failing is a journal that cannot be read.
type failing struct{ err error }

func (f failing) Events(context.Context, journal.RunID, journal.Seq) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) { yield(journal.Event{}, f.err) }
}

// An unreadable journal is reported once, unless the run was deleted.
func TestUnreadableJournalIsReported(t *testing.T) {
	c := reporttest.NewCollector(t)
	for _, err := range []error{journal.ErrUnknownRun, journal.ErrBusy} {
		l := newLife(t, t.TempDir(), &ir.Program{}, variables{}.at(c),
			func(o *otel.Options) { o.Source = failing{err} })
		l.Appended("run", 3)
		s := l.Close(time.Minute)
		if want := !errors.Is(err, journal.ErrUnknownRun); (s.Unreadable != nil) != want {
			t.Errorf("%v: %+v", err, s)
		}
	}
	// A definition is lost: this run has no spans, but others do.
	r := reporttest.Recorded(t, "linear")
	l := newLife(t, t.TempDir(), r.Program, variables{}.at(c), func(o *otel.Options) {
		o.Program = func(context.Context, string) (*ir.Program, error) { return nil, errors.New("it is lost") }
	})
	l.sees(r.Appends)
	if s := l.Close(time.Minute); s.Unreadable == nil || s.Waiting > 0 || len(c.Spans()) > 0 {
		t.Errorf("%+v, %d spans", s, len(c.Spans()))
	}
}

// slow is a journal whose first read is slow.
type slow struct {
	*reporttest.RecordingReader
	began chan struct{}
	once  sync.Once
}

func (s *slow) Events(ctx context.Context, run journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	first := false
	s.once.Do(func() { first = true })
	if !first {
		return s.RecordingReader.Events(ctx, run, after)
	}
	return func(yield func(journal.Event, error) bool) {
		close(s.began)
		<-ctx.Done()
		yield(journal.Event{}, ctx.Err())
	}
}

// What was not read when the Exporter closes is marked as undelivered, and counted.
func TestUnreadEventsAreMarkedUndeliveredAtClose(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	dir := t.TempDir()
	source := &slow{
		RecordingReader: &reporttest.RecordingReader{Pinned: r.Program, Appends: r.Appends}, began: make(chan struct{}),
	}
	l := newLife(t, dir, r.Program, variables{"OTEL_BSP_SCHEDULE_DELAY": "1"}.at(reporttest.NewCollector(t)),
		func(o *otel.Options) { o.Source = source })
	l.Appended(reporttest.Run, 1)
	<-source.began
	s := l.Close(time.Millisecond)
	if left := undelivered(t, dir); s.Waiting != spansOf(t, r) || len(left) != 1 || s.Unreadable != nil {
		t.Errorf("%+v, undelivered: %q", s, left)
	}
}

// An unused Exporter has no goroutine, no file and no request.
func TestUnusedExporterCostsNothing(t *testing.T) {
	dir := t.TempDir()
	l := newLife(t, dir, &ir.Program{}, variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, nil)
	if s := l.Close(time.Minute); s.Waiting > 0 || s.Problem != "" {
		t.Errorf("%+v", s)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	l.Appended("run", 1) // after Close
}

// Invalid settings are reported to processes that drive runs, and disable export.
func TestInvalidSettingsAreReported(t *testing.T) {
	dir := t.TempDir()
	for _, works := range []bool{false, true} {
		l := newLife(t, dir, &ir.Program{},
			variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, nil)
		if works {
			l.Appended("run", 1)
			l.Appended("run", 2)
		}
		if s := l.Close(time.Minute); len(s.Problems) > 0 != works || s.Waiting > 0 || s.Unreadable != nil {
			t.Errorf("works %t: %+v", works, s)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
}

// A process inherits a limited number of runs, and keeps those that it cannot deliver.
func TestInheritanceIsLimited(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	dir := t.TempDir()
	const runs = 130
	var all []journal.Appended
	dead := newLife(t, dir, r.Program,
		variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_BSP_MAX_QUEUE_SIZE": "5"}, nil)
	for i := range runs {
		all = append(all, renamed(r.Appends, journal.RunID(fmt.Sprintf("%08d-1111-4111-8111-111111111111", i)))...)
	}
	dead.sees(all)
	dead.Close(time.Minute)
	waiting := func() int { return len(undelivered(t, dir)) }
	if waiting() != runs {
		t.Fatalf("undelivered: %d runs", waiting())
	}
	as := func(me journal.Owner) func(*otel.Options) { return func(o *otel.Options) { o.Process = me } }
	again := newLife(t, dir, r.Program, variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, as("again"))
	again.shelf.Appends = append(renamed(r.Appends, reporttest.Run), all...)
	again.Appended(reporttest.Run, 1)
	if s := again.Close(time.Minute); s.Waiting != spansOf(t, r) || waiting() != runs+1 {
		t.Errorf("undelivered: %d runs; of its own: %+v", waiting(), s)
	}
	c := reporttest.NewCollector(t)
	for _, me := range []journal.Owner{"next", "after"} {
		next := newLife(t, dir, r.Program, variables{}.at(c), as(me))
		next.shelf.Appends = append(renamed(r.Appends, reporttest.Run), all...)
		next.Appended(reporttest.Run, 1)
		if s := next.Close(time.Minute); s.Waiting > 0 {
			t.Errorf("%+v", s)
		}
	}
	if waiting() != 0 {
		t.Errorf("still undelivered: %d runs", waiting())
	}
}

// Forget removes all files of a deleted run.
func TestForgetRemovesAllFilesOfARun(t *testing.T) {
	dir := t.TempDir()
	r := reporttest.Recorded(t, "waiting")
	c := reporttest.NewCollector(t)
	l := newLife(t, dir, r.Program, variables{}.at(c), nil)
	l.sees(r.Appends)
	l.Close(time.Minute)
	if _, err := os.Stat(filepath.Join(dir, string(reporttest.Run))); err != nil {
		t.Errorf("a run that waits has no cursor: %v", err)
	}
	otel.Forget(dir, reporttest.Run)
	if left, _ := filepath.Glob(filepath.Join(dir, "*-*")); len(left) > 0 {
		t.Errorf("%q", left)
	}
	otel.Forget(dir, "../../x") // not a run id, so nothing is removed
}

// content is an environment that enables content.
var content = variables{"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true", "OTEL_METRICS_EXPORTER": "none"}

// If enabled, spans have prompts, replies, arguments and results, in the form of the conventions.
func TestSpansHaveContentIfEnabled(t *testing.T) {
	for _, name := range []string{"agent-with-tools", "observed"} {
		c := export(t, reporttest.Recorded(t, name), content, nil)
		golden(t, filepath.Join("testdata", "content", name+".txt"), []byte(reporttest.Tree(c.Spans(), formatSpan)))
	}
}

// Secrets are redacted regardless of the workflow's settings, before texts are cut.
func TestContentIsRedacted(t *testing.T) {
	r := reporttest.Recorded(t, "agent-with-tools")
	const key = "AKIAIOSFODNN7EXAMPLE"
	for i := range r.Appends {
		for j := range r.Appends[i].Events {
			e := &r.Appends[i].Events[j]
			if x, ok := e.Fact.(journal.TaskNoted); ok {
				x.Data = json.RawMessage(strings.NewReplacer("Find out.", "Find "+key, "I should search.", "I use "+key,
					`"n":[1`, `"`+key+`":[1`, "hits", key, "exit code 1", key, "careful", key).Replace(string(x.Data)))
				e.Fact = x
			}
		}
	}
	for _, limit := range []string{"", "30"} {
		env := variables{"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": limit}
		for k, v := range content {
			env[k] = v
		}
		text := export(t, r, env, nil).Text()
		for n := len(key); n > 8; n-- {
			if strings.Contains(text, key[:n]) {
				t.Errorf("limit %q: it tells %s", limit, key[:n])
				break
			}
		}
		if !strings.Contains(text, "[redacted aws_key]") {
			t.Errorf("limit %q: it does not show that something is hidden", limit)
		}
		if cut := strings.Contains(text, "…"); cut != (limit != "") {
			t.Errorf("limit %q: cut %t", limit, cut)
		}
	}
}

// Spans are redacted as any workflow of the run asks for: the root workflow, or one that it calls. Without content,
// they have nothing to redact.
//
// Spec: Agent Flow §7.2 redaction
func TestSpansAreRedactedAsWorkflowsAsk(t *testing.T) {
	const mail, code = "bob@example.com", "ZX-5555"
	asks := &ir.Audit{RedactPII: true, RedactPatterns: []ir.Name{{Name: "ZX-[0-9]+"}}}
	for _, c := range []struct {
		name     string
		env      variables
		change   func(*ir.Program)
		mentions bool
	}{
		{"no rules", content, func(*ir.Program) {}, true},
		{"the root workflow", content, func(p *ir.Program) { p.Audit = asks }, false},
		{"a called workflow", content, func(p *ir.Program) { p.Children = []ir.Program{{Audit: asks}} }, false},
		{"no content", variables{}, func(*ir.Program) {}, false},
	} {
		r := reporttest.Recorded(t, "agent-with-tools")
		c.change(r.Program)
		for i := range r.Appends {
			for j := range r.Appends[i].Events {
				e := &r.Appends[i].Events[j]
				if x, ok := e.Fact.(journal.TaskNoted); ok {
					x.Data = json.RawMessage(strings.NewReplacer("Find out.", "Ask "+mail,
						"I should search.", "I ask "+mail, `"n":[1`, `"`+mail+`":[1`, "hits", code,
						"exit code 1", code, "careful", code).Replace(string(x.Data)))
					e.Fact = x
				}
			}
		}
		text := export(t, r, c.env, nil).Text()
		for _, value := range []string{mail, code} {
			if strings.Contains(text, value) != c.mentions {
				t.Errorf("%s: spans mention %s: %t", c.name, value, !c.mentions)
			}
		}
	}
}

// Names depend on the selected version of the conventions.
func TestNamesFollowTheSelectedConventions(t *testing.T) {
	r := reporttest.Recorded(t, "agent-with-tools")
	c := export(t, r, variables{"OTEL_SEMCONV_STABILITY_OPT_IN": "http, gen_ai_latest_experimental"}, nil)
	golden(t, filepath.Join("testdata", "latest", "agent-with-tools.txt"), []byte(metrics(c.Metrics())))
}

// Tool names that a model invents are in spans, but not in the series of metrics.
func TestInventedToolNamesAreNotMetricAttributes(t *testing.T) {
	r := reporttest.Recorded(t, "agent-with-tools")
	for i := range r.Appends {
		for j := range r.Appends[i].Events {
			e := &r.Appends[i].Events[j]
			if x, ok := e.Fact.(journal.TaskNoted); ok {
				x.Data = json.RawMessage(strings.ReplaceAll(string(x.Data), `"name":"Bash"`,
					`"name":"made.up","class":"NOT_ALLOWED"`))
				e.Fact = x
			}
		}
	}
	c := export(t, r, nil, nil)
	if got := metrics(c.Metrics()); strings.Contains(got, "made.up") ||
		!strings.Contains(got, "gen_ai.tool.name:_OTHER") {
		t.Error(got)
	}
	if got := reporttest.Tree(c.Spans(), formatSpan); !strings.Contains(got,
		"execute_tool made.up [INTERNAL, 100 ms] ERROR NOT_ALLOWED") {
		t.Error(got)
	}
}

// A run that continues another one is linked to it.
func TestContinuedRunsLinkToTheirOrigin(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	started := r.Appends[0].Events[0].Fact.(journal.RunStarted)
	started.From = &journal.Origin{Run: "22222222-2222-4222-8222-222222222222", Step: "greet"}
	r.Appends[0].Events[0].Fact = started
	roots := 0
	for _, s := range export(t, r, nil, nil).Spans() {
		if len(s.ParentSpanId) > 0 {
			continue
		}
		roots++
		want := otel.SpanOf("22222222-2222-4222-8222-222222222222", "22222222-2222-4222-8222-222222222222")
		if len(s.Links) != 1 || fmt.Sprintf("%x", s.Links[0].TraceId) != "22222222222242228222222222222222" ||
			string(s.Links[0].SpanId) != string(want[:]) {
			t.Errorf("%v", s.Links)
		}
	}
	if roots != 1 {
		t.Errorf("%d spans without a parent", roots)
	}
}

// Every process samples the same traces; metrics cover all runs.
func TestUnsampledRunsCountInMetrics(t *testing.T) {
	r := reporttest.Recorded(t, "linear")
	c := export(t, r, variables{"OTEL_TRACES_SAMPLER": "always_off"}, nil)
	if len(c.Spans()) > 0 || !strings.Contains(metrics(c.Metrics()), "espalier.runs") {
		t.Errorf("%d spans\n%s", len(c.Spans()), metrics(c.Metrics()))
	}
}
