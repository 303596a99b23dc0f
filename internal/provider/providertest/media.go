package providertest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/httptransport"
)

// media holds that what a tool shows reaches models that take it, as what it
// is, and that no model gets it as text.
func media(t *testing.T, p Protocol, s *Server, open func(httptransport.Options) NetworkModel) {
	image := provider.Media{Type: "image/png", Data: []byte("\x89PNG\r\n\x1a\nand so on")}
	sound := provider.Media{Type: "audio/wav", Data: []byte("RIFF....WAVEfmt and so on")}
	other := provider.Media{Type: "application/zip", Data: []byte("PK and something that is long enough")}
	for _, c := range []struct {
		model        string
		image, sound []Protocol
	}{
		{"suite", []Protocol{Gemini}, []Protocol{Gemini}}, // Gemini's own API serves no other models
		{"claude-sonnet-4-5", []Protocol{Anthropic, Chat, Responses}, nil},
		{"openai/gpt-5", []Protocol{Anthropic, Chat, Responses}, nil},
		{"gpt-4o-audio-preview", []Protocol{Anthropic, Chat, Responses}, []Protocol{Chat}},
		{"llama-3.3-70b", nil, nil},
	} {
		if p == Gemini && c.model != "suite" {
			continue
		}
		req := AskText()
		req.Model = c.model
		req.Tools = []provider.Tool{{Name: "camera"}}
		use := func(id string) provider.Block {
			return provider.Block{Type: provider.ToolUse, ToolID: id, ToolName: "camera", Input: json.RawMessage(`{}`)}
		}
		result := func(id string, shown ...provider.Media) provider.Block {
			return provider.Block{
				Type: provider.ToolResult, ToolID: id, ToolName: "camera",
				Content: json.RawMessage(`"[a placeholder of ` + id + `]"`), Media: shown,
			}
		}
		req.Messages = append(req.Messages,
			provider.Message{Role: provider.Assistant, Blocks: []provider.Block{use("t1"), use("t2")}},
			provider.Message{Role: provider.User, Blocks: []provider.Block{
				result("t1", image, other), result("t2", sound), {Type: provider.Text, Text: "What is it?"},
			}},
		)
		before := len(s.Seen())
		model := open(httptransport.Options{
			BaseURL: s.URL,
			Key:     func(context.Context) (string, error) { return s.Key, nil },
		})
		if _, err := Collect(t, model.Generate(t.Context(), req)); err != nil {
			t.Errorf("%s: %v", c.model, err)
			continue
		}
		body := string(s.Seen()[before].Body)
		for what, want := range map[string]struct {
			data []byte
			to   []Protocol
		}{"image": {image.Data, c.image}, "sound": {sound.Data, c.sound}, "file": {other.Data, nil}} {
			sent, expected := strings.Contains(body, base64.StdEncoding.EncodeToString(want.data)), false
			for _, to := range want.to {
				expected = expected || to == p
			}
			if sent != expected {
				t.Errorf("%s: the %s is sent: %t, want %t", c.model, what, sent, expected)
			}
		}
		if !strings.Contains(body, "[a placeholder of t1]") || !strings.Contains(body, "[a placeholder of t2]") {
			t.Errorf("%s: a placeholder is missing: %s", c.model, body)
		}
	}
}
