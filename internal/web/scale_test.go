package web_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
)

// crowded is a store with many finished runs besides its own. It counts what is read of them.
type crowded struct {
	journal.Store
	many         int
	started      *atomic.Pointer[journal.RunStarted]
	rows, events *atomic.Int64
}

// crowdID returns the id of a run, the oldest first.
func crowdID(i int) journal.RunID {
	return journal.RunID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
}

func (c crowded) number(id journal.RunID) (int, bool) {
	var i int
	_, err := fmt.Sscanf(string(id), "00000000-0000-4000-8000-%012x", &i)
	return i, err == nil && c.started.Load() != nil
}

func (c crowded) entry(i int) journal.Entry {
	at := journal.Millis(1_700_000_000_000 + i)
	return journal.Entry{
		ID: crowdID(i), Name: "gated", Definition: c.started.Load().Definition, Started: at, Updated: at, Seq: 2,
		Index: journal.Index{Status: journal.Finished, Outcome: journal.OutcomeOK},
	}
}

func (c crowded) Runs(ctx context.Context, f journal.Filter) iter.Seq2[journal.Entry, error] {
	if c.started.Load() == nil || f.Status != journal.Finished && f.Prefix == "" {
		return c.Store.Runs(ctx, f)
	}
	return func(yield func(journal.Entry, error) bool) {
		first := c.many
		if f.Before != "" {
			first, _ = c.number(f.Before)
		}
		for i := first - 1; i >= 0 && first-i <= f.Limit; i-- {
			c.rows.Add(1)
			if !yield(c.entry(i), nil) {
				return
			}
		}
	}
}

func (c crowded) Entry(ctx context.Context, id journal.RunID) (journal.Entry, error) {
	if i, ok := c.number(id); ok {
		return c.entry(i), nil
	}
	return c.Store.Entry(ctx, id)
}

func (c crowded) Snapshot(ctx context.Context, id journal.RunID) (journal.Seq, []byte, error) {
	if _, ok := c.number(id); ok {
		return 0, nil, nil
	}
	return c.Store.Snapshot(ctx, id)
}

func (c crowded) Events(ctx context.Context, id journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	i, ok := c.number(id)
	if !ok {
		return c.Store.Events(ctx, id, after)
	}
	at := c.entry(i).Started
	all := []journal.Event{
		{Seq: 1, At: at, Fact: *c.started.Load()},
		{Seq: 2, At: at, Fact: journal.RunFinished{Outcome: journal.OutcomeOK}},
	}
	return func(yield func(journal.Event, error) bool) {
		for _, e := range all[min(int(after), 2):] {
			c.events.Add(1)
			if !yield(e, nil) {
				return
			}
		}
	}
}

// A page of the list reads as many runs as it shows, however many there are, and older pages have addresses.
func TestListOfManyRunsReadsOnePage(t *testing.T) {
	var rows, events atomic.Int64
	var started atomic.Pointer[journal.RunStarted]
	s := newSite(t, map[string]string{"gated.md": gated})
	s.stop()
	s.wrap = func(inner journal.Store) journal.Store {
		return crowded{inner, 100_000, &started, &rows, &events}
	}
	s.start()
	id := s.begin("gated", simulate, question) // all others have the same definition
	s.rest(id)
	first := s.facts(id)[0].(journal.RunStarted)
	started.Store(&first)
	c := s.client()
	status, page := s.get(c, "/runs?state=ok")
	if status != http.StatusOK || strings.Count(page, `<tr role="row" id="run-`) != 50 {
		t.Fatalf("%d, %d rows", status, strings.Count(page, `<tr role="row" id="run-`))
	}
	if n := rows.Load(); n != 51 { // one page and the row after it
		t.Errorf("%d rows were read for a page of 50", n)
	}
	if n := events.Load(); n > 4*51 {
		t.Errorf("%d events were read for a page of 50", n)
	}
	seen := map[string]bool{}
	for range 3 {
		for _, m := range regexp.MustCompile(`<tr role="row" id="run-([^"]+)"`).FindAllStringSubmatch(page, -1) {
			if seen[m[1]] {
				t.Errorf("run %s is on two pages", m[1])
			}
			seen[m[1]] = true
		}
		next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(page)
		if next == nil {
			t.Fatal("the page has no next page")
		}
		_, page = s.get(c, strings.ReplaceAll(next[1], "&amp;", "&"))
	}
	if len(seen) != 150 {
		t.Errorf("three pages show %d runs", len(seen))
	}
}

// fill adds finished runs to a store, in batches as an engine appends them.
func fill(tb testing.TB, store journal.Store, first journal.RunStarted, n int) {
	tb.Helper()
	var group sync.WaitGroup
	var failed atomic.Pointer[error]
	for i := range n {
		at := journal.Millis(1_700_000_000_000 + i)
		group.Add(1)
		store.Append(journal.Batch{
			Run: crowdID(i), Fence: journal.FirstFence, Owner: "filler", Release: true,
			Events: []journal.Event{
				{Seq: 1, At: at, Fact: first},
				{Seq: 2, At: at + 1, Fact: journal.RunFinished{Outcome: journal.OutcomeOK}},
			},
			Index: &journal.Index{Status: journal.Finished, Outcome: journal.OutcomeOK},
		}, func(err error) {
			if err != nil {
				failed.Store(&err)
			}
			group.Done()
		})
		if i%1000 == 999 {
			group.Wait()
		}
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		tb.Fatal(*err)
	}
}

// BenchmarkRunsPage measures the time of the server for a page of a list of 100,000 runs in SQLite.
func BenchmarkRunsPage(b *testing.B) {
	var store journal.Store
	s := &site{
		t: b, dir: filepath.Join(b.TempDir(), "orchard-desk"), home: b.TempDir(), addr: "127.0.0.1:0",
		wrap: func(inner journal.Store) journal.Store { store = inner; return inner },
	}
	s.write(map[string]string{"gated.md": gated})
	s.start()
	b.Cleanup(s.stop)
	id := s.begin("gated", simulate, question)
	s.rest(id)
	fill(b, store, s.facts(id)[0].(journal.RunStarted), 100_000)
	c := s.client()
	for _, path := range []string{
		"/runs", "/runs?state=ok", "/runs?workflow=gated&q=gat", "/runs?by=tester", "/inbox",
	} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if status, _ := s.get(c, path); status != http.StatusOK {
					b.Fatal(status)
				}
			}
		})
	}
}

// BenchmarkPageIsUsable measures the time from a visit until a page accepts clicks and keys: its document, its style
// and all of its scripts have been loaded and executed.
func BenchmarkPageIsUsable(b *testing.B) {
	s := &site{t: b, dir: filepath.Join(b.TempDir(), "orchard-desk"), home: b.TempDir(), addr: "127.0.0.1:0"}
	s.write(map[string]string{"gated.md": gated})
	s.start()
	b.Cleanup(s.stop)
	id := s.begin("gated", simulate, question)
	s.rest(id)
	tab := s.open()
	for _, path := range []string{"/inbox", "/runs", "/runs/" + string(id), "/workflows/gated"} {
		b.Run(strings.ReplaceAll(path, string(id), "RUN"), func(b *testing.B) {
			total := 0.0
			for b.Loop() {
				tab.visit(path)
				total += eval[float64](tab, `performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd`)
			}
			b.ReportMetric(total/float64(b.N), "ms/usable")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// The first page, with everything that it loads, is smaller than 100 kB when it is compressed.
func TestFirstPageIsSmall(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	s.rest(s.begin("gated", simulate, question))
	c := s.client()
	c.Transport = &http.Transport{DisableCompression: true}
	total := 0
	load := func(path string) string {
		r, err := http.NewRequest(http.MethodGet, s.url(path), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip")
		response, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		raw, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		total += len(raw)
		if response.Header.Get("Content-Encoding") != "gzip" {
			return string(raw)
		}
		z, err := gzip.NewReader(strings.NewReader(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page := load("/inbox")
	files := regexp.MustCompile(`"(/static/[^"]+)"`).FindAllStringSubmatch(page, -1)
	for _, m := range files {
		for _, imported := range regexp.MustCompile(`from "\./([^"]+)"`).FindAllStringSubmatch(load(m[1]), -1) {
			if !strings.Contains(page, imported[1]) {
				load(path.Join("/static", imported[1]))
			}
		}
	}
	if total > 100_000 || len(files) < 6 {
		t.Errorf("the first page transfers %d bytes in %d files", total, len(files)+1)
	}
	t.Logf("the first page transfers %d bytes", total)
}

// A module has at most 100 lines, and needs no build step.
func TestModulesAreShort(t *testing.T) {
	entries, err := os.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	modules := 0
	for _, entry := range entries {
		if path.Ext(entry.Name()) != ".js" {
			continue
		}
		modules++
		raw, err := os.ReadFile(path.Join("static", entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(raw), "\n"); n > 100 {
			t.Errorf("%s has %d lines", entry.Name(), n)
		}
	}
	if modules < 5 {
		t.Errorf("%d modules were found", modules)
	}
}
