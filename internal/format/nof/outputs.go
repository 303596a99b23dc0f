package nof

import (
	"math/big"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/python"
)

// outputs finds what a node function reads from the outputs of its agents: result.output["a"],
// result.output.get("a", {}).get("b", 0.0), also through variables.
type outputs struct {
	runs    func(*python.Call) bool
	results map[string]string // variables that hold the result of an agent, with its key
	places  map[string]place  // variables that hold a part of an output
	found   map[string][]outputField
}

// outputField is a part of the output of an agent that a node reads.
type outputField struct {
	Path     string `json:"path"`
	Type     string `json:"type,omitempty"` // in JSON
	Required bool   `json:"required,omitempty"`
	Var      string `json:"var,omitempty"` // the variable that it becomes
	field    string // of the state
}

// place is a part of the output of an agent.
type place struct {
	agent    string
	path     []string
	kind     string // the JSON type, if known
	required bool   // the code fails without it
}

func (d *document) readOutputs(def *python.FuncDef) map[string][]outputField {
	o := &outputs{runs: d.runnerCall, results: map[string]string{}, places: map[string]place{}, found: map[string][]outputField{}}
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
		case python.Expr:
			if p, ok := o.place(x); ok && len(p.path) > 0 {
				o.add(p, "")
			}
		}
		return true
	})
	return o.found
}

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
			return o.below(x.X, key, nil, true)
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

func (o *outputs) below(x python.Expr, key string, instead python.Expr, required bool) (place, bool) {
	p, ok := o.place(x)
	if !ok || key == "" || strings.Contains(key, ".") {
		return place{}, false
	}
	return place{p.agent, append(slices.Clone(p.path), key), typeOf(instead), p.required && required}, true
}

func (o *outputs) add(p place, field string) {
	path := strings.Join(p.path, ".")
	list := o.found[p.agent]
	i := slices.IndexFunc(list, func(f outputField) bool { return f.Path == path })
	if i < 0 {
		i = len(list)
		list = append(list, outputField{Path: path})
	}
	one := &list[i]
	one.Required = one.Required || p.required
	if one.Type == "" {
		one.Type = p.kind
	}
	if one.field == "" {
		one.field = field
	}
	o.found[p.agent] = list
}

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
