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
	"sync/atomic"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/memorytest"
	"github.com/espalier-run/espalier/internal/report"
)

// list is a sink that records calls, and fails where a test configures it.
type list struct {
	mu   sync.Mutex
	got  []journal.RunID
	fail map[journal.RunID]error
}

func (l *list) Record(_ context.Context, appends ...journal.Appended) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var failed error
	for _, a := range appends {
		l.got = append(l.got, a.Run)
		failed = errors.Join(failed, l.fail[a.Run])
	}
	return failed
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
			Run: run, Fence: journal.FirstFence,
			Events: []journal.Event{{Seq: 1, At: 1, Fact: journal.RunStarted{Name: string(run)}}},
			Index:  &journal.Index{Status: journal.Running},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestFollowerDeliversAllAppendsInOrder(t *testing.T) {
	store := memorytest.New()
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

// A sink's error is logged at most once per second and returned by Flush, and later appends are still delivered.
func TestSinkErrorsDoNotStopTheFollower(t *testing.T) {
	store := memorytest.New()
	defer store.Close()
	broken := errors.New("broken")
	sink := &list{fail: map[journal.RunID]error{"a": broken, "b": broken}}
	var log bytes.Buffer
	f := report.Follow(store, sink, report.FollowOptions{
		Poll: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Now: func() time.Time { return time.Unix(50, 0) },
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

// patient is a sink that signals each call of Idle.
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

func TestIdleRunsWhenNothingIsAppended(t *testing.T) {
	store := memorytest.New()
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

// once is a journal that cannot be read at first.
type once struct {
	journal.Store
	failed atomic.Bool
}

func (o *once) Tail(ctx context.Context, after journal.Pos) iter.Seq2[journal.Appended, error] {
	if o.failed.CompareAndSwap(false, true) {
		return unreadable{}.Tail(ctx, after)
	}
	return o.Store.Tail(ctx, after)
}

// told is a log that closes a channel with its first line.
type told chan struct{}

func (c told) Write(p []byte) (int, error) {
	close(c)
	return len(p), nil
}

// Flush reads the journal again after an earlier read has failed.
func TestFlushRetriesAfterAReadError(t *testing.T) {
	store := memorytest.New()
	defer store.Close()
	add(t, store, "a")
	sink, warned := &list{}, make(told)
	f := report.Follow(&once{Store: store}, sink,
		report.FollowOptions{Poll: time.Hour, Log: slog.New(slog.NewTextHandler(warned, nil))})
	defer f.Close()
	<-warned
	if err := f.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if got := sink.all(); len(got) != 1 {
		t.Error(got)
	}
}

// unreadable is a journal whose tail cannot be read.
type unreadable struct{ journal.Store }

func (unreadable) Tail(context.Context, journal.Pos) iter.Seq2[journal.Appended, error] {
	return func(yield func(journal.Appended, error) bool) { yield(journal.Appended{}, journal.ErrCorrupt) }
}

func TestFlushReturnsReadErrors(t *testing.T) {
	store := memorytest.New()
	defer store.Close()
	add(t, store, "a")
	f := report.Follow(unreadable{store}, &list{},
		report.FollowOptions{Poll: time.Hour, Log: slog.New(slog.DiscardHandler)})
	defer f.Close()
	if err := f.Flush(t.Context()); !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}

// A follower without a saved position reaches the end of a journal whose newest
// run was removed, although it gets no append with the last position.
func TestFlushEndsWhenTheNewestRunWasRemoved(t *testing.T) {
	store := memorytest.New()
	defer store.Close()
	add(t, store, "a")
	err := journal.Append(t.Context(), store, journal.Batch{
		Run: "b", Fence: journal.FirstFence,
		Events: []journal.Event{
			{Seq: 1, At: 1, Fact: journal.RunStarted{}}, {Seq: 2, At: 1, Fact: journal.RunFinished{}},
		},
		Index: &journal.Index{Status: journal.Finished},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Remove(t.Context(), journal.Removal{}, "b"); err != nil {
		t.Fatal(err)
	}
	sink := &list{}
	f := report.Follow(store, sink, report.FollowOptions{Poll: time.Hour})
	defer f.Close()
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if err := f.Flush(ctx); err != nil {
			t.Error(err)
		}
		cancel()
	}
	if got := sink.all(); !slices.Equal(got, []journal.RunID{"a"}) {
		t.Error(got)
	}
}

// interrupted is a journal and a sink that are busy until following ends.
type interrupted struct {
	journal.Store
	list
	busy   chan struct{}
	inIdle bool
}

func (i *interrupted) wait(ctx context.Context) error {
	close(i.busy)
	<-ctx.Done()
	return ctx.Err()
}

func (i *interrupted) Tail(ctx context.Context, after journal.Pos) iter.Seq2[journal.Appended, error] {
	if i.inIdle {
		return i.Store.Tail(ctx, after)
	}
	return func(yield func(journal.Appended, error) bool) { yield(journal.Appended{}, i.wait(ctx)) }
}

func (i *interrupted) Idle(ctx context.Context) error { return i.wait(ctx) }

// Closing a follower while it reads or idles is no trouble to warn about: nothing
// is lost.
func TestClosingAFollowerDoesNotWarn(t *testing.T) {
	for _, inIdle := range []bool{false, true} {
		store := memorytest.New()
		defer store.Close()
		var log bytes.Buffer
		both := &interrupted{Store: store, busy: make(chan struct{}), inIdle: inIdle}
		f := report.Follow(both, both, report.FollowOptions{
			Poll: time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		<-both.busy
		f.Close()
		if log.Len() > 0 {
			t.Errorf("idle %t: %s", inIdle, log.String())
		}
	}
}
