package openai_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/httptransport"
	"github.com/espalier-run/espalier/internal/provider/openai"
	"github.com/espalier-run/espalier/internal/provider/providertest"
)

func TestChatCompletionsMeetTheModelContract(t *testing.T) {
	providertest.RunNetwork(t, providertest.Chat, chat)
}

func TestResponsesAPIMeetsTheModelContract(t *testing.T) {
	providertest.RunNetwork(t, providertest.Responses, responses)
}

// OpenAI-compatible servers differ in the indexes and IDs of tool calls.
func TestToolCallsOfCompatibleServersAreAssembled(t *testing.T) {
	for name, c := range map[string]struct{ calls, want string }{
		"all have the index 0": {
			`{"index":0,"id":"a","function":{"name":"one","arguments":""}} {"index":0,"function":{"arguments":"{\"x\":"}} {"index":0,"function":{"arguments":"1}"}} ` +
				`{"index":0,"id":"b","function":{"name":"two","arguments":""}} {"index":0,"function":{"arguments":"{\"x\":"}} {"index":0,"function":{"arguments":"2}"}}`,
			`a one {"x":1}, b two {"x":2}`,
		},
		"in turns": {
			`{"index":0,"id":"a","function":{"name":"one","arguments":"{"}} {"index":1,"id":"b","function":{"name":"two","arguments":"{"}} ` +
				`{"index":0,"function":{"arguments":"}"}} {"index":1,"function":{"arguments":"}"}}`,
			`a one {}, b two {}`,
		},
		"without ids": {
			`{"index":0,"function":{"name":"one","arguments":"{}"}} {"index":1,"function":{"name":"two","arguments":"{}"}}`,
			`call-3-0 one {}, call-3-1 two {}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for call := range strings.FieldsSeq(c.calls) {
					fmt.Fprintf(w, `data: {"model":"m","choices":[{"index":0,"delta":{"tool_calls":[%s]}}]}`+"\n\n", call)
				}
				io.WriteString(w, `data: {"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+"\n\n")
			}))
			defer server.Close()
			req := providertest.AskText()
			req.For.Turn = 3
			reply, err := providertest.Collect(t,
				openai.NewChat(httptransport.Options{BaseURL: server.URL}).Generate(t.Context(), req))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range reply.Blocks {
				got = append(got, fmt.Sprintf("%s %s %s", b.ToolID, b.ToolName, b.Input))
			}
			if text := strings.Join(got, ", "); text != c.want || reply.Stop != provider.WantsTool {
				t.Errorf("got %s, stopped by %s; want %s", text, reply.Stop, c.want)
			}
		})
	}
}

// sent records the request and sends no reply.
type sent struct{ body string }

func (s *sent) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	s.body = string(raw)
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody, Request: r}, err
}

// The limit of a reply and the sampling options follow the model, also behind a
// gateway. OpenAI's own server accepts the newer name for all models.
func TestOptionsFollowTheModel(t *testing.T) {
	const gateway = "http://localhost:1/v1"
	for name, c := range map[string]struct {
		open      func(httptransport.Options) providertest.NetworkModel
		base      string
		model     string
		has, lack []string
	}{
		"own, reasoning":       {chat, "", "gpt-5", []string{`"max_completion_tokens":1000`}, []string{`"max_tokens"`, "temperature"}},
		"own, older":           {chat, "", "gpt-4o", []string{`"max_completion_tokens":1000`, `"temperature":0.5`}, []string{`"max_tokens"`}},
		"own, fine-tuned":      {chat, "", "ft:gpt-4o:acme::x", []string{`"temperature":0.5`}, nil},
		"gateway, reasoning":   {chat, gateway, "gpt-5-mini", []string{`"max_completion_tokens":1000`}, []string{`"max_tokens"`, "temperature"}},
		"gateway, with prefix": {chat, gateway, "openai/o3", []string{`"max_completion_tokens":1000`}, []string{`"max_tokens"`, "temperature"}},
		"gateway, older":       {chat, gateway, "openai/gpt-4o", []string{`"max_tokens":1000`, `"temperature":0.5`}, []string{"max_completion_tokens"}},
		"gateway, open model":  {chat, gateway, "openai/gpt-oss-120b", []string{`"max_tokens":1000`, `"temperature":0.5`}, []string{"max_completion_tokens"}},
		"gateway, another":     {chat, gateway, "meta/llama-4", []string{`"max_tokens":1000`, `"temperature":0.5`}, []string{"max_completion_tokens"}},
		"responses, reasoning": {
			responses, "", "gpt-5", []string{"reasoning.encrypted_content"}, []string{"temperature"},
		},
		"responses, older": {responses, "", "gpt-4o", []string{`"temperature":0.5`}, []string{"reasoning.encrypted_content"}},
	} {
		s := &sent{}
		req := providertest.AskText()
		req.Model = c.model
		req.Options = []byte(`{"temperature":0.5}`)
		_, _ = providertest.Collect(t, c.open(httptransport.Options{BaseURL: c.base, Base: s}).
			Generate(t.Context(), req))
		for _, want := range c.has {
			if !strings.Contains(s.body, want) {
				t.Errorf("%s: %s is missing: %s", name, want, s.body)
			}
		}
		for _, bad := range c.lack {
			if strings.Contains(s.body, bad) {
				t.Errorf("%s: has %s: %s", name, bad, s.body)
			}
		}
	}
}

func TestServersWithoutStructuredOutputGetNoSchema(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		asked = append(asked, string(raw))
		if strings.Contains(string(raw), "response_format") {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":{"message":"This response_format type is unavailable now","type":"invalid_request_error"}}`)
			return
		}
		io.WriteString(w, `{"model":"m","choices":[{"index":0,"message":{"content":"{\"answer\":\"yes\",\"score\":7}"},"finish_reason":"stop"}]}`)
	}))
	defer server.Close()
	reply, err := providertest.Collect(t, openai.NewChat(httptransport.Options{BaseURL: server.URL}).
		Generate(t.Context(), providertest.AskJSON()))
	if err != nil || len(asked) != 2 || !strings.Contains(reply.Text(), `"score":7`) {
		t.Errorf("%+v, %v, asked %d times", reply, err, len(asked))
	}
}

// The server rejects limits below 16.
func TestResponsesLimitIsAtLeast16(t *testing.T) {
	s := &sent{}
	req := providertest.AskText()
	req.MaxTokens = 5
	_, _ = providertest.Collect(t, responses(httptransport.Options{Base: s}).Generate(t.Context(), req))
	if !strings.Contains(s.body, `"max_output_tokens":16`) {
		t.Error(s.body)
	}
}

func chat(o httptransport.Options) providertest.NetworkModel      { return openai.NewChat(o) }
func responses(o httptransport.Options) providertest.NetworkModel { return openai.NewResponses(o) }

// ask returns the reply of a server that sends one body.
func ask(
	t *testing.T, open func(httptransport.Options) providertest.NetworkModel, kind, body string,
) (*provider.Reply, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, body)
	}))
	defer server.Close()
	return providertest.Collect(t, open(httptransport.Options{BaseURL: server.URL}).
		Generate(t.Context(), providertest.AskText()))
}

const (
	stream    = "text/event-stream"
	plainJSON = "application/json"
)

func TestReplyKeepsTheRefusal(t *testing.T) {
	for name, c := range map[string]struct {
		open             func(httptransport.Options) providertest.NetworkModel
		kind, body, want string
	}{
		"chat, stream": {
			chat, stream, `data: {"choices":[{"index":0,"delta":{"refusal":"I must "}}]}` + "\n\n" +
				`data: {"choices":[{"index":0,"delta":{"refusal":"not."},"finish_reason":"stop"}]}` + "\n\n", "I must not.",
		},
		"chat": {
			chat, plainJSON, `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"refusal":"I must not."},` +
				`"finish_reason":"stop"}]}`, "I must not.",
		},
		"chat, part": {
			chat, plainJSON, `{"choices":[{"index":0,"message":{"role":"assistant","content":` +
				`[{"type":"refusal","refusal":"I must not."}]},"finish_reason":"stop"}]}`, "I must not.",
		},
		"chat, filter": {
			chat, plainJSON, `{"choices":[{"index":0,"message":{"role":"assistant","content":null},` +
				`"finish_reason":"content_filter"}]}`, "the server's content filter stopped the reply",
		},
		"responses": {
			responses, plainJSON, `{"id":"r","object":"response","status":"completed","output":[{"type":"message",` +
				`"role":"assistant","content":[{"type":"refusal","refusal":"I must not."}]}]}`, "I must not.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			reply, err := ask(t, c.open, c.kind, c.body)
			if err != nil || reply.Stop != provider.Refused || reply.Refusal != c.want {
				t.Errorf("%+v, %v; want the refusal %q", reply, err, c.want)
			}
		})
	}
}

// Some servers send the content of a message as a list of parts, whole or in a stream.
func TestContentInPartsIsText(t *testing.T) {
	for name, c := range map[string]struct{ kind, body string }{
		"plain": {plainJSON, `{"choices":[{"index":0,"message":{"role":"assistant","content":[` +
			`{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},` +
			`{"type":"text","text":"Hello, "},{"type":"text","text":"world."}]},"finish_reason":"stop"}]}`},
		"stream": {stream, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":` +
			`[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}]}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"Hello, "}]}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{"content":"world."},"finish_reason":"stop"}]}` + "\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			reply, err := ask(t, chat, c.kind, c.body)
			if err != nil {
				t.Fatal(err)
			}
			want := []provider.Block{
				{Type: provider.Thinking, Text: "Hm."}, {Type: provider.Text, Text: "Hello, world."},
			}
			if diff := cmp.Diff(want, reply.Blocks); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A reply that is one JSON value is complete, even without a finish reason or with a byte order mark.
func TestPlainRepliesNeedNoFinishReason(t *testing.T) {
	for _, c := range []struct {
		choice string
		stop   provider.StopReason
	}{
		{`{"message":{"role":"assistant","content":"Yes."},"finish_reason":null}`, provider.Done},
		{`{"message":{"role":"assistant","content":"Yes."}}`, provider.Done},
		{`{"message":{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function",` +
			`"function":{"name":"weather","arguments":"{}"}}]}}`, provider.WantsTool},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, "\ufeff"+`{"id":"c","object":"chat.completion","model":"m","choices":[%s]}`, c.choice)
		}))
		model := openai.NewChat(httptransport.Options{BaseURL: server.URL})
		reply, err := providertest.Collect(t, model.Generate(t.Context(), providertest.AskTool()))
		server.Close()
		if err != nil || reply.Stop != c.stop || asked != 1 {
			t.Errorf("%s: %+v, %v after %d requests", c.choice, reply, err, asked)
		}
	}
}
