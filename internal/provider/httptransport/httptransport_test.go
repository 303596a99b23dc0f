package httptransport

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
)

func TestRetryAfterReadsSecondsAndDates(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"":                               0,
		"7":                              7 * time.Second,
		"0.5":                            time.Second / 2,
		"-3":                             0,
		"NaN":                            0,
		"1e300":                          longest,
		"soon":                           0,
		"Sun, 01 Mar 2026 12:00:30 GMT":  30 * time.Second,
		"Sunday, 01-Mar-26 12:01:00 GMT": time.Minute,
		"Sun, 01 Mar 2026 11:00:00 GMT":  0, // over
		"Sun, 01 Mar 2036 12:00:00 GMT":  longest,
	} {
		if got := RetryAfter(http.Header{"Retry-After": {text}}, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]time.Duration{
		"250": 250 * time.Millisecond, "1e300": longest, "Inf": longest, "NaN": 9 * time.Second,
	} {
		if got := RetryAfter(http.Header{"Retry-After-Ms": {text}, "Retry-After": {"9"}}, now); got != want {
			t.Errorf("%q milliseconds: %s, want %s", text, got, want)
		}
	}
}

func TestFitRejectsWhatASubsetCannotExpress(t *testing.T) {
	strict := Subset{AllRequired: true, Depth: 3}
	for name, c := range map[string]struct {
		subset   Subset
		in, want string
	}{
		"closed":           {strict, `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, `{"additionalProperties":false,"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`},
		"not all required": {strict, `{"type":"object","properties":{"a":{"type":"string"}}}`, ``},
		"optional":         {Subset{}, `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"additionalProperties":false,"properties":{"a":{"type":"string"}},"type":"object"}`},
		"too many":         {Subset{Optional: 1}, `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`, ``},
		"narrowing":        {strict, `{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"],"minProperties":1}`, `{"additionalProperties":false,"properties":{"a":{"type":"integer"}},"required":["a"],"type":"object"}`},
		"lists":            {strict, `{"type":"object","properties":{"a":{"type":"array","items":{"enum":[1,2.50]}}},"required":["a"]}`, `{"additionalProperties":false,"properties":{"a":{"items":{"enum":[1,2.50],"type":"number"},"type":"array"}},"required":["a"],"type":"object"}`},
		"values":           {Subset{}, `{"type":"object","properties":{"a":{"enum":["x",null]}}}`, `{"additionalProperties":false,"properties":{"a":{"enum":["x",null],"type":["string","null"]}},"type":"object"}`},
		"too deep":         {strict, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"array","items":{"type":"string"}}}},"required":["a"]}`, ``},
		"reference":        {strict, `{"type":"object","properties":{"a":{"$ref":"#/$defs/a~1b"}},"required":["a"],"$defs":{"a/b":{"type":"string"}}}`, `{"additionalProperties":false,"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`},
		"truth":            {Subset{PlainEnum: true}, `{"type":"object","properties":{"a":{"const":true}}}`, `{"additionalProperties":false,"properties":{"a":{"type":"boolean"}},"type":"object"}`},
		"unknown required": {strict, `{"type":"object","properties":{"a":{"type":"string"}},"required":["a","b"]}`, ``},
		"not an object":    {strict, `{"type":"array"}`, ``},
		"a map":            {strict, `{"type":"object","additionalProperties":{"type":"string"}}`, ``},
		"anything":         {Subset{}, `{"type":"object","properties":{"a":{}}}`, ``},
		"an open one":      {Subset{}, `{"type":"object","properties":{"a":{"type":"object"}}}`, ``},
		"no JSON":          {Subset{}, `{`, ``},
		"nothing":          {Subset{}, ``, ``},
	} {
		got, ok := c.subset.Fit(json.RawMessage(c.in))
		if ok != (c.want != "") || ok && string(Raw(got)) != c.want {
			t.Errorf("%s: %s, %t", name, Raw(got), ok)
		}
	}
}

func TestNamesAreAcceptedAndReversible(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		req := provider.Request{}
		seen := map[string]bool{}
		for _, name := range rapid.SliceOfDistinct(rapid.StringN(1, 100, -1), rapid.ID[string]).Draw(rt, "names") {
			req.Tools = append(req.Tools, provider.Tool{Name: name})
		}
		n := NewNames(&req)
		for _, tool := range req.Tools {
			sent := n.Out(tool.Name)
			if len(sent) == 0 || len(sent) > maxNameLength ||
				strings.Trim(sent, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" ||
				strings.Contains("0123456789-", sent[:1]) || seen[sent] {
				rt.Fatalf("%q is sent as %q", tool.Name, sent)
			}
			seen[sent] = true
			if back := n.In(sent); back != tool.Name {
				rt.Fatalf("%q comes back as %q", tool.Name, back)
			}
		}
	})
}

func TestLegalNamesAreUnchanged(t *testing.T) {
	n := NewNames(&provider.Request{Tools: []provider.Tool{
		{Name: "http.request"}, {Name: "http_request"}, {Name: "http/request"}, {Name: "http_request_2"},
	}})
	for name, want := range map[string]string{
		"http.request": "http_request_3", "http_request": "http_request",
		"http/request": "http_request_4", "http_request_2": "http_request_2",
	} {
		if sent := n.Out(name); sent != want || n.In(sent) != name {
			t.Errorf("%q is sent as %q, which comes back as %q", name, sent, n.In(sent))
		}
	}
}

func TestToolInputIsAlwaysValidJSON(t *testing.T) {
	for text, want := range map[string]string{"": "{}", ` {"a": 1} `: `{"a": 1}`, `{"a":`: `"{\"a\":"`} {
		if got := string(ToolInput(text)); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestParametersHaveTypeObject(t *testing.T) {
	for schema, want := range map[string]string{
		``:                                    `{"properties":{},"type":"object"}`,
		`[]`:                                  `{"properties":{},"type":"object"}`,
		`{"type":"string"}`:                   `{"properties":{},"type":"object"}`,
		`{"properties":[]}`:                   `{"properties":{},"type":"object"}`,
		`{"properties":{"a":{}},"title":"t"}`: `{"properties":{"a":{}},"title":"t","type":"object"}`,
		`{"oneOf":[{"properties":{"a":{"const":1}}},{"properties":{"a":{"const":2},"b":{}}},` +
			`{"properties":{"a":{"const":1}}}]}`: `{"properties":{"a":{"anyOf":[{"const":1},{"const":2}]},"b":{}},` +
			`"type":"object"}`,
		`{"properties":{"a":{"type":"string"}},"anyOf":[{"properties":{"a":{"const":"x"}}}]}`: `{"properties":` +
			`{"a":{"type":"string"}},"type":"object"}`,
	} {
		if got, err := json.Marshal(Parameters(provider.Tool{Schema: json.RawMessage(schema)})); err != nil ||
			string(got) != want {
			t.Errorf("%s: %s, %v", schema, got, err)
		}
	}
}

func TestAttemptsThatReachTheServerAreBillable(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		class    ir.Class
		billable bool
	}{
		"no server":     {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, ir.ClassAPI, false},
		"cut off":       {&net.OpError{Op: "read", Err: errors.New("connection reset")}, ir.ClassAPI, true},
		"too slow":      {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, ir.ClassTimeout, true},
		"a known error": {fmt.Errorf("post: %w", &provider.Error{Class: ir.ClassNoQuota}), ir.ClassNoQuota, false},
	} {
		var got *provider.Error
		if !errors.As(ErrorFromCall(t.Context(), c.err), &got) || got.Class != c.class || got.Billable != c.billable {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A daily quota is NoQuota, even if Google requests a short wait, and a wrong key is NotReady.
func TestGoogleErrorDetailsDecideTheClass(t *testing.T) {
	const retry = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}`
	quota := func(ids ...string) string {
		var all []string
		for _, id := range ids {
			all = append(all, fmt.Sprintf(`{"quotaMetric":"generativelanguage.googleapis.com/generate_content_free_tier_requests","quotaId":%q}`, id))
		}
		return `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[` + strings.Join(all, ",") + `]}`
	}
	info := func(reason, unit string) string {
		return fmt.Sprintf(`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":%q,"domain":"googleapis.com","metadata":{"quota_unit":%q}}`, reason, unit)
	}
	const minute, day = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
		"GenerateRequestsPerDayPerProjectPerModel-FreeTier"
	for name, c := range map[string]struct {
		status  int
		details []string
		class   ir.Class
		wait    time.Duration
	}{
		"a minute's":            {429, []string{quota(minute), retry}, ir.ClassRateLimit, 34500 * time.Millisecond},
		"a day's":               {429, []string{retry, quota(day)}, ir.ClassNoQuota, 34500 * time.Millisecond},
		"both":                  {429, []string{quota(minute, day)}, ir.ClassNoQuota, 0},
		"a minute's, by unit":   {429, []string{info("RATE_LIMIT_EXCEEDED", "1/min/{project}")}, ir.ClassRateLimit, 0},
		"a day's, by unit":      {429, []string{info("RATE_LIMIT_EXCEEDED", "1/d/{project}")}, ir.ClassNoQuota, 0},
		"a name that has a day": {429, []string{quota("MondayRequestsPerMinute-PerDayTier")}, ir.ClassRateLimit, 0},
		"no details":            {429, nil, ir.ClassRateLimit, 0},
		"a wrong key":           {400, []string{info("API_KEY_INVALID", "")}, ir.ClassMissing, 0},
		"a wrong request":       {400, []string{info("FIELD_INVALID", "")}, ir.ClassBadRequest, 0},
		"overloaded":            {503, []string{quota(day)}, ir.ClassAPI, 0},
	} {
		body := fmt.Sprintf(`{"error":{"code":%d,"message":"per day, quota, api key","status":"RESOURCE_EXHAUSTED","details":[%s]}}`, c.status, strings.Join(c.details, ","))
		for _, form := range []string{body, "[" + body + "]"} {
			if got := ErrorFromResponse(c.status, nil, []byte(form), time.Time{}); got.Class != c.class ||
				got.RetryAfter != c.wait {
				t.Errorf("%s: %s after %s", name, got.Class, got.RetryAfter)
			}
		}
	}
}

func TestErrorMessagesNameTheCause(t *testing.T) {
	refused := &url.Error{Op: "Post", URL: "http://127.0.0.1:9/v1/messages", Err: &net.OpError{
		Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
	}}
	for err, want := range map[error]string{
		refused: "127.0.0.1:9 cannot be reached: connection refused",
		&url.Error{Op: "Post", URL: "https://api.example.com/v1", Err: io.ErrUnexpectedEOF}: "the connection to " +
			"api.example.com broke: unexpected EOF",
	} {
		var got *provider.Error
		if !errors.As(ErrorFromCall(t.Context(), err), &got) || got.Message != want {
			t.Errorf("%v", got)
		}
	}
	for status, want := range map[int]string{
		401: "the server rejects the key: model: x", 402: "the quota is exhausted: model: x",
		403: "access denied (key, region or model permission): model: x",
		404: "not found (404); check the model name and base_url: model: x", 400: "model: x",
	} {
		if got := ErrorFromResponse(status, nil, []byte(`{"error":{"message":"model: x"}}`), time.Time{}); got.Message != want {
			t.Errorf("%d: %s", status, got.Message)
		}
	}
}
