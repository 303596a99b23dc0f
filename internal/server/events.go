package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
	"github.com/espalier-run/espalier/internal/terminal"
)

// Live events are server-sent events. The id of an event is the position of its
// append in the journal and its number within that append, "POSITION.NUMBER".
// A client that reconnects, also to another server, continues after the last
// event that it got, without a gap and without a duplicate.

// eventID is the id of an event, or what a client has: everything up to that event. Number 0 means the whole append.
type eventID struct {
	pos    journal.Pos
	number int
}

func (id eventID) String() string { return fmt.Sprintf("%d.%d", id.pos, id.number) }

func parseEventID(text string) (id eventID, err error) {
	pos, number, numbered := strings.Cut(text, ".")
	n, err := strconv.ParseInt(pos, 10, 64)
	if err == nil && numbered {
		id.number, err = strconv.Atoi(number)
	}
	if err != nil || n < 0 || id.number < 0 {
		return id, &Problem{
			Status: http.StatusBadRequest, Title: "Bad Request", Code: "position", Detail: "The position is not valid.",
		}
	}
	id.pos = journal.Pos(n)
	return id, nil
}

// includes reports whether a client that has everything up to id has an event. Events are numbered from 1 within their
// append; the numbers are the same whenever the append is read, because interpreting facts is deterministic.
func (id eventID) includes(event eventID) bool {
	return event.pos < id.pos || event.pos == id.pos && (id.number == 0 || event.number <= id.number)
}

// eventData is the data of a live event.
type eventData struct {
	Type     string      `json:"type"`
	RunID    string      `json:"run_id"`
	Parent   string      `json:"parent_run_id,omitempty"`
	Workflow string      `json:"workflow"`
	Seq      journal.Seq `json:"seq"` // number of the fact within the root run
	At       time.Time   `json:"at"`
	Step     string      `json:"step,omitempty"`
	Kind     string      `json:"kind,omitempty"` // of the step
	Attempt  int         `json:"attempt,omitempty"`
	Outcome  string      `json:"outcome,omitempty"`
	Problem  string      `json:"problem,omitempty"` // at most maxProblem bytes
}

// maxProblem limits the text of a problem in an event, in bytes. A tool can fail with megabytes of text, and the server
// keeps thousands of events for all clients; the status of the run has the whole text.
const maxProblem = 4 << 10

// keepAlive is how often a comment is sent on a quiet stream, so that proxies
// keep the connection and the server notices clients that are gone.
const keepAlive = 15 * time.Second

// registerEvents registers the streams, which huma does not serve, and describes them for the API.
func (s *Server) registerEvents() {
	all := s.needs(identity.Read, endpoint(func(w http.ResponseWriter, r *http.Request) error {
		return s.stream(w, r, "")
	}))
	one := s.needs(identity.Read, endpoint(func(w http.ResponseWriter, r *http.Request) error {
		run, err := s.find(r.Context(), r.PathValue("run"))
		if err == nil {
			run, err = s.o.App.RootRun(r.Context(), run)
		}
		if err != nil {
			return err
		}
		return s.stream(w, r, run.ID)
	}))
	s.mux.Handle("GET /api/v1/events", all)
	s.mux.Handle("GET /api/v1/runs/{run}/events", one)
	position := []*huma.Param{
		{
			Name: "after", In: "query", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "Id of an event: what follows it is sent. 0 is the beginning; without it, only what happens " +
				"from now on.",
		},
		{
			Name: "Last-Event-ID", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "As after; browsers send it when they reconnect.",
		},
	}
	run := &huma.Param{Name: "run", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}
	stream := map[string]*huma.Response{"200": {
		Description: "Server-sent events; the type of an event is in its data, too.",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
	s.describe(huma.Operation{
		Method: http.MethodGet, Path: "/api/v1/events", Tags: []string{"Events"}, Parameters: position,
		Responses: stream, Summary: "Follow the events of all runs",
	}, identity.Read)
	s.describe(huma.Operation{
		Method: http.MethodGet, Path: "/api/v1/runs/{run}/events", Tags: []string{"Events"},
		Parameters: append([]*huma.Param{run}, position...), Responses: stream, Summary: "Follow the events of a run",
	}, identity.Read)
}

// stream sends the events of a run, or of all runs. Without a position it begins with what happens next; the position 0
// is the beginning of the journal. The first message has the id of that position, so that a client that reconnects
// before the first event misses nothing. Errors after it are only logged: the response has begun.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, run journal.RunID) error {
	after, err := s.startPosition(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(journal.WithoutWaitLimit(r.Context()))
	defer cancel(nil)
	defer context.AfterFunc(s.stop, func() { cancel(errStopping) })()

	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return nil
	}
	out := s.eventWriter(w)
	if err := out.write(fmt.Appendf(nil, "retry: 1000\nid: %s\n\n", after)); err != nil {
		return nil //nolint:nilerr // the client is gone
	}
	s.stats.clients.Add(1)
	defer s.stats.clients.Add(-1)
	err = s.sendEvents(ctx, out, run, after)
	if errors.Is(context.Cause(ctx), errStopping) {
		out.write([]byte("event: server.stopping\ndata: {}\n\n")) // the client may be gone
	} else if err != nil && ctx.Err() == nil {
		logEntryOf(r.Context()).err = err
	}
	return nil
}

var errStopping = errors.New("the server is stopping")

// startPosition returns where the client wants to begin. Last-Event-ID wins: a browser that reconnects sends it with
// the address that it used first.
func (s *Server) startPosition(r *http.Request) (eventID, error) {
	text := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after"))
	if text == "" {
		pos, err := s.o.App.Position(r.Context())
		return eventID{pos: pos}, err
	}
	last, err := parseEventID(text)
	if err != nil {
		return last, err
	}
	// After a journal that was set back, as from a backup, the client would wait for a position that is far ahead.
	end, err := s.o.App.Position(r.Context())
	if last.pos > end {
		last = eventID{pos: end}
	}
	return last, err
}

// sendEvents sends what follows the last event of a client until the client or the server goes away. A client that
// keeps up gets everything from the feed, which all clients share. One that is further behind than the feed reaches
// back reads the journal up to where the feed begins, as often as needed, and then continues with the feed.
func (s *Server) sendEvents(ctx context.Context, out *eventWriter, run journal.RunID, last eventID) error {
	if err := s.feed.join(ctx); err != nil {
		return err
	}
	defer s.feed.leave()
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		more, err := s.feed.after(run, last)
		if err != nil {
			return err
		}
		if more.upTo != 0 {
			// The append of the last event is read again, because the client may have a part of it: events are numbered
			// from its start, and those that it has are skipped.
			missed := app.WatchRequest{Run: run, After: max(last.pos-1, 0), Until: more.upTo}
			for e, err := range encoded(ctx, s.o.App, missed) {
				if err == nil && !last.includes(e.id) && (run == "" || e.root == run) {
					err = out.write(e.text)
				}
				if err != nil {
					return err
				}
			}
			last = eventID{pos: more.upTo}
			continue
		}
		if len(more.text) > 0 {
			if err := out.write(more.text); err != nil {
				return err
			}
		}
		last = more.last
		select {
		case <-more.changed:
		case <-tick.C:
			if err := out.write([]byte(": keep-alive\n\n")); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// encoded yields events as clients get them, with their ids. req.After has to be the end of an append, so that the
// numbers within each append start at 1.
func encoded(ctx context.Context, a *app.App, req app.WatchRequest) iter.Seq2[sentEvent, error] {
	return func(yield func(sentEvent, error) bool) {
		var id eventID
		for e, err := range a.Watch(ctx, req) {
			if err != nil {
				yield(sentEvent{}, err)
				return
			}
			if e.Pos != id.pos {
				id = eventID{pos: e.Pos}
			}
			id.number++
			text, err := eventText(e, id)
			if !yield(sentEvent{id, e.Root, text}, err) || err != nil {
				return
			}
		}
	}
}

// eventText formats an event for the stream. The data is one line: JSON has no line ends, which would end the field of
// a server-sent event.
func eventText(e app.Event, id eventID) ([]byte, error) {
	data := eventData{
		Type: string(e.Type), RunID: string(e.Run.ID), Parent: string(e.Run.Parent), Workflow: e.Run.Name, Seq: e.Seq,
		At: e.At.Time(), Outcome: string(e.Outcome), Problem: e.Problem,
	}
	if len(data.Problem) > maxProblem {
		data.Problem = strings.ToValidUTF8(data.Problem[:maxProblem], "") + "…"
	}
	if e.Step != nil {
		data.Step, data.Kind, data.Attempt = e.Step.Path, e.Step.Kind, e.Step.Attempt
	} else if e.Type == report.CheckpointSaved {
		// A checkpoint belongs to a step that may not be open in the interpreter.
		data.Step = e.Work.Step
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "event: %s\nid: %s\ndata: %s\n\n", e.Type, id, terminal.EscapeJSON(raw)), nil
}

type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	renew   time.Time // when the deadline is set again
}

func (s *Server) eventWriter(w http.ResponseWriter) *eventWriter {
	return &eventWriter{w: w, control: http.NewResponseController(w), timeout: s.o.timeouts.write}
}

// write sends text. A client has at least half of the timeout to take it: the deadline is set again only when half of
// it has passed, because setting it for every event of every client takes a tenth of the server's time.
func (e *eventWriter) write(p []byte) error {
	if now := time.Now(); now.After(e.renew) {
		err := e.control.SetWriteDeadline(now.Add(e.timeout))
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		e.renew = now.Add(e.timeout / 2)
	}
	if _, err := e.w.Write(p); err != nil {
		return err
	}
	return e.control.Flush()
}
