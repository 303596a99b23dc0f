package otel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Options configure an Exporter.
type Options struct {
	Settings *Settings
	Dir      string // of cursors
	Source   journal.EventReader
	// Program returns the program of a pinned definition.
	Program func(ctx context.Context, definition string) (*ir.Program, error)
	// Origin returns the span from which a run was started; nil if there is none.
	Origin func(journal.RunStarted) (Link, bool)
	// Process is this process, and Gone reports whether another has ended.
	Process journal.Owner
	Gone    func(journal.Owner) bool
	// Lock opens the lock that excludes other processes while a cursor is written; nil when there are no others.
	Lock    func() (Lock, error)
	Version func() string    // of the program; nil if unknown
	Now     func() time.Time // nil is time.Now
}

// Exporter delivers the spans and metrics of the runs that this process drives. It reads the journal in a goroutine of
// its own, and no faster than it can deliver: the journal is the queue, so that no run waits for the Exporter, and its
// memory is bounded however long a collector is down.
type Exporter struct {
	o        Options
	resource Resource
	traces   *sender
	metrics  *sender
	ledger   ledger
	since    journal.Millis

	mu          sync.Mutex
	unread      map[journal.RunID]journal.Seq // runs with events to read
	undelivered map[journal.RunID]bool        // runs that are marked as undelivered
	begun       map[journal.RunID]int         // number of appends in progress
	running     bool
	closed      bool

	work    chan struct{} // signals that unread is not empty
	closing chan struct{}
	done    chan struct{}
	ctx     context.Context // of all requests
	stop    context.CancelFunc

	// The rest belongs to the goroutine and, after its end, to Close.
	streams map[journal.RunID]*stream
	// inherited are runs that other processes left to deliver.
	inherited map[journal.RunID]bool
	pending   []item
	totals    *Metrics
	measured  bool      // there are measurements since the last delivery
	reported  time.Time // of the last delivery of metrics
	looked    time.Time // of the last call of inherit
	failures  int       // consecutive
	rest      time.Duration
	broken    error // of a run whose spans cannot be made
	summary   Summary
}

// stream is a run that is exported.
type stream struct {
	run      journal.RunID
	tracer   *Tracer     // nil when the run is over
	seq      journal.Seq // of the last event that was read
	last     journal.Event
	kept     journal.Seq // of the last checkpoint
	done     cursor
	saved    cursor
	sampled  bool
	finished bool
}

// item is a span that waits for delivery.
type item struct {
	span *tracepb.Span
	of   *stream
	seq  journal.Seq // of the event that ended it
	part int         // number of spans that the event ended before
}

// Summary is the result of all deliveries.
type Summary struct {
	Delivered int
	// Waiting spans stay in the journal for a later process; so do measurements, if Measured is set.
	Waiting  int
	Measured bool
	// Refused spans are lost: the collector rejects them. So are measurements, if Unmeasured is set.
	Refused    int
	Unmeasured bool
	// Problem is the last problem of a collector, To its address.
	Problem, To string
	// Unreadable is why the spans of a run could not be made.
	Unreadable error
	Problems   []Problem
}

// maxStreams is how many runs without events are kept in memory. Others are read again when they have events.
const maxStreams = 256

// lookEvery is how often a process looks for what other processes left to deliver.
const lookEvery = time.Minute

// New returns an Exporter. It does nothing before the first append or Start.
func New(o Options) *Exporter {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Version == nil {
		o.Version = func() string { return "" }
	}
	if o.Gone == nil {
		o.Gone = func(journal.Owner) bool { return false }
	}
	x := &Exporter{
		o: o, ledger: ledger{dir: o.Dir, me: o.Process, open: o.Lock}, unread: map[journal.RunID]journal.Seq{},
		undelivered: map[journal.RunID]bool{}, begun: map[journal.RunID]int{}, streams: map[journal.RunID]*stream{},
		inherited: map[journal.RunID]bool{},
		work:      make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
		totals: NewMetrics(o.Settings.Names, o.Settings.Delta),
	}
	x.ctx, x.stop = context.WithCancel(context.Background())
	return x
}

// Appending is called before an append of this process is durable. It records that there is something to deliver, for a
// later process if this one dies, also after Close. It never waits for a collector.
func (x *Exporter) Appending(run journal.RunID) {
	if !x.o.Settings.Enabled() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.begun[run]++
	_ = x.markUndelivered(run) // reading tries again, and reports the error
}

// markUndelivered records that there is something to deliver of a run. x.mu is held.
func (x *Exporter) markUndelivered(run journal.RunID) error {
	if x.undelivered[run] {
		return nil
	}
	err := x.ledger.markUndelivered(run)
	x.undelivered[run] = err == nil
	return err
}

// markDelivered records that everything of a run is delivered, unless more is coming. It reports whether it did.
func (x *Exporter) markDelivered(run journal.RunID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, more := x.unread[run]; more || x.begun[run] > 0 {
		return false
	}
	delete(x.undelivered, run)
	x.ledger.markDelivered(run)
	return true
}

// Appended is called after an append; last is 0 if it failed. It never waits.
func (x *Exporter) Appended(run journal.RunID, last journal.Seq) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.begun[run]--; x.begun[run] <= 0 {
		delete(x.begun, run)
	}
	if x.closed || last == 0 || !x.startOnce() {
		return
	}
	x.unread[run] = max(x.unread[run], last)
	select {
	case x.work <- struct{}{}:
	default:
	}
}

// Start starts to deliver what ended processes have left, even if this process never appends anything.
func (x *Exporter) Start() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.closed {
		x.startOnce()
	}
}

// startOnce starts the goroutine, if it does not run, and reports whether anything is exported. x.mu is held.
func (x *Exporter) startOnce() bool {
	enabled := x.o.Settings.Enabled()
	if !x.running {
		x.running = true
		if enabled {
			go x.run()
		} else {
			close(x.done) // Close only reports problems
		}
	}
	return enabled
}

// start initializes what only a process that appends needs.
func (x *Exporter) start() {
	x.reported = x.o.Now()
	x.since = journal.MillisOf(x.reported)
	x.traces, x.metrics = newSender(x.o.Settings.Traces), newSender(x.o.Settings.Metrics)
	version := x.o.Version()
	x.resource = Resource{
		Scope: "github.com/espalier-run/espalier", Version: version, Attrs: slices.Clone(x.o.Settings.Resource),
	}
	for _, a := range [][2]string{
		{"service.version", version},
		{"service.instance.id", string(x.o.Process)},
		{"telemetry.sdk.name", "espalier"},
		{"telemetry.sdk.language", "go"},
		{"telemetry.sdk.version", version},
	} {
		// Attributes that the user sets take precedence.
		set := slices.ContainsFunc(x.resource.Attrs, func(set *commonpb.KeyValue) bool { return set.Key == a[0] })
		if !set && a[1] != "" {
			x.resource.Attrs = append(x.resource.Attrs, attr(a[0], a[1]))
		}
	}
	x.inherit()
}

// inherit takes over what ended processes have left to deliver.
func (x *Exporter) inherit() {
	x.looked = x.o.Now()
	for _, run := range x.ledger.inherit(x.o.Gone) {
		x.mu.Lock()
		if !x.undelivered[run] {
			x.inherited[run] = true
		}
		x.undelivered[run] = true
		x.unread[run] = max(x.unread[run], 1) // the last event is unknown
		x.mu.Unlock()
	}
}

// run delivers in a loop, and once more when the Exporter closes.
func (x *Exporter) run() {
	defer close(x.done)
	x.start()
	for {
		if !x.await() {
			x.deliver(true)
			return
		}
		x.deliver(false)
	}
}

// busy reports whether there are spans to deliver.
func (x *Exporter) busy() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.unread) > 0 || len(x.pending) > 0
}

// await waits until it is time to deliver. It returns false when the Exporter closes.
func (x *Exporter) await() bool {
	soon := max(x.rest, x.o.Settings.Delay)
	if !x.busy() {
		due := lookEvery
		if x.measured {
			due = min(due, max(soon, x.o.Settings.Interval-x.o.Now().Sub(x.reported)))
		}
		timer := time.NewTimer(due)
		defer timer.Stop()
		select {
		case <-x.work:
		case <-timer.C:
			return true
		case <-x.closing:
			return false
		}
	}
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.closing:
		return false
	}
}

// deliver sends what there is. With last, it sends everything, and stops at the first failure.
func (x *Exporter) deliver(last bool) {
	var failed error
	if !last && len(x.pending) == 0 && x.o.Now().Sub(x.looked) >= lookEvery {
		x.inherit()
	}
	for more := true; more && failed == nil; {
		more, failed = x.fill()
		failed = cmp.Or(x.sendSpans(), failed)
	}
	if failed == nil {
		x.summary.Unreadable = x.broken
	}
	if x.metrics != nil && x.measured && (last || x.o.Now().Sub(x.reported) >= x.o.Settings.Interval) {
		failed = cmp.Or(failed, x.sendMetrics())
	}
	x.saveCursors()
	if failed == nil {
		x.failures, x.rest = 0, 0
		return
	}
	x.failures++
	x.rest = min(time.Second<<min(x.failures-1, 6), time.Minute)
	if later, ok := errors.AsType[*sendError](failed); ok && later.After > 0 {
		x.rest = min(max(x.rest, later.After), 10*time.Minute)
	}
}

// fill reads new events until enough spans wait; then it returns more. An error means that the journal cannot be read
// now.
func (x *Exporter) fill() (more bool, failed error) {
	x.mu.Lock()
	news := x.unread
	x.unread = map[journal.RunID]journal.Seq{}
	x.mu.Unlock()
	for _, run := range slices.Sorted(maps.Keys(news)) {
		whole, err := false, x.ctx.Err()
		if err == nil && failed == nil && len(x.pending) < x.o.Settings.Queue {
			whole, err = x.read(run)
		}
		var broken *brokenError
		switch {
		case whole:
			continue
		case errors.Is(err, journal.ErrUnknownRun), errors.Is(err, errDelivered): // deleted, or delivered elsewhere
			x.forget(run)
			continue
		case errors.As(err, &broken):
			x.summary.Unreadable, x.broken = err, err
			x.forget(run)
			continue
		case err != nil && x.ctx.Err() == nil:
			x.summary.Unreadable = err
		}
		failed, more = cmp.Or(failed, err), true
		x.readLater(run, news[run])
	}
	return more, failed
}

// brokenError reports a run whose spans cannot be made.
type brokenError struct {
	run journal.RunID
	error
}

func (e *brokenError) Error() string { return fmt.Sprintf("run %s: %v", e.run, e.error) }
func (e *brokenError) Unwrap() error { return e.error }

// readLater schedules a run to be read later.
func (x *Exporter) readLater(run journal.RunID, last journal.Seq) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unread[run] = max(x.unread[run], last)
}

// forget gives up a run that cannot be read: it was deleted, or is damaged.
func (x *Exporter) forget(run journal.RunID) {
	delete(x.streams, run)
	delete(x.inherited, run)
	x.mu.Lock()
	delete(x.undelivered, run)
	x.mu.Unlock()
	Forget(x.o.Dir, run)
}

// errDelivered reports that another process has delivered a run to its end.
var errDelivered = errors.New("everything has been delivered")

// read makes spans of a run's new events, and reports whether it read all of them.
func (x *Exporter) read(run journal.RunID) (whole bool, err error) {
	s := x.streams[run]
	if s == nil {
		if s, err = x.open(run); err != nil {
			return false, err
		}
	} else if there, err := x.ledger.read(run); err == nil {
		s.done.reach(there) // another process may have driven the run since
	}
	if !x.ledger.isUndelivered(run) {
		return false, errDelivered
	}
	if s.finished {
		return true, nil
	}
	var out Yield
	for e, err := range x.o.Source.Events(x.ctx, run, s.seq) {
		if err != nil {
			return false, err
		}
		if len(x.pending) >= x.o.Settings.Queue {
			return false, nil
		}
		out = Yield{Spans: out.Spans[:0], Points: out.Points[:0]}
		if err := s.tracer.Apply(&e, &out); err != nil {
			return false, &brokenError{run, err}
		}
		s.seq, s.last = e.Seq, e
		if _, over := e.Fact.(journal.RunFinished); over {
			s.finished = true
		}
		if e.Seq > s.done.Spans && x.traces != nil && s.sampled {
			for i, span := range out.Spans {
				if e.Seq > s.done.Spans+1 || i >= s.done.Part {
					x.pending = append(x.pending, item{span, s, e.Seq, i})
				}
			}
		}
		if e.Seq > s.done.Metrics && x.metrics != nil {
			for _, p := range out.Points {
				x.totals.Add(p, x.since)
				x.measured = true
			}
		}
	}
	if s.finished {
		s.tracer = nil // delivery may take long
	}
	return true, nil
}

// open returns the stream of a run, which continues at the cursor. The run is marked as undelivered first, so that
// another process finds it if this one dies.
func (x *Exporter) open(run journal.RunID) (*stream, error) {
	s := &stream{run: run, sampled: x.o.Settings.sampled(TraceOf(run))}
	var err error
	if s.done, err = x.ledger.read(run); err != nil {
		return nil, err
	}
	s.saved = s.done
	x.mu.Lock()
	err = x.markUndelivered(run)
	x.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s.tracer = x.newTracer(run)
	if err := x.restore(s); err != nil {
		return nil, err
	}
	x.streams[run] = s
	return s, nil
}

// newTracer returns a Tracer for a run.
func (x *Exporter) newTracer(run journal.RunID) *Tracer {
	return NewTracer(run, TracerOptions{
		Names: x.o.Settings.Names, Content: x.o.Settings.Content, MaxBytes: x.o.Settings.MaxBytes, Origin: x.o.Origin,
		Outline: func(definition string) (*report.Outline, error) {
			p, err := x.o.Program(context.Background(), definition)
			if err != nil {
				return nil, err
			}
			return report.NewOutline(p), nil
		},
	})
}

// sendSpans sends the waiting spans in batches.
func (x *Exporter) sendSpans() error {
	for len(x.pending) > 0 {
		batch := x.pending[:min(len(x.pending), x.o.Settings.Batch)]
		spans := xslices.Map(batch, func(one item) *tracepb.Span { return one.span })
		body, err := encodeSpans(&x.resource, spans, x.traces.to.JSON)
		if err != nil {
			return err
		}
		rejected, err := x.traces.send(x.ctx, body)
		var failed *sendError
		switch {
		case err == nil:
			refused := min(int(rejected), len(batch))
			x.summary.Delivered += len(batch) - refused
			if x.summary.Refused += refused; refused > 0 {
				x.recordProblem(x.traces, "it has rejected some spans")
			}
		case errors.As(err, &failed) && failed.Never:
			x.summary.Refused += len(batch)
			x.recordProblem(x.traces, failed.Why)
		default:
			x.recordProblem(x.traces, err.Error())
			return err
		}
		x.pending = x.pending[len(batch):]
		x.saveCursors()
	}
	x.pending = nil
	return nil
}

// recordProblem records a problem of a collector. Problems of spans take precedence over those of metrics.
func (x *Exporter) recordProblem(at *sender, why string) {
	if at == x.traces || len(x.pending) == 0 {
		x.summary.Problem, x.summary.To = why, at.to.Shown()
	}
}

// sendMetrics sends the totals. The cursors of metrics advance only when the totals have arrived, or never will.
func (x *Exporter) sendMetrics() error {
	body, err := encodeMetrics(&x.resource, x.totals.Gather(journal.MillisOf(x.o.Now())), x.metrics.to.JSON)
	if err != nil {
		return err
	}
	_, err = x.metrics.send(x.ctx, body)
	var failed *sendError
	if err != nil {
		x.recordProblem(x.metrics, err.Error())
		// Many collectors accept traces only; metrics are dropped for them.
		if !errors.As(err, &failed) || !failed.Never && !failed.Nowhere {
			return err
		}
	}
	x.summary.Unmeasured = err != nil
	x.totals.Delivered()
	x.measured, x.reported = false, x.o.Now()
	for _, s := range x.streams {
		s.done.Metrics = s.seq
	}
	return nil
}

// saveCursors saves cursors, and drops runs that are delivered.
func (x *Exporter) saveCursors() {
	first := map[*stream]item{}
	for _, i := range x.pending {
		if _, known := first[i.of]; !known {
			first[i.of] = i
		}
	}
	for _, s := range x.streams {
		if i, waits := first[s]; waits {
			s.done.reach(cursor{Spans: i.seq - 1, Part: i.part})
		} else {
			s.done.reach(cursor{Spans: s.seq})
		}
		if !x.measured || x.metrics == nil {
			s.done.Metrics = max(s.done.Metrics, s.seq)
		}
		switch {
		case s.finished && s.delivered():
			x.forget(s.run)
		case s.done != s.saved:
			if err := x.ledger.write(s.run, s.done); err == nil { // otherwise the next call tries again
				s.saved = s.done
			}
		}
		x.keep(s)
	}
	if len(x.streams) > maxStreams {
		for run, s := range x.streams {
			if x.clean(s) && x.markDelivered(run) {
				delete(x.streams, run)
			}
		}
	}
}

// delivered reports whether everything that was read has arrived.
func (s *stream) delivered() bool { return s.done.Spans >= s.seq && s.done.Metrics >= s.seq }

// clean reports whether everything that was read has been delivered.
func (x *Exporter) clean(s *stream) bool { return s.delivered() && s.saved == s.done }

// Close delivers what there is, within the time of its context, and returns the summary.
func (x *Exporter) Close(limit time.Duration) Summary {
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return Summary{}
	}
	x.closed = true
	running := x.running
	x.mu.Unlock()
	if !running {
		x.stop()
		return Summary{}
	}
	close(x.closing)
	timer := time.AfterFunc(limit, x.stop)
	<-x.done
	timer.Stop()
	for run, s := range x.streams {
		if x.clean(s) {
			x.markDelivered(run)
		}
	}
	x.summary.Waiting, x.summary.Measured = x.waiting(), x.metrics != nil && x.measured
	x.summary.Problems = x.o.Settings.Problems
	x.ledger.close()
	x.stop()
	x.traces.close()
	x.metrics.close()
	return x.summary
}

// waiting counts the spans of this process's runs that were not delivered. It marks runs with unread events as
// undelivered, and reads the events to count their spans.
func (x *Exporter) waiting() int {
	n := 0
	for _, i := range x.pending {
		if !x.inherited[i.of.run] {
			n++
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for run := range x.unread {
		if ctx.Err() != nil {
			break
		}
		s := x.streams[run]
		if s == nil {
			var err error
			if s, err = x.open(run); err != nil {
				x.summary.Unreadable = err
				continue
			}
		}
		if x.inherited[run] || x.traces == nil || !s.sampled || s.finished {
			continue
		}
		for e, err := range x.o.Source.Events(ctx, run, s.seq) {
			var out Yield
			if err != nil || s.tracer.Apply(&e, &out) != nil {
				break
			}
			if e.Seq > s.done.Spans {
				n += len(out.Spans)
			}
		}
	}
	return n
}
