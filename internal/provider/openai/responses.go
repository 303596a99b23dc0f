package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	api "github.com/openai/openai-go/v3/responses"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/httptransport"
)

// Responses implements provider.Model with the Responses API.
type Responses struct {
	server
	responses api.ResponseService
}

// NewResponses returns a model. It sends no request.
func NewResponses(o httptransport.Options) *Responses {
	s, options := newServer(o, responseEvents)
	return &Responses{server: s, responses: api.NewResponseService(options...)}
}

// ResponsesOptionNames returns the names of common options in Responses; own means OpenAI's server.
func ResponsesOptionNames(own bool, model string) httptransport.OptionNames {
	d := httptransport.OptionNames{
		httptransport.TopK: "", httptransport.Stop: "", httptransport.Seed: "",
		httptransport.PresencePenalty: "", httptransport.FrequencyPenalty: "",
	}
	return withoutSampling(d, own, model)
}

// responsesReservedKeys are keys of a request that options must not set.
var responsesReservedKeys = []string{
	"model", "input", "instructions", "max_output_tokens", "tools", "text", "store", "include", "background",
	"conversation", "previous_response_id",
}

// Generate streams one reply with the Responses API. Complete items come one by one; if none has come, those of the
// last event are used. The stream is complete with an event that ends the response.
func (m *Responses) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return provider.Stream(ctx, &req, func(emit func(provider.Chunk) bool) (*provider.Reply, error) {
		options, err := prepare(&req, ResponsesOptionNames(m.own, req.Model), responsesReservedKeys)
		if err != nil {
			return nil, err
		}
		names := httptransport.NewNames(&req)
		stream := m.responses.NewStreaming(ctx, responseParams(&req, names), options...)
		defer stream.Close()
		var items []api.ResponseOutputItemUnion
		var end *api.Response
		for end == nil && stream.Next() {
			event := stream.Current()
			chunk := provider.Chunk{Text: event.Delta}
			switch event.Type {
			case "response.output_text.delta":
				chunk.Type = provider.Text
			case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
				chunk.Type = provider.Thinking
			case "response.output_item.done":
				items = append(items, event.Item)
			case "response.completed", "response.incomplete", "response.failed":
				end = &event.Response
			case "error":
				return nil, inResponse(event.Code, event.Message)
			}
			if chunk.Type != "" && chunk.Text != "" && !emit(chunk) {
				return nil, nil
			}
		}
		if err := stream.Err(); err != nil {
			return nil, callError(ctx, err)
		}
		if err := httptransport.CheckComplete(ctx, end != nil); err != nil {
			return nil, err
		}
		if end.Status == api.ResponseStatusFailed {
			return nil, inResponse(string(end.Error.Code), end.Error.Message)
		}
		if len(items) == 0 {
			items = end.Output
		}
		return responseReply(end, items, names), nil
	})
}

// responseEvents converts a complete response to an equivalent event stream.
func responseEvents(body []byte) ([]byte, error) {
	var response struct {
		Status string            `json:"status"`
		Output []json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(body, &response); err != nil {
		return nil, err
	}
	if response.Output == nil && response.Status == "" {
		return nil, errors.New(`no "output"`)
	}
	var out httptransport.EventStream
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	for i, raw := range response.Output {
		var item struct {
			Content []text `json:"content"`
			Summary []text `json:"summary"`
		}
		out.Err = errors.Join(out.Err, json.Unmarshal(raw, &item))
		for _, part := range slices.Concat(item.Summary, item.Content) {
			kind := map[string]string{
				"output_text":    "response.output_text.delta",
				"summary_text":   "response.reasoning_summary_text.delta",
				"reasoning_text": "response.reasoning_text.delta",
			}[part.Type]
			if kind != "" {
				out.Add(kind, map[string]any{"output_index": i, "delta": part.Text})
			}
		}
		out.Add("response.output_item.done", map[string]any{"output_index": i, "item": raw})
	}
	end := map[string]string{"failed": "response.failed", "incomplete": "response.incomplete"}[response.Status]
	out.Add(cmp.Or(end, "response.completed"), map[string]any{"response": json.RawMessage(body)})
	return out.Data, out.Err
}

// inResponse returns the error for a failure that the server reports within a reply. It has the form of an error body,
// so that the same rules give its class.
func inResponse(code, message string) error {
	data, err := json.Marshal(map[string]any{"error": map[string]string{"code": code, "message": message}})
	if err != nil {
		return httptransport.ErrTruncated
	}
	return httptransport.ErrorFromStream(data)
}

// minOutputTokens is the smallest max_output_tokens that the server accepts. A lower limit of a request is raised to
// it.
const minOutputTokens = 16

// responseParams returns the body of a request. Nothing is stored at the server (store: false), so each request has the
// whole conversation.
func responseParams(req *provider.Request, names *httptransport.Names) api.ResponseNewParams {
	p := api.ResponseNewParams{Model: req.Model, Store: sdk.Bool(false)}
	if mayReason(req.Model) {
		// Reasoning is a part of the conversation.
		p.Include = []api.ResponseIncludable{api.ResponseIncludableReasoningEncryptedContent}
	}
	if req.MaxTokens > 0 {
		p.MaxOutputTokens = sdk.Int(int64(max(req.MaxTokens, minOutputTokens)))
	}
	if req.System != "" {
		p.Instructions = sdk.String(req.System)
	}
	for _, m := range req.Messages {
		p.Input.OfInputItemList = append(p.Input.OfInputItemList,
			inputItems(m, names, httptransport.HasVision(req.Model))...)
	}
	for _, t := range req.Tools {
		f := &api.FunctionToolParam{
			Name: names.Out(t.Name), Parameters: httptransport.Schema(httptransport.Parameters(t)),
			Strict: sdk.Bool(false),
		}
		if t.Description != "" {
			f.Description = sdk.String(t.Description)
		}
		p.Tools = append(p.Tools, api.ToolUnionParam{OfFunction: f})
	}
	if schema, strict := replySchema(req.Schema); schema != nil {
		p.Text.Format.OfJSONSchema = &api.ResponseFormatTextJSONSchemaConfigParam{
			Name: "reply", Schema: schema, Strict: sdk.Bool(strict),
		}
	}
	return p
}

// family returns a model's name without the prefix of a gateway, as in
// openai/gpt-5, and without that of a fine-tuned model.
func family(model string) string {
	return strings.TrimPrefix(model[strings.LastIndexByte(model, '/')+1:], "ft:")
}

// mayReason reports whether a model on OpenAI's own server may be a reasoning
// model; requesting the reasoning of other models is an error.
func mayReason(model string) bool {
	name := family(model)
	return !slices.ContainsFunc([]string{"gpt-3", "gpt-4", "chatgpt-"}, func(old string) bool {
		return strings.HasPrefix(name, old)
	})
}

var reasoningNames = regexp.MustCompile(`^(o\d|gpt-([5-9]|\d\d))`)

// isReasoningModel reports whether a name is that of an OpenAI reasoning model.
// On any server, these require max_completion_tokens and reject temperature.
func isReasoningModel(model string) bool { return reasoningNames.MatchString(family(model)) }

// reasoning is the part of a reasoning item that must be sent back with the items after it; it is kept as the signature
// of a block, as JSON, by which other providers recognize that the signature is not theirs.
type reasoning struct {
	ID        string `json:"id"`
	Encrypted string `json:"encrypted_content,omitempty"`
}

// inputItems converts a message to items of the API: texts, reasoning, calls and their results are items of their own.
// Reasoning without its encrypted content cannot be sent back.
func inputItems(m provider.Message, names *httptransport.Names, vision bool) []api.ResponseInputItemUnionParam {
	role := api.EasyInputMessageRoleUser
	if m.Role == provider.Assistant {
		role = api.EasyInputMessageRoleAssistant
	}
	var out []api.ResponseInputItemUnionParam
	kept := 0 // items up to the last one that is not reasoning: the server rejects trailing reasoning
	for _, b := range m.Blocks {
		switch b.Type {
		case provider.Text:
			if b.Text != "" {
				out = append(out, api.ResponseInputItemParamOfMessage(b.Text, role))
			}
		case provider.Thinking:
			var signed reasoning
			if json.Unmarshal([]byte(b.Signature), &signed) != nil || signed.Encrypted == "" {
				continue
			}
			item := &api.ResponseReasoningItemParam{
				ID: signed.ID, EncryptedContent: sdk.String(signed.Encrypted),
				Summary: []api.ResponseReasoningItemSummaryParam{},
			}
			if b.Text != "" {
				item.Summary = append(item.Summary, api.ResponseReasoningItemSummaryParam{Text: b.Text})
			}
			out = append(out, api.ResponseInputItemUnionParam{OfReasoning: item})
			continue
		case provider.ToolUse:
			out = append(out,
				api.ResponseInputItemParamOfFunctionCall(string(b.Input), b.ToolID, names.Out(b.ToolName)))
		case provider.ToolResult:
			texts := names.ResultTexts(b)
			texts[0] = errorPrefix(b) + texts[0]
			one := api.ResponseInputItemParamOfFunctionCallOutput(texts[0])
			if shown := images(b.Media, vision); len(texts)+len(shown) > 1 {
				var list api.ResponseFunctionCallOutputItemListParam
				for _, text := range texts {
					input := &api.ResponseInputTextContentParam{Text: text}
					list = append(list, api.ResponseFunctionCallOutputItemUnionParam{OfInputText: input})
				}
				one = api.ResponseInputItemParamOfFunctionCallOutput(append(list, shown...))
			}
			one.OfFunctionCallOutput.CallID = sdk.String(b.ToolID)
			out = append(out, one)
		}
		if b.Type != provider.Text || b.Text != "" {
			kept = len(out)
		}
	}
	return out[:kept]
}

func images(media []provider.Media, vision bool) api.ResponseFunctionCallOutputItemListParam {
	var out api.ResponseFunctionCallOutputItemListParam
	for _, m := range media {
		if vision && httptransport.AcceptsMedia(m, httptransport.Images) {
			image := &api.ResponseInputImageContentParam{ImageURL: sdk.String(httptransport.DataURL(m))}
			out = append(out, api.ResponseFunctionCallOutputItemUnionParam{OfInputImage: image})
		}
	}
	return out
}

// responseReply converts the output items of a response.
func responseReply(end *api.Response, items []api.ResponseOutputItemUnion, names *httptransport.Names) *provider.Reply {
	d := end.Usage.InputTokensDetails
	r := &provider.Reply{
		ID: end.ID, Model: end.Model, Stop: provider.Done,
		Usage: usage(end.Usage.InputTokens, end.Usage.OutputTokens, d.CachedTokens, d.CacheWriteTokens),
	}
	switch end.IncompleteDetails.Reason {
	case "content_filter":
		r.Stop, r.Refusal = provider.Refused, contentFilter
	case "":
		if end.Status == api.ResponseStatusIncomplete {
			r.Stop = provider.CutOff
		}
	default:
		r.Stop = provider.CutOff
	}
	refused := false
	var refusal strings.Builder
	for _, item := range items {
		switch item.Type {
		case "message":
			var text strings.Builder
			for _, part := range item.Content {
				text.WriteString(part.Text)
				refusal.WriteString(part.Refusal)
				refused = refused || part.Type == "refusal"
			}
			if text.Len() > 0 {
				r.Blocks = append(r.Blocks, provider.Block{Type: provider.Text, Text: text.String()})
			}
		case "reasoning":
			r.Blocks = append(r.Blocks, thought(item.AsReasoning()))
		case "function_call":
			httptransport.AddCall(r, item.CallID, names.In(item.Name), item.AsFunctionCall().Arguments)
		}
	}
	if refused && r.Stop != provider.WantsTool {
		r.Stop, r.Refusal = provider.Refused, refusal.String()
	}
	return r
}

func thought(item api.ResponseReasoningItem) provider.Block {
	var text strings.Builder
	for _, part := range item.Summary {
		text.WriteString(part.Text)
	}
	for _, part := range item.Content {
		text.WriteString(part.Text)
	}
	b := provider.Block{Type: provider.Thinking, Text: text.String()}
	if kept, err := json.Marshal(reasoning{ID: item.ID, Encrypted: item.EncryptedContent}); err == nil {
		b.Signature = string(kept)
	}
	return b
}
