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

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/netguard"
	"github.com/espalier-run/espalier/internal/provider"
)

// Options configure the connection to a model server.
type Options struct {
	BaseURL string // "" means the provider's own server
	// Key returns the API key; it is called for each request. Nil sends none.
	Key func(context.Context) (string, error)
	// Headers returns additional headers; it is called for each request. Nil sends none.
	Headers func(context.Context) (map[string]string, error)
	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
}

// Auth is the header that carries a provider's key.
type Auth struct{ Header, Prefix string }

// Client returns an HTTP client for the SDKs of the providers. stream converts a complete reply, which servers may send
// instead of a stream, to a stream of events; it fails if the JSON is not a reply. The client has no timeout:
// provider.Deadline has one.
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

// authHeaders are all headers that an SDK may use for credentials. They are removed from each request: the key is that
// of Options, never one that an SDK has found in the environment.
var authHeaders = [...]string{
	"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Openai-Organization",
	"Openai-Project", "X-Goog-User-Project",
}

// RoundTrip returns an error for every response but success, so that statuses and headers are interpreted in one place.
// Redirects are errors too, because a key must not follow them. Headers of the configuration come before the key, so a
// header with the name of the provider's own does not replace it.
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
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // best effort: the status suffices
		return nil, ErrorFromResponse(resp.StatusCode, resp.Header, body, time.Now())
	case kind == "text/html":
		resp.Body.Close()
		return nil, &provider.Error{
			Class: ir.ClassBadRequest, Status: resp.StatusCode,
			Message: fmt.Sprintf("%s answers with a web page instead of an API response; check base_url", req.URL.Host),
		}
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxReplyBytes}
	if req.Method == http.MethodPost {
		return t.streamed(resp)
	}
	return resp, nil
}

// maxReplyBytes limits the body of a reply, in bytes. In a stream, each token takes up to a few hundred bytes, so this
// is enough for about 200,000 tokens.
const maxReplyBytes = 64 << 20

// boundedBody fails when a body is longer than maxReplyBytes.
type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, &provider.Error{
			Class:   ir.ClassBadRequest,
			Message: fmt.Sprintf("the reply is longer than %d MiB", maxReplyBytes>>20), Billable: true,
		}
	}
	return n, err
}

// streamed converts a reply that is one JSON value to a stream. It looks at the first character rather than at the
// content type, which some servers set wrongly. No line of an event stream starts with a brace or a bracket.
func (t *transport) streamed(resp *http.Response) (*http.Response, error) {
	buffered := bufio.NewReader(resp.Body)
	const byteOrderMark = "\ufeff"
	if head, err := buffered.Peek(len(byteOrderMark)); err == nil && string(head) == byteOrderMark {
		_, _ = buffered.Discard(len(byteOrderMark)) // cannot fail: the bytes are buffered
	}
	if !startsJSON(buffered) {
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
		return nil, ErrorFromResponse(statusIn(body, resp.StatusCode), resp.Header, body, time.Now())
	}
	if !json.Valid(body) {
		return nil, &provider.Error{
			Class: ir.ClassAPI, Status: resp.StatusCode, Billable: true,
			Message: "the reply is not complete JSON",
		}
	}
	out, err := t.stream(body)
	if err != nil {
		return nil, &provider.Error{
			Class: ir.ClassBadRequest, Status: resp.StatusCode,
			Message: fmt.Sprintf("the server answers with JSON that is not a model reply (check base_url): %v", err),
		}
	}
	resp.Header = resp.Header.Clone()
	resp.Header.Set("Content-Type", "text/event-stream")
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(out)), int64(len(out))
	return resp, nil
}

// startsJSON reports whether the first character that is not a space starts a
// JSON object or list.
func startsJSON(r *bufio.Reader) bool {
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

// statusIn returns the status in an error body, or else the given status. Some gateways answer 200 and report the real
// status in the body, as a number or as a string.
func statusIn(body []byte, status int) int {
	var s errorBody
	if json.Unmarshal(body, &s) == nil {
		if n, err := strconv.Atoi(strings.Trim(string(s.Error.Code), `"`)); err == nil && n >= 400 && n < 600 {
			return n
		}
	}
	return status
}

func notReady(err error) error {
	return provider.Errorf(ir.ClassMissing, "cannot resolve the API key or headers: %v", err)
}

// errorBody is the body of an error response, in the forms of all providers.
type errorBody struct {
	Error struct {
		Type    string          `json:"type"`
		Code    json.RawMessage `json:"code"` // a string, or a number from Google
		Status  string          `json:"status"`
		Message string          `json:"message"`
		Details []detail        `json:"details"`
	} `json:"error"`
}

// detail is a detail of an error from Google: a RetryInfo, a QuotaFailure or an
// ErrorInfo, which have no key in common.
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

// isDailyQuota reports whether the exhausted quota is one per day. Google
// requests a short wait even then.
func (d *detail) isDailyQuota() bool {
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

// ErrorFromResponse returns the error for an HTTP error response. The class decides what is retried: the words of the
// body count more than the status, because providers use 429 for exhausted quotas and 400 for invalid keys. now is the
// time from which a date in Retry-After is counted.
func ErrorFromResponse(status int, header http.Header, body []byte, now time.Time) *provider.Error {
	var s errorBody
	var list []errorBody // Google sometimes sends a list of one
	if json.Unmarshal(body, &s) != nil && json.Unmarshal(body, &list) == nil && len(list) > 0 {
		s = list[0]
	}
	out := &provider.Error{
		Status: status, Class: classOf(status, s), Message: s.Error.Message, RetryAfter: RetryAfter(header, now),
	}
	if out.Message == "" {
		out.Message = cmp.Or(shorten(string(body)), http.StatusText(status), "an error without a message")
	}
	defer func() { out.Message = errorPrefix(out) + out.Message }()
	for _, d := range s.Error.Details {
		switch {
		case out.Class == ir.ClassRateLimit && d.isDailyQuota():
			out.Class = ir.ClassNoQuota
		case d.Reason == "API_KEY_INVALID": // Google sends it with status 400
			out.Class = ir.ClassMissing
		}
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil && out.RetryAfter == 0 && wait > 0 {
			out.RetryAfter = wait
		}
	}
	return out
}

// errorPrefix explains an error, because messages of providers are often as terse as "model: x".
func errorPrefix(e *provider.Error) string {
	switch {
	case e.Class == ir.ClassMissing && e.Status == http.StatusForbidden:
		return "access denied (key, region or model permission): "
	case e.Class == ir.ClassMissing:
		return "the server rejects the key: "
	case e.Class == ir.ClassNoQuota:
		return "the quota is exhausted: "
	case e.Status == http.StatusNotFound:
		return "not found (404); check the model name and base_url: "
	}
	return ""
}

// The error types of Anthropic, and of servers that use its names.
const (
	overloaded   = "overloaded_error"
	rateLimit    = "rate_limit_error"
	apiError     = "api_error"
	timeoutError = "timeout_error"
	billing      = "billing_error"
)

// classOf returns the class of a failure: by the code or the type in its body, and else by its status.
func classOf(status int, s errorBody) ir.Class {
	code := strings.Trim(string(s.Error.Code), `"`)
	for _, word := range []string{code, s.Error.Type} {
		switch word {
		case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", billing:
			return ir.ClassNoQuota
		case overloaded, apiError, "server_error", "server_overloaded":
			return ir.ClassAPI
		case rateLimit, "rate_limit_exceeded":
			return ir.ClassRateLimit
		case timeoutError:
			return ir.ClassTimeout
		}
	}
	switch {
	case status == http.StatusTooManyRequests:
		return ir.ClassRateLimit
	case status == http.StatusPaymentRequired:
		return ir.ClassNoQuota
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return ir.ClassMissing
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return ir.ClassTimeout
	case status >= 500:
		return ir.ClassAPI
	}
	return ir.ClassBadRequest
}

// RetryAfter returns the wait that the headers request, in seconds or until a
// date; 0 if they request none.
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

// longest caps the waits that servers request; huge values would overflow a duration.
const longest = 24 * time.Hour

// atMostLongest converts seconds to a duration of at most longest. NaN and
// negative numbers are 0.
func atMostLongest(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, longest.Seconds()) * float64(time.Second))
}

// ErrorFromStream returns the error that a provider reports within a stream. It may be billed, because the reply had
// begun.
func ErrorFromStream(data []byte) *provider.Error {
	out := ErrorFromResponse(0, nil, data, time.Time{})
	out.Billable = true
	if out.Class == ir.ClassBadRequest {
		// The server accepted the request, so the failure is the server's.
		out.Class = ir.ClassAPI
	}
	return out
}

// ErrorFromCall converts the error of an SDK call: to the context's error if the context is done, and else to a
// *provider.Error. An error of the network may be billed unless no connection was made: the request may have been
// answered.
func ErrorFromCall(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if known, ok := errors.AsType[*provider.Error](err); ok {
		return known
	}
	var network net.Error
	var dial *net.OpError
	out := &provider.Error{Class: ir.ClassAPI, Message: netguard.ErrorText(err), Billable: true}
	if errors.As(err, &network) && network.Timeout() {
		out.Class = ir.ClassTimeout
	}
	if errors.As(err, &dial) && dial.Op == "dial" {
		out.Billable = false // the request did not reach the server
	}
	return out
}

// ErrTruncated is the error for a reply whose stream ends before the reply is
// complete.
var ErrTruncated error = &provider.Error{
	Class: ir.ClassAPI, Message: "the reply ended before it was complete", Billable: true,
}

func shorten(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Reach sends a GET request and discards the response. It returns an error
// unless the server is reachable and accepts the key.
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
		return ErrorFromCall(ctx, err)
	}
	return resp.Body.Close()
}
