package journaltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/journal"
)

// Subject is a kind of store.
type Subject struct {
	// Open opens the store that is kept in dir. It may be called more than once
	// for one dir if the store is Shared. Owners are dead unless they are alive
	// in the process group.
	Open func(t testing.TB, dir string, alive *Processes) journal.Store
	// Join makes the process of an owner alive, and Leave dead, in the eyes of a
	// store; nil if Processes is all that the store asks.
	Join, Leave func(t testing.TB, s journal.Store, o journal.Owner)
	// Owner returns the name under which the process of a Store owns runs; nil if a process may have any name.
	Owner func(s journal.Store) journal.Owner
	// Shared says that several Stores can be open on one dir.
	Shared bool
	// Durable says that opening again finds what was there.
	Durable bool
	// Tamper replaces what is stored of an append.
	Tamper func(t testing.TB, s journal.Store, dir string, at journal.Pos, body, hash []byte)
	// Encode is the form in which the store keeps events; nil is journal.Encode.
	Encode func(dst []byte, events []journal.Event) ([]byte, error)
	// Small leaves out the hundred thousand runs.
	Small bool
}

// encode returns events as the store keeps them.
func (s *Subject) encode(t testing.TB, events []journal.Event) []byte {
	t.Helper()
	encode := s.Encode
	if encode == nil {
		encode = journal.Encode
	}
	body, err := encode(nil, events)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Processes is the set of owners that are alive. Its methods may be called by
// several goroutines.
type Processes struct {
	mu    sync.Mutex
	alive map[journal.Owner]bool
}

// Dead reports whether an owner is not in the set.
func (p *Processes) Dead(o journal.Owner) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.alive[o]
}

func (p *Processes) set(o journal.Owner, alive bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive == nil {
		p.alive = map[journal.Owner]bool{}
	}
	p.alive[o] = alive
}

// group is the store of one test and the processes around it.
type group struct {
	journal.Store
	subject   *Subject
	processes *Processes
	dir       string
}

func (g *group) join(t testing.TB, o journal.Owner) {
	t.Helper()
	g.processes.set(o, true)
	if g.subject.Join != nil {
		g.subject.Join(t, g.Store, o)
	}
}

func (g *group) leave(t testing.TB, o journal.Owner) {
	t.Helper()
	g.processes.set(o, false)
	if g.subject.Leave != nil {
		g.subject.Leave(t, g.Store, o)
	}
}

// process returns the store of another process, and the owner that this process is.
func (g *group) process(t testing.TB, name string) (*group, journal.Owner) {
	t.Helper()
	other, me := *g, journal.Owner(name)
	if g.subject.Shared {
		other.Store = g.subject.Open(t, g.dir, g.processes)
		t.Cleanup(func() { other.Close() })
	}
	if g.subject.Owner != nil {
		return &other, g.subject.Owner(other.Store)
	}
	other.join(t, me)
	return &other, me
}

// Run runs the suite.
func Run(t *testing.T, subject Subject) {
	type promise struct {
		name string
		test func(*testing.T, *group)
	}
	tests := []promise{
		{"a run starts and continues", beginsAndGoesOn},
		{"every kind of value comes back", valuesComeBack},
		{"a run starts once", beginsOnce},
		{"malformed batches are refused", malformed},
		{"a batch follows the last event", followsLastEvent},
		{"an old fence is refused", oldFence},
		{"claiming", claiming},
		{"no process claims a run of Temporal", keepingTemporalRuns},
		{"releasing", releasing},
		{"the inbox is taken with the append", inboxTaken},
		{"a refused batch leaves nothing", refusedLeavesNothing},
		{"pending inboxes", pendingInboxes},
		{"finished runs accept no messages", finishedTakesNoMessages},
		{"due runs and the next wake time", due},
		{"the index", index},
		{"children", children},
		{"snapshots", snapshots},
		{"blobs", blobs},
		{"deleting", deleting},
		{"positions are never reused", positionsNeverReused},
		{"appends are chained", chained},
		{"changed appends break the chain", tampered},
		{"appends without a hash are covered by later ones", unhashed},
		{"removed runs leave tombstones", tombstones},
		{"archived runs are imported as they were", imports},
		{"a store is copied with its unfinished runs", copies},
		{"the tail is in commit order", tailOrder},
		{"reading after an event in the middle of an append", readingFromTheMiddle},
		{"changed", changed},
		{"follow", follow},
		{"many runs at once", manyAtOnce},
		{"appends of one caller stay in order", pipelined},
		{"done is never called by Append", doneElsewhere},
		{"one of many racing appends wins", racing},
		{"one of many racing claims wins", racingClaims},
		{"claims are linearizable", linearizableClaims},
		{"cancellation", cancellation},
		{"big batches", bigBatches},
		{"text with NUL and invalid UTF-8", anyText},
		{"inbox ids are in order", inboxOrder},
		{"claiming the next runs", claimingNext},
		{"registers change by compare-and-swap", registersSwap},
		{"registers are listed by prefix", registersList},
		{"one of many racing saves of a register wins", registersRace},
		{"closing", closing},
	}
	if subject.Shared {
		shared := func(test func(t *testing.T, a, b *group)) func(*testing.T, *group) {
			return func(t *testing.T, a *group) {
				b := &group{subject: &subject, processes: a.processes}
				b.Store = subject.Open(t, a.dir, a.processes)
				defer b.Close()
				test(t, a, b)
			}
		}
		tests = append(
			tests,
			promise{"two stores on one journal", shared(twoStores)},
			promise{"a reader of two writers misses nothing", shared(nothingMissed)},
			promise{"a writer that was taken for dead is refused", shared(takenForDead)},
			promise{"two stores claim different runs", shared(claimedOnce)},
			promise{"two stores share registers", shared(registersShared)},
		)
	}
	if !subject.Small {
		tests = append(tests, promise{"a great many runs", greatMany})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := &group{subject: &subject, processes: &Processes{}, dir: t.TempDir()}
			g.Store = subject.Open(t, g.dir, g.processes)
			defer g.Close()
			tt.test(t, g)
		})
	}
	if subject.Durable {
		t.Run("opening again", func(t *testing.T) { openingAgain(t, subject) })
	}
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, expected %v", err, want)
	}
}

func beginsAndGoesOn(t *testing.T, s *group) {
	start := Start("a", "me")
	Append(t, s, start)
	more := Steps("a", 1, 1, 3)
	Append(t, s, more)
	Append(t, s, Start("b", "me"))
	last := Steps("a", 1, 4, 1)
	Append(t, s, last)

	want := slices.Concat(start.Events, more.Events, last.Events)
	if diff := cmp.Diff(want, Events(t, s, "a", 0)); diff != "" {
		t.Error(diff)
	}
	for after := range journal.Seq(6) {
		if diff := cmp.Diff(want[after:], Events(t, s, "a", after), equalEmpty); diff != "" {
			t.Errorf("after %d: %s", after, diff)
		}
	}
	if got := Events(t, s, "b", 0); len(got) != 1 {
		t.Errorf("run b has %d events", len(got))
	}
	for _, err := range s.Events(t.Context(), "nobody", 0) {
		wantError(t, err, journal.ErrUnknownRun)
	}
}

var equalEmpty = cmp.Transformer("empty", func(e []journal.Event) []journal.Event {
	if len(e) == 0 {
		return nil
	}
	return e
})

func valuesComeBack(t *testing.T, s *group) {
	b := Start("a", "me")
	seven := 7
	b.Events = append(b.Events,
		journal.Event{Seq: 2, At: 1, Run: "child-of-a", Fact: journal.FrameOpened{
			Frame: "each/1", Step: "each", Index: 1,
			Vars:  map[string]journal.Value{"x": {JSON: []byte(`[1,"é"]`)}, "y": {Hash: "h", Size: 5}},
			Child: "child-of-a",
		}},
		journal.Event{Seq: 3, At: 2, Fact: journal.StepEntered{
			Place: journal.Place{Step: "s"}, Mode: "loop", Via: &seven,
		}},
		journal.Event{Seq: 4, At: 3, Fact: journal.GateDecided{
			Place: journal.Place{Step: "g"}, Outcome: "ok", By: journal.Actor{User: "u"}, Note: "a\nb\u2028\"\\",
		}},
		journal.Event{Seq: 5, At: 4, Fact: journal.Paused{}},
	)
	Append(t, s, b)
	if diff := cmp.Diff(b.Events, Events(t, s, "a", 0)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(b.Events, Tail(t, s, 0)[0].Events); diff != "" {
		t.Error(diff)
	}
}

func beginsOnce(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	wantError(t, journal.Append(t.Context(), s, Start("a", "you")), journal.ErrExists)
	e, err := s.Entry(t.Context(), "a")
	if err != nil || e.Owner != "me" {
		t.Errorf("owner %q, %v", e.Owner, err)
	}
	if got := Tail(t, s, 0); len(got) != 1 {
		t.Errorf("%d appends", len(got))
	}
}

func malformed(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	tests := map[string]journal.Batch{
		"no run":                  Start("", "me"),
		"a hole":                  {Run: "a", Fence: 1, After: 1, Events: Steps("a", 1, 2, 1).Events},
		"no RunStarted":           Steps("b", 1, 0, 2),
		"no events at the start":  {Run: "b", Fence: 1},
		"another first fence":     {Run: "b", Fence: 2, Events: Start("b", "me").Events},
		"a child of another run":  {Run: "a", Fence: 1, After: 1, Children: []journal.Entry{{ID: "c", Root: "b"}}},
		"a run that is its child": {Run: "a", Fence: 1, After: 1, Children: []journal.Entry{{ID: "a", Root: "a"}}},
		"JSON that is none": {Run: "a", Fence: 1, After: 1, Events: []journal.Event{{
			Seq: 2, Fact: journal.TaskNoted{Data: []byte("{")},
		}}},
		"JSON that is none, slowly": {Run: "a", Fence: 1, After: 1, Events: []journal.Event{{
			Seq: 2, Fact: journal.StateEdited{Value: journal.Value{JSON: []byte("{")}},
		}}},
	}
	for name, b := range tests {
		if err := journal.Append(t.Context(), s, b); !errors.Is(err, journal.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := Tail(t, s, 0); len(got) != 1 {
		t.Errorf("%d appends", len(got))
	}
}

func followsLastEvent(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	Append(t, s, Steps("a", 1, 1, 2))
	for _, after := range []journal.Seq{1, 2, 4} {
		wantError(t, journal.Append(t.Context(), s, Steps("a", 1, after, 1)), journal.ErrConflict)
	}
	wantError(t, journal.Append(t.Context(), s, Steps("nobody", 1, 1, 1)), journal.ErrUnknownRun)
	Append(t, s, Steps("a", 1, 3, 1))
	if got := Events(t, s, "a", 0); len(got) != 4 {
		t.Errorf("%d events", len(got))
	}
}

func oldFence(t *testing.T, s *group) {
	Append(t, s, Start("a", "old"))
	c, err := s.Claim(t.Context(), "a", "new")
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, journal.Append(t.Context(), s, Steps("a", 1, 1, 1)), journal.ErrConflict)
	wantError(
		t, journal.Append(t.Context(), s, journal.Batch{Run: "a", Fence: 1, After: 1, Release: true}),
		journal.ErrConflict,
	)
	wantError(t, journal.Append(t.Context(), s, Steps("a", c.Fence+1, 1, 1)), journal.ErrConflict)
	Append(t, s, Steps("a", c.Fence, 1, 1))
	if e, err := s.Entry(t.Context(), "a"); err != nil || e.Owner != "new" || e.Seq != 2 {
		t.Errorf("%+v, %v", e, err)
	}
}

func claiming(t *testing.T, s *group) {
	ctx := t.Context()
	def := Definition("a program")
	b := Start("a", "first")
	b.Events[0].Fact = journal.RunStarted{Name: "demo", Definition: def.Hash}
	b.Blobs = []journal.Blob{def}
	Append(t, s, b)
	Append(t, s, Steps("a", 1, 1, 2))

	mine, err := s.Claim(ctx, "a", "first")
	if diff := cmp.Diff(journal.Claim{Fence: 1, Seq: 3, Definition: def.Hash}, mine); err != nil || diff != "" {
		t.Fatalf("%v %s", err, diff)
	}

	var owned *journal.OwnedError
	s.join(t, "first")
	if _, err := s.Claim(ctx, "a", "second"); !errors.As(err, &owned) || owned.Owner != "first" {
		t.Fatalf("a living owner gave way: %v", err)
	}
	s.leave(t, "first")
	c, err := s.Claim(ctx, "a", "second")
	if err != nil || c.Fence <= 1 || c.Seq != 3 || c.Definition != def.Hash {
		t.Fatalf("%+v, %v", c, err)
	}
	again, err := s.Claim(ctx, "a", "second")
	if err != nil || again != c {
		t.Fatalf("claiming again gave %+v, %v", again, err)
	}
	if _, err := s.Claim(ctx, "nobody", "me"); !errors.Is(err, journal.ErrUnknownRun) {
		t.Fatal(err)
	}
}

// keepingTemporalRuns tests that workers append to runs of Temporal without a claim: no live process
// owns these runs.
func keepingTemporalRuns(t *testing.T, s *group) {
	ctx := t.Context()
	Append(t, s, Start("a", journal.Temporal))
	if _, owned := errors.AsType[*journal.OwnedError](second(s.Claim(ctx, "a", "me"))); !owned {
		t.Error("a process has claimed the run")
	}
	ids, err := s.ClaimNext(ctx, "me", 10, func(journal.RunID) bool { return false })
	if err != nil || len(ids) > 0 {
		t.Errorf("a process has claimed %v, %v", ids, err)
	}
	Append(t, s, Steps("a", journal.FirstFence, 1, 2))
	if e, err := s.Entry(ctx, "a"); err != nil || e.Owner != journal.Temporal || e.Seq != 3 {
		t.Errorf("%+v, %v", e, err)
	}
	c, err := s.Renew(ctx, "a", journal.Temporal)
	if err != nil || c.Fence <= journal.FirstFence || c.Seq != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	if again, err := s.Claim(ctx, "a", journal.Temporal); err != nil || again != c {
		t.Errorf("claiming again gave %+v, %v", again, err)
	}
	wantError(t, journal.Append(ctx, s, Steps("a", journal.FirstFence, 3, 1)), journal.ErrConflict)
	Append(t, s, Steps("a", c.Fence, 3, 1))
	// A batch without content checks the fence.
	wantError(t, journal.Append(ctx, s, journal.Batch{Run: "a", Fence: 1, After: 4}), journal.ErrConflict)
	Append(t, s, journal.Batch{Run: "a", Fence: c.Fence, After: 4})
	if _, owned := errors.AsType[*journal.OwnedError](second(s.Renew(ctx, "a", "me"))); !owned {
		t.Error("a process has renewed the claim of another one")
	}
}

func second[T any](_ T, err error) error { return err }

func releasing(t *testing.T, s *group) {
	Append(t, s, Start("a", "first"))
	b := Steps("a", 1, 1, 1)
	b.Release = true
	Append(t, s, b)
	if e, err := s.Entry(t.Context(), "a"); err != nil || e.Owner != "" || e.Seq != 2 {
		t.Fatalf("%+v, %v", e, err)
	}
	wantError(t, journal.Append(t.Context(), s, Steps("a", 1, 2, 1)), journal.ErrConflict)
	c, err := s.Claim(t.Context(), "a", "second")
	if err != nil || c.Fence <= 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	before := len(Tail(t, s, 0))
	Append(t, s, journal.Batch{Run: "a", Fence: c.Fence, After: 2, Release: true})
	if e, err := s.Entry(t.Context(), "a"); err != nil || e.Owner != "" || e.Seq != 2 {
		t.Fatalf("%+v, %v", e, err)
	}
	if got := len(Tail(t, s, 0)); got != before {
		t.Errorf("an append without events shows in the tail")
	}
}

func post(t testing.TB, s journal.Store, run journal.RunID, kind string) {
	t.Helper()
	if _, err := s.Enqueue(
		context.Background(), run, journal.Message{Kind: kind, Data: []byte(`"` + kind + `"`), At: 5},
	); err != nil {
		t.Fatal(err)
	}
}

func inbox(t testing.TB, s journal.Store, run journal.RunID) (kinds []string, ids []journal.InboxID) {
	t.Helper()
	posted, err := s.Inbox(context.Background(), run)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range posted {
		kinds, ids = append(kinds, p.Kind), append(ids, p.ID)
		if string(p.Data) != `"`+p.Kind+`"` || p.At != 5 {
			t.Errorf("message %+v", p)
		}
	}
	return kinds, ids
}

func inboxTaken(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	Append(t, s, Start("b", "me"))
	owner, err := s.Enqueue(t.Context(), "a", journal.Message{Kind: "one", Data: []byte(`"one"`), At: 5})
	if err != nil || owner != "me" {
		t.Fatalf("owner %q, %v", owner, err)
	}
	post(t, s, "b", "other")
	post(t, s, "a", "two")
	post(t, s, "a", "three")
	kinds, ids := inbox(t, s, "a")
	if !slices.Equal(kinds, []string{"one", "two", "three"}) {
		t.Fatalf("inbox %q", kinds)
	}
	_, others := inbox(t, s, "b")

	// A conflict takes nothing.
	b := Steps("a", 1, 7, 1)
	b.Taken = ids[:2]
	wantError(t, journal.Append(t.Context(), s, b), journal.ErrConflict)
	if kinds, _ := inbox(t, s, "a"); len(kinds) != 3 {
		t.Fatalf("inbox %q", kinds)
	}
	b = Steps("a", 1, 1, 1)
	b.Taken = ids[:2]
	Append(t, s, b)
	if kinds, _ := inbox(t, s, "a"); !slices.Equal(kinds, []string{"three"}) {
		t.Fatalf("inbox %q", kinds)
	}
	// No message is taken twice, or from another run's inbox.
	for _, taken := range [][]journal.InboxID{{ids[2], ids[0]}, {ids[2], others[0]}} {
		b = Steps("a", 1, 2, 1)
		b.Taken = taken
		wantError(t, journal.Append(t.Context(), s, b), journal.ErrConflict)
	}
	if kinds, _ := inbox(t, s, "a"); !slices.Equal(kinds, []string{"three"}) {
		t.Fatalf("inbox %q", kinds)
	}
	if kinds, _ := inbox(t, s, "b"); !slices.Equal(kinds, []string{"other"}) {
		t.Fatalf("inbox of b %q", kinds)
	}
	if got := Events(t, s, "a", 0); len(got) != 2 {
		t.Errorf("%d events", len(got))
	}
	_, err = s.Enqueue(t.Context(), "nobody", journal.Message{Kind: "x"})
	wantError(t, err, journal.ErrUnknownRun)
	_, err = s.Inbox(t.Context(), "nobody")
	wantError(t, err, journal.ErrUnknownRun)
}

// refusedLeavesNothing tests that every part of a batch is undone when a late part is refused, and
// that the batches beside it are not.
func refusedLeavesNothing(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	Append(t, s, Start("b", "me"))
	Append(t, s, Start("taken", "me"))
	def := Definition("something")
	everything := func() journal.Batch {
		b := Steps("a", 1, 1, 3)
		b.Index = &journal.Index{Status: journal.Waiting, Wake: 77, Waiting: journal.Wait{Name: "for you"}}
		b.Children = []journal.Entry{{ID: "child", Root: "a", Parent: "a"}}
		b.Blobs = []journal.Blob{def}
		b.Snapshot = []byte("state")
		b.Release = true
		return b
	}
	noMessage := everything()
	noMessage.Taken = []journal.InboxID{12345}
	notAChild := everything()
	notAChild.Children = append(notAChild.Children, journal.Entry{ID: "taken", Root: "a", Parent: "a"})
	unknown := Start("c", "me")
	unknown.Events[0].Fact = journal.RunStarted{Definition: "0000"}
	unknown.Children = []journal.Entry{{ID: "child", Root: "c"}}
	unknown.Blobs = []journal.Blob{def}

	before, err := s.Entry(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	refused := []struct {
		batch journal.Batch
		why   error
	}{{noMessage, journal.ErrConflict}, {notAChild, journal.ErrExists}, {unknown, journal.ErrUnknownBlob}}
	outcomes := make(chan error, 2*len(refused))
	for i, r := range refused {
		s.Append(r.batch, func(err error) {
			if !errors.Is(err, r.why) {
				outcomes <- fmt.Errorf("got %v, expected %v", err, r.why)
				return
			}
			outcomes <- nil
		})
		s.Append(Steps("b", 1, journal.Seq(i)+1, 1), func(err error) { outcomes <- err })
	}
	for range cap(outcomes) {
		if err := <-outcomes; err != nil {
			t.Error(err)
		}
	}
	after, err := s.Entry(t.Context(), "a")
	if diff := cmp.Diff(before, after); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if got := Events(t, s, "a", 0); len(got) != 1 {
		t.Errorf("%d events", len(got))
	}
	if got := Events(t, s, "b", 0); len(got) != 1+len(refused) {
		t.Errorf("run b has %d events", len(got))
	}
	if _, state, err := s.Snapshot(t.Context(), "a"); err != nil || state != nil {
		t.Errorf("snapshot %q, %v", state, err)
	}
	for _, id := range []journal.RunID{"c", "child"} {
		_, err := s.Entry(t.Context(), id)
		wantError(t, err, journal.ErrUnknownRun)
	}
	_, err = s.Blob(t.Context(), def.Hash)
	wantError(t, err, journal.ErrUnknownBlob)
	if got := len(Tail(t, s, 0)); got != 3+len(refused) {
		t.Errorf("%d appends in the tail", got)
	}
}

func pendingInboxes(t *testing.T, s *group) {
	for _, id := range []journal.RunID{"a", "b", "c"} {
		Append(t, s, Start(id, "me-"+journal.Owner(id)))
	}
	post(t, s, "c", "x")
	post(t, s, "a", "x")
	post(t, s, "c", "y")
	Append(t, s, journal.Batch{Run: "a", Fence: 1, After: 1, Release: true})
	boxes, err := s.PendingInboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(boxes, func(x, y journal.PendingInbox) int { return cmpString(x.Run, y.Run) })
	if diff := cmp.Diff([]journal.PendingInbox{{Run: "a"}, {Run: "c", Owner: "me-c"}}, boxes); diff != "" {
		t.Error(diff)
	}
}

func cmpString(a, b journal.RunID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func finishedTakesNoMessages(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	post(t, s, "a", "late")
	Append(t, s, Finish("a", 1, 1))
	_, err := s.Enqueue(t.Context(), "a", journal.Message{Kind: "later"})
	wantError(t, err, journal.ErrFinished)
	if boxes, err := s.PendingInboxes(t.Context()); err != nil || len(boxes) != 0 {
		t.Errorf("%v, %v", boxes, err)
	}
}

func due(t *testing.T, s *group) {
	wake := func(run journal.RunID, at journal.Millis) {
		Append(t, s, Start(run, "owner-of-"+journal.Owner(run)))
		b := Steps(run, 1, 1, 1)
		b.Index = &journal.Index{Status: journal.Waiting, Wake: at}
		Append(t, s, b)
	}
	want := func(now journal.Millis, next journal.Millis, runs ...journal.RunID) {
		t.Helper()
		got, at, err := s.Due(t.Context(), now)
		if err != nil || at != next || !slices.Equal(got, runs) {
			t.Errorf("at %d: got %q, next %d, %v; expected %q, next %d", now, got, at, err, runs, next)
		}
	}
	want(100, 0)
	wake("a", 300)
	wake("b", 100)
	wake("c", 0)
	wake("d", 200)
	want(99, 100)
	want(100, 200, "b")
	want(250, 300, "b", "d")
	want(300, 0, "b", "d", "a")

	// Owners come and go; a sleeping run stays due.
	if _, err := s.Claim(t.Context(), "b", "other"); err != nil {
		t.Fatal(err)
	}
	want(100, 200, "b")
	// An append that says nothing of the index keeps the time; one that does, changes it.
	Append(t, s, Steps("d", 1, 2, 1))
	want(250, 300, "b", "d")
	b := Steps("d", 1, 3, 1)
	b.Index = &journal.Index{Status: journal.Running}
	Append(t, s, b)
	want(250, 300, "b")
	done := Finish("a", 1, 2)
	done.Index.Wake = 300
	Append(t, s, done)
	want(400, 0, "b")
}

func index(t *testing.T, s *group) {
	def := Definition("a program")
	b := Start("run-1", "me")
	b.Events[0].Fact = journal.RunStarted{Name: "demo", Format: "demo-format", Definition: def.Hash}
	b.Blobs = []journal.Blob{def}
	Append(t, s, b)
	want := journal.Entry{
		ID: "run-1", Name: "demo", Format: "demo-format", Definition: def.Hash, Started: 1000, Updated: 1000, Seq: 1,
		Owner: "me",
		Index: journal.Index{Status: journal.Running},
	}
	entry := func() journal.Entry {
		t.Helper()
		e, err := s.Entry(t.Context(), "run-1")
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	if diff := cmp.Diff(want, entry()); diff != "" {
		t.Error(diff)
	}
	b = Steps("run-1", 1, 1, 2)
	b.Index = &journal.Index{Status: journal.Waiting, Wake: 9000, Waiting: journal.ParseWait("approval: step2 (+2)")}
	Append(t, s, b)
	want.Seq, want.Updated, want.Index = 3, 1003, *b.Index
	if diff := cmp.Diff(want, entry()); diff != "" {
		t.Error(diff)
	}
	Append(t, s, Steps("run-1", 1, 3, 1))
	want.Seq, want.Updated = 4, 1004
	if diff := cmp.Diff(want, entry()); diff != "" {
		t.Error(diff)
	}

	// The definition is there, so another run need not bring it.
	b = Start("run-2", "me")
	b.Events[0].Fact = journal.RunStarted{Name: "other", Definition: def.Hash}
	Append(t, s, b)
	Append(t, s, Start("rum-3", "me"))
	Append(t, s, Finish("rum-3", 1, 1))
	lists := []struct {
		filter journal.Filter
		want   []journal.RunID
	}{
		{journal.Filter{}, []journal.RunID{"rum-3", "run-2", "run-1"}},
		{journal.Filter{Limit: 2}, []journal.RunID{"rum-3", "run-2"}},
		{journal.Filter{Before: "rum-3"}, []journal.RunID{"run-2", "run-1"}},
		{journal.Filter{Before: "run-2", Limit: 2}, []journal.RunID{"run-1"}},
		{journal.Filter{Before: "run-1"}, nil},
		{journal.Filter{Status: journal.Running}, []journal.RunID{"run-2"}},
		{journal.Filter{Status: journal.Finished}, []journal.RunID{"rum-3"}},
		{journal.Filter{Unfinished: true}, []journal.RunID{"run-2", "run-1"}},
		{journal.Filter{Unfinished: true, Limit: 1}, []journal.RunID{"run-2"}},
		{journal.Filter{Unfinished: true, Status: journal.Finished}, nil},
		{journal.Filter{Name: "demo"}, []journal.RunID{"rum-3", "run-1"}},
		{journal.Filter{Prefix: "run"}, []journal.RunID{"run-2", "run-1"}},
		{journal.Filter{Prefix: "run-1"}, []journal.RunID{"run-1"}},
		{journal.Filter{Prefix: "run-1-"}, nil},
		{journal.Filter{Prefix: "run", Status: journal.Waiting}, []journal.RunID{"run-1"}},
		{journal.Filter{Prefix: "r%"}, nil},
		{journal.Filter{Outcome: "ok"}, []journal.RunID{"rum-3"}},
		{journal.Filter{Outcome: "failed"}, nil},
		{journal.Filter{Text: "the"}, []journal.RunID{"run-2"}},
		{journal.Filter{Text: "rum"}, []journal.RunID{"rum-3"}},
		{journal.Filter{Text: "un-"}, nil},
		{journal.Filter{Text: "%"}, nil},
		{journal.Filter{Since: 1000, Limit: 1}, []journal.RunID{"rum-3"}},
		{journal.Filter{Since: 1001}, nil},
		{journal.Filter{Until: 1001}, []journal.RunID{"rum-3", "run-2", "run-1"}},
		{journal.Filter{Until: 1000}, nil},
	}
	for _, l := range lists {
		if got := Runs(t, s, l.filter); !slices.Equal(got, l.want) {
			t.Errorf("%+v: %q, expected %q", l.filter, got, l.want)
		}
	}
	for e, err := range s.Runs(t.Context(), journal.Filter{Prefix: "run-1"}) {
		if diff := cmp.Diff(want, e); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
	for range s.Runs(t.Context(), journal.Filter{}) {
		break // stopping early is allowed
	}
	_, err := s.Entry(t.Context(), "nobody")
	wantError(t, err, journal.ErrUnknownRun)
	for _, err = range s.Runs(t.Context(), journal.Filter{Before: "nobody"}) {
		break
	}
	wantError(t, err, journal.ErrUnknownRun)
}

func children(t *testing.T, s *group) {
	Append(t, s, Start("root", "me"))
	child := journal.Entry{
		ID: "child", Root: "root", Parent: "root", Name: "sub", Format: "demo-format", Definition: "d", Started: 5,
		Updated: 6, Seq: 2,
		Index: journal.Index{Status: journal.Running},
	}
	b := Steps("root", 1, 1, 1)
	b.Children = []journal.Entry{child, {
		ID: "grandchild", Root: "root", Parent: "child", Index: journal.Index{Status: journal.Waiting, Wake: 50},
	}}
	Append(t, s, b)
	Append(t, s, Start("later", "me"))
	if e, err := s.Entry(t.Context(), "child"); err != nil || !cmp.Equal(child, e) {
		t.Errorf("%v %s", err, cmp.Diff(child, e))
	}
	child.Index = journal.Index{Status: journal.Finished, Outcome: "failed"}
	child.Updated, child.Seq = 9, 3
	b = Steps("root", 1, 2, 1)
	b.Children = []journal.Entry{child}
	Append(t, s, b)
	if e, err := s.Entry(t.Context(), "child"); err != nil || !cmp.Equal(child, e) {
		t.Errorf("%v %s", err, cmp.Diff(child, e))
	}
	lists := []struct {
		filter journal.Filter
		want   []journal.RunID
	}{
		{journal.Filter{}, []journal.RunID{"later", "root"}},
		{journal.Filter{Children: true}, []journal.RunID{"later", "grandchild", "child", "root"}},
		{journal.Filter{Root: "root"}, []journal.RunID{"grandchild", "child"}},
		{journal.Filter{Root: "root", Unfinished: true}, []journal.RunID{"grandchild"}},
		{journal.Filter{Root: "later"}, nil},
		{journal.Filter{Prefix: "grand"}, nil},
		{journal.Filter{Prefix: "grand", Children: true}, []journal.RunID{"grandchild"}},
	}
	for _, l := range lists {
		if got := Runs(t, s, l.filter); !slices.Equal(got, l.want) {
			t.Errorf("%+v: %q, expected %q", l.filter, got, l.want)
		}
	}
	// A child's time is kept by its root.
	if ids, next, err := s.Due(t.Context(), 100); err != nil || len(ids) != 0 || next != 0 {
		t.Errorf("%q, %d, %v", ids, next, err)
	}

	wantChild := func(err error) {
		t.Helper()
		var is *journal.ChildError
		if !errors.As(err, &is) || is.Root != "root" {
			t.Errorf("a child was taken for a root: %v", err)
		}
	}
	_, err := s.Claim(t.Context(), "grandchild", "me")
	wantChild(err)
	_, err = s.Enqueue(t.Context(), "child", journal.Message{Kind: "x"})
	wantChild(err)
	_, err = s.Inbox(t.Context(), "child")
	wantChild(err)
	wantChild(journal.Append(t.Context(), s, Steps("child", 1, 3, 1)))
	wantChild(s.Remove(t.Context(), journal.Removal{}, "child"))
	_, _, err = s.Snapshot(t.Context(), "child")
	wantChild(err)
	for _, err := range s.Events(t.Context(), "child", 0) {
		wantChild(err)
	}
	wantError(t, journal.Append(t.Context(), s, Start("child", "me")), journal.ErrExists)
}

func snapshots(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	if seq, state, err := s.Snapshot(t.Context(), "a"); seq != 0 || state != nil || err != nil {
		t.Errorf("%d %q %v", seq, state, err)
	}
	for i, text := range []string{"one", "two"} {
		b := Steps("a", 1, journal.Seq(1+2*i), 2)
		b.Snapshot = []byte(text)
		Append(t, s, b)
		if seq, state, err := s.Snapshot(t.Context(), "a"); seq != journal.Seq(3+2*i) || string(state) != text ||
			err != nil {
			t.Errorf("%d %q %v", seq, state, err)
		}
	}
	Append(t, s, Steps("a", 1, 5, 4))
	seq, state, err := s.Snapshot(t.Context(), "a")
	if seq != 5 || string(state) != "two" || err != nil {
		t.Errorf("%d %q %v", seq, state, err)
	}
	if got := Events(t, s, "a", seq); len(got) != 4 {
		t.Errorf("%d events after the snapshot", len(got))
	}
	_, _, err = s.Snapshot(t.Context(), "nobody")
	wantError(t, err, journal.ErrUnknownRun)
}

func blobs(t *testing.T, s *group) {
	one, two := Definition("one"), Definition(string(make([]byte, 1<<20)))
	b := Start("a", "me")
	b.Blobs = []journal.Blob{one, two, one}
	Append(t, s, b)
	b = Steps("a", 1, 1, 1)
	b.Blobs = []journal.Blob{one}
	Append(t, s, b)
	for _, want := range []journal.Blob{one, two} {
		got, err := s.Blob(t.Context(), want.Hash)
		if err != nil || string(got) != string(want.Data) {
			t.Errorf("%d bytes of %d, %v", len(got), len(want.Data), err)
		}
	}
	_, err := s.Blob(t.Context(), "0000")
	wantError(t, err, journal.ErrUnknownBlob)
}

func deleting(t *testing.T, s *group) {
	ctx := t.Context()
	shared, own, def := Definition("shared"), Definition("own"), Definition("definition")
	for _, id := range []journal.RunID{"a", "b"} {
		b := Start(id, "me")
		b.Events[0].Fact = journal.RunStarted{Name: "demo", Definition: def.Hash}
		b.Blobs = []journal.Blob{shared, def}
		Append(t, s, b)
	}
	b := Steps("a", 1, 1, 1)
	b.Blobs = []journal.Blob{own}
	b.Children = []journal.Entry{{ID: "child-of-a", Root: "a", Parent: "a"}}
	b.Snapshot = []byte("x")
	Append(t, s, b)
	post(t, s, "a", "x")
	wantError(t, s.Remove(ctx, journal.Removal{}, "a"), journal.ErrUnfinished)
	Append(t, s, Steps("b", 1, 1, 2))
	Append(t, s, Finish("a", 1, 2))
	wantError(t, s.Remove(ctx, journal.Removal{}, "nobody"), journal.ErrUnknownRun)
	if err := s.Remove(ctx, journal.Removal{}, "a"); err != nil {
		t.Fatal(err)
	}

	for _, id := range []journal.RunID{"a", "child-of-a"} {
		_, err := s.Entry(ctx, id)
		wantError(t, err, journal.ErrUnknownRun)
	}
	for _, a := range Tail(t, s, 0) {
		if a.Run != "b" {
			t.Errorf("append %d of run %q is left", a.Pos, a.Run)
		}
	}
	if got := Events(t, s, "b", 0); len(got) != 3 {
		t.Errorf("run b has %d events", len(got))
	}
	for _, kept := range []journal.Blob{shared, def} {
		if _, err := s.Blob(ctx, kept.Hash); err != nil {
			t.Errorf("%q: %v", kept.Data, err)
		}
	}
	_, err := s.Blob(ctx, own.Hash)
	wantError(t, err, journal.ErrUnknownBlob)

	// The id is free again, and begins with an empty inbox and no snapshot.
	Append(t, s, Start("a", "me"))
	if kinds, _ := inbox(t, s, "a"); len(kinds) != 0 {
		t.Errorf("inbox %q", kinds)
	}
	if _, state, err := s.Snapshot(ctx, "a"); err != nil || state != nil {
		t.Errorf("snapshot %q, %v", state, err)
	}
	// Likewise when it was the newest run that went.
	post(t, s, "a", "x")
	b = Finish("a", 1, 1)
	b.Snapshot = []byte("x")
	Append(t, s, b)
	if err := s.Remove(ctx, journal.Removal{}, "a"); err != nil {
		t.Fatal(err)
	}
	Append(t, s, Start("a", "me"))
	if kinds, _ := inbox(t, s, "a"); len(kinds) != 0 {
		t.Errorf("inbox %q", kinds)
	}
	if _, state, err := s.Snapshot(ctx, "a"); err != nil || state != nil {
		t.Errorf("snapshot %q, %v", state, err)
	}
	Append(t, s, Finish("a", 1, 1))
	Append(t, s, Finish("b", 1, 3))
	if err := s.Remove(ctx, journal.Removal{}, "a", "b"); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []journal.Blob{shared, def} {
		_, err := s.Blob(ctx, gone.Hash)
		wantError(t, err, journal.ErrUnknownBlob)
	}
}

func positionsNeverReused(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	Append(t, s, Finish("a", 1, 1))
	before, err := s.Last(t.Context())
	if err != nil || before == 0 {
		t.Fatalf("%d, %v", before, err)
	}
	if err := s.Remove(t.Context(), journal.Removal{}, "a"); err != nil {
		t.Fatal(err)
	}
	if last, err := s.Last(t.Context()); err != nil || last < before {
		t.Errorf("last went from %d to %d, %v", before, last, err)
	}
	Append(t, s, Start("b", "me"))
	got := Tail(t, s, before)
	if len(got) != 1 || got[0].Run != "b" {
		t.Errorf("a reader that had read up to %d sees %+v", before, got)
	}
}

func tailOrder(t *testing.T, s *group) {
	if last, err := s.Last(t.Context()); err != nil || last != 0 {
		t.Errorf("last of an empty store: %d, %v", last, err)
	}
	var want []journal.RunID
	for i := range 700 {
		id := journal.RunID(fmt.Sprint("run-", i%7))
		if seq := journal.Seq(i / 7); seq == 0 {
			Append(t, s, Start(id, "me"))
		} else {
			Append(t, s, Steps(id, 1, seq, 1))
		}
		want = append(want, id)
	}
	all := Tail(t, s, 0)
	if len(all) != len(want) {
		t.Fatalf("%d appends of %d", len(all), len(want))
	}
	for i, a := range all {
		if a.Run != want[i] || len(a.Events) != 1 || a.Events[0].Seq != journal.Seq(i/7+1) {
			t.Fatalf("append %d is %+v", i, a)
		}
	}
	if last, err := s.Last(t.Context()); err != nil || last != all[699].Pos {
		t.Errorf("last is %d, %v", last, err)
	}
	if got := Tail(t, s, all[300].Pos); len(got) != 399 || got[0].Pos != all[301].Pos {
		t.Errorf("%d appends after the 301st", len(got))
	}
	if got := Tail(t, s, all[699].Pos); len(got) != 0 {
		t.Errorf("%d appends after the last", len(got))
	}
	// A reader may append while it reads.
	n := 0
	for _, err := range s.Tail(t.Context(), all[600].Pos) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n < 5 {
			Append(t, s, Steps("run-0", 1, 99+journal.Seq(n), 1))
		}
		if n == 50 {
			break
		}
	}
}

func readingFromTheMiddle(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	Append(t, s, Steps("a", 1, 1, 10))
	Append(t, s, Steps("a", 1, 11, 10))
	for after := range journal.Seq(22) {
		if got := Events(t, s, "a", after); len(got) != int(21-after) {
			t.Errorf("after %d: %d events", after, len(got))
		}
	}
}

func changed(t *testing.T, s *group) {
	first, second := s.Changed(), s.Changed()
	select {
	case <-first:
		t.Fatal("nothing has changed yet")
	default:
	}
	Append(t, s, Start("a", "me"))
	<-first
	<-second
	third := s.Changed()
	select {
	case <-third:
		t.Fatal("nothing has changed since")
	default:
	}
	Append(t, s, Steps("a", 1, 1, 1))
	<-third
}

func follow(t *testing.T, s *group) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const n = 100
	var wg sync.WaitGroup
	wg.Go(func() {
		Append(t, s, Start("a", "me"))
		for i := range n - 1 {
			Append(t, s, Steps("a", 1, journal.Seq(i+1), 1))
		}
	})
	seen := 0
	for a, err := range journal.Follow(ctx, s, 0, time.Hour) {
		if err != nil {
			wantError(t, err, context.Canceled)
			break
		}
		if seen++; a.Events[0].Seq != journal.Seq(seen) {
			t.Fatalf("event %d is number %d", a.Events[0].Seq, seen)
		}
		if seen == n {
			cancel()
		}
	}
	if seen != n {
		t.Errorf("saw %d of %d", seen, n)
	}
	wg.Wait()
}

func manyAtOnce(t *testing.T, s *group) {
	const runs, steps = 64, 20
	var wg sync.WaitGroup
	for i := range runs {
		id := journal.RunID(fmt.Sprintf("run-%02d", i))
		wg.Go(func() {
			if err := journal.Append(context.Background(), s, Start(id, "me")); err != nil {
				t.Error(err)
			}
			for n := range steps {
				if err := journal.Append(context.Background(), s, Steps(id, 1, journal.Seq(1+2*n), 2)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range runs {
		if got := Events(t, s, journal.RunID(fmt.Sprintf("run-%02d", i)), 0); len(got) != 1+2*steps {
			t.Errorf("run %d has %d events", i, len(got))
		}
	}
	if got := len(Tail(t, s, 0)); got != runs*(steps+1) {
		t.Errorf("%d appends in the tail", got)
	}
}

func pipelined(t *testing.T, s *group) {
	const n = 200
	outcomes := make(chan int, n)
	for i := range n {
		b := Start("a", "me")
		if i > 0 {
			b = Steps("a", 1, journal.Seq(i), 1)
		}
		s.Append(b, func(err error) {
			if err != nil {
				t.Errorf("append %d: %v", i, err)
			}
			outcomes <- i
		})
	}
	for i := range n {
		if got := <-outcomes; got != i {
			t.Fatalf("append %d was reported in place of %d", got, i)
		}
	}
	if got := Events(t, s, "a", 0); len(got) != n {
		t.Errorf("%d events", len(got))
	}
}

// doneElsewhere tests that done runs on another goroutine: the engine calls Append while it holds
// the lock that done takes.
func doneElsewhere(t *testing.T, s *group) {
	var lock sync.Mutex
	finished := make(chan struct{})
	lock.Lock()
	for _, b := range []journal.Batch{Start("a", "me"), Start("", "me"), Steps("a", 1, 9, 1)} {
		s.Append(b, func(error) {
			lock.Lock()
			defer lock.Unlock()
			finished <- struct{}{}
		})
	}
	lock.Unlock()
	for range 3 {
		<-finished
	}
	// And done may append.
	s.Append(Steps("a", 1, 1, 1), func(error) {
		s.Append(Steps("a", 1, 2, 1), func(err error) {
			if err != nil {
				t.Error(err)
			}
			close(finished)
		})
	})
	<-finished
}

func racing(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			switch err := journal.Append(context.Background(), s, Steps("a", 1, 1, 2)); {
			case err == nil:
				won.Add(1)
			case errors.Is(err, journal.ErrConflict):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 31 {
		t.Errorf("%d won, %d lost", won.Load(), lost.Load())
	}
	if got := Events(t, s, "a", 0); len(got) != 3 {
		t.Errorf("%d events", len(got))
	}
}

func racingClaims(t *testing.T, s *group) {
	Append(t, s, Start("a", "gone"))
	var winner atomic.Value
	var wg sync.WaitGroup
	for i := range 16 {
		me := journal.Owner(fmt.Sprint("owner-", i))
		s.join(t, me)
		wg.Go(func() {
			_, err := s.Claim(context.Background(), "a", me)
			var owned *journal.OwnedError
			switch {
			case err == nil:
				if old := winner.Swap(me); old != nil {
					t.Errorf("%s and %s both own the run", old, me)
				}
			case !errors.As(err, &owned):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	e, err := s.Entry(t.Context(), "a")
	if err != nil || e.Owner != winner.Load() {
		t.Errorf("%q owns it, %v; expected %v", e.Owner, err, winner.Load())
	}
}

func cancellation(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, journal.Append(gone, s, Steps("a", 1, 1, 1)), context.Canceled)
	if _, err := s.Claim(t.Context(), "a", "me"); err != nil {
		t.Fatal(err)
	}
	Append(t, s, Steps("a", 1, 1, 1))

	// Canceled in the midst of it, an append has happened or it has not, and
	// its caller knows which.
	last := journal.Seq(2)
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		if err := journal.Append(ctx, impatient{s, cancel}, Steps("a", 1, last, 1)); err == nil {
			last++
		} else {
			wantError(t, err, context.Canceled)
		}
		if e, err := s.Entry(t.Context(), "a"); err != nil || e.Seq != last {
			t.Fatalf("the run ends at %d, %v; its writer believes %d", e.Seq, err, last)
		}
	}
	for _, err := range s.Events(gone, "a", 0) {
		wantError(t, err, context.Canceled)
	}
	for _, err := range s.Tail(gone, 0) {
		wantError(t, err, context.Canceled)
	}
	for _, err := range s.Runs(gone, journal.Filter{}) {
		wantError(t, err, context.Canceled)
	}
	if got := Events(t, s, "a", 0); len(got) != int(last) {
		t.Errorf("%d events, expected %d", len(got), last)
	}
}

// impatient gives up as soon as it has handed a batch over.
type impatient struct {
	journal.Store
	giveUp func()
}

func (i impatient) Append(b journal.Batch, done func(error)) {
	i.Store.Append(b, done)
	i.giveUp()
}

func bigBatches(t *testing.T, s *group) {
	Append(t, s, Start("a", "me"))
	b := Steps("a", 1, 1, 1000)
	Append(t, s, b)
	big := make([]byte, 3<<20)
	for i := range big {
		big[i] = 'x'
	}
	big[0], big[len(big)-1] = '"', '"'
	note := journal.Event{Seq: 1002, At: 5, Fact: journal.TaskNoted{N: 1, Kind: "reply", Data: big}}
	Append(t, s, journal.Batch{Run: "a", Fence: 1, After: 1001, Events: []journal.Event{note}})
	got := Events(t, s, "a", 1)
	same := cmp.Comparer(func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
	if !cmp.Equal(append(b.Events, note), got, same) {
		t.Errorf("%d events came back otherwise", len(got))
	}
}

func closing(t *testing.T, s *group) {
	const n = 50
	var kept atomic.Int32
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		s.Append(Start(journal.RunID(fmt.Sprint("run-", i)), "me"), func(err error) {
			if err == nil {
				kept.Add(1)
			}
			wg.Done()
		})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if kept.Load() != n {
		t.Errorf("%d of %d appends were kept", kept.Load(), n)
	}
	wantError(t, journal.Append(t.Context(), s, Start("late", "me")), journal.ErrClosed)
	_, err := s.Entry(t.Context(), "run-0")
	wantError(t, err, journal.ErrClosed)
	_, err = s.Claim(t.Context(), "run-0", "me")
	wantError(t, err, journal.ErrClosed)
	_, err = s.Enqueue(t.Context(), "run-0", journal.Message{})
	wantError(t, err, journal.ErrClosed)
	_, err = s.Load(t.Context(), "key")
	wantError(t, err, journal.ErrClosed)
	_, err = s.Save(t.Context(), journal.Register{Key: "key", Data: []byte("x")})
	wantError(t, err, journal.ErrClosed)
	for _, err := range s.Tail(t.Context(), 0) {
		wantError(t, err, journal.ErrClosed)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func greatMany(t *testing.T, s *group) {
	if testing.Short() {
		t.Skip("a great many runs take seconds")
	}
	const n = many
	var wg sync.WaitGroup
	wg.Add(n)
	for i := range n {
		b := Start(journal.RunID(fmt.Sprintf("%05x-%d", i*7919%n, i)), "me")
		b.Index = &journal.Index{
			Status: journal.Waiting, Wake: journal.Millis(n + i), Waiting: journal.ParseWait("approval: a"),
		}
		b.Release = true
		if i == n/2 {
			b.Index = &journal.Index{Status: journal.Running}
		}
		s.Append(b, func(err error) {
			if err != nil {
				t.Error(err)
			}
			wg.Done()
		})
	}
	wg.Wait()
	if got := Runs(t, s, journal.Filter{Limit: 20}); len(got) != 20 {
		t.Errorf("%d runs", len(got))
	}
	if got := Runs(t, s, journal.Filter{Status: journal.Running}); len(got) != 1 {
		t.Errorf("%d running", len(got))
	}
	if got := Runs(t, s, journal.Filter{Prefix: "0000"}); len(got) != 16 {
		t.Errorf("%d runs with the prefix", len(got))
	}
	if got := Runs(t, s, journal.Filter{Unfinished: true}); len(got) != n {
		t.Errorf("%d unfinished", len(got))
	}
	if got, next, err := s.Due(t.Context(), n+9); err != nil || len(got) != 10 || next != n+10 {
		t.Errorf("%d due, next %d, %v", len(got), next, err)
	}
}

func openingAgain(t *testing.T, subject Subject) {
	dir := t.TempDir()
	s := subject.Open(t, dir, &Processes{})
	def := Definition("d")
	b := Start("a", "me")
	b.Blobs = []journal.Blob{def}
	b.Snapshot = []byte("state")
	b.Children = []journal.Entry{{ID: "child", Root: "a", Parent: "a"}}
	Append(t, s, b)
	post(t, s, "a", "hello")
	save(t, s, "kept", "value", 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		s = subject.Open(t, dir, &Processes{})
		if got := Events(t, s, "a", 0); len(got) != round+1 {
			t.Errorf("round %d: %d events", round, len(got))
		}
		if got := Tail(t, s, 0); len(got) != round+1 {
			t.Errorf("round %d: %d appends", round, len(got))
		}
		if kinds, _ := inbox(t, s, "a"); !slices.Equal(kinds, []string{"hello"}) {
			t.Errorf("inbox %q", kinds)
		}
		if r, err := s.Load(t.Context(), "kept"); err != nil || string(r.Data) != "value" || r.Version == 0 {
			t.Errorf("register %+v, %v", r, err)
		}
		if data, err := s.Blob(t.Context(), def.Hash); err != nil || string(data) != "d" {
			t.Errorf("%q %v", data, err)
		}
		if seq, state, err := s.Snapshot(t.Context(), "a"); seq != 1 || string(state) != "state" || err != nil {
			t.Errorf("%d %q %v", seq, state, err)
		}
		if got := Runs(t, s, journal.Filter{Children: true}); len(got) != 2 {
			t.Errorf("runs %q", got)
		}
		Append(t, s, Steps("a", 1, journal.Seq(round+1), 1))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
