package web_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/source"
)

// A cancellation without a run that can be canceled is refused: nothing happened, and the page does not report
// success.
func TestCancelWithoutASelectionIsRefused(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	c := s.client()
	finished := s.begin("gated", simulate, question)
	s.rest(finished)
	if _, err := s.app.Send(t.Context(), finished, journal.Actor{User: "tester"}, app.Approve{}); err != nil {
		t.Fatal(err)
	}
	s.rest(finished)
	for _, form := range []url.Values{{}, {"run": {string(finished)}}} {
		response, err := c.PostForm(s.url("/runs/cancel"), form)
		if err != nil {
			t.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%v: %s", form, response.Status)
		}
	}
	if run := s.rest(id); run.Status != journal.Waiting {
		t.Errorf("the run is %s", run.Status)
	}
	b := s.open()
	b.visit("/runs")
	b.click("#cancel-runs summary")
	b.wait(`document.querySelector("#cancel-runs button").disabled`)
	b.click("#run-" + string(id) + " input")
	b.wait(`!document.querySelector("#cancel-runs button").disabled`)
}

// What an action has done stays on the page when the page is updated.
func TestNoticeStaysWhenThePageIsUpdated(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	b := s.open()
	b.visit("/inbox/" + string(id) + "/check")
	b.click("button[value=approve]")
	b.waitText("#notice", "Approved")
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	next := s.begin("gated", simulate, question)
	s.rest(next)
	b.wait(fmt.Sprintf("!!document.querySelector('#inbox-mine a[href*=%q]')", next))
	b.waitText("#notice", "Approved")
}

// writeUp is an Agentfile project whose workflow writes a file and asks a person about it.
func writeUp() map[string]string {
	return map[string]string{
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
	}
}

// beginWriteUp starts a run that waits for a decision about its file, and returns the path of that file.
func (s *site) beginWriteUp(input string) (journal.RunID, string) {
	s.t.Helper()
	id := s.prepare("write-up", app.PrepareRequest{
		Script: source.NewFile("replies.yaml", "replies:\n  - {reply: the first version}\n"),
		Fields: []app.Field{{Text: input}},
	})
	s.rest(id)
	status, err := s.app.Status(s.t.Context(), id)
	if err != nil || len(status.Gates) != 1 || len(status.Gates[0].Files) != 1 {
		s.t.Fatalf("%+v, %v", status, err)
	}
	for _, file := range status.Gates[0].Files {
		return id, filepath.Join(s.dir, file)
	}
	return id, ""
}

// The files that an Agentfile run has written to its folder below outputs are its artifacts.
func TestArtifactsOfAnAgentfileRunAreListed(t *testing.T) {
	s := newSite(t, writeUp())
	id, file := s.beginWriteUp("Roses cost 3")
	c := s.client()
	_, page := s.get(c, "/runs/"+string(id)+"/artifacts")
	if !strings.Contains(page, "<bdi>analysis.md</bdi>") || !strings.Contains(page, "the first version") {
		t.Error("the page does not show analysis.md")
	}
	status, text := s.get(c, "/runs/"+string(id)+"/artifacts/analysis.md")
	if status != http.StatusOK || strings.TrimSpace(text) != "the first version" {
		t.Errorf("the download has status %d: %q", status, text)
	}
	// A command of the run can put a link to another folder in the place of its own.
	if err := s.app.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../..", filepath.Dir(file)); err != nil {
		t.Fatal(err)
	}
	if _, page := s.get(c, "/runs/"+string(id)+"/artifacts"); strings.Contains(page, "agentfile.yaml") {
		t.Error("the page shows files of another folder")
	}
}

// A file that a person edits at a gate is shown with what has changed, and as edited. After the approval, the
// variables of the run hold the edited text.
func TestEditOfAFileAtAGateIsShown(t *testing.T) {
	s := newSite(t, writeUp())
	id, file := s.beginWriteUp("Roses cost 3")
	c := s.client()
	if _, page := s.get(c, "/inbox"); strings.Contains(page, "edited since") || strings.Contains(page, "What changed") {
		t.Error("the page says that the file was edited, and it was not")
	}
	if err := os.WriteFile(file, []byte("the second version\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, page := s.get(c, "/inbox")
	for _, want := range []string{"edited since", "What changed", "the first version", "the second version"} {
		if !strings.Contains(page, want) {
			t.Errorf("the item lacks %q", want)
		}
	}
	if _, err := s.app.Send(t.Context(), id, journal.Actor{User: "tester"}, app.Approve{}); err != nil {
		t.Fatal(err)
	}
	s.rest(id)
	_, page = s.get(c, "/runs/"+string(id)+"/state")
	if !strings.Contains(page, "the second version") || strings.Contains(page, "the first version") {
		t.Error("the state is that before the edit")
	}
}

// Items of one workflow can be told apart by the inputs of their runs.
func TestInboxShowsTheInputsOfRuns(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	ids := map[string]journal.RunID{}
	for _, text := range []string{"Why is the sky blue?", "Why is grass green?"} {
		ids[text] = s.begin("gated", simulate, app.Field{Name: "question", Text: text})
		s.rest(ids[text])
	}
	b := s.open()
	b.visit("/inbox")
	for text, id := range ids {
		b.waitText("#inbox-mine #ask-"+string(id)+"-check", string(id)[:8])
		b.waitText("#inbox-mine #ask-"+string(id)+"-check", text)
	}
	b.visit("/inbox/" + string(ids["Why is grass green?"]) + "/check")
	b.waitText("article header", "Why is grass green?")
}

// If models are missing, the page says how to set one up and links to the page that lists what is there. That page does
// not claim that something is configured if nothing is.
func TestMissingModelsComeWithAFix(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	c := s.client()
	response, err := c.PostForm(s.url("/workflows/gated"), url.Values{"mode": {"run"}, "i.question": {"Why?"}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, alert, _ := strings.Cut(string(raw), `role="alert"`)
	alert, _, _ = strings.Cut(alert, `<div class="field`)
	for _, want := range []string{"Set ANTHROPIC_API_KEY", `href="/system"`} {
		if !strings.Contains(alert, want) {
			t.Errorf("the page lacks %q: %s", want, alert)
		}
	}
	if _, page := s.get(c, "/system"); strings.Contains(page, "Something that is configured") ||
		!strings.Contains(page, "No model is ready") {
		t.Error("the page claims that something is configured")
	}
}

// The page of a workflow lists its errors, and shows the file again when it is saved.
func TestWorkflowPageFollowsTheFile(t *testing.T) {
	s := newSite(t, map[string]string{"broken.md": broken})
	b := s.open()
	b.visit("/workflows/broken")
	b.waitText("#problems a", "nobody")
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	s.write(map[string]string{"broken.md": strings.Replace(gated, "name: gated", "name: broken", 1)})
	b.wait(`!!document.querySelector("#start") && !document.querySelector("#problems")`)
}

// The time that a step waits is counted while the page is open.
func TestWaitingTimeIsCounted(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	b := s.open()
	b.visit("/runs/" + string(id))
	b.wait(`document.querySelectorAll("#timeline .num[data-since]").length === 1`)
	before := eval[string](b, `document.querySelector("#timeline .num[data-since]").textContent`)
	b.wait(fmt.Sprintf(`document.querySelector("#timeline .num[data-since]").textContent !== %q`, before))
}

// A reply that was received in parts is one line of the transcript.
func TestTranscriptShowsAReplyOnce(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.play("gated",
		"replies:\n  - {step: draft, reply: '{\"answer\": \""+strings.Repeat("blue light ", 40)+"\"}'}\n", question)
	s.rest(id)
	c := s.client()
	_, page := s.get(c, "/runs/"+string(id)+"/transcript")
	if n := strings.Count(page, "message.assistant"); n != 1 {
		t.Errorf("the reply is on %d lines", n)
	}
	_, raw := s.get(c, "/api/v1/runs/"+string(id)+"/transcript")
	if n := strings.Count(raw, "message.assistant"); n < 3 {
		t.Errorf("the transcript has %d lines for the reply: the test tests nothing", n)
	}
}

// The page of a workflow that does not exist says so, without empty details.
func TestUnknownWorkflowHasNoDetails(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	status, page := s.get(s.client(), "/workflows/nosuch")
	if status != http.StatusNotFound || !strings.Contains(page, "nosuch") || strings.Contains(page, "Details") {
		t.Errorf("status %d, details: %t", status, strings.Contains(page, "Details"))
	}
}
