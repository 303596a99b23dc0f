package httptransport

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Names translates tool names: servers accept up to 64 letters, digits, dashes
// and underscores.
type Names struct {
	out, in map[string]string
	legal   func(string) string
}

const maxNameLength = 64

// NewNames maps the names of a request's tools. Names that servers accept are unchanged; the others are rewritten, in
// order, to unique names. So each tool keeps its name in every turn, and earlier calls in the conversation match.
func NewNames(req *provider.Request) *Names {
	return newNames(xslices.Map(req.Tools, func(t provider.Tool) string { return t.Name }), legal)
}

func newNames(all []string, legal func(string) string) *Names {
	n := &Names{out: map[string]string{}, in: map[string]string{}, legal: legal}
	for _, name := range all {
		if legal(name) == name {
			n.out[name], n.in[name] = name, name
		}
	}
	for _, name := range all {
		n.Out(name)
	}
	return n
}

// Out returns the server's name of a tool. Names that are not among the tools of the request, as in earlier turns, are
// rewritten when they first occur.
func (n *Names) Out(name string) string {
	if sent, ok := n.out[name]; ok {
		return sent
	}
	clean := n.legal(name)
	sent := clean
	for i := 2; n.in[sent] != ""; i++ {
		end := fmt.Sprintf("_%d", i)
		sent = clean[:min(len(clean), maxNameLength-len(end))] + end
	}
	n.out[name], n.in[sent] = sent, name
	return sent
}

// legal replaces the characters of a tool name that servers reject.
func legal(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, name)
	if clean == "" || !isLetter(clean[0]) { // Gemini rejects other first characters
		clean = "_" + clean
	}
	return clean[:min(len(clean), maxNameLength)]
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }

// In returns the tool name for a server's name, or the name itself if the model has made it up: the call is refused
// later.
func (n *Names) In(sent string) string {
	if name, ok := n.in[sent]; ok {
		return name
	}
	return sent
}

// Properties translates the names of a tool's properties, the keys of its input, for servers that accept letters,
// digits, dots, dashes and underscores only. Only the properties of the input itself are renamed, not those of objects
// inside. It is nil if the server accepts all names; its methods work on nil.
type Properties struct{ names *Names }

// NewProperties maps the names of the properties of a schema.
func NewProperties(schema map[string]json.RawMessage) *Properties {
	properties, _ := readObject(schema["properties"])
	all := slices.Sorted(maps.Keys(properties))
	if !slices.ContainsFunc(all, func(name string) bool { return legalProperty(name) != name }) {
		return nil
	}
	return &Properties{newNames(all, legalProperty)}
}

func legalProperty(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r >= '0' && r <= '9' || r < 0x80 && isLetter(byte(r)) {
			return r
		}
		return '_'
	}, name)
	if clean == "" {
		return "_"
	}
	return clean[:min(len(clean), maxNameLength)]
}

// Schema returns the schema with the server's names. If renaming makes the schema invalid, because it refers to a
// property by name, Schema returns one that accepts every object.
func (p *Properties) Schema(in map[string]json.RawMessage) map[string]json.RawMessage {
	if p == nil {
		return in
	}
	out := object{}
	maps.Copy(out, in)
	for _, key := range []string{"properties", "dependentSchemas", "dependentRequired"} {
		if all, ok := readObject(in[key]); ok {
			out[key] = raw(p.rename(all, p.names.Out))
		}
	}
	var required []string
	if json.Unmarshal(in["required"], &required) == nil {
		for i, name := range required {
			required[i] = p.names.Out(name)
		}
		out["required"] = raw(required)
	}
	if _, err := schema.Compile(raw(out)); err != nil {
		return maps.Clone(openObject)
	}
	return out
}

// Out returns an input with the server's names.
func (p *Properties) Out(input json.RawMessage) json.RawMessage {
	if p == nil {
		return input
	}
	return p.renamed(input, p.names.Out)
}

// In returns an input with the tool's names.
func (p *Properties) In(input json.RawMessage) json.RawMessage {
	if p == nil {
		return input
	}
	return p.renamed(input, p.names.In)
}

func (p *Properties) renamed(input json.RawMessage, name func(string) string) json.RawMessage {
	all, ok := readObject(input)
	if !ok {
		return input
	}
	return raw(p.rename(all, name))
}

func (p *Properties) rename(all object, name func(string) string) object {
	out := object{}
	for key, value := range all {
		out[name(key)] = value
	}
	return out
}

// CallID returns the ID of a tool call for servers that accept letters, digits, dashes and underscores only.
// Conversations that started with another server can have other IDs. A call and its result get the same ID because it
// depends on the original one alone; the hash keeps IDs apart that differ only in other characters.
func CallID(id string) string {
	plain := strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r < 0x80 && isLetter(byte(r)) {
			return r
		}
		return -1
	}, id)
	if plain == id && id != "" {
		return id
	}
	return fmt.Sprintf("%s_%x", plain, sha256.Sum256([]byte(id)))[:len(plain)+17]
}

// Turn is a sequence of blocks with the same role.
type Turn[T any] struct {
	Role   provider.Role
	Blocks []T
}

// Turns converts a conversation for servers that require alternating roles, no empty messages, and tool results before
// texts. Consecutive messages of one role become one turn. convert reports whether the server accepts a block.
func Turns[T any](messages []provider.Message, convert func(provider.Block) (T, bool)) []Turn[T] {
	var out []Turn[T]
	results := 0 // in the last turn
	for _, m := range messages {
		for _, b := range m.Blocks {
			one, ok := convert(b)
			if !ok {
				continue
			}
			if n := len(out); n == 0 || out[n-1].Role != m.Role {
				out = append(out, Turn[T]{Role: m.Role})
				results = 0
			}
			last := &out[len(out)-1]
			if b.Type == provider.ToolResult {
				last.Blocks = slices.Insert(last.Blocks, results, one)
				results++
				continue
			}
			last.Blocks = append(last.Blocks, one)
		}
	}
	return out
}

// ResultTexts returns the result of a tool as texts: one for each block of an MCP result, else one. Errors name tools
// by the server's names.
func (n *Names) ResultTexts(b provider.Block) []string {
	out, ok := contentTexts(b.Content)
	if !ok {
		out = []string{ir.PlainText(b.Content)}
	}
	if b.IsError {
		for i := range out {
			out[i] = n.translate(out[i])
		}
	}
	return out
}

// ResultText returns the result of a tool as one text.
func (n *Names) ResultText(b provider.Block) string { return strings.Join(n.ResultTexts(b), "\n\n") }

// translate replaces tool names in a message by the server's names. Messages contain names in quotes, or followed by a
// restriction in parentheses.
func (n *Names) translate(message string) string {
	longestFirst := func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }
	for _, name := range slices.SortedFunc(maps.Keys(n.out), longestFirst) {
		sent := n.out[name]
		message = strings.ReplaceAll(message, strconv.Quote(name), strconv.Quote(sent))
		message = strings.ReplaceAll(message, name+"(", sent+"(")
	}
	return message
}

// contentBlock is a block of an MCP result.
type contentBlock struct {
	Type        string  `json:"type"`
	Text        *string `json:"text"`
	URI         string  `json:"uri"`
	Name        string  `json:"name"`
	MIMEType    string  `json:"mimeType"`
	Description string  `json:"description"`
	Resource    struct {
		URI  string  `json:"uri"`
		Text *string `json:"text"`
	} `json:"resource"`
}

// contentTexts returns the texts of an MCP result. ok is false for other content, and for a single text block.
func contentTexts(content json.RawMessage) (texts []string, ok bool) {
	var blocks []contentBlock
	if json.Unmarshal(content, &blocks) != nil {
		blocks = make([]contentBlock, 1)
		if json.Unmarshal(content, &blocks[0]) != nil || blocks[0].Type == "text" {
			return nil, false
		}
	}
	var out []string
	for _, b := range blocks {
		switch {
		case b.Type == "text" && b.Text != nil:
			out = append(out, *b.Text)
		case b.Type == "resource" && b.Resource.Text != nil:
			out = append(out, fmt.Sprintf("[resource %s]\n%s", b.Resource.URI, *b.Resource.Text))
		case b.Type == "resource_link" && b.URI != "":
			facts := []string{b.URI, b.Name, b.MIMEType, b.Description}
			facts = slices.DeleteFunc(facts, func(fact string) bool { return fact == "" })
			out = append(out, fmt.Sprintf("[resource %s]", strings.Join(facts, ", ")))
		default:
			return nil, false
		}
	}
	return out, len(out) > 0
}

// IsObject reports whether a value is a JSON object.
func IsObject(value json.RawMessage) bool {
	_, ok := readObject(value)
	return ok
}

// IsBase64 reports whether a text is base64.
func IsBase64(text string) bool {
	_, err := base64.StdEncoding.DecodeString(text)
	return err == nil
}

// ToolInput returns a tool's input as JSON. Text that is not valid JSON becomes
// a JSON string.
func ToolInput(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	if text == "" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	// The tool's own schema rejects it, and the model gets the error.
	quoted, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage("null")
	}
	return quoted
}

// AddCall adds a tool call to a reply, unless the reply was cut off in its input. Some servers report a normal end
// although the reply has calls, so Done becomes WantsTool.
func AddCall(r *provider.Reply, id, name, input string) {
	switch {
	case r.Stop == provider.CutOff && !json.Valid([]byte(input)):
		return
	case r.Stop == provider.Done:
		r.Stop = provider.WantsTool
	}
	r.Blocks = append(r.Blocks, provider.Block{
		Type: provider.ToolUse, ToolID: id, ToolName: name, Input: ToolInput(input),
	})
}

const generatedPrefix = "call-"

// GenerateID returns an ID for the n-th tool call of a turn, if the server sends none. It is unique in the
// conversation, and the same when the turn is replayed.
func GenerateID(turn, n int) string { return fmt.Sprintf("%s%d-%d", generatedPrefix, turn, n) }

// ServerID returns the ID of a tool call, or "" if GenerateID generated it.
func ServerID(id string) string {
	if strings.HasPrefix(id, generatedPrefix) {
		return ""
	}
	return id
}
