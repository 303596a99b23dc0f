package awf

import (
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

var parameterForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:\s*\{\{-|\{\{)\s*\.?parameters\.([A-Za-z0-9_-]*[A-Za-z0-9_])\s*(?:-\}\}\s*|\}\})`)
})

// fromTemplate lays a state over the step of a workflow template, with the
// template's parameters filled in; nil when that cannot be done.
func (p *parser) fromTemplate(name text.Text, n *text.Node) *text.Node {
	tree := p.templates(name)
	if tree == nil {
		return nil
	}
	values := map[string]*text.Node{}
	var wanted []string
	for _, one := range listOf(tree.Get("parameters")) {
		key := one.Get("name")
		if key == nil {
			continue
		}
		wanted = append(wanted, key.Value)
		given := there(n.Get("parameters").Get(key.Value))
		if given == nil {
			given = there(one.Get("default"))
		}
		if required := one.Get("required"); given == nil && string(required.JSON()) == "true" {
			given = key // something, so that nothing else seems to be missing
			p.report(CodeTemplate, diag.Error, name.Span, fmt.Sprintf("The template %q needs the parameter %q.", name.Value, key.Value),
				fmt.Sprintf("Write \"%s: …\" below \"parameters:\".", key.Value))
		}
		if given == nil {
			given = &text.Node{Kind: text.String}
		}
		values[key.Value] = given
	}
	if given := n.Get("parameters"); given != nil {
		for _, pair := range given.Pairs {
			if !slices.Contains(wanted, pair.Key.Value) {
				p.report(CodeTemplate, diag.Warning, pair.Key.Span, fmt.Sprintf("The template %q has no parameter %q.", name.Value, pair.Key.Value),
					diag.DidYouMean(pair.Key.Value, wanted))
			}
		}
	}
	base := templateStep(tree)
	if base == nil {
		p.report(CodeTemplate, diag.Error, name.Span, fmt.Sprintf("The template %q has no state.", name.Value), "Give it one state below \"states:\".")
		return nil
	}
	if base.Get("use_template") != nil {
		p.report(CodeTemplate, diag.Error, name.Span, fmt.Sprintf("The state of the template %q uses a template itself.", name.Value), "Write what that one says into the state.")
		return nil
	}
	merged := &text.Node{Kind: text.Map, Span: n.Span}
	merged.Pairs = append(merged.Pairs, n.Pairs...)
	for _, pair := range base.Pairs {
		switch pair.Key.Value {
		case "on_success", "on_failure", "transitions": // the way on is the state's own
			continue
		}
		if n.Get(pair.Key.Value) == nil {
			merged.Pairs = append(merged.Pairs, text.Pair{Key: here(pair.Key, name.Span), Value: filled(pair.Value, nil, name.Span)})
		}
	}
	p.undeclared(name, merged, wanted, values)
	for i := range merged.Pairs {
		merged.Pairs[i].Value = filled(merged.Pairs[i].Value, values, source.Span{})
	}
	return merged
}

// undeclared reports parameters that a template uses and does not declare. Their
// names stand for them then.
func (p *parser) undeclared(name text.Text, merged *text.Node, declared []string, values map[string]*text.Node) {
	for _, t := range templates(merged, nil) {
		for _, found := range parameterForm().FindAllStringSubmatch(t.Value, -1) {
			if values[found[1]] == nil {
				values[found[1]] = &text.Node{Kind: text.String, Value: found[1]}
				p.report(CodeTemplate, diag.Error, t.Span, fmt.Sprintf("The template %q does not declare the parameter %q.", name.Value, found[1]), diag.DidYouMean(found[1], declared))
			}
		}
	}
}

// there is a value, or nil if it is null.
func there(n *text.Node) *text.Node {
	if n == nil || n.Kind == text.Null {
		return nil
	}
	return n
}

func listOf(n *text.Node) []*text.Node {
	if n == nil {
		return nil
	}
	return n.Items
}

// templateStep is the one state of a template that does something.
func templateStep(tree *text.Node) *text.Node {
	states := tree.Get("states")
	if states == nil {
		return nil
	}
	if initial := states.Get("initial"); initial != nil && states.Get(initial.Value) != nil {
		return states.Get(initial.Value)
	}
	for _, pair := range states.Pairs {
		if pair.Value.Kind == text.Map {
			return pair.Value
		}
	}
	return nil
}

// here gives a node of another file the place where that file is named.
func here(n *text.Node, at source.Span) *text.Node {
	moved := *n
	moved.Span = at
	return &moved
}

// filled replaces {{parameters.x}} in all texts below a node. A text that is
// nothing else becomes the value as it is: a number, or a list. at, when it is set,
// is where all of it is said to stand.
func filled(n *text.Node, values map[string]*text.Node, at source.Span) *text.Node {
	out := *n
	if !at.IsZero() {
		out.Span = at
	}
	if m := parameterForm().FindStringSubmatch(n.Value); m != nil && m[0] == n.Value && values[m[1]] != nil {
		return here(values[m[1]], out.Span)
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
		out.Items = append(out.Items, filled(item, values, at))
	}
	for _, pair := range n.Pairs {
		key := pair.Key
		if !at.IsZero() {
			key = here(key, at)
		}
		out.Pairs = append(out.Pairs, text.Pair{Key: key, Value: filled(pair.Value, values, at)})
	}
	return &out
}
