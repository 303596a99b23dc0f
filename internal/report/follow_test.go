package report_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memory"
	"github.com/espalier-run/espalier/internal/report"
)

// list is a sink that remembers, and fails where it is told to.
type list struct {
	mu   sync.Mutex
	got  []journal.RunID
	fail map[journal.RunID]error
}

func (l *list) Record(_ context.Context, a journal.Appended) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, a.Run)
	return l.fail[a.Run]
}

func (l *list) all() []journal.RunID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got)
}

func add(t *testing.T, s journal.Store, runs ...journal.RunID) {
	t.Helper()
	for _, run := range runs {
		err := journal.Append(t.Context(), s, journal.Batch{
			Run: run, Fence: journal.FirstFence, Events: []journal.Event{{Seq: 1, At: 1, Fact: journal.RunStarted{Name: string(run)}}},
			Index: &journal.Index{Status: journal.Running},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestFollow(t *testing.T) {
	store := memory.New()
	defer store.Close()
	add(t, store, "a", "b")
	first, err := store.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, late := &list{}, &list{}
	whole := report.Follow(store, all, report.FollowOptions{Poll: time.Hour})
	fromNow := report.Follow(store, late, report.FollowOptions{After: first, Poll: time.Hour})
	add(t, store, "c", "d")
	for _, f := range []*report.Follower{whole, fromNow} {
		if err := f.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := all.all(); !slices.Equal(got, []journal.RunID{"a", "b", "c", "d"}) {
		t.Error(got)
	}
	if got := late.all(); !slices.Equal(got, []journal.RunID{"c", "d"}) {
		t.Error(got)
	}
	whole.Close()
	whole.Close()
	fromNow.Close()
	add(t, store, "e")
	if err := whole.Flush(t.Context()); err == nil {
		t.Error("what is closed does not follow")
	}
	if got := len(all.all()); got != 4 {
		t.Error(got)
	}
}

// TestTroubleDoesNotEndFollowing: a sink's error is said once in a second and
// told by Flush, and the next append comes all the same.
func TestTroubleDoesNotEndFollowing(t *testing.T) {
	store := memory.New()
	defer store.Close()
	broken := errors.New("broken")
	sink := &list{fail: map[journal.RunID]error{"a": broken, "b": broken}}
	var log bytes.Buffer
	f := report.Follow(store, sink, report.FollowOptions{
		Poll: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return time.Unix(50, 0) },
	})
	add(t, store, "a", "b")
	if err := f.Flush(t.Context()); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	add(t, store, "c")
	if err := f.Flush(t.Context()); err != nil {
		t.Errorf("%v", err)
	}
	f.Close()
	if got := sink.all(); len(got) != 3 {
		t.Error(got)
	}
	if n := strings.Count(log.String(), "WARN"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
}

// patient is a sink that is told when nothing happens.
type patient struct {
	list
	idle chan struct{}
}

func (p *patient) Idle(context.Context) error {
	select {
	case p.idle <- struct{}{}:
	default:
	}
	return nil
}

func TestIdle(t *testing.T) {
	store := memory.New()
	defer store.Close()
	sink := &patient{idle: make(chan struct{}, 1)}
	f := report.Follow(store, sink, report.FollowOptions{Poll: time.Millisecond})
	defer f.Close()
	<-sink.idle
	add(t, store, "a")
	<-sink.idle
	<-sink.idle
	if err := f.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// unreadable is a journal whose tail cannot be read.
type unreadable struct{ journal.Store }

func (unreadable) Tail(context.Context, journal.Pos) iter.Seq2[journal.Appended, error] {
	return func(yield func(journal.Appended, error) bool) { yield(journal.Appended{}, journal.ErrCorrupt) }
}

func TestAJournalThatCannotBeRead(t *testing.T) {
	store := memory.New()
	defer store.Close()
	add(t, store, "a")
	f := report.Follow(unreadable{store}, &list{}, report.FollowOptions{Poll: time.Hour, Log: slog.New(slog.DiscardHandler)})
	defer f.Close()
	if err := f.Flush(t.Context()); !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}
