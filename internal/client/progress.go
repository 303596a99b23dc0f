package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/console"
)

// Progress is what a stream of progress has.
type Progress struct {
	Titles func(map[string]string) // of steps; nil ignores them
	Notice func(*console.Notice) error
	// Now ends the stream with what has happened so far.
	Now bool
}

// Reconnecting: a server that restarts is back within this time.
const (
	reconnectFor   = 30 * time.Second
	reconnectPause = 500 * time.Millisecond
)

// Follow passes on the progress of a run after a fact, until the run is at rest, and returns the run. It reconnects if
// the server restarts, and continues after the last fact whose notices it has got; after reconnectFor without a
// connection it gives up.
func (c *Client) Follow(ctx context.Context, id journal.RunID, after journal.Seq, p Progress) (*app.Run, error) {
	lost := time.Time{}
	for {
		run, err := c.follow(ctx, id, &after, p, func() { lost = time.Time{} })
		if run != nil || ctx.Err() != nil {
			return run, errors.Join(err, ctx.Err())
		}
		if known, ok := errors.AsType[*app.Error](err); err != nil && (!ok || known.Reason != Unreachable) {
			return nil, err
		}
		if lost.IsZero() {
			lost = time.Now()
		}
		if time.Since(lost) > reconnectFor {
			return nil, c.unreachable(cmp.Or(err, io.ErrUnexpectedEOF))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(reconnectPause):
		}
	}
}

// follow reads one stream of server-sent events. It returns no run and no error if the stream breaks off. after is set
// to the number of the last fact whose notices are complete.
func (c *Client) follow(
	ctx context.Context, id journal.RunID, after *journal.Seq, p Progress, connected func(),
) (*app.Run, error) {
	path := runPath(id, "/progress?after="+strconv.FormatInt(int64(*after), 10))
	if p.Now {
		path += "&until=now"
	}
	w, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer w.Body.Close()
	connected()
	lines := bufio.NewScanner(w.Body)
	lines.Buffer(nil, maxResponse)
	var event, number, data string
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			event = value
		case "id":
			number = value
		case "data":
			data = value
		case "":
			run, err := p.dispatch(event, data)
			if run != nil || err != nil {
				return run, err
			}
			if n, err := strconv.ParseInt(number, 10, 64); err == nil {
				*after = journal.Seq(n)
			}
			event, number, data = "", "", ""
		}
	}
	return nil, nil // the connection has ended; Follow connects again
}

// dispatch passes on one event. It returns the run with the event "rest", which ends the stream. Unknown events are
// ignored, so that a newer server can send others.
func (p *Progress) dispatch(event, data string) (*app.Run, error) {
	switch event {
	case "titles":
		titles := map[string]string{}
		if p.Titles == nil || json.Unmarshal([]byte(data), &titles) != nil {
			return nil, nil
		}
		p.Titles(titles)
	case "notice":
		n, err := console.Decode([]byte(data))
		if err != nil {
			return nil, err
		}
		if p.Notice != nil {
			return nil, p.Notice(n)
		}
	case "rest":
		var run api.Run
		if err := json.Unmarshal([]byte(data), &run); err != nil {
			return nil, err
		}
		return run.App(), nil
	}
	return nil, nil
}

// Transcript returns the transcript of a run, one JSON object per line. With follow, reading continues as the run does,
// until the run has finished or the context ends; follow is called when everything that there is has been read.
func (c *Client) Transcript(ctx context.Context, r *app.Run, follow func()) (io.ReadCloser, error) {
	raw, err := c.read(ctx, http.MethodGet, runPath(r.ID, "/transcript"), nil)
	if err != nil {
		return nil, err
	}
	if follow == nil {
		return io.NopCloser(strings.NewReader(string(raw))), nil
	}
	return io.NopCloser(&tailReader{
		c: c, ctx: ctx, run: r.ID, rest: raw, read: len(raw), over: r.Status == journal.Finished, idle: follow,
	}), nil
}

// tailReader reads a transcript as it grows. The server sends a transcript up to now, so each look fetches the whole
// transcript again and skips what was read.
type tailReader struct {
	c    *Client
	ctx  context.Context
	run  journal.RunID
	rest []byte // that was fetched, and not read
	read int    // how much was fetched
	over bool   // the run has finished, and everything is fetched
	idle func()
	at   string // the state of the run at which idle was called
}

// tailPause is how often a growing transcript is asked for.
const tailPause = 250 * time.Millisecond

// Read implements io.Reader.
func (r *tailReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.over {
			return 0, io.EOF
		}
		select {
		case <-r.ctx.Done():
			return 0, io.EOF
		case <-time.After(tailPause):
		}
		run, err := r.c.Get(r.ctx, r.run) // before the transcript, so that that of a finished run is complete
		if err != nil {
			return 0, endOf(r.ctx, err)
		}
		raw, err := r.c.read(r.ctx, http.MethodGet, runPath(r.run, "/transcript"), nil)
		if err != nil {
			return 0, endOf(r.ctx, err)
		}
		r.over = run.Status == journal.Finished
		if len(raw) > r.read {
			r.rest, r.read, r.at = raw[r.read:], len(raw), ""
		} else if at := fmt.Sprint(run.Seq, run.Updated, run.Status, run.Waiting); !r.over && r.at != at {
			r.at = at
			r.idle()
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return io.EOF
	}
	return err
}
