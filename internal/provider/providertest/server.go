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

	"github.com/espalier-run/espalier/internal/provider"
)

// Protocol is how a provider speaks, as a server has to.
type Protocol string

// The protocols.
const (
	Anthropic Protocol = "anthropic"
	Chat      Protocol = "chat"
	Responses Protocol = "responses"
	Gemini    Protocol = "gemini"
)

// Server is a model server that is as strict as the real ones: it answers 400
// to a request that breaks the provider's contract or documented rules, and
// fails the test. It answers the requests of this suite.
type Server struct {
	URL string
	// Key is the only one that is accepted, in the protocol's own header.
	Key string

	t        testing.TB
	protocol Protocol

	mu   sync.Mutex
	seen []Seen
}

// Seen is a request as it arrived.
type Seen struct {
	Path   string
	Header http.Header
	Body   json.RawMessage
}

// NewServer starts a server; it ends with the test.
func NewServer(t testing.TB, protocol Protocol) *Server {
	t.Helper()
	s := &Server{t: t, protocol: protocol, Key: "the-right-key"}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Seen returns the requests so far.
func (s *Server) Seen() []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Seen(nil), s.seen...)
}

// path returns where requests have to arrive.
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

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	s.mu.Lock()
	s.seen = append(s.seen, Seen{Path: r.URL.Path, Header: r.Header, Body: body})
	s.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/models") && r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		if s.protocol.keyOf(r.Header) != s.Key {
			s.refuse(w, Trouble{Status: http.StatusUnauthorized, Code: "invalid_api_key"})
			return
		}
		fmt.Fprint(w, `{"data":[]}`)
		return
	}
	if problem := s.problem(r, body); problem != "" {
		s.t.Errorf("the request is wrong: %s\n%s", problem, body)
		s.refuse(w, Trouble{Status: http.StatusBadRequest, Code: s.protocol.invalid(), Message: problem})
		return
	}
	s.answer(w, body)
}

// problem returns what is wrong with a request.
func (s *Server) problem(r *http.Request, body []byte) string {
	err := s.protocol.Problem(body)
	switch {
	case err != nil:
		return err.Error()
	case r.URL.Path != s.protocol.path():
		return "it goes to " + r.URL.Path
	case r.Method != http.MethodPost:
		return "it is a " + r.Method
	case s.protocol.keyOf(r.Header) != s.Key:
		return fmt.Sprintf("it has the key %q", s.protocol.keyOf(r.Header))
	case s.protocol == Anthropic && r.Header.Get("Anthropic-Version") == "":
		return "it has no anthropic-version"
	case s.protocol == Gemini && r.URL.Query().Get("alt") != "sse":
		return "it does not ask for a stream of events"
	}
	return ""
}

// invalid returns what the protocol calls a request that breaks a rule.
func (p Protocol) invalid() string {
	if p == Gemini {
		return "INVALID_ARGUMENT"
	}
	return "invalid_request_error"
}

// Trouble is how a request goes wrong; a request asks for it by its text.
type Trouble struct {
	Status int    `json:"status,omitempty"`
	Code   string `json:"code,omitempty"`
	// Message is what the error says; empty is a text of its own.
	Message string            `json:"message,omitempty"`
	Header  map[string]string `json:"header,omitempty"`
	// Cut ends the connection in the middle of the reply, Garbage sends what
	// is no JSON, End ends the reply before its end, Event reports a failure
	// in the middle of it.
	Cut     bool `json:"cut,omitempty"`
	Garbage bool `json:"garbage,omitempty"`
	End     bool `json:"end,omitempty"`
	Event   bool `json:"event,omitempty"`
	// Plain sends the reply as one JSON value, not as a stream.
	Plain bool `json:"plain,omitempty"`
	// Mistyped sends a plain reply with the content type of a stream.
	Mistyped bool `json:"mistyped,omitempty"`
	// Raw is an answer that no provider gives.
	Raw string `json:"raw,omitempty"`
}

const troubleWord = "Trouble: "

// Ask returns a request that goes wrong in this way.
func (t Trouble) Ask(name string) provider.Request {
	raw, err := json.Marshal(t)
	if err != nil {
		panic(err) // texts and numbers
	}
	return ask(name, troubleWord+string(raw))
}

// refuse answers with an error in the protocol's own form.
func (s *Server) refuse(w http.ResponseWriter, t Trouble) {
	w.Header().Set("Content-Type", "application/json")
	for name, value := range t.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(t.Status)
	if t.Raw != "" {
		fmt.Fprint(w, t.Raw)
		return
	}
	w.Write(s.protocol.failure(t))
}

func (p Protocol) failure(t Trouble) []byte {
	message := cmp.Or(t.Message, "no "+t.Code)
	inner := map[string]any{"message": message, "type": t.Code}
	switch p {
	case Chat, Responses:
		inner["code"], inner["param"] = t.Code, nil
	case Gemini:
		inner = map[string]any{"message": message, "code": t.Status, "status": t.Code}
		if t.Header["Retry-Info"] != "" {
			inner["details"] = []any{map[string]any{
				"@type":      "type.googleapis.com/google.rpc.RetryInfo",
				"retryDelay": t.Header["Retry-Info"],
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

// NetworkFailures returns what every model of the network must tell apart.
func NetworkFailures(p Protocol) []Failure {
	overloaded := map[Protocol]string{Anthropic: "overloaded_error"}[p]
	out := []Failure{
		{
			Trouble{
				Status: 429, Code: "rate_limit_error",
				Header: map[string]string{"Retry-After": "7"},
			}.Ask("rate limit"),
			provider.Error{Class: provider.RateLimit, Status: 429, RetryAfter: 7 * time.Second},
		},
		{
			Trouble{Status: 529, Code: overloaded}.Ask("overloaded"),
			provider.Error{Class: provider.APIError, Status: 529},
		},
		{Trouble{Status: 500}.Ask("broken"), provider.Error{Class: provider.APIError, Status: 500}},
		{Trouble{Status: 504}.Ask("slow"), provider.Error{Class: provider.Timeout, Status: 504}},
		{
			Trouble{Status: 400, Code: "invalid_request_error"}.Ask("bad request"),
			provider.Error{Class: provider.BadRequest, Status: 400},
		},
		{
			Trouble{Status: 404, Code: "not_found_error"}.Ask("no such model"),
			provider.Error{Class: provider.BadRequest, Status: 404},
		},
		{
			Trouble{Status: 401, Code: "authentication_error"}.Ask("wrong key"),
			provider.Error{Class: provider.NotReady, Status: 401},
		},
		{
			Trouble{Status: 302, Header: map[string]string{"Location": "/elsewhere"}}.Ask("redirect"),
			provider.Error{Class: provider.BadRequest, Status: 302},
		},
		{
			Trouble{Status: 502, Raw: "<html>Bad Gateway</html>"}.Ask("proxy"),
			provider.Error{Class: provider.APIError, Status: 502},
		},
		{
			Trouble{
				Status: 200, Raw: "<html>Log in</html>",
				Header: map[string]string{"Content-Type": "text/html"},
			}.Ask("web page"),
			provider.Error{Class: provider.BadRequest, Status: 200},
		},
		{
			Trouble{Status: 200, Raw: `{"hello":"world"}`}.Ask("not a reply"),
			provider.Error{Class: provider.BadRequest, Status: 200},
		},
		{
			Trouble{Status: 200, Raw: `{"error":{"message":"slow down","code":429}}`}.Ask("hidden error"),
			provider.Error{Class: provider.RateLimit, Status: 429},
		},
		{
			Trouble{Status: 200, Raw: `{"half":`}.Ask("half a reply"),
			provider.Error{Class: provider.APIError, Status: 200, Billable: true},
		},
		{Trouble{Cut: true}.Ask("cut"), provider.Error{Billable: true, Class: provider.APIError}},
		{Trouble{End: true}.Ask("no end"), provider.Error{Billable: true, Class: provider.APIError}},
		{Trouble{Garbage: true}.Ask("garbage"), provider.Error{Billable: true, Class: provider.APIError}},
		{
			Trouble{Event: true, Code: "overloaded_error"}.Ask("in the middle"),
			provider.Error{Billable: true, Class: provider.APIError},
		},
	}
	quota := Trouble{Status: 429, Code: "insufficient_quota"}
	switch p {
	case Anthropic:
		quota = Trouble{Status: 402, Code: "billing_error"}
	case Gemini:
		quota = Trouble{Status: 402}
		// In the middle the status comes with it.
		out[len(out)-1] = Failure{
			Trouble{Event: true, Status: 503}.Ask("in the middle"),
			provider.Error{Billable: true, Class: provider.APIError, Status: 503},
		}
		out = append(out, Failure{
			Trouble{
				Status: 429, Code: "RESOURCE_EXHAUSTED",
				Header: map[string]string{"Retry-Info": "12s"},
			}.Ask("retry info"),
			provider.Error{Class: provider.RateLimit, Status: 429, RetryAfter: 12 * time.Second},
		})
	}
	return append(out, Failure{quota.Ask("quota"), provider.Error{Class: provider.NoQuota, Status: quota.Status}})
}
