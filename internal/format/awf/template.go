package awf

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/lazyregexp"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
	"github.com/espalier-run/espalier/internal/xslices"
)

// parameterForm matches {{parameters.NAME}}, with or without a dot, and with the marks that trim white space.
var parameterForm = lazyregexp.New(
	`(?:\s*\{\{-|\{\{)\s*\.?parameters\.([A-Za-z0-9_-]*[A-Za-z0-9_])\s*(?:-\}\}\s*|\}\})`)

// fromTemplate merges a state with the step of a workflow template and substitutes the
// template's parameters. It returns nil after an error.
func (p *parser) fromTemplate(name text.Text, n *text.Node) *text.Node {
	tree := p.templates(name)
	if tree == nil {
		return nil
	}
	values := map[string]*text.Node{}
	var declared []string
	var parameters []*text.Node
	if list := tree.Get("parameters"); list != nil {
		parameters = list.Items
	}
	for _, one := range parameters {
		key := one.Get("name")
		if key == nil {
			continue
		}
		declared = append(declared, key.Value)
		value := nonNull(n.Get("parameters").Get(key.Value))
		if value == nil {
			value = nonNull(one.Get("default"))
		}
		if required := one.Get("required"); value == nil && string(required.JSON()) == "true" {
			value = key // a placeholder, to avoid follow-up errors
			p.out.Errorf(CodeTemplate, name.Span, fmt.Sprintf("Add \"%s: …\" below \"parameters:\".", key.Value),
				"Template %q requires the parameter %q.", name.Value, key.Value)
		}
		if value == nil {
			value = &text.Node{Kind: text.String}
		}
		values[key.Value] = value
	}
	if value := n.Get("parameters"); value != nil {
		for _, pair := range value.Pairs {
			if !slices.Contains(declared, pair.Key.Value) {
				p.out.Warnf(CodeTemplate, pair.Key.Span, "", "Template %q has no parameter %q.", name.Value,
					pair.Key.Value).Suggest(pair.Key.Value, declared)
			}
		}
	}
	base := templateStep(tree)
	if base == nil {
		p.out.Errorf(CodeTemplate, name.Span, "Add one state below \"states:\" in the template.",
			"Template %q has no state.", name.Value)
		return nil
	}
	if base.Get("use_template") != nil {
		p.out.Errorf(CodeTemplate, name.Span, "Copy the keys of the other template into the state.",
			"Template %q uses another template.", name.Value)
		return nil
	}
	merged := &text.Node{Kind: text.Map, Span: n.Span}
	merged.Pairs = append(merged.Pairs, n.Pairs...)
	for _, pair := range base.Pairs {
		switch pair.Key.Value {
		case "on_success", "on_failure", "transitions": // transitions belong to the state
			continue
		}
		if n.Get(pair.Key.Value) == nil {
			merged.Pairs = append(merged.Pairs, text.Pair{
				Key:   relocate(pair.Key, name.Span),
				Value: substitute(pair.Value, nil, name.Span),
			})
		}
	}
	p.undeclared(name, merged, declared, values)
	for i := range merged.Pairs {
		merged.Pairs[i].Value = substitute(merged.Pairs[i].Value, values, source.Span{})
	}
	return merged
}

// undeclared reports parameters that a template uses but does not declare. Their names are
// substituted for them.
func (p *parser) undeclared(name text.Text, merged *text.Node, declared []string, values map[string]*text.Node) {
	for _, t := range templates(merged, nil) {
		for _, found := range parameterForm().FindAllStringSubmatch(t.Value, -1) {
			if values[found[1]] == nil {
				values[found[1]] = &text.Node{Kind: text.String, Value: found[1]}
				p.out.Errorf(CodeTemplate, t.Span, "", "Template %q does not declare the parameter %q.", name.Value,
					found[1]).Suggest(found[1], declared)
			}
		}
	}
}

// nonNull returns n, or nil if it is null.
func nonNull(n *text.Node) *text.Node {
	if n == nil || n.Kind == text.Null {
		return nil
	}
	return n
}

// templateStep returns the only working state of a template, or nil.
func templateStep(tree *text.Node) *text.Node {
	states := tree.Get("states")
	if states == nil {
		return nil
	}
	if initial := states.Get("initial"); initial != nil && states.Get(initial.Value) != nil {
		return states.Get(initial.Value)
	}
	return xslices.Find(states.Pairs, func(p text.Pair) bool { return p.Value.Kind == text.Map }).Value
}

// IsTemplate reports whether a file can be a workflow template: its step becomes part of the workflows that use it.
func IsTemplate(f *source.File) bool {
	if !strings.EqualFold(path.Ext(f.Path), ".yaml") {
		return false
	}
	node, list := text.ParseYAML(f, 0, len(f.Text))
	return node != nil && !list.Errors() && templateStep(node) != nil
}

// relocate returns a copy of a node of another file at the position of the reference to it.
func relocate(n *text.Node, at source.Span) *text.Node {
	moved := *n
	moved.Span = at
	return &moved
}

// substitute replaces {{parameters.x}} in all strings below a node. A string that is only a
// parameter becomes its value as is, such as a number or a list. If at is set, it becomes the
// span of all nodes.
func substitute(n *text.Node, values map[string]*text.Node, at source.Span) *text.Node {
	out := *n
	if !at.IsZero() {
		out.Span = at
	}
	if m := parameterForm().FindStringSubmatch(n.Value); m != nil && m[0] == n.Value && values[m[1]] != nil {
		return relocate(values[m[1]], out.Span)
	}
	out.Value = parameterForm().ReplaceAllStringFunc(n.Value, func(found string) string {
		name := parameterForm().FindStringSubmatch(found)[1]
		switch v := values[name]; {
		case v == nil:
			return found
		case v.Kind >= text.List:
			return string(v.JSON())
		default:
			return v.Value
		}
	})
	out.Items, out.Pairs = nil, nil
	for _, item := range n.Items {
		out.Items = append(out.Items, substitute(item, values, at))
	}
	for _, pair := range n.Pairs {
		key := pair.Key
		if !at.IsZero() {
			key = relocate(key, at)
		}
		out.Pairs = append(out.Pairs, text.Pair{Key: key, Value: substitute(pair.Value, values, at)})
	}
	return &out
}
