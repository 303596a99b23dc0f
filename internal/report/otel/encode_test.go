package otel

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// Random telemetry, with many zeros and empty texts, which protobuf omits.

func drawAttrs(t *rapid.T, label string) []*commonpb.KeyValue {
	value := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "text") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Int64().Draw(t, "number") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Float64Range(-1e9, 1e9).Draw(t, "fraction") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Bool().Draw(t, "truth") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "texts") }),
	)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *commonpb.KeyValue {
		return attr(rapid.StringMatching("[a-z.]{1,8}").Draw(t, "key"), value.Draw(t, "value"))
	}), 0, 3).Draw(t, label)
}

func drawMillis(t *rapid.T, label string) journal.Millis {
	return journal.Millis(rapid.Int64Range(0, math.MaxInt64/1_000_000).Draw(t, label))
}

func drawID(t *rapid.T, size int, label string) []byte {
	id := rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, label)
	id[0] |= 1 // ids are not zero
	return id
}

func drawSpan(t *rapid.T) *tracepb.Span {
	tracer := &Tracer{trace: TraceID(drawID(t, 16, "trace"))}
	s := tracer.span(SpanID(drawID(t, 8, "id")), rapid.String().Draw(t, "name"), drawMillis(t, "start"),
		drawMillis(t, "end"), drawAttrs(t, "attributes"))
	if rapid.Bool().Draw(t, "has a parent") {
		s.ParentSpanId = drawID(t, 8, "parent")
	}
	if rapid.Bool().Draw(t, "failed") {
		tracer.fail(s, rapid.String().Draw(t, "class"), "", nil)
	}
	for range rapid.IntRange(0, 2).Draw(t, "events") {
		s.Events = append(s.Events, &tracepb.Span_Event{
			TimeUnixNano: nanos(drawMillis(t, "at")), Name: rapid.String().Draw(t, "event"),
			Attributes: drawAttrs(t, "of the event"),
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "links") {
		s.Links = append(s.Links,
			&tracepb.Span_Link{TraceId: drawID(t, 16, "other trace"), SpanId: drawID(t, 8, "other span")})
	}
	return s
}

func drawMetrics(t *rapid.T) []*metricspb.Metric {
	m := NewMetrics(Published, rapid.Bool().Draw(t, "delta"))
	metrics := slices.Sorted(maps.Keys(instruments))
	for range rapid.IntRange(1, 6).Draw(t, "points") {
		m.Add(Point{
			metric: rapid.SampledFrom(metrics).Draw(t, "metric"), attrs: drawAttrs(t, "attributes"),
			value: math.Floor(rapid.Float64Range(0, 1e9).Draw(t, "value")),
		}, drawMillis(t, "since"))
	}
	return m.Gather(drawMillis(t, "now"))
}

// Decoding either encoding as the specification requires yields what was encoded.
func TestEncodingsAreEquivalent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Resource{
			Attrs: drawAttrs(t, "resource"), Scope: rapid.String().Draw(t, "scope"),
			Version: rapid.String().Draw(t, "version"),
		}
		spans := []*tracepb.Span{drawSpan(t), drawSpan(t)}
		drawn := drawMetrics(t)
		for contentType, asJSON := range map[string]bool{"application/x-protobuf": false, "application/json": true} {
			traces, metrics := &tracepb.TracesData{}, &metricspb.MetricsData{}
			decode(t, contentType, traces)(encodeSpans(r, spans, asJSON))
			decode(t, contentType, metrics)(encodeMetrics(r, drawn, asJSON))
			if of := traces.ResourceSpans[0]; !proto.Equal(of.Resource, metrics.ResourceMetrics[0].Resource) ||
				len(of.Resource.Attributes) != len(r.Attrs) || of.ScopeSpans[0].Scope.Name != r.Scope ||
				of.ScopeSpans[0].Scope.Version != r.Version {
				t.Fatalf("%v became %v", r, of)
			}
			for i, got := range traces.ResourceSpans[0].ScopeSpans[0].Spans {
				if !proto.Equal(got, spans[i]) {
					t.Fatalf("%s: %v became %v", contentType, spans[i], got)
				}
			}
			for i, got := range metrics.ResourceMetrics[0].ScopeMetrics[0].Metrics {
				if !proto.Equal(got, drawn[i]) {
					t.Fatalf("%s: %v became %v", contentType, drawn[i], got)
				}
			}
		}
	})
}

func decode(t *rapid.T, contentType string, into proto.Message) func([]byte, error) {
	return func(raw []byte, err error) {
		if err == nil {
			err = reporttest.Decode(contentType, raw, into)
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", contentType, err, raw)
		}
	}
}

// Attributes keep their types, and invalid UTF-8, which protobuf rejects, is replaced.
func TestAttributesKeepTheirTypes(t *testing.T) {
	for want, value := range map[string]any{
		`string_value:"a\357\277\275"`: "a\xff", `bool_value:true`: true, `int_value:-1`: int64(-1), `double_value:0.5`: 0.5,
		`array_value:{values:{string_value:"a"} values:{string_value:"b"}}`: []string{"a", "b"},
	} {
		var text commonpb.AnyValue
		if err := prototext.Unmarshal([]byte(want), &text); err != nil {
			t.Fatal(err)
		}
		if got := attr("key", value); got.Key != "key" || !proto.Equal(got.Value, &text) {
			t.Errorf("%v became %v", value, got)
		}
	}
}

// Counters are monotonic sums of integers or of fractions; the temporality is the one that is asked for.
func TestGatherReturnsTheKindOfEachMetric(t *testing.T) {
	for _, delta := range []bool{false, true} {
		m := NewMetrics(Published, delta)
		for _, n := range []name{stepCount, costTotal, callDuration} {
			m.Add(Point{metric: n, value: 2}, 5)
			m.Add(Point{metric: n, value: 1}, 6)
		}
		got := map[string]*metricspb.Metric{}
		for _, one := range m.Gather(7) {
			got[one.Name] = one
		}
		whole, fraction := got[Published.of(stepCount)].GetSum(), got[Published.of(costTotal)].GetSum()
		seconds := got[Published.of(callDuration)].GetHistogram()
		want := metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
		if delta {
			want = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
		}
		if whole.AggregationTemporality != want || seconds.AggregationTemporality != want || !whole.IsMonotonic {
			t.Errorf("%v, %v", whole, seconds)
		}
		if p := whole.DataPoints[0]; p.GetAsInt() != 3 || p.StartTimeUnixNano != 5e6 || p.TimeUnixNano != 7e6 {
			t.Errorf("%v", p)
		}
		if p := fraction.DataPoints[0]; p.GetAsDouble() != 3 {
			t.Errorf("%v", p)
		}
		p := seconds.DataPoints[0]
		if p.Count != 2 || p.GetSum() != 3 || len(p.BucketCounts) != len(p.ExplicitBounds)+1 {
			t.Errorf("%v", p)
		}
	}
}

// Every name is defined and unique.
func TestNamesAreUnique(t *testing.T) {
	for _, c := range []Conventions{Published, Latest} {
		seen := map[string]name{}
		for n := range names {
			text := c.of(n)
			if called[n].published == "" {
				t.Errorf("name %d has no row in the table", n)
			}
			if before, twice := seen[text]; twice && text != "" {
				t.Errorf("%d and %d are both %s", before, n, text)
			}
			seen[text] = n
			if _, metric := instruments[n]; n >= tokenUsage != metric {
				t.Errorf("%s: a metric needs an instrument, and nothing else has one", called[n].published)
			}
		}
	}
}

// A value equal to a bound belongs to the bucket below it.
func TestBoundsBelongToTheBucketBelow(t *testing.T) {
	m := NewMetrics(Published, false)
	for _, seconds := range []float64{0, 0.01, 0.011, 81.92, 82} {
		m.Add(Point{metric: callDuration, value: seconds}, 0)
	}
	got := m.Gather(0)[0].GetHistogram().DataPoints[0].BucketCounts
	if want := []uint64{2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestParseTraceParent(t *testing.T) {
	for text, ok := range map[string]bool{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      true,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00":      true,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what": true, // of a later version
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what": false,
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":      false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":      false,
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01":      false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331":         false,
		"00-0af7651916cd43dd8448eb211c8031-b7ad6b7169203331-01":        false,
		"00-zaf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      false,
		"": false,
	} {
		if _, got := ParseTraceParent(text); got != ok {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestEveryRunHasATraceID(t *testing.T) {
	if got := TraceOf("0af76519-16cd-43dd-8448-eb211c80319c"); got[0] != 0x0a || got[15] != 0x9c {
		t.Errorf("%x", got)
	}
	for _, odd := range []journal.RunID{
		"", "x", "00000000-0000-0000-0000-000000000000",
		"0af7651916cd43dd8448eb211c80319c00",
	} {
		if TraceOf(odd) == (TraceID{}) {
			t.Errorf("%q has no trace", odd)
		}
	}
}

// Scanning the reply of a collector terminates for any input.
func FuzzScan(f *testing.F) {
	f.Add([]byte{0x0a, 0x02, 0x08, 0x07})
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, answer []byte) {
		for _, language := range []bool{false, true} {
			s := sender{to: &Endpoint{JSON: language}}
			if n := s.rejected(answer); n < 0 {
				t.Errorf("%d", n)
			}
		}
	})
}

func TestRejectedItemsAreCountedInBothEncodings(t *testing.T) {
	binary := sender{to: &Endpoint{}}
	if n := binary.rejected([]byte{0x0a, 0x02, 0x08, 0x07}); n != 7 {
		t.Errorf("%d", n)
	}
	text := sender{to: &Endpoint{JSON: true}}
	for answer, want := range map[string]int64{
		`{"partialSuccess":{"rejectedSpans":"7","errorMessage":"no"}}`: 7,
		`{"partialSuccess":{"rejectedDataPoints":3}}`:                  3, "{}": 0, "no": 0,
	} {
		if n := text.rejected([]byte(answer)); n != want {
			t.Errorf("%s: %d", answer, n)
		}
	}
}

// docs/telemetry.md has every name, in both versions, and every variable that is read.
func TestNamesAreDocumented(t *testing.T) {
	raw, err := os.ReadFile(filepath.FromSlash("../../../docs/telemetry.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for n := range names {
		for _, text := range []string{called[n].published, called[n].latest} {
			if text != "" && text != absent && !strings.Contains(page, "`"+text+"`") {
				t.Errorf("it says nothing about %s", text)
			}
		}
	}
	FromEnvironment(func(variable string) string {
		if variable == VariableEndpoint {
			return "http://localhost:4318"
		}
		general := strings.NewReplacer("OTLP_TRACES_", "OTLP_", "OTLP_METRICS_", "OTLP_", "_SPAN_ATTRIBUTE_",
			"_ATTRIBUTE_").Replace(variable)
		if !strings.Contains(page, general) && !strings.Contains(page, variable) {
			t.Errorf("it says nothing about %s", variable)
		}
		return ""
	})
}

// What a run calls gets a traceparent that leads to the run's own span.
func TestTraceParentLeadsToTheRun(t *testing.T) {
	const root, child = "0af76519-16cd-43dd-8448-eb211c80319c", "0af76519-16cd-43dd-8448-eb211c80319c/child"
	for _, run := range []journal.RunID{root, child} {
		link, ok := ParseTraceParent(journal.TraceParent(root, run))
		if !ok || link.Trace != TraceOf(root) || link.Span != SpanOf(root, run) {
			t.Errorf("%s leads to %+v", journal.TraceParent(root, run), link)
		}
	}
}
