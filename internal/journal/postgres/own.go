package postgres

import (
	"cmp"
	"context"
	"iter"
	"sort"
	"sync"

	"github.com/espalier-run/espalier/internal/journal"
)

// ownTail keeps the appends of this process for the readers that follow it.
type ownTail struct {
	mu      sync.Mutex             // guards the fields below
	kept    bool                   // Own has been called
	appends []journal.StoredAppend // in the order of their positions
	last    journal.Pos            // position of the last append, also if none are kept
}

// appended notes a committed append.
func (s *Store) appended(pos journal.Pos, j *job) {
	s.lastPos.Store(int64(pos))
	t := &s.own
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = pos
	if !t.kept {
		return
	}
	t.appends = append(t.appends,
		journal.StoredAppend{Pos: pos, Run: j.batch.Run, Last: j.batch.LastSeq(), Body: j.body})
}

// Own returns the appends of this process alone, from now on. Readers that only
// care for the runs of this process follow them without reading those of others
// from the database. One reader may use it: appends that it has read are dropped.
func (s *Store) Own() journal.Tailer {
	s.own.mu.Lock()
	defer s.own.mu.Unlock()
	s.own.kept = true
	return own{s}
}

// own is the journal.Tailer that Own returns.
type own struct{ s *Store }

// Tail implements journal.Tailer.
func (o own) Tail(ctx context.Context, after journal.Pos) iter.Seq2[journal.Appended, error] {
	return func(yield func(journal.Appended, error) bool) {
		for _, a := range o.s.own.since(after) {
			events, err := a.Decode()
			if err = cmp.Or(ctx.Err(), err); err != nil {
				yield(journal.Appended{}, err)
				return
			}
			if !yield(journal.Appended{Pos: a.Pos, Run: a.Run, Events: events}, nil) {
				return
			}
		}
	}
}

// Last implements journal.Tailer.
func (o own) Last(context.Context) (journal.Pos, error) {
	o.s.own.mu.Lock()
	defer o.s.own.mu.Unlock()
	return o.s.own.last, nil
}

// Changed implements journal.Tailer.
func (o own) Changed() <-chan struct{} { return o.s.changes.Wait() }

// since returns the appends after a position and drops the others.
func (t *ownTail) since(after journal.Pos) []journal.StoredAppend {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := sort.Search(len(t.appends), func(i int) bool { return t.appends[i].Pos > after })
	// Clear the references, so that the bodies can be collected. Later appends are added behind the part that is
	// returned, whose capacity is limited to it.
	clear(t.appends[:n])
	t.appends = t.appends[n:]
	return t.appends[:len(t.appends):len(t.appends)]
}
