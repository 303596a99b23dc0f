package otel

import (
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/espalier-run/espalier/internal/journal"
)

// Resource describes the source of spans and metrics.
type Resource struct {
	Attrs          []Attr
	Scope, Version string
}

// The types below are the messages of opentelemetry-proto: the tags have the names of OTLP's JSON and the numbers of
// its protobuf fields.
type (
	// id is in hex in JSON; 64-bit numbers are strings.
	id      []byte
	fixed   uint64
	sfixed  uint64 // the bits of an int64
	integer int64

	otlpValue struct {
		String *string    `json:"stringValue,omitempty" pb:"1"`
		Bool   *bool      `json:"boolValue,omitempty" pb:"2"`
		Int    *integer   `json:"intValue,omitempty" pb:"3"`
		Double *float64   `json:"doubleValue,omitempty" pb:"4"`
		Array  *otlpArray `json:"arrayValue,omitempty" pb:"5"`
	}
	otlpArray struct {
		Values []otlpValue `json:"values" pb:"1"`
	}
	otlpAttr struct {
		Key   string    `json:"key" pb:"1"`
		Value otlpValue `json:"value" pb:"2"`
	}
	otlpResource struct {
		Attributes []otlpAttr `json:"attributes" pb:"1"`
	}
	otlpScope struct {
		Name    string `json:"name" pb:"1"`
		Version string `json:"version,omitempty" pb:"2"`
	}
	otlpEvent struct {
		Time       fixed      `json:"timeUnixNano" pb:"1"`
		Name       string     `json:"name" pb:"2"`
		Attributes []otlpAttr `json:"attributes,omitempty" pb:"3"`
	}
	otlpLink struct {
		Trace id `json:"traceId" pb:"1"`
		Span  id `json:"spanId" pb:"2"`
	}
	otlpStatus struct {
		Message string `json:"message,omitempty" pb:"2"`
		Code    int    `json:"code" pb:"3"`
	}
	otlpSpan struct {
		Trace      id          `json:"traceId" pb:"1"`
		ID         id          `json:"spanId" pb:"2"`
		Parent     id          `json:"parentSpanId,omitempty" pb:"4"`
		Name       string      `json:"name" pb:"5"`
		Kind       Kind        `json:"kind" pb:"6"`
		Start      fixed       `json:"startTimeUnixNano" pb:"7"`
		End        fixed       `json:"endTimeUnixNano" pb:"8"`
		Attributes []otlpAttr  `json:"attributes,omitempty" pb:"9"`
		Events     []otlpEvent `json:"events,omitempty" pb:"11"`
		Links      []otlpLink  `json:"links,omitempty" pb:"13"`
		Status     *otlpStatus `json:"status,omitempty" pb:"15"`
	}
	otlpSum struct {
		Points      []otlpNumber `json:"dataPoints" pb:"1"`
		Temporality int          `json:"aggregationTemporality" pb:"2"`
		Monotonic   bool         `json:"isMonotonic" pb:"3"`
	}
	otlpNumber struct {
		Attributes []otlpAttr `json:"attributes,omitempty" pb:"7"`
		Start      fixed      `json:"startTimeUnixNano" pb:"2"`
		Time       fixed      `json:"timeUnixNano" pb:"3"`
		Int        *sfixed    `json:"asInt,omitempty" pb:"6"`
		Double     *float64   `json:"asDouble,omitempty" pb:"4"`
	}
	otlpHistogram struct {
		Points      []otlpCounts `json:"dataPoints" pb:"1"`
		Temporality int          `json:"aggregationTemporality" pb:"2"`
	}
	otlpCounts struct {
		Attributes []otlpAttr `json:"attributes,omitempty" pb:"9"`
		Start      fixed      `json:"startTimeUnixNano" pb:"2"`
		Time       fixed      `json:"timeUnixNano" pb:"3"`
		Count      fixed      `json:"count" pb:"4"`
		Sum        *float64   `json:"sum" pb:"5"`
		Buckets    []fixed    `json:"bucketCounts,omitempty" pb:"6"`
		Bounds     []float64  `json:"explicitBounds,omitempty" pb:"7"`
	}
	otlpMetric struct {
		Name      string         `json:"name" pb:"1"`
		About     string         `json:"description" pb:"2"`
		Unit      string         `json:"unit" pb:"3"`
		Sum       *otlpSum       `json:"sum,omitempty" pb:"7"`
		Histogram *otlpHistogram `json:"histogram,omitempty" pb:"9"`
	}
	scopeSpans struct {
		Scope otlpScope  `json:"scope" pb:"1"`
		Spans []otlpSpan `json:"spans" pb:"2"`
	}
	resourceSpans struct {
		Resource otlpResource `json:"resource" pb:"1"`
		Scopes   []scopeSpans `json:"scopeSpans" pb:"2"`
	}
	exportTraces struct {
		Resources []resourceSpans `json:"resourceSpans" pb:"1"`
	}
	scopeMetrics struct {
		Scope   otlpScope    `json:"scope" pb:"1"`
		Metrics []otlpMetric `json:"metrics" pb:"2"`
	}
	resourceMetrics struct {
		Resource otlpResource   `json:"resource" pb:"1"`
		Scopes   []scopeMetrics `json:"scopeMetrics" pb:"2"`
	}
	exportMetrics struct {
		Resources []resourceMetrics `json:"resourceMetrics" pb:"1"`
	}
)

// Numbers of opentelemetry-proto.
const (
	statusError = 2
	delta       = 1
	cumulative  = 2
)

func (i id) MarshalText() ([]byte, error)      { return hex.AppendEncode(nil, i), nil }
func (f fixed) MarshalText() ([]byte, error)   { return strconv.AppendUint(nil, uint64(f), 10), nil }
func (f sfixed) MarshalText() ([]byte, error)  { return strconv.AppendInt(nil, int64(f), 10), nil }
func (n integer) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(n), 10), nil }

func nanos(at journal.Millis) fixed { return fixed(at) * 1_000_000 }

// encode encodes an export request.
func encode(request any, asJSON bool) ([]byte, error) {
	if asJSON {
		return json.Marshal(request)
	}
	return appendMessage(nil, reflect.ValueOf(request)), nil
}

func otlpAttrs(list []Attr) []otlpAttr {
	var out []otlpAttr
	for _, a := range list {
		out = append(out, otlpAttr{a.Key, valueOf(a.Value)})
	}
	return out
}

func valueOf(v any) otlpValue {
	switch v := v.(type) {
	case string:
		return otlpValue{String: &v}
	case bool:
		return otlpValue{Bool: &v}
	case int64:
		return otlpValue{Int: (*integer)(&v)}
	case float64:
		return otlpValue{Double: &v}
	case []string:
		list := &otlpArray{}
		for _, one := range v {
			list.Values = append(list.Values, valueOf(one))
		}
		return otlpValue{Array: list}
	}
	return otlpValue{}
}

// traces returns an ExportTraceServiceRequest.
func traces(r *Resource, spans []*Span) exportTraces {
	in := scopeSpans{Scope: otlpScope{r.Scope, r.Version}}
	for _, s := range spans {
		one := otlpSpan{
			Trace: s.Trace[:], ID: s.ID[:], Name: s.Name, Kind: s.Kind,
			Start: nanos(s.Start), End: nanos(s.End), Attributes: otlpAttrs(s.Attrs),
		}
		if s.Parent != (SpanID{}) {
			one.Parent = s.Parent[:]
		}
		for _, e := range s.Events {
			one.Events = append(one.Events, otlpEvent{nanos(e.At), e.Name, otlpAttrs(e.Attrs)})
		}
		for _, l := range s.Links {
			one.Links = append(one.Links, otlpLink{l.Trace[:], l.Span[:]})
		}
		if s.Failed {
			one.Status = &otlpStatus{s.Message, statusError}
		}
		in.Spans = append(in.Spans, one)
	}
	return exportTraces{[]resourceSpans{{otlpResource{otlpAttrs(r.Attrs)}, []scopeSpans{in}}}}
}

// metrics returns an ExportMetricsServiceRequest.
func metrics(r *Resource, list []Metric) exportMetrics {
	in := scopeMetrics{Scope: otlpScope{r.Scope, r.Version}}
	for i := range list {
		in.Metrics = append(in.Metrics, list[i].otlp())
	}
	return exportMetrics{[]resourceMetrics{{otlpResource{otlpAttrs(r.Attrs)}, []scopeMetrics{in}}}}
}

func (m *Metric) otlp() otlpMetric {
	out := otlpMetric{Name: m.Name, About: m.About, Unit: m.Unit}
	temporality := cumulative
	if m.Delta {
		temporality = delta
	}
	if m.Bounds != nil {
		out.Histogram = &otlpHistogram{Temporality: temporality}
	} else {
		out.Sum = &otlpSum{Temporality: temporality, Monotonic: true}
	}
	for i := range m.Series {
		s := &m.Series[i]
		attrs, start, end := otlpAttrs(s.Attrs), nanos(s.Start), nanos(s.End)
		if m.Bounds != nil {
			one := otlpCounts{attrs, start, end, fixed(s.Count), &s.Sum, nil, m.Bounds}
			for _, n := range s.Buckets {
				one.Buckets = append(one.Buckets, fixed(n))
			}
			out.Histogram.Points = append(out.Histogram.Points, one)
			continue
		}
		one := otlpNumber{Attributes: attrs, Start: start, Time: end, Double: &s.Sum}
		if m.Whole {
			n := sfixed(int64(s.Sum))
			one.Int, one.Double = &n, nil
		}
		out.Sum.Points = append(out.Sum.Points, one)
	}
	return out
}
