package app_test

import (
	"slices"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

func TestInboxHasPagesAndLeavesOutRunsThatAskNothing(t *testing.T) {
	a, ctx := project(t, nil), t.Context()
	var want []journal.RunID
	for range 3 {
		want = append(want, start(t, a, "gated", allowed).ID)
	}
	if run := start(t, a, "asks", app.RunOptions{Simulate: true}); run.Outcome != journal.OutcomeOK {
		t.Fatalf("%+v", run)
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
	if n, err := a.CountAsks(ctx); err != nil || n != 4 {
		t.Errorf("%d items, %v", n, err)
	}
	empty := app.New(app.Options{Dir: t.TempDir(), Getenv: func(string) string { return "" }})
	if list, more, err := empty.Inbox(ctx, "", 2); err != nil || len(list) != 0 || more != "" {
		t.Errorf("a project without runs: %v, %q, %v", list, more, err)
	}
}
