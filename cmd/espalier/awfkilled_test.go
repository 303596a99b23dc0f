//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
	"github.com/espalier-run/espalier/internal/registry"
)

// awfServer serves a model and a service for the steps of a workflow. It counts requests, and does not answer one of
// them.
type awfServer struct {
	*httptest.Server
	mu          sync.Mutex
	holdRequest string
	requests    map[string]int
	held        chan struct{}
}

func newAWFServer(t *testing.T, hold string) *awfServer {
	w := &awfServer{holdRequest: hold, requests: map[string]int{}, held: make(chan struct{})}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

func (w *awfServer) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body) // a killed client sends no more
	what := r.URL.Query().Get("what")
	model := strings.HasPrefix(r.URL.Path, "/v1/")
	if model {
		var asked modelRequest
		_ = json.Unmarshal(raw, &asked) // then it is not what the test waits for
		var words []string
		for _, m := range asked.Messages {
			if m.Role == "user" {
				words = append(words, strings.Trim(string(m.Content), `"`))
			}
		}
		what = strings.Join(words, ",")
	}
	w.mu.Lock()
	w.requests[what]++
	hold := what == w.holdRequest
	if hold {
		w.holdRequest = ""
	}
	w.mu.Unlock()
	if hold {
		close(w.held)
		<-r.Context().Done()
		return
	}
	if !model {
		fmt.Fprintf(out, "%q", what)
		return
	}
	out.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(out,
		"data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,"+
			"\"delta\":{\"role\":\"assistant\",\"content\":%q},\"finish_reason\":\"stop\"}]}\n\n", "re "+what)
	fmt.Fprint(out, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[],"+
		"\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\"total_tokens\":13}}\n\ndata: [DONE]\n\n")
}

func (w *awfServer) requestCounts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.requests)
}

// Steps that send requests, in a loop and in a branch, are killed while they wait for a response, and after it.
// Requests with a response are never repeated. Others are repeated if that is safe; otherwise a person decides.
func TestAWFKilledWhileTalkingRepeatsNoAnsweredRequest(t *testing.T) {
	const agent = `type: agent, provider: openai_compatible, options: {base_url: "URL/v1", model: small, api_key: k}`
	kinds := map[string]struct {
		step           string
		heard          string // the request that the server receives for ITEM
		outcomeUnknown bool
	}{
		"agent":        {agent + `, prompt: "ITEM"`, "ITEM", false},
		"conversation": {agent + `, prompt: "ITEM", conversation: {continue_from: open}`, "open,ITEM", false},
		"GET":          {`type: operation, operation: http.request, inputs: {url: "URL/?what=ITEM", method: GET}`, "ITEM", false},
		"POST":         {`type: operation, operation: http.request, inputs: {url: "URL/?what=ITEM", method: POST, body: text}`, "ITEM", true},
		"notice":       {`type: operation, operation: notify.send, inputs: {backend: webhook, webhook_url: "URL/?what=ITEM", message: text}`, "ITEM", true},
	}
	// Both come to x first and to y then, with a trace between.
	places := map[string]struct{ states, x, y string }{
		"loop": {`  each: {type: for_each, items: [x, y], body: [it, note], on_complete: last}
  it: {IT}
  note: {type: step, command: 'sh ./step {{.loop.Item}}'}
`, "{{.loop.Item}}", ""},
		"branch": {`  each: {type: parallel, parallel: [other, note_x, it, note_y], max_concurrent: 1, on_success: last}
  other: {OTHER}
  note_x: {type: step, command: 'sh ./step x'}
  it: {IT}
  note_y: {type: step, command: 'sh ./step y'}
`, "x", "y"},
	}
	for kind, k := range kinds {
		for place, p := range places {
			for _, answered := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s in a %s, answered %t", kind, place, answered), func(t *testing.T) {
					t.Parallel()
					item := func(text, item string) string { return strings.ReplaceAll(text, "ITEM", item) }
					x, y := item(k.heard, "x"), item(k.heard, "y")
					hold := y
					if answered {
						hold = ""
					}
					world := newAWFServer(t, hold)
					states := p.states
					if p.y == "" {
						states = strings.ReplaceAll(states, "IT}", item(k.step, p.x)+"}")
					} else {
						states = strings.NewReplacer("OTHER}", item(k.step, p.x)+"}",
							"IT}", item(k.step, p.y)+"}").Replace(states)
					}
					states = "  initial: open\n  open: {" + agent + `, prompt: open, conversation: {}, on_success: each}` + "\n" + states +
						"  last: {type: step, command: 'sh ./step last; echo {{escape .states.it.Output}}', " +
						"on_success: done}\n  done: {type: terminal}\n"
					a := newAWF(t, strings.ReplaceAll(states, "URL", world.URL))
					a.writeFile("espalier.yaml", "allow: {hosts: ['"+world.Listener.Addr().String()+"']}\n", 0o600)

					want := map[string]int{"open": 1, x: 1, y: 1}
					if answered {
						a.kill(a.runUntilHeld("y"))
						a.wantTrace("x", "y")
					} else {
						running := a.command("run", "flow", "--run-id", awfRunID)
						var stderr strings.Builder
						running.Stderr = &stderr
						if err := running.Start(); err != nil {
							t.Fatal(err)
						}
						ended := make(chan struct{})
						go func() { _ = running.Wait(); close(ended) }()
						select {
						case <-world.held:
						case <-ended:
							t.Fatal(stderr.String())
						}
						_ = running.Process.Kill() // it cannot end before
						<-ended
						a.wantTrace("x")
					}
					if got := world.requestCounts(); !maps.Equal(got, want) {
						t.Fatalf("before the kill the world heard %v", got)
					}
					switch {
					case answered: // the outcome of the command is unknown
						a.wantExit(4, "resume", awfRunID)
						a.wantExit(0, "resume", awfRunID, "--from", "current")
						a.wantTrace("x", "y", "y", "last")
					case k.outcomeUnknown:
						output := a.wantExit(4, "resume", awfRunID)
						if !strings.Contains(output, "--decide") {
							t.Error(output)
						}
						a.wantExit(0, "resume", awfRunID, "--decide", a.uncertainStep()+`=result={"Output":"I saw it","Stderr":"","ExitCode":0,"Status":"completed","Response":{}}`)
						a.wantTrace("x", "y", "last")
					default:
						want[y] = 2 // there is no response, and repeating is safe
						a.wantExit(0, "resume", awfRunID)
						a.wantTrace("x", "y", "last")
					}
					if got := world.requestCounts(); !maps.Equal(got, want) {
						t.Errorf("the world heard %v, want %v", got, want)
					}
				})
			}
		}
	}
}

// uncertainStep returns the step with unknown outcome, as --decide takes it.
func (p *awfProject) uncertainStep() string {
	p.t.Helper()
	out, err := p.command("status", awfRunID, "--json").Output()
	if err != nil {
		p.t.Fatal(err)
	}
	var s runStatus
	if err := json.Unmarshal(out, &s); err != nil || len(s.Gates) != 1 || s.Gates[0].Kind != "unknown_outcome" {
		p.t.Fatalf("%v: %s", err, out)
	}
	return s.Gates[0].Step
}

// What ends a run from within a loop, and fails in a branch: killed before its
// end, and the end is the same.
func TestAWFKilledBeforeTheEndEndsTheSame(t *testing.T) {
	const inline = `on_failure: {message: "no {{.states.it.ExitCode}}", status: 7}`
	for name, c := range map[string]struct {
		states string
		code   int
		prints string
		after  []string
	}{
		"inline failure in a loop": {`  each: {type: for_each, items: [x, y], body: [it], on_complete: done}
  it: {type: step, command: 'sh ./step {{.loop.Item}}; [ {{.loop.Item}} = x ]', ` + inline + `}
`, 7, "no 1", []string{"x", "y", "y"}},
		"inline failure in a branch": {`  each: {type: parallel, parallel: [other, it], max_concurrent: 1, on_success: done, on_failure: {message: "the branches failed", status: 9}}
  other: {type: step, command: 'sh ./step x'}
  it: {type: step, command: 'sh ./step y; exit 3', ` + inline + `}
`, 9, "the branches failed", []string{"x", "y", "y"}},
		"terminal out of a loop": {`  each: {type: for_each, items: [x, y, z], body: [it], on_complete: never}
  it: {type: step, command: 'sh ./step {{.loop.Item}}', transitions: [{when: 'loop.Item == "y"', goto: done}, {goto: each}]}
  never: {type: terminal, status: failure}
`, 0, "", []string{"x", "y", "y"}},
		"failing terminal out of a loop in a branch": {`  each: {type: parallel, parallel: [loop], on_success: done, on_failure: broken}
  loop: {type: for_each, items: [x, y], body: [it]}
  it: {type: step, command: 'sh ./step {{.loop.Item}}; [ {{.loop.Item}} = x ]'}
  broken: {type: terminal, status: failure, message: "it is broken"}
`, 1, "it is broken", []string{"x", "y", "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newAWF(t, "  initial: each\n"+c.states+"  done: {type: terminal}\n")
			calm := p.wantExit(c.code, "run", "flow")
			p.writeFile("trace", "", 0o600)
			p.kill(p.runUntilHeld("y"))
			p.wantExit(4, "resume", awfRunID)
			output := p.wantExit(c.code, "resume", awfRunID, "--from", "current")
			p.wantTrace(c.after...)
			for _, text := range []string{calm, output} {
				if !strings.Contains(text, c.prints) {
					t.Error(text)
				}
				if c.code != 0 && !strings.Contains(text, "--from each\n") {
					t.Errorf("the hint does not name a step of the author's:\n%s", text)
				}
			}
			if raw, err := os.ReadFile(filepath.Join(p.dir, ".espalier/storage/audit.jsonl")); err != nil || strings.Count(string(raw), fmt.Sprintf(`"exit_code":%d`, c.code)) != 2 {
				t.Errorf("%v: %s", err, raw)
			}
		})
	}
}

// What failed stays failed when the hooks after it are cut off, whatever is said
// of these.
func TestAWFFailureStaysWhenItsHooksAreKilled(t *testing.T) {
	for _, says := range [][]string{
		{"--from", "current"},
		{"--decide", "it:post-failed=rerun"},
		{"--decide", "it:post-failed=skip"},
		{"--decide", "it:post-failed=fail"},
	} {
		t.Run(says[1], func(t *testing.T) {
			t.Parallel()
			p := newAWF(t, "  initial: it\n  it: {type: step, command: exit 3, hooks: {post: [{command: sh ./step "+
				"y}]}, on_success: done}\n  done: {type: terminal}\n")
			p.kill(p.runUntilHeld("y"))
			p.wantExit(4, "resume", awfRunID)
			p.wantExit(1, append([]string{"resume", awfRunID}, says...)...)
		})
	}
}

// The time that a step may take is computed when it begins. A process that continues
// after a kill keeps it, and the time already used, even if its inputs have changed.
func TestAWFKilledKeepsTheDeadline(t *testing.T) {
	const timeout = `timeout: "{{.states.first.Output}}", on_success: done`
	for kind, states := range map[string]string{
		"parallel": `  hold: {type: parallel, parallel: [x, y], max_concurrent: 1, ` + timeout + `}
  x: {type: step, command: 'sh ./step x; sleep 0.02'}
  y: {type: step, command: 'sh ./step y'}
`,
		"for_each": `  hold: {type: for_each, items: [x, y], body: [it], ` + timeout + `}
  it: {type: step, command: 'sh ./step {{.loop.Item}}; sleep 0.02'}
`,
		"while": `  hold: {type: while, while: loop.Index < 2, body: [it], ` + timeout + `}
  it: {type: step, command: 'sh ./step {{if .loop.First}}x{{else}}y{{end}}; sleep 0.02'}
`,
		"call_workflow": `  hold: {type: call_workflow, workflow: two, ` + timeout + `}
`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newAWF(t, "  initial: first\n  first: {type: step, command: cat limit, on_success: hold}\n"+
				states+"  done: {type: terminal}\n")
			p.writeFile(".awf/workflows/two.yaml", `name: two
states:
  initial: x
  x: {type: step, command: 'sh ./step x; sleep 0.02', on_success: y}
  y: {type: step, command: 'sh ./step y', on_success: done}
  done: {type: terminal}
`, 0o600)
			p.writeFile("limit", "1h\n", 0o600)
			p.kill(p.runUntilHeld("y"))
			p.writeFile("limit", "1ms\n", 0o600)
			limit, before := p.stepClock("hold")
			if limit != 3_600_000 || before.Active < 20 || before.Open != 1 {
				t.Fatalf("%d, %+v", limit, before)
			}
			p.wantExit(4, "resume", awfRunID)
			limit, parked := p.stepClock("hold")
			if limit != 3_600_000 || parked.Active < before.Active || parked.Open != 0 {
				t.Fatalf("%d, %+v, before %+v", limit, parked, before)
			}
			p.kill(p.startUntilHeld("y", "resume", awfRunID, "--from", "current"))
			if limit, again := p.stepClock("hold"); limit != 3_600_000 || again.Active != parked.Active ||
				again.Open != 1 {
				t.Fatalf("%d, %+v, before %+v", limit, again, parked)
			}
			p.wantExit(4, "resume", awfRunID)
			p.wantExit(0, "resume", awfRunID, "--from", "current")
			p.wantTrace("x", "y", "y", "y")
		})
	}
}

// stepClock returns the time limit of a step, and the time that it has used.
func (p *awfProject) stepClock(step string) (limit journal.Millis, used plan.Clock) {
	p.t.Helper()
	r, err := registry.OpenRuntime(filepath.Join(p.dir, ".espalier"), registry.RuntimeOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Close()
	state, _, _, err := r.Engine.Load(p.t.Context(), awfRunID)
	if err != nil {
		p.t.Fatal(err)
	}
	f := state.Root()
	if f.Step != step || f.Group == nil {
		p.t.Fatalf("the run is at %q: %+v", f.Step, f.Group)
	}
	return f.Group.Limit, f.Group.Clock
}

// Requests have AWF's settings and behave as in AWF: transitions depend on the status, and some statuses are retried.
func TestAWFRequestsBranchOnStatusAndRetry(t *testing.T) {
	var mu sync.Mutex
	busy := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/lost":
			w.WriteHeader(http.StatusNotFound)
		case "/busy":
			if busy++; busy < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		fmt.Fprintf(w, `{"path":%q}`, r.URL.Path)
	}))
	defer server.Close()
	p := newAWF(t, strings.ReplaceAll(`  initial: look
  look:
    type: operation
    operation: http.request
    inputs: {url: "URL/lost", method: GET, timeout: 5}
    transitions: [{when: states.look.Response.status_code == 404, goto: each}, {goto: broken}]
  each: {type: for_each, items: [busy], body: [send], on_complete: tell, on_failure: broken}
  send:
    type: operation
    operation: http.request
    inputs: {url: "URL/{{.loop.Item}}", method: POST, body: text, timeout: 5s, retryable_status_codes: [503]}
    retry: {max_attempts: 3, initial_delay: 1ms}
  tell: {type: step, command: 'echo {{.states.look.Response.status_code}} {{escape .states.send.Response.body}}', on_success: done}
  done: {type: terminal}
  broken: {type: terminal, status: failure}
`, "URL", server.URL))
	p.writeFile("espalier.yaml", "allow: {hosts: ['"+server.Listener.Addr().String()+"']}\n", 0o600)
	output := p.wantExit(0, "run", "flow")
	if !strings.Contains(output, "\n"+`404 {"path":"/busy"}`+"\n") || busy != 3 {
		t.Errorf("%d requests while it was busy\n%s", busy, output)
	}
	// What the workflow goes by is not called a failure.
	if !strings.Contains(output, `tool http.request returned an error: the server answered 404 Not Found: {"path":"/lost"}`) || strings.Contains(output, "tool http.request failed") {
		t.Error(output)
	}
}
