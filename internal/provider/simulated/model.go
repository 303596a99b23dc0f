package simulated

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/schema"
)

// Name is what replies give as their model and as what they are.
const Name = "simulated"

// Model makes up replies. The zero value is ready to use.
type Model struct {
	// Seed chooses among the replies that a request could have.
	Seed uint64
	// UseTools asks for every tool that is offered, once in a conversation,
	// before it answers. Without, no tool is asked for.
	UseTools bool
}

// Generate streams a made-up reply.
func (m Model) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
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
// and the purpose ask for. It is nil if no form is required.
func (m Model) Answer(p provider.Purpose, schema json.RawMessage) (json.RawMessage, error) {
	if len(schema) == 0 && len(p.Contract.Schema) == 0 && len(p.Contract.Probes) == 0 {
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

// Probed makes up the places of a result that the contract of the purpose has
// probes for, as a JSON object. It is nil without probes.
func (m Model) Probed(p provider.Purpose) (json.RawMessage, error) {
	if len(p.Contract.Probes) == 0 {
		return nil, nil
	}
	c := p.Contract
	c.Schema = nil
	p.Contract = c
	return m.Answer(p, json.RawMessage(`{"type":"object"}`))
}

// dice returns dice seeded by the purpose of the request. Its text counts only if
// the request has no purpose: prompts contain the times of approvals and the
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
	return dice{
		seed:  hash(place, p.Key, strconv.Itoa(p.Attempt), strconv.Itoa(p.Turn), strconv.Itoa(round)),
		place: place, round: round,
	}
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
			Type: provider.ToolUse, ToolID: fmt.Sprintf("sim-%d-%d", len(req.Messages), i),
			ToolName: t.Name, Input: encode(input, false),
		})
	}
	return calls, nil
}

// text returns the reply's text: JSON if a contract requires it, else a few
// sentences.
func (m Model) text(d dice, req provider.Request) (string, error) {
	if req.For.Sample != "" {
		return req.For.Sample, nil
	}
	var wanted []*schema.Node // by the request itself: never given up
	if raw := cmp.Or(string(req.Schema), string(req.For.Contract.Schema)); raw != "" {
		s, err := compileText(json.RawMessage(raw))
		if err != nil {
			return "", badSchema("of the reply", err)
		}
		wanted = append(wanted, s)
	}
	for _, tried := range m.explore(d, &req.For.Contract) {
		if len(wanted) == 0 && len(tried.at) == 0 {
			break
		}
		s, err := compile(tried.schema())
		if err != nil {
			return "", badSchema("that the step's choices make", err)
		}
		all := append(slices.Clone(wanted), s)
		for _, lean := range []bool{false, true} {
			maker := newMaker(d)
			maker.happy, maker.lean = string(tried.at["approved"]) == "true", lean
			v, ok := maker.value(all, spot{})
			if !ok {
				continue // perhaps there was too much to try
			}
			text := string(encode(v, true))
			if s, plain := v.(string); plain && len(req.Schema) == 0 {
				text = s
			}
			if lean || req.MaxTokens <= 0 || price.EstimateTokens(text) <= int64(req.MaxTokens) {
				return text, nil
			}
		}
	}
	if len(wanted) == 0 {
		return d.prose(req), nil
	}
	return "", unsatisfied("of the reply")
}

// attempt is one choice of values for the places that decide where a run goes.
type attempt struct{ at map[string]json.RawMessage }

// explore lists the values to try, the best first: the combination that the
// seed and the round stand for, those that follow it, in case a schema rules
// it out, and at last none. Consecutive seeds and consecutive rounds go through
// all combinations, so that some run takes every branch and every loop ends.
func (m Model) explore(d dice, c *contract.Contract) []attempt {
	var out []attempt
	first := c.FirstCombination(m.Seed, d.round)
	for i := range contract.Combinations(c.Probes) {
		if one := (attempt{at: contract.Combination(c.Probes, first+uint64(i))}); len(one.at) > 0 {
			out = append(out, one)
		}
	}
	return append(out, attempt{})
}

// schema returns what the values make of the reply.
func (a attempt) schema() any {
	if len(a.at) == 0 {
		return true
	}
	root := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(a.at)) {
		v, err := schema.Decode(a.at[key])
		if err == nil {
			within(root, key)["const"] = v
		}
	}
	return root
}

// within returns the schema of a dotted path below an object's schema, which
// it makes required. The empty path is the object itself. Lists have at least one item on the way.
func within(doc map[string]any, key string) map[string]any {
	if key == "" {
		return doc
	}
	for name := range strings.SplitSeq(key, ".") {
		if name == contract.AnyItem {
			doc["type"] = "array"
			doc["minItems"] = json.Number("1")
			items, _ := doc["items"].(map[string]any)
			if items == nil {
				items = map[string]any{}
				doc["items"] = items
			}
			doc = items
			continue
		}
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

// prose returns a reply for people. It says that it is simulated.
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
	fmt.Fprintf(&out, "\nExample: %s", sentences[d.pick("prose", len(sentences))])
	return out.String()
}

// question returns the beginning of what the conversation began with.
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

// excerpt returns a text's first line, shortened.
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
	marshal := jsonfast.Marshal
	if indented {
		marshal = jsonfast.MarshalIndent
	}
	out, err := marshal(v)
	if err != nil {
		panic(err) // maps, lists, texts and numbers that came from JSON always have a JSON form
	}
	return out
}

func badSchema(of string, err error) *provider.Error {
	return provider.Errorf(provider.BadRequest, "the schema %s cannot be read: %v", of, err)
}

func unsatisfied(of string) *provider.Error {
	return provider.Errorf(provider.BadRequest,
		"the simulated model found no value that satisfies the schema %s; a scripted reply can give one", of)
}
