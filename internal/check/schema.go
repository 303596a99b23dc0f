package check

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
)

// noLoader refuses every document that is not part of the schema itself.
type noLoader struct{}

var errElsewhere = errors.New("only references inside the schema itself are followed")

// Load refuses.
func (noLoader) Load(string) (any, error) { return nil, errElsewhere }

// schema checks that a contract is a JSON Schema; doc is the same, decoded.
func (c *checker) schema(contract *ir.Contract, doc any, of string) {
	if len(contract.Schema) == 0 {
		return
	}
	if !isPlainSchema(doc) {
		if p := compileSchema(contract.Schema); p != nil {
			c.badSchema(contract, of, *p)
			return
		}
	}
	c.doubtful(contract, doc, of)
}

// compileSchema says what is wrong with a schema; nil when nothing is.
func compileSchema(raw json.RawMessage) *problem {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return &problem{why: "it is not JSON"}
	}
	const here = "schema:///"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(here, doc); err != nil {
		return &problem{why: err.Error()}
	}
	if _, err = compiler.Compile(here); err != nil {
		p := schemaProblem(err, doc, here)
		return &p
	}
	return nil
}

func (c *checker) badSchema(contract *ir.Contract, of string, p problem) {
	where := ""
	if p.pointer != "" {
		where = " at " + p.pointer
	}
	at := contract.At(p.pointer)
	var related []diag.Related
	if at.File != contract.Span.File && !contract.Span.IsZero() {
		related = append(related, diag.Related{Span: contract.Span, Message: "the schema is referred to here"})
	}
	c.add(CodeSchema, diag.Error, at,
		fmt.Sprintf("The schema of %s is not a JSON Schema%s: %s.", of, where, p.why),
		cmp.Or(p.help, "Correct it as JSON Schema (draft 2020-12) wants it."), related...)
}

// problem is what is wrong with a schema, where in it, and what to do.
type problem struct{ pointer, why, help string }

// schemaProblem finds the innermost complaint, and where in the schema it is.
func schemaProblem(err error, doc any, here string) problem {
	var (
		invalid *jsonschema.SchemaValidationError
		load    *jsonschema.LoadURLError
		regex   *jsonschema.InvalidRegexError
		ref     *jsonschema.JSONPointerNotFoundError
		anchor  *jsonschema.AnchorNotFoundError
	)
	switch {
	case errors.As(err, &invalid):
		var deep *jsonschema.ValidationError
		if errors.As(invalid.Err, &deep) {
			return complaint(innermost(deep))
		}
	case errors.As(err, &load):
		return problem{
			pointer: refTo(doc, load.URL),
			why:     fmt.Sprintf("it refers to %q, and only references inside the schema itself are followed", strings.TrimPrefix(load.URL, here)),
			help:    "Copy what it refers to under \"$defs\", and refer to it there.",
		}
	case errors.As(err, &regex):
		return problem{pointer: strings.TrimPrefix(regex.URL, here+"#"), why: fmt.Sprintf("%q is not a regular expression", regex.Regex)}
	case errors.As(err, &ref):
		return problem{pointer: refTo(doc, ref.URL), why: fmt.Sprintf("it refers to %q, which it does not have", strings.TrimPrefix(ref.URL, here))}
	case errors.As(err, &anchor):
		return problem{pointer: refTo(doc, anchor.Reference), why: fmt.Sprintf("it refers to the anchor %q, which it does not have", strings.TrimPrefix(anchor.Reference, here+"#"))}
	}
	return problem{why: strings.ReplaceAll(err.Error(), here, "")}
}

// pointerTo is the JSON pointer of a path.
func pointerTo(path ...string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		b.WriteString(pointerEscapes.Replace(name))
	}
	return b.String()
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// refTo finds the reference that became a URL; "" when it cannot be told.
func refTo(doc any, url string) string {
	url, _ = strings.CutSuffix(url, "#")
	var find func(v any, path []string) []string
	find = func(v any, path []string) []string {
		switch v := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				at := append(slices.Clone(path), name)
				if ref, ok := v[name].(string); ok && (name == "$ref" || name == "$dynamicRef") && ref != "" && strings.HasSuffix(url, strings.TrimSuffix(ref, "#")) {
					return at
				}
				if found := find(v[name], at); found != nil {
					return found
				}
			}
		case []any:
			for i := range v {
				if found := find(v[i], append(slices.Clone(path), strconv.Itoa(i))); found != nil {
					return found
				}
			}
		}
		return nil
	}
	return pointerTo(find(doc, nil)...)
}

// innermost follows the causes down to the one that says most: the deepest
// place in the schema, the first of several in the order of their places.
func innermost(e *jsonschema.ValidationError) *jsonschema.ValidationError {
	best := e
	for _, cause := range e.Causes {
		deep := innermost(cause)
		a, b := deep.InstanceLocation, best.InstanceLocation
		if best == e || len(a) > len(b) || len(a) == len(b) && strings.Join(a, "/") < strings.Join(b, "/") {
			best = deep
		}
	}
	return best
}

// complaint says what is wrong with a value in a schema.
func complaint(e *jsonschema.ValidationError) problem {
	p := problem{pointer: pointerTo(e.InstanceLocation...), why: e.ErrorKind.LocalizedString(message.NewPrinter(language.English))}
	switch k := e.ErrorKind.(type) {
	case *kind.Enum:
		var want []string
		for _, v := range k.Want {
			want = append(want, fmt.Sprint(v))
		}
		got := fmt.Sprint(k.Got)
		p.why = fmt.Sprintf("%q is not a value that it may have there", got)
		p.help = diag.DidYouMean(got, want)
	case *kind.Format:
		p.why = fmt.Sprintf("%q is not a valid %s", fmt.Sprint(k.Got), k.Want)
	case *kind.Type:
		p.why = fmt.Sprintf("it wants %s there, not %s", strings.Join(k.Want, " or "), k.Got)
	}
	return p
}

// decoded is a JSON text as Go values; nil when it is not JSON.
func decoded(raw json.RawMessage) any {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}

// isPlainSchema reports whether a value is certainly a JSON Schema: it has
// only the usual keywords, each with a value of its form. Most schemas of
// workflows are like that, and need not be compiled. About all others the
// library decides.
func isPlainSchema(v any) bool {
	if _, ok := v.(bool); ok {
		return true
	}
	object, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for keyword, value := range object {
		if form := plainKeyword(keyword); form == nil || !form(value) {
			return false
		}
	}
	return true
}

// plainKeyword is what the value of a keyword must be; nil for those that are
// left to the library.
func plainKeyword(keyword string) func(v any) bool {
	switch keyword {
	case "type":
		return isType
	case "properties", "$defs":
		return eachValue
	case "items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else":
		return isPlainSchema
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return func(v any) bool { list, ok := v.([]any); return ok && len(list) > 0 && all(list, isPlainSchema) }
	case "required":
		return func(v any) bool { list, ok := v.([]any); return ok && all(list, isText) && distinct(list) }
	case "enum", "examples":
		return func(v any) bool { _, ok := v.([]any); return ok }
	case "const", "default":
		return func(any) bool { return true }
	case "title", "description", "$comment", "format":
		return isText
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return func(v any) bool { _, ok := v.(float64); return ok }
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return func(v any) bool { n, ok := v.(float64); return ok && n >= 0 && n == math.Trunc(n) && n < 1<<31 }
	case "uniqueItems", "deprecated", "readOnly", "writeOnly":
		return func(v any) bool { _, ok := v.(bool); return ok }
	}
	return nil
}

func isText(v any) bool { _, ok := v.(string); return ok }

func isType(v any) bool {
	switch v := v.(type) {
	case string:
		switch v {
		case "array", "boolean", "integer", "null", "number", "object", "string":
			return true
		}
	case []any:
		return len(v) > 0 && all(v, func(one any) bool { return isText(one) && isType(one) }) && distinct(v)
	}
	return false
}

func eachValue(v any) bool {
	object, ok := v.(map[string]any)
	for _, value := range object {
		ok = ok && isPlainSchema(value)
	}
	return ok
}

func all(list []any, want func(any) bool) bool {
	return !slices.ContainsFunc(list, func(v any) bool { return !want(v) })
}

// distinct reports whether no text comes twice.
func distinct(list []any) bool {
	for i := range list {
		if slices.Contains(list[:i], list[i]) {
			return false
		}
	}
	return true
}
