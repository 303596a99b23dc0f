package gemini

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/wire"
)

// BaseURL is Google's own server.
const BaseURL = "https://generativelanguage.googleapis.com/"

// Model answers through generateContent.
type Model struct {
	client *genai.Client
	http   *http.Client
	base   string
}

// New makes a model. Nothing is sent yet.
func New(o wire.Options) (*Model, error) {
	base := o.BaseURL
	if base == "" {
		base = BaseURL
	}
	base = strings.TrimSuffix(base, "/") + "/"
	m := &Model{http: o.Client(wire.Auth{Header: "X-Goog-Api-Key"}), base: base}
	once := int32(1)
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		// Everything is said, so that the library does not look into the
		// environment for it.
		Backend: genai.BackendGeminiAPI, APIKey: "replaced by the transport", HTTPClient: m.http,
		HTTPOptions: genai.HTTPOptions{BaseURL: base, RetryOptions: &genai.HTTPRetryOptions{Attempts: &once}},
	})
	if err != nil {
		return nil, fmt.Errorf("the model cannot be set up: %w", err)
	}
	m.client = client
	return m, nil
}

// Reach finds out whether the server is there and takes the key. It costs nothing.
func (m *Model) Reach(ctx context.Context) error {
	return wire.Reach(ctx, m.http, m.base+"v1beta/models", nil)
}

// Generate asks for one reply.
func (m *Model) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(provider.Chunk{}, err)
			return
		}
		names := wire.NewNames(&req)
		contents := contents(&req, names)
		config, err := config(&req, names, contents)
		if err != nil {
			yield(provider.Chunk{}, err)
			return
		}
		w := whole{names: names, turn: req.For.Turn}
		for piece, err := range m.client.Models.GenerateContentStream(ctx, req.Model, contents, config) {
			if err != nil {
				yield(provider.Chunk{}, failed(ctx, err))
				return
			}
			for _, c := range w.take(piece) {
				if !yield(c, nil) {
					return
				}
			}
		}
		switch {
		case ctx.Err() != nil:
			yield(provider.Chunk{}, ctx.Err())
		case w.finish == "" && !w.blocked:
			yield(provider.Chunk{}, wire.BrokeOff())
		default:
			r := w.reply()
			wire.Fill(&req, r)
			yield(provider.Chunk{Reply: r}, nil)
		}
	}
}

// failed also knows the errors that come in the middle of a reply.
func failed(ctx context.Context, err error) error {
	var inStream genai.APIError
	if errors.As(err, &inStream) && ctx.Err() == nil {
		body, _ := json.Marshal(map[string]any{"error": inStream})
		out := wire.Refusal(inStream.Code, nil, body, time.Time{})
		out.Spent = true
		return out
	}
	return wire.Failed(ctx, err)
}

// Dialect is what generateContent calls common options; it has all of them.
func Dialect() wire.Dialect { return wire.Dialect{wire.Stop: "stopSequences"} }

// topLevel are the keys of a request that are not about how to generate.
var topLevel = map[string]bool{"safetySettings": true, "toolConfig": true, "labels": true, "serviceTier": true}

// ours are keys that options must not change.
var ours = []string{"model", "contents", "systemInstruction", "tools", "maxOutputTokens", "candidateCount", "responseMimeType", "responseJsonSchema", "responseSchema", "cachedContent", "generationConfig"}

// enforced is what the reference of responseJsonSchema allows.
var enforced = wire.Subset{PlainEnum: true}

func config(req *provider.Request, names *wire.Names, contents []*genai.Content) (*genai.GenerateContentConfig, error) {
	extra, err := Dialect().Extra(req.Options, ours...)
	if err != nil {
		return nil, err
	}
	never, generation := false, map[string]any{}
	c := &genai.GenerateContentConfig{
		MaxOutputTokens: int32(min(req.MaxTokens, math.MaxInt32)),
		// A reply that goes on by itself would be paid for without being reserved.
		AutomaticContinuation: &never,
	}
	if req.System != "" {
		c.SystemInstruction = &genai.Content{Parts: []*genai.Part{{Text: req.System}}}
	}
	if len(req.Tools) > 0 {
		one := &genai.Tool{}
		for _, t := range req.Tools {
			f := &genai.FunctionDeclaration{Name: names.Out(t.Name), Description: t.Description}
			if schema := wire.Parameters(t); string(schema["properties"]) != "{}" {
				f.ParametersJsonSchema = wire.Raw(schema)
			}
			one.FunctionDeclarations = append(one.FunctionDeclarations, f)
		}
		c.Tools = []*genai.Tool{one}
	} else if schema, ok := enforced.Fit(req.Schema); ok {
		c.ResponseMIMEType = "application/json"
		generation["responseJsonSchema"] = wire.Raw(schema)
	}
	// The library rounds numbers; these take the place of what it makes.
	body := map[string]any{}
	if body["contents"], err = exactly(contents); err != nil {
		return nil, err
	}
	if len(c.Tools) > 0 {
		if body["tools"], err = exactly(c.Tools); err != nil {
			return nil, err
		}
	}
	if len(extra) > 0 {
		for key, raw := range extra {
			value, err := wire.Decode(raw)
			if err != nil {
				return nil, &provider.Error{Class: provider.BadRequest, Message: err.Error()}
			}
			if key = camel(key); topLevel[key] {
				body[key] = value
			} else {
				generation[key] = value
			}
		}
	}
	if len(generation) > 0 {
		body["generationConfig"] = generation
	}
	c.HTTPOptions = &genai.HTTPOptions{ExtraBody: body}
	return c, nil
}

// exactly is a list of objects as JSON, with all digits of their numbers.
func exactly(list any) ([]map[string]any, error) {
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, &provider.Error{Class: provider.BadRequest, Message: err.Error()}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out []map[string]any
	err = d.Decode(&out)
	return out, err
}

// camel spells top_p as Google does: topP.
func camel(key string) string {
	parts := strings.Split(key, "_")
	for i, p := range parts {
		if i > 0 && p != "" {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}

func contents(req *provider.Request, names *wire.Names) []*genai.Content {
	convert := func(b provider.Block) (*genai.Part, bool) {
		p := part(b, names)
		return p, p != nil
	}
	var out []*genai.Content
	for _, turn := range wire.Turns(req.Messages, convert) {
		c := &genai.Content{Role: genai.RoleUser, Parts: turn.Blocks}
		if turn.Role == provider.Assistant {
			c.Role = genai.RoleModel
		}
		out = append(out, c)
	}
	return out
}

func part(b provider.Block, names *wire.Names) *genai.Part {
	// A signature that is not ours to give is of another provider.
	signature, _ := base64.StdEncoding.DecodeString(b.Signature)
	switch b.Type {
	case provider.Text:
		if b.Text != "" || len(signature) > 0 {
			return &genai.Part{Text: b.Text, ThoughtSignature: signature}
		}
	case provider.ToolUse:
		all, _ := wire.Decode(b.Input) // what is no object is no input either
		args, _ := all.(map[string]any)
		return &genai.Part{FunctionCall: &genai.FunctionCall{ID: wire.OwnID(b.ToolID), Name: names.Out(b.ToolName), Args: args}, ThoughtSignature: signature}
	case provider.ToolResult:
		key := "output"
		if b.IsError {
			key = "error"
		}
		value, err := wire.Decode(b.Content)
		if err != nil {
			value = string(b.Content)
		}
		return &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: wire.OwnID(b.ToolID), Name: names.Out(b.ToolName), Response: map[string]any{key: value}}}
	}
	return nil
}

// whole puts a reply together from its pieces.
type whole struct {
	names   *wire.Names
	model   string
	blocks  []provider.Block
	turn    int
	calls   int
	finish  genai.FinishReason
	blocked bool
	usage   provider.Usage
}

func (w *whole) take(piece *genai.GenerateContentResponse) []provider.Chunk {
	if piece.ModelVersion != "" {
		w.model = piece.ModelVersion
	}
	if u := piece.UsageMetadata; u != nil {
		w.usage = provider.Usage{
			Input:     max(0, int64(u.PromptTokenCount)+int64(u.ToolUsePromptTokenCount)-int64(u.CachedContentTokenCount)),
			Output:    int64(u.CandidatesTokenCount) + int64(u.ThoughtsTokenCount),
			CacheRead: int64(u.CachedContentTokenCount),
		}
	}
	if f := piece.PromptFeedback; f != nil && f.BlockReason != "" {
		w.blocked = true
	}
	if len(piece.Candidates) == 0 {
		return nil
	}
	first := piece.Candidates[0]
	if first.FinishReason != "" {
		w.finish = first.FinishReason
	}
	if first.Content == nil {
		return nil
	}
	var out []provider.Chunk
	for _, p := range first.Content.Parts {
		signature := base64.StdEncoding.EncodeToString(p.ThoughtSignature)
		switch {
		case p.FunctionCall != nil:
			input, err := json.Marshal(p.FunctionCall.Args)
			if err != nil || p.FunctionCall.Args == nil {
				input = []byte("{}")
			}
			id := p.FunctionCall.ID
			if id == "" {
				id = wire.MakeUpID(w.turn, w.calls)
			}
			w.calls++
			w.blocks = append(w.blocks, provider.Block{Type: provider.ToolUse, ToolID: id, ToolName: w.names.In(p.FunctionCall.Name), Input: input, Signature: signature})
		case p.Thought:
			w.add(provider.Thinking, p.Text, signature)
			out = append(out, provider.Chunk{Type: provider.Thinking, Text: p.Text})
		case p.Text != "" || signature != "":
			w.add(provider.Text, p.Text, signature)
			if p.Text != "" {
				out = append(out, provider.Chunk{Type: provider.Text, Text: p.Text})
			}
		}
	}
	return out
}

// add goes on with the last block, or begins another.
func (w *whole) add(kind provider.BlockType, text, signature string) {
	if n := len(w.blocks); n > 0 && w.blocks[n-1].Type == kind && w.blocks[n-1].Signature == "" {
		w.blocks[n-1].Text += text
		w.blocks[n-1].Signature = signature
		return
	}
	w.blocks = append(w.blocks, provider.Block{Type: kind, Text: text, Signature: signature})
}

func (w *whole) reply() *provider.Reply {
	// An end that we do not know is one all the same: what has come counts.
	r := &provider.Reply{Model: w.model, Blocks: w.blocks, Usage: w.usage, Stop: provider.Done}
	switch w.finish {
	case genai.FinishReasonMaxTokens, genai.FinishReasonContinuation:
		r.Stop = provider.CutOff
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonLanguage, genai.FinishReasonBlocklist,
		genai.FinishReasonProhibitedContent, genai.FinishReasonSPII, genai.FinishReasonImageSafety:
		r.Stop = provider.Refused
	}
	if w.blocked {
		r.Stop = provider.Refused
	}
	if w.calls > 0 && r.Stop == provider.Done {
		r.Stop = provider.WantsTool
	}
	return r
}
