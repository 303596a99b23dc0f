package anthropic_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/anthropic"
	"github.com/espalier-run/espalier/internal/provider/httptransport"
	"github.com/espalier-run/espalier/internal/provider/providertest"
)

// A model calls a tool with every property that it was offered. The tool gets them under its own names, and the
// server gets the call back as it sent it.
func TestPropertiesWithIllegalNamesKeepTheirNames(t *testing.T) {
	var sent []map[string]json.RawMessage // inputs in the second request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = providertest.Anthropic.Problem(body)
		}
		var request struct {
			Tools []struct {
				Schema struct {
					Properties map[string]struct {
						Const json.RawMessage `json:"const"`
					} `json:"properties"`
					Required []string `json:"required"`
				} `json:"input_schema"`
			} `json:"tools"`
			Messages []struct {
				Content []struct {
					Type  string                     `json:"type"`
					Input map[string]json.RawMessage `json:"input"`
				} `json:"content"`
			} `json:"messages"`
		}
		if err == nil {
			err = json.Unmarshal(body, &request)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, body)
			return
		}
		for _, m := range request.Messages {
			for _, b := range m.Content {
				if b.Type == "tool_use" {
					sent = append(sent, b.Input)
				}
			}
		}
		input := map[string]json.RawMessage{}
		for name, property := range request.Tools[0].Schema.Properties {
			input[name] = property.Const
		}
		for _, name := range request.Tools[0].Schema.Required {
			if input[name] == nil {
				t.Errorf("%q is required and not a property", name)
			}
		}
		raw, err := json.Marshal(input)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"m","type":"message","role":"assistant","model":"suite","stop_reason":"tool_use",
			"usage":{"input_tokens":1,"output_tokens":1},
			"content":[{"type":"tool_use","id":"t%d","name":"list","input":%s}]}`, len(request.Messages), raw)
	}))
	defer server.Close()
	model := anthropic.New(httptransport.Options{BaseURL: server.URL})
	req := providertest.AskText()
	req.Tools = []provider.Tool{{Name: "list", Schema: json.RawMessage(`{"type":"object","properties":{
		"filter[name]":{"const":1},"filter_name_":{"const":2},"filter(name)":{"const":3},"größe":{"const":4},
		"n":{"const":9007199254740993}},"required":["filter[name]","n"]}`)}}
	reply, err := providertest.Collect(t, model.Generate(t.Context(), req))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"filter(name)":3,"filter[name]":1,"filter_name_":2,"größe":4,"n":9007199254740993}`
	if got := string(reply.Blocks[0].Input); got != want {
		t.Errorf("the tool gets %s, want %s", got, want)
	}
	req.Messages = append(req.Messages, provider.Message{Role: provider.Assistant, Blocks: reply.Blocks},
		provider.Message{Role: provider.User, Blocks: []provider.Block{
			{Type: provider.ToolResult, ToolID: reply.Blocks[0].ToolID, ToolName: "list", Content: json.RawMessage(`"done"`)},
		}})
	if _, err := providertest.Collect(t, model.Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	if len(sent) != 1 || len(sent[0]) != 5 || string(sent[0]["filter_name_"]) != "2" || sent[0]["filter[name]"] != nil {
		t.Errorf("the call is sent back as %s", sent)
	}
}
