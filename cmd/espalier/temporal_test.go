//go:build temporal && linux

package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
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
		"audit-verify", "labels", "workers", "triggers", "store",
	} {
		files = append(files, filepath.Join(root, "testdata", "script", name+".txtar"))
	}
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
		if r.TLS.PeerCertificates[0].SerialNumber.Int64() != 2 || r.Header.Get("Authorization") != "Bearer "+temporalKey ||
			r.TLS.ServerName != "localhost" {
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

// The secrets of the configuration encrypt what the server gets of a run. Without them, its history has the input, the
// prompt and the output. With them, it has none of these, and another process continues the run.
func TestEncryptionOnTemporal(t *testing.T) {
	server := temporaltest.Shared(t)
	t.Cleanup(temporaltest.StopShared)
	c, err := client.Dial(client.Options{HostPort: server.Address})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	markers := []string{"marker-of-the-input", "marker-of-the-prompt", "marker-of-the-output"}
	flow := strings.NewReplacer("goal: Answer", "goal: marker-of-the-prompt", "description: Look at", "description: Judge",
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
