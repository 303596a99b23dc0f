package gemini

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/httptransport"
)

// BaseURL is Google's own server.
const BaseURL = "https://generativelanguage.googleapis.com/"

// Model implements provider.Model with streamGenerateContent.
type Model struct {
	http *http.Client
	base string
}

// New returns a model. It sends no request.
func New(o httptransport.Options) *Model {
	base := cmp.Or(o.BaseURL, BaseURL)
	client := o.Client(httptransport.Auth{Header: "X-Goog-Api-Key"}, events)
	return &Model{http: client, base: strings.TrimSuffix(base, "/") + "/"}
}

// Reach returns an error unless the server is reachable and accepts the key. It is free of charge.
func (m *Model) Reach(ctx context.Context) error {
	return httptransport.Reach(ctx, m.http, m.base+"v1beta/models", nil)
}

// Generate streams one reply with streamGenerateContent. The reply is complete when a piece has a finish reason, or the
// reason why the prompt was blocked.
func (m *Model) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return provider.Stream(ctx, &req, func(emit func(provider.Chunk) bool) (*provider.Reply, error) {
		w := accumulator{names: httptransport.NewNames(&req), turn: req.For.Turn}
		body, err := m.send(ctx, &req, w.names)
		if err != nil {
			return nil, httptransport.ErrorFromCall(ctx, err)
		}
		defer body.Close()
		for data, err := range httptransport.Events(body) {
			var piece generated
			if err == nil {
				err = read(data, &piece)
			}
			if err != nil {
				return nil, httptransport.ErrorFromCall(ctx, err)
			}
			for _, c := range w.add(&piece) {
				if !emit(c) {
					return nil, nil
				}
			}
		}
		if err := httptransport.CheckComplete(ctx, w.finish != "" || w.blocked != ""); err != nil {
			return nil, err
		}
		return w.reply(), nil
	})
}

// send sends the request and returns the stream of the reply.
func (m *Model) send(ctx context.Context, req *provider.Request, names *httptransport.Names) (io.ReadCloser, error) {
	sent, err := body(req, names)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(sent)
	if err != nil {
		return nil, &provider.Error{Class: ir.ClassBadRequest, Message: err.Error()}
	}
	name := url.PathEscape(strings.TrimPrefix(req.Model, "models/"))
	address := fmt.Sprintf("%sv1beta/models/%s:streamGenerateContent?alt=sse", m.base, name)
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(raw))
	if err != nil {
		return nil, &provider.Error{Class: ir.ClassBadRequest, Message: err.Error()}
	}
	post.Header.Set("Content-Type", "application/json")
	resp, err := m.http.Do(post)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// read decodes one piece of a reply, or returns the error that it reports. An error within a stream may be billed.
func read(data []byte, piece *generated) error {
	if err := json.Unmarshal(data, piece); err != nil {
		return &provider.Error{
			Class: ir.ClassAPI, Message: "the reply is not JSON: " + err.Error(), Billable: true,
		}
	}
	if piece.Error != nil {
		failed := httptransport.ErrorFromResponse(piece.Error.Code, nil, data, time.Time{})
		failed.Billable = true
		return failed
	}
	return nil
}

// events converts a reply that is not a stream, which is one piece or a list of
// pieces, to an event stream.
func events(body []byte) ([]byte, error) {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) != nil {
		list = []json.RawMessage{body}
	}
	var out bytes.Buffer
	hasContent, finished := false, false
	for _, piece := range list {
		var one generated
		if json.Unmarshal(piece, &one) != nil || one.Candidates == nil && one.PromptFeedback == nil {
			return nil, errors.New(`no "candidates"`)
		}
		for _, c := range one.Candidates {
			hasContent = hasContent || c.Content != nil
			finished = finished || c.FinishReason != ""
		}
		out.Write(httptransport.Event("", piece))
	}
	// Some servers send no finish reason. The reply is complete, because it is valid JSON.
	if hasContent && !finished {
		out.Write(httptransport.Event("", []byte(`{"candidates":[{"finishReason":"STOP"}]}`)))
	}
	return out.Bytes(), nil
}

// OptionNames returns the names of common options in generateContent, which supports all of them.
func OptionNames() httptransport.OptionNames {
	return httptransport.OptionNames{httptransport.Stop: "stopSequences"}
}

// topLevel are the options that do not belong to generationConfig.
var topLevel = map[string]bool{"safetySettings": true, "toolConfig": true, "labels": true, "serviceTier": true}

// reservedKeys are keys of a request that options must not set.
var reservedKeys = []string{
	"model", "contents", "systemInstruction", "tools", "maxOutputTokens", "candidateCount", "responseMimeType",
	"responseJsonSchema", "responseSchema", "cachedContent", "generationConfig",
}

// enforced is the documented subset for responseJsonSchema.
var enforced = httptransport.Subset{PlainEnum: true}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

type part struct {
	Text             *string   `json:"text,omitempty"`
	Thought          bool      `json:"thought,omitempty"`
	ThoughtSignature string    `json:"thoughtSignature,omitempty"`
	FunctionCall     *call     `json:"functionCall,omitempty"`
	FunctionResponse *response `json:"functionResponse,omitempty"`
	InlineData       *blob     `json:"inlineData,omitempty"`
}

type blob struct {
	Type string `json:"mimeType"`
	Data []byte `json:"data"`
}

// mediaTypes are the media types that the models accept.
var mediaTypes = []string{
	"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif",
	"audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac",
}

type call struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type response struct {
	ID       string                     `json:"id,omitempty"`
	Name     string                     `json:"name"`
	Response map[string]json.RawMessage `json:"response"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

// body returns the body of the request. The API rejects a schema for the reply together with tools: with tools, the
// schema is left out, and the reply is checked. A tool without properties is declared without parameters. Options
// belong to generationConfig, except for those of topLevel.
func body(req *provider.Request, names *httptransport.Names) (map[string]any, error) {
	extra, err := OptionNames().Extra(req.Options, reservedKeys...)
	if err != nil {
		return nil, err
	}
	generation := map[string]any{}
	out := map[string]any{"contents": contents(req, names), "generationConfig": generation}
	if req.MaxTokens > 0 {
		generation["maxOutputTokens"] = req.MaxTokens
	}
	if strings.TrimSpace(req.System) != "" {
		out["systemInstruction"] = content{Parts: []part{{Text: &req.System}}}
	}
	if len(req.Tools) > 0 {
		var functions []function
		for _, t := range req.Tools {
			f := function{Name: names.Out(t.Name), Description: t.Description}
			if schema := httptransport.Parameters(t); string(schema["properties"]) != "{}" {
				f.Parameters = httptransport.Raw(schema)
			}
			functions = append(functions, f)
		}
		out["tools"] = []any{map[string]any{"functionDeclarations": functions}}
	} else if schema, ok := enforced.Fit(req.Schema); ok {
		generation["responseMimeType"], generation["responseJsonSchema"] = "application/json", schema
	}
	delete(extra, httptransport.Stream) // the URL selects streaming
	for key, value := range extra {
		if key = camel(key); topLevel[key] {
			out[key] = value
		} else {
			generation[key] = value
		}
	}
	return out, nil
}

// camel converts a key to camel case: top_p to topP.
func camel(key string) string {
	parts := strings.Split(key, "_")
	for i, p := range parts {
		if i > 0 && p != "" {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}

// contents converts the conversation. Media of a tool result follow its part in the same turn.
func contents(req *provider.Request, names *httptransport.Names) []content {
	convert := func(b provider.Block) ([]part, bool) {
		one, ok := partOf(b, names)
		out := []part{one}
		for _, m := range b.Media {
			if httptransport.AcceptsMedia(m, mediaTypes) {
				out = append(out, part{InlineData: &blob{Type: m.Type, Data: m.Data}})
			}
		}
		return out, ok
	}
	var out []content
	for _, turn := range httptransport.Turns(req.Messages, convert) {
		role := "user"
		if turn.Role == provider.Assistant {
			role = "model"
		}
		out = append(out, content{Role: role, Parts: slices.Concat(turn.Blocks...)})
	}
	return out
}

// partOf converts a block and reports whether it can be sent. It omits thoughts, and signatures of other providers.
// Signatures of this API are sent back unchanged.
func partOf(b provider.Block, names *httptransport.Names) (part, bool) {
	signature := signatureOf(b)
	switch b.Type {
	case provider.Text:
		return part{Text: &b.Text, ThoughtSignature: signature}, b.Text != "" || signature != ""
	case provider.ToolUse:
		one := call{ID: httptransport.ServerID(b.ToolID), Name: names.Out(b.ToolName)}
		if httptransport.IsObject(b.Input) {
			one.Args = b.Input
		}
		return part{FunctionCall: &one, ThoughtSignature: signature}, true
	case provider.ToolResult:
		key := "output"
		if b.IsError {
			key = "error"
		}
		value := b.Content
		if texts := names.ResultTexts(b); b.IsError || len(texts) > 1 || !json.Valid(value) {
			value, _ = json.Marshal(strings.Join(texts, "\n\n")) // cannot fail: a string
		}
		result := map[string]json.RawMessage{key: value}
		return part{FunctionResponse: &response{
			ID: httptransport.ServerID(b.ToolID), Name: names.Out(b.ToolName), Response: result,
		}}, true
	}
	return part{}, false
}

// generated is one piece of a reply.
type generated struct {
	Candidates []struct {
		Content      *content `json:"content"`
		FinishReason string   `json:"finishReason"`
		Message      string   `json:"finishMessage"`
	} `json:"candidates"`
	PromptFeedback *struct {
		BlockReason string `json:"blockReason"`
		Message     string `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt        int64 `json:"promptTokenCount"`
		ToolUsePrompt int64 `json:"toolUsePromptTokenCount"`
		Cached        int64 `json:"cachedContentTokenCount"`
		Candidates    int64 `json:"candidatesTokenCount"`
		Thoughts      int64 `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
	ResponseID   string `json:"responseId"`
	ModelVersion string `json:"modelVersion"`
	Error        *struct {
		Code int `json:"code"`
	} `json:"error"`
}

// accumulator assembles a reply from its pieces.
type accumulator struct {
	names   *httptransport.Names
	id      string
	model   string
	blocks  []provider.Block
	turn    int
	calls   int
	finish  string
	message string // explains the finish or block reason
	blocked string // why the server blocked the prompt
	usage   provider.Usage
}

// add adds a piece and returns its chunks.
func (w *accumulator) add(piece *generated) []provider.Chunk {
	w.id = cmp.Or(piece.ResponseID, w.id)
	w.model = cmp.Or(piece.ModelVersion, w.model)
	if u := piece.Usage; u != nil {
		read := max(0, u.Prompt+u.ToolUsePrompt-u.Cached)
		w.usage = provider.Usage{Input: read, Output: u.Candidates + u.Thoughts, CacheRead: u.Cached}
	}
	if f := piece.PromptFeedback; f != nil && f.BlockReason != "" {
		w.blocked = f.BlockReason
		w.message = cmp.Or(f.Message, w.message)
	}
	if len(piece.Candidates) == 0 {
		return nil
	}
	first := piece.Candidates[0]
	if first.FinishReason != "" {
		w.finish = first.FinishReason
	}
	w.message = cmp.Or(first.Message, w.message)
	if first.Content == nil {
		return nil
	}
	var out []provider.Chunk
	for _, p := range first.Content.Parts {
		text := ""
		if p.Text != nil {
			text = *p.Text
		}
		switch {
		case p.FunctionCall != nil:
			id := p.FunctionCall.ID
			if id == "" {
				id = httptransport.GenerateID(w.turn, w.calls)
			}
			w.calls++
			w.blocks = append(w.blocks, provider.Block{
				Type: provider.ToolUse, ToolID: id, ToolName: w.names.In(p.FunctionCall.Name),
				Input: httptransport.ToolInput(string(p.FunctionCall.Args)), Signature: p.ThoughtSignature,
			})
		case p.Thought:
			w.addText(provider.Thinking, text, "") // without signature: thoughts are not sent back
			out = append(out, provider.Chunk{Type: provider.Thinking, Text: text})
		case text != "" || p.ThoughtSignature != "":
			w.addText(provider.Text, text, p.ThoughtSignature)
			if text != "" {
				out = append(out, provider.Chunk{Type: provider.Text, Text: text})
			}
		}
	}
	return out
}

// addText extends the last block of the kind, or starts another. A signature ends a block: what follows belongs to
// another part.
func (w *accumulator) addText(kind provider.BlockType, text, signature string) {
	if n := len(w.blocks); n > 0 && w.blocks[n-1].Type == kind && w.blocks[n-1].Signature == "" {
		w.blocks[n-1].Text += text
		w.blocks[n-1].Signature = signature
		return
	}
	w.blocks = append(w.blocks, provider.Block{Type: kind, Text: text, Signature: signature})
}

func (w *accumulator) reply() *provider.Reply {
	// Unknown finish reasons count as Done.
	r := &provider.Reply{ID: w.id, Model: w.model, Blocks: w.blocks, Usage: w.usage, Stop: provider.Done}
	switch w.finish {
	case "MAX_TOKENS", "CONTINUATION":
		r.Stop = provider.CutOff
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY":
		r.Stop, r.Refusal = provider.Refused, "the server stopped the reply: "+withMessage(w.finish, w.message)
	}
	if w.blocked != "" {
		r.Stop, r.Refusal = provider.Refused, "the server blocked the prompt: "+withMessage(w.blocked, w.message)
	}
	if w.calls > 0 && r.Stop == provider.Done {
		r.Stop = provider.WantsTool
	}
	return r
}

// withMessage returns a reason such as SAFETY with the server's message.
func withMessage(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ", " + message
}

// signatureOf returns the signature of a block if it may be Google's, which are base64.
func signatureOf(b provider.Block) string {
	if httptransport.IsBase64(b.Signature) {
		return b.Signature
	}
	return ""
}
