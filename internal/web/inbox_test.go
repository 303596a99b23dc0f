package web_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// The inbox reaches every item: those that do not fit on a page are on the next one, and each opens by its address.
func TestInboxPagesReachEveryItem(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	const runs = 103
	var ids []journal.RunID
	for range runs {
		ids = append(ids, s.begin("gated", simulate, question))
	}
	for _, id := range ids {
		s.rest(id)
	}
	b := s.open()
	b.visit("/inbox")
	b.wait(`document.querySelectorAll("#inbox-mine a.ask").length === 100`)
	b.visit("/inbox/" + string(ids[0]) + "/check")
	b.waitText(".digest", "applies to exactly what is shown")
	b.visit("/inbox")
	b.click("#older")
	b.wait(`document.querySelectorAll("#inbox-mine a.ask").length === 3`)
	b.click(fmt.Sprintf(`#inbox-mine a[href*=%q]`, ids[0]))
	b.click("button[value=approve]")
	b.waitText("#notice", "Approved")
	if run := s.rest(ids[0]); run.Status != journal.Finished {
		t.Errorf("the run is %s", run.Status)
	}
	for query, want := range map[string]int{"before=nonsense": 422, "before=" + string(ids[3]): 200} {
		if got, _ := s.get(s.client(), "/inbox?"+query); got != want {
			t.Errorf("?%s: status %d, want %d", query, got, want)
		}
	}
}

// rewritten asks about a text that was written twice, and about input, until a time.
const rewritten = `---
name: rewritten
kind: agent-flow/workflow
version: 1.0.0
description: Asks about a text that has changed.
input:
  schema:
    type: object
    properties:
      ticket: { type: string }
---
~~~runtime
human_in_the_loop: true
waitpoints:
  - { id: paid, after_step: check, event: refund_checked, timeout_seconds: 3600 }
~~~
~~~step
id: first
type: transform
description: Write the text
writes: [state.text]
code:
  language: sh
  script: printf 'The refund is due.\nIt is 40 dollars.\n'
~~~
~~~step
id: second
type: transform
description: Correct the text
writes: [state.text]
code:
  language: sh
  script: printf 'The refund is due.\nIt is 45 dollars.\n'
~~~
~~~step
id: check
type: gate
gate_method: human_review
description: May the refund be paid?
reads: [state.text, input.ticket]
~~~
`

// An item shows what has changed since a value was first written, which values are input, and until when it waits.
func TestInboxShowsChangesUntrustedInputAndTheDeadline(t *testing.T) {
	s := newSite(t, map[string]string{"rewritten.md": rewritten})
	ticket := app.Field{Name: "ticket", Text: "Please refund me."}
	fromOutside := shell
	fromOutside.Untrusted = true
	s.rest(s.begin("rewritten", fromOutside, ticket))
	b := s.open()
	b.visit("/inbox")
	b.waitText(".diff .del", "It is 40 dollars.")
	b.waitText(".diff .add", "It is 45 dollars.")
	b.waitText(".evidence.untrusted", "Please refund me.")
	if eval[bool](b, `[...document.querySelectorAll(".evidence.untrusted")].some((e) => e.textContent.includes("dollars"))`) {
		t.Error("the text of a step is marked as untrusted")
	}
	b.waitText(".facts", "in 59 min")
	until := eval[string](b, `[...document.querySelectorAll(".facts div")].find((d) => d.textContent.includes("Deadline"))
		.querySelector("time").dateTime`)
	if at, err := time.Parse(time.RFC3339, until); err != nil || time.Until(at) < 50*time.Minute {
		t.Errorf("the deadline is %s; %v", until, err)
	}
	b.waitText(".facts", "From outside of the project")

	// The input of a person in the project is not marked, neither in the inbox nor at the step.
	id := s.begin("rewritten", shell, ticket)
	s.rest(id)
	c := s.client()
	for _, path := range []string{"/inbox/" + string(id) + "/check", "/runs/" + string(id) + "?step=check"} {
		_, page := s.get(c, path)
		if !strings.Contains(page, "Please refund me.") || strings.Contains(page, "untrusted") {
			t.Errorf("%s lacks the input, or marks it as untrusted", path)
		}
	}
}

// The navigation counts runs that wait for a person. A turn of a conversation waits for one, an event does not.
func TestNavigationCountsWhatWaitsForPeople(t *testing.T) {
	s := newSite(t, map[string]string{"chat.yaml": chat, "waits.md": waits, "gated.md": gated})
	c := s.client()
	count := func() string {
		_, page := s.get(c, "/workflows")
		return regexp.MustCompile(`id="nav-inbox-count"[^>]*>(\d+)<`).FindStringSubmatch(page)[1]
	}
	s.rest(s.begin("waits", simulate))
	if n := count(); n != "0" {
		t.Errorf("an event is counted: %s", n)
	}
	talk := s.begin("chat", simulate)
	s.rest(talk)
	s.rest(s.begin("gated", simulate, question))
	for range 2 {
		if n := count(); n != "2" {
			t.Errorf("%s things wait for a person, and not 2", n)
		}
	}
	if _, err := s.app.Send(t.Context(), talk, journal.Actor{}, app.Cancel{}); err != nil {
		t.Fatal(err)
	}
	s.rest(talk)
	if n := count(); n != "1" {
		t.Errorf("%s things wait for a person, and not 1", n)
	}
}

// A person decides with the keyboard alone: the comment, the rejection of one item and the approval of the next.
func TestItemsAreDecidedByKeyboard(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	rejected := s.begin("gated", simulate, question)
	s.rest(rejected)
	approved := s.begin("gated", simulate, question)
	s.rest(approved)
	b := s.open()
	b.visit("/inbox")
	b.press("c")
	b.wait(`document.activeElement.id === "note"`)
	eval[string](b, `document.activeElement.value = ""`) // the protocol inserts the character of every key, also of this one
	for _, key := range "too long" {
		b.press(string(key))
	}
	b.press("\t")
	b.wait(`document.activeElement.value === "reject"`)
	b.press("\r")
	b.waitText("#notice", "Rejected")
	b.press("j")
	b.wait(`document.activeElement.matches("a.ask")`)
	b.press("\r")
	b.wait(fmt.Sprintf(`location.pathname.startsWith("/inbox/%s")`, approved))
	b.press("a")
	b.wait(`document.activeElement.value === "approve"`)
	b.press("\r")
	b.waitText("#notice", "Approved")
	for id, want := range map[journal.RunID]journal.Outcome{
		rejected: journal.OutcomeRejected, approved: journal.OutcomeOK,
	} {
		if run := s.rest(id); run.Outcome != want {
			t.Errorf("%s is %s %s, want %s", id, run.Status, run.Outcome, want)
		}
	}
	note := ""
	for _, f := range s.facts(rejected) {
		if d, ok := f.(journal.GateDecided); ok {
			note = d.Note
		}
	}
	if note != "too long" {
		t.Errorf("the comment is %q", note)
	}
}

// The actions of a row act on the trigger of that row, also after the rows have changed places on an open page.
func TestActionsStayWithTheirTrigger(t *testing.T) {
	s := newSite(t, map[string]string{
		"gated.md": gated,
		"later.md": strings.NewReplacer("name: gated", "name: later", "30 2 * * *", "45 2 * * *").Replace(gated),
		"espalier.yaml": "triggers: {gated: {simulate: true, input: {question: Why?}}, " +
			"later: {simulate: true, input: {question: Why?}}}\n",
	})
	b := s.open()
	b.visit("/triggers")
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	const order = `[...document.querySelectorAll("#main tbody tr:has(form[action$='/run'])")].map((r) => r.querySelector("a.name").textContent).join()`
	if got := eval[string](b, order); got != "gated,later" {
		t.Fatalf("the rows are %s", got)
	}
	found, err := s.app.Triggers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		if found[i].Workflow == "gated" && !found[i].Next.IsZero() {
			if _, err := s.app.PauseTrigger(t.Context(), found[i].ID, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.begin("gated", simulate, question)
	b.wait(order + ` === "later,gated"`)
	b.click(`tr:has(form[action$="/run"]) form[action$="/run"] button`)
	b.waitText("h1", "later")
}

// The page of triggers shows when they fire, and which firings started no run, with the reason.
func TestCalendarShowsWhatFiresAndWhatWasMissed(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": strings.Replace(gated, "30 2 * * *", "* * * * * *", 1)})
	b := s.open()
	b.visit("/triggers")
	b.waitText(".fire time", ":")
	b.waitText(".week .muted", "+")
	// The schedule has no input, so that no run can start.
	page, end := "", time.Now().Add(time.Minute)
	for !strings.Contains(page, "Firings that started no run") || !strings.Contains(page, "question") {
		if time.Now().After(end) {
			t.Fatalf("the page does not show a missed firing:\n%s", page)
		}
		_, page = s.get(s.client(), "/triggers")
		time.Sleep(100 * time.Millisecond)
	}
}

// Runs are filtered by workflow.
func TestRunsAreFilteredByWorkflow(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated, "fails.md": fails})
	s.rest(s.begin("gated", simulate, question))
	s.rest(s.begin("fails", simulate))
	b := s.open()
	b.visit("/runs?workflow=gated")
	b.wait(`document.querySelectorAll("tbody[data-rows] tr, [data-rows] > tr").length === 1`)
	b.waitText("[data-rows]", "gated")
	b.wait(`!!document.querySelector("[data-rows] time[title$='UTC']") && !!document.querySelector("[data-rows] svg.bar")`)
}

// Runs are filtered by the time at which they started, and by the name of their workflow.
func TestRunsAreFilteredByTimeAndText(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated, "waits.md": waits})
	s.stop()
	s.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	s.start()
	s.rest(s.begin("gated", simulate, question))
	s.rest(s.begin("waits", simulate))
	c := s.client()
	for query, want := range map[string]int{
		"since=1h": 0, "since=24h": 2, "q=gate": 1, "q=ait": 1, "q=ait&since=1h": 0, "q=nothing": 0,
	} {
		_, page := s.get(c, "/runs?"+query)
		if n := strings.Count(page, `<tr role="row" id="run-`); n != want {
			t.Errorf("?%s shows %d runs, want %d", query, n, want)
		}
	}
}

// The list of runs says what each run waits for, or why it failed.
func TestRunsSayWhatTheyWaitForOrWhyTheyFailed(t *testing.T) {
	s := newSite(t, map[string]string{"chat.yaml": chat, "fails.md": fails, "gated.md": gated, "waits.md": waits})
	b := s.open()
	s.rest(s.begin("fails", shell))
	b.visit("/runs")
	b.wait(`!!document.querySelector("#runs") && !document.querySelector("#cancel-runs")`) // nothing can be cancelled
	for want, id := range map[string]journal.RunID{
		"Waits for a person to reply to talk":               s.begin("chat", simulate),
		`The script of step "check" ended with exit code 1`: s.begin("fails", shell),
		"Waits for a decision about check":                  s.begin("gated", simulate, question),
		"Waits for the event papers_received":               s.begin("waits", simulate),
	} {
		s.rest(id)
		b.visit("/runs")
		b.wait(`!!document.querySelector("#run-` + string(id) + ` .c-what")`)
		if got := eval[string](b, `document.querySelector("#run-`+string(id)+` .c-what").textContent`); got != want {
			t.Errorf("the row says %q, want %q", got, want)
		}
	}
	b.wait(`!!document.querySelector("#cancel-runs")`)
}

// A search in the records of a run leaves out what does not match, and both records can be downloaded.
func TestRecordsAreSearchedAndDownloaded(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	c := s.client()
	for _, record := range []string{"transcript", "audit"} {
		_, all := s.get(c, "/runs/"+string(id)+"/"+record)
		_, some := s.get(c, "/runs/"+string(id)+"/"+record+"?q="+url.QueryEscape("draft"))
		count := func(page string) int { return strings.Count(page, `id="line-`) }
		if count(some) == 0 || count(some) >= count(all) {
			t.Errorf("%s: the search shows %d of %d lines", record, count(some), count(all))
		}
		b := s.open()
		b.visit("/runs/" + string(id) + "/" + record)
		address := eval[string](b, `document.querySelector("a[download]").getAttribute("href")`)
		if status, text := s.get(c, address); status != 200 || !strings.Contains(text, string(id)) {
			t.Errorf("%s: the download %s has status %d and %d bytes", record, address, status, len(text))
		}
	}
}

// The success rate of a workflow leaves out runs that people ended.
func TestSuccessRateLeavesOutStoppedRuns(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	by := journal.Actor{User: "tester"}
	end := func(m app.Message) {
		id := s.begin("gated", simulate, question)
		s.rest(id)
		if _, err := s.app.Send(t.Context(), id, by, m); err != nil {
			t.Fatal(err)
		}
		s.rest(id)
	}
	end(app.Approve{})
	end(app.Reject{})
	end(app.Cancel{Reason: "a mistake"})
	s.rest(s.play("gated", "replies:\n  - {step: draft, fail: {class: TIMEOUT, message: too slow}}\n"+
		"otherwise: simulate\n", question))
	b := s.open()
	b.visit("/workflows/gated")
	b.waitText("figure", "Success rate50 %")
	b.wait(`[...document.querySelectorAll(".plot rect.off")].some((r) => Number(r.getAttribute("height")) > 0)`)
	b.wait(`!!document.querySelector(".plot .dot") && document.querySelectorAll(".graph .node").length >= 2`)
}

// The graph is zoomed, fitted and followed with buttons, and the chosen theme lasts.
func TestGraphIsZoomedAndTheThemeIsKept(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	b := s.open()
	b.visit("/runs/" + string(id))
	const width = `document.querySelector("#graph").getBoundingClientRect().width`
	b.wait(`!document.querySelector("[data-zoom=in]").hidden`)
	before := eval[float64](b, width)
	b.click("[data-zoom=in]")
	b.click("[data-zoom=in]")
	if after := eval[float64](b, width); after <= before {
		t.Errorf("the graph is %f px wide, and was %f px", after, before)
	}
	b.click("[data-zoom=fit]")
	b.wait(fmt.Sprintf("Math.abs(%s - %f) < 1", width, before))
	b.theme("light")
	b.click("[data-theme-toggle]")
	b.visit("/runs")
	b.wait(`document.documentElement.dataset.theme === "dark"`)
}
