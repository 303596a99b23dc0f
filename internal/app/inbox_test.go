package app_test

import (
	"slices"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

func TestInboxHasPagesAndLeavesOutRunsThatAskNothing(t *testing.T) {
	a, ctx := project(t, nil), t.Context()
	var want []journal.RunID
	for range 3 {
		want = append(want, start(t, a, "gated", allowed).ID)
	}
	sleeping, err := a.Start(ctx, prepare(t, a, "repeats", allowed), "", tester)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if run, err := a.Get(ctx, sleeping); err == nil && run.Status == journal.Sleeping {
			break
		} else if err != nil || time.Now().After(deadline) {
			t.Fatalf("%+v, %v", run, err)
		}
	}
	want = append(want, start(t, a, "gated", allowed).ID)
	slices.Reverse(want)
	var got []journal.RunID
	before, pages := journal.RunID(""), 0
	for ok := true; ok; ok = before != "" {
		list, more, err := a.Inbox(ctx, before, 2)
		if err != nil || len(list) > 2 {
			t.Fatalf("%d runs, %v", len(list), err)
		}
		for _, s := range list {
			got = append(got, s.ID)
		}
		before, pages = more, pages+1
	}
	if !slices.Equal(got, want) || pages != 2 {
		t.Errorf("%d pages: %v, want %v", pages, got, want)
	}
	// The second of the newest runs waits for a retry, which is known without reading it.
	if list, more, err := a.InboxReading(ctx, "", 10, 2); err != nil || len(list) != 2 || more != want[1] {
		t.Errorf("%d runs, more after %q, %v", len(list), more, err)
	}
	if n, err := a.CountAsks(ctx); err != nil || n != 4 {
		t.Errorf("%d items, %v", n, err)
	}
	empty := app.New(app.Options{Dir: t.TempDir(), Getenv: func(string) string { return "" }})
	if list, more, err := empty.Inbox(ctx, "", 2); err != nil || len(list) != 0 || more != "" {
		t.Errorf("a project without runs: %v, %q, %v", list, more, err)
	}
}
