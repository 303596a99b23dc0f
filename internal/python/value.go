package python

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Value is a Python value: nil is None; bool, int64, *big.Int (when it does
// not fit), float64, string, and the types below.
type Value = any

// List is a list.
type List struct{ Items []Value }

// Tuple is a tuple.
type Tuple struct{ Items []Value }

// Dict keeps the order in which keys were first written.
type Dict struct {
	entries []entry
	index   map[any]int
	dead    int
}

type entry struct {
	key, value Value
	live       bool
}

// Set is a set; it keeps the order, too, so that runs are the same.
type Set struct {
	d      Dict
	frozen bool
}

// Range is what range() gives.
type rangeValue struct{ start, stop, step int64 }

// Func is a function of the program.
type Func struct {
	def      *Def
	defaults []Value
	env      *env
	module   *Module
}

// Named are the arguments of a call that have names, in the order of the call.
type Named []NamedArg

// NamedArg is one of them.
type NamedArg struct {
	Name  string
	Value Value
}

// Get finds an argument by its name.
func (n Named) Get(name string) (Value, bool) {
	for _, a := range n {
		if a.Name == name {
			return a.Value, true
		}
	}
	return nil, false
}

// Builtin is a function of ours.
type Builtin struct {
	Name string
	// Call is given the thread for what grows or takes long.
	Call func(t *Thread, args []Value, named Named) (Value, error)
}

// Object is something with attributes: a module, or what the host gives.
type Object struct {
	Type  string
	Attrs map[string]Value
	// Text is its repr; "" is <Type object>.
	Text string
}

// class is a type as a value: str, int, ValueError.
type class struct {
	name      string
	exception bool
	make      func(t *Thread, args []Value, named Named) (Value, error)
}

// union is int | str.
type union struct{ kinds []Value }

// Exception is an exception as a value.
type Exception struct {
	Class string
	Args  []Value
}

func (r *rangeValue) len() int64 {
	switch {
	case r.step > 0 && r.start < r.stop:
		return (r.stop-r.start-1)/r.step + 1
	case r.step < 0 && r.start > r.stop:
		return (r.start-r.stop-1)/-r.step + 1
	}
	return 0
}

// key is the same for ranges of the same numbers.
func (r *rangeValue) key() rangeValue {
	switch r.len() {
	case 0:
		return rangeValue{}
	case 1:
		return rangeValue{start: r.start}
	}
	return rangeValue{r.start, r.start + (r.len()-1)*r.step, r.step}
}

// normal makes an int64 of a number that fits.
func normal(n *big.Int) Value {
	if n.IsInt64() {
		return n.Int64()
	}
	return n
}

// typeName is what type(v).__name__ would be.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *List:
		return "list"
	case *Tuple:
		return "tuple"
	case *Dict:
		return "dict"
	case *Set:
		if v.frozen {
			return "frozenset"
		}
		return "set"
	case *rangeValue:
		return "range"
	case *generator:
		return v.name
	case *view:
		return "dict_" + v.kind
	case *Func:
		return "function"
	case *Builtin:
		return "builtin_function_or_method"
	case *class:
		return "type"
	case *union:
		return "types.UnionType"
	case *Exception:
		return v.Class
	case *Object:
		return v.Type
	}
	return fmt.Sprintf("%T", v)
}

// hashed is a value as a key of a Go map, such that equal values are equal.
func hashed(v Value) (any, error) {
	most := maxKey
	return hashedPart(v, &most)
}

// maxKey is how many parts a tuple may have, and those in it, to be a key:
// tuples that share their parts are small and look large.
const maxKey = 10_000

func hashedPart(v Value, most *int) (any, error) {
	if *most--; *most < 0 {
		return nil, &LimitError{What: fmt.Sprintf("the code was stopped because it used a tuple of more than %d parts as a key", maxKey)}
	}
	switch v := v.(type) {
	case nil:
		return noneKey{}, nil
	case bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	case int64, string:
		return v, nil
	case *big.Int:
		return bigKey(v.String()), nil
	case float64:
		if v == math.Trunc(v) && !math.IsInf(v, 0) {
			whole, _ := big.NewFloat(v).Int(nil)
			return hashedPart(normal(whole), most)
		}
		return v, nil
	case *Tuple:
		var b strings.Builder
		for _, item := range v.Items {
			k, err := hashedPart(item, most)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "%T:%d:%v,", k, len(fmt.Sprint(k)), k)
		}
		return tupleKey(b.String()), nil
	case *Set:
		if !v.frozen {
			break
		}
		parts := make([]string, 0, v.d.len())
		for _, item := range v.d.Keys() {
			k, err := hashedPart(item, most)
			if err != nil {
				return nil, err
			}
			parts = append(parts, fmt.Sprintf("%T:%d:%v,", k, len(fmt.Sprint(k)), k))
		}
		slices.Sort(parts)
		return setKey(strings.Join(parts, "")), nil
	case *rangeValue:
		return v.key(), nil
	case *Func, *Builtin, *class, *Object, *Exception:
		return v, nil
	}
	return nil, raise("TypeError", "unhashable type: '%s'", typeName(v))
}

type (
	noneKey  struct{}
	bigKey   string
	tupleKey string
	setKey   string
)

// NewDict makes a dict of names and values in turn.
func NewDict(pairs ...any) *Dict {
	d := &Dict{}
	for i := 0; i+1 < len(pairs); i += 2 {
		_ = d.set(pairs[i], pairs[i+1]) // names can be keys
	}
	return d
}

func (d *Dict) len() int { return len(d.entries) - d.dead }

// Get finds the value of a key that is text.
func (d *Dict) Get(key string) (Value, bool) {
	v, ok, _ := d.get(key)
	return v, ok
}

// Keys are the keys in their order.
func (d *Dict) Keys() []Value {
	out := make([]Value, 0, d.len())
	for i := range d.entries {
		if d.entries[i].live {
			out = append(out, d.entries[i].key)
		}
	}
	return out
}

func (d *Dict) get(key Value) (Value, bool, error) {
	k, err := hashed(key)
	if err != nil {
		return nil, false, err
	}
	i, ok := d.index[k]
	if !ok {
		return nil, false, nil
	}
	return d.entries[i].value, true, nil
}

func (d *Dict) set(key, value Value) error {
	k, err := hashed(key)
	if err != nil {
		return err
	}
	if i, ok := d.index[k]; ok {
		d.entries[i].value = value
		return nil
	}
	if d.index == nil {
		d.index = map[any]int{}
	}
	d.index[k] = len(d.entries)
	d.entries = append(d.entries, entry{key, value, true})
	return nil
}

func (d *Dict) delete(key Value) (bool, error) {
	k, err := hashed(key)
	if err != nil {
		return false, err
	}
	i, ok := d.index[k]
	if !ok {
		return false, nil
	}
	delete(d.index, k)
	d.entries[i] = entry{}
	d.dead++
	if d.dead > 16 && d.dead > len(d.entries)/2 {
		live := d.entries[:0]
		for _, e := range d.entries {
			if e.live {
				h, _ := hashed(e.key) // it was one before
				d.index[h] = len(live)
				live = append(live, e)
			}
		}
		d.entries, d.dead = live, 0
	}
	return true, nil
}

func (d *Dict) clone() *Dict {
	out := &Dict{index: make(map[any]int, d.len())}
	for _, e := range d.entries {
		if e.live {
			h, _ := hashed(e.key)
			out.index[h] = len(out.entries)
			out.entries = append(out.entries, e)
		}
	}
	return out
}

func truth(v Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case *big.Int:
		return true // it does not fit, so it is not 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *List:
		return len(v.Items) > 0
	case *Tuple:
		return len(v.Items) > 0
	case *Dict:
		return v.len() > 0
	case *Set:
		return v.d.len() > 0
	case *rangeValue:
		return v.len() > 0
	case *view:
		return v.d.len() > 0
	}
	return true
}

// formatFloat is repr of a float.
func formatFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	case f == 0:
		if math.Signbit(f) {
			return "-0.0"
		}
		return "0.0"
	}
	size := math.Abs(f)
	if size >= 1e16 || size < 1e-4 {
		s := strconv.FormatFloat(f, 'e', -1, 64)
		return s // Go writes at least two digits of exponent, as Python does
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if strings.IndexByte(s, '.') < 0 {
		s += ".0"
	}
	return s
}

// quote is repr of a string.
func quote(s string) string {
	q := byte('\'')
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		q = '"'
	}
	var b strings.Builder
	b.WriteByte(q)
	for _, r := range s {
		switch {
		case r == rune(q) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case strconv.IsPrint(r) || r == ' ':
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte(q)
	return b.String()
}

// repr writes a value as Python does; deep bounds how far it looks.
func (t *Thread) repr(b *strings.Builder, v Value, above []any) error {
	if err := t.spend(1); err != nil {
		return err
	}
	if b.Len() > maxObject {
		return t.tooLarge("a text")
	}
	nested := func(open, closing string, self any, each func(i int) error, n int) error {
		for _, a := range above {
			if a == self {
				b.WriteString(open + "..." + closing)
				return nil
			}
		}
		if len(above) > maxNesting {
			return raise("RecursionError", "maximum recursion depth exceeded while getting the repr of an object")
		}
		above = append(above, self)
		b.WriteString(open)
		for i := range n {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := each(i); err != nil {
				return err
			}
		}
		b.WriteString(closing)
		return nil
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		b.WriteString(v.String())
	case float64:
		b.WriteString(formatFloat(v))
	case string:
		if err := t.spend(int64(len(v) / 64)); err != nil {
			return err
		}
		b.WriteString(quote(v))
	case *List:
		return nested("[", "]", v, func(i int) error { return t.repr(b, v.Items[i], above) }, len(v.Items))
	case *Tuple:
		closing := ")"
		if len(v.Items) == 1 {
			closing = ",)"
		}
		return nested("(", closing, v, func(i int) error { return t.repr(b, v.Items[i], above) }, len(v.Items))
	case *Set:
		if v.d.len() == 0 {
			b.WriteString(typeName(v) + "()")
			return nil
		}
		open, closing := "{", "}"
		if v.frozen {
			open, closing = "frozenset({", "})"
		}
		keys := v.d.Keys()
		return nested(open, closing, v, func(i int) error { return t.repr(b, keys[i], above) }, len(keys))
	case *Dict:
		keys := v.Keys()
		return nested("{", "}", v, func(i int) error {
			if err := t.repr(b, keys[i], above); err != nil {
				return err
			}
			b.WriteString(": ")
			value, _, _ := v.get(keys[i])
			return t.repr(b, value, above)
		}, len(keys))
	case *view:
		items, err := t.collect(v)
		if err != nil {
			return err
		}
		return nested(typeName(v)+"([", "])", v.d, func(i int) error { return t.repr(b, items[i], above) }, len(items))
	case *rangeValue:
		if v.step == 1 {
			fmt.Fprintf(b, "range(%d, %d)", v.start, v.stop)
		} else {
			fmt.Fprintf(b, "range(%d, %d, %d)", v.start, v.stop, v.step)
		}
	case *Func:
		fmt.Fprintf(b, "<function %s>", v.def.Name)
	case *Builtin:
		fmt.Fprintf(b, "<built-in function %s>", v.Name)
	case *class:
		fmt.Fprintf(b, "<class '%s'>", v.name)
	case *union:
		for i, kind := range v.kinds {
			if i > 0 {
				b.WriteString(" | ")
			}
			if c, ok := kind.(*class); ok {
				b.WriteString(c.name)
			} else {
				b.WriteString("None")
			}
		}
	case *Exception:
		b.WriteString(v.Class + "(")
		for i, a := range v.Args {
			if i > 0 {
				b.WriteString(", ")
			}
			if err := t.repr(b, a, above); err != nil {
				return err
			}
		}
		b.WriteString(")")
	case *Object:
		if v.Text != "" {
			b.WriteString(v.Text)
		} else {
			fmt.Fprintf(b, "<%s object>", v.Type)
		}
	default:
		fmt.Fprintf(b, "<%s object>", typeName(v))
	}
	return nil
}

// Repr is repr(v).
func (t *Thread) Repr(v Value) (string, error) {
	var b strings.Builder
	err := t.repr(&b, v, nil)
	return b.String(), err
}

// Str is str(v).
func (t *Thread) Str(v Value) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case *Exception:
		switch len(v.Args) {
		case 0:
			return "", nil
		case 1:
			if v.Class == "KeyError" {
				return t.Repr(v.Args[0])
			}
			return t.Str(v.Args[0])
		}
		return t.Repr(&Tuple{v.Args})
	}
	return t.Repr(v)
}
