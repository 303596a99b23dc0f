package web_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/journal"
)

// research asks a model that calls a tool, and whose reply must be one of two values.
const research = `---
name: research
kind: agent-flow/workflow
version: 1.0.0
description: Looks something up.
tools:
  allowlist: [kb.search]
---

# Research

## Agents

~~~agent
id: reader
role: Reader
goal: Look things up
tools: [kb.search]
max_tokens: 500
~~~

## Steps

~~~step
id: look
type: skill
agent: reader
description: Look it up
writes: [state.found]
expected_output: "Object: { verdict: yes | no, why: string }"
~~~

~~~step
id: done
type: end
description: It is found
~~~
`

const researchReplies = `replies:
  - step: look
    turn: 1
    tools: [{name: kb.search, input: {query: espaliers}}]
  - step: look
    turn: 2
    reply: {verdict: "yes", why: "Pears grow on walls."}
tools:
  kb.search:
    answers: [{output: {hits: [{title: Pears}]}}]
otherwise: simulate
`

// The panel of a step shows its conversation with tool calls folded, the contract of its reply, and its source, as long
// as the file is the one that the run was started from.
func TestPanelShowsConversationContractAndSource(t *testing.T) {
	s := newSite(t, map[string]string{"research.md": research})
	id := s.play("research", researchReplies)
	s.rest(id)
	b := s.open()
	page := "/runs/" + string(id) + "?step=look"
	b.visit(page)
	b.waitText("#talk details.call summary", "kb.searchespaliers") // the name and the main argument
	if eval[bool](b, `document.querySelector("#talk details.call").open`) {
		t.Error("the tool call is open")
	}
	b.click("#talk details.call summary")
	b.waitText("#talk details.call", `"espaliers"`)
	b.waitText("#talk details.call", `"Pears"`)
	b.waitText("#talk .tree", "Pears grow on walls.")
	b.click("#contract summary")
	b.waitText("#contract", `"verdict"`)
	b.click("#step-source summary")
	before, _, _ := strings.Cut(research, "id: look")
	b.waitText(fmt.Sprintf("#step-source li[data-n='%d']", strings.Count(before, "\n")+1), "id: look")
	if text := eval[string](b, `document.querySelector("#step-source").textContent`); strings.Contains(text, "id: done") {
		t.Errorf("the excerpt continues into the next step: %s", text)
	}
	b.visit("/runs/" + string(id) + "?step=done")
	b.waitText("#step-source", "id: done")
	changed := strings.ReplaceAll(research, "~~~", "```") + "\n"
	if err := os.WriteFile(filepath.Join(s.dir, "research.md"), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	b.visit(page)
	b.click("#step-source summary")
	b.waitText("#step-source", "has changed since the run started")
}

// streamingModel returns the environment of a model that writes its reply in parts, each but the first when more says
// so. The connections of the first calls break after the first part. The model ends before the server of the site does,
// which lets model calls finish.
func (s *site) streamingModel(breaks int64, more <-chan struct{}, parts ...string) map[string]string {
	s.t.Helper()
	var calls atomic.Int64
	over := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(delta, finish string) {
			choice := map[string]any{"index": 0, "delta": map[string]string{"content": delta}, "finish_reason": nil}
			if finish != "" {
				choice["finish_reason"] = finish
			}
			raw, _ := json.Marshal(map[string]any{
				"id": "1", "object": "chat.completion.chunk", "model": "m", "choices": []any{choice},
			})
			fmt.Fprintf(w, "data: %s\n\n", raw)
			w.(http.Flusher).Flush()
		}
		broken := calls.Add(1) <= breaks
		for i, text := range parts {
			if i > 0 {
				if broken {
					panic(http.ErrAbortHandler)
				}
				select {
				case <-more:
				case <-r.Context().Done():
					return
				case <-over:
					return
				}
			}
			send(text, "")
		}
		send("", "stop")
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	s.t.Cleanup(func() {
		close(over)
		model.Close()
	})
	return map[string]string{
		"OPENAI_API_KEY": "key", "OPENAI_BASE_URL": model.URL + "/v1", "ESPALIER_MODEL": "openai/m",
	}
}

// streaming starts a run of gated whose model has written the first part of its reply, and writes no other.
func (s *site) streaming() journal.RunID {
	s.t.Helper()
	id := s.begin("gated", app.RunOptions{RecordStream: true}, question)
	for c := s.client(); ; time.Sleep(20 * time.Millisecond) {
		if _, page := s.get(c, "/runs/"+string(id)+"?step=draft"); strings.Contains(page, `id="stream"`) {
			return id
		} else if s.t.Context().Err() != nil {
			s.t.Fatal("no text arrives")
		}
	}
}

// The text of a reply appears while the model writes it, without a reload.
func TestReplyIsShownWhileItIsWritten(t *testing.T) {
	more := make(chan struct{})
	s := newSite(t, map[string]string{"gated.md": gated})
	s.stop()
	s.env = s.streamingModel(0, more, "Light ", "scatters ", "in the air.")
	s.start()
	b := s.open()
	b.visit("/workflows/gated")
	b.set(`[name="i.question"]`, "Why is the sky blue?")
	b.click(`button[value=run]`)
	b.waitText("#stream", "Light ")
	eval[bool](b, "window.sameDocument = true")
	more <- struct{}{}
	b.waitText("#stream", "Light scatters ")
	more <- struct{}{}
	b.waitText("#run-state", "Waiting")
	if !eval[bool](b, "window.sameDocument === true") {
		t.Error("the page was reloaded")
	}
	b.visit(eval[string](b, "location.pathname") + "?step=draft")
	b.waitText("#talk", "Light scatters in the air.")
}

// A model call that is repeated starts its reply again: what the first one had written is not shown before it.
func TestReplyOfARepeatedCallStartsAgain(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	s.stop()
	more := make(chan struct{})
	s.env = s.streamingModel(1, more, "Light ", "scatters ", "in the air.")
	s.start()
	path := "/runs/" + string(s.streaming()) + "?step=draft"
	more <- struct{}{} // the second call receives it
	page, c := "", s.client()
	for !strings.Contains(page, "scatters") {
		if t.Context().Err() != nil {
			t.Fatal("no text arrives")
		}
		time.Sleep(20 * time.Millisecond)
		_, page = s.get(c, path)
	}
	for _, want := range []string{`dir="auto">Light scatters <`, "The model call failed", "Unexpected EOF"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// While a model answers, the budget shows what is used, reserved and left at worst, and the key f keeps the running
// step in view. The timeline tells waiting from work.
func TestBudgetShowsReservationsAndTheTimelineWaits(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	s.stop()
	s.env = s.streamingModel(0, nil, "Light ", "scatters.")
	s.start()
	b := s.open()
	b.size(360, 800)
	b.visit("/runs/" + string(s.streaming()))
	b.waitText("#budget-tokens", "of 50,000")
	b.waitText("#budget-tokens small", " reserved")
	b.waitText("#budget-tokens small", " more (estimate)")
	b.wait(`parseFloat(document.querySelector("#budget-tokens .held").getAttribute("width")) > 0`)
	b.wait(`/^[1-9]\d* ms$|^\d+(\.\d)? s$/.test(document.querySelector("#budget-seconds b").textContent)`) // also of the running step
	b.visit(eval[string](b, "location.pathname") + "?step=draft")
	b.waitText("#talk [data-live] header", "writerAnswering")
	b.press("f")
	b.wait(`document.activeElement.matches("[data-follow]")`)
	b.press("\r")
	b.wait(`document.activeElement.getAttribute("aria-pressed") === "true"`)
	b.wait(`(() => { const box = document.querySelector(".graph").getBoundingClientRect();
		const node = document.querySelector(".node[data-state=running]").getBoundingClientRect();
		return node.left >= box.left && node.right <= box.right; })()`)

	waiting := s.begin("gated", simulate, question)
	s.rest(waiting)
	b.visit("/runs/" + string(waiting))
	b.waitText("#t-sum", " of waiting")
	row := func(step string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("#timeline a.gantt-row")].find((r) =>
			r.querySelector("bdi").textContent === %q)`, step)
	}
	b.wait(row("check") + `.querySelector("rect.hold") && !` + row("draft") + `.querySelector("rect.hold")`)
}

// The files of a run are shown by their kind: images, Markdown, JSON as a tree, differences; all of them inert.
func TestArtifactsAreShownByTheirKind(t *testing.T) {
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 7, 5))); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"plot.png": picture.String(), "report.md": "# Findings\n\n- **one** thing", "data.json": `{"pears": [1, 2]}`,
		"change.diff": "--- a\n+++ b\n-old line\n+new line\n", "page.html": evil,
		"drawing.svg": "<svg onload='window.pwned=1'/>",
	}
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	folder := filepath.Join(s.dir, ".espalier", "runs", string(id))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := s.open()
	b.visit("/runs/" + string(id) + "/artifacts")
	b.wait(`document.querySelector("img.body")?.naturalWidth === 7`)
	b.waitText(".prose b", "one")
	b.waitText(".tree summary", `"pears"`)
	b.waitText(".diff .add", "new line")
	b.waitText(".diff .del", "old line")
	b.waitText("pre.code", "<script>window.pwned=1</script>")
	for name, want := range map[string]string{
		"plot.png": "", "page.html": "attachment", "drawing.svg": "attachment", "../espalier.db": "",
	} {
		response, err := s.client().Get(s.url("/runs/" + string(id) + "/artifacts/" + name))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if got := response.Header.Get("Content-Disposition"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", name, got)
		}
		if kind := response.Header.Get("Content-Type"); strings.Contains(kind, "svg") {
			t.Errorf("%s is sent as %s", name, kind)
		}
	}
	if eval[bool](b, "window.pwned === 1") {
		t.Error("code was executed")
	}
}

// A file in the form of a workflow becomes the value of an input, and an unfinished form says what is missing.
func TestFormTakesFiles(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	path := filepath.Join(t.TempDir(), "question.txt")
	if err := os.WriteFile(path, []byte("42"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := s.open()
	b.visit("/workflows/gated")
	b.click(".field details summary")
	b.upload(`[name="f.question"]`, path)
	b.click(`button[value=simulate]`)
	b.waitText("#run-state", "Waiting")
	id := strings.TrimPrefix(eval[string](b, "location.pathname"), "/runs/")
	started := s.facts(journal.RunID(id))[0].(journal.RunStarted)
	if got := string(started.Input.JSON); !strings.Contains(got, `"question":"42"`) {
		t.Errorf("the input is %s", got)
	}
}

// upload chooses a file.
func (b *tab) upload(selector, path string) {
	b.t.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	found, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{
		Expression: fmt.Sprintf("document.querySelector(%q)", selector),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = chromedp.Call(ctx, dom.SetFileInputFiles, dom.SetFileInputFilesParams{
		Files: []string{path}, ObjectID: found.Result.ObjectID,
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// Runs are filtered by what started them, and states in which runs do not stay are counted.
func TestRunsAreFilteredByTriggerAndCounted(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	byHand := s.begin("gated", simulate, question)
	s.rest(byHand)
	triggered := s.startAs(journal.Actor{User: "gated.md#schedule", Method: app.ByTrigger})
	s.rest(triggered)
	b := s.open()
	for address, want := range map[string][]journal.RunID{
		"/runs?trigger=none": {byHand}, "/runs?trigger=any": {triggered},
		"/runs?trigger=gated.md%23schedule": {triggered}, "/runs?trigger=other": nil, "/runs?by=tester": {byHand},
	} {
		b.visit(address)
		b.wait(fmt.Sprintf(`document.querySelectorAll("#runs tr").length === %d`, len(want)))
		for _, id := range want {
			b.wait(fmt.Sprintf(`!!document.getElementById("run-%s")`, id))
		}
	}
	b.visit("/runs")
	b.waitText("#chip-waiting", "2")
	approve(s, byHand)
	b.waitText("#chip-waiting", "1")
	b.click("#run-" + string(triggered) + " .c-by a")
	b.wait(`new URLSearchParams(location.search).get("trigger") === "gated.md#schedule"`)
}

// Every list is exported as CSV and JSON with the same rows, and no cell is a formula.
func TestListsAreExported(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.startAs(journal.Actor{User: "=1+1\u202e"})
	s.rest(id)
	other := s.begin("gated", simulate, question)
	s.rest(other)
	c := s.client()
	for path, want := range map[string]string{
		"/inbox": string(id), "/workflows": "gated", "/triggers": "question_asked", "/system": "ok",
		"/runs": string(id), "/compare": string(other),
	} {
		query := "?a=" + string(id) + "&b=" + string(other)
		status, text := s.get(c, path+".csv"+query)
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if status != http.StatusOK || err != nil || len(rows) < 2 || !strings.Contains(text, want) {
			t.Errorf("%s.csv: %d, %v: %s", path, status, err, text)
		}
		for _, row := range rows {
			for _, cell := range row {
				if strings.HasPrefix(cell, "=") {
					t.Errorf("%s.csv has the formula %s", path, cell)
				}
			}
		}
		status, text = s.get(c, path+".json"+query)
		var list []map[string]any
		if path == "/runs" {
			var page struct{ Runs []map[string]any }
			err = json.Unmarshal([]byte(text), &page)
			list = page.Runs
		} else {
			err = json.Unmarshal([]byte(text), &list)
		}
		if status != http.StatusOK || err != nil || len(list) != len(rows)-1 || !strings.Contains(text, want) {
			t.Errorf("%s.json: %d, %v, %d objects: %s", path, status, err, len(list), text)
		}
		if strings.ContainsRune(text, '\u202e') {
			t.Errorf("%s.json has control characters: %q", path, text)
		}
	}
}

// startAs starts a run of the workflow "gated".
func (s *site) startAs(by journal.Actor) journal.RunID {
	s.t.Helper()
	an, err := s.app.Analyze(s.t.Context(),
		app.AnalyzeRequest{Workflow: "gated", Reading: catalog.ReadOptions{Run: true}})
	if err != nil {
		s.t.Fatal(err)
	}
	prepared, err := s.app.Prepare(s.t.Context(), app.PrepareRequest{
		Workflow: an, Options: simulate, Fields: []app.Field{question},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	id, err := s.app.Start(s.t.Context(), prepared, "", by)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// A page that was offline for a while says so, keeps what was typed, and catches up.
func TestPageCatchesUpAfterBeingOffline(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	id := s.begin("gated", simulate, question)
	s.rest(id)
	other := s.begin("gated", simulate, question)
	s.rest(other)
	b := s.open()
	b.expect("ERR_", "Failed to load resource", "Failed to fetch")
	b.visit("/inbox/" + string(other) + "/check")
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	b.set("#note", "half a sentence")
	eval[bool](b, "window.sameDocument = true")
	b.offline(true)
	b.wait(`document.querySelector("#link").textContent.startsWith("Not connected")`)
	approve(s, id)
	b.offline(false)
	b.wait(`document.querySelector("#link").textContent === "Live"`)
	b.wait(`document.querySelectorAll("#inbox-mine a").length === 1`)
	if got := eval[string](b, `document.querySelector("#note").value`); got != "half a sentence" {
		t.Errorf("the comment is now %q", got)
	}
	if !eval[bool](b, "window.sameDocument === true") {
		t.Error("the page was reloaded")
	}
	b.click("button[value=approve]")
	b.waitText("#notice", "Approved")
}

// networkConditions are the parameters of Network.emulateNetworkConditions. Throughputs of -1 are not limited.
type networkConditions struct {
	Offline            bool    `json:"offline"`
	Latency            float64 `json:"latency"`
	DownloadThroughput float64 `json:"downloadThroughput"`
	UploadThroughput   float64 `json:"uploadThroughput"`
}

// offline cuts the network of the tab, or restores it.
func (b *tab) offline(off bool) {
	b.t.Helper()
	b.network(networkConditions{off, 0, -1, -1})
}

// network sets the network conditions of the tab with the command that every version of Chromium has.
func (b *tab) network(conditions networkConditions) {
	b.t.Helper()
	ctx, cancel := b.limited()
	defer cancel()
	command := cdp.Command[networkConditions, cdp.Empty]{Method: "Network.emulateNetworkConditions"}
	if _, err := chromedp.Call(ctx, command, conditions); err != nil {
		b.t.Fatal(err)
	}
}

// A newcomer runs the example that fails, reads why, corrects the cause and retries, with the browser alone.
func TestFirstVisitLeadsToARetriedRun(t *testing.T) {
	s := newSite(t, nil)
	b := s.open()
	b.visit("/welcome")
	b.click(`input[value=parcel-refund]`)
	b.click("#first button")
	b.waitText("#run-state", "Failed")
	b.waitText("#why", "the mail server refused the address ada.lovelace(at)mail.example")
	b.set("#set-0", "ada.lovelace@mail.example")
	b.click(`button[data-key=r]`)
	b.waitText("#run-state", "Finished")
	b.waitText(".meta", "changed state.address")
}

// Exports are often read in a terminal: text of a workflow controls nothing there, in either form.
func TestExportsControlNoTerminal(t *testing.T) {
	const name = "loud \u009b31m\u202e"
	s := newSite(t, map[string]string{"loud.yaml": fmt.Sprintf(
		"name: \"%s\"\nstates:\n  initial: done\n  done: {type: terminal}\n", name)})
	id := s.begin("loud.yaml", simulate)
	s.rest(id)
	c := s.client()
	for _, path := range []string{"/runs", "/workflows"} { // the other tables are written as that of workflows
		for form, want := range map[string]string{".json": `loud \u009b31m\u202e`, ".csv": "loud ⟨U+009B⟩31m⟨U+202E⟩"} {
			status, text := s.get(c, path+form)
			if status != http.StatusOK || !strings.Contains(text, want) || strings.ContainsAny(text, "\u009b\u202e") {
				t.Errorf("%s: %d %q", path+form, status, text)
			}
		}
	}
}

// A step has one row in the timeline, also if the run saved a checkpoint after it, and none of them runs once the run
// is over.
func TestTimelineOfAFailedRunHasNoRunningSteps(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"vendor-onboarding.md", "schemas/vendor.json"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "examples", "agent-flow", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(raw)
	}
	s := newSite(t, files)
	id := s.play("vendor-onboarding", `replies: [{step: assess, fail: {class: TIMEOUT, message: too slow}}]
otherwise: simulate
`, app.Field{Name: "company", Text: "Elm Tools"}, app.Field{Name: "contact", Text: "sales@elm-tools.example"})
	s.rest(id)
	by := journal.Actor{User: "ann"}
	if _, err := s.app.Send(t.Context(), id, by, app.Signal{Event: "papers_received"}); err != nil {
		t.Fatal(err)
	}
	s.rest(id)
	_, page := s.get(s.client(), "/runs/"+string(id))
	for _, step := range []string{"validate", "request_papers", "look_up", "assess"} {
		if n := strings.Count(page, `<a class="gantt-row" href="?step=`+step); n != 1 {
			t.Errorf("step %s has %d rows", step, n)
		}
	}
	if strings.Contains(page, `data-state="running"`) {
		t.Error("a step of the finished run is shown as running")
	}
}
