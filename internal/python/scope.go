package python

import (
	"slices"
	"strings"
)

// scope is the variables of a module, a function, a class or a comprehension.
type scope struct {
	outer *scope
	kind  scopeKind
	names map[string]*binding
	// outside are the names that global and nonlocal statements declare, by their first letter.
	outside map[string]byte
	// targets are the names that are assigned to and not read.
	targets map[*Name]bool
	dynamic bool // names may come from import *, exec, globals() or locals()
}

type scopeKind uint8

const (
	moduleScope scopeKind = iota
	functionScope
	classScope
	comprehensionScope
)

// binding is everything that is bound to a name in one scope.
type binding struct {
	defs    []*FuncDef
	classes []*ClassDef
	values  []Expr // assigned values; nil for values that are not known
	modules []string
	kinds   []string // see kindOf
	// handlers are the except clauses that bind the name.
	handlers []Range
	// from is the offset from which on the first value can be read. It is 0 if the order is not known.
	from int
	set  bool // whether from is
}

// caught reports whether only except clauses bind the name. It has no value outside of them.
func (b *binding) caught() bool {
	return len(b.handlers) > 0 && len(b.values) == len(b.handlers) &&
		len(b.defs)+len(b.classes)+len(b.modules)+len(b.kinds) == 0
}

// handles reports whether an offset is in one of the except clauses that bind the name.
func (b *binding) handles(at int) bool {
	return slices.ContainsFunc(b.handlers, func(r Range) bool { return at >= r.Start && at < r.End })
}

// bound notes that a name has a value from an offset on.
func (b *binding) bound(at int) {
	if !b.set || at < b.from {
		b.from, b.set = at, true
	}
}

func newScope(outer *scope, kind scopeKind) *scope {
	return &scope{
		outer: outer, kind: kind, names: map[string]*binding{}, outside: map[string]byte{},
		targets: map[*Name]bool{},
	}
}

// bind returns the binding of a name that is assigned in a scope, and creates it if necessary. A name that the scope
// declares global or nonlocal is bound in an outer scope.
func (s *scope) bind(name string) *binding {
	if declared := s.outside[name]; declared != 0 {
		for o := s.outer; o != nil; o = o.outer {
			if o.outer == nil || declared == 'n' && o.kind == functionScope && o.names[name] != nil {
				return o.bind(name)
			}
		}
	}
	b := s.names[name]
	if b == nil {
		b = &binding{}
		s.names[name] = b
	}
	return b
}

// unknown binds a name to a value that is not known.
func (s *scope) unknown(name string) {
	b := s.bind(name)
	b.values = append(b.values, nil)
	b.bound(0)
}

// find returns what a name means in a scope, or nil. Methods do not see the names of their class.
func (s *scope) find(name string) *binding {
	b, _ := s.lookup(name)
	return b
}

// lookup is like find, and also returns the scope that has the name.
func (s *scope) lookup(name string) (*binding, *scope) {
	for o := s; o != nil; o = o.outer {
		if b := o.names[name]; b != nil && (o == s || o.kind != classScope) {
			return b, o
		}
	}
	return nil, nil
}

// isDynamic reports whether a name that cannot be found may exist all the same.
func (s *scope) isDynamic() bool {
	for o := s; o != nil; o = o.outer {
		if o.dynamic {
			return true
		}
	}
	return false
}

// assign binds the names of a target to a value, which can be read from an offset on.
func (s *scope) assign(target, value Expr, from int) {
	switch x := target.(type) {
	case *Name:
		b := s.bind(x.ID)
		b.values = append(b.values, value)
		b.bound(from)
		s.targets[x] = true
	case *Starred:
		s.assign(x.X, nil, from)
	case *Seq:
		for _, item := range x.Items {
			s.assign(item, nil, from)
		}
	}
}

// collect binds the names of statements, without those of inner functions and classes. Like CPython, it considers all
// statements of the scope at once: a name that is assigned anywhere in a function is local everywhere in it.
// Declarations come first, because they determine where the others are bound.
func (s *scope) collect(body []Stmt) {
	Walk(body, func(n any) bool {
		if d, ok := n.(*Scope); ok {
			for _, name := range d.Names {
				s.outside[name] = d.Word[0]
				if d.Word == "global" {
					s.unknown(name)
				}
			}
		}
		return !opensScope(n)
	})
	Walk(body, func(n any) bool {
		s.collectNode(n)
		return !opensScope(n)
	})
}

// opensScope reports whether the names inside of a node are in a scope of their own.
func opensScope(n any) bool {
	switch n.(type) {
	case *FuncDef, *ClassDef, *Lambda:
		return true
	}
	return false
}

// collectNode binds the names that one node binds. Code that can create names at run time makes the scope dynamic.
func (s *scope) collectNode(n any) {
	switch n := n.(type) {
	case *Assign:
		for _, target := range n.Targets {
			s.assign(target, n.X, n.End)
		}
	case *AnnAssign:
		s.assign(n.Target, n.X, n.End)
	case *AugAssign: // reads the name first
		s.assign(n.Target, nil, n.End)
		if name, ok := n.Target.(*Name); ok {
			delete(s.targets, name)
		}
	case *For:
		s.assign(n.Target, &element{in: n.In}, n.Start)
	case *Walrus: // also in a comprehension
		s.assign(n.Name, n.X, 0)
	case *With:
		for _, item := range n.Items {
			s.assign(item.Target, nil, n.Start)
		}
	case *Match:
		for _, c := range n.Cases {
			for _, name := range c.Binds {
				s.unknown(name.ID)
			}
		}
	case *TypeAlias:
		s.unknown(n.Name)
	case *Import:
		s.imports(n)
	case *Try:
		for _, h := range n.Handlers {
			if h.As != "" {
				s.unknown(h.As)
				b := s.bind(h.As)
				b.handlers = append(b.handlers, Range{h.Start, n.End})
				if len(h.Body) > 0 {
					b.handlers[len(b.handlers)-1].End = h.Body[len(h.Body)-1].Where().End
				}
			}
		}
	case *FuncDef:
		b := s.bind(n.Def.Name)
		b.defs = append(b.defs, n)
		b.bound(n.End)
	case *ClassDef:
		b := s.bind(n.Name)
		b.classes = append(b.classes, n)
		b.bound(n.End)
	case *Call:
		if name, ok := n.Fn.(*Name); ok && (name.ID == "exec" || name.ID == "globals" || name.ID == "locals" ||
			name.ID == "vars") {
			s.dynamic = true
		}
	}
}

// imports binds the names of an import.
func (s *scope) imports(n *Import) {
	for _, one := range n.Names {
		if one.Name != "*" {
			name, _, _ := strings.Cut(one.As, ".")
			s.bind(name).bound(n.Start)
		}
		switch {
		case one.Name == "*":
			s.dynamic = true
		case n.From != "":
			s.bind(one.As).modules = append(s.bind(one.As).modules, n.From+":"+one.Name)
		case one.As != one.Name || !strings.Contains(one.Name, "."):
			s.bind(one.As).modules = append(s.bind(one.As).modules, one.Name)
		default: // import a.b binds a
			first, _, _ := strings.Cut(one.Name, ".")
			s.bind(first).modules = append(s.bind(first).modules, first)
		}
	}
}

// Uses reports whether code uses a name that another module defines.
func Uses(code []*Module, other *Module) bool {
	defined := newScope(nil, moduleScope)
	defined.collect(other.Body)
	own := newScope(nil, moduleScope)
	for _, m := range code {
		own.collect(m.Body)
	}
	found := false
	for _, m := range code {
		Walk(m.Body, func(n any) bool {
			if name, ok := n.(*Name); ok && defined.names[name.ID] != nil && own.names[name.ID] == nil {
				found = true
			}
			return !found
		})
	}
	return found
}
