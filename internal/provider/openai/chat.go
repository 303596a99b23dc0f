package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/shared"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/httptransport"
)

// BaseURL is OpenAI's own server.
const BaseURL = "https://api.openai.com/v1/"

// server is the connection that both APIs share.
type server struct {
	http *http.Client
	base string
	own  bool // the server is OpenAI's
}

func newServer(o httptransport.Options, events func([]byte) ([]byte, error)) (server, []option.RequestOption) {
	base := cmp.Or(o.BaseURL, BaseURL)
	s := server{
		http: o.Client(httptransport.Auth{Header: "Authorization", Prefix: "Bearer "}, events),
		base: strings.TrimSuffix(base, "/") + "/",
	}
	s.own = s.base == BaseURL
	return s, []option.RequestOption{
		option.WithBaseURL(s.base), option.WithHTTPClient(s.http), option.WithMaxRetries(0),
		option.WithAPIKey("replaced by the transport"),
	}
}

// Reach returns an error unless the server is reachable and accepts the key. It is free of charge.
func (s *server) Reach(ctx context.Context) error {
	return httptransport.Reach(ctx, s.http, s.base+"models", nil)
}

// Chat implements provider.Model with the Chat Completions API.
type Chat struct {
	server
	completions sdk.ChatCompletionService
}

// NewChat returns a model. It sends no request.
func NewChat(o httptransport.Options) *Chat {
	s, options := newServer(o, chatEvents)
	// Use the service rather than the SDK's client, which reads keys and
	// addresses from the environment.
	return &Chat{server: s, completions: sdk.NewChatCompletionService(options...)}
}

// ChatOptionNames returns the names of common options in Chat Completions. own
// means OpenAI's server; compatible servers often support more options.
func ChatOptionNames(own bool, model string) httptransport.OptionNames {
	d := httptransport.OptionNames{}
	if own {
		d[httptransport.TopK] = ""
	}
	return withoutSampling(d, own, model)
}

// withoutSampling marks the options that reasoning models reject as unsupported.
func withoutSampling(d httptransport.OptionNames, own bool, model string) httptransport.OptionNames {
	if own && mayReason(model) || isReasoningModel(model) {
		d[httptransport.Temperature], d[httptransport.TopP] = "", ""
	}
	return d
}

// chatReservedKeys are keys of a request that options must not set.
var chatReservedKeys = []string{
	"model", "messages", "max_tokens", "max_completion_tokens", "n", "stream_options", "tools", "response_format",
}

// Generate streams one reply with Chat Completions. Compatible servers that reject a schema get the request again
// without it, once; the reply of such an attempt is checked as any other.
func (m *Chat) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return provider.Stream(ctx, &req, func(emit func(provider.Chunk) bool) (*provider.Reply, error) {
		options, err := prepare(&req, ChatOptionNames(m.own, req.Model), chatReservedKeys)
		if err != nil {
			return nil, err
		}
		names := httptransport.NewNames(&req)
		stream := m.completions.NewStreaming(ctx, m.params(&req, names), options...)
		if !m.own && req.Schema != nil && rejectsResponseFormat(stream.Err()) {
			// Retry without the schema: the prompt also describes it, and the reply is checked.
			stream.Close()
			req.Schema = nil
			stream = m.completions.NewStreaming(ctx, m.params(&req, names), options...)
		}
		defer stream.Close()
		c := chat{names: names, turn: req.For.Turn}
		for stream.Next() {
			for _, piece := range c.add(stream.Current()) {
				if !emit(piece) {
					return nil, nil
				}
			}
		}
		if err := stream.Err(); err != nil {
			return nil, callError(ctx, err)
		}
		if err := httptransport.CheckComplete(ctx, c.finish != ""); err != nil {
			return nil, err
		}
		return c.reply(), nil
	})
}

// rejectsResponseFormat reports whether a server rejects a request because it does
// not support structured outputs.
func rejectsResponseFormat(err error) bool {
	refused, ok := errors.AsType[*provider.Error](err)
	if !ok || refused.Class != ir.ClassBadRequest {
		return false
	}
	return strings.Contains(refused.Message, "response_format") || strings.Contains(refused.Message, "json_schema")
}

// prepare converts an agent's options to request options of the SDK.
func prepare(
	req *provider.Request, names httptransport.OptionNames, reserved []string,
) ([]option.RequestOption, error) {
	extra, err := names.Extra(req.Options, reserved...)
	if err != nil {
		return nil, err
	}
	var out []option.RequestOption
	if extra[httptransport.Stream] != nil {
		delete(extra, httptransport.Stream)
		out = append(out, option.WithMiddleware(httptransport.DisableStreaming))
	}
	for key, value := range extra {
		out = append(out, option.WithJSONSet(key, value))
	}
	return out, nil
}

// callError converts the error of a call; it also handles errors within a stream.
func callError(ctx context.Context, err error) error {
	if inStream, ok := errors.AsType[*ssestream.StreamError](err); ok && ctx.Err() == nil {
		return httptransport.ErrorFromStream(inStream.Event.Data)
	}
	return httptransport.ErrorFromCall(ctx, err)
}

// params returns the body of a request. Usage is asked for, because a stream does not have it otherwise.
func (m *Chat) params(req *provider.Request, names *httptransport.Names) sdk.ChatCompletionNewParams {
	p := sdk.ChatCompletionNewParams{Model: req.Model}
	p.StreamOptions.IncludeUsage = sdk.Bool(true)
	if req.MaxTokens > 0 {
		// Compatible servers support the older name only; OpenAI's reasoning
		// models support the newer one only, also behind a gateway.
		if m.own || isReasoningModel(req.Model) {
			p.MaxCompletionTokens = sdk.Int(int64(req.MaxTokens))
		} else {
			p.MaxTokens = sdk.Int(int64(req.MaxTokens))
		}
	}
	if req.System != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(req.System))
	}
	for _, message := range req.Messages {
		p.Messages = append(p.Messages, messages(message, names, req.Model)...)
	}
	for _, t := range req.Tools {
		f := shared.FunctionDefinitionParam{
			Name: names.Out(t.Name), Parameters: httptransport.Schema(httptransport.Parameters(t)),
		}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ChatCompletionFunctionTool(f))
	}
	if schema, strict := replySchema(req.Schema); schema != nil {
		p.ResponseFormat = sdk.ChatCompletionNewParamsResponseFormatUnion{
			OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
				JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
					Name: "reply", Schema: schema, Strict: sdk.Bool(strict),
				},
			},
		}
	}
	return p
}

// enforced is the documented subset for structured outputs.
var enforced = httptransport.Subset{
	AllRequired: true, Depth: 10, Properties: 5000, EnumValues: 1000, Characters: 120_000, EnumCharacters: 15_000,
}

// replySchema returns the schema of a reply and whether the server can enforce
// it, or nil if the server accepts no such schema.
func replySchema(reply json.RawMessage) (map[string]any, bool) {
	schema, strict := enforced.Fit(reply)
	if !strict {
		schema = httptransport.HintSchema(reply)
	}
	if schema == nil {
		return nil, false
	}
	return httptransport.Schema(schema), strict
}

// messages converts a message. Tool results become separate messages, which hold
// text only, so their media follow in a user message.
func messages(m provider.Message, names *httptransport.Names, model string) []sdk.ChatCompletionMessageParamUnion {
	var out []sdk.ChatCompletionMessageParamUnion
	var texts []string
	var shown []sdk.ChatCompletionContentPartUnionParam
	var calls []sdk.ChatCompletionMessageToolCallUnionParam
	for _, b := range m.Blocks {
		switch b.Type {
		case provider.Text:
			if b.Text != "" {
				texts = append(texts, b.Text)
			}
		case provider.ToolUse:
			calls = append(calls, sdk.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
					ID: b.ToolID, Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
						Name: names.Out(b.ToolName), Arguments: string(b.Input),
					},
				},
			})
		case provider.ToolResult:
			out = append(out, sdk.ToolMessage(errorPrefix(b)+names.ResultText(b), b.ToolID))
			shown = append(shown, parts(b.Media, model)...)
		}
	}
	text := strings.Join(texts, "\n\n")
	switch {
	case m.Role == provider.Assistant && (text != "" || len(calls) > 0):
		one := sdk.ChatCompletionAssistantMessageParam{ToolCalls: calls}
		if text != "" {
			one.Content.OfString = sdk.String(strings.Join(texts, ""))
		}
		out = append(out, sdk.ChatCompletionMessageParamUnion{OfAssistant: &one})
	case m.Role == provider.User && len(shown) > 0:
		if text != "" {
			shown = append(shown, sdk.TextContentPart(text))
		}
		out = append(out, sdk.UserMessage(shown))
	case m.Role == provider.User && text != "":
		out = append(out, sdk.UserMessage(text))
	}
	return out
}

// parts returns the images and sounds that the model accepts.
func parts(media []provider.Media, model string) []sdk.ChatCompletionContentPartUnionParam {
	formats := map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
	acceptsAudio := strings.Contains(family(model), "audio")
	var out []sdk.ChatCompletionContentPartUnionParam
	for _, m := range media {
		switch {
		case httptransport.HasVision(model) && httptransport.AcceptsMedia(m, httptransport.Images):
			image := sdk.ChatCompletionContentPartImageImageURLParam{URL: httptransport.DataURL(m)}
			out = append(out, sdk.ImageContentPart(image))
		case acceptsAudio && httptransport.AcceptsMedia(m, slices.Collect(maps.Keys(formats))):
			sound := sdk.ChatCompletionContentPartInputAudioInputAudioParam{
				Data: httptransport.Base64(m), Format: formats[m.Type],
			}
			out = append(out, sdk.InputAudioContentPart(sound))
		}
	}
	return out
}

// errorPrefix returns the prefix of a failed call's text, because the API has no field for errors.
func errorPrefix(b provider.Block) string {
	if b.IsError {
		return "Error: "
	}
	return ""
}

// chatEvents converts a complete completion to an event stream of one chunk: messages become deltas, whose tool calls
// need an index, followed by [DONE].
func chatEvents(body []byte) ([]byte, error) {
	var completion map[string]json.RawMessage
	var choices []map[string]json.RawMessage
	if err := json.Unmarshal(body, &completion); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(completion["choices"], &choices); err != nil || len(choices) == 0 {
		return nil, errors.New(`no "choices"`)
	}
	for _, choice := range choices {
		var message map[string]json.RawMessage
		var calls []map[string]json.RawMessage
		if err := json.Unmarshal(choice["message"], &message); err != nil {
			return nil, errors.New("a choice has no message")
		}
		if json.Unmarshal(message["tool_calls"], &calls) == nil && calls != nil {
			for i, call := range calls {
				call["index"] = json.RawMessage(strconv.Itoa(i))
			}
			raw, err := json.Marshal(calls)
			if err != nil {
				return nil, err
			}
			message["tool_calls"] = raw
		}
		delta, err := json.Marshal(message)
		if err != nil {
			return nil, err
		}
		delete(choice, "message")
		choice["delta"] = delta
		// Some servers send no finish reason. The reply is complete, because it is valid JSON.
		var reason string
		if json.Unmarshal(choice["finish_reason"], &reason) != nil || reason == "" {
			choice["finish_reason"] = json.RawMessage(`"stop"`)
			if len(calls) > 0 {
				choice["finish_reason"] = json.RawMessage(`"tool_calls"`)
			}
		}
	}
	raw, err := json.Marshal(choices)
	if err != nil {
		return nil, err
	}
	completion["choices"] = raw
	data, err := json.Marshal(completion)
	return append(httptransport.Event("", data), httptransport.Event("", []byte("[DONE]"))...), err
}

// chat assembles a reply from its chunks. turn is the turn of the conversation, for the IDs of calls that the server
// leaves without one.
type chat struct {
	names    *httptransport.Names
	turn     int
	id       string
	model    string
	text     strings.Builder
	thinking strings.Builder
	refusal  strings.Builder
	calls    []call
	finish   string
	usage    provider.Usage
}

type call struct {
	index           int64
	id, name, input string
}

// add adds a chunk of the API and returns its chunks. Only the first choice counts. The usage is in the last chunk,
// which has no choices.
func (c *chat) add(chunk sdk.ChatCompletionChunk) []provider.Chunk {
	c.id = cmp.Or(chunk.ID, c.id)
	c.model = cmp.Or(chunk.Model, c.model)
	if u := chunk.Usage; u.TotalTokens > 0 || u.PromptTokens > 0 {
		d := u.PromptTokensDetails
		c.usage = usage(u.PromptTokens, u.CompletionTokens, d.CachedTokens, d.CacheWriteTokens)
	}
	var out []provider.Chunk
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		d := choice.Delta
		content := contentOf(d)
		if thought := reasoningOf(d) + content.thinking; thought != "" {
			c.thinking.WriteString(thought)
			out = append(out, provider.Chunk{Type: provider.Thinking, Text: thought})
		}
		if content.text != "" {
			c.text.WriteString(content.text)
			out = append(out, provider.Chunk{Type: provider.Text, Text: content.text})
		}
		c.refusal.WriteString(d.Refusal + content.refusal)
		for _, t := range d.ToolCalls {
			c.call(t.Index, t.ID, t.Function.Name, t.Function.Arguments)
		}
		if choice.FinishReason != "" {
			c.finish = choice.FinishReason
		}
	}
	return out
}

// usage returns the usage of a reply. The tokens of the prompt include those of the cache.
func usage(prompt, output, cached, written int64) provider.Usage {
	return provider.Usage{
		Input: max(0, prompt-cached-written), Output: output, CacheRead: cached, CacheWrite: written,
	}
}

// contentPart is a part of content that is a list. The thinking of a part is a list of parts.
type contentPart struct {
	Type     string        `json:"type"`
	Text     string        `json:"text"`
	Refusal  string        `json:"refusal"`
	Thinking []contentPart `json:"thinking"`
}

// content is the content of a message, by kind.
type content struct{ text, thinking, refusal string }

// contentOf returns the content of a message. OpenAI sends a text, some other servers send a list of parts.
func contentOf(d sdk.ChatCompletionChunkChoiceDelta) content {
	var parts []contentPart
	if json.Unmarshal([]byte(d.JSON.Content.Raw()), &parts) != nil {
		return content{text: d.Content}
	}
	var out content
	for _, p := range parts {
		out.text += p.Text
		out.refusal += p.Refusal
		for _, t := range p.Thinking {
			out.thinking += t.Text
		}
	}
	return out
}

// reasoningOf returns the reasoning in fields that compatible servers add.
func reasoningOf(d sdk.ChatCompletionChunkChoiceDelta) string {
	for _, key := range []string{"reasoning_content", "reasoning"} {
		var text string
		if f, ok := d.JSON.ExtraFields[key]; ok && json.Unmarshal([]byte(f.Raw()), &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// call adds a piece of a tool call. A new ID starts a new call even with the index of another one.
func (c *chat) call(index int64, id, name, input string) {
	for i := range slices.Backward(c.calls) {
		// Some servers send index 0 for every call. A piece without an ID
		// continues the last call.
		if one := &c.calls[i]; one.index == index && (id == "" || one.id == id) {
			one.name += name
			one.input += input
			return
		}
	}
	c.calls = append(c.calls, call{index: index, id: id, name: name, input: input})
}

// reply returns the reply. A refusal counts unless the model also calls tools.
func (c *chat) reply() *provider.Reply {
	r := &provider.Reply{ID: c.id, Model: c.model, Usage: c.usage, Stop: provider.Done}
	switch c.finish {
	case "length":
		r.Stop = provider.CutOff
	case "content_filter":
		r.Stop, r.Refusal = provider.Refused, contentFilter
	}
	if c.thinking.Len() > 0 {
		r.Blocks = append(r.Blocks, provider.Block{Type: provider.Thinking, Text: c.thinking.String()})
	}
	if c.text.Len() > 0 {
		r.Blocks = append(r.Blocks, provider.Block{Type: provider.Text, Text: c.text.String()})
	}
	for i, one := range c.calls {
		id := one.id
		if id == "" {
			id = httptransport.GenerateID(c.turn, i)
		}
		httptransport.AddCall(r, id, c.names.In(one.name), one.input)
	}
	if c.refusal.Len() > 0 && r.Stop != provider.WantsTool {
		r.Stop, r.Refusal = provider.Refused, c.refusal.String()
	}
	return r
}

// contentFilter is the refusal of a reply that the server's filter stops.
const contentFilter = "the server's content filter stopped the reply"
