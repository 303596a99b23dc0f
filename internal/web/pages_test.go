package web_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/source"
)

var (
	simulate = app.RunOptions{Simulate: true}
	shell    = app.RunOptions{AllowShell: true}
	question = app.Field{Name: "question", Text: "Why is the sky blue?"}
)

// A newcomer runs an example, approves its gate and sees the result, with the browser alone.
func TestFirstVisitLeadsToAnApprovedRun(t *testing.T) {
	s := newSite(t, nil)
	b := s.open()
	b.visit("/")
	b.waitText("h1", "Run your first workflow in a minute")
	b.click("#first button")
	b.waitText("#run-state", "Waiting")
	b.waitText("#asks", "Decision:")
	b.click("#asks a.btn")
	b.wait(`!!document.querySelector("form.decide")`)
	b.waitText(".evidence h3", "state.summary")
	b.set("#note", "Read and approved")
	b.click(`button[value=approve]`)
	b.waitText("#notice", "Approved")
	b.click("#notice a.btn")
	b.waitText("#run-state", "Finished")
	first := eval[string](b, "location.pathname")
	b.visit("/runs")
	b.waitText("#runs", "Finished")
	b.click("#runs a.name")
	b.waitText("#run-state", "Finished")
	b.click(`form[action$="/welcome"] button`) // run again: the project has no such workflow
	b.wait(`location.pathname.startsWith("/runs/") && location.pathname !== "` + first + `"`)
	b.waitText("#run-state", "Waiting")
	b.visit(first)
	b.click(`a[href$="/audit"]`)
	b.waitText("#verified", "Verified")
}

// A person finds out why a run failed, corrects the cause and retries, with the browser alone.
func TestFailedRunIsCorrectedAndRetried(t *testing.T) {
	s := newSite(t, map[string]string{"fails.md": fails})
	failed := s.begin("fails", shell)
	s.rest(failed)
	b := s.open()
	b.visit("/runs")
	b.click("#runs a.name")
	b.waitText("#why", "exit code 1")
	b.waitText("#panel table", "2")
	if got := eval[string](b, `document.querySelector("#set-0").value`); got != "wrong" {
		t.Fatalf("the form shows %q", got)
	}
	b.set("#set-0", "right")
	b.click(`button[data-key=r]`)
	b.waitText("#run-state", "Finished")
	b.waitText(".meta", "continues "+string(failed)[:8])
	b.waitText(".meta", "changed state.word")
	b.click(`a[href$="/output"]`)
	b.waitText("main", "right")
	if run := s.rest(failed); run.Outcome != journal.OutcomeFailed {
		t.Errorf("the failed run is now %s", run.Outcome)
	}
}

// The form of a workflow checks its input, keeps what was entered and starts a run.
func TestWorkflowFormStartsARun(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated, "broken.md": broken})
	b := s.open()
	b.expect("422")
	b.visit("/workflows")
	b.waitText("tbody", "1 error")
	b.visit("/workflows/broken")
	b.waitText(".diag", "nobody")
	b.visit("/workflows/gated")
	b.set(`[name="i.words"]`, "12")
	b.click(`button[value=simulate]`)
	b.waitText(".err", "question is missing")
	if got := eval[string](b, `document.querySelector('[name="i.words"]').value`); got != "12" {
		t.Errorf("the form lost the number: %q", got)
	}
	b.set(`[name="i.question"]`, "Why?")
	b.set(`[name="i.sources"]`, `["a", "b"]`)
	b.click(`input[value=formal]`)
	b.click(`button[value=simulate]`)
	b.waitText("#run-state", "Waiting")
	id := strings.TrimPrefix(eval[string](b, "location.pathname"), "/runs/")
	started := s.facts(journal.RunID(id))[0].(journal.RunStarted)
	want := `{"cite":true,"question":"Why?","sources":["a","b"],"tone":"formal","words":12}`
	if got := string(started.Input.JSON); got != want {
		t.Errorf("input %s, want %s", got, want)
	}
	b.visit("/workflows/gated")
	b.click(`a[href^="?like="]`)
	b.wait(`document.querySelector('[name="i.question"]').value === "Why?"`)
	// Without a model, a real run does not start, and the page says what is missing.
	b.click(`button[value=run]`)
	b.waitText("[role=alert]", "was not started")
}

// Every action on a run works from its page.
func TestActionsOnARun(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated, "waits.md": waits})
	waiting := s.begin("waits", simulate)
	s.rest(waiting)
	b := s.open()
	b.visit("/runs/" + string(waiting))
	b.click("#more-menu summary")
	b.set("#edit-n", "state.asked")
	b.set("#edit-v", "again")
	b.click(`form[action$="/edit"] button`)
	b.waitText("#notice", "variable is changed")
	b.click(`form[action$="/pause"] button`)
	b.waitText("#run-state", "Paused")
	b.click(`form[action$="/resume"] button`)
	b.waitText("#run-state", "Waiting")
	b.click("#more-menu summary")
	b.set("#sig-e", "papers_received")
	b.click(`form[action$="/signal"] button`)
	b.waitText("#run-state", "Finished")

	id := s.begin("gated", simulate, question)
	s.rest(id)
	page := "/runs/" + string(id)
	b.visit(page)
	b.click("#more-menu summary")
	options := eval[string](b, `Array.from(document.querySelector("#raise-b").options, o => o.text).join()`)
	want := "Step budget,Tool call budget,Token budget,Cost budget (dollars),Time budget (seconds)"
	if options != want {
		t.Errorf("the budgets are called %s, want %s", options, want)
	}
	eval[string](b, `(document.querySelector("#raise-b").value = "tokens")`)
	b.set("#raise-to", "90000")
	b.click(`form[action$="/raise"] button`)
	b.waitText("#budget-tokens", "90,000")
	b.click("#cancel-menu summary")
	b.set("#reason", "no longer needed")
	b.click(`form[action$="/cancel"] button`)
	b.waitText("#run-state", "Canceled")
	for _, tab := range []string{"transcript", "audit", "artifacts", "state", "output"} {
		b.click(`.tabs a[href$="/` + tab + `"]`)
		b.wait(`location.pathname.endsWith("/` + tab + `")`)
	}
	b.visit(page + "/transcript?q=draft")
	b.waitText("details", "step.started")
	b.visit(page)
	b.click(`a[href*="like="]`)
	b.wait(`document.querySelector('[name="i.question"]').value.startsWith("Why is the sky")`)
	b.do(chromedp.NavigateBack())
	b.waitText("#run-state", "Canceled")
}

// Several runs are canceled at once.
func TestOnlySelectedRunsAreCanceled(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	var ids []journal.RunID
	for range 3 {
		id := s.begin("gated", simulate, question)
		s.rest(id)
		ids = append(ids, id)
	}
	b := s.open()
	b.visit("/runs")
	b.click("[data-all]")
	b.waitText("[data-selected]", "Cancel 3 runs…")
	b.click(`#run-` + string(ids[1]) + ` input`)
	b.waitText("[data-selected]", "Cancel 2 runs…")
	b.click("#cancel-runs summary")
	b.set("#reason", "no longer needed")
	b.click("#cancel-runs button")
	b.waitText("#notice", "Canceled")
	for _, fact := range s.facts(ids[0]) {
		if x, ok := fact.(journal.CancelRequested); ok && x.Reason != "no longer needed" {
			t.Errorf("the reason is %q", x.Reason)
		}
	}
	for i, want := range []journal.Status{journal.Finished, journal.Waiting, journal.Finished} {
		if run := s.rest(ids[i]); run.Status != want {
			t.Errorf("run %d: %s, want %s", i, run.Status, want)
		}
	}
	b.visit("/runs?state=cancelled")
	b.wait(`document.querySelectorAll("#runs tr").length === 2`)
	b.visit("/runs?q=" + string(ids[1])[:8])
	b.wait(`document.querySelectorAll("#runs tr").length === 1`)
	b.visit("/runs?by=tester&since=1h")
	b.wait(`document.querySelectorAll("#runs tr").length === 3`)
	b.visit("/runs?by=else")
	b.waitText("main", "No run matches")
}

// Two runs are compared: state, path and output.
func TestCompareTwoRuns(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	var ids []journal.RunID
	for seed := range uint64(2) {
		id := s.begin("gated", app.RunOptions{Simulate: true, Seed: seed}, question)
		s.rest(id)
		ids = append(ids, id)
	}
	if _, err := s.app.Send(t.Context(), ids[0], journal.Actor{User: "tester"}, app.Approve{}); err != nil {
		t.Fatal(err)
	}
	s.rest(ids[0])
	b := s.open()
	b.visit("/runs/" + string(ids[0]))
	b.click(`a[href*="/compare"]`)
	b.waitText("tbody", "Waiting")
	b.waitText("td", "not reached")
	b.waitText("h1", "Compare runs of gated")
}

// Everything but liveness works without JavaScript: plain requests with the forms of the pages.
func TestPagesWorkWithoutJavaScript(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	c := s.client()
	post := func(path string, form url.Values) *http.Response {
		t.Helper()
		response, err := c.PostForm(s.url(path), form)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response
	}
	r := post("/workflows/gated", url.Values{"i.question": {"Why?"}, "mode": {"simulate"}, "i.tone": {"plain"}})
	if r.StatusCode != http.StatusSeeOther {
		t.Fatalf("start: %s", r.Status)
	}
	address, err := r.Location()
	if err != nil {
		t.Fatal(err)
	}
	id := journal.RunID(strings.TrimPrefix(address.Path, "/runs/"))
	s.rest(id)
	_, page := s.get(c, "/inbox")
	_, rest, _ := strings.Cut(page, `name="digest" value="`)
	digest, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatal("the inbox has no form with a digest")
	}
	decision := url.Values{"step": {"check"}, "decision": {"approve"}, "note": {"fine"}, "digest": {"wrong"}}
	if r := post("/runs/"+string(id)+"/decide", decision); r.StatusCode != http.StatusConflict {
		t.Errorf("a decision with a wrong digest: %s", r.Status)
	}
	decision.Set("digest", digest)
	if r := post("/runs/"+string(id)+"/decide", decision); r.StatusCode != http.StatusSeeOther {
		t.Errorf("a decision: %s", r.Status)
	}
	if run := s.rest(id); run.Outcome != journal.OutcomeOK {
		t.Errorf("the run is %s %s", run.Status, run.Outcome)
	}
	if status, page := s.get(c, "/runs.csv"); status != http.StatusOK || !strings.Contains(page, string(id)) {
		t.Errorf("CSV: %d %s", status, page)
	}
	if status, page := s.get(c, "/runs.json"); status != http.StatusOK || !strings.Contains(page, string(id)) {
		t.Errorf("JSON: %d %s", status, page)
	}
}

// Pages show and start workflows of the project only, whatever path an address contains.
func TestPagesReachListedWorkflowsOnly(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside.md")
	if err := os.WriteFile(outside, []byte(gated), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, map[string]string{"gated.md": gated})
	c := s.client()
	if status, _ := s.get(c, "/workflows/gated"); status != http.StatusOK {
		t.Errorf("a workflow of the project: %d", status)
	}
	for _, path := range []string{outside, "/etc/passwd", "../" + filepath.Base(outside)} {
		address := "/workflows/" + url.PathEscape(path)
		if status, page := s.get(c, address); status != http.StatusNotFound || strings.Contains(page, "root:") {
			t.Errorf("%s: %d", address, status)
		}
		response, err := c.PostForm(s.url(address), url.Values{"mode": {"simulate"}, "i.question": {"Why?"}})
		if err != nil {
			t.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != http.StatusNotFound {
			t.Errorf("start of %s: %s", path, response.Status)
		}
	}
}

// A run that has reached a limit waits in the inbox, and continues when the limit is raised there. An event is sent
// from the inbox, too.
func TestInboxRaisesBudgetsAndSendsEvents(t *testing.T) {
	s := newSite(t, map[string]string{
		"gated.md": strings.Replace(gated, "max_tokens: 50000", "max_tokens: 3000", 1), "waits.md": waits,
	})
	id := s.begin("gated", simulate, app.Field{Name: "question", Text: strings.Repeat("Why is the sky blue? ", 3000)})
	if run := s.rest(id); run.Status != journal.Exceeded {
		t.Fatalf("the run is %s", run.Status)
	}
	waiting := s.begin("waits", simulate)
	s.rest(waiting)
	b := s.open()
	b.visit("/inbox")
	b.waitText("#inbox-mine", "Token budget reached")
	b.waitText("article .notice", "3,000 tokens")
	enough, err := s.app.Exhausted(t.Context(), id)
	if err != nil || enough.Enough <= 2*3000 {
		t.Fatalf("%+v, %v", enough, err)
	}
	if got := eval[string](b, `document.querySelector("#to").value`); got != strconv.FormatInt(enough.Enough, 10) {
		t.Errorf("the page proposes %s instead of %d", got, enough.Enough)
	}
	b.set("#to", "400000")
	b.click(`form[action$="/raise"] .primary`)
	b.waitText("#notice", "limit is raised")
	b.waitText("#inbox-mine", "Decision: check")
	rest, err := s.app.Remaining(t.Context(), s.rest(id))
	if err != nil || rest.Tokens.Unbounded != "" || rest.Tokens.N > 400000 {
		t.Errorf("after the limit was raised, %+v is left: %v", rest, err)
	}
	b.click("#inbox-others a")
	b.wait(`!!document.querySelector("#data")`)
	b.set("#data", `{"pages": 3}`)
	b.click(`form[action$="/signal"] button`)
	b.waitText("#notice", "event is sent")
	if run := s.rest(waiting); run.Outcome != journal.OutcomeOK {
		t.Errorf("the run is %s %s", run.Status, run.Outcome)
	}
}

// The page of a workflow has the same verdicts about budgets as the command line: it says "fits" only where that is
// certain.
func TestWorkflowPagesHaveTheVerdictsOfTheCostReport(t *testing.T) {
	const flow = "---\nname: NAME\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: d\nbudgets: BUDGETS\n---\n" +
		"~~~agent\nid: a\nrole: r\ngoal: g\ntools: [Read]\n~~~\n" +
		"~~~step\nid: s\ntype: skill\nagent: a\ndescription: d\nwrites: [output.x]\n~~~\n"
	for name, c := range map[string]struct {
		budgets string
		want    []string
	}{
		"steps":      {"{max_steps: 1}", []string{"fits"}},
		"wide-calls": {"{max_tool_calls: 1000}", []string{"should fit"}},
		"few-calls":  {"{max_tool_calls: 3}", []string{"may exceed"}},
		"wide":       {"{max_tokens: 90000000, deadline_seconds: 90000000}", []string{"should fit", "should fit"}},
		"narrow":     {"{max_tokens: 9000, deadline_seconds: 60}", []string{"may exceed", "may exceed"}},
		"none":       {"{}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("NAME", name, "BUDGETS", c.budgets).Replace(flow)
			s := newSite(t, map[string]string{name + ".md": text})
			_, page := s.get(s.client(), "/workflows/"+name)
			var got []string
			for _, m := range regexp.MustCompile(`class="verdict"[^>]*>(?:<svg.*?</svg>)?([a-z ]+)<`).FindAllStringSubmatch(page, -1) {
				got = append(got, m[1])
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("verdicts %q, want %q", got, c.want)
			}
		})
	}
}

// The page of triggers pauses, resumes, runs and tests them, and lists what they missed.
func TestTriggersArePausedRunAndTested(t *testing.T) {
	s := newSite(t, map[string]string{
		"gated.md": gated,
		"espalier.yaml": "triggers: {gated: {simulate: true, input: {question: Why?}}}\n" +
			"webhooks: {asked: {workflow: gated, verify: none, simulate: true}}\n",
	})
	b := s.open()
	b.visit("/triggers")
	b.waitText("tbody", "Schedule 30 2 * * *")
	b.waitText("tbody", s.url("/hooks/asked"))
	b.click(`tr:has(.c-when time) form[action$="/pause"] button`)
	b.waitText("#notice", "Paused")
	b.waitText(".c-state", "Paused")
	b.click(`form[action$="/resume"] button`)
	b.waitText("#notice", "Resumed")
	b.click(`form[action$="/run"] button`)
	b.waitText("#run-state", "Waiting")

	b.visit("/triggers")
	b.waitText(".c-what", "Runs:")
	b.click(`tr:has(code) details summary`)
	b.set(`tr:has(code) textarea`, `{"question": "Who?"}`)
	b.click(`tr:has(code) form[action$="/test"] button`)
	b.waitText("#run-state", "Waiting")
	id := strings.TrimPrefix(eval[string](b, "location.pathname"), "/runs/")
	started := s.facts(journal.RunID(id))[0].(journal.RunStarted)
	if got := string(started.Input.JSON); !strings.Contains(got, `"question":"Who?"`) {
		t.Errorf("the run of the test has the input %s", got)
	}
	viewer := s.openAs("vera", identity.Viewer)
	viewer.visit("/triggers")
	viewer.waitText("tbody", "Schedule")
	if n := eval[int](viewer, `document.querySelectorAll("tbody form").length`); n != 0 {
		t.Errorf("a viewer sees %d forms", n)
	}
}

// The page of the system shows where runs are kept, how large the store is, what is removed and who is notified.
func TestSystemShowsStoreRetentionAndNotifications(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated, "espalier.yaml": `retention: {older_than: 30d, keep: 100}
secrets: {desk: {env: DESK}}
notifications:
  desk: {url: "secret://desk", on: [waiting]}
`})
	s.begin("gated", simulate, question)
	_, page := s.get(s.client(), "/system")
	for _, want := range []string{
		"espalier.db", "after 30 days; the newest 100 stay", "secret://desk", "waiting", "not approved",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if !regexp.MustCompile(`\d (kB|MB)</dd>`).MatchString(page) {
		t.Error("the page lacks the size of the store")
	}
}

// A gate of an Agentfile names the file that it asks about and shows it as it is now. A decision is bound to what was
// shown: after a change of the file it is refused.
func TestInboxShowsTheFileOfAGate(t *testing.T) {
	s := newSite(t, map[string]string{
		"agentfile.yaml": "name: example\n",
		"workflows/write-up/workflow.yaml": `specVersion: "1.0"
name: write-up
version: 1.0.0
description: Writes a report
trigger: {type: command}
steps:
  - id: analyse
    name: Analyse
    agent: agents/worker.md
    input: $AGENT_INPUT
    goal: Find out what matters.
    produces: outputs/analysis.md
    gate: human-approval
`,
		"workflows/write-up/agents/worker.md": "# Agent: Worker\n## Persona\nWorks.\n## Responsibilities\n- Work\n" +
			"## Rules\n- Be brief\n## Output Format\nText.\n",
	})
	id := s.prepare("write-up", app.PrepareRequest{
		Script: source.NewFile("replies.yaml", "replies:\n  - {reply: the first version}\n"),
		Fields: []app.Field{{Text: "Roses cost 3"}},
	})
	s.rest(id)
	status, err := s.app.Status(t.Context(), id)
	if err != nil || len(status.Gates) != 1 || len(status.Gates[0].Files) != 1 {
		t.Fatalf("%+v, %v", status, err)
	}
	gate := status.Gates[0]
	client := s.client()
	for name, file := range gate.Files {
		if _, page := s.get(client, "/inbox"); !strings.Contains(page, "<bdi>"+file+"</bdi>") ||
			!strings.Contains(page, "the first version") {
			t.Errorf("the page does not show %s in %s", name, file)
		}
		if err := os.WriteFile(filepath.Join(s.dir, file), []byte("the second version\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, page := s.get(client, "/inbox")
	page, _, _ = strings.Cut(page, "What changed") // which also shows the first version
	if !strings.Contains(page, "the second version") || strings.Contains(page, "the first version") {
		t.Error("the page does not show the file as it is now")
	}
	decide := func(digest string) int {
		response, err := client.PostForm(s.url("/runs/"+string(id)+"/decide"), url.Values{
			"step": {gate.Step}, "digest": {digest}, "decision": {"approve"},
		})
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	if got := decide(gate.Digest); got != http.StatusConflict {
		t.Errorf("a decision about the first version: %d", got)
	}
	if got := decide(s.digest(id)); got != http.StatusSeeOther {
		t.Errorf("a decision about the second version: %d", got)
	}
	if run := s.rest(id); run.Outcome != journal.OutcomeOK {
		t.Errorf("the run is %s %s", run.Status, run.Outcome)
	}
}

// The inbox shows who has approved a gate and how many approvals are missing, and asks each person once.
func TestInboxShowsWhoHasApproved(t *testing.T) {
	two := strings.Replace(gated, "gate_method: human_review\n", "gate_method: human_review\napprovers: "+
		"{roles: [legal], min: 2, escalate: {after_seconds: 86400, roles: [board]}}\n", 1)
	if two == gated {
		t.Fatal("the workflow has no gate")
	}
	s := newSite(t, map[string]string{"gated.md": two})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	b := s.open()
	b.visit("/inbox")
	b.waitText("dl.facts", "0 of 2, 2 missing")
	b.waitText("dl.facts", "UTC to board")
	b.set("#note", "fine")
	b.click(`button[value=approve]`)
	b.waitText("#notice", "Approved")
	b.visit("/inbox/" + string(id) + "/check")
	b.waitText("dl.facts", "1 of 2, 1 missing")
	b.waitText("dl.facts", "fine")
	if eval[bool](b, `!!document.querySelector("form.decide button[value=approve]")`) {
		t.Error("the page asks the same person again")
	}
}

// chat is a conversation of an agent with a person.
const chat = "name: chat\nstates:\n  initial: talk\n  talk: {type: agent, provider: claude, mode: conversation, " +
	"prompt: hi, on_success: done}\n  done: {type: terminal}\n"

// A conversation waits in the inbox with the reply of the model. A reply that looks like a number stays text, and the
// conversation can be ended.
func TestInboxAnswersAConversation(t *testing.T) {
	s := newSite(t, map[string]string{"chat.yaml": chat})
	id := s.begin("chat", simulate)
	s.rest(id)
	b := s.open()
	b.visit("/inbox")
	b.waitText("#inbox-mine", "Reply to talk")
	b.waitText("article", "simulated reply")
	b.set("#text", "5")
	b.visit("/inbox")
	b.wait(`document.querySelector("#text").value === "5"`) // a reload keeps it
	b.click(`form[action$="/reply"] .primary`)
	b.waitText("#notice", "reply is sent")
	s.rest(id)
	b.visit("/inbox")
	b.wait(`document.querySelector("form[action$='/reply'] [name=step]").value === "talk:input~2"`)
	b.waitText("article .crumbs", "/talk")
	b.waitText("#inbox-done", "Answered talk")
	b.visit("/inbox/" + string(id) + "/talk:input~1")
	b.waitText("#decided", "Answered by")
	b.visit("/inbox")
	b.click(`form[action$="/reply"] [name=end]`)
	b.waitText("#notice", "reply is sent")
	if run := s.rest(id); run.Outcome != journal.OutcomeOK {
		t.Errorf("the run is %s %s", run.Status, run.Outcome)
	}
}
