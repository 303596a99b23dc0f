package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/journal"
)

// anyText tests that every text that people and programs choose is read back byte for byte.
func anyText(t *testing.T, s *group) {
	odd := []string{"a\x00b", "\xff\xfe", `\x6869`, "é\u2028", `\`, "\x00"}
	for i, text := range odd {
		id := journal.RunID(fmt.Sprint("run-", i, text))
		b := Start(id, journal.Owner("me"+text))
		b.Events[0].Fact = journal.RunStarted{Name: text, Format: "f" + text}
		b.Index = &journal.Index{
			Status: journal.Waiting, Waiting: journal.Wait{Kind: journal.WaitEvent, Name: text},
			Outcome: journal.Outcome(text),
		}
		b.Children = []journal.Entry{{ID: "child of " + id, Root: id, Parent: id, Name: text}}
		Append(t, s, b)
		want := journal.Entry{
			ID: id, Name: text, Format: "f" + text, Started: 1000, Updated: 1000, Seq: 1,
			Owner: journal.Owner("me" + text), Index: *b.Index,
		}
		if got, err := s.Entry(t.Context(), id); err != nil || !cmp.Equal(want, got) {
			t.Errorf("%v %s", err, cmp.Diff(want, got))
		}
		if got, err := s.Entry(t.Context(), "child of "+id); err != nil || got.Root != id || got.Name != text {
			t.Errorf("%+v, %v", got, err)
		}
		if got := Runs(t, s, journal.Filter{Name: text}); !slices.Equal(got, []journal.RunID{id}) {
			t.Errorf("runs named %q: %q", text, got)
		}
		if _, err := s.Enqueue(t.Context(), id, journal.Message{Kind: "k" + text, Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		m, err := s.Inbox(t.Context(), id)
		if err != nil || len(m) != 1 || m[0].Kind != "k"+text || string(m[0].Data) != text {
			t.Errorf("%+v, %v", m, err)
		}
	}
}

// inboxOrder tests that a reader that keeps the highest ID it has seen misses no message.
func inboxOrder(t *testing.T, s *group) {
	const posters, each = 8, 25
	Append(t, s, Start("a", "me"))
	var wg sync.WaitGroup
	for range posters {
		wg.Go(func() {
			for range each {
				if _, err := s.Enqueue(context.Background(), "a", journal.Message{Kind: "x"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	seen, highest := 0, journal.InboxID(0)
	for last := false; ; {
		messages, err := s.Inbox(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if m.ID > highest {
				highest = m.ID
				seen++
			}
		}
		if last {
			break
		}
		select {
		case <-done:
			last = true
		default:
		}
	}
	if seen != posters*each {
		t.Errorf("a reader with a high-water mark saw %d of %d messages", seen, posters*each)
	}
}

func claimingNext(t *testing.T, s *group) {
	s.join(t, "living")
	s.join(t, "me")
	s.join(t, "gone")
	for id, owner := range map[journal.RunID]journal.Owner{
		"living": "living", "gone": "gone", "mine": "me", "skipped": "gone", "free": "gone",
	} {
		Append(t, s, Start(id, owner))
	}
	Append(t, s, journal.Batch{Run: "free", Fence: 1, After: 1, Release: true})
	for _, id := range []journal.RunID{"waiting", "finished"} {
		Append(t, s, Start(id, "gone"))
	}
	b := Steps("waiting", 1, 1, 1)
	b.Index = &journal.Index{Status: journal.Waiting}
	Append(t, s, b)
	Append(t, s, Finish("finished", 1, 1))
	s.leave(t, "gone")

	skip := func(id journal.RunID) bool { return id == "skipped" }
	if got, err := s.ClaimNext(t.Context(), "me", 1, skip); err != nil || len(got) != 1 {
		t.Errorf("%q, %v", got, err)
	}
	got, err := s.ClaimNext(t.Context(), "me", 10, skip)
	slices.Sort(got)
	if want := []journal.RunID{"free", "gone", "mine"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("claimed %q, %v; expected %q", got, err, want)
	}
	for id, want := range map[journal.RunID]journal.Owner{
		"living": "living", "gone": "me", "mine": "me", "skipped": "gone", "free": "me",
	} {
		if e, err := s.Entry(t.Context(), id); err != nil || e.Owner != want {
			t.Errorf("%s is owned by %q, %v; expected %q", id, e.Owner, err, want)
		}
	}
	wantError(t, journal.Append(t.Context(), s, Steps("gone", 1, 1, 1)), journal.ErrConflict)
}

// twoStores tests that one store reads what the other one has committed.
func twoStores(t *testing.T, a, b *group) {
	Append(t, a, Start("r", "me"))
	Append(t, b, Steps("r", 1, 1, 2))
	wantError(t, journal.Append(t.Context(), a, Steps("r", 1, 1, 1)), journal.ErrConflict)
	wantError(t, journal.Append(t.Context(), b, Start("r", "me")), journal.ErrExists)
	Append(t, a, Steps("r", 1, 3, 1))
	post(t, b, "r", "x")
	_, ids := inbox(t, a, "r")
	batch := Steps("r", 1, 4, 1)
	batch.Taken = ids
	Append(t, a, batch)
	batch = Steps("r", 1, 5, 1)
	batch.Taken = ids
	wantError(t, journal.Append(t.Context(), b, batch), journal.ErrConflict)
	Append(t, b, Finish("r", 1, 5))
	if got := Events(t, a, "r", 0); len(got) != 6 {
		t.Errorf("%d events", len(got))
	}
	if err := a.Remove(t.Context(), journal.Removal{}, "r"); err != nil {
		t.Fatal(err)
	}
	_, err := b.Entry(t.Context(), "r")
	wantError(t, err, journal.ErrUnknownRun)
	Append(t, b, Start("r", "me"))
}

// nothingMissed tests that a reader sees every append once, and those of a run in order, while two
// stores append at the same time and commit in any order.
func nothingMissed(t *testing.T, a, b *group) {
	const runs, steps = 8, 40
	var wg sync.WaitGroup
	for i := range runs {
		s := []*group{a, b}[i%2]
		id := journal.RunID(fmt.Sprint("run-", i))
		wg.Go(func() {
			if err := journal.Append(context.Background(), s, Start(id, "me")); err != nil {
				t.Error(err)
			}
			for n := range journal.Seq(steps) {
				if err := journal.Append(context.Background(), s, Steps(id, 1, n+1, 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	last := map[journal.RunID]journal.Seq{}
	seen, pos := 0, journal.Pos(0)
	for ended := false; ; {
		for _, x := range Tail(t, a, pos) {
			if x.Events[0].Seq != last[x.Run]+1 {
				t.Fatalf("run %s: event %d follows event %d", x.Run, x.Events[0].Seq, last[x.Run])
			}
			last[x.Run], pos = x.Events[0].Seq, x.Pos
			seen++
		}
		if ended {
			break
		}
		select {
		case <-done:
			ended = true
		default:
		}
	}
	if seen != runs*(steps+1) {
		t.Errorf("saw %d of %d appends", seen, runs*(steps+1))
	}
}

// takenForDead tests that a process whose run another one has claimed cannot append, even if it did
// not notice the claim.
func takenForDead(t *testing.T, a, b *group) {
	a.join(t, "paused")
	a.join(t, "next")
	Append(t, a, Start("r", "paused"))
	Append(t, a, Steps("r", 1, 1, 1))
	if _, err := b.Claim(t.Context(), "r", "next"); err == nil {
		t.Fatal("the run of a living process was claimed")
	}
	a.leave(t, "paused")
	c, err := b.Claim(t.Context(), "r", "next")
	if err != nil || c.Seq != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	err = journal.Append(t.Context(), a, Steps("r", 1, 2, 1))
	if !errors.Is(err, journal.ErrConflict) && !errors.Is(err, journal.ErrFenced) {
		t.Errorf("the old owner appended: %v", err)
	}
	Append(t, b, Steps("r", c.Fence, 2, 1))
}

func claimedOnce(t *testing.T, a, b *group) {
	const runs = 60
	a.join(t, "gone")
	for i := range runs {
		Append(t, a, Start(journal.RunID(fmt.Sprint("run-", i)), "gone"))
	}
	a.leave(t, "gone")
	var mu sync.Mutex
	owners := map[journal.RunID]journal.Owner{}
	var wg sync.WaitGroup
	for i, s := range []*group{a, b} {
		me := journal.Owner(fmt.Sprint("worker-", i))
		s.join(t, me)
		mine := map[journal.RunID]bool{}
		wg.Go(func() {
			for {
				got, err := s.ClaimNext(context.Background(), me, 7, func(id journal.RunID) bool { return mine[id] })
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for _, id := range got {
					if old, taken := owners[id]; taken {
						t.Errorf("%s and %s both claimed %s", old, me, id)
					}
					owners[id], mine[id] = me, true
				}
				all := len(owners) == runs
				mu.Unlock()
				if all || err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
}
