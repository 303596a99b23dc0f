package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/console"
	"github.com/espalier-run/espalier/internal/terminal"
)

// The progress of a run is what "espalier run" prints while the run is driven:
// a stream of server-sent events. Each "notice" has the number of a fact as its
// id. "rest" with the state of the run ends the stream. Unlike live events, it
// is made for the terminal, and its data is not part of the documented API.

// registerProgress registers the stream of progress, which huma does not serve.
func (s *Server) registerProgress() {
	s.mux.Handle("GET /api/v1/runs/{run}/progress", s.needs(identity.Read, endpoint(s.progress)))
	text := &huma.Schema{Type: huma.TypeString}
	s.describe(huma.Operation{
		Method: http.MethodGet, Path: "/api/v1/runs/{run}/progress", Tags: []string{"Events"},
		Summary: "Follow a run until it has finished or waits",
		Parameters: []*huma.Param{
			{
				Name: "run", In: "path", Required: true,
				Schema: text, Description: "Id of the run, or a unique prefix of it",
			},
			{
				Name: "after", In: "query", Schema: &huma.Schema{Type: huma.TypeInteger},
				Description: "Number of a fact (seq): only what follows it is sent",
			},
			{
				Name: "until", In: "query", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"rest", "now"}},
				Description: "now ends the stream with what has happened so far",
			},
		},
		Responses: map[string]*huma.Response{"200": {
			Description: "Server-sent events: notice for each line that a terminal shows, and rest at the end.",
			Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: text}},
		}},
	}, identity.Read)
}

// idleChecks is the number of consecutive checks, one each second, that must find a run without a driver before it
// counts as not driven: between a message and the next step, a run briefly has no driver.
const idleChecks = 3

// progress handles GET /api/v1/runs/{run}/progress. Of a child run, it shows the progress of the root run, which drives
// it. All errors that a status can report come before the first byte of the stream.
func (s *Server) progress(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.stop, func() { cancel(errStopping) })()
	run, err := s.find(ctx, r.PathValue("run"))
	if err == nil {
		run, err = s.o.App.RootRun(ctx, run)
	}
	after := int64(0)
	if text := r.URL.Query().Get("after"); err == nil && text != "" {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil {
			err = &Problem{Status: http.StatusBadRequest, Code: "position", Detail: "after is not a number."}
		}
	}
	var feed *progressFeed
	if err == nil {
		feed, err = s.newProgressFeed(ctx, run, journal.Seq(after))
	}
	if err != nil {
		return err
	}
	defer feed.close()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return nil
	}
	feed.out = s.eventWriter(w)
	now := r.URL.Query().Get("until") == "now"
	if err := feed.send(journal.WithoutWaitLimit(ctx), now); err != nil && ctx.Err() == nil {
		logEntryOf(r.Context()).err = err
	}
	return nil
}

// progressFeed sends the progress of one run.
type progressFeed struct {
	app     *app.App
	run     journal.RunID
	after   journal.Seq
	journal *app.Journal
	state   *console.Progress
	titles  map[string]string
	changed chan struct{} // has a value after an append
	close   func()
	out     *eventWriter
}

// changes is a sink that reports that something was appended.
type changes struct {
	run journal.RunID
	c   chan struct{}
}

// Record implements report.Sink.
func (c changes) Record(_ context.Context, appends ...journal.Appended) error {
	if slices.ContainsFunc(appends, func(a journal.Appended) bool { return a.Run == c.run }) {
		select {
		case c.c <- struct{}{}:
		default: // the reader has not seen the last one
		}
	}
	return nil
}

// newProgressFeed starts to follow a run. The caller sets out before send, and closes the feed. Notices depend on what
// came before them, so the feed reads the journal from the start and sends only what follows after.
func (s *Server) newProgressFeed(ctx context.Context, run *app.Run, after journal.Seq) (*progressFeed, error) {
	j, err := s.o.App.Journal(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	program, err := s.o.App.Program(ctx, run)
	if err != nil {
		return nil, err
	}
	f := &progressFeed{
		app: s.o.App, run: run.ID, after: after, journal: j, state: console.NewProgress(run.ID, j.Outline),
		titles: program.Labels(), changed: make(chan struct{}, 1),
	}
	follower, err := j.Follow(changes{run.ID, f.changed})
	if err != nil {
		return nil, err
	}
	f.close = follower.Close
	return f, nil
}

// send sends notices until the run is at rest or, with now, those of what has happened so far. The status is read
// before the facts: if it says that the run is at rest, no facts follow those that catchUp reads.
func (f *progressFeed) send(ctx context.Context, now bool) error {
	if err := f.event("titles", "", f.titles); err != nil {
		return err
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	idle, quiet := 0, time.Now()
	for {
		run, err := f.app.Get(ctx, f.run) // before the facts, so that those of a run at rest are complete
		if err != nil {
			return err
		}
		sent, err := f.catchUp(ctx)
		if err != nil {
			return err
		}
		if sent {
			quiet = time.Now()
		}
		if !run.Idle {
			idle = 0
		}
		if now || idle >= idleChecks || run.Status.AtRest() {
			return f.event("rest", "", api.NewRun(run))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.changed:
			idle = 0
		case <-tick.C:
			idle++
			if time.Since(quiet) >= keepAlive {
				quiet = time.Now()
				if err := f.out.write([]byte(": keep-alive\n\n")); err != nil {
					return err
				}
			}
		}
	}
}

// catchUp sends the notices of the facts that were appended since the last call,
// and reports whether there were any.
func (f *progressFeed) catchUp(ctx context.Context) (sent bool, err error) {
	for e, err := range f.journal.Events(ctx, f.run, f.state.Seq()) {
		if err != nil {
			return sent, err
		}
		notices, err := f.state.Apply(&e)
		if err != nil {
			return sent, err
		}
		for i := range notices {
			if e.Seq <= f.after {
				continue
			}
			raw, err := console.Encode(&notices[i])
			if err != nil {
				return sent, err
			}
			// A client that reconnects continues after the last fact whose notices are complete.
			id := ""
			if i == len(notices)-1 {
				id = strconv.FormatInt(int64(e.Seq), 10)
			}
			if err := f.event("notice", id, json.RawMessage(raw)); err != nil {
				return sent, err
			}
			sent = true
		}
	}
	return sent, nil
}

func (f *progressFeed) event(name, id string, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return f.out.write(fmt.Appendf(nil, "event: %s\n%sdata: %s\n\n", cmp.Or(name, "message"), id,
		terminal.EscapeJSON(raw)))
}
