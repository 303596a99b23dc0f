package schema

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"

	"github.com/espalier-run/espalier/internal/xmaps"
)

// keyword compiles one keyword of a schema into a node.
type keyword struct {
	c     *compiler
	n     *Node
	value any
	at    string
}

// read compiles the keyword called name; around is the object that contains it. Unknown keywords are ignored.
func (k *keyword) read(name string, around map[string]any) {
	n := k.n
	switch name {
	case "$ref", "$dynamicRef", "$recursiveRef":
		k.reference(name)
	case "$anchor", "$dynamicAnchor":
		if anchor := k.text(); anchor != "" {
			n.within.anchors[anchor] = n
			if name == "$dynamicAnchor" {
				n.within.dynamic[anchor] = n
			}
		}
	case "$recursiveAnchor":
		if k.c.draft == draft2019 && k.flag() {
			n.within.dynamic[recursive] = n
		}
	case "$id", "$schema", "$comment", "contentEncoding", "contentMediaType":
		k.text()
	case "$defs", "definitions":
		k.named()

	case "allOf":
		n.AllOf = k.subs()
	case "anyOf":
		n.AnyOf = k.subs()
	case "oneOf":
		n.OneOf = k.subs()
	case "not":
		n.Not = k.sub()
	case "if":
		n.If = k.sub()
	case "then":
		n.Then = k.sub()
	case "else":
		n.Else = k.sub()

	case "type":
		k.types()
	case "enum":
		n.Enum = append([]any{}, k.list()...)
	case "const":
		n.Const = &k.value
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		k.bounds(name, around)

	case "minLength":
		n.MinLength = k.count()
	case "maxLength":
		n.MaxLength = k.count()
	case "pattern":
		n.Pattern = k.pattern(k.text())
	case "format":
		n.Format = k.text()

	case "title":
		n.Title = k.text()
	case "description":
		n.Description = k.text()
	case "default":
		n.Default = &k.value
	case "examples":
		n.Examples = k.list()
	case "deprecated", "readOnly", "writeOnly":
		k.flag()
	default:
		k.readMore(name, around)
	}
}

// readMore continues read with the keywords for arrays and objects.
func (k *keyword) readMore(name string, around map[string]any) {
	n := k.n
	switch name {
	case "prefixItems":
		n.PrefixItems = k.subs()
	case "items":
		k.items(around)
	case "contains":
		n.Contains = k.sub()
	case "minContains":
		n.MinContains = k.count()
	case "maxContains":
		n.MaxContains = k.count()
	case "minItems":
		n.MinItems = k.count()
	case "maxItems":
		n.MaxItems = k.count()
	case "uniqueItems":
		n.UniqueItems = k.flag()
	case "unevaluatedItems":
		n.UnevaluatedItems = k.sub()

	case "properties":
		n.Properties = k.named()
	case "patternProperties":
		all := k.named()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			of := keyword{c: k.c, n: n, value: name, at: k.at + "/" + escapes.Replace(name)}
			n.PatternProperties = append(n.PatternProperties, PatternProperty{of.pattern(name), all[name]})
		}
	case "additionalProperties":
		n.AdditionalProperties = k.sub()
	case "propertyNames":
		n.PropertyNames = k.sub()
	case "unevaluatedProperties":
		n.UnevaluatedProperties = k.sub()
	case "dependentSchemas", "dependentRequired", "dependencies":
		k.dependencies()
	case "additionalItems":
		if k.c.draft != draft2020 {
			k.sub() // compiled for its errors; items decides whether it applies
		}
	case "required":
		n.Required = k.texts()
	case "minProperties":
		n.MinProperties = k.count()
	case "maxProperties":
		n.MaxProperties = k.count()
	}
}

// recursive is the anchor that $recursiveAnchor defines. It cannot clash with an $anchor, which must not contain "#".
const recursive = "#"

// reference compiles a keyword that refers to another schema. The schema it refers to may not be compiled yet.
func (k *keyword) reference(name string) {
	ref, ok := k.value.(string)
	if !ok {
		k.wrongType("a string")
		return
	}
	n := k.n
	k.c.resolve(ref, k.at, n, func(to *Node, anchor string) {
		if name == "$ref" {
			n.Ref = to
			return
		}
		if name == "$recursiveRef" {
			anchor = recursive
		}
		n.DynamicRef = &Dynamic{Ref: to}
		if anchor != "" && to.within.dynamic[anchor] == to {
			n.DynamicRef.anchor = anchor
		}
	})
}

// bounds compiles the keywords for numbers.
func (k *keyword) bounds(name string, around map[string]any) {
	n := k.n
	switch name {
	case "minimum", "maximum":
		bound := k.rational()
		exclusive, _ := around["exclusiveM"+name[1:]].(bool)
		exclusive = exclusive && k.c.draft == draft4
		switch {
		case name == "minimum" && exclusive:
			n.ExclusiveMinimum = bound
		case name == "minimum":
			n.Minimum = bound
		case exclusive:
			n.ExclusiveMaximum = bound
		default:
			n.Maximum = bound
		}
	case "exclusiveMinimum", "exclusiveMaximum":
		switch {
		case k.c.draft == draft4:
			k.flag() // applied with minimum and maximum
		case name == "exclusiveMinimum":
			n.ExclusiveMinimum = k.rational()
		default:
			n.ExclusiveMaximum = k.rational()
		}
	case "multipleOf":
		if n.MultipleOf = k.rational(); n.MultipleOf != nil && n.MultipleOf.Sign() <= 0 {
			k.c.problem(k.at, "expected a number greater than 0")
		}
	}
}

// items also compiles arrays of schemas, which drafts before 2020-12 allow.
func (k *keyword) items(around map[string]any) {
	_, isList := k.value.([]any)
	switch {
	case !isList:
		k.n.Items = k.sub()
	case k.c.draft == draft2020:
		k.c.problem(k.at, "expected a schema; use prefixItems for an array of schemas")
	default:
		k.n.PrefixItems = k.subs()
		if rest, ok := around["additionalItems"]; ok {
			k.n.Items = k.c.node(rest, k.n.pointer+"/additionalItems", k.n.within)
		}
	}
}

// dependencies compiles dependentSchemas, dependentRequired and their older form dependencies, which mixes both and
// remains allowed.
func (k *keyword) dependencies() {
	object, ok := k.value.(map[string]any)
	if !ok {
		k.wrongType("an object")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		one := keyword{c: k.c, n: k.n, value: object[name], at: k.at + "/" + escapes.Replace(name)}
		if _, isList := one.value.([]any); isList {
			xmaps.Set(&k.n.DependentRequired, name, one.texts())
		} else {
			xmaps.Set(&k.n.DependentSchemas, name, one.sub())
		}
	}
}

// types compiles type, which is one name or a list of names.
func (k *keyword) types() {
	list, isList := k.value.([]any)
	if !isList {
		list = []any{k.value}
	} else if len(list) == 0 {
		k.c.problem(k.at, "expected at least one type")
	}
	all := []string{"array", "boolean", "integer", "null", "number", "object", "string"}
	for i, v := range list {
		at := k.at
		if isList {
			at += "/" + strconv.Itoa(i)
		}
		name, isText := v.(string)
		switch {
		case !isText:
			k.c.problem(at, "expected the name of a type, not %s", typeName(v))
		case !slices.Contains(all, name):
			k.c.problems = append(k.c.problems, &Error{
				Pointer: at, Message: fmt.Sprintf("%q is not a type", name), Got: name, Allowed: all,
			})
		case slices.Contains(k.n.Types, name):
			k.c.problem(at, "%q is listed twice", name)
		default:
			k.n.Types = append(k.n.Types, name)
		}
	}
}

// wrongType records that the keyword has a value of another type than wanted.
func (k *keyword) wrongType(wanted string) {
	k.c.problem(k.at, "expected %s, not %s", wanted, typeName(k.value))
}

// sub compiles a keyword whose value is a schema.
func (k *keyword) sub() *Node { return k.c.node(k.value, k.at, k.n.within) }

// subs compiles a keyword whose value is a list of schemas.
func (k *keyword) subs() []*Node {
	list, ok := k.value.([]any)
	switch {
	case !ok:
		k.wrongType("an array of schemas")
	case len(list) == 0:
		k.c.problem(k.at, "expected at least one schema")
	}
	var out []*Node
	for i, v := range list {
		out = append(out, k.c.node(v, k.at+"/"+strconv.Itoa(i), k.n.within))
	}
	return out
}

// named compiles a keyword whose value is an object of schemas.
func (k *keyword) named() map[string]*Node {
	object, ok := k.value.(map[string]any)
	if !ok {
		k.wrongType("an object of schemas")
		return nil
	}
	out := make(map[string]*Node, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		out[name] = k.c.node(object[name], k.at+"/"+escapes.Replace(name), k.n.within)
	}
	return out
}

// text returns the value of a keyword that must be a string.
func (k *keyword) text() string {
	s, ok := k.value.(string)
	if !ok {
		k.wrongType("a string")
	}
	return s
}

// flag returns the value of a keyword that must be true or false.
func (k *keyword) flag() bool {
	b, ok := k.value.(bool)
	if !ok {
		k.wrongType("a boolean")
	}
	return b
}

// list returns the value of a keyword that must be an array.
func (k *keyword) list() []any {
	list, ok := k.value.([]any)
	if !ok {
		k.wrongType("an array")
	}
	return list
}

// texts returns an array of distinct strings.
func (k *keyword) texts() []string {
	var out []string
	seen := map[string]bool{}
	for i, v := range k.list() {
		s, ok := v.(string)
		at := k.at + "/" + strconv.Itoa(i)
		switch {
		case !ok:
			k.c.problem(at, "expected a string, not %s", typeName(v))
		case seen[s]:
			k.c.problem(at, "%q is listed twice", s)
		}
		seen[s] = true
		out = append(out, s)
	}
	return out
}

// rational returns the value of a keyword that must be a number, or nil.
func (k *keyword) rational() *big.Rat {
	r := number(k.value)
	switch {
	case typeName(k.value) != "a number":
		k.wrongType("a number")
	case r == nil:
		k.c.problem(k.at, "the number has too many digits")
	}
	return r
}

// count returns a non-negative integer.
func (k *keyword) count() *int {
	r := k.rational()
	switch {
	case r == nil:
		return nil
	case !r.IsInt() || r.Sign() < 0:
		k.c.problem(k.at, "expected a non-negative integer")
		return nil
	}
	n := int(min(r.Num().Uint64(), maxCount))
	if !r.Num().IsUint64() {
		n = maxCount
	}
	return &n
}

// maxCount replaces every larger count: no value has that many of anything.
const maxCount = math.MaxInt32

// pattern compiles a regular expression. The syntax is that of Go, which has no lookarounds and no backreferences.
func (k *keyword) pattern(expression string) *regexp.Regexp {
	re, err := regexp.Compile(expression)
	if err != nil {
		k.c.problem(k.at, "%q is not a valid regular expression", expression)
	}
	return re
}
