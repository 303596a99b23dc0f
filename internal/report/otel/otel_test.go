package otel_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/tools/txtar"

	"github.com/espalier-run/espalier/internal/filelock"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/otel"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

var update = flag.Bool("update", false, "write the expected traces anew")

// variables are an environment.
type variables map[string]string

func (v variables) getenv(name string) string { return v[name] }

// at adds the address of a collector to an environment.
func (v variables) at(c *reporttest.Collector) variables {
	out := maps.Clone(v)
	if out == nil {
		out = variables{}
	}
	out["OTEL_EXPORTER_OTLP_ENDPOINT"] = c.URL
	return out
}

// life is a process that exports a number of appends of a recording.
type life struct {
	*otel.Exporter
	shelf *reporttest.RecordingReader
}

func newLife(t *testing.T, dir string, p *ir.Program, env variables, change func(*otel.Options)) *life {
	t.Helper()
	l := &life{shelf: &reporttest.RecordingReader{Pinned: p}}
	o := otel.Options{
		Settings: otel.FromEnvironment(env.getenv), Dir: dir, Source: l.shelf, Program: l.shelf.Program,
		Process: "process", Gone: func(journal.Owner) bool { return true }, Version: func() string { return "1.2.3" },
		Lock: func() (otel.Lock, error) { return filelock.Open(filepath.Join(dir, ".lock")) },
		Now:  func() time.Time { return time.UnixMilli(1_772_000_500_000) },
	}
	if change != nil {
		change(&o)
	}
	l.Exporter = otel.New(o)
	return l
}

// sees reports appends to the process as its own.
func (l *life) sees(appends []journal.Appended) {
	l.shelf.Appends = appends
	for _, a := range appends {
		l.Appended(a.Run, a.Events[len(a.Events)-1].Seq)
	}
}

// export exports a recording by one process, the first in its storage folder.
func export(t *testing.T, r *reporttest.Recording, env variables, change func(*otel.Options)) *reporttest.Collector {
	t.Helper()
	c := reporttest.NewCollector(t)
	l := newLife(t, filepath.Join(t.TempDir(), "telemetry"), r.Program, env.at(c), change)
	l.sees(r.Appends)
	if s := l.Close(time.Minute); s.Waiting+s.Refused > 0 || s.Problem != "" || s.Unreadable != nil || s.Measured {
		t.Errorf("%+v", s)
	}
	return c
}

// formatSpan formats a span with all of its fields.
func formatSpan(s *tracepb.Span) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s [%s, %d ms]", s.Name, strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_"),
		(s.EndTimeUnixNano-s.StartTimeUnixNano)/1e6)
	if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		fmt.Fprintf(&b, " ERROR %s", s.Status.Message)
	}
	b.WriteByte('\n')
	attrs := reporttest.Attributes(s.Attributes)
	for _, key := range slices.Sorted(maps.Keys(attrs)) {
		fmt.Fprintf(&b, "    %s=%s\n", key, attrs[key])
	}
	for _, e := range s.Events {
		of := reporttest.Attributes(e.Attributes)
		fmt.Fprintf(&b, "    * %s after %d ms", e.Name, (e.TimeUnixNano-s.StartTimeUnixNano)/1e6)
		for _, key := range slices.Sorted(maps.Keys(of)) {
			fmt.Fprintf(&b, " %s=%s", key, of[key])
		}
		b.WriteByte('\n')
	}
	for _, l := range s.Links {
		fmt.Fprintf(&b, "    -> %x %x\n", l.TraceId, l.SpanId)
	}
	return b.String()
}

// metrics formats metrics, a line for each series.
func metrics(all []*metricspb.Metric) string {
	var lines []string
	for _, m := range all {
		for _, p := range m.GetSum().GetDataPoints() {
			value := fmt.Sprint(p.GetAsInt())
			if _, ok := p.Value.(*metricspb.NumberDataPoint_AsDouble); ok {
				value = fmt.Sprint(p.GetAsDouble())
			}
			lines = append(lines,
				fmt.Sprintf("%s %v = %s %s\n", m.Name, reporttest.Attributes(p.Attributes), value, m.Unit))
		}
		for _, p := range m.GetHistogram().GetDataPoints() {
			lines = append(lines,
				fmt.Sprintf("%s %v = %d times, together %v %s\n", m.Name, reporttest.Attributes(p.Attributes), p.Count,
					p.GetSum(), m.Unit))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// The traces of all recorded runs: parallel agents, child runs, retries, gates, failures, tools, and lost tasks.
func TestTracesMatchGoldenFiles(t *testing.T) {
	for _, r := range reporttest.All(t) {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			c := export(t, r, nil, nil)
			got := txtar.Format(&txtar.Archive{Files: []txtar.File{
				{Name: "trace", Data: []byte(reporttest.Tree(c.Spans(), formatSpan))},
				{Name: "metrics", Data: []byte(metrics(c.Metrics()))},
			}})
			golden(t, filepath.Join("testdata", r.Name+".txtar"), got)
			for _, s := range c.Spans() {
				if got := fmt.Sprintf("%x", s.TraceId); got != strings.ReplaceAll(string(reporttest.Run), "-", "") {
					t.Errorf("%s is of trace %s: the trace is the run's id, and so the audit log's trace_id", s.Name,
						got)
				}
				if s.EndTimeUnixNano < s.StartTimeUnixNano {
					t.Errorf("%s ends before it begins", s.Name)
				}
			}
		})
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	reporttest.Golden(t, path, string(got), *update)
}

// Several processes export a run, each but the last of which is cut off after a number of spans. Together they deliver
// every span and every measurement once.
func TestProcessesDeliverEverythingOnce(t *testing.T) {
	for _, name := range []string{"agent-with-tools", "bundle", "child", "doubt"} {
		r := reporttest.Recorded(t, name)
		whole := export(t, r, variables{"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta"}, nil)
		want := reporttest.Tree(whole.Spans(), formatSpan)
		for died := range len(r.Appends) {
			for _, arrive := range []int{0, 1, 2, 1000} {
				t.Run(fmt.Sprintf("%s/%d appends, %d arrive", name, died, arrive), func(t *testing.T) {
					t.Parallel()
					testRestartAfter(t, r, died, arrive, want, metrics(whole.Metrics()))
				})
			}
		}
	}
}

func testRestartAfter(t *testing.T, r *reporttest.Recording, died, arrive int, want, wantMetrics string) {
	c := reporttest.NewCollector(t)
	limit := &gate{most: arrive}
	c.Answer(limit.answer)
	env := variables{
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1", "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
		"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
	}.at(c)
	dir := t.TempDir()
	first := newLife(t, dir, r.Program, env, nil)
	first.sees(r.Appends[:died])
	first.Close(time.Minute)
	limit.open()
	second := newLife(t, dir, r.Program, env, nil)
	second.shelf.Appends = r.Appends
	if last := r.Appends[len(r.Appends)-1]; died < len(r.Appends) {
		second.Appended(last.Run, last.Events[len(last.Events)-1].Seq)
	}
	if s := second.Close(time.Minute); s.Waiting+s.Refused > 0 {
		t.Errorf("%+v", s)
	}
	seen := map[string]int{}
	for _, s := range c.Spans() {
		seen[string(s.SpanId)]++
		if seen[string(s.SpanId)] > 1 {
			t.Errorf("%s was delivered twice", s.Name)
		}
	}
	if diff := cmp.Diff(want, reporttest.Tree(c.Spans(), formatSpan)); diff != "" {
		t.Errorf("(-undisturbed +disturbed)\n%s", diff)
	}
	if diff := cmp.Diff(wantMetrics, added(c.Metrics())); diff != "" {
		t.Errorf("(-undisturbed +disturbed)\n%s", diff)
	}
	if left := kept(t, dir); len(left) > 0 && finished(r) {
		t.Errorf("of a run that is over and delivered, %q is left", left)
	}
}

func finished(r *reporttest.Recording) bool {
	last := r.Appends[len(r.Appends)-1].Events
	_, ok := last[len(last)-1].Fact.(journal.RunFinished)
	return ok
}

// kept returns the files of an Exporter's folder, without its lock.
func kept(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
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

// added sums metrics with delta temporality.
func added(all []*metricspb.Metric) string {
	sums := map[string]*metricspb.Metric{}
	var order []string
	for _, m := range all {
		for _, p := range m.GetSum().GetDataPoints() {
			one := &metricspb.Metric{
				Name: m.Name, Unit: m.Unit,
				Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{DataPoints: []*metricspb.NumberDataPoint{p}}},
			}
			key := m.Name + fmt.Sprint(reporttest.Attributes(p.Attributes))
			if there := sums[key]; there != nil {
				to := there.GetSum().DataPoints[0]
				if v, ok := to.Value.(*metricspb.NumberDataPoint_AsDouble); ok {
					v.AsDouble += p.GetAsDouble()
				} else {
					to.Value = &metricspb.NumberDataPoint_AsInt{AsInt: to.GetAsInt() + p.GetAsInt()}
				}
				continue
			}
			sums[key], order = one, append(order, key)
		}
		for _, p := range m.GetHistogram().GetDataPoints() {
			histogram := &metricspb.Histogram{DataPoints: []*metricspb.HistogramDataPoint{p}}
			one := &metricspb.Metric{
				Name: m.Name, Unit: m.Unit, Data: &metricspb.Metric_Histogram{Histogram: histogram},
			}
			key := m.Name + fmt.Sprint(reporttest.Attributes(p.Attributes))
			if there := sums[key]; there != nil {
				to := there.GetHistogram().DataPoints[0]
				to.Count += p.Count
				sum := to.GetSum() + p.GetSum()
				to.Sum = &sum
				continue
			}
			sums[key], order = one, append(order, key)
		}
	}
	var list []*metricspb.Metric
	for _, key := range order {
		list = append(list, sums[key])
	}
	return metrics(list)
}

// The spans of the recorded runs have all attributes of the specification, with its types.
//
// Spec: Agent Flow §10.1 attributes
func TestSpansHaveTheAttributesOfAgentFlow(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range reporttest.All(t) {
		for _, s := range export(t, r, nil, nil).Spans() {
			for _, a := range s.Attributes {
				_, number := a.Value.GetValue().(*commonpb.AnyValue_IntValue)
				_, text := a.Value.GetValue().(*commonpb.AnyValue_StringValue)
				integer := strings.HasPrefix(a.Key, "agent_flow.tokens.") ||
					strings.HasPrefix(a.Key, "agent_flow.budget.")
				seen[a.Key] = true
				if strings.HasPrefix(a.Key, "agent_flow.") && (integer && !number || !integer && !text) {
					t.Errorf("%s is %v", a.Key, a.Value)
				}
			}
		}
	}
	for _, name := range []string{
		"workflow.name", "workflow.version", "run.id", "step.id", "step.type", "agent.id", "agent.role", "tokens.input",
		"tokens.output", "budget.tokens.remaining", "budget.steps.remaining", "reason_code",
	} {
		if !seen["agent_flow."+name] {
			t.Errorf("no span has agent_flow.%s", name)
		}
	}
}
