package otel

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/report/reporttest"
)

// Random telemetry, with many zeros and empty texts, which protobuf omits.

func drawAttrs(t *rapid.T, label string) []Attr {
	value := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "text") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Int64().Draw(t, "number") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Float64Range(-1e9, 1e9).Draw(t, "fraction") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Bool().Draw(t, "truth") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "texts") }),
	)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Attr {
		return Attr{rapid.StringMatching("[a-z.]{1,8}").Draw(t, "key"), value.Draw(t, "value")}
	}), 0, 3).Draw(t, label)
}

func drawMillis(t *rapid.T, label string) journal.Millis {
	return journal.Millis(rapid.Int64Range(0, math.MaxInt64/1_000_000).Draw(t, label))
}

func drawID[T TraceID | SpanID](t *rapid.T, label string) (id T) {
	raw := rapid.SliceOfN(rapid.Byte(), len(id), len(id)).Draw(t, label)
	raw[0] |= 1 // ids are not zero
	for i := range raw {
		id[i] = raw[i]
	}
	return id
}

func drawSpan(t *rapid.T) *Span {
	s := &Span{
		Trace: drawID[TraceID](t, "trace"), ID: drawID[SpanID](t, "id"), Name: rapid.String().Draw(t, "name"),
		Kind: rapid.SampledFrom([]Kind{Internal, Client}).Draw(t, "kind"), Start: drawMillis(t, "start"),
		End:   drawMillis(t, "end"),
		Attrs: drawAttrs(t, "attributes"), Failed: rapid.Bool().Draw(t, "failed"),
	}
	if rapid.Bool().Draw(t, "has a parent") {
		s.Parent = drawID[SpanID](t, "parent")
	}
	if s.Failed {
		s.Message = rapid.String().Draw(t, "message")
	}
	for range rapid.IntRange(0, 2).Draw(t, "events") {
		s.Events = append(s.Events,
			Event{drawMillis(t, "at"), rapid.String().Draw(t, "event"), drawAttrs(t, "of the event")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "links") {
		s.Links = append(s.Links, Link{drawID[TraceID](t, "other trace"), drawID[SpanID](t, "other span")})
	}
	return s
}

func drawMetric(t *rapid.T) Metric {
	m := Metric{
		Name: rapid.String().Draw(t, "name"), Unit: rapid.String().Draw(t, "unit"),
		About: rapid.String().Draw(t, "about"),
		Whole: rapid.Bool().Draw(t, "whole"), Delta: rapid.Bool().Draw(t, "delta"),
	}
	if rapid.Bool().Draw(t, "histogram") {
		m.Bounds = []float64{0.5, 1, 100}
	}
	for range rapid.IntRange(1, 3).Draw(t, "series") {
		s := Series{Attrs: drawAttrs(t, "attributes"), Start: drawMillis(t, "start"), End: drawMillis(t, "end")}
		s.Sum = rapid.Float64Range(0, 1e9).Draw(t, "sum")
		if m.Whole {
			s.Sum = math.Floor(s.Sum)
		}
		if m.Bounds != nil {
			s.Count, s.Buckets = rapid.Uint64().Draw(t, "count"),
				rapid.SliceOfN(rapid.Uint64(), 4, 4).Draw(t, "buckets")
		}
		m.Series = append(m.Series, s)
	}
	return m
}

// OpenTelemetry's own decoders read the same from both encodings.
func TestEncodingsAreEquivalent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Resource{
			Attrs: drawAttrs(t, "resource"), Scope: rapid.String().Draw(t, "scope"),
			Version: rapid.String().Draw(t, "version"),
		}
		var spans []*Span
		for range rapid.IntRange(1, 3).Draw(t, "spans") {
			spans = append(spans, drawSpan(t))
		}
		one, other := &tracepb.TracesData{}, &tracepb.TracesData{}
		same(t, traces(r, spans), one, other)
		for i, s := range one.ResourceSpans[0].ScopeSpans[0].Spans {
			check(t, s, spans[i])
		}

		drawn := []Metric{drawMetric(t), drawMetric(t)}
		of := &metricspb.MetricsData{}
		same(t, metrics(r, drawn), of, &metricspb.MetricsData{})
		for i, m := range of.ResourceMetrics[0].ScopeMetrics[0].Metrics {
			checkMetric(t, m, &drawn[i])
		}
	})
}

func same(t *rapid.T, request any, one, other proto.Message) {
	binary, err := encode(request, false)
	if err != nil {
		t.Fatal(err)
	}
	text, err := encode(request, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := reporttest.Decode("application/x-protobuf", binary, one); err != nil {
		t.Fatalf("protobuf: %v", err)
	}
	if err := reporttest.Decode("application/json", text, other); err != nil {
		t.Fatalf("JSON: %v\n%s", err, text)
	}
	if !proto.Equal(one, other) {
		t.Fatalf("protobuf says %v, JSON %v", one, other)
	}
}

// check compares decoded with encoded telemetry.
func check(t *rapid.T, got *tracepb.Span, want *Span) {
	switch {
	case string(got.TraceId) != string(want.Trace[:]), string(got.SpanId) != string(want.ID[:]), got.Name != want.Name,
		got.StartTimeUnixNano != uint64(want.Start)*1e6, got.EndTimeUnixNano != uint64(want.End)*1e6,
		int(got.Kind) != int(want.Kind),
		(got.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR) != want.Failed,
		got.Status.GetMessage() != want.Message,
		(len(got.ParentSpanId) > 0) != (want.Parent != SpanID{}), len(got.Attributes) != len(want.Attrs),
		len(got.Events) != len(want.Events), len(got.Links) != len(want.Links):
		t.Fatalf("%v became %v", want, got)
	}
	for i, a := range want.Attrs {
		v := got.Attributes[i]
		if got.Attributes[i].Key != a.Key {
			t.Fatalf("%v became %v", a, v)
		}
		ok := false
		switch x := a.Value.(type) {
		case string:
			ok = v.Value.GetStringValue() == x
		case int64:
			ok = v.Value.GetIntValue() == x
		case float64:
			ok = v.Value.GetDoubleValue() == x
		case bool:
			ok = v.Value.GetBoolValue() == x
		case []string:
			var list []string
			for _, one := range v.Value.GetArrayValue().GetValues() {
				list = append(list, one.GetStringValue())
			}
			ok = slices.Equal(list, x)
		}
		if !ok {
			t.Fatalf("%v became %v", a, v)
		}
	}
}

func checkMetric(t *rapid.T, got *metricspb.Metric, want *Metric) {
	if got.Name != want.Name || got.Unit != want.Unit || got.Description != want.About {
		t.Fatalf("%v became %v", want, got)
	}
	for i, s := range want.Series {
		ok := false
		const delta = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
		switch {
		case want.Bounds != nil:
			p := got.GetHistogram().GetDataPoints()[i]
			ok = p.Count == s.Count && p.GetSum() == s.Sum && slices.Equal(p.BucketCounts, s.Buckets) &&
				slices.Equal(p.ExplicitBounds, want.Bounds) &&
				(got.GetHistogram().AggregationTemporality == delta) == want.Delta
		case want.Whole:
			p := got.GetSum().GetDataPoints()[i]
			ok = p.GetAsInt() == int64(s.Sum) && got.GetSum().IsMonotonic && p.StartTimeUnixNano == uint64(s.Start)*1e6
		default:
			ok = got.GetSum().GetDataPoints()[i].GetAsDouble() == s.Sum
		}
		if !ok {
			t.Fatalf("%v became %v", want, got)
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
func TestBuckets(t *testing.T) {
	m := NewMetrics(Published, false)
	for _, seconds := range []float64{0, 0.01, 0.011, 81.92, 82} {
		m.Add(Point{metric: callDuration, value: seconds}, 0)
	}
	got := m.Gather(0)[0].Series[0].Buckets
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

func TestTraceOf(t *testing.T) {
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

func TestRejected(t *testing.T) {
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
