package server

import (
	"context"
	"errors"
	"iter"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report"
)

// countedStore counts the appends that are read by position.
type countedStore struct {
	journal.Store
	read *atomic.Int64
}

func (c countedStore) Tail(ctx context.Context, after journal.Pos) iter.Seq2[journal.Appended, error] {
	return func(yield func(journal.Appended, error) bool) {
		for a, err := range c.Store.Tail(ctx, after) {
			c.read.Add(1)
			if !yield(a, err) {
				return
			}
		}
	}
}

// Many clients follow a run. All get the same events, in the order of the journal, also if they are so slow that the
// server no longer has what they lack. The journal is read once for all clients that keep up.
func TestManyClientsFollowTheSameEvents(t *testing.T) {
	const clients = 40
	for _, c := range []struct {
		length   int
		wakeTime time.Duration
	}{{1, 0}, {feedLength, 0}, {feedLength, time.Millisecond}} { // the last one sends events together
		length := c.length
		dir := t.TempDir()
		text := strings.ReplaceAll(gated, "~~~", "```")
		if err := os.WriteFile(filepath.Join(dir, "gated.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var read atomic.Int64
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p := serveApp(t, l, func(*identity.Authenticator) {}, app.Options{
			Dir: dir, Journal: func(s journal.Store) journal.Store { return countedStore{s, &read} },
		})
		p.server.feed.length, p.server.feed.wakeTime = length, c.wakeTime

		followed, connected := make(chan []string, clients), make(chan bool, clients)
		for range clients {
			go func() {
				var got []string
				p.events("/api/v1/events", "0", func(id, data string) bool {
					if len(got) == 0 {
						connected <- true
					}
					got = append(got, id+" "+data)
					return strings.Contains(data, `"run.finished"`)
				})
				followed <- got
			}()
		}
		var s api.Status
		start := map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}, "simulate": true}
		p.call("POST", "/api/v1/runs", start, &s, 201)
		gate := p.until(s.ID, journal.StateWaiting).Gates[0]
		for range clients {
			<-connected
		}
		before := read.Load()
		p.call("POST", "/api/v1/runs/"+s.ID+"/decide",
			api.DecideBody{Decision: "approve", Digest: gate.Digest}, nil, 200)
		whole := <-followed
		for range clients - 1 {
			if got := <-followed; !slices.Equal(got, whole) {
				t.Errorf("with %d events kept, one client got\n%q\nand another\n%q", length, whole, got)
			}
		}
		if n := read.Load() - before; length == feedLength && n >= clients {
			t.Errorf("%d appends are read for %d clients", n, clients)
		}
		p.stop()
	}
}

// Events that arrive while many clients could be woken are sent together. Each client gets what follows its last event,
// whatever other clients got.
func TestEventsAreGatheredForManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		event := func(pos journal.Pos, number int, root journal.RunID) sentEvent {
			id := eventID{pos, number}
			return sentEvent{id, root, []byte(id.String() + " ")}
		}
		f := feed{length: 4, wakeTime: feedWakeTime, clients: 1000, changed: make(chan struct{})}
		get := func(run journal.RunID, last eventID) batch {
			got, err := f.after(run, last)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		woken := func(b batch) bool {
			select {
			case <-b.changed:
				return true
			default:
				return false
			}
		}
		waiting := get("", eventID{})
		f.add(t.Context(), event(1, 1, "a"), nil)
		time.Sleep(5 * time.Millisecond)
		f.add(t.Context(), event(1, 2, "b"), nil)
		f.add(t.Context(), event(2, 1, "a"), nil)
		if woken(waiting) {
			t.Error("clients are woken for each event")
		}
		time.Sleep(6 * time.Millisecond)
		if !woken(waiting) {
			t.Error("clients are not woken")
		}
		for range 2 { // the second time, all of it has been asked for
			for _, c := range []struct {
				run  journal.RunID
				last eventID
				want string
			}{
				{"", eventID{}, "1.1 1.2 2.1 "},
				{"", eventID{}, "1.1 1.2 2.1 "},
				{"", eventID{1, 1}, "1.2 2.1 "},
				{"a", eventID{}, "1.1 2.1 "},
				{"a", eventID{1, 0}, "2.1 "},
				{"b", eventID{1, 2}, ""},
				{"", eventID{2, 1}, ""},
			} {
				if got := get(c.run, c.last); string(got.text) != c.want || got.last != (eventID{2, 1}) || woken(got) {
					t.Errorf("run %q after %s: %q up to %s", c.run, c.last, got.text, got.last)
				}
			}
		}
		f.add(t.Context(), event(3, 1, "a"), nil)
		time.Sleep(maxGather)
		f.add(t.Context(), event(4, 1, "a"), nil) // the first one is forgotten
		if got := get("", eventID{1, 1}); string(got.text) != "1.2 2.1 3.1 4.1 " {
			t.Errorf("%q", got.text)
		}
		if got := get("", eventID{}); got.upTo != 1 || got.text != nil {
			t.Errorf("a client that lacks the first event gets %q, and reads up to %d", got.text, got.upTo)
		}
		time.Sleep(maxGather)
		f.clients = 2
		waiting = get("", eventID{4, 1})
		if f.add(t.Context(), event(5, 1, "a"), nil); !woken(waiting) {
			t.Error("a few clients are not woken at once")
		}
		f.clients = 1000
		waiting = get("", eventID{5, 1})
		if f.add(t.Context(), sentEvent{}, errors.New("the disk fails")); !woken(waiting) {
			t.Error("clients are not woken for an error")
		}
	})
}

// failingStore fails to read appends by position while fails is set.
type failingStore struct {
	journal.Store
	fails *atomic.Bool
	err   error
}

func (s failingStore) Tail(ctx context.Context, after journal.Pos) iter.Seq2[journal.Appended, error] {
	if !s.fails.Load() {
		return s.Store.Tail(ctx, after)
	}
	return func(yield func(journal.Appended, error) bool) {
		yield(journal.Appended{}, s.err)
	}
}

// The feed ends with an error of the store. A client that is too slow to notice does not keep it from others.
func TestFeedRecoversAlthoughASlowClientRemains(t *testing.T) {
	dir := t.TempDir()
	text := strings.ReplaceAll(gated, "~~~", "```")
	if err := os.WriteFile(filepath.Join(dir, "gated.md"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var fails atomic.Bool
	p := serveApp(t, l, func(*identity.Authenticator) {}, app.Options{
		Dir:     dir,
		Journal: func(s journal.Store) journal.Store { return failingStore{s, &fails, errors.New("the disk fails")} },
	})
	defer p.stop()
	start := func() api.Status {
		var s api.Status
		request := map[string]any{"workflow": "gated", "input": map[string]any{"question": "why?"}, "simulate": true}
		p.call("POST", "/api/v1/runs", request, &s, 201)
		return s
	}
	p.until(start().ID, journal.StateWaiting)
	feed := &p.server.feed
	if err := feed.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer feed.leave()
	fails.Store(true)
	start()
	for {
		more, err := feed.after("", eventID{pos: math.MaxInt64})
		if err != nil {
			break
		}
		<-more.changed
	}
	fails.Store(false)

	var last api.Status
	followed := false
	p.events("/api/v1/events", "0", func(_, data string) bool {
		if last.ID == "" {
			last = start()
		}
		followed = strings.Contains(data, last.ID)
		return followed
	})
	if !followed {
		t.Error("the events of another client end with the error")
	}
}

// A tool can fail with megabytes of text; events, of which the server keeps many, have its beginning.
func TestEventsHaveTheBeginningOfAProblem(t *testing.T) {
	e := app.Event{Event: &report.Event{Run: &report.Run{}, Ending: report.Ending{}}}
	e.Problem = strings.Repeat("ä", 1<<20)
	text, err := eventText(e, eventID{})
	if err != nil || len(text) > maxProblem+500 || !strings.Contains(string(text), "ää…") {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}
