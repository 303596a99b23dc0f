package expr

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
)

// outputs are the outputs of a workflow, by name. parts are in the order of names; a part is a *condition or *template.
type outputs struct {
	names []string
	parts []foreign
}

// readOutputs parses the outputs. Each is parsed on its own, and errors refer to the whole, because the text was put
// together from several places of the file.
func readOutputs(text string, report reporter) foreign {
	var texts map[string]string
	if err := json.Unmarshal([]byte(text), &texts); err != nil {
		report(CodeForeign, 0, len(text), "The outputs are not an object of strings.",
			"Write each as \"NAME: states.STEP.Output\".")
		return nil
	}
	whole := func(code diag.Code, _, _ int, message, help string) { report(code, 0, len(text), message, help) }
	out := &outputs{names: slices.Sorted(maps.Keys(texts))}
	for _, name := range out.names {
		out.parts = append(out.parts, readOutput(texts[name], whole))
	}
	return out
}

// readOutput parses one output: an expression, or a template. A template with nothing but names becomes an expression,
// so that a single name keeps the type of its value.
func readOutput(text string, report reporter) foreign {
	code, named := text, false
	if strings.Contains(text, "{{") {
		if code, named = joined(text); !named {
			return readTemplate(text, report)
		}
	}
	c, ok := readCondition(code, report).(*condition)
	if !ok {
		return nil
	}
	if named || c.isName() {
		here := *c
		here.verbatim = true
		return &here
	}
	return c
}

// OutputNames returns the names of the outputs of an expression in the dialect AWFOutputs, and nil for other dialects.
func (e *Expr) OutputNames() []string {
	if o, ok := e.other.(*outputs); ok {
		return o.names
	}
	return nil
}

// paths implements foreign.
func (o *outputs) paths() []foreignPath {
	var all []foreignPath
	for _, part := range o.parts {
		for _, p := range part.paths() {
			p.start, p.end = 0, -1 // the position is not known
			all = append(all, p)
		}
	}
	return all
}

// eval returns the outputs as an object. A name without a value is null.
func (o *outputs) eval(env Env) (any, error) {
	out := make(map[string]any, len(o.parts))
	for i, part := range o.parts {
		v, err := part.eval(env)
		if _, isText := part.(*template); isText && err != nil && !allThere(env, part) {
			v, err = nil, nil // like a missing name without a template
		}
		if err != nil {
			return nil, err
		}
		out[o.names[i]] = v
	}
	return out, nil
}

// allThere reports whether all names that an expression reads have a value.
func allThere(env Env, e foreign) bool {
	return !slices.ContainsFunc(e.paths(), func(p foreignPath) bool {
		_, ok := lookup(env, p.written)
		return !ok
	})
}

// joined converts a template with only names in its braces to an expression of the dialect AWF: the value itself for a
// single name, otherwise a text.
func joined(template string) (string, bool) {
	if name, ok := braced(strings.TrimSpace(template)); ok {
		return name, true
	}
	var parts []string
	for rest := template; rest != ""; {
		plain, after, found := strings.Cut(rest, "{{")
		if plain != "" {
			parts = append(parts, strconv.Quote(plain))
		}
		if !found {
			break
		}
		inner, more, closed := strings.Cut(after, "}}")
		name, ok := braced("{{" + inner + "}}")
		if !ok || !closed || strings.HasPrefix(inner, "- ") || strings.HasSuffix(inner, " -") {
			return "", false
		}
		parts, rest = append(parts, asText+"("+name+")"), more
	}
	return strings.Join(parts, " + "), len(parts) > 0
}
