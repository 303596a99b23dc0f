package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Error is what is wrong with a schema, and where in it.
type Error struct {
	Pointer string   // JSON pointer; "" is the schema itself
	Message string   // without a subject that would need the pointer: "it wants a list there, not text"
	Got     string   // the wrong word, where one of Allowed should be
	Allowed []string // what may stand there, when that is a list
	Outside bool     // it refers to another document
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return "the schema is not valid: " + e.Message
	}
	return fmt.Sprintf("the schema is not valid at %s: %s", e.Pointer, e.Message)
}

// Compile reads a schema. The error is an *Error, the first in the order of
// places.
func Compile(raw json.RawMessage) (*Schema, error) {
	doc, err := Decode(raw)
	if err != nil {
		return nil, &Error{Message: "it is not JSON"}
	}
	return CompileValue(doc)
}

// CompileValue is Compile for a schema that was decoded, as Decode does it.
func CompileValue(doc any) (*Schema, error) {
	c := &compiler{doc: doc, draft: draft2020, nodes: map[string]*Node{}, resources: map[string]*resource{}}
	if object, ok := doc.(map[string]any); ok {
		c.readDraft(object)
	}
	root := c.node(doc, "", c.newResource(base(), ""))
	for len(c.open) > 0 { // what a reference leads to may hold more of them
		next := c.open
		c.open = nil
		for _, resolve := range next {
			resolve()
		}
	}
	if len(c.problems) > 0 {
		return nil, slices.MinFunc(c.problems, func(a, b *Error) int { return strings.Compare(a.Pointer, b.Pointer) })
	}
	return &Schema{root: root}, nil
}

// The drafts that differ in what they call things.
const (
	draft4    = 4
	draft7    = 7 // and 6
	draft2019 = 2019
	draft2020 = 2020
)

// What bounds compiling. Every node has its pointer, so that long names with
// much below them would take far more memory than the document.
const (
	deepest      = 400   // names in a pointer
	longest      = 4_000 // bytes of a pointer
	mostPointers = 32_000_000
)

type compiler struct {
	doc       any
	draft     int
	nodes     map[string]*Node // by pointer
	resources map[string]*resource
	open      []func() // references that are not followed yet
	problems  []*Error
	size      int  // of all pointers
	tooLarge  bool // which is said once
}

func (c *compiler) problem(pointer, format string, args ...any) {
	c.problems = append(c.problems, &Error{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

func (c *compiler) readDraft(object map[string]any) {
	name, ok := object["$schema"].(string)
	if !ok {
		return
	}
	switch strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://"), "#") {
	case "json-schema.org/draft/2020-12/schema", "json-schema.org/schema":
	case "json-schema.org/draft/2019-09/schema":
		c.draft = draft2019
	case "json-schema.org/draft-07/schema", "json-schema.org/draft-06/schema":
		c.draft = draft7
	case "json-schema.org/draft-04/schema":
		c.draft = draft4
	default:
		c.problem("/$schema", "%q is not a draft of JSON Schema that is known here", name)
	}
}

// escapes makes names parts of a JSON pointer.
var escapes = strings.NewReplacer("~", "~0", "/", "~1")

func (c *compiler) node(v any, at string, in *resource) *Node {
	if n := c.nodes[at]; n != nil {
		return n
	}
	n := &Node{pointer: at, within: in}
	if c.size += len(at); c.size > mostPointers || len(at) > longest || strings.Count(at, "/") > deepest {
		if !c.tooLarge {
			c.tooLarge = true
			c.problem("", "it is too large, or goes too deep")
		}
		return n
	}
	c.nodes[at] = n
	if in.root == nil {
		in.root = n
	}
	switch v := v.(type) {
	case bool:
		n.Bool = &v
	case map[string]any:
		c.object(n, v)
	default:
		c.problem(at, "it wants a schema there (an object, true or false), not %s", kindOf(v))
	}
	return n
}

func (c *compiler) object(n *Node, v map[string]any) {
	if ref, ok := v["$ref"].(string); ok && c.draft <= draft7 {
		// In these drafts nothing beside a reference counts.
		alone := map[string]any{"$ref": ref}
		if d, ok := v["definitions"]; ok {
			alone["definitions"] = d
		}
		v = alone
	}
	id := "$id"
	if c.draft == draft4 {
		id = "id"
	}
	if value, ok := v[id].(string); ok {
		c.identify(n, value, n.pointer+"/"+id)
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if c.draft < since(name) {
			continue
		}
		k := keyword{c: c, n: n, value: v[name], at: n.pointer + "/" + escapes.Replace(name)}
		k.read(name, v)
	}
}

// since is the draft that brought a keyword. Before, it meant nothing.
func since(name string) int {
	switch name {
	case "prefixItems", "$dynamicRef", "$dynamicAnchor":
		return draft2020
	case "$defs", "$anchor", "$recursiveRef", "$recursiveAnchor", "minContains", "maxContains", "unevaluatedItems", "unevaluatedProperties",
		"dependentSchemas", "dependentRequired", "deprecated":
		return draft2019
	case "const", "contains", "propertyNames", "examples", "if", "then", "else", "$id", "$comment":
		return draft7
	}
	return draft4
}
