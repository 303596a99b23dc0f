//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// userAction is an action on a run: as a command, and as a request.
type userAction struct {
	args string // of the command, after the run
	path string
	body func(digest string) string // nil for none
}

// constantBody returns a body that does not depend on the digest.
func constantBody(text string) func(string) string { return func(string) string { return text } }

// userActions holds all actions on a run, including those that it refuses in some states.
var userActions = map[string]userAction{
	"pause":  {"", "pause", nil},
	"resume": {"", "resume", nil},
	"cancel": {"", "cancel", constantBody(`{"reason": "canceled by hand"}`)}, // as the command says
	"signal": {`papers --data {"pages":2}`, "signal", constantBody(`{"event": "papers", "data": {"pages": 2}}`)},
	"approve": {"check --note fine", "decide", func(digest string) string {
		return fmt.Sprintf(`{"step": "check", "decision": "approve", "note": "fine", "digest": %q}`, digest)
	}},
	"reject": {"check --note no", "decide", func(digest string) string {
		return fmt.Sprintf(`{"step": "check", "decision": "reject", "note": "no", "digest": %q}`, digest)
	}},
	"edit":           {"output.answer=better", "edit", constantBody(`{"variable": "output.answer", "value": "better"}`)},
	"resume --raise": {"steps=30", "resume", constantBody(`{"raise": [{"budget": "steps", "to": 30}]}`)},
	"resume --from":  {"draft", "resume", constantBody(`{"from": "draft"}`)},
}

// For random sequences of actions, commands with the store and requests to the API leave the same facts,
// and accept and refuse the same.
func TestCommandsAndRequestsLeaveTheSameFacts(t *testing.T) {
	store, served := newGatedProject(t), newGatedProject(t)
	s := startServer(served)
	sequence := rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(userActions))), 2, 6)
	seed := int(time.Now().UnixNano() % 1_000_000)
	t.Logf("the seed is %d", seed)
	for number := range sequences {
		prefix := fmt.Sprintf("%04d", number)
		run := strings.Repeat(prefix, 2) + "-1111-4111-8111-111111111111"
		store.wantExit(4, "run", "gated", "--simulate", "--input", "question=why", "--run-id", run)
		started := s.call("POST", "/api/v1/runs", `{"workflow": "gated", "simulate": true, "input": {"question": "why"}, "run_id": "`+run+`"}`, 201)
		if started["run_id"] != run {
			t.Fatalf("%v", started)
		}
		s.waitSettled(run)
		var done []string
		for _, name := range sequence.Example(seed + number) {
			d := userActions[name]
			done = append(done, name)
			command, flag, _ := strings.Cut(name, " ")
			args := []string{command, run}
			if flag != "" {
				args = append(args, flag)
			}
			before, _ := s.request("GET", "/api/v1/runs/"+run, "")
			accepted := store.isAccepted(append(args, strings.Fields(d.args)...)...)
			body := ""
			if d.body != nil {
				body = d.body(digestOf(before))
			}
			_, code := s.request("POST", "/api/v1/runs/"+run+"/"+d.path, body)
			// A finished run needs no resuming, which the command says and the API refuses.
			if finished := before["state"] == "finished"; (code < 300) != accepted && !(finished && name == "resume") {
				t.Errorf("%q: the command was accepted: %v, the request: %d", done, accepted, code)
			}
			s.waitSettled(run)
			if diff := cmp.Diff(store.journalFacts(prefix), served.journalFacts(prefix)); diff != "" {
				t.Fatalf("%q: facts with the store (-) and with the API (+):\n%s", done, diff)
			}
		}
	}
}

// sequences is how many sequences are tried.
const sequences = 6

// isAccepted runs a command and reports whether the run has accepted it.
func (p *awfProject) isAccepted(args ...string) bool {
	p.t.Helper()
	cmd := p.command(args...)
	out, err := cmd.CombinedOutput()
	code := cmd.ProcessState.ExitCode()
	if err != nil && code < 0 {
		p.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return code != 2
}

// request makes a request and returns the response with its status.
func (s *serverProcess) request(method, path, body string) (out map[string]any, status int) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Body.Close()
	if err := json.NewDecoder(w.Body).Decode(&out); err != nil {
		s.t.Fatal(err)
	}
	return out, w.StatusCode
}

// waitSettled waits until nothing happens in a run by itself.
func (s *serverProcess) waitSettled(run string) {
	s.t.Helper()
	s.waitForAnyState(run, "waiting", "paused", "finished", "budget")
}

// digestOf returns the digest of the approval that a run waits for; one that fits nothing if there is none.
func digestOf(status map[string]any) string {
	gates, _ := status["gates"].([]any)
	for _, g := range gates {
		if digest, _ := g.(map[string]any)["digest"].(string); digest != "" {
			return digest
		}
	}
	return "none"
}
