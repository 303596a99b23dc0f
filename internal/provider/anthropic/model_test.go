package anthropic_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/anthropic"
	"github.com/espalier-run/espalier/internal/provider/providertest"
	"github.com/espalier-run/espalier/internal/provider/wire"
)

func TestSuite(t *testing.T) {
	providertest.RunNetwork(t, providertest.Anthropic, func(o wire.Options) providertest.NetworkModel { return anthropic.New(o) })
}

// A thought that is not shown goes back as it came; half a call is none; and a
// conversation with tools, which is sent again in every turn, is kept in the
// cache.
func TestCutOff(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		asked = string(raw)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range []string{
			`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"sealed"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"weather","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"city\":"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}`,
			`{"type":"message_stop"}`,
		} {
			name, _, _ := strings.Cut(strings.TrimPrefix(e, `{"type":"`), `"`)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, e)
		}
	}))
	defer server.Close()
	model := anthropic.New(wire.Options{BaseURL: server.URL})
	req := providertest.AskTool()
	reply, err := providertest.Collect(t, model.Generate(t.Context(), req))
	if err != nil || reply.Stop != provider.CutOff || len(reply.Blocks) != 1 || reply.Blocks[0].Type != provider.Thinking {
		t.Fatalf("%+v, %v", reply, err)
	}
	req.Messages = append(req.Messages, provider.Message{Role: provider.Assistant, Blocks: reply.Blocks})
	if _, err := providertest.Collect(t, model.Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"data":"sealed","type":"redacted_thinking"}`, `"cache_control":{"type":"ephemeral"}`} {
		if !strings.Contains(asked, want) {
			t.Errorf("%s is missing: %s", want, asked)
		}
	}
}
