package app_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// A worker removes old runs as the configuration says, when it starts: all but the newest that it keeps.
func TestWorkAppliesRetention(t *testing.T) {
	for _, c := range []struct {
		name, config, removed string
		stay                  int
	}{
		{"all", "retention: {older_than: 30d}", "Removed 3 runs", 0},
		{"keep", "retention: {older_than: 30d, keep: 1}", "Removed 2 runs", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var o app.Options
			project(t, func(p *app.Options) { p.Relaxed = true; o = *p })
			if err := os.WriteFile(filepath.Join(o.Dir, "espalier.yaml"), []byte(c.config+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			first := app.New(o)
			var runs []journal.RunID
			for range 3 {
				runs = append(runs, start(t, first, "shell", app.RunOptions{Simulate: true}).ID)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			removed := make(chan string, 1)
			o.Now = func() time.Time { return time.Now().Add(31 * 24 * time.Hour) }
			o.Notify = func(n app.Notice) {
				if strings.HasPrefix(n.Text, "Removed ") {
					removed <- n.Text
				}
			}
			a := app.New(o)
			defer a.Close()
			ended := make(chan error, 1)
			go func() { ended <- a.Work(ctx, func(string) {}, func(*app.Run, *app.Error) {}) }()
			select {
			case text := <-removed:
				if !strings.HasPrefix(text, c.removed) {
					t.Error(text)
				}
			case err := <-ended:
				t.Fatal(err)
			case <-ctx.Done():
				t.Fatal("the worker removes nothing")
			}
			cancel()
			<-ended
			got, err := a.Runs(t.Context(), app.Filter{})
			if err != nil || len(got) != c.stay || c.stay > 0 && got[0].ID != runs[2] {
				t.Errorf("%v remain of %v: %v", got, runs, err)
			}
		})
	}
}
