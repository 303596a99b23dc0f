package journaltest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/journal"
)

// copies tests that a copied store has the same runs, and that its unfinished runs continue there.
func copies(t *testing.T, from *group) {
	to := &group{subject: from.subject, processes: from.processes, dir: t.TempDir()}
	to.Store = from.subject.Open(t, to.dir, to.processes)
	defer to.Close()

	blob := Definition("large")
	removed(t, from, "gone")

	Append(t, from, Start("done", "me"))
	last := Finish("done", 1, 1)
	child := journal.Entry{ID: "done-child", Root: "done", Parent: "done", Name: "part", Started: 1000, Updated: 1001}
	child.Index = journal.Index{Status: journal.Finished, Outcome: "ok"}
	last.Children, last.Release = []journal.Entry{child}, true
	Append(t, from, last)

	waits := Start("waits", "me")
	started := waits.Events[0].Fact.(journal.RunStarted)
	started.Input = journal.Value{Hash: blob.Hash, Size: len(blob.Data)}
	waits.Events[0].Fact, waits.Blobs = started, append(waits.Blobs, blob)
	Append(t, from, waits)
	rest := Steps("waits", 1, 1, 2)
	rest.Index = &journal.Index{Status: journal.Waiting, Wake: 7_000, Waiting: journal.ParseWait("budget: tokens")}
	rest.Release = true
	Append(t, from, rest)
	for _, kind := range []string{"one", "two"} {
		m := journal.Message{Kind: kind, Data: []byte(kind), At: 9}
		if _, err := from.Enqueue(t.Context(), "waits", m); err != nil {
			t.Fatal(err)
		}
	}
	save(t, from, "schedule/a", "at nine", 0)

	all := journal.Copied{Runs: 2, Unfinished: 1, Tombstones: 1, Registers: 1}
	for _, want := range []journal.Copied{all, {}} { // a repeated copy adds nothing
		got, err := journal.Copy(t.Context(), from, to)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("copied (-want +got):\n%s", diff)
		}
	}
	for _, run := range []journal.RunID{"done", "waits"} {
		wantSame(t, "chain of "+string(run), links(t, from, run), links(t, to, run))
		wantSame(t, "entry of "+string(run), entryOf(t, from, run), entryOf(t, to, run))
		wantSame(t, "events of "+string(run), Events(t, from, run, 0), Events(t, to, run, 0))
	}
	wantSame(t, "child", entryOf(t, from, "done-child"), entryOf(t, to, "done-child"))
	wantSame(t, "tombstones", Tombstones(t, from), Tombstones(t, to))
	wantSame(t, "register", load(t, from, "schedule/a").Data, load(t, to, "schedule/a").Data)
	if data, err := to.Blob(t.Context(), blob.Hash); err != nil || string(data) != string(blob.Data) {
		t.Errorf("the blob is %q, %v", data, err)
	}

	due, _, err := to.Due(t.Context(), 7_000)
	if err != nil || len(due) != 1 || due[0] != "waits" {
		t.Errorf("due: %v, %v", due, err)
	}
	to.join(t, "you")
	claim, err := to.Claim(t.Context(), "waits", "you")
	if err != nil {
		t.Fatal(err)
	}
	inbox, err := to.Inbox(t.Context(), "waits")
	if err != nil || len(inbox) != 2 || inbox[0].Kind != "one" || string(inbox[1].Data) != "two" {
		t.Fatalf("the inbox has %v, %v", inbox, err)
	}
	next := Steps("waits", claim.Fence, claim.Seq, 1)
	next.Taken = []journal.InboxID{inbox[0].ID, inbox[1].ID}
	Append(t, to, next)
	if got := Tail(t, to, 0); len(got) != 1 || got[0].Run != "waits" {
		t.Errorf("the tail has %d appends", len(got))
	}
	if got := len(Events(t, to, "waits", 0)); got != 4 {
		t.Errorf("the run has %d events", got)
	}
	if head := Head(t, to, "waits"); head.Seq != 4 {
		t.Errorf("the chain ends with event %d", head.Seq)
	}

	// The run has continued in the other store, and so have the registers: a repeated copy replaces nothing.
	save(t, to, "schedule/a", "at ten", load(t, to, "schedule/a").Version)
	if got, err := journal.Copy(t.Context(), from, to); err != nil || got != (journal.Copied{}) {
		t.Errorf("copied %+v, %v", got, err)
	}
	if got := len(Events(t, to, "waits", 0)); got != 4 {
		t.Errorf("the run has %d events", got)
	}

	// What differs is found before anything is added.
	for name, differ := range map[string]func(*group){
		"run":        func(g *group) { Append(t, g, Start("waits", "me")) },
		"register":   func(g *group) { save(t, g, "schedule/a", "at eleven", 0) },
		"tombstones": func(g *group) { removed(t, g, "other") },
	} {
		other := &group{subject: from.subject, processes: from.processes, dir: t.TempDir()}
		other.Store = from.subject.Open(t, other.dir, other.processes)
		differ(other)
		before := len(runsOf(t, other))
		_, err = journal.Copy(t.Context(), from, other)
		wantError(t, err, journal.ErrDiffers)
		if after := len(runsOf(t, other)); after != before {
			t.Errorf("another %s: %d runs were added", name, after-before)
		}
		other.Close()
	}
}

// removed adds a run and removes it.
func removed(t testing.TB, g *group, id journal.RunID) {
	t.Helper()
	Append(t, g, Start(id, "me"))
	last := Finish(id, 1, 1)
	last.Release = true
	Append(t, g, last)
	if err := g.Remove(t.Context(), journal.Removal{At: 5, Why: "test"}, id); err != nil {
		t.Fatal(err)
	}
}

func runsOf(t testing.TB, g *group) (all []journal.RunID) {
	t.Helper()
	for e, err := range g.Runs(t.Context(), journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.ID)
	}
	return all
}

func wantSame(t testing.TB, what string, was, is any) {
	t.Helper()
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("the copied %s differs (-was +is):\n%s", what, diff)
	}
}
