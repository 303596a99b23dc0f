package server

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/api"
	"github.com/espalier-run/espalier/internal/app"
	"github.com/espalier-run/espalier/internal/identity"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/npmtest"
)

// family is a metric as npm parse-prometheus-text-format reads it. It merges histograms with different labels, so they
// are read as text.
type family struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Metrics []struct {
		Labels map[string]string `json:"labels"`
		Value  string            `json:"value"`
	} `json:"metrics"`
}

// scrape returns /metrics as text, and as a parser reads it that is not ours.
func (p *project) scrape() (string, map[string]family) {
	p.t.Helper()
	r, err := http.NewRequest(http.MethodGet, p.url+"/metrics", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.token)
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	parse := exec.Command("node", filepath.Join("testdata", "metrics.cjs"),
		npmtest.Install(p.t, "parse-prometheus-text-format@1.1.1"))
	parse.Stdin, parse.Stderr = strings.NewReader(string(text)), p.t.Output()
	raw, err := parse.Output()
	var list []family
	if err != nil || json.Unmarshal(raw, &list) != nil {
		p.t.Fatalf("%v: %s\n%s", err, raw, text)
	}
	out := map[string]family{}
	for _, one := range list {
		out[one.Name] = one
	}
	return string(text), out
}

// value returns the value of a metric whose labels have the given value.
func (f family) value(label, is string) float64 {
	for _, m := range f.Metrics {
		if label == "" || m.Labels[label] == is {
			v, err := strconv.ParseFloat(m.Value, 64)
			if err == nil {
				return v
			}
		}
	}
	return -1
}

const counted = "---\nname: counted\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: Ask a model.\n" +
	"budgets: {max_cost_usd: 5}\n---\n" +
	"```agent\nid: writer\nrole: Writes.\ngoal: Write.\nmodel: claude-sonnet-4-5\n```\n" +
	"```step\nid: ask\ntype: skill\ndescription: Ask\nagent: writer\nwrites: [state.a]\n```\n" +
	"```step\nid: move\ntype: transform\ndescription: Move\nreads: [state.a]\nwrites: [output.a]\n```\n"

const limited = "concurrency:\n  'a \"b\"': {runs: 1}\n"

// The metrics have the runs by state, the duration of steps, the queue of concurrency limits, tokens and dollars.
func TestMetricsCountStepsTokensAndDollars(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"counted.md": counted, "espalier.yaml": limited} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := serve(t, dir)
	_, before := p.scrape()
	if got := before["espalier_tokens_total"].value("direction", "input"); got != 0 {
		t.Errorf("%g tokens before the first run", got)
	}
	var run struct {
		ID string `json:"run_id"`
	}
	p.call("POST", "/api/v1/runs", map[string]any{"workflow": "counted", "simulate": true, "input": map[string]any{}},
		&run, http.StatusCreated)
	finished := regexp.MustCompile(`espalier_step_duration_seconds_count\{kind="(\w+)"\} 1\n`)
	var found map[string]family
	for end := time.Now().Add(30 * time.Second); ; {
		var text string
		text, found = p.scrape()
		if len(finished.FindAllString(text, -1)) == 2 {
			for _, bucket := range []string{`kind="agent",le="3600"} 1`, `kind="transform",le="+Inf"} 1`} {
				if !strings.Contains(text, "espalier_step_duration_seconds_bucket{"+bucket+"\n") {
					t.Errorf("no %s in %s", bucket, text)
				}
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%s", text)
		}
	}
	if got := found["espalier_step_duration_seconds"].Type; got != "HISTOGRAM" {
		t.Errorf("the duration is a %s", got)
	}
	var status struct {
		Used struct {
			InputTokens  float64 `json:"input_tokens"`
			OutputTokens float64 `json:"output_tokens"`
			MicroDollars float64 `json:"micro_dollars"`
			ModelCalls   float64 `json:"model_calls"`
		} `json:"used"`
	}
	p.call("GET", "/api/v1/runs/"+run.ID, nil, &status, http.StatusOK)
	tokens, u := found["espalier_tokens_total"], status.Used
	if u.InputTokens == 0 || tokens.value("direction", "input") != u.InputTokens ||
		tokens.value("direction", "output") != u.OutputTokens || tokens.Type != "COUNTER" {
		t.Errorf("%+v, used %+v", tokens, u)
	}
	if got := found["espalier_cost_dollars_total"].value("", ""); u.MicroDollars == 0 || got != u.MicroDollars/1e6 {
		t.Errorf("%g dollars, used %+v", got, u)
	}
	if got := found["espalier_model_calls_total"].value("", ""); got != u.ModelCalls {
		t.Errorf("%g model calls, used %+v", got, u)
	}
	if got := found["espalier_queue_length"].value("limit", `a "b"`); got != 0 {
		t.Errorf("queue %g: %+v", got, found["espalier_queue_length"])
	}
	if got := found["espalier_event_clients"].value("", ""); got != 0 {
		t.Errorf("%g clients", got)
	}
}

// promtool, which belongs to Prometheus, has no complaint about the metrics.
func TestPrometheusAcceptsTheMetrics(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"counted.md": counted, "espalier.yaml": limited} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := serve(t, dir)
	p.call("POST", "/api/v1/runs", map[string]any{"workflow": "counted", "simulate": true, "input": map[string]any{}},
		nil, http.StatusCreated)
	text := ""
	for end := time.Now().Add(30 * time.Second); !strings.Contains(text, "duration_seconds_count"); {
		if text, _ = p.scrape(); time.Now().After(end) {
			t.Fatal(text)
		}
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s\n%s", err, out, text)
	}
}

// logged receives the lines of a log.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// The counters miss nothing of a time in which the store cannot be reached.
func TestCountersContinueAfterAnOutage(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "counted.md"), []byte(counted), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var fails atomic.Bool
	p := serveApp(t, l, func(*identity.Authenticator) {}, app.Options{
		Dir:     dir,
		Journal: func(s journal.Store) journal.Store { return failingStore{s, &fails, journal.ErrUnavailable} },
	})
	defer p.stop()
	lines := make(logged, 100)
	s := &Server{o: Options{App: p.server.o.App, Log: slog.New(slog.NewTextHandler(lines, nil))}}
	fails.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	var counting sync.WaitGroup
	counting.Go(func() { s.count(ctx, 0) })
	defer counting.Wait()
	defer cancel()
	if line := <-lines; !strings.Contains(line, "the counters of /metrics wait for the store") {
		t.Fatal(line)
	}
	var run api.Status
	p.call("POST", "/api/v1/runs", map[string]any{"workflow": "counted", "simulate": true, "input": map[string]any{}},
		&run, http.StatusCreated)
	fails.Store(false)
	used := p.until(run.ID, journal.StateFinished).Used.ModelCalls
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		s.stats.counters.mu.Lock()
		got := s.stats.counters.used.ModelCalls
		s.stats.counters.mu.Unlock()
		if got == used && used > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d model calls are counted", got, used)
		}
	}
}
