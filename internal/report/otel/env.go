package otel

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
)

// Settings are the values of the standard variables.
type Settings struct {
	// Traces and Metrics are the endpoints; nil if a signal is not exported.
	Traces, Metrics *Endpoint
	Names           Conventions
	// Content enables content in spans; see TracerOptions.
	Content bool
	// MaxBytes is the maximum length of a text in an attribute.
	MaxBytes int
	// Resource has the resource attributes of the variables, and service.name.
	Resource []*commonpb.KeyValue
	// Delta selects delta temporality for metrics.
	Delta bool
	// Share is the share of traces that is exported; 1 is all.
	Share float64
	// Queue is the maximum number of waiting spans, Batch the maximum of one request, Delay the time between requests,
	// and Interval that of metrics.
	Queue, Batch    int
	Delay, Interval time.Duration
	// Problems are variables with invalid values, which are ignored.
	Problems []Problem
}

// Problem is a variable with an invalid value.
type Problem struct{ Variable, Why, Help string }

func (p Problem) String() string { return p.Variable + " " + p.Why }

// Endpoint is the destination of one signal.
type Endpoint struct {
	URL      string
	Headers  map[string]string
	JSON     bool
	Gzip     bool
	Timeout  time.Duration
	Variable string // that names it
	TLS      *tls.Config
}

// Shown returns the address without credentials.
func (e *Endpoint) Shown() string {
	u, err := url.Parse(e.URL)
	if err != nil {
		return "?"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// Enabled reports whether anything is exported.
func (s *Settings) Enabled() bool { return s.Traces != nil || s.Metrics != nil }

// Variables that enable telemetry.
const (
	VariableEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	variableTraces   = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	variableMetrics  = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
	variableContent  = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
)

// MayBeEnabled reports whether telemetry may be enabled. It is cheap.
func MayBeEnabled(getenv func(string) string) bool {
	for _, name := range []string{VariableEndpoint, variableTraces, variableMetrics} {
		if strings.TrimSpace(getenv(name)) != "" {
			return !strings.EqualFold(strings.TrimSpace(getenv("OTEL_SDK_DISABLED")), "true")
		}
	}
	return false
}

// defaultMaxBytes is the default maximum length of a text: what common collectors accept, with many of them in one
// request.
const defaultMaxBytes = 64 << 10

// FromEnvironment reads the variables. Without an address nothing is exported: unlike an SDK, a command-line program
// does not connect to a default port.
func FromEnvironment(getenv func(string) string) *Settings {
	e := &environment{getenv: getenv, s: &Settings{Share: 1}}
	s := e.s
	if !MayBeEnabled(getenv) {
		return s
	}
	s.Traces = e.endpoint("TRACES", "v1/traces")
	s.Metrics = e.endpoint("METRICS", "v1/metrics")
	for _, value := range strings.Split(e.get("OTEL_SEMCONV_STABILITY_OPT_IN"), ",") {
		if strings.TrimSpace(value) == "gen_ai_latest_experimental" {
			s.Names = Latest
		}
	}
	s.Content = e.content()
	s.MaxBytes = e.number("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", defaultMaxBytes)
	s.MaxBytes = e.number("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", s.MaxBytes)
	s.Resource = e.resource()
	s.Delta = strings.EqualFold(e.get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"), "delta")
	s.Share = e.share()
	s.Queue = max(1, e.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048))
	s.Batch = min(s.Queue, max(1, e.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)))
	s.Delay = e.millis("OTEL_BSP_SCHEDULE_DELAY", time.Second)
	s.Interval = e.millis("OTEL_METRIC_EXPORT_INTERVAL", time.Minute)
	return s
}

// environment reads variables into settings, and collects the problems with them.
type environment struct {
	getenv func(string) string
	s      *Settings
}

// get returns a variable without space around it; "" if it is unset.
func (e *environment) get(name string) string { return strings.TrimSpace(e.getenv(name)) }

// of returns the variable of one signal or, if it is unset, that of all; and its name.
func (e *environment) of(signal, what string) (value, name string) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_" + what, "OTEL_EXPORTER_OTLP_" + what} {
		if value := e.get(name); value != "" {
			return value, name
		}
	}
	return "", "OTEL_EXPORTER_OTLP_" + what
}

// problem records that a variable has a value that cannot be used.
func (e *environment) problem(variable, help, why string, args ...any) {
	p := Problem{Variable: variable, Why: fmt.Sprintf(why, args...), Help: help}
	if !slices.Contains(e.s.Problems, p) { // a variable may apply to both signals
		e.s.Problems = append(e.s.Problems, p)
	}
}

// number returns a variable that must be a whole number, or otherwise if it is unset or wrong.
func (e *environment) number(name string, otherwise int) int {
	text := e.get(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		e.problem(name, "Write a whole number.", "is %q, which is not a number", text)
		return otherwise
	}
	return n
}

// millis returns a variable that is a number of milliseconds.
func (e *environment) millis(name string, otherwise time.Duration) time.Duration {
	n := e.number(name, int(otherwise.Milliseconds()))
	return time.Duration(n) * time.Millisecond
}

// endpoint returns the destination of a signal; nil when it is not exported.
func (e *environment) endpoint(signal, path string) *Endpoint {
	if !e.exported(signal) {
		return nil
	}
	address, name := e.of(signal, "ENDPOINT")
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		// The address may contain a password, so it is not repeated.
		e.problem(name, "Write it like http://localhost:4318.",
			"is not an address that starts with http:// or https://")
		return nil
	}
	if name == VariableEndpoint {
		u = u.JoinPath(path)
	}
	out := &Endpoint{URL: u.String(), Variable: name, Headers: e.headers(signal)}
	switch protocol, name := e.of(signal, "PROTOCOL"); protocol {
	case "", "http/protobuf":
	case "http/json":
		out.JSON = true
	default:
		e.problem(name, "Set it to http/protobuf, and the endpoint to the collector's HTTP port, usually 4318.",
			"is %q: only http/protobuf and http/json are supported", protocol)
		return nil
	}
	switch compression, name := e.of(signal, "COMPRESSION"); compression {
	case "", "none":
	case "gzip":
		out.Gzip = true
	default:
		e.problem(name, "Set it to gzip or none.", "is %q: only gzip and none are supported", compression)
	}
	_, timeout := e.of(signal, "TIMEOUT")
	out.Timeout = max(time.Millisecond, e.millis(timeout, 10*time.Second))
	if out.TLS, err = e.tls(signal); err != nil {
		return nil
	}
	return out
}

// exported reports whether OTLP is among the exporters of a signal.
func (e *environment) exported(signal string) bool {
	name := "OTEL_" + signal + "_EXPORTER"
	list := e.get(name)
	if list == "" {
		return true
	}
	for _, one := range strings.Split(list, ",") {
		if strings.TrimSpace(one) == "otlp" {
			return true
		}
	}
	if list != "none" {
		e.problem(name, "Set it to otlp or none.", "is %q: only otlp and none are supported", list)
	}
	return false
}

// headers returns headers from "name=value" pairs, with percent-encoded values.
func (e *environment) headers(signal string) map[string]string {
	out := map[string]string{}
	// The variable of one signal overrides that of all.
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_" + signal + "_HEADERS"} {
		e.pairs(name, func(key, value string) { out[key] = value })
	}
	return out
}

// pairs parses a list. Values may be secret, so problems do not repeat them.
func (e *environment) pairs(name string, each func(key, value string)) {
	for i, pair := range strings.Split(e.get(name), ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !ok || key == "" || err != nil {
			e.problem(name, "Write NAME=VALUE, separated by commas; a comma in a value is %2C.",
				"has a %s entry that is not NAME=VALUE", ordinal(i+1))
			continue
		}
		each(key, value)
	}
}

// ordinal returns a number as a position, such as 2nd.
func ordinal(n int) string {
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}

// tls returns the certificate authority of the collector and the client certificate.
func (e *environment) tls(signal string) (*tls.Config, error) {
	ca, caName := e.of(signal, "CERTIFICATE")
	certificate, certName := e.of(signal, "CLIENT_CERTIFICATE")
	key, _ := e.of(signal, "CLIENT_KEY")
	if ca == "" && certificate == "" {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		raw, err := os.ReadFile(ca)
		if err == nil {
			out.RootCAs = x509.NewCertPool()
			if !out.RootCAs.AppendCertsFromPEM(raw) {
				err = fmt.Errorf("%s holds no certificate in PEM", ca)
			}
		}
		if err != nil {
			e.problem(caName, "Set it to a PEM file with the collector's certificate authority.", "cannot be used: %v",
				err)
			return nil, err
		}
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			e.problem(certName, "Set both to PEM files with a certificate and its key.", "cannot be used: %v", err)
			return nil, err
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// content reports whether spans may have the content of messages.
func (e *environment) content() bool {
	switch value := e.get(variableContent); strings.ToLower(value) {
	case "true", "span_only", "span_and_event":
		return true
	case "", "false", "no_content", "event_only":
	default:
		e.problem(variableContent,
			"Set it to SPAN_ONLY to include prompts and replies in spans, otherwise to NO_CONTENT.",
			"is %q, which counts as NO_CONTENT", value)
	}
	return false
}

// resource returns the resource attributes.
func (e *environment) resource() []*commonpb.KeyValue {
	var out []*commonpb.KeyValue
	set := func(key, value string) {
		for i := range out {
			if out[i].Key == key {
				out[i] = attr(key, value)
				return
			}
		}
		out = append(out, attr(key, value))
	}
	set("service.name", "espalier")
	e.pairs("OTEL_RESOURCE_ATTRIBUTES", set)
	if name := e.get("OTEL_SERVICE_NAME"); name != "" {
		set("service.name", name)
	}
	return out
}

// share returns the share of traces that the sampler selects. A run has no parent, so parentbased samplers are
// equivalent to their roots.
func (e *environment) share() float64 {
	name := "OTEL_TRACES_SAMPLER"
	switch sampler := strings.TrimPrefix(e.get(name), "parentbased_"); sampler {
	case "", "always_on":
	case "always_off":
		return 0
	case "traceidratio":
		text := e.get("OTEL_TRACES_SAMPLER_ARG")
		if text == "" {
			return 1
		}
		share, err := strconv.ParseFloat(text, 64)
		if err == nil && share >= 0 && share <= 1 {
			return share
		}
		e.problem("OTEL_TRACES_SAMPLER_ARG", "Write a number from 0 to 1.", "is %q, which is not a number from 0 to 1",
			text)
	default:
		e.problem(name, "Use always_on, always_off or traceidratio, optionally with the prefix parentbased_.",
			"is %q, which is unknown", e.get(name))
	}
	return 1
}

// sampled reports whether a trace is exported. It depends only on the id, so that every process decides the same.
func (s *Settings) sampled(id TraceID) bool {
	if s.Share >= 1 {
		return true
	}
	// The last seven bytes are random in every UUID.
	const most = 1 << 56
	return float64(binary.BigEndian.Uint64(id[8:])&(most-1)) < math.Floor(s.Share*most)
}
