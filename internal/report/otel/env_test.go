package otel_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/report/otel"
)

// The standard variables have their standard meaning.
func TestVariablesHaveTheirStandardMeaning(t *testing.T) {
	const base = "http://collector:4318"
	endpoint := func(change func(*otel.Endpoint)) *otel.Endpoint {
		e := &otel.Endpoint{
			URL: base + "/v1/traces", Headers: map[string]string{}, Timeout: 10 * time.Second,
			Variable: "OTEL_EXPORTER_OTLP_ENDPOINT",
		}
		change(e)
		return e
	}
	for name, c := range map[string]struct {
		env  variables
		want *otel.Endpoint
	}{
		"nothing":     {variables{}, nil},
		"one for all": {variables{"OTEL_EXPORTER_OTLP_ENDPOINT": base}, endpoint(func(*otel.Endpoint) {})},
		"with a path": {
			variables{"OTEL_EXPORTER_OTLP_ENDPOINT": base + "/otlp/"},
			endpoint(func(e *otel.Endpoint) { e.URL = base + "/otlp/v1/traces" }),
		},
		"with blanks": {
			variables{"OTEL_EXPORTER_OTLP_ENDPOINT": " " + base + " "},
			endpoint(func(*otel.Endpoint) {}),
		},
		"only metrics": {variables{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": base}, nil},
		"its own, as is": {
			variables{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://x/in"},
			endpoint(func(e *otel.Endpoint) {
				e.URL, e.Variable = "https://x/in", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
			}),
		},
		"its own before": {variables{
			"OTEL_EXPORTER_OTLP_ENDPOINT":        base,
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://x/in",
		}, endpoint(func(e *otel.Endpoint) {
			e.URL, e.Variable = "https://x/in", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
		})},
		"switched off": {variables{"OTEL_EXPORTER_OTLP_ENDPOINT": base, "OTEL_SDK_DISABLED": "True"}, nil},
		"not quite off": {
			variables{"OTEL_EXPORTER_OTLP_ENDPOINT": base, "OTEL_SDK_DISABLED": "1"},
			endpoint(func(*otel.Endpoint) {}),
		},
		"no exporter": {variables{"OTEL_EXPORTER_OTLP_ENDPOINT": base, "OTEL_TRACES_EXPORTER": "none"}, nil},
		"two exporters": {
			variables{"OTEL_EXPORTER_OTLP_ENDPOINT": base, "OTEL_TRACES_EXPORTER": "console, otlp"},
			endpoint(func(*otel.Endpoint) {}),
		},
		"JSON": {
			variables{"OTEL_EXPORTER_OTLP_ENDPOINT": base, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
			endpoint(func(e *otel.Endpoint) { e.JSON = true }),
		},
		"JSON for others": {variables{
			"OTEL_EXPORTER_OTLP_ENDPOINT": base, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
			"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
		}, endpoint(func(*otel.Endpoint) {})},
		"gzip": {
			variables{"OTEL_EXPORTER_OTLP_ENDPOINT": base, "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"},
			endpoint(func(e *otel.Endpoint) { e.Gzip = true }),
		},
		"timeout": {variables{
			"OTEL_EXPORTER_OTLP_ENDPOINT": base, "OTEL_EXPORTER_OTLP_TIMEOUT": "7000",
			"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "250",
		}, endpoint(func(e *otel.Endpoint) {
			e.Timeout = 250 * time.Millisecond
		})},
		"headers": {variables{
			"OTEL_EXPORTER_OTLP_ENDPOINT": base, "OTEL_EXPORTER_OTLP_HEADERS": "a=1, b=x%20y%2Cz ,",
			"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=2",
		}, endpoint(func(e *otel.Endpoint) {
			e.Headers = map[string]string{"a": "2", "b": "x y,z"}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			s := otel.FromEnvironment(c.env.getenv)
			if diff := cmp.Diff(c.want, s.Traces); diff != "" || len(s.Problems) > 0 {
				t.Errorf("%v\n%s", s.Problems, diff)
			}
			if asked := otel.MayBeEnabled(c.env.getenv); !asked && s.Enabled() {
				t.Error("it is not asked for, and enabled")
			}
		})
	}
}

// Invalid values are reported with a fix, and without anything that may be secret.
func TestInvalidVariablesAreReported(t *testing.T) {
	for variable, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT":                        "collector:4317 hidden",
		"OTEL_EXPORTER_OTLP_PROTOCOL":                        "grpc",
		"OTEL_EXPORTER_OTLP_COMPRESSION":                     "zstd",
		"OTEL_EXPORTER_OTLP_TIMEOUT":                         "soon",
		"OTEL_EXPORTER_OTLP_HEADERS":                         "hidden",
		"OTEL_EXPORTER_OTLP_CERTIFICATE":                     "no-such-file",
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE":              "no-such-file",
		"OTEL_TRACES_EXPORTER":                               "zipkin",
		"OTEL_TRACES_SAMPLER":                                "sometimes",
		"OTEL_BSP_MAX_QUEUE_SIZE":                            "-1",
		"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "perhaps",
	} {
		env := variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
		env[variable] = value
		problems := otel.FromEnvironment(env.getenv).Problems
		if len(problems) != 1 || problems[0].Variable != variable || problems[0].Help == "" ||
			strings.Contains(problems[0].String(), "hidden") {
			t.Errorf("%s=%s: %v", variable, value, problems)
		}
	}
}

func TestSamplerVariablesSetTheShare(t *testing.T) {
	share := func(sampler, arg string) float64 {
		return otel.FromEnvironment(variables{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_SAMPLER": sampler,
			"OTEL_TRACES_SAMPLER_ARG": arg,
		}.getenv).Share
	}
	for _, c := range []struct {
		sampler, arg string
		want         float64
	}{
		{"", "", 1},
		{"always_on", "", 1},
		{"parentbased_always_off", "", 0},
		{"traceidratio", "", 1},
		{"traceidratio", "0.25", 0.25},
		{"parentbased_traceidratio", "0", 0},
		{"traceidratio", "7", 1},
	} {
		if got := share(c.sampler, c.arg); got != c.want {
			t.Errorf("%s %s: %v", c.sampler, c.arg, got)
		}
	}
}

func TestContentIsOptIn(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, "false": false, "true": true, "SPAN_ONLY": true,
		"SPAN_AND_EVENT": true, "EVENT_ONLY": false, "NO_CONTENT": false, "yes": false,
	} {
		s := otel.FromEnvironment(variables{
			"OTEL_EXPORTER_OTLP_ENDPOINT":                        "http://x",
			"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": value,
		}.getenv)
		if s.Content != want {
			t.Errorf("%q: %t", value, s.Content)
		}
	}
}
