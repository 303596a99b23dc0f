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
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"github.com/espalier-run/espalier/internal/temporaltest"
)

// TestScriptsOnTemporal runs scripts of the command line again with the Temporal
// engine: what people see does not depend on the engine.
func TestScriptsOnTemporal(t *testing.T) {
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

// TestKilledOnTemporal kills the program as TestKilledAnywhere does. Temporal
// notices the death of a worker by its missing heartbeats.
func TestKilledOnTemporal(t *testing.T) {
	server := temporaltest.Shared(t)
	t.Cleanup(temporaltest.StopShared)
	killAnywhere(t, [][2]int{{1, 0}, {2, 1}, {3, 2}, {5, 0}, {6, 2}, {9, 1}}, "ESPALIER_TEMPORAL="+server.Address)
}

// onTemporal makes the commands of a test use a Temporal server.
func onTemporal(t *testing.T) {
	t.Helper()
	server := temporaltest.Shared(t)
	t.Cleanup(temporaltest.StopShared)
	t.Setenv("ESPALIER_TEMPORAL", server.Address)
}

// Tools of MCP servers, with approvals and questions, work on Temporal as they do elsewhere.
func TestMCPToolsOnTemporal(t *testing.T) {
	onTemporal(t)
	t.Run("gate", TestMCPToolsPassTheGate)
	t.Run("questions", TestToolsOfMCPServersAskPeopleAndModels)
}

// A server starts and continues runs on Temporal: the API, the live events and the pages show them.
func TestServerOnTemporal(t *testing.T) {
	onTemporal(t)
	t.Run("commands", TestCommandsAreTheSameThroughAServer)
	p := newGated(t)
	s := startServer(p)
	run := s.call("POST", "/api/v1/runs", `{"workflow": "gated", "simulate": true, "input": {"question": "why"}}`, 201)["run_id"].(string)
	s.until(run, "waiting")
	s.call("POST", "/api/v1/runs/"+run+"/signal", `{"event": "papers"}`, 200)
	s.until(run, "waiting")
	gate := s.call("GET", "/api/v1/runs/"+run, "", 200)["gates"].([]any)[0].(map[string]any)
	s.call("POST", "/api/v1/runs/"+run+"/decide", fmt.Sprintf(
		`{"decision": "approve", "step": %q, "digest": %q}`, gate["step"], gate["digest"]), 200)
	s.until(run, "finished")
	if got := s.call("GET", "/api/v1/runs/"+run, "", 200); got["outcome"] != "ok" {
		t.Errorf("%v", got)
	}
	for _, page := range []string{"/runs", "/runs/" + run, "/runs/" + run + "/transcript", "/runs/" + run + "/audit"} {
		if text := s.page(page); !strings.Contains(text, "gated") {
			t.Errorf("%s: %s", page, text)
		}
	}
	if out, err := p.command("audit", "verify", run).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// page returns a page of the server.
func (s *serverProcess) page(path string) string {
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
func TestTLSOnTemporal(t *testing.T) {
	server := temporaltest.Shared(t)
	t.Cleanup(temporaltest.StopShared)
	k := newKilled(t, 2)
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
	put(t, file("temporal.token"), temporalKey+"\n")
	settings := "engine: temporal\nsecrets: {temporal: {file: temporal.token}}\ntemporal:\n  address: " +
		strings.TrimPrefix(proxy.URL, "https://") + "\n  api_key: secret://temporal\n  server_name: localhost\n"
	run := func(more string) (string, error) {
		put(t, file("espalier.yaml"), settings+more)
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
	if done := k.done(); len(done) != 2 {
		t.Errorf("%v", done)
	}
}

const temporalKey = "the-api-key-of-a-namespace"

// Temporal keeps the time of schedules, and workers fire them, each time once. Paused and removed triggers do not fire.
func TestSchedulesOnTemporal(t *testing.T) {
	server, c := dialTemporal(t)
	p := &awfProject{t: t, dir: t.TempDir()}
	const times = "triggers: { schedule: \"*/2 * * * * *\" }\n"
	for _, name := range []string{"tick", "other"} {
		put(t, filepath.Join(p.dir, name+".md"), "---\nname: "+name+"\nkind: agent-flow/workflow\nversion: 1.0.0\n"+
			"description: Say hello.\n"+times+"---\n```step\nid: hello\ntype: transform\ndescription: Say hello\n"+
			"writes: [output]\n```\n")
	}
	put(t, filepath.Join(p.dir, "espalier.yaml"),
		"engine: temporal\ntemporal:\n  address: "+server.Address+"\n  task_queue: scheduled\ntriggers:\n"+
			"  tick: {simulate: true, overlap: allow}\n  other: {simulate: true, overlap: allow}\n")
	p.exits(0, "trust", "--yes")
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
		for line := range strings.Lines(p.exits(0, "runs", "--limit", "0", "--json", "--workflow", name)) {
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
	p.exits(0, "triggers", "pause", "other")
	until("paused",
		func(d *client.ScheduleDescription, err error) bool { return err == nil && d.Schedule.State.Paused })
	rests("paused")
	p.exits(0, "triggers", "resume", "other")
	until("resumed",
		func(d *client.ScheduleDescription, err error) bool { return err == nil && !d.Schedule.State.Paused })
	more("other", 1)

	raw, err := os.ReadFile(filepath.Join(p.dir, "other.md"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(p.dir, "other.md"), strings.Replace(string(raw), times, "", 1))
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
func TestEncryptionOnTemporal(t *testing.T) {
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
		put(t, filepath.Join(p.dir, "espalier.yaml"), settings)
		put(t, filepath.Join(p.dir, "gated.md"), flow)
		put(t, filepath.Join(p.dir, "payloads.key"), strings.Repeat("0123456789abcdef", 4)+"\n")
		p.exits(0, "trust", "--yes")
		p.exits(4, "run", "gated", "--simulate", "--input", "question="+markers[0], "--run-id", killedRun)
		p.exits(0, "approve", killedRun)
		if out := p.exits(0, "output", killedRun); !strings.Contains(out, markers[2]) {
			t.Errorf("the output is %s", out)
		}
		var history []byte
		for events := c.GetWorkflowHistory(t.Context(), queue+"/"+killedRun, "", false, 0); events.HasNext(); {
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
