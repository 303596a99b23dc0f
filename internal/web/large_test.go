package web_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// loop has one step for each of its items.
const loop = `name: loop
states:
  initial: each
  each: {type: for_each, items: "{{.inputs.items}}", body: [work], on_complete: done}
  work: {type: step, command: "echo {{.loop.Item}}", on_success: each}
  done: {type: terminal}
inputs:
  - {name: items, type: string, required: true}
`

// items returns a list of so many numbers as JSON.
func items(n int) app.Field {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	return app.Field{Name: "items", Text: "[" + strings.Join(list, ",") + "]"}
}

// fan has so many branches side by side.
func fan(n int) string {
	var names []string
	var states strings.Builder
	for i := range n {
		names = append(names, fmt.Sprintf("b%03d", i))
		fmt.Fprintf(&states, "  b%03d: {type: step, command: echo %d}\n", i, i)
	}
	return fmt.Sprintf("name: fan\nstates:\n  initial: all\n"+
		"  all: {type: parallel, parallel: [%s], strategy: best_effort, on_success: done, on_failure: done}\n"+
		"%s  done: {type: terminal}\n", strings.Join(names, ", "), states.String())
}

// counting is a store that counts the events that are read.
type counting struct {
	journal.Store
	events *atomic.Int64
}

func (c counting) Events(ctx context.Context, id journal.RunID, after journal.Seq) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range c.Store.Events(ctx, id, after) {
			c.events.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

// maxPasses is how often a page reads the events of a run.
const maxPasses = 9

// A run with many steps is a page of bounded size: its items are folded into one node and one row, are listed failed
// first on pages with addresses, and each of them has an address. A page reads the events of its run a few times, not
// once for every step.
func TestLargeRunsStayUsable(t *testing.T) {
	const rounds, branches = 3000, 1000 // the bounds below depend on neither
	var events atomic.Int64
	s := newSite(t, map[string]string{"loop.yaml": loop, "fan.yaml": fan(branches)})
	s.stop()
	s.wrap = func(inner journal.Store) journal.Store { return counting{inner, &events} }
	s.start()
	long := s.begin("loop", simulate, items(rounds))
	s.rest(long)
	wide := s.play("fan",
		"replies:\n  - {step: b500, fail: {class: TIMEOUT, message: too slow}}\notherwise: simulate\n")
	s.rest(wide)
	c := s.client()
	for _, id := range []journal.RunID{long, wide} {
		total := int64(len(s.facts(id)))
		for _, tab := range []string{
			"", "?step=all", "?step=each", "?step=each.work&visit=2700", "?show=ok", "?show=ok&row=900", "/transcript",
			"/transcript?q=b500", "/audit", "/state", "/output", "/artifacts",
		} {
			events.Store(0)
			start := time.Now()
			status, page := s.get(c, "/runs/"+string(id)+tab)
			t.Logf("%s: %d bytes, %d of %d events, %v", tab, len(page), events.Load(), total, time.Since(start))
			if status != http.StatusOK || len(page) > 300_000 {
				t.Errorf("%s: %d, %d bytes", tab, status, len(page))
			}
			if n := events.Load(); n > maxPasses*total {
				t.Errorf("%s: %d events are read of a run that has %d", tab, n, total)
			}
			if n := strings.Count(page, `class="node`); n > 10 {
				t.Errorf("%s: the graph has %d nodes", tab, n)
			}
			if n := strings.Count(page, `class="gantt-row`); n > 10 && (!strings.Contains(tab, "show=") || n > rowsOfAPage) {
				t.Errorf("%s: the timeline has %d rows", tab, n)
			}
		}
	}
	b := s.open()
	b.visit("/runs/" + string(wide))
	b.waitText("#timeline", "1,000 steps, 1 failed")
	b.click(`#step-filter a[href="?show=failed"]`)
	b.waitText("#timeline a.gantt-row", "b500")
	b.visit("/runs/" + string(wide))
	b.click("#node-all a")
	b.waitText("#inside li:first-child", "b500")
	b.click(`#inside [rel=next]`)
	b.wait(`location.search.includes("item=50") && !document.querySelector("#inside").textContent.includes("b500")`)
	b.click("#inside li a")
	b.waitText("#panel h2", "b049")

	b.visit("/runs/" + string(long) + "?step=each.work&visit=2100")
	b.waitText("#panel .card-foot", "visit 2,100 of 3,000")
	b.waitText("#panel", "echo 2099")
	b.click(`#panel .card-foot a[href$="visit=2101"]`)
	b.waitText("#panel", "echo 2100")
}

// rowsOfAPage is how many steps a page of the timeline lists if they are filtered.
const rowsOfAPage = 100

// ExecutionAt returns one execution of a step as Executions does.
func TestExecutionAtReturnsOneExecution(t *testing.T) {
	s := newSite(t, map[string]string{"loop.yaml": loop})
	id := s.begin("loop", simulate, items(7))
	s.rest(id)
	all, err := s.app.Executions(t.Context(), id, "work")
	if err != nil || len(all) != 7 {
		t.Fatalf("%d executions, %v", len(all), err)
	}
	for i, want := range all {
		got, n, err := s.app.ExecutionAt(t.Context(), id, "work", i+1)
		if err != nil || n != 7 || len(want.Reads) == 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("execution %d of %d, %v:\n%+v\nwant\n%+v", i+1, n, err, got, want)
		}
	}
	if got, n, err := s.app.ExecutionAt(t.Context(), id, "work", 8); got != nil || n != 7 || err != nil {
		t.Errorf("execution 8: %v of %d, %v", got, n, err)
	}
}
