package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/journal"
)

var allRuns = app.Filter{}

// evil is text that tries to become code, to reorder the text around it, and to control a terminal.
const evil = `<script>window.pwned=1</script><img src=x onerror="window.pwned=1"><svg onload="window.pwned=1"></svg>` +
	`"'><a href="javascript:window.pwned=1">x</a>{{.}} ` + "\u202Egnp.exe\u202C \u001b[31mred\u001b[0m ]]>"

// hostile is a workflow in which every text is evil.
func hostile() string {
	quoted, err := json.Marshal(evil)
	if err != nil {
		panic(err) // strings always encode
	}
	text := string(quoted)
	inner := strings.ReplaceAll(text, "'", `'"'"'`)
	return fmt.Sprintf(`---
name: hostile
kind: agent-flow/workflow
version: 1.0.0
description: %[1]s
triggers:
  event: evil_event
input:
  schema:
    type: object
    properties:
      text: { type: string, description: %[1]s, default: %[1]s }
---
~~~runtime
human_in_the_loop: true
~~~
~~~step
id: produce
type: transform
description: %[1]s
writes: [state.text]
code:
  language: sh
  script: |
    echo evil > '<img src=x onerror=window.pwned=1>.txt'
    printf '%%s' '%[2]s'
~~~
~~~step
id: check
type: gate
gate_method: human_review
description: %[1]s
reads: [state.text, input.text]
~~~
~~~step
id: fail
type: transform
description: %[1]s
reads: [state.text]
writes: [output.text]
code:
  language: sh
  script: |
    printf '%%s' '%[2]s' >&2
    exit 1
~~~
`, text, inner)
}

// Text of workflows, models, files and people stays text on every page.
func TestHostileContentStaysText(t *testing.T) {
	server, err := json.Marshal(map[string]any{"mcpServers": map[string]any{evil: map[string]string{"command": evil}}})
	if err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "evil.txt")
	if err := os.WriteFile(text, []byte(evil+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	started := t.TempDir()
	s := newSite(t, map[string]string{
		"leave.yaml": leave(started, evil), "hostile.md": hostile(), "gated.md": gated, "research.md": research,
		".mcp.json": string(server), "helped.md": helped,
		"espalier.yaml": "tools: {Read: {requires_approval: true}}\ndefaults: {model_timeout: 1h}\n", "chat.yaml": chat,
		"loud.yaml": fmt.Sprintf("name: loud\nstates:\n  initial: talk\n  talk: {type: step, command: cat %s; cat %s "+
			">&2, on_success: done}\n  done: {type: terminal}\n", text, text),
	})
	s.stop()
	doubtful := s.abandon(started)
	s.env = s.streamingModel(0, nil, evil, evil)
	s.start()
	s.rest(doubtful)
	streaming := s.streaming()
	loud := s.begin("loud", app.RunOptions{AllowShell: true, RecordStream: true})
	s.rest(loud)
	waiting := s.begin("hostile", shell, app.Field{Name: "text", Text: evil})
	s.rest(waiting)
	failed := s.begin("hostile", shell, app.Field{Name: "text", Text: evil})
	s.rest(failed)
	by := journal.Actor{User: "<b>tester</b>\u202E"}
	if _, err := s.app.Send(t.Context(), failed, by, app.Approve{Note: evil}); err != nil {
		t.Fatal(err)
	}
	s.rest(failed)
	cancelled := s.begin("hostile", shell, app.Field{Name: "text", Text: evil})
	s.rest(cancelled)
	if _, err := s.app.Send(t.Context(), cancelled, by, app.Cancel{Reason: evil}); err != nil {
		t.Fatal(err)
	}
	s.rest(cancelled)
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	asked := s.play("research", strings.NewReplacer("espaliers", string(quoted), "Pears}", string(quoted)+"}",
		`"Pears grow on walls."`, string(quoted)).Replace(researchReplies))
	s.rest(asked)
	s.rest(s.play("helped", strings.Replace(helpedReplies, "notes.txt", string(quoted), 1)))
	s.rest(s.play("chat", "replies:\n  - {reply: "+string(quoted)+"}\n"))
	run := "/runs/" + string(failed)
	routes := http.NewServeMux() // finds the route of an address
	missing := map[string]bool{}
	for _, route := range s.pages.Routes() {
		if strings.HasPrefix(route.Pattern, "GET ") {
			missing[route.Pattern] = true
			routes.HandleFunc(route.Pattern, func(http.ResponseWriter, *http.Request) {})
		}
	}
	visited := func(path string) {
		r, err := http.NewRequest(http.MethodGet, s.url(path), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, pattern := routes.Handler(r)
		delete(missing, pattern)
	}
	b := s.open()
	b.expect("404", "422")
	shown := 0
	b.visit("/inbox")
	items := eval[[]string](b, `[...document.querySelectorAll("a.ask")].map((a) => a.getAttribute("href"))`)
	kinds := eval[string](b, `[...new Set([...document.querySelectorAll("#inbox-mine a.ask, #inbox-others a.ask")].map((a) => a.dataset.kind))].sort().join()`)
	if kinds != "approval,input,tool_approval,unknown_outcome" {
		t.Errorf("the inbox has items of the kinds %s", kinds)
	}
	for _, path := range append(items, []string{
		"/inbox", "/inbox/" + string(failed) + "/check", "/runs", run, run + "?step=produce", run + "?step=check",
		run + "?step=fail", run + "/transcript", run + "/audit", run + "/artifacts", run + "/state", run + "/output",
		"/runs/" + string(asked) + "?step=look", "/runs/" + string(asked) + "/transcript", "/welcome",
		"/compare?a=" + string(asked), "/runs?trigger=" + url.QueryEscape(evil) + "&since=" + url.QueryEscape(evil),
		"/runs/" + string(cancelled), "/workflows", "/workflows/hostile", "/workflows/hostile?like=" + string(waiting),
		"/triggers", "/compare?a=" + string(failed) + "&b=" + string(cancelled), "/system",
		"/runs?q=" + url.QueryEscape(evil) + "&workflow=" + url.QueryEscape(evil) + "&by=" + url.QueryEscape(evil),
		"/runs/" + url.PathEscape(evil), "/workflows/" + url.PathEscape(evil), run + "?step=" + url.QueryEscape(evil),
		run + "/transcript?q=" + url.QueryEscape(evil), "/login?next=" + url.QueryEscape("javascript:"+evil),
		"/runs/" + string(doubtful), "/runs/" + string(doubtful) + "?step=send",
		"/runs/" + string(streaming) + "?step=draft", "/inbox?done=" + url.QueryEscape(evil),
		"/", "/runs/" + string(loud) + "?step=talk",
		run + "?show=" + url.QueryEscape(evil) + "&row=" + url.QueryEscape(evil),
		run + "/audit?q=" + url.QueryEscape(evil),
		"/runs?before=" + url.QueryEscape(evil), "/workflows/hostile?like=" + url.QueryEscape(evil),
		"/compare?a=" + url.QueryEscape(evil) + "&b=" + url.QueryEscape(evil),
		run + "/artifacts/" + url.PathEscape(evil),
	}...) {
		visited(path)
		b.visit(path)
		b.wait(`document.readyState === "complete"`)
		found := eval[string](b, `(() => {
			const bad = [];
			if (window.pwned) bad.push("code was executed");
			const code = "script:not([src]), img[src=x], [onload], [onerror], a[href^='javascript:'], [style]";
			for (const e of document.querySelectorAll(code))
				bad.push(e.outerHTML.slice(0, 200));
			const text = document.body.innerText;
			const invisible = text.match(/.{0,40}[\u202a-\u202e\u001b].{0,20}/);
			if (invisible) bad.push("invisible characters are shown as they are: " + invisible[0]);
			return bad.join("\n");
		})()`)
		if found != "" {
			t.Errorf("%s: %s", path, found)
		}
		if strings.Contains(eval[string](b, "document.body.textContent"), "<script>window.pwned=1</script>") {
			shown++
		}
	}
	if shown < 20 {
		t.Errorf("only %d pages show the text; the test does not test much", shown)
	}
	// Files are no pages: browsers do not interpret them.
	c := s.client()
	for _, path := range []string{
		"/inbox", "/runs", "/workflows", "/triggers", "/compare", "/system",
	} {
		for extension, kind := range map[string]string{".csv": "text/csv; charset=utf-8", ".json": "application/json"} {
			address := path + extension + "?a=" + string(failed) + "&b=" + string(cancelled)
			visited(address)
			response, err := c.Get(s.url(address))
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if got := response.Header; got.Get("Content-Type") != kind ||
				got.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %s, %q, %q", address, response.Status, got.Get("Content-Type"),
					got.Get("X-Content-Type-Options"))
			}
		}
	}
	delete(missing, "GET /live") // JSON; TestReplyIsShownWhileItIsWritten reads it
	for pattern := range missing {
		t.Errorf("no page of %q was visited", pattern)
	}
}

// A violation of the content security policy fails a test: the browser reports it.
func TestPolicyViolationsAreNoticed(t *testing.T) {
	s := newSite(t, nil)
	b := s.open()
	b.expect("Content Security Policy", "inline")
	b.visit("/inbox")
	eval[bool](b, `(() => { const s = document.createElement("script"); s.textContent = "window.pwned = 1";
		document.body.append(s); return true; })()`)
	if eval[bool](b, "window.pwned === 1") {
		t.Error("inline code was executed")
	}
	b.wait("true")
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.messages) == 0 {
		t.Error("the browser reported nothing")
	}
}

// languages are names of a question in twenty languages.
var languages = []string{
	"Why is the sky blue?", "Warum ist der Himmel blau?", "Pourquoi le ciel est-il bleu ?",
	"¿Por qué el cielo es azul?", "Por que o céu é azul?", "Perché il cielo è blu?", "Waarom is de lucht blauw?",
	"Dlaczego niebo jest niebieskie?", "Почему небо голубое?", "Чому небо блакитне?", "Γιατί ο ουρανός είναι μπλε;",
	"لماذا السماء زرقاء؟", "למה השמיים כחולים?", "चरा आसमान नीला क्यों है?", "আকাশ নীল কেন?", "ท้องฟ้าทำไมเป็นสีฟ้า",
	"天空为什么是蓝色的？", "空はなぜ青いのですか。", "하늘은 왜 파란가요?", "Tại sao bầu trời màu xanh?",
}

// Twenty languages and very long names fit on every page, also on a phone.
func TestLanguagesAndLongNamesFit(t *testing.T) {
	long := "quarterly-supplier-risk-reassessment-with-a-second-opinion-and-sign-off-by-" +
		strings.Repeat("everybody", 6)
	s := newSite(t, map[string]string{"gated.md": gated, "long.md": strings.NewReplacer(
		"name: gated", "name: "+long, "id: check", "id: "+strings.Repeat("very_long_step_name_", 5)+"x",
		"Look at the answer", strings.Join(languages, " · ")).Replace(gated)})
	all := strings.Join(languages, "\n") + strings.Repeat("unbroken", 100)
	id := s.begin(long, simulate, app.Field{Name: "question", Text: all})
	s.rest(id)
	b := s.open()
	for _, width := range []int64{360, 768, 1280, 1920, 3840} {
		b.size(width, 800)
		for _, path := range []string{
			"/inbox", "/inbox/" + string(id) + "/" + strings.Repeat("very_long_step_name_", 5) + "x", "/runs",
			"/runs/" + string(id), "/runs/" + string(id) + "?step=draft", "/runs/" + string(id) + "/transcript",
			"/workflows", "/workflows/" + long, "/triggers",
		} {
			b.visit(path)
			if wide := eval[int](b, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
				t.Errorf("%s at %d px: the page is %d px too wide", path, width, wide)
			}
		}
	}
	b.visit("/inbox")
	for _, text := range languages {
		if !strings.Contains(eval[string](b, "document.body.textContent"), text) {
			t.Errorf("the inbox does not show %q", text)
		}
	}
}
