package web_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/source"
)

// many waits until a file exists and then has one step for each of its items.
func many(file string) string {
	return fmt.Sprintf(`name: many
states:
  initial: hold
  hold: {type: step, command: "until [ -e %s ]; do sleep 0.1; done", on_success: each}
  each: {type: for_each, items: "{{.inputs.items}}", body: [work], on_complete: done}
  work: {type: step, command: "echo {{.loop.Item}}", on_success: each}
  done: {type: terminal}
inputs:
  - {name: items, type: string, required: true}
`, file)
}

// A step that changes reaches an open page as a few bytes: the graph is patched, and the page is requested again once
// in a while, not for every change.
func TestStepChangesAreFewBytes(t *testing.T) {
	const rounds = 150
	file := filepath.Join(t.TempDir(), "go")
	s := newSite(t, map[string]string{"many.yaml": many(file)})
	t.Cleanup(func() { _ = os.WriteFile(file, nil, 0o600) }) // the command ends before the server if the test fails
	id := s.begin("many", shell, items(rounds))
	b := s.open()
	page := "/runs/" + string(id) + "?step=done"
	b.visit(page)
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	b.wait(`document.getElementById("node-hold").dataset.state === "running"`)
	stream, err := s.client().Get(s.url(eval[string](b, `document.body.dataset.live`)))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	const requests = `performance.getEntriesByType("resource").filter((e) => e.initiatorType === "fetch").length`
	eval[bool](b, `performance.setResourceTimingBufferSize(10000), true`)
	before, start := eval[int](b, requests), time.Now()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bytes := 0
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		bytes += len(lines.Text()) + 1
		if strings.HasPrefix(lines.Text(), "data: [") && strings.Contains(lines.Text(), `"id":"node-done"`) {
			break
		}
	}
	b.waitText("#run-state", "Finished")
	b.wait(`document.getElementById("node-done").dataset.state === "ok"`)
	// Once because the loop is folded, once at the end, and otherwise once in five seconds.
	most := 3 + int(time.Since(start)/(5*time.Second))
	if n := eval[int](b, requests) - before; n > most {
		t.Errorf("the page was requested %d times for %d steps, at most %d are needed", n, rounds, most)
	}
	_, whole := s.get(s.client(), page)
	if each := bytes / rounds; each > 2500 || each > len(whole)/10 {
		t.Errorf("%d bytes were sent for each step; the page has %d bytes", each, len(whole))
	}
}

// The panel of a step shows its prompt, and what it used and cost.
func TestPanelShowsThePromptAndTheCost(t *testing.T) {
	s := newSite(t, map[string]string{
		"gated.md":      gated,
		"espalier.yaml": "models: {default: openai/fixed}\nprices: {openai/fixed: {input: 2, output: 8}}\n",
	})
	id := s.play("gated", "replies: [{step: draft, reply: Because., usage: {input: 1000, output: 2000}}]\n", question)
	s.rest(id)
	b := s.open()
	b.visit("/runs/" + string(id) + "?step=draft")
	b.waitText("#panel .card-foot", "1,000 tokens in, 2,000 out, $0.018")
	b.waitText("#budget", "scripted: not paid")
	prompt := `[...document.querySelectorAll("#talk details")].find((d) => d.textContent.startsWith("Prompt"))`
	b.wait(`!` + prompt + `.open`)
	eval[bool](b, prompt+`.querySelector("summary").click(), true`)
	b.wait(prompt + `.open && ` + prompt + `.textContent.includes("Why is the sky blue?")`)
	b.visit("/workflows/gated")
	approve(s, id)
	s.rest(id)
	b.visit("/workflows/gated")
	b.waitText("figure", "Cost of a run, median$0.018")
	b.waitText("figure", "Duration, p50 and p95")
	b.wait(`!!document.querySelector("path.p50") && !!document.querySelector("path.p95")`)
}

// The nodes of a workflow's graph lead to the lines that declare the steps.
func TestNodesLeadToTheirSource(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	b := s.open()
	b.visit("/workflows/gated")
	for _, step := range []string{"draft", "check"} {
		b.click("#node-" + step + " a")
		b.waitText(".src li:target", "id: "+step)
	}
}

// The graph is dragged with the mouse, and people sign out.
func TestGraphIsDraggedAndPeopleSignOut(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	b := s.openAs("vera", identity.Viewer)
	b.expect("401")
	b.visit("/runs/" + string(id))
	b.wait(`!document.querySelector("[data-zoom=in]").hidden`)
	for range 6 {
		b.click("[data-zoom=in]")
	}
	moved := eval[float64](b, `(() => {
		const box = document.querySelector(".graph"), before = box.scrollLeft;
		const send = (type, x) => box.dispatchEvent(new PointerEvent(type,
			{ pointerType: "mouse", button: 0, clientX: x, clientY: 300, bubbles: true }));
		send("pointerdown", 300); send("pointermove", 260); send("pointerup", 260); send("pointermove", 100);
		return box.scrollLeft - before;
	})()`)
	if moved != 40 {
		t.Errorf("the graph moved by %f px, want 40", moved)
	}
	b.click(`form[action$="/logout"] button`)
	b.wait(`!!document.querySelector("#token")`)
	b.visit("/inbox")
	b.wait(`!!document.querySelector("#token")`)
}

// The page of the system shows the providers, the version, and to administrators the users.
func TestSystemShowsProvidersUsersAndVersion(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	if _, err := s.auth.Users().Add("legal-ops", false, []identity.Role{identity.Approver}, 0); err != nil {
		t.Fatal(err)
	}
	b := s.open()
	b.visit("/system")
	b.waitText("[aria-labelledby=d-h] tr", "Provider anthropic")
	b.waitText("[aria-labelledby=d-h] tr", "ANTHROPIC_API_KEY is not set")
	b.waitText("[aria-labelledby=v-h]", "Versiontest")
	b.waitText("[aria-labelledby=u-h] li", "legal-ops")
	b.waitText("[aria-labelledby=u-h] .tag", "approver")
	viewer := s.openAs("vera", identity.Viewer)
	viewer.visit("/system")
	viewer.waitText("[aria-labelledby=u-h]", "Administrators see the users here")
	if eval[bool](viewer, `document.body.textContent.includes("legal-ops")`) {
		t.Error("a viewer sees the users")
	}
}

// Two runs are compared side by side: outputs, prompts and cost.
func TestCompareShowsOutputsPromptsAndCost(t *testing.T) {
	s := newSite(t, map[string]string{
		"gated.md":      gated,
		"espalier.yaml": "models: {default: openai/fixed}\nprices: {openai/fixed: {input: 2, output: 8}}\n",
	})
	run := func(asked, reply string, tokens int) journal.RunID {
		id := s.play("gated", fmt.Sprintf("replies: [{step: draft, reply: %q, usage: {input: 0, output: %d}}]\n",
			reply, tokens), app.Field{Name: "question", Text: asked})
		s.rest(id)
		approve(s, id)
		s.rest(id)
		return id
	}
	a, c := run("Why is it blue?", "same\nleft", 1000), run("Why is it red?", "same\nright", 2000)
	b := s.open()
	b.visit("/compare?a=" + string(a) + "&b=" + string(c))
	b.waitText(`[aria-label="Facts"] tr`, "Cost$0.0082$0.0162")
	for _, side := range []struct{ section, selector, text string }{
		{"o-h", "tr td:first-child.del", "left"},
		{"o-h", "tr td:last-child.add", "right"},
		{"o-h", "tr td:first-child", "same"},
		{"pr-h", "tr td:first-child.del", "Why is it blue?"},
		{"pr-h", "tr td:last-child.add", "Why is it red?"},
	} {
		b.waitText("[aria-labelledby="+side.section+"] "+side.selector, side.text)
	}
	// Both sides of a line are beside each other.
	same := eval[bool](b, `[...document.querySelectorAll(".sides tbody tr")].every((row) => {
		const [a, b] = [...row.children].map((cell) => cell.getBoundingClientRect());
		return a.top === b.top && a.right <= b.left + 1 && Math.abs(a.width - b.width) < 2;
	})`)
	if !same {
		t.Error("the sides are not beside each other")
	}
}

// Colors are named in one file.
func TestColorsAreTokens(t *testing.T) {
	color := regexp.MustCompile(`(?i)#[0-9a-f]{3,8}\b|\b(rgba?|hsla?|oklch|light-dark)\(`)
	for _, pattern := range []string{"static/app.css", "templates/*.html"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range files {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text := regexp.MustCompile(`(href|action)="[^"]*"|url\(#[a-z-]+\)`).ReplaceAllString(string(raw), "")
			if found := color.FindString(text); found != "" {
				t.Errorf("%s has the color %s", name, found)
			}
		}
	}
}

// The list of runs shows how the runs of the last day stand, and offers rare states only while runs are in them.
func TestRunsOfADayArePlottedAndStatesCounted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go")
	s := newSite(t, map[string]string{
		"gated.md": gated, "fails.md": fails, "chatty.yaml": chatty(file),
		"espalier.yaml": "concurrency: {one: {workflow: chatty, runs: 1}}\n",
	})
	t.Cleanup(func() { _ = os.WriteFile(file, nil, 0o600) }) // the command ends before the server if the test fails
	s.rest(s.begin("fails", shell))
	done := s.begin("gated", simulate, question)
	s.rest(done)
	approve(s, done)
	s.rest(done)
	paused := s.begin("gated", simulate, question)
	s.rest(paused)
	if _, err := s.app.Send(t.Context(), paused, journal.Actor{User: "tester"}, app.Pause{}); err != nil {
		t.Fatal(err)
	}
	s.rest(paused)
	b := s.open()
	b.visit("/runs")
	b.wait(`document.querySelector("#day svg.hist").getAttribute("aria-label") ===
		"Runs for each half hour: 1 finished, 1 open, 0 stopped by a person, 1 failed; at most 3 in half an hour"`)
	if n := eval[int](b, `document.querySelectorAll("#day svg.hist rect").length`); n != 3 {
		t.Errorf("the plot has %d bars", n)
	}
	b.waitText("#chip-paused", "Paused 1")
	b.wait(`!document.querySelector("#chip-queued") && !document.querySelector("#chip-unknown")`)
	b.visit("/runs?by=tester") // the index does not know who started a run
	b.wait(`!!document.querySelector("#runs") && !document.querySelector("#day")`)

	first, second := s.begin("chatty", shell), s.begin("chatty", shell)
	b.visit("/runs")
	b.waitText("#chip-queued", "Queued 1")
	b.waitText("#chip-running", "Running 1")
	for state, want := range map[string]journal.RunID{"running": first, "queued": second} {
		b.visit("/runs?state=" + state)
		b.wait(fmt.Sprintf(`document.querySelectorAll("#runs tr").length === 1 && !!document.getElementById("run-%s")`, want))
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.rest(first)
	s.rest(second)
}

// The inbox lists the latest decisions with who made them; each opens by its address.
func TestInboxListsTheLatestDecisions(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	rejected := s.begin("gated", simulate, question)
	s.rest(rejected)
	approved := s.begin("gated", simulate, question)
	s.rest(approved)
	by := journal.Actor{User: "ada"}
	b := s.open()
	b.visit("/inbox")
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	for id, m := range map[journal.RunID]app.Message{
		rejected: app.Reject{Note: "too long"}, approved: app.Approve{Note: "fine"},
	} {
		if _, err := s.app.Send(t.Context(), id, by, m); err != nil {
			t.Fatal(err)
		}
		s.rest(id)
	}
	b.waitText("#inbox-done", "Rejected check")
	b.waitText("#inbox-done", "by ada: too long")
	b.waitText("#inbox-done", "Approved check")
	b.click(fmt.Sprintf(`#inbox-done a[href*=%q]`, rejected))
	b.waitText("#decided", "Rejected by ada")
}

// An item that changes while it is open says so. A decision about what was shown first is refused, and the comment
// stays.
func TestInboxSaysThatAnItemHasChanged(t *testing.T) {
	s := newSite(t, map[string]string{"rewritten.md": rewritten})
	id := s.begin("rewritten", shell, app.Field{Name: "ticket", Text: "Please refund me."})
	s.rest(id)
	b := s.open()
	b.expect("409")
	b.visit("/inbox/" + string(id) + "/check")
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	b.wait(`document.querySelector("#item-changed").hidden`)
	b.set("#note", "half a sentence")
	edit := app.Edit{Variable: "state.text", Value: json.RawMessage(`"It is 50 dollars."`)}
	if _, err := s.app.Send(t.Context(), id, journal.Actor{User: "ada"}, edit); err != nil {
		t.Fatal(err)
	}
	b.waitText("article .evidence", "It is 50 dollars.")
	b.wait(`!document.querySelector("#item-changed").hidden`)
	b.click("button[value=approve]")
	b.waitText("[role=alert]", "half a sentence")
	if run := s.rest(id); run.Status != journal.Waiting {
		t.Fatalf("the run is %s", run.Status)
	}
	b.visit("/inbox/" + string(id) + "/check")
	b.wait(`document.querySelector("#item-changed").hidden && document.querySelector("#note").value === "half a sentence"`)
	b.click("button[value=approve]")
	b.waitText("#notice", "Approved")
}

// A run is in the inbox as soon as one of its branches asks, although another one still works; the number in the
// navigation is that of the inbox.
func TestInboxShowsWhatARunningRunAsks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go")
	s := newSite(t, map[string]string{
		"both.yaml": fmt.Sprintf(`name: both
states:
  initial: all
  all: {type: parallel, parallel: [talk, work], strategy: all_succeed, on_success: done}
  talk: {type: agent, provider: claude, mode: conversation, prompt: hi}
  work: {type: step, command: "until [ -e %s ]; do sleep 0.1; done"}
  done: {type: terminal}
`, file),
		"gated.md": gated,
	})
	t.Cleanup(func() { _ = os.WriteFile(file, nil, 0o600) }) // the command ends before the server if the test fails
	id := s.prepare("both", app.PrepareRequest{
		Script: source.NewFile("replies.yaml", "replies:\n  - {step: talk, reply: What now?}\n"), Options: shell,
	})
	s.rest(s.begin("gated", simulate, question))
	b := s.open()
	b.visit("/inbox")
	b.waitText("#inbox-mine", "Reply to talk")
	b.wait(`document.querySelector("#nav-inbox-count").textContent.startsWith("2")`)
	if run, err := s.app.Find(t.Context(), string(id)); err != nil || run.Status != journal.Running {
		t.Errorf("the run is %+v, %v", run, err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The tab of the audit log says whether a finished run is verified, also if its log was changed.
func TestAuditTabShowsWhetherARunIsVerified(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	approve(s, id)
	s.rest(id)
	b := s.open()
	b.visit("/runs/" + string(id))
	b.waitText(".tabs [data-state=ok]", "verified")
	logs, err := filepath.Glob(filepath.Join(s.dir, ".espalier", "storage", "audit", string(id)+"*"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no audit log was found: %v", err)
	}
	raw, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(raw), `"result":"approved"`, `"result":"rejected"`, 1)
	if changed == string(raw) {
		t.Fatal("the log has no decision")
	}
	if err := os.WriteFile(logs[0], []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	b.visit("/runs/" + string(id))
	b.waitText(".tabs [data-state=failed]", "not verified")
	b.visit("/runs/" + string(id) + "/audit")
	b.waitText("#verified", "Verification failed")
}

// asking calls a tool that asks a person a question.
const asking = `---
name: asking
kind: agent-flow/workflow
version: 1.0.0
description: Calls a tool that asks a question.
---
~~~step
id: call
type: tool
description: Call.
tool: garden.ask
args: {}
writes: [output.answer]
~~~
`

// A question of a tool is a form that is made from its schema. An answer that does not fit is refused, and the right
// one reaches the tool with the types of the schema.
func TestInboxAnswersAQuestionByItsSchema(t *testing.T) {
	s := gardenSite(t, map[string]string{"asking.md": asking})
	id := s.begin("asking", shell)
	if run := s.rest(id); run.Status != journal.Waiting {
		end, _ := s.app.Ending(t.Context(), run)
		t.Fatalf("the run is %s %s: %s %+v", run.Status, run.Outcome, run.Error, end)
	}
	b := s.open()
	b.expect("422")
	b.visit("/inbox")
	b.waitText("article .evidence", "How many trees?")
	b.set(`#answer [name="i.trees"]`, "1.5")
	b.set("#note", "counted")
	b.click("button[value=approve]")
	b.waitText("[role=alert]", "trees")
	b.wait(`document.querySelector("#note").value === "counted"`)
	b.set(`#answer [name="i.trees"]`, "12")
	b.click(`#answer input[value=pear]`)
	b.click("button[value=approve]")
	b.waitText("#notice", "Approved")
	if run := s.rest(id); run.Outcome != journal.OutcomeOK {
		t.Fatalf("the run is %s %s", run.Status, run.Error)
	}
	b.visit("/runs/" + string(id) + "/output")
	b.waitText("main", `accept {"kind":"pear","trees":12}`)
}

// The command that retries a failed run names the variable to correct.
func TestCommandToRetryNamesTheVariable(t *testing.T) {
	s := newSite(t, map[string]string{"fails.md": fails})
	id := s.begin("fails", shell)
	s.rest(id)
	_, page := s.get(s.client(), "/runs/"+string(id))
	want := `data-copy="espalier resume ` + string(id)[:8] + ` --from check --set state.word=`
	if !strings.Contains(page, want) {
		t.Errorf("the page lacks %s", want)
	}
	response, err := s.client().PostForm(s.url("/runs/"+string(id)+"/retry"), url.Values{"from": {"nowhere"}})
	if err != nil {
		t.Fatal(err)
	}
	if response.Body.Close(); response.StatusCode == http.StatusSeeOther {
		t.Error("a retry from a step that does not exist is accepted")
	}
}
