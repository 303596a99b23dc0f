//go:build temporal && linux

package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"github.com/espalier-run/espalier/internal/temporaltest"
)

// TestScriptsPrintTheSameOnTemporal runs scripts of the command line again with the Temporal
// engine: what people see does not depend on the engine.
func TestScriptsPrintTheSameOnTemporal(t *testing.T) {
	server := temporaltest.Shared(t)
	t.Cleanup(temporaltest.StopShared)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, name := range []string{
		"run", "work", "resume-from", "resume-key", "resume-scripts", "agent-flow-run", "secrets", "awf", "audit",
		"audit-verify", "labels", "workers", "triggers", "runs-export",
	} {
		files = append(files, filepath.Join(root, "testdata", "script", name+".txtar"))
	}
	files = append(files, filepath.Join(root, "testdata", "temporal", "concurrency.txtar"))
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("REPOSITORY", root)
			e.Setenv("GORACE", quickExit)
			e.Setenv("BARE_PATH", barePath(t))
			e.Setenv("ESPALIER_TEMPORAL", server.Address)
			return os.MkdirAll(filepath.Join(e.WorkDir, "home"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "isjson": isJSON, "isxml": isXML, "ispng": isPNG, "sql": runSQL,
		},
	})
}

// TestRunsKilledOnTemporalHaveEachEffectOnce kills the program as TestRunsKilledAnywhereHaveEachEffectOnce does.
// Temporal notices the death of a worker by its missing heartbeats.
func TestRunsKilledOnTemporalHaveEachEffectOnce(t *testing.T) {
	server := temporaltest.Shared(t)
	t.Cleanup(temporaltest.StopShared)
	testKillAtLines(t, [][2]int{{1, 0}, {2, 1}, {3, 2}, {5, 0}, {6, 2}, {9, 1}}, "ESPALIER_TEMPORAL="+server.Address)
}

// onTemporal makes the commands of a test use a Temporal server.
func onTemporal(t *testing.T) {
	t.Helper()
	server := temporaltest.Shared(t)
	t.Cleanup(temporaltest.StopShared)
	t.Setenv("ESPALIER_TEMPORAL", server.Address)
}

// Tools of MCP servers, with approvals and questions, work on Temporal as they do elsewhere.
func TestMCPToolsWorkOnTemporal(t *testing.T) {
	onTemporal(t)
	t.Run("gate", TestMCPToolsPassTheGate)
	t.Run("questions", TestToolsOfMCPServersAskPeopleAndModels)
}

// A server starts and continues runs on Temporal: the API, the live events and the pages show them.
func TestServerShowsRunsOnTemporal(t *testing.T) {
	onTemporal(t)
	t.Run("commands", TestCommandsAreTheSameThroughAServer)
	p := newGatedProject(t)
	s := startServer(p)
	run := s.call("POST", "/api/v1/runs", `{"workflow": "gated", "simulate": true, "input": {"question": "why"}}`, 201)["run_id"].(string)
	s.waitForState(run, "waiting")
	s.call("POST", "/api/v1/runs/"+run+"/signal", `{"event": "papers"}`, 200)
	s.waitForState(run, "waiting")
	gate := s.call("GET", "/api/v1/runs/"+run, "", 200)["gates"].([]any)[0].(map[string]any)
	s.call("POST", "/api/v1/runs/"+run+"/decide", fmt.Sprintf(
		`{"decision": "approve", "step": %q, "digest": %q}`, gate["step"], gate["digest"]), 200)
	s.waitForState(run, "finished")
	if got := s.call("GET", "/api/v1/runs/"+run, "", 200); got["outcome"] != "ok" {
		t.Errorf("%v", got)
	}
	for _, page := range []string{"/runs", "/runs/" + run, "/runs/" + run + "/transcript", "/runs/" + run + "/audit"} {
		if text := s.getPage(page); !strings.Contains(text, "gated") {
			t.Errorf("%s: %s", page, text)
		}
	}
	if out, err := p.command("audit", "verify", run).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// getPage returns a page of the server.
func (s *serverProcess) getPage(path string) string {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.Body.Close()
	raw, err := io.ReadAll(w.Body)
	if err != nil || w.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d %v %s", path, w.StatusCode, err, raw)
	}
	return string(raw)
}

// The connection to the server uses the certificates and the API key of the configuration. A proxy in front of a real
// server accepts nothing else.
func TestConnectionToTemporalUsesConfiguredCertificates(t *testing.T) {
	server := temporaltest.Shared(t)
	t.Cleanup(temporaltest.StopShared)
	k := newChainProject(t, 2)
	file := func(name string) string { return filepath.Join(k.dir, name) }
	issue(t, file("server.pem"), file("server.key"), 1)
	clients := issue(t, file("client.pem"), file("client.key"), 2)
	identity, err := tls.LoadX509KeyPair(file("server.pem"), file("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	var plain http.Protocols
	plain.SetUnencryptedHTTP2(true)
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.Address})
	forward.Transport, forward.FlushInterval = &http.Transport{Protocols: &plain}, -1
	proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[path.Base(r.URL.Path)]++
		mu.Unlock()
		if r.TLS.PeerCertificates[0].SerialNumber.Int64() != 2 ||
			r.Header.Get("Authorization") != "Bearer "+temporalKey || r.TLS.ServerName != "localhost" {
			t.Errorf("%s: %v %v %s", r.URL, r.Header, r.TLS.PeerCertificates, r.TLS.ServerName)
			w.WriteHeader(http.StatusForbidden)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	proxy.EnableHTTP2 = true
	proxy.TLS = &tls.Config{
		Certificates: []tls.Certificate{identity}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}
	proxy.Config.ErrorLog = nil
	proxy.StartTLS()
	defer proxy.Close()
	writeApproved(t, file("temporal.token"), temporalKey+"\n")
	settings := "engine: temporal\nsecrets: {temporal: {file: temporal.token}}\ntemporal:\n  address: " +
		strings.TrimPrefix(proxy.URL, "https://") + "\n  api_key: secret://temporal\n  server_name: localhost\n"
	run := func(more string) (string, error) {
		writeApproved(t, file("espalier.yaml"), settings+more)
		if out, err := k.command("trust", "--yes").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		out, err := k.command("run", "chain.md", "--allow-shell").CombinedOutput()
		return string(out), err
	}
	if out, err := run("  ca: server.pem\n  cert: client.pem\n  key: client.key\n"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	mu.Lock()
	if seen["StartWorkflowExecution"] == 0 || seen["RespondActivityTaskCompleted"] == 0 {
		t.Errorf("the proxy has seen %v", seen)
	}
	mu.Unlock()
	for name, more := range map[string]string{
		"the certificate of the server is not trusted": "  cert: client.pem\n  key: client.key\n",
		"there is no client certificate":               "  ca: server.pem\n",
	} {
		if out, err := run(more); err == nil || !strings.Contains(out, "cannot be reached") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	if done := k.recordedEffects(); len(done) != 2 {
		t.Errorf("%v", done)
	}
}

const temporalKey = "the-api-key-of-a-namespace"

// Temporal keeps the time of schedules, and workers fire them, each time once. Paused and removed triggers do not fire.
func TestSchedulesFireOnceOnTemporal(t *testing.T) {
	server, c := dialTemporal(t)
	p := &awfProject{t: t, dir: t.TempDir()}
	const times = "triggers: { schedule: \"*/2 * * * * *\" }\n"
	for _, name := range []string{"tick", "other"} {
		writeApproved(t, filepath.Join(p.dir, name+".md"),
			"---\nname: "+name+"\nkind: agent-flow/workflow\nversion: 1.0.0\n"+
				"description: Say hello.\n"+times+"---\n```step\nid: hello\ntype: transform\ndescription: Say hello\n"+
				"writes: [output]\n```\n")
	}
	writeApproved(t, filepath.Join(p.dir, "espalier.yaml"),
		"engine: temporal\ntemporal:\n  address: "+server.Address+"\n  task_queue: scheduled\ntriggers:\n"+
			"  tick: {simulate: true, overlap: allow}\n  other: {simulate: true, overlap: allow}\n")
	p.wantExit(0, "trust", "--yes")
	for range 2 {
		cmd := p.command("work")
		var log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Signal(os.Interrupt)
			cmd.Wait()
			if t.Failed() {
				t.Logf("%s", log.String())
			}
		})
	}
	// runs returns when the runs of a workflow have started.
	runs := func(name string) (started []time.Time) {
		t.Helper()
		for line := range strings.Lines(p.wantExit(0, "runs", "--limit", "0", "--json", "--workflow", name)) {
			var run struct{ Started time.Time }
			if err := json.Unmarshal([]byte(line), &run); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			started = append(started, run.Started)
		}
		return started
	}
	more := func(name string, n int) {
		t.Helper()
		for before := len(runs(name)); len(runs(name)) < before+n; {
		}
	}
	more("tick", 3)
	more("other", 1)
	schedule := func(id string) (*client.ScheduleDescription, error) {
		return c.ScheduleClient().GetHandle(t.Context(), "scheduled/schedule/"+id+".md#schedule").Describe(t.Context())
	}
	for _, name := range []string{"tick", "other"} {
		if found, err := schedule(name); err != nil || found.Info.NumActions == 0 {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}

	// A pause in Temporal stops the firings: workers have no timer of their own.
	rests := func(why string) {
		t.Helper()
		before := len(runs("other"))
		more("tick", 4)
		if after := len(runs("other")); after > before+1 { // one may have been under way
			t.Errorf("%s: %d runs have started", why, after-before)
		}
	}
	handle := c.ScheduleClient().GetHandle(t.Context(), "scheduled/schedule/other.md#schedule")
	if err := handle.Pause(t.Context(), client.SchedulePauseOptions{Note: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	rests("paused in Temporal")
	if err := handle.Unpause(t.Context(), client.ScheduleUnpauseOptions{}); err != nil {
		t.Fatal(err)
	}
	more("other", 1)

	until := func(why string, holds func(*client.ScheduleDescription, error) bool) {
		t.Helper()
		for range 300 {
			if holds(schedule("other")) {
				return
			}
			time.Sleep(100 * time.Millisecond) // the server does not announce changes
		}
		t.Fatalf("not %s", why)
	}
	p.wantExit(0, "triggers", "pause", "other")
	until("paused",
		func(d *client.ScheduleDescription, err error) bool { return err == nil && d.Schedule.State.Paused })
	rests("paused")
	p.wantExit(0, "triggers", "resume", "other")
	until("resumed",
		func(d *client.ScheduleDescription, err error) bool { return err == nil && !d.Schedule.State.Paused })
	more("other", 1)

	raw, err := os.ReadFile(filepath.Join(p.dir, "other.md"))
	if err != nil {
		t.Fatal(err)
	}
	writeApproved(t, filepath.Join(p.dir, "other.md"), strings.Replace(string(raw), times, "", 1))
	until("deleted", func(_ *client.ScheduleDescription, err error) bool {
		var missing *serviceerror.NotFound
		return errors.As(err, &missing)
	})
	rests("removed")

	// Each scheduled time has one run, however many workers there are.
	ticks := runs("tick")
	slices.SortFunc(ticks, time.Time.Compare)
	if most := int(ticks[len(ticks)-1].Sub(ticks[0])/(2*time.Second)) + 2; len(ticks) > most {
		t.Errorf("%d runs for at most %d times: %v", len(ticks), most, ticks)
	}
}

// The secrets of the configuration encrypt what the server gets of a run. Without them, its history has the input, the
// prompt and the output. With them, it has none of these, and another process continues the run.
func TestEncryptionHidesRunsFromTemporal(t *testing.T) {
	server, c := dialTemporal(t)
	markers := []string{"marker-of-the-input", "marker-of-the-prompt", "marker-of-the-output"}
	flow := strings.NewReplacer("goal: Answer", "goal: marker-of-the-prompt",
		"description: Look at", "description: Judge",
		"answer: { type: string }", "answer: { type: string, enum: [marker-of-the-output] }").Replace(gatedFlow)
	flow, _, _ = strings.Cut(flow, "~~~runtime")
	for _, encrypted := range []bool{false, true} {
		p := &awfProject{t: t, dir: t.TempDir()}
		queue := fmt.Sprint("encrypted-", encrypted)
		settings := "engine: temporal\ntemporal:\n  address: " + server.Address + "\n  task_queue: " + queue + "\n"
		if encrypted {
			settings += "  encryption: [secret://payloads]\nsecrets: {payloads: {file: payloads.key}}\n"
		}
		writeApproved(t, filepath.Join(p.dir, "espalier.yaml"), settings)
		writeApproved(t, filepath.Join(p.dir, "gated.md"), flow)
		writeApproved(t, filepath.Join(p.dir, "payloads.key"), strings.Repeat("0123456789abcdef", 4)+"\n")
		p.wantExit(0, "trust", "--yes")
		p.wantExit(4, "run", "gated", "--simulate", "--input", "question="+markers[0], "--run-id", chainRunID)
		p.wantExit(0, "approve", chainRunID)
		if out := p.wantExit(0, "output", chainRunID); !strings.Contains(out, markers[2]) {
			t.Errorf("the output is %s", out)
		}
		var history []byte
		for events := c.GetWorkflowHistory(t.Context(), queue+"/"+chainRunID, "", false, 0); events.HasNext(); {
			event, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			raw, err := proto.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			history = append(history, raw...)
		}
		for _, marker := range markers {
			if bytes.Contains(history, []byte(marker)) == encrypted {
				t.Errorf("encryption: %v, but the history has %s: %v", encrypted, marker, encrypted)
			}
		}
	}
}

// dialTemporal returns the shared server, and a client of its own for it.
func dialTemporal(t *testing.T) (*temporaltest.Server, client.Client) {
	t.Helper()
	server := temporaltest.Shared(t)
	t.Cleanup(temporaltest.StopShared)
	c, err := client.Dial(client.Options{HostPort: server.Address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return server, c
}

// slowFlow leaves traces. Its first step runs until a file says that it may end.
const slowFlow = "---\nname: slow\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Leave traces.\n---\n" +
	"```step\nid: one\ntype: transform\ndescription: Wait\nwrites: [state.one]\ncode:\n  language: sh\n  script: |\n" +
	"    echo one >> effects\n    while [ ! -e end ]; do sleep 0.1; done\n    echo '{\"n\": 1}'\n```\n" +
	"```step\nid: two\ntype: transform\ndescription: Go on\nwrites: [output]\ncode:\n  language: sh\n  script: |\n" +
	"    echo two >> effects\n    echo '{\"n\": 2}'\n```\n"

// Workflows that an operator deletes, terminates or resets in Temporal while a step runs repeat nothing: a person says
// what came of the step, or cancels the run. The id of a run that was removed can be used again.
func TestLostWorkflowsOnTemporalRepeatNothing(t *testing.T) {
	server, c := dialTemporal(t)
	p := &awfProject{t: t, dir: t.TempDir()}
	writeApproved(t, filepath.Join(p.dir, "slow.md"), strings.NewReplacer(
		">> effects", ">> '"+filepath.Join(p.dir, "effects")+"'", "-e end", "-e '"+filepath.Join(p.dir, "end")+"'",
	).Replace(slowFlow))
	writeApproved(t, filepath.Join(p.dir, "espalier.yaml"),
		"engine: temporal\ntemporal:\n  address: "+server.Address+"\n  task_queue: lost\nallow: {shell: true}\n")
	p.wantExit(0, "trust", "--yes")
	effects := func() string {
		raw, err := os.ReadFile(filepath.Join(p.dir, "effects"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(raw)), " ")
	}
	until := func(why string, holds func() bool) {
		t.Helper()
		for range 600 {
			if holds() {
				return
			}
			time.Sleep(100 * time.Millisecond) // a worker in another process is at work
		}
		t.Fatalf("not %s: effects %q\n%s", why, effects(), p.wantExit(0, "status", chainRunID))
	}
	work := func() *exec.Cmd {
		t.Helper()
		cmd := p.command("work")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		return cmd
	}
	status := func() (s runStatus) {
		t.Helper()
		if err := json.Unmarshal([]byte(p.wantExit(0, "status", chainRunID, "--json")), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	begin := func() {
		t.Helper()
		writeApproved(t, filepath.Join(p.dir, "effects"), "")
		p.wantExit(0, "run", "slow", "--detach", "--run-id", chainRunID)
		until("started", func() bool { return effects() == "one" })
	}
	end := func(args ...string) {
		t.Helper()
		until("unknown", func() bool { return status().Status == "unknown" })
		if got := effects(); got != "one" {
			t.Errorf("effects before the decision: %s", got)
		}
		p.wantExit(0, args...)
		until("finished", func() bool { return status().Status == "finished" })
		p.wantExit(0, "audit", "verify", chainRunID)
		p.wantExit(0, "runs", "rm", chainRunID)
	}

	first := work()
	begin()
	first.Process.Kill()
	first.Wait()
	workflow := &commonpb.WorkflowExecution{WorkflowId: "lost/" + chainRunID}
	if _, err := c.WorkflowService().DeleteWorkflowExecution(t.Context(),
		&workflowservice.DeleteWorkflowExecutionRequest{
			Namespace: client.DefaultNamespace, WorkflowExecution: workflow,
		}); err != nil {
		t.Fatal(err)
	}
	until("deleted", func() bool {
		_, err := c.DescribeWorkflowExecution(t.Context(), workflow.WorkflowId, "")
		return err != nil
	})
	work()
	end("resume", chainRunID, "--decide", `one=result={"n": 1}`)
	if got := effects(); got != "one two" {
		t.Errorf("effects after a deletion: %s", got)
	}

	begin()
	if err := c.TerminateWorkflow(t.Context(), workflow.WorkflowId, "", "test"); err != nil {
		t.Fatal(err)
	}
	end("cancel", chainRunID)
	if got := effects(); got != "one" {
		t.Errorf("effects after a termination: %s", got)
	}

	begin()
	if _, err := c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowExecution: workflow,
		Reason: "test", WorkflowTaskFinishEventId: 4, RequestId: "reset",
	}); err != nil {
		t.Fatal(err)
	}
	end("resume", chainRunID, "--decide", `one=result={"n": 1}`)
	if got := effects(); got != "one two" {
		t.Errorf("effects after a reset: %s", got)
	}
}

// While the Temporal server is down, requests that need it fail soon and say so, and the process counts as alive. The
// log says it once. When the server is back, everything works again.
func TestServerSurvivesAnOutageOfTemporal(t *testing.T) {
	server, err := temporaltest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	t.Setenv("ESPALIER_TEMPORAL", server.Address)
	p := newGatedProject(t)
	var log bytes.Buffer
	s := startServerTo(p, &log)
	const request = `{"workflow": "gated", "simulate": true, "input": {"question": "why"}}`
	run := s.call("POST", "/api/v1/runs", request, 201)["run_id"].(string)
	s.waitForState(run, "waiting")
	if status, body := s.requestText("GET", "/readyz", ""); status != 200 {
		t.Errorf("/readyz: %d %s", status, body)
	}

	server.Kill()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if status, body := s.requestText("GET", "/readyz", ""); status != 200 {
			checkEngineOutage(t, "/readyz", status, body)
			break
		}
		if time.Now().After(end) {
			t.Fatal("/readyz succeeds without the Temporal server")
		}
	}
	if status, body := s.requestText("GET", "/healthz", ""); status != 200 {
		t.Errorf("/healthz: %d %s", status, body)
	}
	status, body := s.requestText("POST", "/api/v1/runs", request)
	checkEngineOutage(t, "start", status, body)
	status, body = s.requestText("POST", "/api/v1/runs/"+run+"/cancel", "{}")
	checkEngineOutage(t, "cancel", status, body)
	if status, body := s.requestText("GET", "/api/v1/runs/"+run, ""); status != 200 {
		t.Errorf("a run cannot be read: %d %s", status, body)
	}
	if n := len(s.call("GET", "/api/v1/runs", "", 200)["runs"].([]any)); n != 1 {
		t.Errorf("there are %d runs", n)
	}

	// Commands do not suggest to resume a run that does not exist.
	out := p.wantExit(6, "run", "gated", "--simulate", "--input", "question=why")
	if !strings.Contains(out, "the Temporal server cannot be reached: "+server.Address) ||
		!strings.Contains(out, "Nothing was started. Check that the Temporal server is running") ||
		strings.Contains(out, "resume") || strings.Contains(out, "database") {
		t.Errorf("run: %s", out)
	}
	out = p.wantExit(6, "cancel", run) // through the server
	if !strings.Contains(out, "the Temporal server cannot be reached") || strings.Contains(out, "database") {
		t.Errorf("cancel: %s", out)
	}

	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	s.waitReady()
	s.call("POST", "/api/v1/runs/"+run+"/cancel", "{}", 200)
	s.waitForState(run, "finished")
	s.cmd.Process.Kill()
	s.cmd.Wait()
	if n := strings.Count(log.String(), "runs wait for it"); n != 1 {
		t.Errorf("the log names the outage %d times: %s", n, &log)
	}
}

// checkEngineOutage checks the answer to a request while the Temporal server is down. It does not name its host.
func checkEngineOutage(t *testing.T, what string, status int, body string) {
	t.Helper()
	var problem struct{ Code, Detail string }
	if err := json.Unmarshal([]byte(body), &problem); err != nil || status != 503 ||
		problem.Code != "engine-unavailable" || problem.Detail != "the Temporal server cannot be reached" {
		t.Errorf("%s: %d %s %v", what, status, body, err)
	}
	if strings.Contains(body, "127.0.0.1") {
		t.Errorf("%s: the answer names the server: %s", what, body)
	}
}

// A run of the embedded engine cannot be continued on Temporal. The message says what to do instead.
func TestRunsOfTheOtherEngineAreRefusedOnTemporal(t *testing.T) {
	p := newGatedProject(t)
	p.wantExit(4, "run", "gated", "--simulate", "--input", "question=why", "--run-id", chainRunID)
	onTemporal(t)
	out := p.wantExit(6, "resume", chainRunID)
	if !strings.Contains(out, "was started by the embedded engine") || !strings.Contains(out, "ESPALIER_TEMPORAL") ||
		strings.Contains(out, "continues") {
		t.Errorf("%s", out)
	}
}
