package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/graph"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// Live events are instructions for an open page:
//
//	patch    change attributes and texts of the graph: a list of graph.Patch
//	delta    append text to the reply that is being received: {step, text}; step is the key of the visit
//	changed  request the page again and merge it: {step, later}
//
// A change that names the visit of a step is one that the patches show in the graph: the page is requested again soon
// if its panel shows the step, and after a while otherwise. So is a change that can wait on pages about all runs.
//
// The id of an event is the last fact of the run that it covers; on pages about all runs, the position in the journal.

// Times of the stream.
const (
	// Proxies close connections that are quiet for a minute or less.
	keepAlive = 15 * time.Second
	// How often the page of a workflow compares the version of its files. There is no event for a file that changes.
	lookAtFiles = time.Second
	// How long a browser may take to accept an event. The server as a whole has no write timeout because streams last.
	writeTimeout = 30 * time.Second
)

// stream writes server-sent events. Only one goroutine uses it.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s *stream) send(name string, id int64, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return s.write(fmt.Sprintf("event: %s\nid: %d\ndata: %s\n\n", name, id, raw))
}

func (s *stream) write(text string) error {
	// The deadline moves with each event. Writers of tests have no deadline, which is no error.
	err := s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}

// live handles GET /live. Without the parameter run, the stream is about all runs, and with workflow also about the
// files of that workflow. The parameter after has the position that the page was made from; a browser that reconnects
// sends the id of the last event that it got as Last-Event-ID, which counts instead.
//
// The position is read before the page is compared with it, and following starts at that position: what happens in
// between is in one of them or in both, never in neither.
func (h *Handler) live(r *request) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.o.Stopping, cancel)()
	name := r.URL.Query().Get("run")
	after, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64) // a new client has none
	if after == 0 {
		after, _ = strconv.ParseInt(r.URL.Query().Get("after"), 10, 64) // and need not name one
	}
	var run *app.Run
	if name != "" {
		var err error
		if run, err = h.o.App.Find(ctx, name); err != nil {
			return err
		}
	}
	pos, err := h.o.App.Position(ctx)
	if err != nil && !noRuns(err) {
		return err
	}
	// Requests give up soon when the store cannot be reached (see withPatience in package server). A stream waits until
	// it is back.
	ctx = journal.WithoutWaitLimit(ctx)
	r.w.Header().Set("Content-Type", "text/event-stream")
	// nginx buffers responses unless they have this header.
	r.w.Header().Set("X-Accel-Buffering", "no")
	out := &stream{r.w, http.NewResponseController(r.w)}
	if err := out.write("retry: 1000\n\n"); err != nil {
		return nil //nolint:nilerr // the client is gone
	}
	if run == nil {
		// The page is requested again as a whole, so one event covers everything that was missed.
		if journal.Pos(after) < pos { // something has happened since the page was made
			if err := out.send("changed", int64(pos), changed{}); err != nil {
				return nil //nolint:nilerr // the client is gone
			}
		}
		var check func() error
		if name := r.URL.Query().Get("workflow"); name != "" {
			check = h.workflowChanges(ctx, out, name, r.URL.Query().Get("version"), pos)
		}
		h.follow(ctx, out, app.WatchRequest{After: pos}, h.allRuns(out), check)
		return nil
	}
	// From here on errors are only logged: the response has begun.
	one, err := h.newLiveRun(ctx, out, run, journal.Seq(after))
	if err != nil {
		h.logLive(ctx, err)
		return nil
	}
	h.follow(ctx, out, app.WatchRequest{Run: one.root, After: pos}, one.event, nil)
	return nil
}

// logLive logs an error of a stream whose response has begun, unless the client or the server has gone away.
func (h *Handler) logLive(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		h.o.Log.Error("live events", "error", err)
	}
}

// workflowChanges returns a function that reports that the files of a workflow have changed since a version. The
// function is called every second: while the version stays, it only asks the file system for times and sizes. The first
// call analyzes the workflow because the files that it consists of are not known before.
func (h *Handler) workflowChanges(
	ctx context.Context, out *stream, name, version string, pos journal.Pos,
) func() error {
	var an *app.Analysis
	return func() error {
		if an != nil && an.Version() == version {
			return nil
		}
		next, err := h.o.App.Analyze(ctx, app.AnalyzeRequest{Workflow: name, Listed: true})
		if err != nil {
			return nil //nolint:nilerr // it is being saved, or has been removed
		}
		an = next
		now := an.Version()
		if now == version {
			return nil
		}
		version = now
		return out.send("changed", int64(pos), changed{})
	}
}

// follow passes events on until the client or the server goes away. Errors are logged: the response has begun. If check
// is not nil, it is called every second.
//
// Watching blocks between events, so it has a goroutine of its own, and all writes are made by the goroutine of the
// request. An event is valid only until the next one is asked for: the goroutine therefore waits on next until the
// event is handled. ended has room for one value, so that the goroutine ends also after follow has returned.
func (h *Handler) follow(
	ctx context.Context, out *stream, req app.WatchRequest, handle func(app.Event) error, check func() error,
) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := make(chan app.Event)
	ended := make(chan error, 1)
	next := make(chan struct{})
	go func() {
		for e, err := range h.o.App.Watch(ctx, req) {
			if err != nil {
				ended <- err
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				ended <- ctx.Err()
				return
			}
			select { // an event is valid until the next one is asked for
			case <-next:
			case <-ctx.Done():
				ended <- ctx.Err()
				return
			}
		}
		ended <- nil
	}()
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	var look <-chan time.Time
	if check != nil {
		often := time.NewTicker(lookAtFiles)
		defer often.Stop()
		look = often.C
	}
	for {
		var err error
		select {
		case e := <-events:
			if err = handle(e); err == nil {
				select {
				case next <- struct{}{}:
				case <-ctx.Done():
				}
			}
		case <-tick.C:
			err = out.write(": keep-alive\n\n")
		case <-look:
			err = check()
		// Watch ends only with an error or with ctx.
		case err := <-ended:
			h.logLive(ctx, err)
			return
		}
		if err != nil {
			return
		}
	}
}

// changed is the data of an event "changed".
type changed struct {
	Step  string `json:"step,omitempty"`  // key of the visit that has changed; empty if more has
	Later bool   `json:"later,omitempty"` // it is no hurry
}

// allRuns reports changes of any run that lists show.
func (h *Handler) allRuns(out *stream) func(app.Event) error {
	return func(e app.Event) error {
		switch e.Type {
		case report.RunStarted, report.RunFinished, report.RunSuspended, report.RunResumed, report.GateOpened,
			report.GateDecided, report.BudgetRaised, report.RunPaused, report.RunContinued, report.StateEdited:
			return out.send("changed", int64(e.Pos), changed{})
		case report.StepStarted:
			return out.send("changed", int64(e.Pos), changed{Later: true})
		}
		return nil
	}
}

// liveRun keeps the page of one run up to date. A child run has no journal of its own: root is the run whose journal
// has the facts, and the picture is that of the child run.
type liveRun struct {
	ctx     context.Context
	out     *stream
	root    journal.RunID
	journal *app.Journal
	picture *graph.Compact
	shown   journal.Seq // the last fact that the page knows from the start
	last    journal.Seq // the last fact of the picture
}

// newLiveRun returns what follows a run from now on. The page was made after the fact number after. If there are newer
// facts, the page is requested again as a whole instead of being patched: the patches in between are not known.
func (h *Handler) newLiveRun(ctx context.Context, out *stream, run *app.Run, after journal.Seq) (*liveRun, error) {
	l := &liveRun{ctx: ctx, out: out, root: cmp.Or(run.Root, run.ID)}
	var err error
	if l.journal, err = h.o.App.Journal(ctx, l.root); err != nil {
		return nil, err
	}
	if l.picture, l.last, err = h.o.App.CompactGraph(ctx, run); err != nil {
		return nil, err
	}
	l.shown = l.last
	l.picture.Patches() // what the page shows already
	if after < l.last {
		return l, out.send("changed", int64(l.last), changed{})
	}
	return l, nil
}

// event handles one event of the run. The picture is read from the journal rather than from the event: patch applies
// every fact exactly once, also those of which there are several events or none.
func (l *liveRun) event(e app.Event) error {
	if e.Type == report.ModelStreamed && e.Step != nil {
		// Chunks of a reply are sent as they arrive. They change nothing in the picture, so it is not patched.
		text := report.Body[journal.Stream](e.Note).Chunk
		return l.out.send("delta", int64(e.Seq), map[string]string{"step": liveKey(e.Step), "text": visible(text)})
	}
	if e.Seq <= l.shown {
		return nil
	}
	redraw := false
	if e.Seq > l.last { // one fact can be several events
		var err error
		if redraw, err = l.patch(); err != nil {
			return err
		}
	}
	what := changed{}
	switch {
	// The page as a whole has to be requested again: what stays empty.
	case redraw:
	case unseen[e.Type]:
		return nil
	case e.Step != nil && !affectsRun[e.Type]:
		what.Step = liveKey(e.Step)
	}
	return l.out.send("changed", int64(l.last), what)
}

// unseen are events that change nothing that a page shows.
var unseen = map[report.EventType]bool{
	report.StepRouted: true, report.CheckpointSaved: true, report.BudgetReserved: true, report.StepAnnotated: true,
	report.ToolProgressed: true,
}

// affectsRun are events of a step that change what the page says about the run.
var affectsRun = map[report.EventType]bool{
	report.GateOpened: true, report.GateApproved: true, report.GateEscalated: true, report.GateExpired: true,
	report.GateDecided: true, report.BudgetWaiting: true, report.BudgetRefused: true, report.TaskLost: true,
}

// patch sends what has changed in the picture. redraw reports that the picture has to be drawn again instead.
func (l *liveRun) patch() (redraw bool, err error) {
	for fact, err := range l.journal.Events(l.ctx, l.root, l.last) {
		if err != nil {
			return false, err
		}
		l.picture.Apply(fact)
		l.last = fact.Seq
	}
	patches, redraw := l.picture.Patches()
	if len(patches) == 0 {
		return redraw, nil
	}
	return redraw, l.out.send("patch", int64(l.last), patches)
}
