package python

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// env is a scope: that of the module, a function or a comprehension.
type env struct {
	vars   map[string]Value
	parent *env
	def    *Def // if the scope is a function
	comp   bool // the scope is a comprehension
}

// flow is how control leaves a statement.
type flow uint8

const (
	goOn flow = iota
	doBreak
	doContinue
	doReturn
)

func (t *Thread) block(e *env, body []Stmt) (flow, Value, error) {
	for _, s := range body {
		t.at = s.Where().Start
		f, v, err := t.exec(e, s)
		if err != nil {
			return goOn, nil, t.located(err)
		}
		if f != goOn {
			return f, v, nil
		}
	}
	return goOn, nil, nil
}

// exec executes one statement. The value is the result of a return.
func (t *Thread) exec(e *env, s Stmt) (flow, Value, error) {
	if err := t.spend(1); err != nil {
		return goOn, nil, err
	}
	switch s := s.(type) {
	case *If:
		v, err := t.eval(e, s.Cond)
		if err != nil {
			return goOn, nil, err
		}
		if truth(v) {
			return t.block(e, s.Then)
		}
		return t.block(e, s.Else)
	case *For:
		return t.forLoop(e, s)
	case *While:
		return t.whileLoop(e, s)
	case *Try:
		return t.try(e, s)
	case *Return:
		if s.X == nil {
			return doReturn, nil, nil
		}
		v, err := t.eval(e, s.X)
		return doReturn, v, err
	case *Jump:
		return map[string]flow{"pass": goOn, "break": doBreak, "continue": doContinue}[s.Word], nil, nil
	}
	return goOn, nil, t.execSimple(e, s)
}

// execSimple executes a statement that does not affect control flow, except by
// raising an exception.
func (t *Thread) execSimple(e *env, s Stmt) error {
	switch s := s.(type) {
	case *ExprStmt:
		_, err := t.eval(e, s.X)
		return err
	case *Assign:
		return t.assignAll(e, s.Targets, s.X)
	case *AnnAssign:
		if s.X == nil {
			return nil
		}
		return t.assignAll(e, []Expr{s.Target}, s.X)
	case *AugAssign:
		return t.augment(e, s)
	case *FuncDef:
		f, err := t.function(e, s.Def)
		if err != nil {
			return err
		}
		return t.bind(e, s.Def.Name, f)
	case *ClassDef:
		// A class declares a schema. Annotations may name it, and calling it makes a dict.
		return t.bind(e, s.Name, &class{name: s.Name, make: t.std.classes["dict"].make})
	case *Import:
		return t.imports(e, s)
	case *Raise:
		return t.raises(e, s)
	case *Assert:
		return t.assert(e, s)
	case *Del:
		for _, target := range s.Targets {
			if err := t.del(e, target); err != nil {
				return err
			}
		}
		return nil
	case *Scope: // resolved when the function was defined
		return nil
	}
	return fmt.Errorf("python: unknown statement %T", s)
}

func (t *Thread) assignAll(e *env, targets []Expr, x Expr) error {
	v, err := t.eval(e, x)
	if err != nil {
		return err
	}
	for _, target := range targets {
		if err := t.assign(e, target, v); err != nil {
			return err
		}
	}
	return nil
}

func (t *Thread) assert(e *env, s *Assert) error {
	v, err := t.eval(e, s.Cond)
	if err != nil || truth(v) {
		return err
	}
	x := &Exception{Class: "AssertionError"}
	if s.Message != nil {
		m, err := t.eval(e, s.Message)
		if err != nil {
			return err
		}
		x.Args = []Value{m}
	}
	return &Raised{Value: x}
}

func (t *Thread) whileLoop(e *env, s *While) (flow, Value, error) {
	for {
		if err := t.spend(1); err != nil {
			return goOn, nil, err
		}
		t.at = s.Start
		v, err := t.eval(e, s.Cond)
		if err != nil {
			return goOn, nil, err
		}
		if !truth(v) {
			return t.block(e, s.Else)
		}
		f, v, err := t.block(e, s.Body)
		if err != nil || f == doReturn {
			return f, v, err
		}
		if f == doBreak {
			return goOn, nil, nil
		}
	}
}

func (t *Thread) forLoop(e *env, s *For) (flow, Value, error) {
	over, err := t.eval(e, s.In)
	if err != nil {
		return goOn, nil, err
	}
	end, result := goOn, Value(nil)
	err = t.each(over, func(item Value) error {
		if err := t.assign(e, s.Target, item); err != nil {
			return err
		}
		f, v, err := t.block(e, s.Body)
		if err != nil {
			return err
		}
		if f == doBreak || f == doReturn {
			end, result = f, v
			return errStop
		}
		return nil
	})
	switch {
	case err != nil:
		return goOn, nil, err
	case end == doReturn:
		return doReturn, result, nil
	case end == doBreak:
		return goOn, nil, nil
	}
	return t.block(e, s.Else)
}

func (t *Thread) try(e *env, s *Try) (f flow, v Value, err error) {
	depth := t.depth
	f, v, err = t.block(e, s.Body)
	var raised *Raised
	if errors.As(err, &raised) {
		t.depth = depth
		for i := range s.Handlers {
			h := &s.Handlers[i]
			caught := h.Type == nil
			if h.Type != nil {
				kind, failed := t.eval(e, h.Type)
				if failed != nil {
					err = failed
					break
				}
				if caught, failed = catches(kind, raised.Value); failed != nil {
					err = failed
					break
				}
			}
			if !caught {
				continue
			}
			if h.As != "" {
				if err = t.bind(e, h.As, raised.Value); err != nil {
					break
				}
			}
			t.handling = append(t.handling, raised)
			f, v, err = t.block(e, h.Body)
			t.handling = t.handling[:len(t.handling)-1]
			if h.As != "" {
				delete(t.home(e, h.As).vars, h.As)
			}
			break
		}
	} else if err == nil && f == goOn && len(s.Else) > 0 {
		f, v, err = t.block(e, s.Else)
	}
	if len(s.Finally) == 0 {
		return f, v, err
	}
	if err != nil && !errors.As(err, &raised) {
		return f, v, err // the evaluation is aborted; finally clauses do not run
	}
	f2, v2, err2 := t.block(e, s.Finally)
	if err2 != nil || f2 != goOn {
		return f2, v2, err2
	}
	return f, v, err
}

// catches reports whether an except clause handles an exception.
func catches(kind Value, x *Exception) (bool, error) {
	switch kind := kind.(type) {
	case *class:
		if kind.exception {
			return isSubclass(x.Class, kind.name), nil
		}
	case *Tuple:
		for _, one := range kind.Items {
			if ok, err := catches(one, x); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	}
	return false, raise("TypeError", "catching classes that do not inherit from BaseException is not allowed")
}

func (t *Thread) raises(e *env, s *Raise) error {
	if s.X == nil {
		if n := len(t.handling); n > 0 {
			return t.handling[n-1]
		}
		return raise("RuntimeError", "No active exception to reraise")
	}
	v, err := t.eval(e, s.X)
	if err != nil {
		return err
	}
	if c, ok := v.(*class); ok && c.exception {
		if v, err = c.make(t, nil, nil); err != nil {
			return err
		}
	}
	x, ok := v.(*Exception)
	if !ok {
		return raise("TypeError", "exceptions must derive from BaseException")
	}
	return &Raised{Value: x}
}

func (t *Thread) imports(e *env, s *Import) error {
	for _, one := range s.Names {
		module := one.Name
		if s.From != "" {
			module = s.From
		}
		found := t.Modules[module]
		if found == nil {
			found = t.std.modules[module]
		}
		if found == nil {
			if _, known := knownModules[module]; !known {
				return raise("ModuleNotFoundError", "No module named '%s'", module)
			}
			found = &Object{Type: "module", Text: "<module '" + module + "'>"}
		}
		name, v := one.As, Value(found)
		if s.From != "" {
			var ok bool
			if v, ok = found.Attrs[one.Name]; !ok {
				v = &Object{Type: "typing", Text: module + "." + one.Name} // usable in annotations only
			}
		} else if first, rest, dotted := strings.Cut(one.As, "."); dotted && one.As == one.Name {
			name, v = first, nest(rest, found)
		}
		if err := t.bind(e, name, v); err != nil {
			return err
		}
	}
	return nil
}

// nest wraps a module in the modules of its path, for "import a.b.c".
func nest(path string, inner *Object) *Object {
	first, rest, dotted := strings.Cut(path, ".")
	if dotted {
		inner = nest(rest, inner)
	}
	return &Object{Type: "module", Text: "<module>", Attrs: map[string]Value{first: inner}}
}

// home returns the scope that an assignment to a name binds in.
func (t *Thread) home(e *env, name string) *env {
	for e.comp {
		e = e.parent
	}
	if e.def == nil {
		return e
	}
	switch e.def.free[name] {
	case 'g':
		return t.globals
	case 'n':
		for up := e.parent; up != nil && up.def != nil; up = up.parent {
			if up.def.locals[name] {
				return up
			}
		}
	}
	return e
}

func (t *Thread) bind(e *env, name string, v Value) error {
	home := t.home(e, name)
	if _, there := home.vars[name]; !there {
		if err := t.grow(48); err != nil {
			return err
		}
	}
	home.vars[name] = v
	return nil
}

func (t *Thread) lookup(e *env, name string) (Value, error) {
	for at := e; at != nil; at = at.parent {
		if v, ok := at.vars[name]; ok {
			return v, nil
		}
		if at.def != nil && at.def.locals[name] {
			if at == e || e.comp {
				return nil, raise("UnboundLocalError",
					"cannot access local variable '%s' where it is not associated with a value", name)
			}
			return nil, raise("NameError",
				"cannot access free variable '%s' where it is not associated with a value in enclosing scope", name)
		}
		if at.def != nil && at.def.free[name] == 'g' {
			at = &env{parent: t.globals}
		}
	}
	if v, ok := t.std.functions[name]; ok {
		return v, nil
	}
	if c, ok := t.std.classes[name]; ok {
		return c, nil
	}
	if name == "__name__" {
		return "__main__", nil
	}
	return nil, raise("NameError", "name '%s' is not defined", name)
}

func (t *Thread) assign(e *env, target Expr, v Value) error {
	switch x := target.(type) {
	case *Name:
		if e.comp {
			e.vars[x.ID] = v
			return nil
		}
		return t.bind(e, x.ID, v)
	case *Seq:
		return t.unpack(e, x.Items, v)
	case *Index:
		owner, err := t.eval(e, x.X)
		if err != nil {
			return err
		}
		if s, ok := x.Key.(*SliceExpr); ok {
			return t.assignSlice(e, owner, s, v)
		}
		key, err := t.eval(e, x.Key)
		if err != nil {
			return err
		}
		return t.setItem(owner, key, v)
	case *Attr:
		owner, err := t.eval(e, x.X)
		if err != nil {
			return err
		}
		if _, err := t.attribute(owner, x.Name); err != nil {
			return err
		}
		return raise("AttributeError", "'%s' object attribute '%s' is read-only", typeName(owner), x.Name)
	}
	return fmt.Errorf("python: assignment to %T", target)
}

func (t *Thread) assignSlice(e *env, owner Value, s *SliceExpr, v Value) error {
	l, ok := owner.(*List)
	if !ok {
		return raise("TypeError", "'%s' object does not support item assignment", typeName(owner))
	}
	lo, hi, step, err := t.sliceBounds(e, s, len(l.Items))
	if err != nil {
		return err
	}
	items, err := t.collect(v)
	if err != nil {
		return err
	}
	return t.replaceSlice(l, lo, hi, step, slices.Clone(items))
}

// replaceSlice assigns items to a slice of a list.
func (t *Thread) replaceSlice(l *List, lo, hi, step int, items []Value) error {
	if step != 1 {
		var at []int
		for i := lo; step > 0 && i < hi || step < 0 && i > hi; i += step {
			at = append(at, i)
		}
		if len(at) != len(items) {
			return raise("ValueError", "attempt to assign sequence of size %d to extended slice of size %d", len(items), len(at))
		}
		for i, n := range at {
			l.Items[n] = items[i]
		}
		return nil
	}
	hi = max(lo, hi)
	if err := t.spend(int64(len(l.Items))); err != nil {
		return err
	}
	if err := t.grow(16 * int64(len(items))); err != nil {
		return err
	}
	l.Items = slices.Concat(l.Items[:lo], items, l.Items[hi:])
	return nil
}

func (t *Thread) deleteSlice(e *env, owner Value, s *SliceExpr) error {
	l, ok := owner.(*List)
	if !ok {
		return raise("TypeError", "'%s' object does not support item deletion", typeName(owner))
	}
	lo, hi, step, err := t.sliceBounds(e, s, len(l.Items))
	if err != nil {
		return err
	}
	if step == 1 {
		return t.replaceSlice(l, lo, hi, step, nil)
	}
	gone := map[int]bool{}
	for i := lo; step > 0 && i < hi || step < 0 && i > hi; i += step {
		gone[i] = true
	}
	kept := make([]Value, 0, len(l.Items)-len(gone))
	for i, v := range l.Items {
		if !gone[i] {
			kept = append(kept, v)
		}
	}
	l.Items = kept
	return t.spend(int64(len(kept)))
}

func (t *Thread) unpack(e *env, targets []Expr, v Value) error {
	if _, err := t.iterate(v); err != nil {
		return raise("TypeError", "cannot unpack non-iterable %s object", typeName(v))
	}
	items, err := t.collect(v)
	if err != nil {
		return err
	}
	items = slices.Clone(items) // assigning to the targets may change the list
	star := slices.IndexFunc(targets, func(x Expr) bool { _, ok := x.(*Starred); return ok })
	if star < 0 {
		switch {
		case len(items) < len(targets):
			return raise("ValueError", "not enough values to unpack (expected %d, got %d)", len(targets), len(items))
		case len(items) > len(targets):
			return raise("ValueError", "too many values to unpack (expected %d)", len(targets))
		}
		for i, x := range targets {
			if err := t.assign(e, x, items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	after := len(targets) - star - 1
	if len(items) < star+after {
		return raise("ValueError", "not enough values to unpack (expected at least %d, got %d)", star+after, len(items))
	}
	for i, x := range targets {
		var one Value
		switch {
		case i < star:
			one = items[i]
		case i == star:
			x = x.(*Starred).X
			one = &List{items[star : len(items)-after : len(items)-after]}
		default:
			one = items[len(items)-len(targets)+i]
		}
		if err := t.assign(e, x, one); err != nil {
			return err
		}
	}
	return nil
}

// augment executes an augmented assignment such as x += 1.
func (t *Thread) augment(e *env, s *AugAssign) error {
	get, set, err := t.reference(e, s.Target)
	if err != nil {
		return err
	}
	before, err := get()
	if err != nil {
		return err
	}
	operand, err := t.eval(e, s.X)
	if err != nil {
		return err
	}
	after, err := t.inPlace(s.Op, before, operand)
	if raised, ok := err.(*Raised); ok && raised.operands {
		return unsupported(s.Op+"=", before, operand)
	}
	if err != nil {
		return err
	}
	return set(after)
}

// reference evaluates the parts of an assignment target once and returns functions
// that get and set its value.
func (t *Thread) reference(e *env, target Expr) (get func() (Value, error), set func(Value) error, err error) {
	switch x := target.(type) {
	case *Name:
		get = func() (Value, error) { return t.lookup(e, x.ID) }
		set = func(v Value) error { return t.bind(e, x.ID, v) }
		return get, set, nil
	case *Index:
		owner, err := t.eval(e, x.X)
		if err != nil {
			return nil, nil, err
		}
		if slice, ok := x.Key.(*SliceExpr); ok {
			return t.sliceReference(e, owner, slice)
		}
		key, err := t.eval(e, x.Key)
		if err != nil {
			return nil, nil, err
		}
		get = func() (Value, error) { return t.item(owner, key) }
		set = func(v Value) error { return t.setItem(owner, key, v) }
		return get, set, nil
	}
	// Attributes cannot be assigned; assign returns the error.
	nothing := func() (Value, error) { return nil, nil }
	return nothing, func(Value) error { return nil }, t.assign(e, target, nil)
}

func (t *Thread) sliceReference(
	e *env, owner Value, slice *SliceExpr,
) (get func() (Value, error), set func(Value) error, err error) {
	l, ok := owner.(*List)
	if !ok {
		return nil, nil, raise("TypeError", "'%s' object does not support item assignment", typeName(owner))
	}
	lo, hi, step, err := t.sliceBounds(e, slice, len(l.Items))
	if err != nil {
		return nil, nil, err
	}
	get = func() (Value, error) { return t.cut(l.Items, lo, hi, step) }
	set = func(v Value) error {
		items, err := t.collect(v)
		if err != nil {
			return err
		}
		return t.replaceSlice(l, lo, hi, step, items)
	}
	return get, set, nil
}

// inPlace computes the operator of an augmented assignment. Lists, dicts and sets
// are modified in place.
func (t *Thread) inPlace(op string, a, b Value) (Value, error) {
	switch a := a.(type) {
	case *List:
		if op == "+" { // accepts any iterable
			items, err := t.collect(b)
			if err == nil {
				err = t.extend(a, items)
			}
			return a, err
		}
	case *Dict:
		if other, ok := b.(*Dict); ok && op == "|" {
			return a, t.updateDict(a, other)
		}
	}
	v, err := t.binary(op, a, b)
	if err != nil {
		return nil, err
	}
	switch a := a.(type) {
	case *List:
		if made, ok := v.(*List); ok {
			a.Items = made.Items
			return a, nil
		}
	case *Set:
		if made, ok := v.(*Set); ok && !a.frozen {
			a.d = made.d
			return a, nil
		}
	}
	return v, nil
}

func (t *Thread) del(e *env, target Expr) error {
	switch x := target.(type) {
	case *Name:
		home := t.home(e, x.ID)
		if _, ok := home.vars[x.ID]; !ok {
			return raise("NameError", "name '%s' is not defined", x.ID)
		}
		delete(home.vars, x.ID)
		return nil
	case *Index:
		owner, err := t.eval(e, x.X)
		if err != nil {
			return err
		}
		if s, ok := x.Key.(*SliceExpr); ok {
			return t.deleteSlice(e, owner, s)
		}
		key, err := t.eval(e, x.Key)
		if err != nil {
			return err
		}
		switch owner := owner.(type) {
		case *Dict:
			ok, err := owner.delete(key)
			if err == nil && !ok {
				err = &Raised{Value: &Exception{Class: "KeyError", Args: []Value{key}}}
			}
			return err
		case *List:
			i, err := position(key, len(owner.Items), "list assignment")
			if err != nil {
				return err
			}
			owner.Items = slices.Delete(owner.Items, i, i+1)
			return t.spend(int64(len(owner.Items) / 16))
		}
		return raise("TypeError", "'%s' object doesn't support item deletion", typeName(owner))
	case *Seq:
		for _, one := range x.Items {
			if err := t.del(e, one); err != nil {
				return err
			}
		}
		return nil
	}
	return raise("TypeError", "this cannot be deleted")
}

func (t *Thread) function(e *env, d *Def) (*Func, error) {
	f := &Func{def: d, env: e, module: t.module, defaults: make([]Value, len(d.Params))}
	for i, p := range d.Params {
		if p.Default != nil {
			v, err := t.eval(e, p.Default)
			if err != nil {
				return nil, err
			}
			f.defaults[i] = v
		}
	}
	return f, t.grow(64)
}

func (t *Thread) eval(e *env, x Expr) (Value, error) {
	if err := t.spend(1); err != nil {
		return nil, err
	}
	switch x := x.(type) {
	case *Name:
		return t.lookup(e, x.ID)
	case *Const:
		return x.Value, nil
	case *FString:
		return t.fstring(e, x)
	case *Seq:
		items, err := t.items(e, x.Items)
		if err != nil {
			return nil, err
		}
		if err := t.grow(24 + 16*int64(len(items))); err != nil {
			return nil, err
		}
		switch x.Kind {
		case '[':
			return &List{items}, nil
		case '(':
			return &Tuple{items}, nil
		}
		return t.newSet(items)
	case *DictExpr:
		return t.dict(e, x)
	case *Attr:
		owner, err := t.eval(e, x.X)
		if err != nil {
			return nil, err
		}
		return t.attribute(owner, x.Name)
	case *Index:
		owner, err := t.eval(e, x.X)
		if err != nil {
			return nil, err
		}
		if s, ok := x.Key.(*SliceExpr); ok {
			return t.slice(e, owner, s)
		}
		key, err := t.eval(e, x.Key)
		if err != nil {
			return nil, err
		}
		return t.item(owner, key)
	case *Call:
		return t.callExpr(e, x)
	case *Unary:
		v, err := t.eval(e, x.X)
		if err != nil {
			return nil, err
		}
		return unary(x.Op, v)
	case *Binary:
		a, err := t.eval(e, x.X)
		if err != nil {
			return nil, err
		}
		b, err := t.eval(e, x.Y)
		if err != nil {
			return nil, err
		}
		return t.binary(x.Op, a, b)
	case *BoolOp:
		a, err := t.eval(e, x.X)
		if err != nil || truth(a) != x.And {
			return a, err
		}
		return t.eval(e, x.Y)
	case *Compare:
		a, err := t.eval(e, x.First)
		if err != nil {
			return nil, err
		}
		for i, op := range x.Ops {
			b, err := t.eval(e, x.Rest[i])
			if err != nil {
				return nil, err
			}
			ok, err := t.compare(op, a, b)
			if err != nil || !ok {
				return false, err
			}
			a = b
		}
		return true, nil
	case *IfExp:
		v, err := t.eval(e, x.Cond)
		if err != nil {
			return nil, err
		}
		if truth(v) {
			return t.eval(e, x.Then)
		}
		return t.eval(e, x.Else)
	case *Lambda:
		return t.function(e, x.Def)
	case *Comp:
		return t.comprehension(e, x)
	case *Walrus:
		v, err := t.eval(e, x.X)
		if err == nil {
			err = t.bind(e, x.Name.ID, v)
		}
		return v, err
	}
	return nil, fmt.Errorf("python: unknown expression %T", x)
}

// items evaluates expressions, which may be starred.
func (t *Thread) items(e *env, list []Expr) ([]Value, error) {
	out := make([]Value, 0, len(list))
	for _, x := range list {
		if s, ok := x.(*Starred); ok {
			v, err := t.eval(e, s.X)
			if err != nil {
				return nil, err
			}
			more, err := t.collect(v)
			if err != nil {
				return nil, err
			}
			if err := t.grow(16 * int64(len(more))); err != nil {
				return nil, err
			}
			out = append(out, more...)
			continue
		}
		v, err := t.eval(e, x)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (t *Thread) dict(e *env, x *DictExpr) (Value, error) {
	d := &Dict{}
	for _, p := range x.Pairs {
		if p.Key == nil {
			v, err := t.eval(e, p.Value)
			if err != nil {
				return nil, err
			}
			other, ok := v.(*Dict)
			if !ok {
				return nil, raise("TypeError", "'%s' object is not a mapping", typeName(v))
			}
			if err := t.updateDict(d, other); err != nil {
				return nil, err
			}
			continue
		}
		k, err := t.eval(e, p.Key)
		if err != nil {
			return nil, err
		}
		v, err := t.eval(e, p.Value)
		if err != nil {
			return nil, err
		}
		if err := t.setItem(d, k, v); err != nil {
			return nil, err
		}
	}
	return d, t.grow(64)
}

func (t *Thread) comprehension(e *env, x *Comp) (Value, error) {
	inner := &env{vars: map[string]Value{}, parent: e, comp: true}
	advance, err := t.clauses(e, inner, x.Clauses)
	if err != nil {
		return nil, err
	}
	item := func() (v Value, ok bool, err error) {
		if ok, err = advance(); ok {
			v, err = t.eval(inner, x.Item)
		}
		return v, ok, err
	}
	switch x.Kind {
	case '(':
		return &generator{name: "generator", next: item}, nil
	case ':':
		d := &Dict{}
		for {
			ok, err := advance()
			if !ok || err != nil {
				return d, err
			}
			k, err := t.eval(inner, x.Key)
			if err != nil {
				return nil, err
			}
			v, err := t.eval(inner, x.Item)
			if err != nil {
				return nil, err
			}
			if err := t.setItem(d, k, v); err != nil {
				return nil, err
			}
		}
	}
	items, err := t.collect(&generator{next: item})
	if err != nil {
		return nil, err
	}
	if x.Kind == '[' {
		return &List{items}, nil
	}
	return t.newSet(items)
}

// clauses returns a function that advances the loops of a comprehension: each
// call assigns the next values in inner and returns false at the end.
func (t *Thread) clauses(outer, inner *env, list []Clause) (func() (bool, error), error) {
	over, err := t.eval(outer, list[0].In)
	if err != nil {
		return nil, err
	}
	first, err := t.iterate(over)
	if err != nil {
		return nil, err
	}
	open := []iterator{first}
	return func() (bool, error) {
	next:
		for len(open) > 0 {
			c := list[len(open)-1]
			item, ok, err := open[len(open)-1]()
			if err != nil {
				return false, err
			}
			if !ok {
				open = open[:len(open)-1]
				continue
			}
			if err := t.spend(1); err != nil {
				return false, err
			}
			if err := t.assign(inner, c.Target, item); err != nil {
				return false, err
			}
			for _, cond := range c.Ifs {
				v, err := t.eval(inner, cond)
				if err != nil {
					return false, err
				}
				if !truth(v) {
					continue next
				}
			}
			if len(open) == len(list) {
				return true, nil
			}
			over, err := t.eval(inner, list[len(open)].In)
			if err != nil {
				return false, err
			}
			deeper, err := t.iterate(over)
			if err != nil {
				return false, err
			}
			open = append(open, deeper)
		}
		return false, nil
	}, nil
}

func (t *Thread) callExpr(e *env, x *Call) (Value, error) {
	fn, err := t.eval(e, x.Fn)
	if err != nil {
		return nil, err
	}
	var args []Value
	var named Named
	name := func(key string, v Value) error {
		if _, twice := named.Get(key); twice {
			return raise("TypeError", "got multiple values for keyword argument '%s'", key)
		}
		named = append(named, NamedArg{key, v})
		return t.spend(int64(len(named)) / 16) // the lookup was linear
	}
	for _, a := range x.Args {
		v, err := t.eval(e, a.X)
		if err != nil {
			return nil, err
		}
		switch {
		case a.Stars == 1:
			more, err := t.collect(v)
			if err != nil {
				return nil, err
			}
			args = append(args, more...)
			if err := t.grow(16 * int64(len(more))); err != nil {
				return nil, err
			}
		case a.Stars == 2:
			d, ok := v.(*Dict)
			if !ok {
				return nil, raise("TypeError", "argument after ** must be a mapping, not %s", typeName(v))
			}
			for _, k := range d.Keys() {
				key, ok := k.(string)
				if !ok {
					return nil, raise("TypeError", "keywords must be strings")
				}
				v, _, _ := d.get(k)
				if err := name(key, v); err != nil {
					return nil, err
				}
			}
		case a.Name != "":
			if err := name(a.Name, v); err != nil {
				return nil, err
			}
		default:
			args = append(args, v)
		}
	}
	at := t.at
	v, err := t.call(fn, args, named)
	t.at = at
	return v, err
}

func (t *Thread) call(fn Value, args []Value, named Named) (Value, error) {
	if err := t.spend(1); err != nil {
		return nil, err
	}
	switch fn := fn.(type) {
	case *Builtin:
		return fn.Call(t, args, named)
	case *class:
		if fn.make == nil {
			return nil, raise("TypeError", "cannot create '%s' instances", fn.name)
		}
		return fn.make(t, args, named)
	case *Func:
		return t.callFunc(fn, args, named)
	}
	return nil, raise("TypeError", "'%s' object is not callable", typeName(fn))
}

func (t *Thread) callFunc(fn *Func, args []Value, named Named) (Value, error) {
	if t.depth >= t.Limits.Depth {
		return nil, raise("RecursionError", "maximum recursion depth exceeded")
	}
	inner := &env{vars: make(map[string]Value, len(fn.def.Params)), parent: fn.env, def: fn.def}
	if err := t.grow(128); err != nil {
		return nil, err
	}
	if err := fn.bind(inner.vars, args, named); err != nil {
		return nil, err
	}
	t.depth++
	module, at := t.module, t.at
	t.module = fn.module
	defer func() {
		t.depth--
		t.module, t.at = module, at
	}()
	if fn.def.Result != nil {
		v, err := t.eval(inner, fn.def.Result)
		if err != nil {
			err = t.located(err)
		}
		return v, err
	}
	_, v, err := t.block(inner, fn.def.Body)
	return v, err
}

// bind assigns arguments to parameters.
func (f *Func) bind(vars map[string]Value, args []Value, named Named) error {
	def, rest := f.def, slices.Clone(named)
	next := 0
	var missing, keyOnly []string
	least, positional := 0, 0
	variadic := false
	for _, p := range def.Params {
		if p.Stars == 0 && !p.KeyOnly {
			positional++
			if p.Default == nil {
				least++
			}
		}
		variadic = variadic || p.Stars == 1
	}
	if len(args) > positional && !variadic {
		takes := strconv.Itoa(positional)
		if least < positional {
			takes = fmt.Sprintf("from %d to %d", least, positional)
		}
		return raise("TypeError", "%s() takes %s positional argument%s but %d %s given",
			def.Name, takes, plural(positional), len(args), was(len(args)))
	}
	for i, p := range def.Params {
		switch {
		case p.Stars == 1:
			more := slices.Clone(args[min(next, len(args)):])
			vars[p.Name] = &Tuple{more}
			next = len(args)
		case p.Stars == 2:
			d := &Dict{}
			for _, a := range rest {
				_ = d.set(a.Name, a.Value) // cannot fail: strings are hashable
			}
			vars[p.Name] = d
			rest = nil
		default:
			v, byName := rest.Get(p.Name)
			rest = slices.DeleteFunc(rest, func(a NamedArg) bool { return a.Name == p.Name })
			switch {
			case !p.KeyOnly && next < len(args):
				if byName {
					return raise("TypeError", "%s() got multiple values for argument '%s'", def.Name, p.Name)
				}
				vars[p.Name] = args[next]
				next++
			case byName:
				vars[p.Name] = v
			case p.Default != nil:
				vars[p.Name] = f.defaults[i]
			case p.KeyOnly:
				keyOnly = append(keyOnly, "'"+p.Name+"'")
			default:
				missing = append(missing, "'"+p.Name+"'")
			}
		}
	}
	if len(rest) > 0 {
		return raise("TypeError", "%s() got an unexpected keyword argument '%s'", def.Name, rest[0].Name)
	}
	for i, list := range [][]string{missing, keyOnly} {
		if len(list) > 0 {
			kind := []string{"positional", "keyword-only"}[i]
			return raise("TypeError", "%s() missing %d required %s argument%s: %s",
				def.Name, len(list), kind, plural(len(list)), and(list))
		}
	}
	return nil
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func and(words []string) string {
	switch n := len(words); n {
	case 1:
		return words[0]
	case 2:
		return words[0] + " and " + words[1]
	default:
		return strings.Join(words[:n-1], ", ") + ", and " + words[n-1]
	}
}

func (t *Thread) sliceBounds(e *env, s *SliceExpr, n int) (lo, hi, step int, err error) {
	get := func(x Expr, otherwise int) (int, error) {
		if x == nil {
			return otherwise, nil
		}
		v, err := t.eval(e, x)
		if err != nil {
			return 0, err
		}
		switch v := v.(type) {
		case nil:
			return otherwise, nil
		case bool:
			if v {
				return 1, nil
			}
			return 0, nil
		case int64:
			return int(max(min(v, math.MaxInt32), math.MinInt32)), nil
		case *big.Int:
			return math.MaxInt32 * v.Sign(), nil
		}
		return 0, raise("TypeError", "slice indices must be integers or None or have an __index__ method")
	}
	if step, err = get(s.Step, 1); err != nil {
		return 0, 0, 0, err
	}
	if step == 0 {
		return 0, 0, 0, raise("ValueError", "slice step cannot be zero")
	}
	first, last := 0, n
	if step < 0 {
		first, last = n-1, -1
	}
	clamp := func(i int) int {
		if i < 0 {
			i += n
		}
		if step > 0 {
			return min(max(i, 0), n)
		}
		return min(max(i, -1), n-1)
	}
	lo, hi = first, last
	if s.Lo != nil {
		if lo, err = get(s.Lo, math.MinInt); err != nil {
			return 0, 0, 0, err
		}
		if lo == math.MinInt {
			lo = first
		} else {
			lo = clamp(lo)
		}
	}
	if s.Hi != nil {
		if hi, err = get(s.Hi, math.MinInt); err != nil {
			return 0, 0, 0, err
		}
		if hi == math.MinInt {
			hi = last
		} else {
			hi = clamp(hi)
		}
	}
	return lo, hi, step, nil
}

func (t *Thread) cut(items []Value, lo, hi, step int) (*List, error) {
	out := &List{}
	for i := lo; step > 0 && i < hi || step < 0 && i > hi; i += step {
		out.Items = append(out.Items, items[i])
	}
	if err := t.spend(int64(len(out.Items) / 8)); err != nil {
		return nil, err
	}
	return out, t.grow(16 * int64(len(out.Items)))
}

func (t *Thread) slice(e *env, owner Value, s *SliceExpr) (Value, error) {
	cut := func(items []Value) ([]Value, error) {
		lo, hi, step, err := t.sliceBounds(e, s, len(items))
		if err != nil {
			return nil, err
		}
		l, err := t.cut(items, lo, hi, step)
		if err != nil {
			return nil, err
		}
		return l.Items, nil
	}
	switch owner := owner.(type) {
	case *rangeValue:
		lo, hi, step, err := t.sliceBounds(e, s, int(owner.len()))
		if err != nil {
			return nil, err
		}
		wide := int64(step) * owner.step
		if wide/owner.step != int64(step) {
			return nil, raise("OverflowError", "Python int too large to convert to C ssize_t")
		}
		at := func(i int) int64 { return owner.start + int64(i)*owner.step }
		return &rangeValue{at(lo), at(hi), wide}, nil
	case *List:
		items, err := cut(owner.Items)
		return &List{items}, err
	case *Tuple:
		items, err := cut(owner.Items)
		return &Tuple{items}, err
	case string:
		runes := []rune(owner)
		lo, hi, step, err := t.sliceBounds(e, s, len(runes))
		if err != nil {
			return nil, err
		}
		if err := t.spend(int64(len(owner) / 16)); err != nil {
			return nil, err
		}
		var b strings.Builder
		for i := lo; step > 0 && i < hi || step < 0 && i > hi; i += step {
			b.WriteRune(runes[i])
		}
		return b.String(), t.grow(int64(b.Len()))
	}
	return nil, raise("TypeError", "'%s' object is not subscriptable", typeName(owner))
}

func (t *Thread) fstring(e *env, x *FString) (Value, error) {
	var b strings.Builder
	for _, p := range x.Parts {
		if p.X == nil {
			b.WriteString(p.Text)
			continue
		}
		v, err := t.eval(e, p.X)
		if err != nil {
			return nil, err
		}
		if p.Conv != 0 {
			s, err := t.convert(p.Conv, v)
			if err != nil {
				return nil, err
			}
			v = s
		}
		spec := ""
		if p.Spec != nil {
			text, err := t.fstring(e, p.Spec)
			if err != nil {
				return nil, err
			}
			spec = text.(string)
		}
		text, err := t.format(v, spec)
		if err != nil {
			return nil, err
		}
		b.WriteString(text)
		if b.Len() > maxObject {
			return nil, t.tooLarge("a string")
		}
	}
	return b.String(), t.grow(int64(b.Len()))
}

// Literal evaluates an expression of literals. It returns false for any other
// expression.
func (t *Thread) Literal(x Expr) (Value, bool) {
	plain := true
	walk(x, func(n any) bool {
		switch n := n.(type) {
		case *Const, *Seq, *DictExpr:
		case *Unary:
			plain = plain && n.Op == "-"
		default:
			plain = false
		}
		return plain
	})
	if !plain {
		return nil, false
	}
	v, err := t.eval(t.globals, x)
	return v, err == nil
}

// Operate computes a binary operator.
func (t *Thread) Operate(op string, a, b Value) (Value, error) { return t.binary(op, a, b) }

// TypeName returns the name of a value's type.
func TypeName(v Value) string { return typeName(v) }

// Set sets the value of a string key.
func (d *Dict) Set(key string, v Value) { _ = d.set(key, v) } // cannot fail: strings are hashable
