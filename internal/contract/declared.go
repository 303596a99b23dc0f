package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/xslices"
)

// wholeOutput is the variable that a program's result is read from.
const wholeOutput = "output"

// declared puts together what the author says about the variables that the
// step writes, and about the reply in words.
func (b *builder) declared() {
	for _, one := range b.slots {
		doc, from := b.schemaOf(one.write)
		if doc = b.part(doc); doc == nil {
			continue
		}
		if len(one.at) == 0 {
			b.doc = doc
		} else {
			b.put(one.at, doc, true)
			b.hoistDefinitions(one.at)
		}
		b.note(from)
	}
	defer b.require()
	for _, words := range b.spec.Expected {
		if b.describe(words) {
			return
		}
	}
}

// hoistDefinitions moves the definitions of a part to the top, where references look for
// them.
func (b *builder) hoistDefinitions(at []string) {
	node, root := b.find(at), b.doc.(map[string]any)
	for _, keyword := range []string{"$defs", "definitions"} {
		defs, ok := node[keyword].(map[string]any)
		if !ok {
			continue
		}
		delete(node, keyword)
		all, _ := root[keyword].(map[string]any)
		if all == nil {
			all = map[string]any{}
		}
		maps.Copy(all, defs)
		root[keyword] = all
	}
}

// require adds the keys that a reply must have.
func (b *builder) require() {
	for _, name := range b.spec.Required {
		if b.put([]string{name}, nil, true) {
			b.note("the fields that the bundle requires")
		}
	}
}

// describe adds what words say about the reply. It reports false if they say
// nothing, or speak of another reply than the one that the step writes.
func (b *builder) describe(words string) bool {
	described := shapeOf(words)
	if described == nil {
		return false
	}
	if len(b.spec.Required) > 0 && described["type"] != "object" {
		if described["type"] != "array" || !slices.Contains(b.spec.Required, itemsKey) {
			return false
		}
		described = map[string]any{
			"type": "object", "properties": map[string]any{itemsKey: described}, "required": []any{itemsKey},
		}
	}
	properties, _ := described["properties"].(map[string]any)
	for _, one := range b.slots {
		if len(one.at) > 0 && properties[one.at[0]] == nil {
			return false
		}
	}
	doc, _ := b.doc.(map[string]any)
	switch {
	case doc == nil:
		b.doc = described
	case doc["type"] == "object" && described["type"] == "object":
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			b.put([]string{name}, property(described, name), slices.Contains(anyList(described["required"]), any(name)))
		}
	default:
		return false
	}
	b.note("the expected output")
	return true
}

// schemaOf returns what is declared about the variable of a write, and where. A variable that values are appended to
// declares the list, not the value that is written, so it does not count.
func (b *builder) schemaOf(w *ir.Write) (map[string]any, string) {
	reducer := w.Reducer
	for i := range b.p.Vars {
		v := &b.p.Vars[i]
		if v.Path == w.Path && reducer == "" {
			reducer = v.Reducer
		}
		if rest, ok := below(w.Path, v.Path); ok && len(v.Schema) > 0 && reducer != ir.Append {
			if doc := inside(decode(v.Schema), split(rest)); doc != nil {
				return doc, "the schema of " + v.Path
			}
		}
	}
	if reducer == ir.Append {
		return nil, ""
	}
	rest, ok := below(w.Path, wholeOutput)
	if !ok || b.p.Output == nil || len(b.p.Output.Schema) == 0 {
		return b.passedOn(w.Path)
	}
	doc := inside(decode(b.p.Output.Schema), split(rest))
	if doc == nil || !isConstrained(doc) {
		return b.passedOn(w.Path)
	}
	if rest == "" {
		b.raw = b.p.Output.Schema
		b.shared(doc)
	}
	return doc, "the schema of the output"
}

// passedOn returns what a workflow declares about a variable that a later step passes to it.
func (b *builder) passedOn(path string) (map[string]any, string) {
	for s := range b.p.Steps() {
		call, ok := s.Action.(ir.Call)
		reads := slices.ContainsFunc(s.Reads, func(r ir.Ref) bool { return r.Path == path })
		if !ok || !call.PassReads || !reads || call.Child < 0 || call.Child >= len(b.p.Children) {
			continue
		}
		child := &b.p.Children[call.Child]
		if child.Input == nil || !b.links().reaches(b.s, s) {
			continue
		}
		schema := decode(child.Input.Schema)
		doc := inside(schema, []string{path[strings.LastIndexByte(path, '.')+1:]})
		if doc == nil && len(s.Reads) == 1 {
			doc = inside(schema, nil)
		}
		if doc != nil && isConstrained(doc) {
			return doc, fmt.Sprintf("the input of workflow %q", child.Name)
		}
	}
	return nil, ""
}

// shared takes what other steps on the same way through the program write from
// the keys that this step must give.
func (b *builder) shared(doc map[string]any) {
	required, _ := doc["required"].([]any)
	if len(required) == 0 {
		return
	}
	kept := xslices.Filter(required, func(name any) bool {
		key, ok := name.(string)
		return !ok || !b.writtenByOtherStep(key)
	})
	if len(kept) == len(required) {
		return
	}
	delete(doc, "required")
	if len(kept) > 0 {
		doc["required"] = kept
	}
}

// writtenByOtherStep reports whether a step that runs before or after this one writes a key of the output.
func (b *builder) writtenByOtherStep(key string) bool {
	flow := b.links()
	for other := range b.p.Steps() {
		if other == b.s || other.ID == b.s.ID {
			continue
		}
		writes := slices.ContainsFunc(other.Writes, func(w ir.Write) bool {
			_, inside := below(w.Path, wholeOutput+"."+key)
			return w.Path == wholeOutput || inside
		})
		if writes && (flow.reaches(b.s, other) || flow.reaches(other, b.s)) {
			return true
		}
	}
	return false
}

// inside returns the schema of a place below a schema as a document of its own, with the definitions that it refers to.
// It returns nil if the place is not declared.
func inside(root any, at []string) map[string]any {
	top, _ := root.(map[string]any)
	node := top
	for _, name := range at {
		node = property(resolve(top, node), name)
	}
	if node == nil {
		return nil
	}
	if len(at) == 0 {
		return node
	}
	out := maps.Clone(node)
	for _, keyword := range []string{"$defs", "definitions"} {
		if defs, ok := top[keyword]; ok && refers(node, keyword) {
			out[keyword] = defs
		}
	}
	return out
}

// refers reports whether a schema refers to definitions under a keyword.
func refers(node map[string]any, keyword string) bool {
	return strings.Contains(string(encode(node)), `"$ref":"#/`+keyword+"/")
}

// resolve follows a reference to a definition of the same document.
func resolve(root, node map[string]any) map[string]any {
	for range 10 { // a circle leads nowhere
		ref, _ := node["$ref"].(string)
		pointer, ok := strings.CutPrefix(ref, "#/")
		if !ok {
			return node
		}
		at := root
		for name := range strings.SplitSeq(pointer, "/") {
			name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
			at, _ = at[name].(map[string]any)
		}
		if at == nil {
			return node
		}
		node = at
	}
	return node
}

// below returns the rest of a path after the prefix top, without the dot between them. It reports false if path is
// neither top nor below it.
func below(path, top string) (string, bool) {
	if path == top {
		return "", true
	}
	return strings.CutPrefix(path, top+".")
}

// describe returns a schema in a few words.
func describe(node map[string]any) string {
	if values, ok := node["enum"].([]any); ok {
		words := xslices.Map(values, func(v any) string { return string(encode(v)) })
		return "one of " + strings.Join(words, ", ")
	}
	if v, ok := node["const"]; ok {
		return string(encode(v))
	}
	switch t := node["type"].(type) {
	case string:
		out := typeWords[t]
		low, hasLow := node["minimum"].(json.Number)
		high, hasHigh := node["maximum"].(json.Number)
		switch {
		case hasLow && hasHigh:
			out += " from " + low.String() + " to " + high.String()
		case hasLow:
			out += " of at least " + low.String()
		case hasHigh:
			out += " of at most " + high.String()
		}
		return out
	case []any:
		return strings.Join(xslices.Map(t, func(one any) string {
			name, _ := one.(string)
			return typeWords[name]
		}), " or ")
	}
	return "what its schema allows"
}

// typeWords describe the types of a schema for people.
var typeWords = map[string]string{
	"boolean": "true or false", "number": "a number", "integer": "an integer", "string": "a string",
	"array": "a list", "object": "an object", "null": "null",
}
