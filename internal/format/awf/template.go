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

var parameterForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{-?\s*\.?parameters\.([A-Za-z0-9_-]+)\s*-?\}\}`) })

// fromTemplate lays a state over the step of a workflow template, with the
// template's parameters filled in; nil when that cannot be done.
func (p *parser) fromTemplate(name text.Text, n *text.Node) *text.Node {
	if p.templates == nil {
		return nil
	}
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
		given := n.Get("parameters").Get(key.Value)
		if given == nil {
			given = one.Get("default")
		}
		if required := one.Get("required"); given == nil && required != nil && required.Value == "true" {
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
	merged := &text.Node{Kind: text.Map, Span: n.Span}
	merged.Pairs = append(merged.Pairs, n.Pairs...)
	for _, pair := range base.Pairs {
		switch pair.Key.Value {
		case "on_success", "on_failure", "transitions": // the way on is the state's own
			continue
		}
		if n.Get(pair.Key.Value) == nil {
			merged.Pairs = append(merged.Pairs, text.Pair{Key: here(pair.Key, name.Span), Value: filled(pair.Value, values, name.Span)})
		}
	}
	p.undeclared(name, merged, wanted, values)
	for i := range merged.Pairs {
		merged.Pairs[i].Value = filled(merged.Pairs[i].Value, values, source.Span{})
	}
	return merged
}

// undeclared reports parameters that a template uses and does not declare. They
// are empty then.
func (p *parser) undeclared(name text.Text, merged *text.Node, declared []string, values map[string]*text.Node) {
	for _, t := range templates(merged, nil) {
		for _, found := range parameterForm().FindAllStringSubmatch(t.Value, -1) {
			if values[found[1]] == nil {
				values[found[1]] = &text.Node{Kind: text.String}
				p.report(CodeTemplate, diag.Error, t.Span, fmt.Sprintf("The template %q does not declare the parameter %q.", name.Value, found[1]), diag.DidYouMean(found[1], declared))
			}
		}
	}
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

// filled replaces {{parameters.x}} in all texts below a node. at, when it is
// set, is where all of it is said to stand.
func filled(n *text.Node, values map[string]*text.Node, at source.Span) *text.Node {
	if n == nil {
		return nil
	}
	out := *n
	if !at.IsZero() {
		out.Span = at
	}
	if n.Kind == text.String {
		out.Value = parameterForm().ReplaceAllStringFunc(n.Value, func(found string) string {
			name := parameterForm().FindStringSubmatch(found)[1]
			if v := values[name]; v != nil {
				return v.Value
			}
			return found
		})
	}
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
