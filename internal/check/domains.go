package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/xslices"
)

// domains knows the values that names can have before the run: workflow metadata, and inputs whose schema lists their
// values. Conditions on such names can be evaluated with every combination.
type domains struct {
	p             *ir.Program
	input, output any // decoded schemas
	schema        shape
}

// shape is the part of a JSON Schema that describes properties; nil if nothing is known.
type shape map[string]any

// shapeOf decodes a schema. The schemas true and false do not describe properties.
func shapeOf(v any) shape {
	switch v := v.(type) {
	case map[string]any:
		return v
	case bool:
		return shape{}
	}
	return nil
}

// open reports whether undeclared properties are allowed.
func (s shape) open() bool {
	keywords := []string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties"}
	return slices.ContainsFunc(keywords, func(keyword string) bool { _, ok := s[keyword]; return ok })
}

// properties returns the declared properties; nil if there are none.
func (s shape) properties() map[string]any {
	all, _ := s["properties"].(map[string]any)
	return all
}

// property returns the schema of a property, or nil if it is not declared.
func (s shape) property(name string) shape { return shapeOf(s.properties()[name]) }

// required returns the names of required properties.
func (s shape) required() []string {
	list, _ := s["required"].([]any)
	var names []string
	for _, v := range list {
		if name, ok := v.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

// empty reports whether the schema excludes every property.
func (s shape) empty() bool {
	extra, plain := s["additionalProperties"].(bool)
	return plain && !extra && len(s.properties()) == 0
}

// hasDefault reports whether a property has a default value.
func (s shape) hasDefault(name string) bool {
	_, ok := s.property(name)["default"]
	return ok
}

// newDomains decodes the schemas of a program once. Schemas that are not valid JSON are reported elsewhere.
func newDomains(p *ir.Program) *domains {
	d := &domains{p: p}
	if p.Input != nil {
		d.input = decoded(p.Input.Schema)
		d.schema = shapeOf(d.input)
	}
	if p.Output != nil {
		d.output = decoded(p.Output.Schema)
	}
	return d
}

// inputKnown reports whether the schema declares properties of the input.
func (d *domains) inputKnown() bool {
	return d.schema != nil && !d.schema.open() && len(d.schema.properties()) > 0
}

// inputs returns the declared properties of the input.
func (d *domains) inputs() []string {
	return slices.Collect(maps.Keys(d.schema.properties()))
}

// undeclared follows a path into the schema of its root. It returns the part of the path that is not declared, or "" if
// all is declared or nothing is known, and whether the schema excludes it.
func undeclared(at shape, path []string) (missing string, closed bool) {
	for i := 1; i < len(path); i++ {
		if at == nil || at.open() || len(at.properties()) == 0 && !at.empty() {
			return "", false
		}
		if _, ok := at.properties()[path[i]]; !ok {
			extra, written := at["additionalProperties"]
			allowed, plain := extra.(bool)
			if written && !plain {
				return "", false // described by their own schema
			}
			return strings.Join(path[:i+1], "."), written && !allowed
		}
		at = at.property(path[i])
	}
	return "", false
}

// own returns the metadata that has a field in ir.Program.
func (d *domains) own() map[string]string {
	own := map[string]string{"name": d.p.Name}
	if d.p.Version != "" {
		own["version"] = d.p.Version
	}
	if d.p.Description != "" {
		own["description"] = d.p.Description
	}
	return own
}

// fact reports whether the path is metadata of the workflow.
func (d *domains) fact(path string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, workflowRoot+"."), ".")
	if path == workflowRoot || d.own()[name] != "" {
		return true
	}
	return slices.ContainsFunc(d.p.Meta, func(m ir.Meta) bool { return m.Name == name })
}

// facts returns the paths of the workflow's metadata.
func (d *domains) facts() []string {
	list := xslices.Map(d.p.Meta, func(one ir.Meta) string { return workflowRoot + "." + one.Name })
	for name := range d.own() {
		list = append(list, workflowRoot+"."+name)
	}
	return list
}

// values returns the possible values of a path; ok is false if they are not known.
func (d *domains) values(path []string) (list []any, fixed, ok bool) {
	if len(path) < 2 {
		return nil, false, false
	}
	switch path[0] {
	case workflowRoot:
		if len(path) > 2 {
			return nil, false, false
		}
		if own := d.own()[path[1]]; own != "" {
			return []any{own}, true, true
		}
		for i := range d.p.Meta {
			if d.p.Meta[i].Name == path[1] {
				var v any
				if json.Unmarshal(d.p.Meta[i].Value, &v) != nil {
					return nil, false, false
				}
				return []any{v}, true, true
			}
		}
	case inputRoot:
		list, ok = d.inputValues(path)
		return list, false, ok
	}
	return nil, false, false
}

// inputValues returns the possible values of an input, with nil if it can be omitted. ok is false if they are not
// known.
func (d *domains) inputValues(path []string) ([]any, bool) {
	at, optional := d.schema, false
	for _, name := range path[1:] {
		if at == nil || at.open() {
			return nil, false
		}
		optional = optional || !slices.Contains(at.required(), name) && !at.hasDefault(name)
		at = at.property(name)
	}
	if at == nil || at.open() {
		return nil, false
	}
	var list []any
	if one, ok := at["const"]; ok {
		list = []any{one}
	} else if values, ok := at["enum"].([]any); ok {
		list = slices.Clone(values)
	} else if at["type"] == "boolean" {
		list = []any{true, false}
	} else {
		return nil, false
	}
	if optional {
		list = append(list, nil)
	}
	return list, true
}

// maxCombinations is the maximum number of combinations that try evaluates.
const maxCombinations = 256

// try evaluates conditions with every combination of the values of their names, until keep returns false. It returns
// false if a name can have any value, or if there are too many combinations.
func (d *domains) try(conds []*expr.Expr, keep func(env map[string]any) bool) (tried, allFixed bool) {
	var names []string
	var choices [][]any
	total := 1
	allFixed = true
	for _, e := range conds {
		for _, p := range e.Paths() {
			name := strings.Join(p.Segments, ".")
			if slices.Contains(names, name) {
				continue
			}
			values, fixed, ok := d.values(p.Segments)
			if !ok {
				return false, false
			}
			allFixed = allFixed && fixed
			total *= len(values)
			if total > maxCombinations || total == 0 {
				return false, false
			}
			names, choices = append(names, name), append(choices, values)
		}
	}
	allFixed = allFixed && len(names) > 0
	env := map[string]any{}
	for n := range total {
		for i, values := range choices {
			env[names[i]] = values[n%len(values)]
			n /= len(values)
		}
		if !keep(env) {
			break
		}
	}
	return true, allFixed
}

// canHold reports whether a condition can hold. If it cannot, sure is false if only metadata of the file prevents it,
// and why names the reason.
func (d *domains) canHold(e *expr.Expr) (possible, sure bool, why string) {
	holds := false
	tried, allFixed := d.try([]*expr.Expr{e}, func(env map[string]any) bool {
		ok, err := e.Bool(known(env))
		holds = ok || err != nil
		return !holds
	})
	if !tried || holds {
		return true, false, ""
	}
	return false, !allFixed, d.describe(e)
}

// describe lists the possible values of the names in a condition.
func (d *domains) describe(e *expr.Expr) string {
	var parts []string
	for _, p := range e.Paths() {
		values, fixed, _ := d.values(p.Segments)
		var words []string
		for _, v := range values {
			if v == nil {
				continue // an omitted input
			}
			raw, err := json.Marshal(v)
			if err != nil {
				continue
			}
			words = append(words, string(raw))
		}
		name := strings.Join(p.Written, ".")
		if fixed {
			name += " is " + strings.Join(words, ", ")
		} else {
			name += " is one of " + strings.Join(words, ", ")
		}
		if !slices.Contains(parts, name) {
			parts = append(parts, name)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf(": %s", strings.Join(parts, "; "))
}

// alwaysOne reports whether one of the conditions always holds.
func (d *domains) alwaysOne(conds []*expr.Expr) bool {
	all := true
	tried, _ := d.try(conds, func(env map[string]any) bool {
		all = slices.ContainsFunc(conds, func(e *expr.Expr) bool {
			ok, err := e.Bool(known(env))
			return ok && err == nil
		})
		return all
	})
	return tried && all
}

// known maps dotted paths to values, as the environment of an expression.
type known map[string]any

// Lookup returns the value of a path.
func (k known) Lookup(path []string) (any, bool) {
	v, ok := k[strings.Join(path, ".")]
	return v, ok && v != nil
}
