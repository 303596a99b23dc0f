package simulated

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/schema"
)

// Name is what replies give as their model and as what they are.
const Name = "simulated"

// Model makes up replies. The zero value is ready to use.
type Model struct {
	// Seed chooses among the replies that a request could have.
	Seed uint64
	// Rejects is how likely a verdict is a "no", from 0 to 1.
	Rejects float64
	// UseTools asks for every tool that is offered, once in a conversation,
	// before it answers. Without, no tool is asked for.
	UseTools bool
}

// Generate streams a made-up reply.
func (m Model) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(provider.Chunk{}, err)
			return
		}
		reply, err := m.reply(req)
		if err != nil {
			yield(provider.Chunk{}, err)
			return
		}
		reply.Model, reply.Offline = Name, Name
		provider.Play(ctx, req, reply)(yield)
	}
}

func (m Model) reply(req provider.Request) (provider.Reply, error) {
	d := m.dice(req)
	if m.UseTools {
		calls, err := d.toolCalls(req)
		if err != nil || len(calls) > 0 {
			return provider.Reply{Blocks: calls, Stop: provider.WantsTool}, err
		}
	}
	text, err := m.text(d, req)
	if err != nil {
		return provider.Reply{}, err
	}
	return provider.Reply{Blocks: []provider.Block{{Type: provider.Text, Text: text}}, Stop: provider.Done}, nil
}

// Answer makes up what a tool answers with: JSON of the form that the schema
// and the purpose ask for. It is nil when nobody asks for a form.
func (m Model) Answer(p provider.Purpose, schema json.RawMessage) (json.RawMessage, error) {
	if len(schema) == 0 && len(p.Keys) == 0 && len(p.Choices) == 0 {
		return nil, nil
	}
	req := provider.Request{Schema: schema, For: p}
	text, err := m.text(m.dice(req), req)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if json.Compact(&out, []byte(text)) == nil {
		return out.Bytes(), nil
	}
	return encode(text, false), nil // one of several texts to choose from
}

// dice are loaded by what the request is for. What it says counts only when
// nobody said what it is for: prompts contain the times of approvals and the
// like, and a reply must not change because of them.
func (m Model) dice(req provider.Request) dice {
	p := req.For
	place := hash(m.Seed, p.Workflow, p.Step, p.Agent)
	if p.Step == "" && p.Key == "" {
		place = hash(place, req.System)
		for _, message := range req.Messages {
			for _, b := range message.Blocks {
				place = hash(place, b.Text, string(b.Content))
			}
		}
	}
	round := p.Visit + p.Iteration + p.Attempt + p.Turn
	return dice{seed: hash(place, p.Key, strconv.Itoa(p.Attempt), strconv.Itoa(p.Turn), strconv.Itoa(round)), place: place, round: round}
}

// toolCalls asks for the tools that the conversation has not seen yet, all at
// once.
func (d dice) toolCalls(req provider.Request) ([]provider.Block, error) {
	used := map[string]bool{}
	for _, message := range req.Messages {
		for _, b := range message.Blocks {
			if b.Type == provider.ToolUse {
				used[b.ToolName] = true
			}
		}
	}
	var calls []provider.Block
	for i, t := range req.Tools {
		if used[t.Name] {
			continue
		}
		used[t.Name] = true
		input := any(map[string]any{})
		if len(t.Schema) > 0 {
			s, err := compileText(t.Schema)
			if err != nil {
				return nil, badSchema("of the tool "+strconv.Quote(t.Name), err)
			}
			v, ok := newMaker(d).value([]*schema.Node{s}, spot{path: "tool " + t.Name})
			if !ok {
				return nil, unsatisfied("of the tool " + strconv.Quote(t.Name))
			}
			input = v
		}
		calls = append(calls, provider.Block{
			Type: provider.ToolUse, ToolID: fmt.Sprintf("sim-%d-%d", len(req.Messages), i), ToolName: t.Name, Input: encode(input, false),
		})
	}
	return calls, nil
}

// text is the reply's text: JSON when somebody needs a form, else a few
// sentences.
func (m Model) text(d dice, req provider.Request) (string, error) {
	if req.For.Sample != "" {
		return req.For.Sample, nil
	}
	var wanted []*schema.Node // by the request itself: never given up
	if len(req.Schema) > 0 {
		s, err := compileText(req.Schema)
		if err != nil {
			return "", badSchema("of the reply", err)
		}
		wanted = append(wanted, s)
	}
	shapes := m.shapes(d, req.For)
	if len(wanted) == 0 && len(shapes) == 0 {
		return d.prose(req), nil
	}
	happy := req.For.Verdict && !m.rejects(d)
	if len(wanted) > 0 {
		shapes = append(shapes, true)
	}
	for _, shape := range shapes {
		s, err := compile(shape)
		if err != nil {
			return "", badSchema("that the step's words make", err)
		}
		all := append(slices.Clone(wanted), s)
		for _, lean := range []bool{false, true} {
			maker := newMaker(d)
			maker.happy, maker.lean = happy, lean
			v, ok := maker.value(all, spot{})
			if !ok {
				continue // perhaps there was too much to try
			}
			text := string(encode(v, true))
			if s, plain := v.(string); plain && len(wanted) == 0 {
				text = s
			}
			if lean || req.MaxTokens <= 0 || provider.Tokens(text) <= int64(req.MaxTokens) {
				return text, nil
			}
		}
	}
	if len(wanted) == 0 {
		return d.prose(req), nil
	}
	return "", unsatisfied("of the reply")
}

func (m Model) rejects(d dice) bool { return d.chance("verdict", m.Rejects) }

// shapes are what the purpose asks for beyond the request's own schema, the
// best first: what the flow needs together with what the author described,
// then what the flow needs alone. A schema that forbids one of them has the
// last word.
func (m Model) shapes(d dice, p provider.Purpose) []any {
	described := shapeOf(p.Expected)
	var docs []any
	if len(p.Keys) > 0 || len(p.Choices) > 0 || p.Verdict {
		most := 1
		for _, list := range p.Choices {
			most = max(most, len(list))
		}
		for later := range most {
			for _, native := range []bool{true, false} {
				if native || len(p.Choices) > 0 {
					docs = append(docs, m.need(d, p, later, native))
				}
			}
		}
	}
	if described == nil {
		return docs
	}
	both := make([]any, len(docs))
	for i, need := range docs {
		both[i] = map[string]any{"allOf": []any{described, need}}
	}
	return append(append(both, docs...), described)
}

// need is what the flow needs of the reply. The choice of a branch goes round;
// later moves it on, in case a schema forbids the first; native takes true and
// 5 for what they look like rather than as texts.
func (m Model) need(d dice, p provider.Purpose, later int, native bool) map[string]any {
	root := map[string]any{}
	for _, key := range p.Keys {
		within(root, key)
	}
	for _, key := range slices.Sorted(maps.Keys(p.Choices)) {
		if list := p.Choices[key]; len(list) > 0 {
			within(root, key)["const"] = choice(list[(d.rotate("choice "+key, len(list))+later)%len(list)], native)
		}
	}
	if p.Verdict {
		approved := !m.rejects(d)
		within(root, "approved")["const"] = approved
		comment := "Simulated verdict: approved, without anybody having looked."
		if !approved {
			comment = "Simulated verdict: rejected, without anybody having looked."
		}
		properties := root["properties"].(map[string]any)
		if properties["comment"] == nil && p.Expected == "" {
			properties["comment"] = map[string]any{"type": "string", "examples": []any{comment}}
		}
	}
	return root
}

// within returns the schema of a dotted path below an object's schema, which
// it makes required. The empty path is the object itself.
func within(doc map[string]any, key string) map[string]any {
	if key == "" {
		return doc
	}
	for name := range strings.SplitSeq(key, ".") {
		doc["type"] = "object"
		properties, _ := doc["properties"].(map[string]any)
		if properties == nil {
			properties = map[string]any{}
			doc["properties"] = properties
		}
		required, _ := doc["required"].([]any)
		if !slices.Contains(required, any(name)) {
			doc["required"] = append(required, name)
		}
		child, _ := properties[name].(map[string]any)
		if child == nil {
			child = map[string]any{}
			properties[name] = child
		}
		doc = child
	}
	return doc
}

// choice is the text of a branch as a value.
func choice(text string, native bool) any {
	if !native {
		return text
	}
	if text == "true" || text == "false" {
		return text == "true"
	}
	if n, err := strconv.Atoi(text); err == nil && strconv.Itoa(n) == text {
		return json.Number(text)
	}
	return text
}

// prose is a reply for people. It does not pretend to be anybody's work.
func (d dice) prose(req provider.Request) string {
	var out strings.Builder
	out.WriteString("This is a simulated reply")
	if req.For.Step != "" {
		fmt.Fprintf(&out, " for step %q", req.For.Step)
	}
	if req.For.Agent != "" && req.For.Agent != req.For.Step {
		fmt.Fprintf(&out, " by agent %q", req.For.Agent)
	}
	out.WriteString("; no model was asked.\n")
	if asked := question(req); asked != "" {
		fmt.Fprintf(&out, "\nAsked: %s\n", asked)
	}
	if expected := excerpt(req.For.Expected); expected != "" {
		fmt.Fprintf(&out, "Expected: %s\n", expected)
	}
	fmt.Fprintf(&out, "\nMade up: %s", sentences[d.pick("prose", len(sentences))])
	return out.String()
}

// question is the beginning of what the conversation began with.
func question(req provider.Request) string {
	for _, m := range req.Messages {
		if m.Role != provider.User {
			continue
		}
		for _, b := range m.Blocks {
			if text := excerpt(b.Text); b.Type == provider.Text && text != "" {
				return text
			}
		}
	}
	return ""
}

// excerpt is a text's first line, shortened.
func excerpt(text string) string {
	line, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	line = strings.TrimSpace(line)
	if short := fit(line, 0, 120); short != line {
		return short + " …"
	} else if more && line != "" {
		return line + " …"
	}
	return line
}

func encode(v any, indented bool) json.RawMessage {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if indented {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		panic(err) // maps, lists, texts and numbers that came from JSON always have a JSON form
	}
	return bytes.TrimSpace(out.Bytes())
}

func badSchema(of string, err error) *provider.Error {
	return &provider.Error{Class: provider.BadRequest, Message: fmt.Sprintf("the schema %s cannot be read: %v", of, err)}
}

func unsatisfied(of string) *provider.Error {
	return &provider.Error{Class: provider.BadRequest, Message: fmt.Sprintf(
		"the simulated model found no value that satisfies the schema %s; a scripted reply can give one", of)}
}
