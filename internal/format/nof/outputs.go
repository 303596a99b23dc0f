package nof

import (
	"math/big"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/python"
)

// outputs finds what a node function reads from the outputs of its agents: result.output["a"],
// result.output.get("a", {}).get("b", 0.0), result.output["a"][0]["b"], also through variables and loops.
type outputs struct {
	runs    func(*python.Call) bool
	results map[string]string // variables that hold the result of an agent, with its key
	places  map[string]place  // variables that hold a part of an output
	found   map[string][]outputField
	tested  map[string]bool // the places that a condition looks at, by agent and path
	tries   bool            // the code handles exceptions
}

// anyItem is the path segment for the items of a list.
const anyItem = "*"

// ofState is the key of the state, in place of an agent's.
const ofState = ""

// outputField is a part of the output of an agent that a node reads.
type outputField struct {
	Path     string `json:"path"`
	Type     string `json:"type,omitempty"` // in JSON
	Required bool   `json:"required,omitempty"`
	Var      string `json:"var,omitempty"`   // the variable that it becomes
	Least    int    `json:"least,omitempty"` // how many items it must have
	field    string // of the state
	assumed  bool   // the code fails without it, unless a condition looks at it
	least    int    // like Least, if assumed
}

// place is a part of the output of an agent.
type place struct {
	agent    string
	path     []string
	kind     string // the JSON type, if known
	required bool   // the code fails without it
	assumed  bool   // the code fails without it, unless a condition looks at it
}

// key identifies the place among those of all agents.
func (p place) key() string { return p.agent + " " + strings.Join(p.path, ".") }

// readOutputs finds what a node reads from the outputs of its agents, and what it reads inside of fields of the state.
func (d *document) readOutputs(
	def *python.FuncDef, state string,
) (found map[string][]outputField, inState []outputField) {
	o := &outputs{
		runs: d.runnerCall, results: map[string]string{}, places: map[string]place{}, found: map[string][]outputField{},
		tested: map[string]bool{},
	}
	if state != "" {
		o.places[state] = place{agent: ofState}
	}
	python.Walk(def.Def.Body, func(x any) bool {
		switch x := x.(type) {
		case *python.Assign:
			for _, target := range x.Targets {
				o.assign(target, x.X)
			}
		case *python.AnnAssign:
			o.assign(x.Target, x.X)
		case *python.Return:
			o.returned(x.X)
		case *python.For:
			o.items(x.Target, x.In)
		case *python.If:
			o.test(x.Cond)
		case *python.Try:
			o.tries = true
		case python.Expr:
			o.used(x)
			if p, ok := o.place(x); ok && len(p.path) > 0 {
				o.add(p, "")
			}
		}
		return true
	})
	o.require()
	inState = o.found[ofState]
	delete(o.found, ofState)
	return o.found, inState
}

// require makes the parts required that the code assumes.
func (o *outputs) require() {
	for agent, list := range o.found {
		for i := range list {
			one := &list[i]
			if o.tries || o.isTested(agent, one.Path) {
				continue
			}
			one.Required, one.Least = one.Required || one.assumed, one.least
		}
	}
}

// isTested reports whether a condition looks at a place or at one around it.
func (o *outputs) isTested(agent, path string) bool {
	for path != "" {
		if o.tested[agent+" "+path] {
			return true
		}
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
	return false
}

// test finds the places that a condition looks at: x, not x, "key" in x, len(x) > 0, and chains of them.
func (o *outputs) test(x python.Expr) {
	switch x := x.(type) {
	case *python.Unary:
		o.test(x.X)
	case *python.BoolOp:
		o.test(x.X)
		o.test(x.Y)
	case *python.Compare:
		if key, ok := literalText(x.First); ok && len(x.Ops) == 1 && strings.HasSuffix(x.Ops[0], "in") {
			if p, ok := o.below(x.Rest[0], key, nil, false); ok {
				o.tested[p.key()] = true
			}
			return
		}
		o.test(x.First)
		for _, one := range x.Rest {
			o.test(one)
		}
	case *python.Call:
		if name, ok := x.Fn.(*python.Name); ok && (name.ID == "len" || name.ID == "isinstance") && len(x.Args) > 0 {
			o.test(x.Args[0].X)
			return
		}
	}
	if p, ok := o.place(x); ok {
		o.tested[p.key()] = true
	}
}

// items makes the target of a loop the items of a list.
func (o *outputs) items(target, list python.Expr) {
	p, ok := o.place(list)
	name, isName := target.(*python.Name)
	if isName {
		delete(o.places, name.ID)
	}
	if !ok || len(p.path) == 0 {
		return
	}
	p.kind = "array"
	o.add(p, "")
	if isName {
		o.places[name.ID] = place{agent: p.agent, path: append(slices.Clone(p.path), anyItem)}
	}
}

// textMethods are the methods that only texts have.
var textMethods = []string{
	"lower", "upper", "strip", "title", "split", "splitlines", "startswith", "endswith", "replace",
}

// used finds what an expression says about the types of places.
func (o *outputs) used(x python.Expr) {
	typed := func(x python.Expr, kind string) {
		if p, ok := o.place(x); ok && len(p.path) > 0 {
			p.kind = kind
			o.add(p, "")
		}
	}
	switch x := x.(type) {
	case *python.Comp:
		for _, c := range x.Clauses {
			o.items(c.Target, c.In)
		}
	case *python.IfExp:
		o.test(x.Cond)
	case *python.BoolOp:
		o.test(x)
	case *python.Call:
		switch fn := x.Fn.(type) {
		case *python.Attr:
			if slices.Contains(textMethods, fn.Name) {
				typed(fn.X, "string")
			}
		case *python.Name:
			if fn.ID == "len" && len(x.Args) == 1 {
				typed(x.Args[0].X, "array or string")
			}
		}
	case *python.Binary:
		if slices.Contains([]string{"-", "/", "//", "**", "*"}, x.Op) &&
			typeOf(x.X) != "string" && typeOf(x.Y) != "string" {
			typed(x.X, "number")
			typed(x.Y, "number")
		}
	case *python.Compare:
		for i, op := range x.Ops {
			if strings.ContainsAny(op, "<>") && i == 0 && typeOf(x.Rest[0]) == "number" {
				typed(x.First, "number")
			}
		}
	case *python.Index:
		if n, ok := position(x.Key); ok {
			if p, ok := o.place(x.X); ok && len(p.path) > 0 {
				p.kind = "array"
				o.add(p, "")
				list := o.found[p.agent]
				at := slices.IndexFunc(list, func(f outputField) bool { return f.Path == strings.Join(p.path, ".") })
				list[at].least = max(list[at].least, n+1)
			}
		}
	}
}

// position returns the index of a list item that an expression is.
func position(x python.Expr) (int, bool) {
	c, ok := x.(*python.Const)
	if !ok {
		return 0, false
	}
	n, ok := c.Value.(int64)
	return int(n), ok && n >= 0 && n < 100
}

// assign records what a variable holds after an assignment. The analysis follows the order of the code and ignores its
// branches.
func (o *outputs) assign(target, value python.Expr) {
	name, ok := target.(*python.Name)
	if !ok || value == nil {
		return
	}
	delete(o.results, name.ID)
	delete(o.places, name.ID)
	if c, ok := value.(*python.Call); ok && o.runs(c) {
		if key, ok := agentKey(c); ok {
			o.results[name.ID] = key.Value.(string)
		}
		return
	}
	if p, ok := o.place(value); ok {
		o.places[name.ID] = p
	}
}

// returned finds the fields of the state that a part of an output becomes.
func (o *outputs) returned(x python.Expr) {
	dict, ok := x.(*python.DictExpr)
	if !ok {
		return
	}
	for _, pair := range dict.Pairs {
		if field, ok := literalText(pair.Key); ok {
			if p, ok := o.place(pair.Value); ok && len(p.path) > 0 {
				o.add(p, field)
			}
		}
	}
}

// place returns the part of an output that an expression is.
func (o *outputs) place(x python.Expr) (place, bool) {
	switch x := x.(type) {
	case *python.Name:
		p, ok := o.places[x.ID]
		return p, ok
	case *python.Attr:
		if name, ok := x.X.(*python.Name); ok && x.Name == "output" && o.results[name.ID] != "" {
			return place{agent: o.results[name.ID], required: true}, true
		}
	case *python.Index:
		if key, ok := literalText(x.Key); ok {
			p, ok := o.below(x.X, key, nil, true)
			p.assumed = true
			return p, ok
		}
		if _, ok := position(x.Key); ok {
			p, ok := o.place(x.X)
			return place{agent: p.agent, path: append(slices.Clone(p.path), anyItem)}, ok && len(p.path) > 0
		}
	case *python.Call:
		if fn, ok := x.Fn.(*python.Attr); ok && fn.Name == "get" && len(x.Args) > 0 {
			if key, ok := literalText(x.Args[0].X); ok {
				var instead python.Expr
				if len(x.Args) > 1 {
					instead = x.Args[1].X
				}
				return o.below(fn.X, key, instead, false)
			}
		}
	}
	return place{}, false
}

// below returns the place of a key inside of an expression. instead is the default value, if any; the place gets its
// type.
func (o *outputs) below(x python.Expr, key string, instead python.Expr, required bool) (place, bool) {
	p, ok := o.place(x)
	if !ok || key == "" || strings.Contains(key, ".") {
		return place{}, false
	}
	return place{p.agent, append(slices.Clone(p.path), key), typeOf(instead), p.required && required, false}, true
}

// add records that a node reads a place. field is the field of the state that it becomes, or "".
func (o *outputs) add(p place, field string) {
	path := strings.Join(p.path, ".")
	list := o.found[p.agent]
	i := slices.IndexFunc(list, func(f outputField) bool { return f.Path == path })
	if i < 0 {
		i = len(list)
		list = append(list, outputField{Path: path})
	}
	one := &list[i]
	one.Required, one.assumed = one.Required || p.required, one.assumed || p.assumed
	if one.Type == "" || one.Type == "array or string" && p.kind != "" {
		one.Type = p.kind
	}
	if one.field == "" && !strings.Contains(path, anyItem) {
		one.field = field
	}
	o.found[p.agent] = list
}

// literalText returns the value of a string literal.
func literalText(x python.Expr) (string, bool) {
	c, ok := x.(*python.Const)
	if !ok {
		return "", false
	}
	s, ok := c.Value.(string)
	return s, ok
}

// typeOf returns the JSON type of a literal; "" if it has several or is not one.
func typeOf(x python.Expr) string {
	switch x := x.(type) {
	case *python.Const:
		switch x.Value.(type) {
		case bool:
			return "boolean"
		case int64, float64, *big.Int:
			return "number"
		case string:
			return "string"
		}
	case *python.Seq:
		if x.Kind == '[' {
			return "array"
		}
	case *python.DictExpr:
		return "object"
	}
	return ""
}
