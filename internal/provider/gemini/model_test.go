package gemini_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/gemini"
	"github.com/espalier-run/espalier/internal/provider/httptransport"
	"github.com/espalier-run/espalier/internal/provider/providertest"
)

func TestGeminiMeetsTheModelContract(t *testing.T) {
	providertest.RunNetwork(t, providertest.Gemini,
		func(o httptransport.Options) providertest.NetworkModel { return gemini.New(o) })
}

// Options may be written in camel case, as in Google's documentation, or with
// underscores.
func TestOptionsAreSentInTheirPlace(t *testing.T) {
	s := providertest.NewServer(t, providertest.Gemini)
	s.Key = ""
	m := gemini.New(httptransport.Options{BaseURL: s.URL})
	req := providertest.AskText()
	req.Options = json.RawMessage(`{"top_p":0.25,"safety_settings":[]}`)
	if _, err := providertest.Collect(t, m.Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		SafetySettings   []any
		GenerationConfig struct {
			TopP            float64
			MaxOutputTokens int
		}
	}
	if err := json.Unmarshal(s.Requests()[0].Body, &sent); err != nil {
		t.Fatal(err)
	}
	if sent.SafetySettings == nil || sent.GenerationConfig.TopP != 0.25 ||
		sent.GenerationConfig.MaxOutputTokens != req.MaxTokens {
		t.Errorf("sent %s", s.Requests()[0].Body)
	}
}

// The arguments of a call keep all digits of their numbers.
func TestArgumentsAreNotRounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"weather","args":{"n":9007199254740993,"x":0.10}}}]},"finishReason":"STOP"}]}`+"\n\n")
	}))
	defer server.Close()
	r, err := providertest.Collect(t, gemini.New(httptransport.Options{BaseURL: server.URL}).
		Generate(t.Context(), providertest.AskText()))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Blocks[0].Input); got != `{"n":9007199254740993,"x":0.10}` {
		t.Errorf("got %s", got)
	}
}

// generate returns the reply of a server that sends one JSON value.
func generate(t *testing.T, body string) (*provider.Reply, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, body)
	}))
	defer server.Close()
	model := gemini.New(httptransport.Options{BaseURL: server.URL})
	return providertest.Collect(t, model.Generate(t.Context(), providertest.AskText()))
}

// A reply that is one JSON value is complete, even without a finish reason.
func TestPlainRepliesNeedNoFinishReason(t *testing.T) {
	const yes = `{"candidates":[{"content":{"role":"model","parts":[{"text":"Yes."}]}}]}`
	for body, stop := range map[string]provider.StopReason{
		yes:             provider.Done,
		"[" + yes + "]": provider.Done,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"weather","args":{}}}]}}]}`: provider.WantsTool,
	} {
		if reply, err := generate(t, body); err != nil || reply.Stop != stop {
			t.Errorf("%s: %+v, %v; want %s", body, reply, err, stop)
		}
	}
	for _, empty := range []string{`{"candidates":[]}`, `{"candidates":[{}]}`} {
		if reply, err := generate(t, empty); err == nil {
			t.Errorf("%s is a reply: %+v", empty, reply)
		}
	}
}

// A refusal keeps the reason of the server.
func TestRefusalKeepsItsReason(t *testing.T) {
	for body, want := range map[string]string{
		`{"candidates":[{"finishReason":"SAFETY"}]}`: "the server stopped the reply: SAFETY",
		`{"candidates":[{"finishReason":"PROHIBITED_CONTENT","finishMessage":"Not allowed."}]}`: "the server stopped the reply: " +
			"PROHIBITED_CONTENT, Not allowed.",
		`{"promptFeedback":{"blockReason":"SAFETY"}}`: "the server blocked the prompt: SAFETY",
		`{"promptFeedback":{"blockReason":"OTHER","blockReasonMessage":"Not allowed."}}`: "the server blocked the prompt: " +
			"OTHER, Not allowed.",
	} {
		if reply, err := generate(t, body); err != nil || reply.Stop != provider.Refused || reply.Refusal != want {
			t.Errorf("%s: %+v, %v; want the refusal %q", body, reply, err, want)
		}
	}
}
