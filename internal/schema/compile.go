package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Error describes why a document is not a valid schema.
type Error struct {
	Pointer string   // JSON pointer of the location; "" is the schema itself
	Message string   // does not repeat the location: "expected an array, not a string"
	Got     string   // the invalid value, if the valid ones are known
	Allowed []string // the valid values
	Outside bool     // a reference leads to another document
	Others  []*Error // the other errors of the schema, by location
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return "invalid schema: " + e.Message
	}
	return fmt.Sprintf("invalid schema at %s: %s", e.Pointer, e.Message)
}

// Compile compiles a schema. The error is an *Error: the one with the first pointer in lexical order.
func Compile(raw json.RawMessage) (*Schema, error) {
	doc, err := Decode(raw)
	if err != nil {
		return nil, &Error{Message: "not valid JSON"}
	}
	return CompileValue(doc)
}

// CompileValue compiles a schema that Decode has decoded.
func CompileValue(doc any) (*Schema, error) {
	c := &compiler{doc: doc, draft: draft2020, nodes: map[string]*Node{}, resources: map[string]*resource{}}
	if object, ok := doc.(map[string]any); ok {
		c.readDraft(object)
	}
	root := c.node(doc, "", c.newResource(base(), ""))
	for len(c.unresolved) > 0 { // the target of a reference may contain more references
		next := c.unresolved
		c.unresolved = nil
		for _, resolve := range next {
			resolve()
		}
	}
	if len(c.problems) > 0 {
		slices.SortStableFunc(c.problems, func(a, b *Error) int { return strings.Compare(a.Pointer, b.Pointer) })
		first := *c.problems[0]
		first.Others = c.problems[1:]
		return nil, &first
	}
	return &Schema{root: root}, nil
}

// The drafts with different keywords.
const (
	draft4    = 4
	draft7    = 7 // also draft 6
	draft2019 = 2019
	draft2020 = 2020
)

// Limits of compiling. Every node stores its pointer, so a long name with many nodes below it would take far more
// memory than the document itself.
const (
	maxPointerTokens = 400
	maxPointerLen    = 4_000      // bytes of one pointer
	maxPointerBytes  = 32_000_000 // of all pointers
)

// compiler compiles one schema. Each subschema becomes one Node, which is found by its pointer: a reference that leads
// back to a subschema around it gets the same Node, so recursive schemas are graphs with cycles.
type compiler struct {
	doc        any
	draft      int
	nodes      map[string]*Node // by pointer
	resources  map[string]*resource
	unresolved []func() // references to resolve
	problems   []*Error
	size       int  // bytes of all pointers
	tooLarge   bool // a limit was exceeded and reported
}

// problem records a problem with the schema at a pointer.
func (c *compiler) problem(pointer, format string, args ...any) {
	c.problems = append(c.problems, &Error{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

// readDraft sets the draft of the schema from its $schema.
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
		c.problem("/$schema", "unknown JSON Schema draft %q", name)
	}
}

// escapes escapes a name for use in a JSON pointer.
var escapes = strings.NewReplacer("~", "~0", "/", "~1")

// node compiles the schema v at a pointer, or returns the Node that is there already.
func (c *compiler) node(v any, at string, in *resource) *Node {
	if n := c.nodes[at]; n != nil {
		return n
	}
	n := &Node{pointer: at, within: in}
	c.size += len(at)
	if c.size > maxPointerBytes || len(at) > maxPointerLen || strings.Count(at, "/") > maxPointerTokens {
		if !c.tooLarge {
			c.tooLarge = true
			c.problem("", "the schema is too large or nested too deeply")
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
		c.problem(at, "expected a schema (an object, true or false), not %s", typeName(v))
	}
	return n
}

// object compiles the keywords of a schema in a fixed order, so that problems are always found in the same order.
func (c *compiler) object(n *Node, v map[string]any) {
	if ref, ok := v["$ref"].(string); ok && c.draft <= draft7 {
		// These drafts ignore the siblings of $ref.
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

// since returns the draft that introduced a keyword. Older drafts ignore it.
func since(name string) int {
	switch name {
	case "prefixItems", "$dynamicRef", "$dynamicAnchor":
		return draft2020
	case "$defs", "$anchor", "$recursiveRef", "$recursiveAnchor", "minContains", "maxContains",
		"unevaluatedItems", "unevaluatedProperties", "dependentSchemas", "dependentRequired", "deprecated":
		return draft2019
	case "const", "contains", "propertyNames", "examples", "if", "then", "else", "$id", "$comment":
		return draft7
	}
	return draft4
}
