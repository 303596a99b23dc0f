package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/httptransport"
)

// BaseURL is Anthropic's own server.
const BaseURL = "https://api.anthropic.com/"

// Model implements provider.Model with the Messages API.
type Model struct {
	messages sdk.MessageService
	http     *http.Client
	base     string
}

// New returns a model. It sends no request. The SDK does not retry: provider.Retry does, and records each attempt.
func New(o httptransport.Options) *Model {
	base := cmp.Or(o.BaseURL, BaseURL)
	// Use the service rather than the SDK's client, which reads keys and
	// addresses from the environment.
	client := o.Client(httptransport.Auth{Header: "X-Api-Key"}, events)
	base = strings.TrimSuffix(base, "/") + "/"
	return &Model{http: client, base: base, messages: sdk.NewMessageService(
		option.WithBaseURL(base), option.WithHTTPClient(client), option.WithMaxRetries(0),
	)}
}

// Reach returns an error unless the server is reachable and accepts the key. It is free of charge.
func (m *Model) Reach(ctx context.Context) error {
	return httptransport.Reach(ctx, m.http, m.base+"v1/models", http.Header{"Anthropic-Version": {"2023-06-01"}})
}

// OptionNames returns the names of common options in the Messages API.
func OptionNames(model string) httptransport.OptionNames {
	d := httptransport.OptionNames{
		httptransport.Stop: "stop_sequences", httptransport.Seed: "",
		httptransport.PresencePenalty: "", httptransport.FrequencyPenalty: "",
	}
	if !acceptsSampling(model) {
		d[httptransport.Temperature], d[httptransport.TopP], d[httptransport.TopK] = "", "", ""
	}
	return d
}

// acceptsSampling reports whether the model accepts temperature, top_p and top_k;
// Anthropic's models since Opus 4.7 and Claude 5 reject them.
func acceptsSampling(model string) bool {
	if !strings.HasPrefix(model, "claude-") {
		return true
	}
	for _, old := range []string{
		"claude-2", "claude-3", "claude-instant", "claude-haiku-4", "claude-sonnet-4", "claude-opus-4-0",
		"claude-opus-4-1", "claude-opus-4-2025", "claude-opus-4-5", "claude-opus-4-6",
	} {
		if strings.HasPrefix(model, old) {
			return true
		}
	}
	return model == "claude-opus-4"
}

// reservedKeys are keys of a request that options must not set.
var reservedKeys = []string{"model", "messages", "system", "max_tokens", "tools", "output_config"}

// Generate streams one reply with the Messages API. The SDK accumulates the message; inputs of tools are accumulated
// here as well, because it drops those that are cut off. The stream is complete with message_stop.
func (m *Model) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return provider.Stream(ctx, &req, func(emit func(provider.Chunk) bool) (*provider.Reply, error) {
		extra, err := OptionNames(req.Model).Extra(req.Options, reservedKeys...)
		if err != nil {
			return nil, err
		}
		var options []option.RequestOption
		if extra[httptransport.Stream] != nil {
			delete(extra, httptransport.Stream)
			options = append(options, option.WithMiddleware(httptransport.DisableStreaming))
		}
		for key, value := range extra {
			options = append(options, option.WithJSONSet(key, value))
		}
		names := newNames(&req)
		stream := m.messages.NewStreaming(ctx, params(&req, names), options...)
		defer stream.Close()
		var whole sdk.Message
		inputs := map[int64]string{}
		ended := false
		for stream.Next() {
			event := stream.Current()
			if err := whole.Accumulate(event); err != nil {
				return nil, &provider.Error{Class: ir.ClassAPI, Message: err.Error(), Billable: true}
			}
			chunk := provider.Chunk{}
			switch {
			case event.Type == "message_stop":
				ended = true
			case event.Type == "content_block_delta" && event.Delta.Type == "input_json_delta":
				inputs[event.Index] += event.Delta.PartialJSON
			case event.Type == "content_block_start" && event.ContentBlock.Type == "text":
				chunk = provider.Chunk{Type: provider.Text, Text: event.ContentBlock.Text}
			case event.Type == "content_block_delta" && event.Delta.Type == "text_delta":
				chunk = provider.Chunk{Type: provider.Text, Text: event.Delta.Text}
			case event.Type == "content_block_start" && event.ContentBlock.Type == "thinking":
				chunk = provider.Chunk{Type: provider.Thinking, Text: event.ContentBlock.Thinking}
			case event.Type == "content_block_delta" && event.Delta.Type == "thinking_delta":
				chunk = provider.Chunk{Type: provider.Thinking, Text: event.Delta.Thinking}
			}
			if chunk.Text != "" && !emit(chunk) {
				return nil, nil
			}
			if ended {
				break
			}
		}
		if err := stream.Err(); err != nil {
			return nil, callError(ctx, err)
		}
		if err := httptransport.CheckComplete(ctx, ended); err != nil {
			return nil, err
		}
		return reply(&whole, inputs, names), nil
	})
}

// events converts a complete message to an equivalent event stream: each block starts with its whole content, and there
// are no deltas.
func events(body []byte) ([]byte, error) {
	var message map[string]json.RawMessage
	var content []json.RawMessage
	if err := json.Unmarshal(body, &message); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(message["content"], &content); err != nil {
		return nil, errors.New(`no "content"`)
	}
	start := maps.Clone(message)
	start["content"], start["stop_reason"] = json.RawMessage("[]"), json.RawMessage("null")
	var out httptransport.EventStream
	out.Add("message_start", map[string]any{"message": start})
	for i, block := range content {
		out.Add("content_block_start", map[string]any{"index": i, "content_block": block})
		out.Add("content_block_stop", map[string]any{"index": i})
	}
	delta := map[string]any{}
	for _, key := range []string{"stop_reason", "stop_sequence", "stop_details"} {
		delta[key] = message[key]
	}
	out.Add("message_delta", map[string]any{"delta": delta, "usage": message["usage"]})
	out.Add("message_stop", map[string]any{})
	return out.Data, out.Err
}

// callError converts the error of a call; it also handles errors within a stream.
func callError(ctx context.Context, err error) error {
	if inStream, ok := errors.AsType[*sdk.Error](err); ok && ctx.Err() == nil {
		return httptransport.ErrorFromStream([]byte(inStream.RawJSON()))
	}
	return httptransport.ErrorFromCall(ctx, err)
}

// names translates the names of tools and of their properties.
type names struct {
	*httptransport.Names
	schemas    map[string]map[string]json.RawMessage // by tool
	properties map[string]*httptransport.Properties
}

func newNames(req *provider.Request) *names {
	n := &names{
		Names: httptransport.NewNames(req), schemas: map[string]map[string]json.RawMessage{},
		properties: map[string]*httptransport.Properties{},
	}
	for _, t := range req.Tools {
		schema := httptransport.Parameters(t)
		n.properties[t.Name] = httptransport.NewProperties(schema)
		n.schemas[t.Name] = n.properties[t.Name].Schema(schema)
	}
	return n
}

// params returns the body of a request. A system prompt of white space is left out, because the server rejects it.
func params(req *provider.Request, names *names) sdk.MessageNewParams {
	p := sdk.MessageNewParams{Model: sdk.Model(req.Model), MaxTokens: int64(req.MaxTokens)}
	if strings.TrimSpace(req.System) != "" {
		p.System = []sdk.TextBlockParam{{Text: req.System}}
	}
	convert := func(b provider.Block) (sdk.ContentBlockParamUnion, bool) {
		return block(b, names, httptransport.HasVision(req.Model))
	}
	for _, turn := range httptransport.Turns(req.Messages, convert) {
		if turn.Role == provider.Assistant {
			p.Messages = append(p.Messages, sdk.NewAssistantMessage(turn.Blocks...))
		} else {
			p.Messages = append(p.Messages, sdk.NewUserMessage(turn.Blocks...))
		}
	}
	for _, t := range req.Tools {
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: tool(t, names)})
	}
	if len(req.Tools) > 0 {
		// Each turn sends the whole conversation again, so cache it.
		p.CacheControl = sdk.NewCacheControlEphemeralParam()
	}
	if schema, ok := enforced.Fit(req.Schema); ok && supportsSchemas(req.Model) {
		p.OutputConfig.Format = sdk.JSONOutputFormatParam{Schema: httptransport.Schema(schema)}
	}
	return p
}

// enforced is the documented subset for structured outputs: at most 24 optional properties and 16 unions in a schema.
var enforced = httptransport.Subset{Optional: 24, Unions: 16}

// supportsSchemas reports whether a model supports structured outputs. Models
// before Claude 4.1 do not.
func supportsSchemas(model string) bool {
	for _, old := range []string{
		"claude-2", "claude-3", "claude-instant", "claude-opus-4-0", "claude-opus-4-2025",
		"claude-sonnet-4-0", "claude-sonnet-4-2025",
	} {
		if strings.HasPrefix(model, old) {
			return false
		}
	}
	return true
}

// redacted is the prefix of the signature of redacted thinking.
const redacted = "redacted:"

// block converts a block of a message; false if it cannot be sent. Thinking is sent back only with a signature of this
// API, which the server verifies.
func block(b provider.Block, names *names, vision bool) (sdk.ContentBlockParamUnion, bool) {
	var none sdk.ContentBlockParamUnion
	switch b.Type {
	case provider.Text:
		return sdk.NewTextBlock(b.Text), strings.TrimSpace(b.Text) != ""
	case provider.Thinking:
		if data, ok := strings.CutPrefix(b.Signature, redacted); ok {
			return sdk.NewRedactedThinkingBlock(data), true
		}
		// Signatures of OpenAI's models, which are JSON objects, are not sent.
		own := b.Signature != "" && !strings.HasPrefix(b.Signature, "{")
		return sdk.NewThinkingBlock(b.Signature, b.Text), own
	case provider.ToolUse:
		input := object(names.properties[b.ToolName].Out(b.Input))
		return sdk.NewToolUseBlock(httptransport.CallID(b.ToolID), input, names.Out(b.ToolName)), true
	case provider.ToolResult:
		return result(b, names, vision), true
	}
	return none, false
}

// result converts a tool result. It omits empty texts, which the server rejects.
func result(b provider.Block, names *names, vision bool) sdk.ContentBlockParamUnion {
	out := sdk.ToolResultBlockParam{ToolUseID: httptransport.CallID(b.ToolID), IsError: sdk.Bool(b.IsError)}
	for _, text := range names.ResultTexts(b) {
		if strings.TrimSpace(text) != "" {
			out.Content = append(out.Content,
				sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: text}})
		}
	}
	for _, m := range b.Media {
		if vision && httptransport.AcceptsMedia(m, httptransport.Images) {
			image := sdk.NewImageBlockBase64(m.Type, httptransport.Base64(m))
			out.Content = append(out.Content, sdk.ToolResultBlockParamContentUnion{OfImage: image.OfImage})
		}
	}
	return sdk.ContentBlockParamUnion{OfToolResult: &out}
}

// object returns a tool input; the server accepts only objects.
func object(input json.RawMessage) any {
	var all map[string]any
	if json.Unmarshal(input, &all) != nil || all == nil {
		return map[string]any{}
	}
	return input
}

func tool(t provider.Tool, names *names) *sdk.ToolParam {
	p := &sdk.ToolParam{Name: names.Out(t.Name)}
	p.InputSchema = param.Override[sdk.ToolInputSchemaParam](httptransport.Raw(names.schemas[t.Name]))
	if t.Description != "" {
		p.Description = sdk.String(t.Description)
	}
	return p
}

// reply converts the accumulated message. The API's input tokens exclude the cache, as provider.Usage requires.
func reply(m *sdk.Message, inputs map[int64]string, names *names) *provider.Reply {
	r := &provider.Reply{ID: m.ID, Model: string(m.Model), Stop: stop(m.StopReason), Usage: provider.Usage{
		Input: m.Usage.InputTokens, Output: m.Usage.OutputTokens,
		CacheRead: m.Usage.CacheReadInputTokens, CacheWrite: m.Usage.CacheCreationInputTokens,
	}}
	if r.Stop == provider.Refused {
		r.Refusal = cmp.Or(m.StopDetails.Explanation, string(m.StopDetails.Category))
	}
	for i, b := range m.Content {
		switch b.Type {
		case "text":
			r.Blocks = append(r.Blocks, provider.Block{Type: provider.Text, Text: b.Text})
		case "thinking":
			r.Blocks = append(r.Blocks,
				provider.Block{Type: provider.Thinking, Text: b.Thinking, Signature: b.Signature})
		case "redacted_thinking":
			r.Blocks = append(r.Blocks, provider.Block{Type: provider.Thinking, Signature: redacted + b.Data})
		case "tool_use":
			input := cmp.Or(inputs[int64(i)], string(b.Input))
			name := names.In(b.Name)
			input = string(names.properties[name].In(json.RawMessage(input)))
			httptransport.AddCall(r, b.ID, name, input)
		}
	}
	return r
}

func stop(reason sdk.StopReason) provider.StopReason {
	switch reason {
	case sdk.StopReasonToolUse:
		return provider.WantsTool
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return provider.CutOff
	case sdk.StopReasonRefusal:
		return provider.Refused
	}
	return provider.Done
}
