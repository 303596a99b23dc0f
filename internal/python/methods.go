package python

import (
	"math"
	"slices"
	"strings"
)

// attribute returns owner.name. Names with a leading underscore never exist, so
// that programs cannot reach the internals of objects, also through getattr or
// str.format.
func (t *Thread) attribute(owner Value, name string) (Value, error) {
	missing := func() error {
		return raise("AttributeError", "'%s' object has no attribute '%s'", typeName(owner), name)
	}
	if strings.HasPrefix(name, "_") {
		return nil, missing()
	}
	if o, ok := owner.(*Object); ok {
		if v, ok := o.Attrs[name]; ok {
			return v, nil
		}
		if o.Type == "typing" {
			return o, nil
		}
		if o.Type == "module" {
			return nil, raise("AttributeError", "%s has no attribute '%s'", strings.Trim(o.Text, "<>"), name)
		}
		return nil, missing()
	}
	if x, ok := owner.(*Exception); ok && name == "args" {
		return &Tuple{x.Args}, nil
	}
	if c, ok := owner.(*class); ok {
		if c.name == "dict" && name == "fromkeys" {
			return &Builtin{Name: name, Call: fromKeys}, nil
		}
		if method, ok := t.std.methods[c.name][name]; ok { // an unbound method such as str.lower
			return &Builtin{Name: name, Call: func(t *Thread, args []Value, named Named) (Value, error) {
				if len(args) == 0 {
					return nil, raise("TypeError", "unbound method %s.%s() needs an argument", c.name, name)
				}
				if typeName(args[0]) != c.name {
					return nil, raise("TypeError", "descriptor '%s' for '%s' objects doesn't apply to a '%s' object",
						name, c.name, typeName(args[0]))
				}
				return method(t, args[0], &arguments{fn: name, list: args[1:], named: named})
			}}, nil
		}
		return nil, raise("AttributeError", "type object '%s' has no attribute '%s'", c.name, name)
	}
	kind := typeName(owner)
	method, ok := t.std.methods[kind][name]
	if !ok {
		return nil, missing()
	}
	return &Builtin{Name: name, Call: func(t *Thread, args []Value, named Named) (Value, error) {
		return method(t, owner, &arguments{fn: name, list: args, named: named})
	}}, nil
}

// arguments are the arguments of a call to a builtin.
type arguments struct {
	fn    string
	list  []Value
	named Named
	taken []string // the keywords that the function accepts
}

// between returns an error unless there are least to most positional arguments
// and no unknown keyword arguments. Call it after take.
func (a *arguments) between(least, most int) error {
	n := len(a.list)
	switch {
	case n < least:
		return raise("TypeError", "%s expected at least %d argument%s, got %d", a.fn, least, plural(least), n)
	case most >= 0 && n > most:
		return raise("TypeError", "%s expected at most %d argument%s, got %d", a.fn, most, plural(most), n)
	case len(a.named) > len(a.taken):
		for _, one := range a.named {
			if !slices.Contains(a.taken, one.Name) {
				return raise("TypeError", "%s() got an unexpected keyword argument '%s'", a.fn, one.Name)
			}
		}
	}
	return nil
}

// at returns a positional argument.
func (a *arguments) at(i int, otherwise Value) Value {
	if i < len(a.list) {
		return a.list[i]
	}
	return otherwise
}

// take returns a keyword argument.
func (a *arguments) take(name string, otherwise Value) Value {
	if v, ok := a.named.Get(name); ok {
		a.taken = append(a.taken, name)
		return v
	}
	return otherwise
}

func (a *arguments) text(i int) (string, error) {
	v := a.at(i, nil)
	s, ok := v.(string)
	if !ok {
		return "", raise("TypeError", "%s() argument must be str, not %s", a.fn, typeName(v))
	}
	return s, nil
}

func (a *arguments) number(i int, otherwise int64) (int64, error) {
	if i >= len(a.list) {
		return otherwise, nil
	}
	n, _ := number(a.list[i])
	v, ok := n.(int64)
	if !ok {
		return 0, raise("TypeError", "'%s' object cannot be interpreted as an integer", typeName(a.list[i]))
	}
	return v, nil
}

type method = func(t *Thread, self Value, a *arguments) (Value, error)

func methodTable() map[string]map[string]method {
	return map[string]map[string]method{
		"str": strMethods(), "list": listMethods(), "tuple": tupleMethods(), "dict": dictMethods(),
		"set": setMethods(false), "frozenset": setMethods(true),
		"float": {"is_integer": func(_ *Thread, self Value, a *arguments) (Value, error) {
			f := self.(float64)
			return f == math.Trunc(f) && !math.IsInf(f, 0), a.between(0, 0)
		}},
	}
}

func listMethods() map[string]method {
	on := func(least, most int, do func(t *Thread, l *List, a *arguments) (Value, error)) method {
		return func(t *Thread, self Value, a *arguments) (Value, error) {
			if err := a.between(least, most); err != nil {
				return nil, err
			}
			return do(t, self.(*List), a)
		}
	}
	return map[string]method{
		"append": on(1, 1, func(t *Thread, l *List, a *arguments) (Value, error) { return nil, t.extend(l, a.list) }),
		"extend": on(1, 1, func(t *Thread, l *List, a *arguments) (Value, error) {
			items, err := t.collect(a.list[0])
			if err != nil {
				return nil, err
			}
			return nil, t.extend(l, items)
		}),
		"insert": on(2, 2, func(t *Thread, l *List, a *arguments) (Value, error) {
			i, err := a.number(0, 0)
			if err != nil {
				return nil, err
			}
			n := int64(len(l.Items))
			if i < 0 {
				i += n
			}
			if err := t.extend(l, []Value{nil}); err != nil {
				return nil, err
			}
			i = min(max(i, 0), n)
			copy(l.Items[i+1:], l.Items[i:])
			l.Items[i] = a.list[1]
			return nil, t.spend(n / 16)
		}),
		"pop": on(0, 1, func(t *Thread, l *List, a *arguments) (Value, error) {
			if len(l.Items) == 0 {
				return nil, raise("IndexError", "pop from empty list")
			}
			i, err := position(a.at(0, int64(-1)), len(l.Items), "pop")
			if err != nil {
				return nil, err
			}
			v := l.Items[i]
			l.Items = slices.Delete(l.Items, i, i+1)
			return v, t.spend(int64((len(l.Items) - i) / 16))
		}),
		"remove": on(1, 1, func(t *Thread, l *List, a *arguments) (Value, error) {
			i, err := t.indexOf(l.Items, a.list[0])
			if err != nil {
				return nil, err
			}
			if i < 0 {
				return nil, raise("ValueError", "list.remove(x): x not in list")
			}
			l.Items = slices.Delete(l.Items, i, i+1)
			return nil, nil
		}),
		"index": on(1, 3, func(t *Thread, l *List, a *arguments) (Value, error) { return t.mustFind(l.Items, a, "list") }),
		"count": on(1, 1, func(t *Thread, l *List, a *arguments) (Value, error) { return t.countOf(l.Items, a.list[0]) }),
		"sort": func(t *Thread, self Value, a *arguments) (Value, error) {
			l := self.(*List)
			key, reverse := a.take("key", nil), truth(a.take("reverse", false))
			if err := a.between(0, 0); err != nil {
				return nil, err
			}
			items, err := t.sorted(l.Items, key, reverse)
			if err == nil {
				l.Items = items
			}
			return nil, err
		},
		"reverse": on(0, 0, func(_ *Thread, l *List, _ *arguments) (Value, error) {
			slices.Reverse(l.Items)
			return nil, nil
		}),
		"copy": on(0, 0, func(t *Thread, l *List, _ *arguments) (Value, error) {
			items, err := t.concat(l.Items, nil)
			return &List{items}, err
		}),
		"clear": on(0, 0, func(_ *Thread, l *List, _ *arguments) (Value, error) { l.Items = nil; return nil, nil }),
	}
}

func tupleMethods() map[string]method {
	return map[string]method{
		"index": func(t *Thread, self Value, a *arguments) (Value, error) {
			if err := a.between(1, 3); err != nil {
				return nil, err
			}
			return t.mustFind(self.(*Tuple).Items, a, "tuple")
		},
		"count": func(t *Thread, self Value, a *arguments) (Value, error) {
			if err := a.between(1, 1); err != nil {
				return nil, err
			}
			return t.countOf(self.(*Tuple).Items, a.list[0])
		},
	}
}

func (t *Thread) indexOf(items []Value, v Value) (int, error) {
	for i, item := range items {
		if same, err := t.equal(item, v, 0); same || err != nil {
			return i, err
		}
	}
	return -1, nil
}

func (t *Thread) mustFind(items []Value, a *arguments, what string) (Value, error) {
	v := a.list[0]
	bounds := [2]int64{0, int64(len(items))}
	for n, otherwise := range bounds {
		at, err := a.number(n+1, otherwise)
		if err != nil {
			return nil, err
		}
		if at < 0 {
			at += int64(len(items))
		}
		bounds[n] = min(max(at, 0), int64(len(items)))
	}
	lo := bounds[0]
	i, err := t.indexOf(items[lo:max(lo, bounds[1])], v)
	if err == nil && i < 0 {
		shown, failed := t.Repr(v)
		if failed != nil {
			return nil, failed
		}
		if what == "tuple" {
			return nil, raise("ValueError", "tuple.index(x): x not in tuple")
		}
		err = raise("ValueError", "%s is not in %s", shown, what)
	}
	return lo + int64(i), err
}

func (t *Thread) countOf(items []Value, v Value) (Value, error) {
	n := int64(0)
	for _, item := range items {
		same, err := t.equal(item, v, 0)
		if err != nil {
			return nil, err
		}
		if same {
			n++
		}
	}
	return n, nil
}

// sorted returns the items in stable order.
func (t *Thread) sorted(items []Value, key Value, reverse bool) ([]Value, error) {
	type keyed struct{ key, value Value }
	list := make([]keyed, len(items))
	if err := t.grow(32 * int64(len(items))); err != nil {
		return nil, err
	}
	for i, v := range items {
		list[i] = keyed{v, v}
		if key != nil {
			k, err := t.Call(key, v)
			if err != nil {
				return nil, err
			}
			list[i].key = k
		}
	}
	var failed error
	slices.SortStableFunc(list, func(a, b keyed) int {
		if failed != nil {
			return 0
		}
		x, y := a.key, b.key
		if reverse {
			x, y = y, x
		}
		less, err := t.ordered("<", x, y, 0)
		if err == nil && less {
			return -1
		}
		more := false
		if err == nil {
			more, err = t.ordered("<", y, x, 0)
		}
		if err != nil {
			failed = err
		}
		if more {
			return 1
		}
		return 0
	})
	out := make([]Value, len(list))
	for i := range list {
		out[i] = list[i].value
	}
	return out, failed
}

func dictMethods() map[string]method {
	on := func(least, most int, do func(t *Thread, d *Dict, a *arguments) (Value, error)) method {
		return func(t *Thread, self Value, a *arguments) (Value, error) {
			if err := a.between(least, most); err != nil {
				return nil, err
			}
			return do(t, self.(*Dict), a)
		}
	}
	show := func(kind string) method {
		return on(0, 0, func(t *Thread, d *Dict, _ *arguments) (Value, error) { return &view{d, kind}, t.grow(32) })
	}
	return map[string]method{
		"get": on(1, 2, func(_ *Thread, d *Dict, a *arguments) (Value, error) {
			v, ok, err := d.get(a.list[0])
			if !ok {
				v = a.at(1, nil)
			}
			return v, err
		}),
		"keys":   show("keys"),
		"values": show("values"),
		"items":  show("items"),
		"pop": on(1, 2, func(_ *Thread, d *Dict, a *arguments) (Value, error) {
			v, ok, err := d.get(a.list[0])
			switch {
			case err != nil:
				return nil, err
			case ok:
				_, err = d.delete(a.list[0])
				return v, err
			case len(a.list) > 1:
				return a.list[1], nil
			}
			return nil, &Raised{Value: &Exception{Class: "KeyError", Args: a.list[:1]}}
		}),
		"popitem": on(0, 0, func(_ *Thread, d *Dict, _ *arguments) (Value, error) {
			for i := len(d.entries) - 1; i >= 0; i-- {
				if e := d.entries[i]; e.live {
					_, err := d.delete(e.key)
					return &Tuple{[]Value{e.key, e.value}}, err
				}
			}
			return nil, &Raised{Value: &Exception{Class: "KeyError", Args: []Value{"popitem(): dictionary is empty"}}}
		}),
		"setdefault": on(1, 2, func(t *Thread, d *Dict, a *arguments) (Value, error) {
			v, ok, err := d.get(a.list[0])
			if err != nil || ok {
				return v, err
			}
			return a.at(1, nil), t.setItem(d, a.list[0], a.at(1, nil))
		}),
		"update": func(t *Thread, self Value, a *arguments) (Value, error) {
			d := self.(*Dict)
			names := a.named
			a.named = nil // every keyword is a key
			if err := a.between(0, 1); err != nil {
				return nil, err
			}
			if len(a.list) == 1 {
				other, err := t.toDict(a.list[0])
				if err != nil {
					return nil, err
				}
				if err := t.updateDict(d, other); err != nil {
					return nil, err
				}
			}
			for _, one := range names {
				if err := t.setItem(d, one.Name, one.Value); err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
		"copy": on(0, 0, func(t *Thread, d *Dict, _ *arguments) (Value, error) {
			if err := t.spend(int64(d.len())); err != nil {
				return nil, err
			}
			return d.clone(), t.grow(64 * int64(d.len()))
		}),
		"clear": on(0, 0, func(_ *Thread, d *Dict, _ *arguments) (Value, error) { *d = Dict{}; return nil, nil }),
	}
}

// toDict returns a dict, or makes one of key-value pairs.
func (t *Thread) toDict(v Value) (*Dict, error) {
	if d, ok := v.(*Dict); ok {
		return d, nil
	}
	d := &Dict{}
	i := 0
	err := t.each(v, func(item Value) error {
		pair, err := t.collect(item)
		if err != nil {
			return raise("TypeError", "cannot convert dictionary update sequence element #%d to a sequence", i)
		}
		if len(pair) != 2 {
			return raise("ValueError", "dictionary update sequence element #%d has length %d; 2 is required", i, len(pair))
		}
		i++
		return t.setItem(d, pair[0], pair[1])
	})
	return d, err
}

func fromKeys(t *Thread, args []Value, named Named) (Value, error) {
	a := &arguments{fn: "fromkeys", list: args, named: named}
	if err := a.between(1, 2); err != nil {
		return nil, err
	}
	d := &Dict{}
	err := t.each(args[0], func(k Value) error { return t.setItem(d, k, a.at(1, nil)) })
	return d, err
}

func setMethods(frozen bool) map[string]method {
	on := func(least, most int, do func(t *Thread, s *Set, a *arguments) (Value, error)) method {
		return func(t *Thread, self Value, a *arguments) (Value, error) {
			if err := a.between(least, most); err != nil {
				return nil, err
			}
			return do(t, self.(*Set), a)
		}
	}
	combine := func(op string) method {
		return on(0, -1, func(t *Thread, s *Set, a *arguments) (Value, error) {
			var out Value = s
			if len(a.list) == 0 {
				return t.setOp("union", s, nil)
			}
			for _, other := range a.list {
				items, err := t.collect(other)
				if err != nil {
					return nil, err
				}
				if out, err = t.setOp(op, out.(*Set), items); err != nil {
					return nil, err
				}
			}
			return out, nil
		})
	}
	relation := func(op string) method {
		return on(1, 1, func(t *Thread, s *Set, a *arguments) (Value, error) {
			items, err := t.collect(a.list[0])
			if err != nil {
				return nil, err
			}
			other, err := t.newSet(items)
			if err != nil {
				return nil, err
			}
			if op == "disjoint" {
				both, err := t.setOp("intersection", s, items)
				return err == nil && both.(*Set).d.len() == 0, err
			}
			return t.ordered(op, s, other, 0)
		})
	}
	out := map[string]method{
		"union": combine("union"), "intersection": combine("intersection"), "difference": combine("difference"),
		"symmetric_difference": combine("symmetric_difference"),
		"issubset":             relation("<="), "issuperset": relation(">="), "isdisjoint": relation("disjoint"),
		"copy": on(0, 0, func(t *Thread, s *Set, _ *arguments) (Value, error) { return t.setOp("union", s, nil) }),
	}
	if frozen {
		return out
	}
	out["add"] = on(1, 1, func(t *Thread, s *Set, a *arguments) (Value, error) { return nil, t.addTo(s, a.list[0]) })
	out["discard"] = on(1, 1, func(_ *Thread, s *Set, a *arguments) (Value, error) {
		_, err := s.d.delete(a.list[0])
		return nil, err
	})
	out["remove"] = on(1, 1, func(_ *Thread, s *Set, a *arguments) (Value, error) {
		ok, err := s.d.delete(a.list[0])
		if err == nil && !ok {
			err = &Raised{Value: &Exception{Class: "KeyError", Args: a.list[:1]}}
		}
		return nil, err
	})
	out["pop"] = on(0, 0, func(_ *Thread, s *Set, _ *arguments) (Value, error) {
		for _, e := range s.d.entries {
			if e.live {
				_, err := s.d.delete(e.key)
				return e.key, err
			}
		}
		return nil, &Raised{Value: &Exception{Class: "KeyError", Args: []Value{"pop from an empty set"}}}
	})
	out["update"] = on(0, -1, func(t *Thread, s *Set, a *arguments) (Value, error) {
		for _, other := range a.list {
			if err := t.each(other, func(v Value) error { return t.addTo(s, v) }); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	out["clear"] = on(0, 0, func(_ *Thread, s *Set, _ *arguments) (Value, error) { s.d = Dict{}; return nil, nil })
	return out
}
