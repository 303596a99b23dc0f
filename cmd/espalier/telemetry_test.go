//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/espalier-run/espalier/internal/cli"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// startCollector makes every process of a test export to a collector without delay.
func startCollector(t *testing.T) *reporttest.Collector {
	t.Helper()
	c := reporttest.NewCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	return c
}

// spanLine formats a span as one line.
func spanLine(s *tracepb.Span) string {
	line := s.Name
	if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		line += " ERROR " + s.Status.Message
	}
	for _, e := range s.Events {
		line += " *" + strings.TrimPrefix(e.Name, "espalier.")
	}
	return line
}

// formatTrace formats a trace. Either of two parallel workers may finish first.
func formatTrace(spans []*tracepb.Span) string {
	at := func(name string) int {
		return slices.IndexFunc(spans, func(s *tracepb.Span) bool { return s.Name == name })
	}
	if north, south := at("step look.NORTH"), at("step look.SOUTH"); north > south && south >= 0 {
		spans[north], spans[south] = spans[south], spans[north]
	}
	return reporttest.Tree(spans, spanLine)
}

// telemetryShape is a project whose workflow covers everything in a trace: parallel agents that call tools, a child
// run, a step that succeeds after a retry, one that fails, and a gate.
func telemetryShape() *shape {
	return &shape{
		simulatedUser: simulatedUser{Run: []string{"telling.md", "--script", "telling.script.yaml"}},
		sideBySide:    true,
		files: map[string]string{
			"telling.md": `---
name: telling
kind: agent-flow/workflow
version: 1.2.0
description: Do a bit of everything.
budgets: {max_tokens: 100000}
tools: {allowlist: [map.find]}
---
# Purpose
Tell.
## Agents
` + "```" + `agent
id: scout
role: Scout
goal: Look PRIVATELY.
tools: [map.find]
` + "```\n```" + `agent
id: clerk
role: Clerk
goal: Write.
` + "```" + `
## Bundles
` + "```" + `bundle
name: pair
version: 1.0.0
workers:
  - {id: NORTH, agent: scout}
  - {id: SOUTH, agent: clerk}
merge: {strategy: union}
` + "```" + `
## Steps
` + "```" + `step
id: look
type: subagent_bundle
description: Look in two places.
bundle: pair
writes: [state.seen]
` + "```\n```" + `step
id: seek
type: skill
description: Find it on the map.
agent: scout
reads: [state.seen]
writes: [state.found]
` + "```\n```" + `step
id: shaky
type: transform
description: Fail once.
writes: [state.shaky]
retry: {max_attempts: 2, backoff_ms: [1]}
code:
  language: sh
  script: |
    case "$ESPALIER_KEY" in *#1) echo '{}';; *) echo 'hush, PRIVATE words' >&2; exit 1;; esac
` + "```\n```" + `step
id: hopeless
type: transform
description: Fail for good.
writes: [state.hopeless]
on_error: skip
code: {language: sh, script: exit 7}
` + "```\n```" + `step
id: sign_off
type: gate
description: May it go out?
gate_method: human_review
reads: [state.seen]
writes: [state.sign_off]
` + "```\n```" + `step
id: send
type: skill
description: Send it.
skill_ref: sending.md
reads: [state.seen]
writes: [output.sent]
` + "```\n",
			"sending.md": `---
name: sending
kind: agent-flow/workflow
version: 2.0.0
description: Send something.
---
` + "```" + `agent
id: clerk
role: Clerk
goal: Write.
` + "```\n```" + `step
id: write
type: skill
description: Write the letter, PRIVATE.
agent: clerk
writes: [output.letter]
` + "```\n",
			"sending.script.yaml": "replies:\n  - {step: write, reply: 'Dear PRIVATE'}\n",
			"telling.script.yaml": `replies:
  - {step: NORTH, reply: '{"type": "place", "items": ["PRIVATE"], "confidence": 1}'}
  - {step: SOUTH, reply: '{"type": "place", "items": [], "confidence": 1}'}
  - {step: seek, turn: 1, tools: [{name: map.find, input: {place: PRIVATE}}]}
  - {step: seek, turn: 2, reply: PRIVATE}
  - {step: write, reply: 'Dear PRIVATE'}
tools:
  map.find:
    - {output: {at: PRIVATE}}
`,
		},
	}
}

const telemetryTree = `invoke_workflow telling
  step look
    step look.NORTH
      invoke_agent scout
        chat scripted
    step look.SOUTH
      invoke_agent clerk
        chat scripted
  step seek
    invoke_agent scout
      chat scripted
      execute_tool map.find
      chat scripted
  step shaky *retry
  step hopeless ERROR COMMAND_FAILED
  step sign_off *gate_opened *gate_decided
  step send
    invoke_workflow sending
      step write
        invoke_agent clerk
          chat scripted
`

// A workflow stops at a gate and is resumed by another process. Both export one trace, whose id is also in the audit
// log.
func TestProcessesOfARunExportOneTrace(t *testing.T) {
	c := startCollector(t)
	t.Setenv("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20k3y")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	s := telemetryShape()
	dir := s.createProject(t)
	back := s.runProcess(t, dir, s.simulatedUser)
	if !strings.HasPrefix(back.Status, "finished ok") {
		t.Fatalf("%s\n%s", back.Status, s.stderr.String())
	}
	spans := c.Spans()
	if got := formatTrace(spans); got != telemetryTree {
		t.Errorf("got\n%s\nwant\n%s", got, telemetryTree)
	}
	for _, span := range spans {
		if got, want := fmt.Sprintf("%x", span.TraceId), strings.ReplaceAll(testRunID, "-", ""); got != want {
			t.Errorf("%s is of trace %s, not %s", span.Name, got, want)
		}
		attrs := reporttest.Attributes(span.Attributes)
		if span.Name == "invoke_workflow telling" {
			for key, want := range map[string]string{
				"agent_flow.workflow.name": "telling", "agent_flow.workflow.version": "1.2.0",
				"agent_flow.run.id": testRunID, "espalier.outcome": "ok",
				"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "telling",
				"agent_flow.reason_code": "COMPLETED",
			} {
				if attrs[key] != want {
					t.Errorf("%s: %s is %q, not %q", span.Name, key, attrs[key], want)
				}
			}
			if len(span.Links) != 1 ||
				fmt.Sprintf("%x-%x", span.Links[0].TraceId,
					span.Links[0].SpanId) != "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331" {
				t.Errorf("it is not linked with TRACEPARENT: %v", span.Links)
			}
		}
	}
	audit, err := os.ReadFile(filepath.Join(dir, ".espalier", "storage", "audit", testRunID+".audit.ndjson"))
	if err != nil || !strings.Contains(string(audit), `"trace_id":"`+testRunID+`"`) {
		t.Errorf("the audit log has another trace_id: %v", err)
	}
	for _, r := range c.Requests() {
		if got := r.Header.Get("Authorization"); got != "Bearer k3y" {
			t.Errorf("Authorization: %q", got)
		}
	}
	for _, resource := range c.Resources() {
		if resource["service.name"] != "espalier" || resource["deployment.environment.name"] != "test" ||
			resource["service.instance.id"] == "" {
			t.Errorf("resource: %v", resource)
		}
	}
	if strings.Contains(c.Text(), "PRIVATE") {
		t.Error("content is exported although it is not enabled")
	}
	if strings.Contains(s.stderr.String(), "Telemetry") {
		t.Errorf("nothing went wrong:\n%s", s.stderr.String())
	}
	if left := telemetryFiles(t, dir); len(left) > 0 {
		t.Errorf("of a run that is over and delivered, there is left: %q", left)
	}
	counts := map[string]int64{}
	for _, m := range c.Metrics() {
		for _, p := range m.GetSum().GetDataPoints() {
			counts[m.Name] += p.GetAsInt()
		}
		for _, p := range m.GetHistogram().GetDataPoints() {
			counts[m.Name] += int64(p.Count)
		}
	}
	for name, want := range map[string]int64{
		"espalier.runs": 1, "espalier.steps": 9, "gen_ai.client.operation.duration": 5, "gen_ai.client.token.usage": 10,
		"gen_ai.execute_tool.duration": 1, "gen_ai.invoke_agent.duration": 4, "gen_ai.invoke_workflow.duration": 2,
	} {
		if counts[name] != want {
			t.Errorf("%s: %d, want %d", name, counts[name], want)
		}
	}
}

// telemetryFiles returns the files that record what has been exported.
func telemetryFiles(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(filepath.Join(dir, ".espalier", "storage", "telemetry"),
		func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && !d.IsDir() && d.Name() != ".lock" {
				out = append(out, path)
			}
			return err
		})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTelemetryOfKilledRunsIsComplete kills the program at every second write to its journal, alternately before and
// after it. Whatever the next process repeats, the trace is complete: no span is missing, none has lost its parent, and
// a span that arrives twice, because the process died before it recorded the delivery, is identical.
func TestTelemetryOfKilledRunsIsComplete(t *testing.T) {
	c := startCollector(t)
	s := telemetryShape()
	calm := s.runProcess(t, s.createProject(t), s.simulatedUser)
	if got := formatTrace(c.Spans()); got != telemetryTree {
		t.Fatalf("undisturbed:\n%s", got)
	}
	want := spanCounts(c.Spans())
	for stop := 1; stop <= calm.Writes; stop += 2 {
		c := startCollector(t)
		dir := s.createProject(t)
		one := s.simulatedUser
		one.KillAt, one.After = stop, stop/2%2 == 0
		label := fmt.Sprintf("killed %s write %d", beforeOrAfter(one.After), stop)
		if s.runProcess(t, dir, one) == nil {
			if back := s.runProcess(t, dir, s.simulatedUser); !strings.HasPrefix(back.Status, "finished ok") {
				t.Fatalf("%s: %s", label, back.Status)
			}
		}
		unique := map[string]*tracepb.Span{}
		for _, span := range c.Spans() {
			if there := unique[string(span.SpanId)]; there != nil && !proto.Equal(there, span) {
				t.Errorf("%s: two different spans have one id: %v and %v", label, there, span)
			}
			unique[string(span.SpanId)] = span
		}
		spans := slices.Collect(maps.Values(unique))
		if tree := reporttest.Tree(spans, spanLine); strings.Contains(tree, "WITHOUT ITS PARENT") {
			t.Errorf("%s:\n%s", label, tree)
		}
		if got := spanCounts(spans); !maps.Equal(got, want) {
			t.Errorf("%s: there are %v, not %v", label, got, want)
		}
		if left := telemetryFiles(t, dir); len(left) > 0 {
			t.Errorf("%s: left are %q", label, left)
		}
		os.RemoveAll(dir)
	}
}

// spanCounts counts the spans of each name, except lost model calls that were repeated.
func spanCounts(spans []*tracepb.Span) map[string]int {
	out := map[string]int{}
	for _, s := range spans {
		if reporttest.Attributes(s.Attributes)["error.type"] != "lost" {
			out[s.Name]++
		}
	}
	return out
}

// TestUnreachableCollectorDoesNotChangeTheRun checks that a collector that is unreachable, or returns errors, changes
// nothing about a run but one line on stderr. The next process delivers what the collector missed.
func TestUnreachableCollectorDoesNotChangeTheRun(t *testing.T) {
	s := telemetryShape()
	dir := s.createProject(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:hidden@127.0.0.1:1/x")
	back := s.runProcess(t, dir, s.simulatedUser)
	if !strings.HasPrefix(back.Status, "finished ok") {
		t.Fatalf("%s\n%s", back.Status, s.stderr.String())
	}
	notes := strings.Count(s.stderr.String(), "Telemetry: ")
	if notes != 2 ||
		!strings.Contains(s.stderr.String(),
			"spans could not be delivered (http://127.0.0.1:1/x/v1/traces: connection refused)") {
		t.Errorf("%d notes of 2 processes:\n%s", notes, s.stderr.String())
	}
	if strings.Contains(s.stderr.String(), "hidden") {
		t.Error("the password of the collector is shown")
	}

	// The collector is reachable and returns errors.
	c := reporttest.NewCollector(t)
	c.Answer(func(_ *http.Request, h http.Header) int {
		h.Set("Retry-After", "1")
		return http.StatusServiceUnavailable
	})
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	cmd := exec.Command("espalier", "run", "sending.md", "--allow-shell", "--script", "sending.script.yaml")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+dir, "GORACE="+quickExit)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "503 Service Unavailable") {
		t.Errorf("%v\n%s", err, out)
	}

	// The collector works: another run delivers what the others have not.
	c = reporttest.NewCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	cmd = exec.Command("espalier", "run", "sending.md", "--allow-shell", "--script", "sending.script.yaml")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+dir, "GORACE="+quickExit)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "Telemetry") {
		t.Errorf("%v\n%s", err, out)
	}
	var first []*tracepb.Span
	roots := 0
	for _, span := range c.Spans() {
		if fmt.Sprintf("%x", span.TraceId) == strings.ReplaceAll(testRunID, "-", "") {
			first = append(first, span)
		}
		if len(span.ParentSpanId) == 0 {
			roots++
		}
	}
	if got := formatTrace(first); got != telemetryTree || roots != 3 {
		t.Errorf("%d runs; of the first there is\n%s", roots, got)
	}
	if left := telemetryFiles(t, dir); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}

// TestTelemetryLeftBehindIsDelivered checks that spans are delivered although no run starts or continues: by a command
// that tries to resume the finished run, and by a worker.
func TestTelemetryLeftBehindIsDelivered(t *testing.T) {
	s := telemetryShape()
	for _, args := range [][]string{{"resume", testRunID}, {"work"}} {
		dir := s.createProject(t)
		espalier := func(args ...string) *exec.Cmd {
			cmd := exec.Command("espalier", args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+dir, "GORACE="+quickExit)
			return cmd
		}
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
		if out, err := espalier("run", "sending.md", "--allow-shell", "--script", "sending.script.yaml", "--run-id",
			testRunID).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		c := startCollector(t)
		t.Setenv("OTEL_METRICS_EXPORTER", "none")
		arrived := make(chan struct{}, 10)
		c.Answer(func(*http.Request, http.Header) int { arrived <- struct{}{}; return http.StatusOK })
		cmd := espalier(args...)
		var screen strings.Builder
		cmd.Stdout, cmd.Stderr = &screen, &screen
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-arrived
		if args[0] == "work" {
			cmd.Process.Signal(os.Interrupt) // otherwise it would keep running
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); args[0] == "work" && !errors.As(err, &exit) || args[0] != "work" && err != nil {
			t.Errorf("%v: %v\n%s", args, err, screen.String())
		}
		if got := formatTrace(c.Spans()); !strings.HasPrefix(got, "invoke_workflow sending\n  step write\n") {
			t.Errorf("%v: %s\n%s", args, got, screen.String())
		}
	}
}

// TestNoTelemetryWithoutAnAddress checks that there is no request, file or output without an address, or if telemetry
// is disabled.
func TestNoTelemetryWithoutAnAddress(t *testing.T) {
	c := reporttest.NewCollector(t)
	for name, env := range map[string]map[string]string{
		"no address":   {"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_EXPORTER": "otlp"},
		"switched off": {"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": c.URL},
		"no exporters": {
			"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none",
			"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL,
		},
		"traces are sampled out": {
			"OTEL_TRACES_SAMPLER": "always_off", "OTEL_METRICS_EXPORTER": "none",
			"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range env {
				t.Setenv(key, value)
			}
			s := telemetryShape()
			dir := s.createProject(t)
			if back := s.runProcess(t, dir, s.simulatedUser); !strings.HasPrefix(back.Status, "finished ok") {
				t.Fatal(back.Status)
			}
			if len(c.Requests()) > 0 || len(telemetryFiles(t, dir)) > 0 ||
				strings.Contains(s.stderr.String(), "Telemetry") {
				t.Errorf("%d requests, %q\n%s", len(c.Requests()), telemetryFiles(t, dir), s.stderr.String())
			}
		})
	}
}

// TestInterruptEndsTelemetry checks that an interrupt ends the wait for a collector that does not respond after the run
// has finished, and that nothing is lost.
func TestInterruptEndsTelemetry(t *testing.T) {
	c := reporttest.NewCollector(t)
	asked := make(chan struct{}, 1)
	c.Answer(func(r *http.Request, _ http.Header) int {
		select {
		case asked <- struct{}{}:
		default:
		}
		io.Copy(io.Discard, r.Body) // the server detects a closed connection only after it has read the body
		<-r.Context().Done()
		return http.StatusServiceUnavailable
	})
	s := telemetryShape()
	dir := s.createProject(t)
	espalier := func(env string, args ...string) *exec.Cmd {
		cmd := exec.Command("espalier", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "NO_COLOR=1", "HOME="+dir, "GORACE="+quickExit, "OTEL_BSP_SCHEDULE_DELAY=60000",
			env)
		return cmd
	}
	cmd := espalier("OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "run", "sending.md", "--allow-shell", "--script",
		"sending.script.yaml", "--run-id", testRunID)
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its result is checked below
		close(ended)
	}()
	select {
	case <-asked:
	case <-ended:
		t.Fatalf("it ended before the collector was asked: %s", cmd.ProcessState)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-ended
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitInterrupted || !strings.Contains(out.String(), "PRIVATE") {
		t.Errorf("exit code %d; before that it printed %q", code, out.String())
	}
	if raw, err := espalier("OTEL_SDK_DISABLED=true", "audit", "verify", testRunID).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, raw)
	}
	whole := reporttest.NewCollector(t)
	if raw, err := espalier("OTEL_EXPORTER_OTLP_ENDPOINT="+whole.URL, "run", "sending.md", "--allow-shell", "--script",
		"sending.script.yaml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, raw)
	}
	if n := len(whole.Spans()); n != 8 {
		t.Errorf("two runs have %d spans", n)
	}
}

// TestTelemetryPictureIsTheTraceOfItsRun checks that the picture in the documentation is the trace of the run it
// describes.
func TestTelemetryPictureIsTheTraceOfItsRun(t *testing.T) {
	const page = "docs/telemetry.md"
	lines := readPage(t, page)
	var picture strings.Builder
	for _, f := range fences(t, page, lines) {
		if f.label != "text" {
			continue
		}
		for line := range strings.Lines(f.text(lines)) {
			name := strings.TrimLeft(line, "│├└─ ")
			depth := len([]rune(line)) - len([]rune(name))
			name, _, _ = strings.Cut(name, "  ")
			fmt.Fprintf(&picture, "%s%s\n", strings.Repeat("  ", depth/3), strings.TrimSpace(name))
		}
	}
	c := startCollector(t)
	s := crashShapes(t)["support-triage"]
	s.runProcess(t, s.createProject(t), s.simulatedUser)
	plain := func(s *tracepb.Span) string { return s.Name }
	if got := reporttest.Tree(c.Spans(), plain); got != picture.String() {
		t.Errorf("the page shows\n%s\nand the trace is\n%s", picture.String(), got)
	}
}
