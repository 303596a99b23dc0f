package python

import (
	"errors"
	"unicode/utf8"
)

// iterator returns the next value, or false at the end.
type iterator func() (Value, bool, error)

// generator produces values on demand, because a value may be the reply of an
// agent. It can be iterated once.
type generator struct {
	name    string
	next    iterator // nil after the end
	running bool
}

// advance returns the next value of a generator.
func (t *Thread) advance(g *generator) (v Value, ok bool, err error) {
	switch {
	case g.next == nil:
		return nil, false, nil
	case g.running:
		return nil, false, raise("ValueError", "generator already executing")
	case t.depth >= t.Limits.Depth: // nested generators
		return nil, false, raise("RecursionError", "maximum recursion depth exceeded")
	}
	g.running = true
	t.depth++
	v, ok, err = g.next()
	t.depth--
	g.running = false
	if !ok || err != nil {
		g.next = nil
	}
	return v, ok && err == nil, err
}

// iterate returns an iterator over an iterable.
func (t *Thread) iterate(over Value) (iterator, error) {
	switch over := over.(type) {
	case *List:
		i := -1
		return func() (Value, bool, error) {
			if i++; i >= len(over.Items) { // the list may grow during the iteration
				return nil, false, nil
			}
			return over.Items[i], true, nil
		}, nil
	case *Tuple:
		i := -1
		return func() (Value, bool, error) {
			if i++; i >= len(over.Items) {
				return nil, false, nil
			}
			return over.Items[i], true, nil
		}, nil
	case string:
		rest := over
		return func() (Value, bool, error) {
			if rest == "" {
				return nil, false, nil
			}
			_, size := utf8.DecodeRuneInString(rest)
			one := rest[:size]
			rest = rest[size:]
			return one, true, nil
		}, nil
	case *Dict:
		return over.iterate("dictionary", func(e entry) Value { return e.key }), nil
	case *view:
		return over.d.iterate("dictionary", over.one), nil
	case *Set:
		return over.d.iterate("Set", func(e entry) Value { return e.key }), nil
	case *rangeValue:
		i, n := over.start, over.len()
		return func() (Value, bool, error) {
			if n <= 0 {
				return nil, false, nil
			}
			v := i
			i, n = i+over.step, n-1
			return v, true, nil
		}, nil
	case *generator:
		return func() (Value, bool, error) { return t.advance(over) }, nil
	}
	return nil, raise("TypeError", "'%s' object is not iterable", typeName(over))
}

func (d *Dict) iterate(what string, one func(entry) Value) iterator {
	i, size := -1, d.len()
	return func() (Value, bool, error) {
		if d.len() != size {
			return nil, false, raise("RuntimeError", "%s changed size during iteration", what)
		}
		for i++; i < len(d.entries); i++ {
			if d.entries[i].live {
				return one(d.entries[i]), true, nil
			}
		}
		return nil, false, nil
	}
}

// errStop is returned by a callback of each to end the iteration.
var errStop = errors.New("stop")

// each calls a function for every value of an iterable.
func (t *Thread) each(over Value, do func(Value) error) error {
	next, err := t.iterate(over)
	if err != nil {
		return err
	}
	for {
		v, ok, err := next()
		if !ok || err != nil {
			return err
		}
		if err := t.spend(1); err != nil {
			return err
		}
		if err := do(v); err != nil {
			if errors.Is(err, errStop) {
				return nil
			}
			return err
		}
	}
}

// collect returns all values of an iterable. The result may share memory with
// it and must not be modified.
func (t *Thread) collect(v Value) ([]Value, error) {
	switch v := v.(type) {
	case *List:
		return v.Items, t.spend(int64(len(v.Items) / 16))
	case *Tuple:
		return v.Items, t.spend(int64(len(v.Items) / 16))
	}
	var out []Value
	err := t.each(v, func(item Value) error {
		out = append(out, item)
		if len(out)*16 > maxObject {
			return t.tooLarge("a list")
		}
		return t.grow(16)
	})
	return out, err
}

// view is a live view of a dict: the result of keys, values or items.
type view struct {
	d    *Dict
	kind string // keys, values or items
}

func (v *view) one(e entry) Value {
	switch v.kind {
	case "keys":
		return e.key
	case "values":
		return e.value
	}
	return &Tuple{[]Value{e.key, e.value}}
}

// asSet returns a set, or a view of keys or items as a set. It returns false for
// other values.
func (t *Thread) asSet(v Value) (*Set, bool, error) {
	switch v := v.(type) {
	case *Set:
		return v, true, nil
	case *view:
		if v.kind == "values" {
			return nil, false, nil
		}
		items, err := t.collect(v)
		if err != nil {
			return nil, false, err
		}
		s, err := t.newSet(items)
		return s, err == nil, err
	}
	return nil, false, nil
}
