package contract

import (
	"maps"
	"slices"
	"strconv"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
)

// A value can be part of another one: the result of a step that is computed from it, or the output of the program,
// which a caller compares. Where it ends up is found by evaluating the expressions in between with a mark as the value.

// mark is a value that no program has.
const mark = "\x00mark\x00"

// maxDepth is how many expressions a value is followed through.
const maxDepth = 6

// computed follows the variable into the result of a step that is computed from it.
func (t *tracer) computed(s *ir.Step) {
	if _, call := s.Action.(ir.Call); call || s.Result == nil {
		return
	}
	for _, p := range s.Result.Paths() {
		names := []string{t.path}
		if t.direct[s] {
			names = append(names, "result")
		}
		for _, name := range names {
			rest, ok := below(join(p.Segments), name)
			if !ok {
				continue
			}
			for _, at := range marked(s.Result, name, split(rest)) {
				t.written(t.flow, s, at, place(rest))
			}
		}
	}
}

// called follows the variable into the programs that call this one.
func (t *tracer) called() {
	for _, c := range t.p.Callers {
		call, _ := c.Step.Action.(ir.Call)
		into := func(at, rest []string) {
			places := [][]string{at}
			if c.Step.Result != nil {
				places = marked(c.Step.Result, "result", at)
			}
			for _, one := range places {
				t.written(newFlow(c.Program), c.Step, one, rest)
			}
		}
		if len(call.Outputs) == 0 {
			if at, ok := below(t.path, wholeOutput); ok {
				into(split(at), nil)
			}
			continue
		}
		for _, b := range call.Outputs {
			for _, p := range b.Value.Paths() {
				if rest, ok := below(join(p.Segments), t.path); ok {
					for _, at := range marked(b.Value, t.path, split(rest)) {
						into(append([]string{b.Name}, at...), place(rest))
					}
				}
			}
		}
	}
}

// written follows a part of the result of a step into the variables that the step writes. rest is the place in the
// followed variable that the part comes from.
func (t *tracer) written(f *flow, s *ir.Step, at, rest []string) {
	if t.depth >= maxDepth {
		return
	}
	for _, w := range s.Writes {
		part := split(w.Part)
		if len(at) < len(part) || !slices.Equal(at[:len(part)], part) {
			continue
		}
		inner := &tracer{
			flow: f, origin: s, path: join(append([]string{w.Path}, at[len(part):]...)), depth: t.depth + 1,
			entered: map[*ir.Step]bool{},
		}
		inner.after(s)
		for _, u := range inner.out {
			u.at = slices.Concat(rest, u.at)
			t.out = append(t.out, u)
		}
	}
}

// marked returns the places of an expression's value that hold the value at a place of a variable.
func marked(e *expr.Expr, name string, at []string) [][]string {
	var value any = mark
	for _, key := range slices.Backward(at) {
		if isIndex(key) {
			return nil // an item of a list is not the list
		}
		value = map[string]any{key: value}
	}
	v, err := e.Eval(expr.Values{"outcome": "ok", name: value})
	if err != nil {
		return nil
	}
	var out [][]string
	var walk func(v any, at []string)
	walk = func(v any, at []string) {
		switch v := v.(type) {
		case string:
			if v == mark {
				out = append(out, at)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(v[key], append(slices.Clone(at), key))
			}
		case []any:
			for i := range v {
				walk(v[i], append(slices.Clone(at), strconv.Itoa(i)))
			}
		}
	}
	walk(v, nil)
	return out
}
