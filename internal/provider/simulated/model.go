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
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/jsonfast"
	"github.com/espalier-run/espalier/internal/price"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/schema"
)

// Name is the model name of replies.
const Name = string(journal.OfflineSimulated)

// Model generates replies. The zero value is ready to use.
type Model struct {
	// Seed chooses among the replies that a request could have.
	Seed uint64
	// UseTools calls every offered tool once in a conversation before the reply.
	// Otherwise no tool is called.
	UseTools bool
}

// Generate streams a generated reply.
func (m Model) Generate(ctx context.Context, req provider.Request) iter.Seq2[provider.Chunk, error] {
	return func(yield func(provider.Chunk, error) bool) {
		reply, err := m.reply(req)
		if err != nil {
			yield(provider.Chunk{}, err)
			return
		}
		reply.Model, reply.Offline = Name, journal.OfflineSimulated
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

// Answer generates the result of a tool: JSON that satisfies the schema and the
// contract of the purpose. It returns nil if there is neither.
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

// Probed generates a JSON object with the values that the contract's probes read.
// It returns nil if there are no probes.
func (m Model) Probed(p provider.Purpose) (json.RawMessage, error) {
	if len(p.Contract.Probes) == 0 {
		return nil, nil
	}
	c := p.Contract
	c.Schema = nil
	p.Contract = c
	return m.Answer(p, json.RawMessage(`{"type":"object"}`))
}

// dice returns dice seeded by the purpose of the request. The text of the request
// matters only if it has no purpose: prompts contain varying data such as
// approval times, which must not change a reply.
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

// toolCalls returns calls of all tools that the conversation has not called yet.
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
			v, ok := newGenerator(d).value([]*schema.Node{s}, location{path: "tool " + t.Name})
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

// text returns the text of the reply: JSON if a schema or contract requires it, else prose. Combinations of values for
// conditions are tried in turn, each with and without optional properties, until one fits the schema; a value that is
// too long for the token limit gives way to a minimal one.
func (m Model) text(d dice, req provider.Request) (string, error) {
	if req.For.Sample != "" {
		return req.For.Sample, nil
	}
	var wanted []*schema.Node // the schema of the request, which every attempt must satisfy
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
		for _, minimal := range []bool{false, true} {
			generator := newGenerator(d)
			generator.approved, generator.minimal = string(tried.at["approved"]) == "true", minimal
			v, ok := generator.value(all, location{})
			if !ok {
				continue // the limit of tries may be reached; a minimal value needs fewer
			}
			text := string(encode(v, true))
			if s, plain := v.(string); plain && len(req.Schema) == 0 {
				text = s
			}
			if minimal || req.MaxTokens <= 0 || price.EstimateTokens(text) <= int64(req.MaxTokens) {
				return text, nil
			}
		}
	}
	if len(wanted) == 0 {
		return d.prose(req), nil
	}
	return "", unsatisfied("of the reply")
}

// attempt is a combination of values for the places that conditions of the workflow read.
type attempt struct{ at map[string]json.RawMessage }

// explore returns the combinations to try: first the one for the seed and the
// round, then its successors, in case a schema excludes it, and finally none.
// Consecutive seeds and rounds cover all combinations, so that every branch is
// taken in some run and every loop ends.
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

// schema returns a schema that requires the values.
func (a attempt) schema() any {
	if len(a.at) == 0 {
		return true
	}
	root := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(a.at)) {
		v, err := schema.Decode(a.at[key])
		if err == nil {
			requiredAt(root, key)["const"] = v
		}
	}
	return root
}

// requiredAt returns the schema at a dotted path below doc, which it makes required.
// The empty path is doc itself. Lists on the path get at least one item.
func requiredAt(doc map[string]any, key string) map[string]any {
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

// prose returns a text that states that it is simulated.
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

// question returns an excerpt of the first user message.
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
		panic(err) // cannot happen: the values come from JSON
	}
	return out
}

func badSchema(of string, err error) *provider.Error {
	return provider.Errorf(ir.ClassBadRequest, "the schema %s cannot be read: %v", of, err)
}

func unsatisfied(of string) *provider.Error {
	return provider.Errorf(ir.ClassBadRequest,
		"the simulated model found no value that satisfies the schema %s; a scripted reply can give one", of)
}
