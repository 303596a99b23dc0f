package providertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
)

// Protocol is the API of a provider.
type Protocol string

// The protocols.
const (
	Anthropic Protocol = "anthropic"
	Chat      Protocol = "chat"
	Responses Protocol = "responses"
	Gemini    Protocol = "gemini"
)

// Server is a test server for the requests of this suite. It is as strict as the
// real servers: if a request violates the provider's contract or documented
// rules, it answers 400 and fails the test.
type Server struct {
	URL string
	// Key is the accepted API key.
	Key string

	t        testing.TB
	protocol Protocol

	mu   sync.Mutex
	seen []ReceivedRequest
}

// ReceivedRequest is a request that the server has received.
type ReceivedRequest struct {
	Path   string
	Header http.Header
	Body   json.RawMessage
}

// NewServer starts a server that stops with the test.
func NewServer(t testing.TB, protocol Protocol) *Server {
	t.Helper()
	s := &Server{t: t, protocol: protocol, Key: "the-right-key"}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Requests returns the requests so far.
func (s *Server) Requests() []ReceivedRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]ReceivedRequest(nil), s.seen...)
}

// path returns the URL path of requests.
func (p Protocol) path() string {
	switch p {
	case Anthropic:
		return "/v1/messages"
	case Chat:
		return "/chat/completions"
	case Responses:
		return "/responses"
	}
	return "/v1beta/models/suite:streamGenerateContent"
}

// keyOf returns the key in a request's header.
func (p Protocol) keyOf(h http.Header) string {
	switch p {
	case Anthropic:
		return h.Get("X-Api-Key")
	case Gemini:
		return h.Get("X-Goog-Api-Key")
	}
	return strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
}

// ServeHTTP records a request, checks it and answers it. Requests for the list of models are those of Reach.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	s.mu.Lock()
	s.seen = append(s.seen, ReceivedRequest{Path: r.URL.Path, Header: r.Header, Body: body})
	s.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/models") && r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		if s.protocol.keyOf(r.Header) != s.Key {
			s.refuse(w, Fault{Status: http.StatusUnauthorized, Code: "invalid_api_key"})
			return
		}
		fmt.Fprint(w, `{"data":[]}`)
		return
	}
	if problem := s.problem(r, body); problem != "" {
		s.t.Errorf("invalid request: %s\n%s", problem, body)
		s.refuse(w, Fault{Status: http.StatusBadRequest, Code: s.protocol.invalid(), Message: problem})
		return
	}
	s.answer(w, body)
}

// problem returns why a request is invalid, or "".
func (s *Server) problem(r *http.Request, body []byte) string {
	err := s.protocol.Problem(body)
	switch {
	case err != nil:
		return err.Error()
	case r.URL.Path != s.protocol.path():
		return "the path is " + r.URL.Path
	case r.Method != http.MethodPost:
		return "the method is " + r.Method
	case s.protocol.keyOf(r.Header) != s.Key:
		return fmt.Sprintf("the key is %q", s.protocol.keyOf(r.Header))
	case s.protocol == Anthropic && r.Header.Get("Anthropic-Version") == "":
		return "there is no anthropic-version header"
	case s.protocol == Gemini && r.URL.Query().Get("alt") != "sse":
		return "alt is not sse"
	}
	return ""
}

// invalid returns the protocol's error code for an invalid request.
func (p Protocol) invalid() string {
	if p == Gemini {
		return "INVALID_ARGUMENT"
	}
	return "invalid_request_error"
}

// Fault is a failure that the server injects. The text of a request selects it.
type Fault struct {
	Status int    `json:"status,omitempty"`
	Code   string `json:"code,omitempty"`
	// Message is the error message; "" selects one that names the code.
	Message string            `json:"message,omitempty"`
	Header  map[string]string `json:"header,omitempty"`
	// In the middle of the reply, Cut resets the connection, Garbage sends
	// invalid JSON, End ends the stream, and Event reports an error.
	Cut     bool `json:"cut,omitempty"`
	Garbage bool `json:"garbage,omitempty"`
	End     bool `json:"end,omitempty"`
	Event   bool `json:"event,omitempty"`
	// Plain sends the reply as one JSON value, not as a stream.
	Plain bool `json:"plain,omitempty"`
	// Mistyped sends a plain reply with the content type of a stream.
	Mistyped bool `json:"mistyped,omitempty"`
	// Raw is the body to send instead of the protocol's.
	Raw string `json:"raw,omitempty"`
}

const faultPrefix = "Fault: "

// Ask returns a request that triggers the fault.
func (f Fault) Ask(name string) provider.Request {
	raw, err := json.Marshal(f)
	if err != nil {
		panic(err) // texts and numbers
	}
	return ask(name, faultPrefix+string(raw))
}

// refuse sends an error response in the protocol's format.
func (s *Server) refuse(w http.ResponseWriter, f Fault) {
	w.Header().Set("Content-Type", "application/json")
	for name, value := range f.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(f.Status)
	if f.Raw != "" {
		fmt.Fprint(w, f.Raw)
		return
	}
	w.Write(s.protocol.failure(f))
}

// failure returns the body of an error response, as each provider documents it.
func (p Protocol) failure(f Fault) []byte {
	message := cmp.Or(f.Message, "no "+f.Code)
	inner := map[string]any{"message": message, "type": f.Code}
	switch p {
	case Chat, Responses:
		inner["code"], inner["param"] = f.Code, nil
	case Gemini:
		inner = map[string]any{"message": message, "code": f.Status, "status": f.Code}
		if f.Header["Retry-Info"] != "" {
			inner["details"] = []any{map[string]any{
				"@type":      "type.googleapis.com/google.rpc.RetryInfo",
				"retryDelay": f.Header["Retry-Info"],
			}}
		}
	}
	out := map[string]any{"error": inner}
	if p == Anthropic {
		out["type"] = "error"
	}
	raw, err := json.Marshal(out)
	if err != nil {
		panic(err) // texts and numbers
	}
	return raw
}

// NetworkFailures returns the failures that every network model must classify.
func NetworkFailures(p Protocol) []Failure {
	overloaded := map[Protocol]string{Anthropic: "overloaded_error"}[p]
	out := []Failure{
		{
			Fault{
				Status: 429, Code: "rate_limit_error",
				Header: map[string]string{"Retry-After": "7"},
			}.Ask("rate limit"),
			provider.Error{Class: ir.ClassRateLimit, Status: 429, RetryAfter: 7 * time.Second},
		},
		{
			Fault{Status: 529, Code: overloaded}.Ask("overloaded"),
			provider.Error{Class: ir.ClassAPI, Status: 529},
		},
		{Fault{Status: 500}.Ask("broken"), provider.Error{Class: ir.ClassAPI, Status: 500}},
		{Fault{Status: 504}.Ask("slow"), provider.Error{Class: ir.ClassTimeout, Status: 504}},
		{
			Fault{Status: 400, Code: "invalid_request_error"}.Ask("bad request"),
			provider.Error{Class: ir.ClassBadRequest, Status: 400},
		},
		{
			Fault{Status: 404, Code: "not_found_error"}.Ask("no such model"),
			provider.Error{Class: ir.ClassBadRequest, Status: 404},
		},
		{
			Fault{Status: 401, Code: "authentication_error"}.Ask("wrong key"),
			provider.Error{Class: ir.ClassMissing, Status: 401},
		},
		{
			Fault{Status: 302, Header: map[string]string{"Location": "/elsewhere"}}.Ask("redirect"),
			provider.Error{Class: ir.ClassBadRequest, Status: 302},
		},
		{
			Fault{Status: 502, Raw: "<html>Bad Gateway</html>"}.Ask("proxy"),
			provider.Error{Class: ir.ClassAPI, Status: 502},
		},
		{
			Fault{
				Status: 200, Raw: "<html>Log in</html>",
				Header: map[string]string{"Content-Type": "text/html"},
			}.Ask("web page"),
			provider.Error{Class: ir.ClassBadRequest, Status: 200},
		},
		{
			Fault{Status: 200, Raw: `{"hello":"world"}`}.Ask("not a reply"),
			provider.Error{Class: ir.ClassBadRequest, Status: 200},
		},
		{
			Fault{Status: 200, Raw: `{"error":{"message":"slow down","code":429}}`}.Ask("hidden error"),
			provider.Error{Class: ir.ClassRateLimit, Status: 429},
		},
		{
			Fault{Status: 200, Raw: `{"half":`}.Ask("half a reply"),
			provider.Error{Class: ir.ClassAPI, Status: 200, Billable: true},
		},
		{Fault{Cut: true}.Ask("cut"), provider.Error{Billable: true, Class: ir.ClassAPI}},
		{Fault{End: true}.Ask("no end"), provider.Error{Billable: true, Class: ir.ClassAPI}},
		{Fault{Garbage: true}.Ask("garbage"), provider.Error{Billable: true, Class: ir.ClassAPI}},
		{
			Fault{Event: true, Code: "overloaded_error"}.Ask("in the middle"),
			provider.Error{Billable: true, Class: ir.ClassAPI},
		},
	}
	quota := Fault{Status: 429, Code: "insufficient_quota"}
	switch p {
	case Anthropic:
		quota = Fault{Status: 402, Code: "billing_error"}
	case Gemini:
		quota = Fault{Status: 402}
		// Gemini's error events include the status.
		out[len(out)-1] = Failure{
			Fault{Event: true, Status: 503}.Ask("in the middle"),
			provider.Error{Billable: true, Class: ir.ClassAPI, Status: 503},
		}
		out = append(out, Failure{
			Fault{
				Status: 429, Code: "RESOURCE_EXHAUSTED",
				Header: map[string]string{"Retry-Info": "12s"},
			}.Ask("retry info"),
			provider.Error{Class: ir.ClassRateLimit, Status: 429, RetryAfter: 12 * time.Second},
		})
	}
	return append(out, Failure{quota.Ask("quota"), provider.Error{Class: ir.ClassNoQuota, Status: quota.Status}})
}
