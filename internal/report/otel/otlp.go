package otel

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Resource describes the source of spans and metrics.
type Resource struct {
	Attrs          []*commonpb.KeyValue
	Scope, Version string
}

// resource returns the resource in the form of the protocol.
func (r *Resource) resource() *resourcepb.Resource { return &resourcepb.Resource{Attributes: r.Attrs} }

// scope names this program as the source of spans and metrics.
func (r *Resource) scope() *commonpb.InstrumentationScope {
	return &commonpb.InstrumentationScope{Name: r.Scope, Version: r.Version}
}

// nanos returns a time in the unit of the protocol.
func nanos(at journal.Millis) uint64 { return uint64(at) * 1_000_000 }

// attr returns an attribute. Its value is a string, int64, float64, bool or []string.
func attr(key string, value any) *commonpb.KeyValue {
	out := &commonpb.AnyValue{}
	switch v := value.(type) {
	case string:
		out = text(v)
	case bool:
		out.Value = &commonpb.AnyValue_BoolValue{BoolValue: v}
	case int64:
		out.Value = &commonpb.AnyValue_IntValue{IntValue: v}
	case float64:
		out.Value = &commonpb.AnyValue_DoubleValue{DoubleValue: v}
	case []string:
		list := &commonpb.ArrayValue{}
		list.Values = xslices.Map(v, text)
		out.Value = &commonpb.AnyValue_ArrayValue{ArrayValue: list}
	}
	return &commonpb.KeyValue{Key: valid(key), Value: out}
}

// text returns a value that is a text, with invalid UTF-8 replaced.
func text(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: valid(s)}}
}

// valid replaces invalid UTF-8, which protobuf rejects.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// encodeSpans encodes an ExportTraceServiceRequest, which has the same encoding as TracesData.
func encodeSpans(r *Resource, spans []*tracepb.Span, asJSON bool) ([]byte, error) {
	if asJSON {
		spans = hexIDs(spans)
	}
	return encode(&tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: r.resource(), ScopeSpans: []*tracepb.ScopeSpans{{Scope: r.scope(), Spans: spans}},
	}}}, asJSON)
}

// encodeMetrics encodes an ExportMetricsServiceRequest, which has the same encoding as MetricsData.
func encodeMetrics(r *Resource, list []*metricspb.Metric, asJSON bool) ([]byte, error) {
	return encode(&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: r.resource(), ScopeMetrics: []*metricspb.ScopeMetrics{{Scope: r.scope(), Metrics: list}},
	}}}, asJSON)
}

// encode encodes a request. The JSON of the protocol has numbers for enumerations.
func encode(m proto.Message, asJSON bool) ([]byte, error) {
	if asJSON {
		return protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(m)
	}
	return proto.Marshal(m)
}

// hexIDs returns spans whose ids are in hex in JSON, as OTLP requires, instead of in base64 as in other messages: an id
// becomes the bytes of which its hex digits are the base64 encoding.
func hexIDs(spans []*tracepb.Span) []*tracepb.Span {
	convert := func(id []byte) []byte {
		out, err := base64.StdEncoding.DecodeString(hex.EncodeToString(id))
		if err != nil {
			panic(err) // the length of an id is a multiple of two
		}
		return out
	}
	out := make([]*tracepb.Span, len(spans))
	for i, s := range spans {
		s = proto.CloneOf(s)
		s.TraceId, s.SpanId, s.ParentSpanId = convert(s.TraceId), convert(s.SpanId), convert(s.ParentSpanId)
		for _, l := range s.Links {
			l.TraceId, l.SpanId = convert(l.TraceId), convert(l.SpanId)
		}
		out[i] = s
	}
	return out
}
