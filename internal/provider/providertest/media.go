package providertest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/httptransport"
)

// mediaTypes are the types of images and sounds that each protocol documents.
var mediaTypes = map[Protocol][]string{
	Anthropic: {"image/jpeg", "image/png", "image/gif", "image/webp"},
	Chat:      {"image/jpeg", "image/png", "image/gif", "image/webp", "audio/wav", "audio/mp3"},
	Responses: {"image/jpeg", "image/png", "image/gif", "image/webp"},
	Gemini: {
		"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif",
		"audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac",
	},
}

// dataURL matches media in a text.
var dataURL = regexp.MustCompile(`data:[a-z]+/[a-z0-9.+-]+;base64,`)

// mediaIn returns the media blocks of a request, in the protocol's format. It returns an error for blocks that the
// real server rejects, and for media in a text.
func (p Protocol) mediaIn(value any) ([]provider.Media, error) {
	var out []provider.Media
	var inside []any
	switch v := value.(type) {
	case string:
		if dataURL.MatchString(v) {
			return nil, fmt.Errorf("media is sent as a text: %.60q", v)
		}
	case []any:
		inside = v
	case map[string]any:
		if kind, data, ok := p.mediaBlock(v); ok {
			one, err := p.checkMedia(kind, data)
			return []provider.Media{one}, err
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			inside = append(inside, v[key])
		}
	}
	for _, one := range inside {
		more, err := p.mediaIn(one)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// mediaBlock returns the type and the base64 of a block of media. ok is false for everything else.
func (p Protocol) mediaBlock(block map[string]any) (kind, data string, ok bool) {
	text := func(path ...any) string {
		out, _ := at(block, path...).(string)
		return out
	}
	fromURL := func(url string) (kind, data string, ok bool) {
		head, data, _ := strings.Cut(url, ";base64,")
		if kind = strings.TrimPrefix(head, "data:"); !strings.HasPrefix(kind, "image/") {
			kind = "" // not an image
		}
		return kind, data, true
	}
	switch {
	case p == Anthropic && block["type"] == "image":
		return text("source", "media_type"), text("source", "data"), true
	case p == Chat && block["type"] == "image_url":
		return fromURL(text("image_url", "url"))
	case p == Chat && block["type"] == "input_audio":
		return "audio/" + text("input_audio", "format"), text("input_audio", "data"), true
	case p == Responses && block["type"] == "input_image":
		return fromURL(text("image_url"))
	case p == Gemini && block["inlineData"] != nil:
		return text("inlineData", "mimeType"), text("inlineData", "data"), true
	}
	return "", "", false
}

// checkMedia decodes media. Real servers reject data that is not of its type.
func (p Protocol) checkMedia(kind, data string) (provider.Media, error) {
	out := provider.Media{Type: kind}
	if !slices.Contains(mediaTypes[p], kind) {
		return out, fmt.Errorf("media of type %q is not supported", kind)
	}
	var err error
	if out.Data, err = base64.StdEncoding.DecodeString(data); err != nil || len(out.Data) == 0 {
		return out, fmt.Errorf("the media is not base64: %.60q", data)
	}
	found := strings.Replace(http.DetectContentType(out.Data), "audio/wave", "audio/wav", 1)
	known := []string{"image/jpeg", "image/png", "image/gif", "image/webp", "audio/wav"}
	if found != kind && (slices.Contains(known, found) || slices.Contains(known, kind)) {
		return out, fmt.Errorf("media of type %s is declared as %s", found, kind)
	}
	return out, nil
}

// media checks that media of tool results are sent to models that accept their
// type, and never as text.
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
		before := len(s.Requests())
		model := open(httptransport.Options{
			BaseURL: s.URL,
			Key:     func(context.Context) (string, error) { return s.Key, nil },
		})
		if _, err := Collect(t, model.Generate(t.Context(), req)); err != nil {
			t.Errorf("%s: %v", c.model, err)
			continue
		}
		body, err := decode(s.Requests()[before].Body)
		if err != nil {
			t.Fatal(err)
		}
		var want []provider.Media
		if slices.Contains(c.image, p) {
			want = append(want, image)
		}
		if slices.Contains(c.sound, p) {
			want = append(want, sound)
		}
		got, err := p.mediaIn(body)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the blocks are %v, %v; want %v", c.model, got, err, want)
		}
		texts := strings.Join(p.textsIn(body), "\n")
		for _, m := range []provider.Media{image, sound, other} {
			for _, coding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
				if start := coding.EncodeToString(m.Data)[:16]; strings.Contains(texts, start) {
					t.Errorf("%s: %s is sent as a text", c.model, m.Type)
				}
			}
		}
		if !strings.Contains(texts, "[a placeholder of t1]") || !strings.Contains(texts, "[a placeholder of t2]") {
			t.Errorf("%s: a placeholder is missing: %s", c.model, texts)
		}
	}
}

// textsIn returns the texts of a request without its media blocks.
func (p Protocol) textsIn(value any) []string {
	var out []string
	switch v := value.(type) {
	case string:
		out = append(out, v)
	case []any:
		for _, one := range v {
			out = append(out, p.textsIn(one)...)
		}
	case map[string]any:
		if _, _, ok := p.mediaBlock(v); ok {
			return nil
		}
		for _, one := range v {
			out = append(out, p.textsIn(one)...)
		}
	}
	return out
}
