package httptransport

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Schemas are handled as raw JSON throughout: the providers' SDKs write a
// json.Number as a string.

// object is a JSON object whose values are not decoded.
type object map[string]json.RawMessage

func readObject(raw json.RawMessage) (object, bool) {
	var out object
	err := json.Unmarshal(raw, &out)
	return out, err == nil && out != nil
}

func readList(raw json.RawMessage) ([]json.RawMessage, bool) {
	var out []json.RawMessage
	err := json.Unmarshal(raw, &out)
	return out, err == nil && out != nil
}

// raw encodes a value that consists of raw JSON and strings.
func raw(v any) json.RawMessage {
	out, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return out
}

// is reports whether a keyword has exactly this JSON value.
func (o object) is(key, value string) bool { return string(bytes.TrimSpace(o[key])) == value }

var openObject = object{"type": json.RawMessage(`"object"`), "properties": json.RawMessage(`{}`)}

// Parameters returns the schema of a tool's input in a form that every server
// accepts: of type object, without combinators at the root, and valid under
// JSON Schema 2020-12. A schema that cannot be brought into this form becomes
// one that accepts every object; the tool checks its input itself.
func Parameters(t provider.Tool) map[string]json.RawMessage {
	in, _ := readObject(t.Schema)
	in = maps.Clone(in)
	delete(in, "$schema") // it may name an older draft
	for _, convert := range []func(object) object{func(o object) object { return o }, modern} {
		out := root(convert(in))
		if _, err := schema.Compile(raw(out)); err == nil {
			return out
		}
	}
	return maps.Clone(openObject)
}

// root rewrites a schema to one of type object. Servers reject combinators at the root, so the properties of all
// alternatives become properties of the object, and only the required ones of allOf stay required. A property that
// alternatives define differently may have the values of each. The tool checks its input itself.
func root(in object) object {
	out := object{}
	maps.Copy(out, in)
	properties, ok := readObject(in["properties"])
	if !ok {
		properties = object{}
	}
	required, _ := readList(in["required"])
	variants := map[string][]json.RawMessage{} // the schemas of properties in alternatives
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		alternatives, _ := readList(in[key])
		for _, one := range alternatives {
			inner, _ := readObject(one)
			more, _ := readObject(inner["properties"])
			for name, property := range more {
				if _, has := properties[name]; !has {
					variants[name] = append(variants[name], property)
				}
			}
			if must, ok := readList(inner["required"]); ok && key == "allOf" {
				required = append(required, must...)
			}
		}
		delete(out, key)
	}
	for name, list := range variants {
		properties[name] = list[0]
		if list = unique(list); len(list) > 1 {
			properties[name] = raw(object{"anyOf": raw(list)})
		}
	}
	for _, key := range []string{"not", "enum", "const"} {
		delete(out, key)
	}
	out["type"], out["properties"] = openObject["type"], raw(properties)
	if required = unique(required); len(required) > 0 {
		out["required"] = raw(required)
	}
	return out
}

func unique(list []json.RawMessage) []json.RawMessage {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(list), func(one json.RawMessage) bool {
		before := seen[string(one)]
		seen[string(one)] = true
		return before
	})
}

// modern converts keywords of older drafts to draft 2020-12, also in schemas inside: lists in items, and booleans in
// exclusiveMinimum, exclusiveMaximum and required.
func modern(in object) object {
	out := object{}
	maps.Copy(out, in)
	if _, isList := readList(out["items"]); isList {
		out["prefixItems"] = out["items"]
		delete(out, "items")
		if rest, ok := out["additionalItems"]; ok {
			out["items"] = rest
		}
	}
	delete(out, "additionalItems")
	for exclusive, limit := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if out.is(exclusive, "true") && out[limit] != nil {
			out[exclusive] = out[limit]
			delete(out, limit)
		} else if out.is(exclusive, "true") || out.is(exclusive, "false") {
			delete(out, exclusive)
		}
	}
	if out.is("required", "true") || out.is("required", "false") {
		delete(out, "required")
	}
	inside := func(one json.RawMessage) json.RawMessage {
		if inner, ok := readObject(one); ok {
			return raw(modern(inner))
		}
		return one
	}
	for _, key := range schema.MapKeywords {
		if all, ok := readObject(out[key]); ok {
			for name, one := range all {
				all[name] = inside(one)
			}
			out[key] = raw(all)
		}
	}
	for _, key := range schema.ListKeywords {
		if all, ok := readList(out[key]); ok {
			for i, one := range all {
				all[i] = inside(one)
			}
			out[key] = raw(all)
		}
	}
	for _, key := range schema.SchemaKeywords {
		if one, ok := out[key]; ok {
			out[key] = inside(one)
		}
	}
	return out
}

// HintSchema returns a reply's schema for servers that do not enforce it, or nil
// if it is not the schema of an object.
func HintSchema(reply json.RawMessage) map[string]json.RawMessage {
	in, ok := readObject(reply)
	if !ok || !in.is("type", `"object"`) || in["anyOf"] != nil || in["oneOf"] != nil || in["allOf"] != nil {
		return nil
	}
	out := modern(in)
	delete(out, "$schema")
	if _, err := schema.Compile(raw(out)); err != nil {
		return nil
	}
	return out
}

// Subset is the part of JSON Schema that a provider supports for enforced
// replies. All providers accept type, enum, properties, required, items and
// anyOf, and require closed objects; the fields state the differences.
type Subset struct {
	// AllRequired rejects optional properties.
	AllRequired bool
	// PlainEnum allows texts and numbers in enum, but not true, false and null.
	PlainEnum bool
	// Limits of the whole schema; 0 means none. Characters counts names and the values of enum.
	Depth, Properties, EnumValues, Optional, Unions, Characters int
	// EnumCharacters is the limit of an enum with more than maxUnlimitedEnum values.
	EnumCharacters int
}

const maxUnlimitedEnum = 250

// Fit rewrites the schema of a reply to the subset. It drops keywords that only
// narrow values, because every reply is also checked against the original
// schema. ok is false if the subset cannot express the schema.
func (s Subset) Fit(reply json.RawMessage) (fit map[string]json.RawMessage, ok bool) {
	in, isObject := readObject(reply)
	if !isObject || !in.is("type", `"object"`) {
		return nil, false
	}
	if _, err := schema.Compile(reply); err != nil {
		return nil, false
	}
	f := fitter{subset: s, root: in}
	out, ok := f.schema(in, 1, nil)
	if !ok || out["anyOf"] != nil || f.exceeds() {
		return nil, false
	}
	return out, true
}

// fitter rewrites one schema and counts what the limits of the subset are about. nodes bounds the work: references are
// expanded, which can multiply a schema.
type fitter struct {
	subset                                                  Subset
	root                                                    object
	nodes, properties, values, optional, unions, characters int
}

// maxNodes limits the size of a schema after references are expanded.
const maxNodes = 2000

func (f *fitter) exceeds() bool {
	over := func(have, most int) bool { return most > 0 && have > most }
	return over(f.properties, f.subset.Properties) || over(f.values, f.subset.EnumValues) ||
		over(f.optional, f.subset.Optional) || over(f.unions, f.subset.Unions) ||
		over(f.characters, f.subset.Characters)
}

// dropped are keywords that only narrow or describe a value.
var dropped = []string{
	"$schema", "$id", "$comment", "$defs", "definitions", "default", "examples", "deprecated", "readOnly", "writeOnly",
	"format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
	"multipleOf", "minItems", "maxItems", "uniqueItems",
	"minProperties", "maxProperties", "contentEncoding", "contentMediaType",
}

// schema rewrites one schema. refs are the references that lead to it. ok is false if the schema has a keyword that
// changes which values are meant, such as not, or if a limit is exceeded.
func (f *fitter) schema(in object, depth int, refs []string) (object, bool) {
	if f.nodes++; f.nodes > maxNodes || f.subset.Depth > 0 && depth > f.subset.Depth {
		return nil, false
	}
	if in["$ref"] != nil {
		return f.reference(in, depth, refs)
	}
	out := object{}
	for key, value := range in {
		ok := true
		switch key {
		case "type", "description", "title", "required":
			out[key] = value
		case "enum", "const", "additionalProperties": // below
		case "properties":
			out[key], ok = f.all(value, depth, refs)
		case "items":
			out[key], ok = f.any(value, depth+1, refs)
		case "anyOf", "oneOf":
			if in["anyOf"] != nil && in["oneOf"] != nil {
				return nil, false
			}
			out["anyOf"], ok = f.each(value, depth, refs)
		default:
			ok = slices.Contains(dropped, key)
		}
		if !ok {
			return nil, false
		}
	}
	if !f.enum(in, out) || !f.object(in, out) {
		return nil, false
	}
	if _, several := readList(out["type"]); several || out["anyOf"] != nil {
		f.unions++
	}
	return out, out["type"] != nil || out["enum"] != nil || out["anyOf"] != nil
}

// reference replaces a reference to a place in the same schema with its target (JSON Pointer, RFC 6901). Recursive
// references cannot be replaced.
func (f *fitter) reference(in object, depth int, refs []string) (object, bool) {
	var to string
	if json.Unmarshal(in["$ref"], &to) != nil || slices.Contains(refs, to) {
		return nil, false // recursive
	}
	path, local := strings.CutPrefix(to, "#/")
	if !local {
		return nil, false
	}
	target := f.root
	for part := range strings.SplitSeq(path, "/") {
		var ok bool
		if target, ok = readObject(target[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]); !ok {
			return nil, false
		}
	}
	merged := maps.Clone(target)
	for key, value := range in {
		switch key {
		case "$ref":
		case "description", "title":
			merged[key] = value
		default:
			if !slices.Contains(dropped, key) {
				return nil, false
			}
		}
	}
	return f.schema(merged, depth, append(slices.Clone(refs), to))
}

// any rewrites a schema that is raw JSON; all does so for the properties of an object, and each for a list.
func (f *fitter) any(one json.RawMessage, depth int, refs []string) (json.RawMessage, bool) {
	inner, ok := readObject(one)
	if !ok {
		return nil, false
	}
	out, ok := f.schema(inner, depth, refs)
	return raw(out), ok
}

func (f *fitter) all(value json.RawMessage, depth int, refs []string) (json.RawMessage, bool) {
	properties, ok := readObject(value)
	if !ok {
		return nil, false
	}
	for name, one := range properties {
		f.characters += len(name)
		if properties[name], ok = f.any(one, depth+1, refs); !ok {
			return nil, false
		}
	}
	f.properties += len(properties)
	return raw(properties), true
}

func (f *fitter) each(value json.RawMessage, depth int, refs []string) (json.RawMessage, bool) {
	list, ok := readList(value)
	if !ok {
		return nil, false
	}
	for i, one := range list {
		if list[i], ok = f.any(one, depth, refs); !ok {
			return nil, false
		}
	}
	return raw(list), true
}

// enum keeps the listed values, or only their type if the subset does not
// support an enum of that type.
func (f *fitter) enum(in, out object) bool {
	values, _ := readList(in["enum"])
	if only, ok := in["const"]; ok {
		values = []json.RawMessage{only}
	}
	if len(values) == 0 {
		return true
	}
	for _, v := range values {
		switch first := bytes.TrimSpace(v)[0]; {
		case first == '{' || first == '[', f.subset.PlainEnum && (first == 't' || first == 'f' || first == 'n'):
			if out["type"] == nil && (first == 't' || first == 'f') {
				out["type"] = json.RawMessage(`"boolean"`)
			}
			return out["type"] != nil
		}
	}
	f.values += len(values)
	out["enum"] = raw(values)
	if out["type"] == nil { // OpenAI requires a type
		out["type"] = typesOf(values)
	}
	characters := len(out["enum"]) // bytes, quotes and commas too: never fewer than characters
	f.characters += characters
	return f.subset.EnumCharacters == 0 || len(values) <= maxUnlimitedEnum || characters <= f.subset.EnumCharacters
}

// typesOf returns the type of values, or a list of their types.
func typesOf(values []json.RawMessage) json.RawMessage {
	var types []string
	for _, v := range values {
		one := "number"
		switch v = bytes.TrimSpace(v); {
		case v[0] == '"':
			one = "string"
		case v[0] == 't', v[0] == 'f':
			one = "boolean"
		case v[0] == 'n':
			one = "null"
		case !bytes.ContainsAny(v, ".eE"):
			one = "integer"
		}
		types = xslices.AppendNew(types, one)
	}
	if slices.Contains(types, "number") {
		types = slices.DeleteFunc(types, func(t string) bool { return t == "integer" })
	}
	if len(types) == 1 {
		return raw(types[0])
	}
	return raw(types)
}

// object closes a schema that describes an object. ok is false if the object is meant to be open, because providers
// would forbid what the schema allows.
func (f *fitter) object(in, out object) bool {
	properties, _ := readObject(out["properties"])
	types, _ := readList(out["type"])
	isObject := out.is("type", `"object"`) ||
		slices.ContainsFunc(types, func(t json.RawMessage) bool { return string(t) == `"object"` })
	if !isObject {
		delete(out, "properties")
		delete(out, "required")
		return true
	}
	if len(properties) == 0 || in["additionalProperties"] != nil && !in.is("additionalProperties", "false") {
		return false // the object is not closed
	}
	var required []string
	if out["required"] != nil && json.Unmarshal(out["required"], &required) != nil {
		return false
	}
	for _, name := range required {
		if _, has := properties[name]; !has {
			return false
		}
	}
	for name := range properties {
		if !slices.Contains(required, name) {
			f.optional++
			if f.subset.AllRequired {
				return false
			}
		}
	}
	out["additionalProperties"] = json.RawMessage("false")
	return true
}

// Schema converts a schema to the type that the SDKs accept; its values stay raw.
func Schema(in map[string]json.RawMessage) map[string]any {
	out := map[string]any{}
	for key, value := range in {
		out[key] = value
	}
	return out
}

// Raw returns a schema as one JSON value.
func Raw(in map[string]json.RawMessage) json.RawMessage { return raw(in) }
