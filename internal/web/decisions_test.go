package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/source"
)

// helped has an agent that reads files; each call needs an approval.
const helped = `---
name: helped
kind: agent-flow/workflow
version: 1.0.0
description: Reads something.
---
~~~agent
id: helper
role: Helps.
goal: Help.
tools: [Read]
max_tokens: 500
~~~
~~~step
id: act
type: skill
description: Act.
agent: helper
writes: [output.text]
~~~
`

const helpedReplies = `replies:
  - {step: act, turn: 1, tools: [{name: Read, input: {path: notes.txt}}]}
  - {step: act, turn: 2, reply: Done.}
`

// A tool call that needs an approval is decided in the inbox, which shows the tool and exactly its arguments.
func TestInboxDecidesToolCalls(t *testing.T) {
	s := newSite(t, map[string]string{
		"helped.md": helped, "espalier.yaml": "tools: {Read: {requires_approval: true}}\n",
		"notes.txt": "roses and tulips\n",
	})
	b := s.open()
	for _, c := range []struct {
		button, notice, result string
	}{
		{"approve", "Approved", "roses and tulips"},
		{"reject", "Rejected", "not today"},
	} {
		id := s.play("helped", helpedReplies)
		s.rest(id)
		b.visit("/inbox")
		b.waitText("#inbox-mine .ask[data-kind=tool_approval]", "Allow Read in act")
		b.waitText("article .evidence", "Read")
		b.waitText("article .evidence", "notes.txt")
		b.waitText("article .facts", "role approver (you are one)")
		b.set("#note", "not today")
		b.click("button[value=" + c.button + "]")
		b.waitText("#notice", c.notice)
		s.rest(id)
		b.visit("/runs/" + string(id) + "?step=act")
		b.waitText("#run-state", "Finished")
		b.waitText("#talk details.call", c.result)
		b.visit("/inbox")
		b.waitText("main", "Nothing waits for a person")
	}
}

// child is a server in another process.
type child struct{ cmd *exec.Cmd }

// Environment variables of TestServeInAnotherProcess.
const childDir, childHome, childAddr, childBegin = "WEB_TEST_DIR", "WEB_TEST_HOME", "WEB_TEST_ADDR", "WEB_TEST_BEGIN"

// TestServeInAnotherProcess is not a test: other tests start this program again to have a server that they can kill.
func TestServeInAnotherProcess(t *testing.T) {
	if os.Getenv(childDir) == "" {
		return
	}
	s := &site{t: t, dir: os.Getenv(childDir), home: os.Getenv(childHome), addr: os.Getenv(childAddr)}
	s.start()
	var id journal.RunID
	if workflow := os.Getenv(childBegin); workflow != "" {
		id = s.begin(workflow, app.RunOptions{AllowShell: true, RecordStream: true})
	}
	fmt.Println(s.addr, id)
	select {} // until the process is killed
}

// serve starts a server for the project of a site in another process.
func (s *site) serve(begin string) (c *child, run string) {
	s.t.Helper()
	c = &child{cmd: exec.Command(os.Args[0], "-test.run=^TestServeInAnotherProcess$")}
	c.cmd.Env = append(os.Environ(), childDir+"="+s.dir, childHome+"="+s.home,
		childAddr+"="+s.addr, childBegin+"="+begin)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.cmd.Process.Kill() }) // it may be dead
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		s.t.Fatalf("the server said nothing: %v", lines.Err())
	}
	s.addr, run, _ = strings.Cut(lines.Text(), " ")
	return c, run
}

// kill kills the process and waits until it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // it was killed
}

// A page that is open while the process of the server is killed and another one is started says that it is not
// connected, and then shows what is true. The step that was running may have acted: the inbox asks, and each answer
// continues the run.
func TestPageSurvivesAKilledServer(t *testing.T) {
	for _, c := range []struct{ answer, state, why string }{
		{"rerun", "Finished", ""},
		{"skip", "Finished", ""},
		{"result", "Finished", ""},
		{"fail", "Failed", "talk"},
	} {
		t.Run(c.answer, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "go")
			t.Cleanup(func() { _ = os.WriteFile(file, nil, 0o600) }) // commands of killed servers end
			s := &site{t: t, dir: filepath.Join(t.TempDir(), "orchard-desk"), home: t.TempDir(), addr: "127.0.0.1:0"}
			s.write(map[string]string{"chatty.yaml": chatty(file)})
			s.openAccounts()
			first, id := s.serve("chatty")
			b := s.openAs("otto", identity.Operator)
			b.expect("ERR_", "Failed to load resource", "Failed to fetch")
			b.visit("/runs/" + id + "?step=talk")
			b.waitText("#log li", "one")
			b.wait(`document.querySelector("#link").textContent === "Live"`)
			eval[bool](b, "window.sameDocument = true")
			first.kill()
			b.wait(`document.querySelector("#link").textContent.startsWith("Not connected")`)
			b.waitText("#run-state", "Running") // what was true when the connection was lost
			second, _ := s.serve("")
			defer second.kill()
			b.wait(`document.querySelector("#link").textContent === "Live"`)
			b.waitText("#asks", "Did talk take effect?")
			b.waitText("#step-state", "Outcome unknown")
			if !eval[bool](b, "window.sameDocument === true") {
				t.Error("the page was reloaded")
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			b.click("#asks a.btn")
			b.waitText("article .notice", "It is unknown whether the step had an effect")
			if eval[bool](b, `document.querySelector("article .facts").textContent.includes("approve")`) {
				t.Error("the item says what follows an approval, which it does not offer")
			}
			b.wait(`document.querySelector("article .crumbs a[href$='?step=talk']")?.textContent === "talk"`)
			if c.answer == "result" {
				b.set("#value", `{"Output": "known", "Stderr": "", "ExitCode": 0, "Status": "completed"}`)
			}
			b.click("button[value=" + c.answer + "]")
			b.waitText("#notice", "Recorded")
			b.waitText("#inbox-done", "Resolved talk")
			b.visit("/runs/" + id + "?step=talk")
			b.waitText("#run-state", c.state)
			if c.why != "" {
				b.waitText("#why-card", c.why)
			}
		})
	}
}

// leave is a workflow whose command says that it has started, and then waits for the end of its process.
func leave(dir, description string) string {
	return fmt.Sprintf("name: leave\nstates:\n  initial: send\n  send:\n    type: step\n    description: %q\n"+
		"    command: touch %[2]s/started; until [ -e %[2]s/go ]; do sleep 0.1; done\n"+
		"    on_success: done\n  done: {type: terminal}\n", description, dir)
}

// abandon serves the project of a site in another process, and kills it while the command of the workflow leave runs.
// It returns the run, whose step may have acted.
func (s *site) abandon(dir string) journal.RunID {
	s.t.Helper()
	// the command of the killed server ends
	s.t.Cleanup(func() { _ = os.WriteFile(filepath.Join(dir, "go"), nil, 0o600) })
	c, id := s.serve("leave")
	for s.t.Context().Err() == nil {
		if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.kill()
	return journal.RunID(id)
}

// openAccounts opens the accounts of a project that no server of this process serves.
func (s *site) openAccounts() {
	s.t.Helper()
	a := app.New(app.Options{Dir: s.dir, Home: s.home, Relaxed: true, Getenv: func(string) string { return "" }})
	state, err := a.StateDir(context.Background())
	if err == nil {
		s.auth, err = identity.NewAuthenticator(state)
	}
	if err = errors.Join(err, a.Close()); err != nil {
		s.t.Fatal(err)
	}
}

// Runs are filtered by what they cost.
func TestRunsAreFilteredByCost(t *testing.T) {
	s := newSite(t, map[string]string{
		"gated.md":      gated,
		"espalier.yaml": "models: {default: openai/fixed}\nprices: {openai/fixed: {input: 2, output: 8}}\n",
	})
	costs := map[string]journal.RunID{}
	for _, tokens := range []string{"1000", "50000", "700000"} { // 0.8 cents, 40 cents, 5.60 dollars
		text := strings.Replace(gated, "max_tokens: 50000", "max_tokens: 5000000", 1)
		s.write(map[string]string{"gated.md": text})
		id := s.prepare("gated", app.PrepareRequest{
			Script: source.NewFile("r.yaml",
				"replies: [{step: draft, reply: Because., usage: {input: 0, output: "+tokens+"}}]\n"),
			Fields: []app.Field{question},
		})
		s.rest(id)
		costs[tokens] = id
	}
	c := s.client()
	for filter, want := range map[string][]string{
		"": {"1000", "50000", "700000"}, "0.01": {"50000", "700000"}, "1": {"700000"}, "10": nil,
	} {
		status, page := s.get(c, "/runs?cost="+filter)
		if n := strings.Count(page, `<tr role="row" id="run-`); status != http.StatusOK || n != len(want) {
			t.Errorf("cost %q: %d, %d rows, want %d", filter, status, n, len(want))
		}
		for _, tokens := range want {
			if !strings.Contains(page, `id="run-`+string(costs[tokens])) {
				t.Errorf("cost %q: the run of %s tokens is missing", filter, tokens)
			}
		}
	}
	b := s.open()
	b.visit("/runs")
	eval[bool](b, `(() => { const box = document.querySelector("select[name=cost]"); box.value = "1";
		box.form.requestSubmit(); return true; })()`)
	b.wait(`location.search.includes("cost=1") && document.querySelectorAll("#runs tr").length === 1`)
}

// calls starts a child run.
const calls = `name: calls
states:
  initial: ask
  ask: {type: call_workflow, workflow: called, inputs: {text: pears}, outputs: {said: answer}, on_success: done}
  done: {type: terminal}
`

const called = `name: called
inputs:
  - {name: text, type: string, required: true}
outputs:
  - {name: said, from: states.say.Output}
states:
  initial: say
  say: {type: step, command: "echo {{.inputs.text}}", on_success: done}
  done: {type: terminal}
`

// A child run has a page of its own, with links to it and back.
func TestChildRunsAreLinkedBothWays(t *testing.T) {
	s := newSite(t, map[string]string{
		".awf/workflows/calls.yaml": calls, ".awf/workflows/called.yaml": called,
	})
	id := s.begin("calls", shell)
	if run := s.rest(id); run.Outcome != journal.OutcomeOK {
		t.Fatalf("%s %s", run.Outcome, run.Error)
	}
	b := s.open()
	b.visit("/runs/" + string(id) + "?step=ask")
	b.waitText("#timeline", "child run ")
	b.click(`#panel a.btn[href*="/runs/"]`)
	b.waitText("h1", "called")
	b.waitText("#run-state", "Finished")
	b.waitText("#timeline", "say")
	for _, tab := range []string{"/transcript", "/audit", "/artifacts", "/state", "/output"} {
		b.visit(eval[string](b, `location.pathname.split("/").slice(0, 3).join("/")`) + tab)
		b.waitText("h1", "called")
	}
	b.click("#parent a")
	b.wait(`location.pathname.endsWith("` + string(id) + `")`)
	b.waitText("h1", "calls")
}

// The page of a workflow shows when its schedule fires next.
func TestWorkflowShowsTheNextTimesOfItsTriggers(t *testing.T) {
	s := newSite(t, map[string]string{"gated.md": gated})
	b := s.open()
	b.visit("/workflows/gated")
	b.waitText("[aria-labelledby=tr-h]", "Schedule 30 2 * * *")
	b.waitText("[aria-labelledby=tr-h]", "Event question_asked")
	times := eval[[]string](b, `[...document.querySelectorAll("[aria-labelledby=tr-h] time")].map((e) => e.dateTime)`)
	if len(times) < 2 {
		t.Fatalf("the page shows %d times", len(times))
	}
	last := time.Now().Add(-time.Minute)
	for _, text := range times {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || !at.After(last) ||
			at.Local().Format("15:04") != "02:30" && at.UTC().Format("15:04") != "02:30" {
			t.Errorf("%s, %v; the one before is %s", text, err, last)
		}
		last = at
	}
}
