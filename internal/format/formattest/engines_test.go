//go:build temporal

package formattest

import (
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/engine/embedded"
	"github.com/espalier-run/espalier/internal/engine/temporal"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/journal/owner"
	"github.com/espalier-run/espalier/internal/journal/postgres"
	"github.com/espalier-run/espalier/internal/journal/sqlite"
	"github.com/espalier-run/espalier/internal/pgtest"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/report/reporttest"
	"github.com/espalier-run/espalier/internal/report/transcript"
	"github.com/espalier-run/espalier/internal/temporaltest"
)

var (
	engines = flag.String("engines", "SQLite,PostgreSQL,Temporal", "which engines are compared")
	seeds   = flag.Int("seeds", 20, "how many random programs are compared")
	stops   = flag.Int("stops", 3, "at how many writes each run is stopped, on each engine")
)

// maxWait is how long a recorded run may wait to be repeated, where time is real.
const maxWait = 2 * time.Second

type joinFunc = func(t *testing.T, dir string, wrap func(journal.Store) journal.Store) member

// onSQLite joins a SQLite store as a process does.
func onSQLite(t *testing.T, dir string, wrap func(journal.Store) journal.Store) member {
	t.Helper()
	store, process := openSQLite(t, dir)
	e := embedded.New(embedded.Config{
		Config: registry.EngineConfig(dir, registry.RuntimeOptions{}), Store: wrap(store), Process: process,
	})
	return member{e, store, func() { leave(t, e, store, process) }}
}

func openSQLite(t *testing.T, dir string) (*sqlite.Store, *owner.Process) {
	t.Helper()
	process, err := owner.New(filepath.Join(dir, "owners"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(filepath.Join(dir, "journal.db"), sqlite.Options{Relaxed: true, Dead: process.Dead})
	if err != nil {
		t.Fatal(err)
	}
	return store, process
}

// leave closes an engine and then what it uses.
func leave(t *testing.T, e engine.Engine, used ...interface{ Close() error }) {
	t.Helper()
	end(e)
	for _, one := range used {
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	}
}

// onPostgres joins a schema of a PostgreSQL server, which belongs to the folder.
func onPostgres(server *pgtest.Server) joinFunc {
	return func(t *testing.T, dir string, wrap func(journal.Store) journal.Store) member {
		t.Helper()
		sum := fnv.New64a()
		sum.Write([]byte(dir))
		store, err := postgres.Open(t.Context(), fmt.Sprintf("%s&schema=e%x", server.URL("postgres"), sum.Sum64()),
			postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e := embedded.New(embedded.Config{
			Config: registry.EngineConfig(dir, registry.RuntimeOptions{}), Store: wrap(store),
			Process: store, Now: store.Now,
		})
		return member{e, store, func() { leave(t, e, store) }}
	}
}

// onTemporal joins a task queue, which belongs to the folder, with a SQLite store.
func onTemporal(server *temporaltest.Server) joinFunc {
	return func(t *testing.T, dir string, wrap func(journal.Store) journal.Store) member {
		t.Helper()
		store, process := openSQLite(t, dir)
		e := temporal.New(temporal.Config{
			Config: registry.EngineConfig(dir, registry.RuntimeOptions{}), Store: wrap(store), Address: server.Address,
			TaskQueue: uuid.NewSHA1(uuid.NameSpaceURL, []byte(dir)).String(), Heartbeat: 3 * time.Second,
		})
		return member{e, store, func() { leave(t, e, store, process) }}
	}
}

// joins returns the engines that are compared.
func joins(t *testing.T) map[string]joinFunc {
	out := map[string]joinFunc{}
	for name := range strings.SplitSeq(*engines, ",") {
		switch name {
		case "SQLite":
			out[name] = onSQLite
		case "PostgreSQL":
			server, err := pgtest.Start("fsync=off", "max_connections=200")
			pgtest.Require(t, err)
			t.Cleanup(server.Remove)
			out[name] = onPostgres(server)
		case "Temporal":
			out[name] = onTemporal(temporaltest.Shared(t))
			t.Cleanup(temporaltest.StopShared)
		default:
			t.Fatalf("there is no engine %q", name)
		}
	}
	return out
}

// tally counts what was equal on an engine, for runs of one format.
type tally struct{ inOrder, asSets, stops, wait, differ atomic.Int32 }

func (c *tally) String() string {
	text := fmt.Sprintf("%d equal", c.inOrder.Load())
	for _, more := range []struct {
		n    *atomic.Int32
		what string
	}{
		{&c.asSets, "equal as sets"},
		{&c.wait, "not repeated, they take long or depend on the time"},
		{&c.differ, "DIFFER"},
		{&c.stops, "stops survived"},
	} {
		if n := more.n.Load(); n > 0 {
			text += fmt.Sprintf(", %d %s", n, more.what)
		}
	}
	return text
}

// The recorded runs yield the same facts on every engine: in the same order if they are sequential, and otherwise the
// same set. They end the same way if the process dies at one of its writes and another one continues; the writes are
// the same for all engines.
func TestEnginesAgree(t *testing.T) {
	names, err := filepath.Glob("testdata/runs/*/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal(err, "no runs")
	}
	table := map[string]*tally{}
	formats := map[string]bool{}
	places := joins(t)
	for _, name := range names {
		format, short := filepath.Base(filepath.Dir(name)), strings.TrimSuffix(filepath.Base(name), ".txtar")
		formats[format] = true
		for place, join := range places {
			key := format + " " + place
			if table[key] == nil {
				table[key] = &tally{}
			}
			t.Run(format+"/"+short+"/"+place, func(t *testing.T) { repeat(t, name, join, table[key]) })
		}
	}
	for seed := range *seeds {
		tr := rapid.Custom(adversarial).Example(seed + 1)
		if len(tr.do) > 0 {
			continue // it waits for a deadline, in real time
		}
		formats["random"] = true
		for place, join := range places {
			key := "random " + place
			if table[key] == nil {
				table[key] = &tally{}
			}
			t.Run(fmt.Sprintf("random/%d/%s", seed+1, place),
				func(t *testing.T) { repeatRandom(t, tr, join, table[key]) })
		}
	}
	var text strings.Builder
	for _, format := range slices.Sorted(maps.Keys(formats)) {
		for place := range strings.SplitSeq(*engines, ",") {
			fmt.Fprintf(&text, "%-11s %-11s %s\n", format, place, table[format+" "+place])
		}
	}
	fmt.Print(text.String())
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return // a part of the runs
	}
	for place := range places {
		stopped, random := int32(0), int32(0)
		for format := range formats {
			stopped += table[format+" "+place].stops.Load()
		}
		if count := table["random "+place]; count != nil {
			random = count.inOrder.Load() + count.asSets.Load()
		}
		if *stops > 0 && stopped == 0 || *seeds > 0 && random == 0 {
			t.Errorf("%s: %d stops, %d random programs", place, stopped, random)
		}
	}
}

// repeat repeats a recorded run on an engine.
func repeat(t *testing.T, name string, join joinFunc, count *tally) {
	defer func() {
		if t.Failed() {
			count.differ.Add(1)
		}
	}()
	a, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	tr := newTrial(a)
	want, _ := section(a, "want")
	if waits(t, tr, want) > maxWait || strings.Contains(want, " timer limit\n") ||
		strings.Contains(want, " timer deadline\n") {
		count.wait.Add(1) // or the speed of the machine decides what has ended when a limit is reached
		return
	}
	reference := tr.run(t)
	tr.join = join
	calm := tr.run(t)
	got, wanted := timeless(calm.record(t, string(a.Comment)+" leave out times")), timeless(want)
	if slices.Equal(got, wanted) {
		count.inOrder.Add(1)
	} else {
		inOrder := cmp.Diff(wanted, got)
		slices.Sort(got)
		slices.Sort(wanted)
		if !strings.Contains(want, " enters parallel") || !slices.Equal(got, wanted) {
			t.Fatalf("the record differs (-want +got):\n%s", inOrder)
		}
		count.asSets.Add(1)
	}
	compareTranscripts(t, reference, calm, strings.Contains(want, " enters parallel"))
	short := strings.TrimSuffix(filepath.Base(name), ".txtar")
	timed := slices.ContainsFunc(tr.do, func(line string) bool { return strings.HasPrefix(line, "after ") })
	if calm.problems.Errors() || different(short) || timed {
		return
	}
	for _, n := range someWrites(short, len(calm.events), *stops) {
		tr.stopAt, tr.stopAfter = n, n%2 == 0
		h := tr.run(t)
		if got := h.essence(); h.stopped && got != calm.essence() {
			t.Fatalf("stopped at write %d\ngot  %s\nwant %s\n%s", n, got, calm.essence(), h.record(t, ""))
		}
		if h.stopped {
			count.stops.Add(1)
		}
	}
}

// repeatRandom runs a random program on an engine, and compares it with a run in memory.
func repeatRandom(t *testing.T, tr *trial, join joinFunc, count *tally) {
	defer func() {
		if t.Failed() {
			count.differ.Add(1)
		}
	}()
	calm := *tr
	calm.stopAt = 0
	reference := calm.run(t)
	if reference.problems.Errors() {
		t.Fatal(reference.problems)
	}
	calm.join = join
	got := calm.run(t)
	if d := cmp.Diff(timeless(reference.record(t, "leave out times")),
		timeless(got.record(t, "leave out times"))); d != "" {
		t.Fatalf("the record differs (-want +got):\n%s", d)
	}
	compareTranscripts(t, reference, got, false)
	count.inOrder.Add(1)
	if tr.stopAt == 0 {
		return
	}
	stopped := *tr
	stopped.join = join
	h := stopped.run(t)
	if h.stopped && h.essence() != reference.essence() {
		t.Fatalf("stopped at write %d\ngot  %s\nwant %s", tr.stopAt, h.essence(), reference.essence())
	}
	if h.stopped {
		count.stops.Add(1)
	}
}

// transcripts returns the lines of the transcripts of a run, without times and the differences that they make.
func (h *happened) transcripts(t *testing.T, ordered bool) (out []string) {
	t.Helper()
	shelf := &reporttest.RecordingReader{
		Pinned: h.program, Appends: []journal.Appended{{Pos: 1, Run: theRun, Events: h.events}},
	}
	transcripts := transcript.New(transcript.Options{
		Dir: t.TempDir(), Source: shelf, Program: shelf.Program, Log: slog.New(slog.DiscardHandler),
	})
	defer transcripts.Close()
	files, err := reporttest.Rebuild(t.Context(), transcripts, theRun)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range slices.Sorted(maps.Keys(files)) {
		for line := range strings.Lines(string(files[run])) {
			out = append(out, transcriptTime.ReplaceAllString(transcriptSeq.ReplaceAllString(line, ""), "…"))
		}
	}
	if !ordered {
		// How much a canceled branch had begun depends on the speed of the machine.
		canceled := map[string]bool{}
		for _, line := range out {
			if strings.Contains(line, `"type":"step.completed"`) && strings.Contains(line, `"error":"cancelled"`) {
				canceled[transcriptPath.FindString(line)] = true
			}
		}
		out = slices.DeleteFunc(out, func(line string) bool {
			return strings.Contains(line, `"type":"message.`) && canceled[transcriptPath.FindString(line)]
		})
		slices.Sort(out)
	}
	for i := 0; i < len(out); { // tool calls of one reply run at the same time
		n := 0
		for i+n < len(out) && strings.Contains(out[i+n], `"type":"tool.result"`) {
			n++
		}
		slices.Sort(out[i : i+n])
		i += n + 1
	}
	return out
}

var (
	transcriptTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`) // prompts show times, too
	transcriptSeq  = regexp.MustCompile(`"seq":\d+,`)
	transcriptPath = regexp.MustCompile(`"path":"[^"]*"`)
)

// compareTranscripts compares whole transcripts: the steps with their results, every message and every tool call.
func compareTranscripts(t *testing.T, want, got *happened, parallel bool) {
	t.Helper()
	if want.problems.Errors() {
		return
	}
	if d := cmp.Diff(want.transcripts(t, !parallel), got.transcripts(t, !parallel)); d != "" {
		t.Errorf("the transcript differs (-want +got):\n%s", d)
	}
}

// someWrites returns up to n numbers of writes, which depend on the name of the run alone.
func someWrites(name string, most, n int) (out []int) {
	sum := fnv.New32a()
	sum.Write([]byte(name))
	for i := range n {
		at := 1 + (int(sum.Sum32()>>1)+i*7919)%max(1, most)
		if !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
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
