package otel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// Source is what exporting needs of a journal.Store.
type Source interface {
	Events(ctx context.Context, run journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error]
}

// Options are what an Exporter works with.
type Options struct {
	Settings *Settings
	Dir      string // of what is kept about runs
	Source   Source
	// Program gives the program of a definition that a run has pinned.
	Program func(ctx context.Context, definition string) (*ir.Program, error)
	// Origin is the span from which somebody began a run; nil is none.
	Origin func(journal.RunStarted) (Link, bool)
	// Process is this one, and Gone tells whether another has ended.
	Process journal.Owner
	Gone    func(journal.Owner) bool
	// Lock opens the lock that keeps other processes out while it is noted what
	// has been delivered; nil when there are no others.
	Lock    func() (Lock, error)
	Version func() string    // of the program; nil is unknown
	Now     func() time.Time // nil is time.Now
}

// Exporter delivers the spans and metrics of the runs that this process works
// on. It reads what it needs from the journal, in a goroutine of its own, and
// no faster than it can deliver: the journal is the queue, so no run waits for
// it and its memory is bounded however long a collector is away.
type Exporter struct {
	o        Options
	resource Resource
	traces   *sender
	metrics  *sender
	ledger   ledger
	since    journal.Millis

	mu      sync.Mutex
	news    map[journal.RunID]journal.Seq // runs of which more is to be read
	owes    map[journal.RunID]bool        // runs that are noted as owed
	begun   map[journal.RunID]int         // appends that may be durable any moment
	running bool
	closed  bool

	work    chan struct{} // there is something to do
	closing chan struct{}
	done    chan struct{}
	ctx     context.Context // of everything that is sent
	stop    context.CancelFunc

	// The rest belongs to the goroutine, and to Close when that has ended.
	streams map[journal.RunID]*stream
	// inherited runs are those that others have left to deliver.
	inherited map[journal.RunID]bool
	pending   []item
	totals    *Metrics
	measured  bool      // something since the last delivery
	told      time.Time // when metrics were last delivered
	looked    time.Time // when it was last looked for what others have left
	failures  int       // in a row
	rest      time.Duration
	broken    error // of a run of which there are no spans
	summary   Summary
}

// stream is a run that is exported.
type stream struct {
	run      journal.RunID
	tracer   *Tracer     // nil when it is over
	seq      journal.Seq // of the last event that was read
	done     cursor
	saved    cursor
	sampled  bool
	finished bool
}

// item is a span on its way.
type item struct {
	span *Span
	of   *stream
	seq  journal.Seq // of the event that ended it
	part int         // how many others that event has ended before
}

// Summary is what became of what was to be delivered.
type Summary struct {
	Delivered int
	// Waiting spans are kept, and delivered by a later process; so is what was
	// measured, if Measured.
	Waiting  int
	Measured bool
	// Refused spans are lost: the collector does not want them. So is what was
	// measured, if Unmeasured.
	Refused    int
	Unmeasured bool
	// Trouble is what the collector last had, To which one.
	Trouble, To string
	// Unreadable is why the spans of some run could not even be made.
	Unreadable error
	Problems   []Problem
}

// mostStreams is how many runs are kept in memory that nothing happens in. More of
// them are read again when they go on.
const mostStreams = 256

// lookEvery is how often a process that lives long looks for what others have
// left to deliver.
const lookEvery = time.Minute

// New makes an Exporter. It does nothing before something has been appended, or
// Start was called.
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
		o: o, ledger: ledger{dir: o.Dir, me: o.Process, open: o.Lock}, news: map[journal.RunID]journal.Seq{},
		owes: map[journal.RunID]bool{}, begun: map[journal.RunID]int{}, streams: map[journal.RunID]*stream{}, inherited: map[journal.RunID]bool{},
		work: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
		totals: NewMetrics(o.Settings.Names, o.Settings.Delta),
	}
	x.ctx, x.stop = context.WithCancel(context.Background())
	return x
}

// Appending hears of every append of this process before it is durable: by
// then it is noted that there will be something to deliver, for whoever comes
// after us, also when we are closed by then. It never waits for a collector.
func (x *Exporter) Appending(run journal.RunID) {
	if !x.o.Settings.Enabled() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.begun[run]++
	_ = x.owe(run) // reading tries again, and tells
}

// owe notes that there is something to deliver of a run. x.mu is held.
func (x *Exporter) owe(run journal.RunID) error {
	if x.owes[run] {
		return nil
	}
	err := x.ledger.owe(run)
	x.owes[run] = err == nil
	return err
}

// paid notes that there is not, unless more is on its way.
func (x *Exporter) paid(run journal.RunID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, more := x.news[run]; more || x.begun[run] > 0 {
		return false
	}
	delete(x.owes, run)
	x.ledger.paid(run)
	return true
}

// Appended hears of what became of them: last is 0 when nothing did. It never
// waits.
func (x *Exporter) Appended(run journal.RunID, last journal.Seq) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.begun[run]--; x.begun[run] <= 0 {
		delete(x.begun, run)
	}
	if x.closed || last == 0 || !x.begin() {
		return
	}
	x.news[run] = max(x.news[run], last)
	select {
	case x.work <- struct{}{}:
	default:
	}
}

// Start begins to deliver what processes that are gone have left, whether or
// not this one ever appends something.
func (x *Exporter) Start() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.closed {
		x.begin()
	}
}

// begin tells whether anything is exported, and has its goroutine run. x.mu is
// held.
func (x *Exporter) begin() bool {
	enabled := x.o.Settings.Enabled()
	if !x.running {
		x.running = true
		if enabled {
			go x.run()
		} else {
			close(x.done) // there is only something to say in the end
		}
	}
	return enabled
}

// start is what the first append costs, and not the start of the program.
func (x *Exporter) start() {
	x.told = x.o.Now()
	x.since = journal.MillisOf(x.told)
	x.traces, x.metrics = newSender(x.o.Settings.Traces), newSender(x.o.Settings.Metrics)
	version := x.o.Version()
	x.resource = Resource{Scope: "github.com/espalier-run/espalier", Version: version, Attrs: slices.Clone(x.o.Settings.Resource)}
	for _, a := range []Attr{
		{"service.version", version},
		{"service.instance.id", string(x.o.Process)},
		{"telemetry.sdk.name", "espalier"},
		{"telemetry.sdk.language", "go"},
		{"telemetry.sdk.version", version},
	} {
		// What somebody says about their service counts more.
		if !slices.ContainsFunc(x.resource.Attrs, func(said Attr) bool { return said.Key == a.Key }) && a.Value != "" {
			x.resource.Attrs = append(x.resource.Attrs, a)
		}
	}
	x.inherit()
}

// inherit takes over what processes that are gone have left to deliver.
func (x *Exporter) inherit() {
	x.looked = x.o.Now()
	for _, run := range x.ledger.inherit(x.o.Gone) {
		x.mu.Lock()
		if !x.owes[run] {
			x.inherited[run] = true
		}
		x.owes[run] = true
		x.news[run] = max(x.news[run], 1) // whatever there is
		x.mu.Unlock()
	}
}

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

// busy tells whether there are spans to deliver.
func (x *Exporter) busy() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.news) > 0 || len(x.pending) > 0
}

// await waits until it is time to deliver; false when it is time to end.
func (x *Exporter) await() bool {
	soon := max(x.rest, x.o.Settings.Delay)
	if !x.busy() {
		due := lookEvery
		if x.measured {
			due = min(due, max(soon, x.o.Settings.Interval-x.o.Now().Sub(x.told)))
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

// deliver sends what there is. At the last time everything goes, and the first
// failure ends it.
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
	if x.metrics != nil && x.measured && (last || x.o.Now().Sub(x.told) >= x.o.Settings.Interval) {
		failed = cmp.Or(failed, x.sendMetrics())
	}
	x.settle()
	if failed == nil {
		x.failures, x.rest = 0, 0
		return
	}
	x.failures++
	x.rest = min(time.Second<<min(x.failures-1, 6), time.Minute)
	var later *sendError
	if errors.As(failed, &later) && later.After > 0 {
		x.rest = min(max(x.rest, later.After), 10*time.Minute)
	}
}

// fill reads what is new of runs, until enough spans wait: then there is more.
// An error says that the journal cannot be read now.
func (x *Exporter) fill() (more bool, failed error) {
	x.mu.Lock()
	news := x.news
	x.news = map[journal.RunID]journal.Seq{}
	x.mu.Unlock()
	for _, run := range sorted(news) {
		whole, err := false, x.ctx.Err()
		if err == nil && failed == nil && len(x.pending) < x.o.Settings.Queue {
			whole, err = x.read(run)
		}
		var broken *brokenError
		switch {
		case whole:
			continue
		case errors.Is(err, journal.ErrUnknownRun), errors.Is(err, errPaid): // somebody has deleted it, or delivered all of it
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
		x.again(run, news[run])
	}
	return more, failed
}

// brokenError is a run of which no spans can be made.
type brokenError struct {
	run journal.RunID
	error
}

func (e *brokenError) Error() string { return fmt.Sprintf("run %s: %v", e.run, e.error) }
func (e *brokenError) Unwrap() error { return e.error }

// again has a run read later.
func (x *Exporter) again(run journal.RunID, last journal.Seq) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.news[run] = max(x.news[run], last)
}

// forget gives a run up that cannot be read: it was deleted, or is damaged.
func (x *Exporter) forget(run journal.RunID) {
	delete(x.streams, run)
	delete(x.inherited, run)
	x.mu.Lock()
	delete(x.owes, run)
	x.mu.Unlock()
	Forget(x.o.Dir, run)
}

// errPaid: another process has delivered a run to its end.
var errPaid = errors.New("everything has been delivered")

// read makes spans of what a run's stream has more, and tells whether that was
// all of it.
func (x *Exporter) read(run journal.RunID) (whole bool, err error) {
	s := x.streams[run]
	if s == nil {
		if s, err = x.open(run); err != nil {
			return false, err
		}
	} else if there, err := x.ledger.read(run); err == nil {
		s.done.reach(there) // another process may have had the run since
	}
	if !x.ledger.owes(run) {
		return false, errPaid
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
		s.seq = e.Seq
		if _, over := e.Fact.(journal.RunFinished); over {
			s.finished = true
		}
		if e.Seq > s.done.Spans && x.traces != nil && s.sampled {
			for i, span := range out.Spans {
				if e.Seq > s.done.Spans+1 || i >= s.done.Part {
					x.pending = append(x.pending, item{&span, s, e.Seq, i})
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
		s.tracer = nil // what was measured may have to wait for long
	}
	return true, nil
}

func (x *Exporter) open(run journal.RunID) (*stream, error) {
	s := &stream{run: run, sampled: x.o.Settings.sampled(TraceOf(run))}
	var err error
	if s.done, err = x.ledger.read(run); err != nil {
		return nil, err
	}
	s.saved = s.done
	x.mu.Lock()
	err = x.owe(run)
	x.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s.tracer = NewTracer(run, TracerOptions{
		Names: x.o.Settings.Names, Content: x.o.Settings.Content, MostBytes: x.o.Settings.MostBytes, Origin: x.o.Origin,
		Outline: func(definition string) (*report.Outline, error) {
			p, err := x.o.Program(context.Background(), definition)
			if err != nil {
				return nil, err
			}
			return report.NewOutline(p), nil
		},
	})
	x.streams[run] = s
	return s, nil
}

// sendSpans sends what waits, batch by batch.
func (x *Exporter) sendSpans() error {
	for len(x.pending) > 0 {
		batch := x.pending[:min(len(x.pending), x.o.Settings.Batch)]
		spans := make([]*Span, len(batch))
		for i := range batch {
			spans[i] = batch[i].span
		}
		body, err := x.traces.encodeTraces(&x.resource, spans)
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
				x.trouble(x.traces, "it has not taken all of them")
			}
		case errors.As(err, &failed) && failed.Never:
			x.summary.Refused += len(batch)
			x.trouble(x.traces, failed.Why)
		default:
			x.trouble(x.traces, err.Error())
			return err
		}
		x.pending = x.pending[len(batch):]
		x.settle()
	}
	x.pending = nil
	return nil
}

// trouble remembers what is wrong with a collector. What spans had is told
// rather than what metrics had.
func (x *Exporter) trouble(at *sender, why string) {
	if at == x.traces || len(x.pending) == 0 {
		x.summary.Trouble, x.summary.To = why, at.to.Shown()
	}
}

func (x *Exporter) sendMetrics() error {
	body, err := x.metrics.encodeMetrics(&x.resource, x.totals.Gather(journal.MillisOf(x.o.Now())))
	if err != nil {
		return err
	}
	_, err = x.metrics.send(x.ctx, body)
	var failed *sendError
	if err != nil {
		x.trouble(x.metrics, err.Error())
		// Many collectors take traces alone: metrics are not kept for them.
		if !errors.As(err, &failed) || !failed.Never && !failed.Nowhere {
			return err
		}
	}
	x.summary.Unmeasured = err != nil
	x.totals.Delivered()
	x.measured, x.told = false, x.o.Now()
	for _, s := range x.streams {
		s.done.Metrics = s.seq
	}
	return nil
}

// settle notes what has been delivered, and lets go of runs that are.
func (x *Exporter) settle() {
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
			if err := x.ledger.write(s.run, s.done); err == nil { // else it is tried again
				s.saved = s.done
			}
		}
	}
	if len(x.streams) > mostStreams {
		for run, s := range x.streams {
			if x.clean(s) && x.paid(run) {
				delete(x.streams, run)
			}
		}
	}
}

// delivered tells whether everything that was read has arrived.
func (s *stream) delivered() bool { return s.done.Spans >= s.seq && s.done.Metrics >= s.seq }

// clean tells whether nothing of what was read is owed.
func (x *Exporter) clean(s *stream) bool { return s.delivered() && s.saved == s.done }

// Close delivers what there is, for as long as it may take, and tells what
// became of it all.
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
			x.paid(run)
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

// waiting counts the spans of this process's runs that were not delivered. What
// was not even read is owed from now on, and read to be counted.
func (x *Exporter) waiting() int {
	n := 0
	for _, i := range x.pending {
		if !x.inherited[i.of.run] {
			n++
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for run := range x.news {
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
