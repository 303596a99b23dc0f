//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// billingServer is a model server that records the usage of many projects. It counts a request when it arrives: a
// process that is killed before the response has to pay for it nevertheless.
type billingServer struct {
	t   *testing.T
	url string

	mu       sync.Mutex
	accounts map[string]*account // by project
}

// account is the usage of one project.
type account struct {
	asked  map[string]int // keyed by agent and number of tool results
	calls  int
	input  int // tokens
	output int
	// stop is called while a request is answered: on arrival, after half of the response, and after all of it.
	stop func(request int, moment string)
	// meet holds back the response to the grower until the taster's next request.
	meet chan struct{}
}

// Moments of a request.
const (
	arrived   = "when it arrived"
	halfSent  = "in the middle of the answer"
	fullySent = "after the answer"
)

func newBillingServer(t *testing.T) *billingServer {
	s := &billingServer{t: t, accounts: map[string]*account{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *billingServer) account(project string) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[project]
	if a == nil {
		a = &account{asked: map[string]int{}}
		s.accounts[project] = a
	}
	return a
}

// Prices of tokens, in millionths of a dollar.
const (
	microIn  = 3
	microOut = 15
)

func (a *account) micro() int { return a.input*microIn + a.output*microOut }

func (s *billingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	project := strings.Split(r.URL.Path, "/")[1]
	var request struct {
		Messages []struct {
			Role    string
			Content string
		}
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client was killed before the end of the response
	}
	if err := json.Unmarshal(raw, &request); err != nil || r.URL.Path != "/"+project+"/chat/completions" {
		s.t.Errorf("a request to %s cannot be read: %v\n%s", r.URL.Path, err, raw)
		return
	}
	who, results := "", 0
	for _, m := range request.Messages {
		if m.Role == "system" {
			who, _, _ = strings.Cut(strings.TrimPrefix(m.Content, "Role: "), "\n")
		}
		if m.Role == "tool" {
			results++
		}
	}
	answer := answers[who][min(results, len(answers[who])-1)]
	input, output := len(raw)/4, 5+len(answer)/4
	a := s.account(project)
	s.mu.Lock()
	a.asked[fmt.Sprintf("%s after %d results", who, results)]++
	a.calls++
	a.input += input
	a.output += output
	n, stop, meet := a.calls, a.stop, a.meet
	s.mu.Unlock()
	if meet != nil && who == "Judges the taste" && results == 1 {
		meet <- struct{}{}
		n = tasterSecondCall // however early the request was
	}
	if meet != nil && who == "Judges the tree" {
		<-meet
		<-r.Context().Done() // the client is gone
		return
	}
	if stop == nil {
		stop = func(int, string) {}
	}
	stop(n, arrived)
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(text string) {
		fmt.Fprintf(w, "data: %s\n\n", text)
		w.(http.Flusher).Flush()
	}
	finish := "stop"
	if calls, ok := strings.CutPrefix(answer, "calls "); ok {
		finish = "tool_calls"
		say(`{"id":"c","model":"till-1","choices":[{"index":0,"delta":{"role":"assistant","content":"One moment."}}]}`)
		stop(n, halfSent)
		say(`{"id":"c","model":"till-1","choices":[{"index":0,"delta":{"tool_calls":` + calls + `}}]}`)
	} else {
		half := len(answer) / 2
		say(`{"id":"c","model":"till-1","choices":[{"index":0,"delta":{"role":"assistant","content":` +
			quote(answer[:half]) + `}}]}`)
		stop(n, halfSent)
		say(`{"id":"c","model":"till-1","choices":[{"index":0,"delta":{"content":` + quote(answer[half:]) + `}}]}`)
	}
	say(`{"id":"c","model":"till-1","choices":[{"index":0,"delta":{},"finish_reason":"` + finish + `"}]}`)
	say(fmt.Sprintf(`{"id":"c","model":"till-1","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,`+
		`"total_tokens":%d}}`, input, output, input+output))
	say("[DONE]")
	stop(n, fullySent)
}

// answers are the replies of each agent, by the number of tool results in the request.
var answers = map[string][]string{
	"Judges the taste": {`calls [{"index":0,"id":"t1","type":"function","function":{"name":"Read",` +
		`"arguments":"{\"path\":\"quince.txt\"}"}}]`, `{"items": [{"view": "sour when raw, sweet when cooked"}], ` +
		`"summary": "It has to be cooked.", "type": "view"}`},
	"Judges the tree": {`{"items": [{"view": "hardy, and small enough for a wall"}], "summary": "It suits a wall.", ` +
		`"type": "view"}`},
	"Decides": {
		`calls [{"index":0,"id":"d1","type":"function","function":{"name":"Bash","arguments":"{\"command\":\"echo ` +
			`ordered >> ../../../effects\"}"}},{"index":1,"id":"d2","type":"function","function":{"name":"Read",` +
			`"arguments":"{\"path\":\"quince.txt\"}"}}]`,
		"", "One quince tree is ordered.",
	},
}

const decision = "One quince tree is ordered."

// orderProject returns the files of a project in which two agents work in parallel, and a third acts on their replies.
func (s *billingServer) orderProject(project string) map[string]string {
	return map[string]string{
		"espalier.yaml": fmt.Sprintf(`models:
  default: till/till
  providers: {till: {api: openai, base_url: "%s/%s", max_retries: 0}}
prices: {till: {input: %d, output: %d}}
`, s.url, project, microIn, microOut),
		"quince.txt": "A quince is sour.\n",
		"orchard.md": `---
name: orchard
description: Two judge a tree at the same time, and a third orders it.
kind: agent-flow/workflow
version: 1.0.0
tools: {workers_can_call_tools: true}
---
` + "```step" + `
id: judge
type: parallel
description: Judge the quince from two sides.
bundle: judges
writes: [state.views]
` + "```\n```step" + `
id: decide
type: skill
description: Order a tree if the judges like it.
agent: gardener
reads: [state.views]
writes: [output.decision]
` + "```\n```agent" + `
id: taster
role: Judges the taste
goal: A view
tools: [Read]
` + "```\n```agent" + `
id: grower
role: Judges the tree
goal: A view
` + "```\n```agent" + `
id: gardener
role: Decides
goal: A decision
tools: [Read, Bash]
` + "```\n```bundle" + `
name: judges
workers:
  - {id: taste, agent: taster}
  - {id: tree, agent: grower}
merge: {strategy: union}
` + "```\n",
	}
}

// billed is the usage that Espalier reports for a run.
type billed struct {
	ModelCalls int `json:"model_calls"`
	ToolCalls  int `json:"tool_calls"`
	Input      int `json:"input_tokens"`
	Output     int `json:"output_tokens"`
	Micro      int `json:"micro_dollars"`
	Lost       struct {
		ModelCalls int `json:"model_calls"`
		Input      int `json:"input_tokens"`
		Output     int `json:"output_tokens"`
		Micro      int `json:"micro_dollars"`
	} `json:"lost"`
}

// auditRecord holds the fields of audit records that concern cost.
type auditRecord struct {
	Event string `json:"event"`
	Data  struct {
		Input       int `json:"input_tokens"`
		Output      int `json:"output_tokens"`
		Micro       int `json:"cost_micro_dollars"`
		Charged     int `json:"charged_cost_micro_dollars"`
		ChargedLost int `json:"charged_lost_cost_micro_dollars"`
		Total       int `json:"total_cost_micro_dollars"`
		TotalLost   int `json:"total_lost_cost_micro_dollars"`
	} `json:"data"`
}

// espalierIn runs a command of Espalier in a project.
func espalierIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("espalier", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+dir, "GORACE="+quickExit)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("espalier %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// checkBill compares a finished run with the server's account. The bill is the cost of recorded replies plus the
// possible cost of lost ones; it covers every request, and no recorded reply was requested again.
func (s *billingServer) checkBill(t *testing.T, dir, project string) (lost int) {
	t.Helper()
	var status struct {
		Outcome string `json:"outcome"`
		Used    billed `json:"used"`
	}
	if err := json.Unmarshal([]byte(espalierIn(t, dir, "status", testRunID, "--json")), &status); err != nil {
		t.Fatal(err)
	}
	u := status.Used
	var paid, charged, paidIn, paidOut, replies int
	var end auditRecord
	for line := range strings.Lines(espalierIn(t, dir, "audit", testRunID, "--json")) {
		var r auditRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		switch r.Event {
		case "model_call":
			replies++
			paid += r.Data.Micro
			paidIn += r.Data.Input
			paidOut += r.Data.Output
		case "step_lost":
			charged += r.Data.ChargedLost
		case "run_complete":
			end = r
		}
	}
	a := s.account(project)
	s.mu.Lock()
	defer s.mu.Unlock()
	again := 0
	for who, n := range a.asked {
		again += n - 1
		if n > 2 {
			t.Errorf("%s was asked %d times", who, n)
		}
	}
	switch {
	case status.Outcome != "ok":
		t.Errorf("it ended with %q", status.Outcome)
	case u.ModelCalls-u.Lost.ModelCalls != replies || u.Micro-u.Lost.Micro != paid || u.Input-u.Lost.Input != paidIn ||
		u.Output-u.Lost.Output != paidOut || u.Lost.Micro != charged:
		t.Errorf("the bill is %+v; on record are %d replies for %d (%d tokens in, %d out), and %d that is charged "+
			"besides", u, replies, paid, paidIn, paidOut, charged)
	case end.Data.Total != u.Micro || end.Data.TotalLost != u.Lost.Micro:
		t.Errorf("the audit log ends with %+v, the bill is %+v", end.Data, u)
	case a.calls > u.ModelCalls || a.micro() > u.Micro || again > u.Lost.ModelCalls:
		t.Errorf("the server has seen %d calls for %d, %d of them again (%v); the bill is %+v", a.calls, a.micro(),
			again, a.asked, u)
	case u.Lost.ModelCalls == 0 &&
		(a.calls != u.ModelCalls || a.input != u.Input || a.output != u.Output || a.micro() != u.Micro):
		t.Errorf("nothing was lost, and the server has %+v, the bill %+v", a, u)
	}
	var steps billed
	for _, step := range []string{"judge", "decide"} {
		var records struct {
			Executions []struct {
				Used billed `json:"used"`
			} `json:"executions"`
		}
		if err := json.Unmarshal([]byte(espalierIn(t, dir, "status", testRunID, "--step", step, "--json")),
			&records); err != nil {
			t.Fatal(err)
		}
		for _, r := range records.Executions {
			steps.ModelCalls += r.Used.ModelCalls
			steps.Micro += r.Used.Micro
			steps.Lost.Micro += r.Used.Lost.Micro
		}
	}
	if steps.ModelCalls != u.ModelCalls || steps.Micro != u.Micro || steps.Lost.Micro != u.Lost.Micro {
		t.Errorf("usage of all steps: %+v, of the run: %+v", steps, u)
	}
	espalierIn(t, dir, "audit", "verify", testRunID)
	if done := recordedEffects(dir); !slices.Equal(done, []string{"ordered"}) {
		t.Errorf("effects %q, want one order", done)
	}
	return u.Lost.ModelCalls
}

// orderShape returns a run that orders a tree, and checks before a repetition whether it was ordered.
func (s *billingServer) orderShape(project string) *shape {
	return &shape{
		simulatedUser: simulatedUser{
			Run: []string{"orchard.md"}, Results: map[string]string{"decide": quote(decision)},
		},
		files: s.orderProject(project),
	}
}

// TestCostCoversEveryRequestAfterKills kills the program at every write to its journal, where each prompt, reply and
// tool result of three agents is a fact. The bill always equals the calls that the server counted.
func TestCostCoversEveryRequestAfterKills(t *testing.T) {
	s := newBillingServer(t)
	calm := s.orderShape("calm")
	dir := calm.createProject(t)
	back := calm.runProcess(t, dir, calm.simulatedUser)
	if lost := s.checkBill(t, dir, "calm"); lost != 0 || s.account("calm").calls != 5 {
		t.Fatalf("undisturbed: %d lost, %+v", lost, s.account("calm"))
	}
	exact, covered := 0, 0
	t.Run("killed", func(t *testing.T) {
		var mu sync.Mutex
		for stop := 1; stop <= back.Writes; stop++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s write %d", beforeOrAfter(after), stop), func(t *testing.T) {
					t.Parallel()
					project := fmt.Sprintf("%s%d", beforeOrAfter(after), stop)
					b := s.orderShape(project)
					dir := b.createProject(t)
					one := b.simulatedUser
					one.KillAt, one.After = stop, after
					if b.runProcess(t, dir, one) == nil {
						b.runProcess(t, dir, b.simulatedUser)
					}
					lost := s.checkBill(t, dir, project)
					mu.Lock()
					defer mu.Unlock()
					if lost == 0 {
						exact++
					} else {
						covered++
					}
				})
			}
		}
	})
	if exact == 0 || covered == 0 {
		t.Errorf("the bill was exact %d times, and more than the calls %d times: both happen", exact, covered)
	}
}

// TestCostCoversRequestsCutOffByAKill kills the program with SIGKILL while the server responds.
func TestCostCoversRequestsCutOffByAKill(t *testing.T) {
	s := newBillingServer(t)
	for request := 1; request <= 5; request++ {
		for _, moment := range []string{arrived, halfSent, fullySent} {
			t.Run(fmt.Sprintf("request %d, %s", request, moment), func(t *testing.T) {
				t.Parallel()
				project := fmt.Sprintf("%d%s", request, strings.ReplaceAll(moment, " ", ""))
				b := s.orderShape(project)
				dir := b.createProject(t)
				s.startAndKill(t, dir, project, request, moment)
				b.runProcess(t, dir, b.simulatedUser)
				if lost := s.checkBill(t, dir, project); lost == 0 && moment != fullySent {
					t.Error("the call that was cut off is not on the bill")
				}
			})
		}
	}
}

// startAndKill starts the run in a process that is killed at a moment of a request.
func (s *billingServer) startAndKill(t *testing.T, dir, project string, request int, moment string) {
	t.Helper()
	cmd := exec.Command("espalier", "run", "orchard.md", "--allow-shell", "--run-id", testRunID)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+dir, "GORACE="+quickExit)
	begun, gone := make(chan struct{}), make(chan struct{})
	a := s.account(project)
	s.mu.Lock()
	a.stop = func(n int, at string) {
		if n != request || at != moment {
			return
		}
		<-begun
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-gone // the client cannot receive the rest
	}
	s.mu.Unlock()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	close(begun)
	if err := cmd.Wait(); err == nil {
		t.Error("the process was not killed")
	}
	close(gone)
	s.mu.Lock()
	a.stop, a.meet = nil, nil
	s.mu.Unlock()
}

// varyingOutput matches output that differs between runs.
var varyingOutput = regexp.MustCompile(`\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d|[\d.]+ m?s\b|started by \w+`)

// amounts matches tokens and cost. They change with the descriptions of tools; checkBill verifies them.
var amounts = regexp.MustCompile(`\s*(\$[\d.]+|\b\d[\d,]*\d\b)`)

// concurrentLine matches the start of lines whose order is random.
var concurrentLine = regexp.MustCompile(`^(hh:mm:ss|  )  (judge\.\w+|decide  (tool \w+|\w+ returned))`)

// normalizeOutput returns a text without differing parts, and with concurrent lines in a fixed order.
func normalizeOutput(text string) string {
	text = varyingOutput.ReplaceAllStringFunc(text, func(s string) string {
		switch {
		case strings.Contains(s, ":"):
			return "hh:mm:ss"
		case strings.Contains(s, "-"):
			return "yyyy-mm-dd"
		case strings.HasSuffix(s, "s") && !strings.HasPrefix(s, "begun"):
			return "… ms"
		}
		return "started by NAME"
	})
	var parts []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "$") {
			line = amounts.ReplaceAllString(line, " N")
		}
		if concurrentLine.MatchString(line) || !strings.HasPrefix(line, "      ") || len(parts) == 0 {
			parts = append(parts, "")
		}
		parts[len(parts)-1] += line
	}
	for i := 0; i < len(parts); {
		n := 0
		for i+n < len(parts) && concurrentLine.MatchString(parts[i+n]) {
			n++
		}
		slices.SortStableFunc(parts[i:i+n], func(a, b string) int {
			return strings.Compare(concurrentLine.FindString(a), concurrentLine.FindString(b))
		})
		i += max(n, 1)
	}
	return strings.Join(parts, "")
}

// checkSpansMatchBill compares the spans of a run with its bill: those of the run, of its steps, and of its calls.
func checkSpansMatchBill(t *testing.T, dir string, spans []*tracepb.Span) {
	t.Helper()
	var status struct {
		Used billed `json:"used"`
	}
	if err := json.Unmarshal([]byte(espalierIn(t, dir, "status", testRunID, "--json")), &status); err != nil {
		t.Fatal(err)
	}
	sums, seen := map[string]billed{}, map[string]bool{}
	for _, span := range spans {
		if seen[string(span.SpanId)] { // a killed process may not have recorded the delivery
			continue
		}
		seen[string(span.SpanId)] = true
		kind, name, _ := strings.Cut(span.Name, " ")
		if strings.Contains(name, ".") {
			continue // nested in another step
		}
		attributes := reporttest.Attributes(span.Attributes)
		sum := sums[kind]
		for key, into := range map[string]*int{
			"agent_flow.tokens.input":  &sum.Input,
			"agent_flow.tokens.output": &sum.Output,
		} {
			n, _ := strconv.Atoi(attributes[key]) // spans of tools have no tokens
			*into += n
		}
		dollars, _ := strconv.ParseFloat(attributes["espalier.cost.usd"], 64)
		sum.Micro += int(math.Round(dollars * 1e6))
		sums[kind] = sum
	}
	want := billed{Input: status.Used.Input, Output: status.Used.Output, Micro: status.Used.Micro}
	for _, kind := range []string{"invoke_workflow", "step", "invoke_agent", "chat"} {
		if sums[kind] != want {
			t.Errorf("spans %q: usage %+v, bill %+v", kind, sums[kind], want)
		}
	}
}

// tasterSecondCall is the number of the taster's second call if all calls arrive in their usual order.
const tasterSecondCall = 3

// TestAuditShowsWhatKilledParallelAgentsDid checks the output for a run whose program was killed while two agents were
// active. One had its tool result and was receiving a reply, the other had just sent its request.
func TestAuditShowsWhatKilledParallelAgentsDid(t *testing.T) {
	c := startCollector(t)
	s := newBillingServer(t)
	b := s.orderShape("account")
	dir := b.createProject(t)
	s.account("account").meet = make(chan struct{})
	s.startAndKill(t, dir, "account", tasterSecondCall, halfSent)
	var got strings.Builder
	fmt.Fprintf(&got, "-- espalier status, before it is resumed --\n%s",
		normalizeOutput(espalierIn(t, dir, "status", testRunID)))
	b.runProcess(t, dir, b.simulatedUser)
	if lost := s.checkBill(t, dir, "account"); lost != 2 {
		t.Errorf("%d calls were lost", lost)
	}
	checkSpansMatchBill(t, dir, c.Spans())
	for _, args := range [][]string{{"status"}, {"transcript", "--pretty"}, {"audit"}} {
		args = slices.Insert(args, 1, testRunID)
		fmt.Fprintf(&got, "-- espalier %s --\n%s", strings.Join(args, " "),
			normalizeOutput(espalierIn(t, dir, args...)))
	}
	path := filepath.Join("..", "..", "testdata", "records", "interrupted.txt")
	if *update {
		writeFile(t, path, got.String())
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
