package python

import (
	"fmt"
	"slices"
)

// class is what is known about a class that the code defines.
type class struct {
	name string
	// attributes are those of an instance; nil if code may add others.
	attributes []string
	// params are those of a call, without self; known is false if they are not known.
	params []Param
	known  bool
}

// classes are the kinds of the classes that the code defines; see kindOf.
const (
	classKind    = "class:"
	instanceKind = "instance:"
)

// environ is the name of the environment variables.
const environ = "environ"

// classOf returns what is known about a class.
func (a *analysis) classOf(n *ClassDef) *class {
	c := &class{name: n.Name}
	data := false
	for _, d := range n.Decorators {
		if lastName(d) != "dataclass" {
			return c
		}
		if _, plain := d.(*Call); plain {
			return c // its arguments change what it does
		}
		data = true
	}
	other := func(base Expr) bool { return lastName(base) != "object" }
	if slices.ContainsFunc(n.Bases, other) || len(n.Keywords) > 0 || a.changesAttributes {
		return c
	}
	body := newScope(nil, classScope)
	body.collect(n.Body)
	c.known = true
	for name := range body.names {
		c.attributes = append(c.attributes, name)
		switch name {
		case "__getattr__", "__getattribute__", "__new__", "__slots__", "__init_subclass__":
			return &class{name: n.Name}
		}
	}
	c.attributes = append(c.attributes, a.assigned...)
	slices.Sort(c.attributes)
	if b := body.names["__init__"]; b != nil {
		if len(b.defs) != 1 || len(b.values)+len(b.modules) > 0 || len(b.defs[0].Def.Decorators) > 0 ||
			len(b.defs[0].Def.Params) == 0 || b.defs[0].Def.Params[0].Stars > 0 {
			c.known = false
			return c
		}
		c.params = b.defs[0].Def.Params[1:]
		return c
	}
	if data {
		c.params, c.known = dataFields(n.Body)
	}
	return c
}

// dataFields returns the parameters of a data class. It returns false if they are not known.
func dataFields(body []Stmt) (out []Param, known bool) {
	for _, s := range body {
		field, ok := s.(*AnnAssign)
		if !ok {
			if _, ok := s.(*If); ok {
				return nil, false
			}
			continue
		}
		name, ok := field.Target.(*Name)
		if !ok {
			return nil, false
		}
		switch annotation := lastName(field.Type); annotation {
		case "ClassVar":
			continue
		case "KW_ONLY", "InitVar", "":
			return nil, false
		}
		if call, ok := field.X.(*Call); ok {
			for _, arg := range call.Args {
				if arg.Name == "init" || arg.Name == "kw_only" || arg.Stars > 0 {
					return nil, false
				}
			}
			if lastName(call.Fn) == "field" && !slices.ContainsFunc(call.Args, func(arg Arg) bool {
				return arg.Name == "default" || arg.Name == "default_factory"
			}) {
				out = append(out, Param{Name: name.ID})
				continue
			}
		}
		out = append(out, Param{Name: name.ID, Default: field.X})
	}
	return out, true
}

// lastName returns the last part of a name such as dataclasses.dataclass, also of one that is called or subscripted.
func lastName(x Expr) string {
	switch x := x.(type) {
	case *Name:
		return x.ID
	case *Attr:
		return x.Name
	case *Call:
		return lastName(x.Fn)
	case *Index:
		return lastName(x.X)
	case *Const:
		return fmt.Sprint(x.Value)
	case *Binary: // int | None
		return lastName(x.X)
	}
	return ""
}

// targetsOf returns what a statement assigns to.
func targetsOf(n any) (out []Expr) {
	switch n := n.(type) {
	case *Assign:
		return n.Targets
	case *AnnAssign:
		return []Expr{n.Target}
	case *AugAssign:
		return []Expr{n.Target}
	case *For:
		return []Expr{n.Target}
	case *With:
		for _, item := range n.Items {
			out = append(out, item.Target)
		}
	}
	return out
}

// assignments collects the attributes that code assigns anywhere. Code that computes their names may assign all.
func (a *analysis) assignments(m *Module) {
	target := func(x Expr) {
		walk(x, func(n any) bool {
			switch n := n.(type) {
			case *Attr:
				a.assigned = append(a.assigned, n.Name)
				a.handlesEnviron = a.handlesEnviron || n.Name == environ
			case *Name:
				a.handlesEnviron = a.handlesEnviron || n.ID == environ
			}
			return true
		})
	}
	Walk(m.Body, func(n any) bool {
		for _, x := range targetsOf(n) {
			target(x)
		}
		switch n := n.(type) {
		case *Name:
			a.changesAttributes = a.changesAttributes || n.ID == "setattr" || n.ID == "vars"
			a.asksTypes = a.asksTypes || slices.Contains([]string{"isinstance", "hasattr", "type", "callable"}, n.ID)
		case *Attr:
			a.changesAttributes = a.changesAttributes || n.Name == "__dict__" || n.Name == "__setattr__"
			a.handlesEnviron = a.handlesEnviron || lastName(n.X) == environ && n.Name != "get" || n.Name == "putenv"
		case *Compare:
			for _, x := range n.Rest {
				a.handlesEnviron = a.handlesEnviron || lastName(x) == environ
			}
		}
		return true
	})
}
