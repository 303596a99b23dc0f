//go:build temporal

package formattest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/temporaltest"
)

// longestWait is how long a recorded run may wait to be repeated on Temporal, where time is real.
const longestWait = 2 * time.Second

// The recorded runs yield the same facts on Temporal: in the same order if they are sequential, and
// otherwise the same set.
func TestRunsOnTemporalMatchTheirRecords(t *testing.T) {
	server := temporaltest.Shared(t)
	t.Cleanup(temporaltest.StopShared)
	names, err := filepath.Glob("testdata/runs/*/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal(err, "no runs")
	}
	for _, name := range names {
		short := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(name), "testdata/runs/"), ".txtar")
		t.Run(short, func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tr := newTrial(a)
			want, _ := section(a, "want")
			if wait := waits(t, tr, want); wait > longestWait {
				t.Skipf("it waits for %s", wait)
			}
			tr.open = func(dir string, store journal.Store) engine.Engine {
				return temporal.New(temporal.Config{
					Config: registry.EngineConfig(dir, registry.RuntimeOptions{}), Store: store,
					Address: server.Address, TaskQueue: uuid.NewString(),
				})
			}
			got := timeless(tr.run(t).record(t, string(a.Comment)+" leave out times"))
			wanted := timeless(want)
			if slices.Equal(got, wanted) {
				return
			}
			inOrder := cmp.Diff(wanted, got)
			slices.Sort(got)
			slices.Sort(wanted)
			if !strings.Contains(want, " enters parallel") || !slices.Equal(got, wanted) {
				t.Errorf("the record differs (-want +got):\n%s", inOrder)
			}
		})
	}
}

// waits returns how long a recorded run waits.
func waits(t *testing.T, tr *trial, want string) (sum time.Duration) {
	t.Helper()
	add := func(text string) {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		sum += d
	}
	for line := range strings.Lines(want) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "… "); ok {
			add(text)
		}
	}
	for _, line := range tr.do {
		if words := strings.Fields(line); words[0] == "wait" || words[0] == "after" {
			add(words[1])
		}
	}
	return sum
}

// timeless returns the lines of a record without times.
func timeless(record string) (out []string) {
	for line := range strings.Lines(record) {
		if !strings.HasPrefix(line, "… ") {
			out = append(out, decidedAt.ReplaceAllString(line, `"decided_at":"…"`))
		}
	}
	return out
}
