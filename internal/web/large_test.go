package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

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
	return fmt.Sprintf("name: fan\nstates:\n  initial: all\n  all: {type: parallel, parallel: [%s], strategy: best_effort, "+
		"on_success: done, on_failure: done}\n%s  done: {type: terminal}\n", strings.Join(names, ", "), states.String())
}

// A run with many steps is a page of bounded size: its items are folded into one node and one row, are listed failed
// first on pages with addresses, and each of them has an address.
func TestLargeRunsStayUsable(t *testing.T) {
	const rounds, branches = 1500, 1000
	s := newSite(t, map[string]string{"loop.yaml": loop, "fan.yaml": fan(branches)})
	long := s.begin("loop", simulate, items(rounds))
	s.rest(long)
	wide := s.play("fan", "replies:\n  - {step: b500, fail: {class: TIMEOUT, message: too slow}}\notherwise: simulate\n")
	s.rest(wide)
	c := s.client()
	for _, id := range []journal.RunID{long, wide} {
		for _, tab := range []string{"", "?step=all", "?step=each", "/transcript", "/audit", "/state"} {
			status, page := s.get(c, "/runs/"+string(id)+tab)
			if status != http.StatusOK || len(page) > 300_000 {
				t.Errorf("%s: %d, %d bytes", tab, status, len(page))
			}
			if n := strings.Count(page, `class="node`); n > 10 {
				t.Errorf("%s: the graph has %d nodes", tab, n)
			}
			if n := strings.Count(page, `class="gantt-row`); n > 10 {
				t.Errorf("%s: the timeline has %d rows", tab, n)
			}
		}
	}
	b := s.open()
	b.visit("/runs/" + string(wide))
	b.waitText("#timeline", "1,000 steps, 1 failed")
	b.click("#node-all a")
	b.waitText("#inside li:first-child", "b500")
	b.click(`#inside [rel=next]`)
	b.wait(`location.search.includes("item=50") && !document.querySelector("#inside").textContent.includes("b500")`)
	b.click("#inside li a")
	b.waitText("#panel h2", "b049")

	b.visit("/runs/" + string(long) + "?step=each.work&visit=700")
	b.waitText("#panel .card-foot", "visit 700 of 1,500")
	b.waitText("#panel", "echo 699")
	b.click(`#panel .card-foot a[href$="visit=701"]`)
	b.waitText("#panel", "echo 700")
}
