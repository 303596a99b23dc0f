package server

import (
	"context"
	"iter"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
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
	for _, length := range []int{1, feedLength} {
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
		p.server.feed.length = length

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
		gate := p.until(s.ID, api.Waiting).Gates[0]
		for range clients {
			<-connected
		}
		before := read.Load()
		p.call("POST", "/api/v1/runs/"+s.ID+"/decide", decideBody{Decision: "approve", Digest: gate.Digest}, nil, 200)
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
