package httptransport

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/netguard"
	"github.com/espalier-run/espalier/internal/provider"
)

// Options is how a server of models is reached.
type Options struct {
	BaseURL string // empty is the provider's own
	// Key finds the key at the moment of use; nil sends none.
	Key func(context.Context) (string, error)
	// Headers finds further headers at the moment of use; nil sends none.
	Headers func(context.Context) (map[string]string, error)
	// Base carries the requests; nil is the usual way.
	Base http.RoundTripper
}

// Auth is the header that carries a provider's key.
type Auth struct{ Header, Prefix string }

// Client returns an HTTP client for the SDKs of the providers. stream turns a
// whole reply, which servers may send in place of a stream, into a stream of
// events; it fails when the JSON is not a reply.
func (o Options) Client(auth Auth, stream func(body []byte) ([]byte, error)) *http.Client {
	base := cmp.Or(o.Base, http.DefaultTransport)
	return &http.Client{Transport: &transport{options: o, auth: auth, stream: stream, base: base}}
}

type transport struct {
	options Options
	auth    Auth
	stream  func([]byte) ([]byte, error)
	base    http.RoundTripper
}

// authHeaders are all headers that a library may have put a key into.
var authHeaders = [...]string{
	"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Openai-Organization",
	"Openai-Project", "X-Goog-User-Project",
}

// RoundTrip turns every answer but success into an error, so that there is one
// place that knows what statuses and headers mean. Redirects are refusals,
// too: a key must not follow them.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	req = req.Clone(ctx)
	for _, name := range authHeaders {
		req.Header.Del(name)
	}
	if t.options.Headers != nil {
		headers, err := t.options.Headers(ctx)
		if err != nil {
			return nil, notReady(err)
		}
		for name, value := range headers {
			req.Header.Set(name, value)
		}
	}
	if t.options.Key != nil {
		key, err := t.options.Key(ctx)
		if err != nil {
			return nil, notReady(err)
		}
		req.Header.Set(t.auth.Header, t.auth.Prefix+key)
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode >= 300:
		defer resp.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what there is of it
		return nil, Refusal(resp.StatusCode, resp.Header, body, time.Now())
	case kind == "text/html":
		resp.Body.Close()
		return nil, &provider.Error{
			Class: provider.BadRequest, Status: resp.StatusCode,
			Message: fmt.Sprintf("%s answers with a web page, so it is no server of models", req.URL.Host),
		}
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: longestReply}
	if req.Method == http.MethodPost {
		return t.streamed(resp)
	}
	return resp, nil
}

// longestReply bounds the body of a reply. In a stream, each token takes up to a few hundred bytes.
const longestReply = 64 << 20

// boundedBody fails when a body is longer than longestReply.
type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, &provider.Error{
			Class:   provider.BadRequest,
			Message: fmt.Sprintf("the reply is longer than %d MiB", longestReply>>20), Billable: true,
		}
	}
	return n, err
}

// streamed turns a reply that is one JSON value into a stream. The first character decides: some servers send JSON as
// text/event-stream, or a stream as JSON. No line of a stream of events begins with a brace or a bracket.
func (t *transport) streamed(resp *http.Response) (*http.Response, error) {
	buffered := bufio.NewReader(resp.Body)
	const mark = "\ufeff" // a byte order mark
	if head, err := buffered.Peek(len(mark)); err == nil && string(head) == mark {
		_, _ = buffered.Discard(len(mark)) // it is in the buffer
	}
	if !beginsJSON(buffered) {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{buffered, resp.Body}
		return resp, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(buffered)
	if err != nil {
		return nil, err
	}
	var failed struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &failed) == nil && len(failed.Error) > 0 && string(failed.Error) != "null" {
		return nil, Refusal(statusIn(body, resp.StatusCode), resp.Header, body, time.Now())
	}
	if !json.Valid(body) {
		return nil, &provider.Error{
			Class: provider.APIError, Status: resp.StatusCode, Billable: true,
			Message: "the reply is not complete JSON",
		}
	}
	out, err := t.stream(body)
	if err != nil {
		return nil, &provider.Error{
			Class: provider.BadRequest, Status: resp.StatusCode,
			Message: fmt.Sprintf("the server answers with JSON that is not a reply: %v", err),
		}
	}
	resp.Header = resp.Header.Clone()
	resp.Header.Set("Content-Type", "text/event-stream")
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(out)), int64(len(out))
	return resp, nil
}

// beginsJSON reports whether the first character that is not a space begins a
// JSON object or list.
func beginsJSON(r *bufio.Reader) bool {
	for n := 1; n <= r.Size(); n++ {
		head, err := r.Peek(n)
		if err != nil {
			return false
		}
		switch head[n-1] {
		case ' ', '\t', '\r', '\n':
		case '{', '[':
			return true
		default:
			return false
		}
	}
	return false
}

// statusIn returns the status that an error in the body names: some gateways
// answer 200 and put it there.
func statusIn(body []byte, status int) int {
	var s said
	if json.Unmarshal(body, &s) == nil {
		if n, err := strconv.Atoi(strings.Trim(string(s.Error.Code), `"`)); err == nil && n >= 400 && n < 600 {
			return n
		}
	}
	return status
}

func notReady(err error) error {
	return provider.Errorf(provider.NotReady, "the key cannot be read: %v", err)
}

// said is what the providers put into the body of a refusal.
type said struct {
	Error struct {
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"` // a text, or a number at Google
		Status  string          `json:"status"`
		Message string          `json:"message"`
		Details []detail        `json:"details"`
	} `json:"error"`
}

// detail is what Google adds to a refusal: a RetryInfo, a QuotaFailure or an
// ErrorInfo, whose keys do not get into each other's way.
type detail struct {
	RetryDelay string `json:"retryDelay"`
	Violations []struct {
		QuotaID string `json:"quotaId"` // such as GenerateRequestsPerDayPerProjectPerModel-FreeTier
	} `json:"violations"`
	Reason   string `json:"reason"`
	Metadata struct {
		QuotaUnit string `json:"quota_unit"` // such as 1/d/{project}
	} `json:"metadata"`
}

// untilTomorrow reports whether a quota is exhausted that renews with the next
// day, at the earliest. Google asks for a short wait even then.
func (d *detail) untilTomorrow() bool {
	for _, v := range d.Violations {
		name, _, _ := strings.Cut(v.QuotaID, "-")
		if slices.Contains(strings.Split(name, "Per"), "Day") {
			return true
		}
	}
	_, per, _ := strings.Cut(d.Metadata.QuotaUnit, "/")
	unit, _, _ := strings.Cut(per, "/")
	return unit == "d"
}

// Refusal returns what an answer with this status means.
func Refusal(status int, header http.Header, body []byte, now time.Time) *provider.Error {
	var s said
	var list []said // Google sometimes answers with a list of one
	if json.Unmarshal(body, &s) != nil && json.Unmarshal(body, &list) == nil && len(list) > 0 {
		s = list[0]
	}
	out := &provider.Error{
		Status: status, Class: classOf(status, s), Message: s.Error.Message, RetryAfter: RetryAfter(header, now),
	}
	if out.Message == "" {
		out.Message = cmp.Or(shorten(string(body)), http.StatusText(status), "the server refuses")
	}
	defer func() { out.Message = about(out) + out.Message }()
	for _, d := range s.Error.Details {
		switch {
		case out.Class == provider.RateLimit && d.untilTomorrow():
			out.Class = provider.NoQuota
		case d.Reason == "API_KEY_INVALID": // which Google calls a wrong request
			out.Class = provider.NotReady
		}
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil && out.RetryAfter == 0 && wait > 0 {
			out.RetryAfter = wait
		}
	}
	return out
}

// about returns what a refusal is about, which providers often do not say: "model: x".
func about(e *provider.Error) string {
	switch {
	case e.Class == provider.NotReady:
		return "the server rejects the key: "
	case e.Class == provider.NoQuota:
		return "the quota is exhausted: "
	case e.Status == http.StatusNotFound:
		return "the server does not have it: "
	}
	return ""
}

// What providers call their refusals, where the status does not say it all.
const (
	overloaded     = "overloaded_error"
	rateLimit      = "rate_limit_error"
	apiTrouble     = "api_error"
	timeoutTrouble = "timeout_error"
	billing        = "billing_error"
)

func classOf(status int, s said) provider.Class {
	code := strings.Trim(string(s.Error.Code), `"`)
	for _, word := range []string{code, s.Error.Type} {
		switch word {
		case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", billing:
			return provider.NoQuota
		case overloaded, apiTrouble, "server_error", "server_overloaded":
			return provider.APIError
		case rateLimit, "rate_limit_exceeded":
			return provider.RateLimit
		case timeoutTrouble:
			return provider.Timeout
		}
	}
	switch {
	case status == http.StatusTooManyRequests:
		return provider.RateLimit
	case status == http.StatusPaymentRequired:
		return provider.NoQuota
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return provider.NotReady
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return provider.Timeout
	case status >= 500:
		return provider.APIError
	}
	return provider.BadRequest
}

// RetryAfter reads how long to wait: a number of seconds, or a date.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return atMostLongest(ms / 1000)
	}
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		return atMostLongest(seconds)
	}
	if date, err := http.ParseTime(text); err == nil && date.After(now) {
		return min(date.Sub(now), longest)
	}
	return 0
}

const longest = 24 * time.Hour

// atMostLongest returns a number of seconds; what is none, or less, is 0.
func atMostLongest(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, longest.Seconds()) * float64(time.Second))
}

// InStream returns an error that a provider reports in the middle of a reply.
func InStream(data []byte) *provider.Error {
	out := Refusal(0, nil, data, time.Time{})
	out.Billable = true
	if out.Class == provider.BadRequest {
		// It was good enough to begin with an answer, so the fault is theirs.
		out.Class = provider.APIError
	}
	return out
}

// Failed returns the error of a call in our own words: the context's when that is
// over, the server's when it has said something.
func Failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if known, ok := errors.AsType[*provider.Error](err); ok {
		return known
	}
	var network net.Error
	var dial *net.OpError
	out := &provider.Error{Class: provider.APIError, Message: netguard.ErrorText(err), Billable: true}
	if errors.As(err, &network) && network.Timeout() {
		out.Class = provider.Timeout
	}
	if errors.As(err, &dial) && dial.Op == "dial" {
		out.Billable = false // it did not reach the server
	}
	return out
}

// BrokeOff returns the error of a reply that ends without an end.
func BrokeOff() error {
	return &provider.Error{Class: provider.APIError, Message: "the reply broke off before its end", Billable: true}
}

func shorten(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Reach asks for something that costs nothing, and drops the answer.
func Reach(ctx context.Context, client *http.Client, url string, header http.Header) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := client.Do(req)
	if err != nil {
		return Failed(ctx, err)
	}
	return resp.Body.Close()
}
