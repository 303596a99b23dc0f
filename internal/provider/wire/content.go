package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/provider"
)

// Names translates names of tools: servers take letters, digits, dashes and
// underscores, and not too many of them.
type Names struct {
	out, in map[string]string
}

const longestName = 64

// NewNames translates the names of a request's tools, in their order, so that
// a name is sent the same way in every turn.
func NewNames(req *provider.Request) *Names {
	n := &Names{out: map[string]string{}, in: map[string]string{}}
	for _, t := range req.Tools {
		n.Out(t.Name)
	}
	return n
}

// Out is the name that the server gets to see.
func (n *Names) Out(name string) string {
	if sent, ok := n.out[name]; ok {
		return sent
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, name)
	if clean == "" || !isLetter(clean[0]) { // which not every server takes
		clean = "_" + clean
	}
	sent := clean[:min(len(clean), longestName)]
	for i := 2; n.in[sent] != ""; i++ {
		end := fmt.Sprintf("_%d", i)
		sent = clean[:min(len(clean), longestName-len(end))] + end
	}
	n.out[name], n.in[sent] = sent, name
	return sent
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }

// In is the name that the server means.
func (n *Names) In(sent string) string {
	if name, ok := n.in[sent]; ok {
		return name
	}
	return sent
}

// Parameters is the schema of a tool's input; an object, whatever happens.
func Parameters(t provider.Tool) map[string]any {
	all, _ := Decode(t.Schema) // what is none is as good as an empty one
	schema, _ := all.(map[string]any)
	if schema == nil {
		schema = map[string]any{}
	}
	schema["type"] = "object"
	if _, ok := schema["properties"].(map[string]any); !ok {
		schema["properties"] = map[string]any{}
	}
	return schema
}

// ResultText is what a tool returned, as text for a model.
func ResultText(b provider.Block) string {
	var text string
	if json.Unmarshal(b.Content, &text) == nil {
		return text
	}
	return string(b.Content)
}

// Input is a tool's input as a server sent it: an object, or what it was.
func Input(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	if text == "" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	// The tool's own schema refuses it, and the model is told.
	quoted, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage("null")
	}
	return quoted
}

const madeUp = "call-"

// MakeUpID names the n-th call of a turn that the server has given no id. No
// other call of the conversation has the same.
func MakeUpID(turn, n int) string { return fmt.Sprintf("%s%d-%d", madeUp, turn, n) }

// OwnID is an id that the server itself has given; "" when it is made up.
func OwnID(id string) string {
	if strings.HasPrefix(id, madeUp) {
		return ""
	}
	return id
}

// Fill puts in what a server did not tell.
func Fill(req *provider.Request, r *provider.Reply) {
	r.FillUsage(req)
	if r.Model == "" {
		r.Model = req.Model
	}
}
