package reporttest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Collector receives traces and metrics like an OpenTelemetry collector, with
// OpenTelemetry's own types. It refuses what it cannot decode, and fails the test.
type Collector struct {
	URL string

	t        testing.TB
	mu       sync.Mutex
	answer   func(r *http.Request, header http.Header) int
	traces   []*tracepb.TracesData
	metrics  []*metricspb.MetricsData
	requests []*http.Request
	bodies   bytes.Buffer
}

// NewCollector returns a Collector that listens until the test ends.
func NewCollector(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{t: t}
	server := httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Answer sets a function that is called before a request is read: a status other
// than 200 is returned at once, with the header that the function may set.
func (c *Collector) Answer(with func(r *http.Request, header http.Header) int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = with
}

// serve answers a request, and fails the test if it is not a valid one.
func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	answer := c.answer
	c.mu.Unlock()
	if answer != nil {
		if status := answer(r, w.Header()); status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
	}
	if err := c.receive(r); errors.Is(err, io.ErrUnexpectedEOF) {
		return // the sender was killed
	} else if err != nil {
		c.t.Errorf("%s: %v", r.URL, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if r.Header.Get("Content-Type") == "application/json" {
		io.WriteString(w, "{}")
	}
}

// receive decodes a request and keeps it.
func (c *Collector) receive(r *http.Request) error {
	var in io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		in = z
	}
	raw, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	c.bodies.Write(raw)
	c.bodies.WriteByte('\n')
	switch {
	case r.Method != http.MethodPost:
		return fmt.Errorf("method %s", r.Method)
	case strings.HasSuffix(r.URL.Path, "/v1/traces"):
		data := &tracepb.TracesData{}
		c.traces = append(c.traces, data)
		return Decode(r.Header.Get("Content-Type"), raw, data)
	case strings.HasSuffix(r.URL.Path, "/v1/metrics"):
		data := &metricspb.MetricsData{}
		c.metrics = append(c.metrics, data)
		return Decode(r.Header.Get("Content-Type"), raw, data)
	}
	return fmt.Errorf("nothing is at %s", r.URL.Path)
}

// Decode decodes OTLP in one of its two encodings. It refuses fields that
// OpenTelemetry does not have.
func Decode(contentType string, raw []byte, into proto.Message) error {
	switch contentType {
	case "application/x-protobuf":
		if err := proto.Unmarshal(raw, into); err != nil {
			return err
		}
		return unknown(into)
	case "application/json":
		var tree any
		in := json.NewDecoder(bytes.NewReader(raw))
		in.UseNumber()
		if err := in.Decode(&tree); err != nil {
			return err
		}
		if err := idsAsBase64(tree); err != nil {
			return err
		}
		text, err := json.Marshal(tree)
		if err != nil {
			return err
		}
		return protojson.Unmarshal(text, into)
	}
	return fmt.Errorf("content type %q", contentType)
}

// unknown finds unknown fields at any depth.
func unknown(m proto.Message) error {
	text, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	again := m.ProtoReflect().New().Interface()
	if err := protojson.Unmarshal(text, again); err != nil {
		return err
	}
	if !proto.Equal(m, again) {
		return fmt.Errorf("it has unknown fields")
	}
	return nil
}

// idsAsBase64 converts ids from hex, which OTLP uses, to the base64 of protobuf's JSON.
func idsAsBase64(v any) error {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			if err := idsAsBase64(one); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, one := range v {
			if name != "traceId" && name != "spanId" && name != "parentSpanId" {
				if err := idsAsBase64(one); err != nil {
					return err
				}
				continue
			}
			raw, err := hex.DecodeString(one.(string))
			if err != nil {
				return err
			}
			v[name] = base64.StdEncoding.EncodeToString(raw)
		}
	}
	return nil
}

// Spans returns all spans in the order in which they were received.
func (c *Collector) Spans() []*tracepb.Span {
	var out []*tracepb.Span
	for r := range received(c, &c.traces, (*tracepb.TracesData).GetResourceSpans) {
		for _, s := range r.ScopeSpans {
			out = append(out, s.Spans...)
		}
	}
	return out
}

// Resources returns the resources of all traces.
func (c *Collector) Resources() []map[string]string {
	var out []map[string]string
	for r := range received(c, &c.traces, (*tracepb.TracesData).GetResourceSpans) {
		out = append(out, Attributes(r.Resource.GetAttributes()))
	}
	return out
}

// Metrics returns all metrics.
func (c *Collector) Metrics() []*metricspb.Metric {
	var out []*metricspb.Metric
	for r := range received(c, &c.metrics, (*metricspb.MetricsData).GetResourceMetrics) {
		for _, s := range r.ScopeMetrics {
			out = append(out, s.Metrics...)
		}
	}
	return out
}

// received iterates over the parts of all received data.
func received[Data, Part any](c *Collector, all *[]Data, parts func(Data) []Part) iter.Seq[Part] {
	return func(yield func(Part) bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, data := range *all {
			for _, part := range parts(data) {
				if !yield(part) {
					return
				}
			}
		}
	}
}

// Requests returns the accepted requests.
func (c *Collector) Requests() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Text returns everything that was received, byte for byte.
func (c *Collector) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bodies.String()
}

// Attributes returns attributes as texts.
func Attributes(list []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		out[a.Key] = valueText(a.Value)
	}
	return out
}

// valueText returns the value of an attribute as text.
func valueText(v *commonpb.AnyValue) string {
	switch x := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return x.StringValue
	case *commonpb.AnyValue_IntValue:
		return fmt.Sprint(x.IntValue)
	case *commonpb.AnyValue_DoubleValue:
		return fmt.Sprint(x.DoubleValue)
	case *commonpb.AnyValue_BoolValue:
		return fmt.Sprint(x.BoolValue)
	case *commonpb.AnyValue_ArrayValue:
		var all []string
		for _, one := range x.ArrayValue.Values {
			all = append(all, valueText(one))
		}
		return "[" + strings.Join(all, " ") + "]"
	}
	return "?"
}

// Tree returns a trace as text: every span below its parent, in the order in which
// they were received, with the text that format returns for it.
func Tree(spans []*tracepb.Span, format func(*tracepb.Span) string) string {
	known := map[string]bool{}
	for _, s := range spans {
		known[string(s.SpanId)] = true
	}
	below := map[string][]*tracepb.Span{}
	var lost []*tracepb.Span
	for _, s := range spans {
		if len(s.ParentSpanId) > 0 && !known[string(s.ParentSpanId)] {
			lost = append(lost, s)
			continue
		}
		below[string(s.ParentSpanId)] = append(below[string(s.ParentSpanId)], s)
	}
	var b strings.Builder
	var walk func(parent, indent string)
	walk = func(parent, indent string) {
		for _, s := range below[parent] {
			for line := range strings.Lines(format(s)) {
				b.WriteString(indent + strings.TrimSuffix(line, "\n") + "\n")
			}
			walk(string(s.SpanId), indent+"  ")
		}
	}
	walk("", "")
	for _, s := range lost {
		fmt.Fprintf(&b, "WITHOUT ITS PARENT: %s\n", format(s))
	}
	return b.String()
}
