package web_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

// chatty writes to both streams, and then waits until a file exists.
func chatty(file string) string {
	return fmt.Sprintf(`name: chatty
states:
  initial: talk
  talk:
    type: step
    command: |
      echo one; echo two >&2; printf '\033[31mred\033[0m <b>three</b>\n'
      until [ -e %s ]; do sleep 0.1; done; echo last
    on_success: done
  done: {type: terminal}
`, file)
}

// visibleLines are the lines of the log that are shown.
const visibleLines = `[...document.querySelectorAll("#log li:not([hidden]) span")].map((e) => e.textContent).join("|")`

// The panel of a step shows what its command writes, stream by stream, while it runs; the log can be searched and
// copied, and each of its lines has an address.
func TestLogIsShownWhileACommandRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go")
	s := newSite(t, map[string]string{"chatty.yaml": chatty(file)})
	b := s.open() // first: without a browser the test is skipped, and the command would wait without end
	id := s.begin("chatty", app.RunOptions{AllowShell: true, RecordStream: true})
	b.visit("/runs/" + string(id) + "?step=talk")
	b.waitText("#log li[data-stream=stdout]", "one")
	b.waitText("#log li[data-stream=stderr]", "two")
	b.waitText("#log li", "red <b>three</b>")
	eval[bool](b, "window.sameDocument = true")
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.waitText("#log li", "last")
	b.waitText("#run-state", "Finished")
	b.wait(`!document.querySelector("#log[data-live]")`)
	if !eval[bool](b, "window.sameDocument === true") {
		t.Error("the page was reloaded")
	}
	b.press("/")
	b.wait(`document.activeElement.matches("#log input")`)
	b.set("#log input", "THREE")
	b.wait(visibleLines + ` === "red <b>three</b>"`)
	b.set("#log input", "x")
	b.set("#log input", "o")
	b.wait(visibleLines + ` === "one|two"`)
	eval[bool](b, `!(navigator.clipboard.writeText = async (text) => { window.copied = text; })`)
	b.click("#log button.copy")
	b.wait(`window.copied?.split("\n").sort().join() === "last,one,red <b>three</b>,two"`)
	b.visit("/runs/" + string(id) + "?step=talk#log-4")
	b.wait(`document.querySelector("#log li:target")?.id === "log-4"`)

	// A run whose stream is not recorded shows the output after the command has ended.
	id = s.begin("chatty", shell)
	s.rest(id)
	b.visit("/runs/" + string(id) + "?step=talk")
	b.waitText("#log li[data-stream=stdout]", "last")
	b.waitText("#log li[data-stream=stderr]", "two")
}

// mixed has a step that fails, one that is skipped after it and one that handles the failure.
const mixed = `name: mixed
states:
  initial: first
  first: {type: step, command: echo fine, on_success: all}
  all:
    type: parallel
    parallel: [good, bad]
    strategy: best_effort
    on_success: done
    on_failure: done
  good: {type: step, command: echo good}
  bad: {type: step, command: "echo because >&2; exit 3"}
  done: {type: terminal}
`

// Steps are filtered by state, also the ones inside others, and the filter is an address. The tab of the browser shows
// the state of the run.
func TestStepsAreFilteredByState(t *testing.T) {
	s := newSite(t, map[string]string{"mixed.yaml": mixed, "fails.md": fails, "gated.md": gated})
	id := s.begin("mixed", shell)
	s.rest(id)
	b := s.open()
	b.visit("/runs/" + string(id))
	rows := `[...document.querySelectorAll("#timeline a:not(.sub .sub) .lab bdi")].map((e) => e.textContent).join()`
	b.waitText("#step-filter", "Failed 1")
	b.click(`#step-filter a[href="?show=failed"]`)
	b.wait(rows + ` === "all.bad"`)
	b.click("#timeline a.gantt-row")
	b.wait(`location.search.includes("show=failed") && location.search.includes("step=")`)
	b.wait(rows + ` === "all.bad"`)
	b.waitText("#log li[data-stream=stderr]", "because")
	b.visit("/runs/" + string(id) + "?show=sleeping")
	b.waitText("#timeline", "No step is in this state")

	icon := `document.querySelector("#icon").getAttribute("href")`
	b.wait(icon + `.includes("icon-ok")`)
	failed := s.begin("fails", shell)
	s.rest(failed)
	b.visit("/runs/" + string(failed))
	b.wait(icon + `.includes("icon-failed")`)
	b.press("e")
	b.wait(`document.activeElement.textContent === "check"`)
	waiting := s.begin("gated", simulate, question)
	s.rest(waiting)
	b.visit("/runs/" + string(waiting))
	b.wait(icon + `.includes("icon-waiting")`)
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	approve(s, waiting)
	b.wait(icon + `.includes("icon-ok")`)
	response, err := s.client().Get(s.url(eval[string](b, icon)))
	if err != nil {
		t.Fatal(err)
	}
	if response.Body.Close(); response.Header.Get("Content-Type") != "image/svg+xml" {
		t.Errorf("the icon is %s", response.Header.Get("Content-Type"))
	}
}

// All parts of a panel and all lines of a transcript are expanded and collapsed at once; a line has an address that
// opens it.
func TestPartsAreExpandedAndLinked(t *testing.T) {
	s := newSite(t, map[string]string{"research.md": research})
	id := s.play("research", researchReplies)
	s.rest(id)
	b := s.open()
	open := `document.querySelectorAll("[data-folds] details[open]").length`
	all := `document.querySelectorAll("[data-folds] details").length`
	for _, path := range []string{"?step=look", "/transcript"} {
		b.visit("/runs/" + string(id) + path)
		b.click("[data-fold]")
		b.wait(open + " > 2 && " + open + " === " + all)
		b.waitText("[data-fold]", "Collapse all")
		b.click("[data-fold]")
		b.wait(open + " === 0")
	}
	b.visit("/runs/" + string(id) + "/transcript")
	address := eval[string](b, `document.querySelector("#line-3 a").getAttribute("href")`)
	b.visit("/runs/" + string(id) + "/transcript" + address)
	b.wait(`document.querySelector("#line-3").open && !document.querySelector("#line-2")`)
}

// A run that has finished is repeated from any of its steps with changed values, as one action.
func TestFinishedRunIsForkedWithChangedValues(t *testing.T) {
	s := newSite(t, map[string]string{"fails.md": strings.Replace(fails, `"wrong"`, `"right"`, 1)})
	id := s.begin("fails", shell)
	s.rest(id)
	b := s.open()
	b.visit("/runs/" + string(id) + "?step=check")
	b.waitText("#run-state", "Finished")
	b.click("#fork summary")
	if got := eval[string](b, `document.querySelector("#fork-0").value`); got != "right" {
		t.Fatalf("the form shows %q", got)
	}
	b.set("#fork-0", "wrong")
	b.click("#fork button")
	b.waitText(".meta", "continues "+string(id)[:8])
	b.waitText("#run-state", "Failed")
	b.waitText(".meta", "changed state.word")
	forked := journal.RunID(strings.TrimPrefix(eval[string](b, "location.pathname"), "/runs/"))
	edits := 0
	for _, fact := range s.facts(forked) {
		if x, ok := fact.(journal.StateEdited); ok && x.Path == "state.word" {
			edits++
		}
	}
	if run := s.rest(id); run.Outcome != journal.OutcomeOK || forked == id || edits != 1 {
		t.Errorf("the first run is %s; run %s has %d edits", run.Outcome, forked, edits)
	}
	b.wait(`!document.querySelector("#fork")`) // the form at the top of the page retries the step that failed
}
