package otel

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/espalier-run/espalier/internal/journal"
)

// Resource describes the source of spans and metrics.
type Resource struct {
	Attrs          []Attr
	Scope, Version string
}

func nanos(at journal.Millis) uint64 { return uint64(at) * 1_000_000 }

// The types below are OTLP's JSON: ids in hex, 64-bit numbers as strings.
type (
	jsonValue struct {
		String *string    `json:"stringValue,omitempty"`
		Bool   *bool      `json:"boolValue,omitempty"`
		Int    *string    `json:"intValue,omitempty"`
		Double *float64   `json:"doubleValue,omitempty"`
		Array  *jsonArray `json:"arrayValue,omitempty"`
	}
	jsonArray struct {
		Values []jsonValue `json:"values"`
	}
	jsonAttr struct {
		Key   string    `json:"key"`
		Value jsonValue `json:"value"`
	}
	jsonResource struct {
		Attributes []jsonAttr `json:"attributes"`
	}
	jsonScope struct {
		Name    string `json:"name"`
		Version string `json:"version,omitempty"`
	}
	jsonEvent struct {
		Time       string     `json:"timeUnixNano"`
		Name       string     `json:"name"`
		Attributes []jsonAttr `json:"attributes,omitempty"`
	}
	jsonLink struct {
		Trace string `json:"traceId"`
		Span  string `json:"spanId"`
	}
	jsonStatus struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code"`
	}
	jsonSpan struct {
		Trace      string      `json:"traceId"`
		ID         string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       Kind        `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []jsonAttr  `json:"attributes,omitempty"`
		Events     []jsonEvent `json:"events,omitempty"`
		Links      []jsonLink  `json:"links,omitempty"`
		Status     *jsonStatus `json:"status,omitempty"`
	}
	jsonScopeSpans struct {
		Scope jsonScope  `json:"scope"`
		Spans []jsonSpan `json:"spans"`
	}
	jsonResourceSpans struct {
		Resource jsonResource     `json:"resource"`
		Scopes   []jsonScopeSpans `json:"scopeSpans"`
	}
	jsonPoint struct {
		Attributes []jsonAttr `json:"attributes,omitempty"`
		Start      string     `json:"startTimeUnixNano"`
		Time       string     `json:"timeUnixNano"`
		Int        *string    `json:"asInt,omitempty"`
		Double     *float64   `json:"asDouble,omitempty"`
		Count      string     `json:"count,omitempty"`
		Sum        *float64   `json:"sum,omitempty"`
		Buckets    []string   `json:"bucketCounts,omitempty"`
		Bounds     []float64  `json:"explicitBounds,omitempty"`
	}
	jsonPoints struct {
		Points      []jsonPoint `json:"dataPoints"`
		Temporality uint64      `json:"aggregationTemporality"`
		Monotonic   bool        `json:"isMonotonic,omitempty"`
	}
	jsonMetric struct {
		Name      string      `json:"name"`
		About     string      `json:"description"`
		Unit      string      `json:"unit"`
		Sum       *jsonPoints `json:"sum,omitempty"`
		Histogram *jsonPoints `json:"histogram,omitempty"`
	}
	jsonScopeMetrics struct {
		Scope   jsonScope    `json:"scope"`
		Metrics []jsonMetric `json:"metrics"`
	}
	jsonResourceMetrics struct {
		Resource jsonResource       `json:"resource"`
		Scopes   []jsonScopeMetrics `json:"scopeMetrics"`
	}
)

func jsonAttrs(list []Attr) []jsonAttr {
	var out []jsonAttr
	for _, a := range list {
		out = append(out, jsonAttr{a.Key, valueJSON(a.Value)})
	}
	return out
}

func valueJSON(v any) jsonValue {
	switch v := v.(type) {
	case string:
		return jsonValue{String: &v}
	case bool:
		return jsonValue{Bool: &v}
	case int64:
		text := strconv.FormatInt(v, 10)
		return jsonValue{Int: &text}
	case float64:
		return jsonValue{Double: &v}
	case []string:
		list := &jsonArray{}
		for _, one := range v {
			list.Values = append(list.Values, valueJSON(one))
		}
		return jsonValue{Array: list}
	}
	return jsonValue{}
}

func nanosJSON(at journal.Millis) string { return strconv.FormatUint(nanos(at), 10) }

// jsonTraces is an ExportTraceServiceRequest.
func jsonTraces(r *Resource, spans []*Span) ([]byte, error) {
	in := jsonScopeSpans{Scope: jsonScope{r.Scope, r.Version}}
	for _, s := range spans {
		one := jsonSpan{
			Trace: hex.EncodeToString(s.Trace[:]), ID: hex.EncodeToString(s.ID[:]), Name: s.Name, Kind: s.Kind,
			Start: nanosJSON(s.Start), End: nanosJSON(s.End), Attributes: jsonAttrs(s.Attrs),
		}
		if s.Parent != (SpanID{}) {
			one.Parent = hex.EncodeToString(s.Parent[:])
		}
		for _, e := range s.Events {
			one.Events = append(one.Events, jsonEvent{nanosJSON(e.At), e.Name, jsonAttrs(e.Attrs)})
		}
		for _, l := range s.Links {
			one.Links = append(one.Links, jsonLink{hex.EncodeToString(l.Trace[:]), hex.EncodeToString(l.Span[:])})
		}
		if s.Failed {
			one.Status = &jsonStatus{s.Message, statusError}
		}
		in.Spans = append(in.Spans, one)
	}
	return json.Marshal(struct {
		Resources []jsonResourceSpans `json:"resourceSpans"`
	}{[]jsonResourceSpans{{jsonResource{jsonAttrs(r.Attrs)}, []jsonScopeSpans{in}}}})
}

// jsonMetrics is an ExportMetricsServiceRequest.
func jsonMetrics(r *Resource, metrics []Metric) ([]byte, error) {
	in := jsonScopeMetrics{Scope: jsonScope{r.Scope, r.Version}}
	for i := range metrics {
		m := &metrics[i]
		one := jsonMetric{Name: m.Name, About: m.About, Unit: m.Unit}
		points := &jsonPoints{Temporality: m.temporality(), Monotonic: m.Bounds == nil}
		for j := range m.Series {
			points.Points = append(points.Points, m.pointJSON(&m.Series[j]))
		}
		if m.Bounds == nil {
			one.Sum = points
		} else {
			one.Histogram = points
		}
		in.Metrics = append(in.Metrics, one)
	}
	return json.Marshal(struct {
		Resources []jsonResourceMetrics `json:"resourceMetrics"`
	}{[]jsonResourceMetrics{{jsonResource{jsonAttrs(r.Attrs)}, []jsonScopeMetrics{in}}}})
}

func (m *Metric) pointJSON(s *Series) jsonPoint {
	p := jsonPoint{Attributes: jsonAttrs(s.Attrs), Start: nanosJSON(s.Start), Time: nanosJSON(s.End)}
	switch {
	case m.Bounds != nil:
		p.Count, p.Sum, p.Bounds = strconv.FormatUint(s.Count, 10), &s.Sum, m.Bounds
		for _, n := range s.Buckets {
			p.Buckets = append(p.Buckets, strconv.FormatUint(n, 10))
		}
	case m.Whole:
		text := strconv.FormatInt(int64(s.Sum), 10)
		p.Int = &text
	default:
		p.Double = &s.Sum
	}
	return p
}
