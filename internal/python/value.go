package python

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Value is a Python value: nil for None, bool, int64, *big.Int for integers that
// do not fit an int64, float64, string, or one of the types below.
type Value = any

// List is a list.
type List struct{ Items []Value }

// Tuple is a tuple.
type Tuple struct{ Items []Value }

// Dict is a dict. It keeps insertion order.
type Dict struct {
	entries []entry
	index   map[any]int
	dead    int
}

type entry struct {
	key, value Value
	live       bool
}

// Set is a set or a frozenset. It keeps insertion order, so that runs are
// reproducible.
type Set struct {
	d      Dict
	frozen bool
}

// rangeValue is the result of range().
type rangeValue struct{ start, stop, step int64 }

// Func is a function defined by the program.
type Func struct {
	def      *Def
	defaults []Value
	env      *env
	module   *Module
}

// Named are the keyword arguments of a call, in order.
type Named []NamedArg

// NamedArg is one keyword argument.
type NamedArg struct {
	Name  string
	Value Value
}

// Get returns an argument by name.
func (n Named) Get(name string) (Value, bool) {
	for _, a := range n {
		if a.Name == name {
			return a.Value, true
		}
	}
	return nil, false
}

// Builtin is a function implemented in Go.
type Builtin struct {
	Name string
	// Call must account for work and memory with the thread.
	Call func(t *Thread, args []Value, named Named) (Value, error)
}

// Object is a value with attributes: a module, or a value of the host.
type Object struct {
	Type  string
	Attrs map[string]Value
	// Text is the repr; if empty, it is "<Type object>".
	Text string
}

// class is a type, such as str, int or ValueError.
type class struct {
	name      string
	exception bool
	make      func(t *Thread, args []Value, named Named) (Value, error)
}

// union is a union of types, such as int | str.
type union struct{ kinds []Value }

// Exception is an instance of an exception class.
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

// key returns the same value for ranges with the same numbers.
func (r *rangeValue) key() rangeValue {
	switch r.len() {
	case 0:
		return rangeValue{}
	case 1:
		return rangeValue{start: r.start}
	}
	return rangeValue{r.start, r.start + (r.len()-1)*r.step, r.step}
}

// normal returns n as an int64 if it fits.
func normal(n *big.Int) Value {
	if n.IsInt64() {
		return n.Int64()
	}
	return n
}

// typeName returns type(v).__name__.
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

// hashed returns a key for Go maps that is the same for equal values.
func hashed(v Value) (any, error) {
	most := maxKey
	return hashedPart(v, &most)
}

// maxKey limits the total number of parts of a key. Nested tuples that share
// their parts take little memory but have exponentially many parts.
const maxKey = 10_000

func hashedPart(v Value, most *int) (any, error) {
	if *most--; *most < 0 {
		return nil, &LimitError{
			What: fmt.Sprintf("the code was stopped because it used a tuple of more than %d parts as a key", maxKey),
		}
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

// NewDict returns a dict of alternating names and values.
func NewDict(pairs ...any) *Dict {
	d := &Dict{}
	for i := 0; i+1 < len(pairs); i += 2 {
		_ = d.set(pairs[i], pairs[i+1]) // cannot fail: strings are hashable
	}
	return d
}

func (d *Dict) len() int { return len(d.entries) - d.dead }

// Get returns the value of a string key.
func (d *Dict) Get(key string) (Value, bool) {
	v, ok, _ := d.get(key)
	return v, ok
}

// Keys returns the keys in order.
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
				h, _ := hashed(e.key) // cannot fail: it was hashed before
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
		return true // never 0, which fits an int64
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

// formatFloat returns the repr of a float.
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
		return s // Go and Python both write at least two digits of the exponent
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if strings.IndexByte(s, '.') < 0 {
		s += ".0"
	}
	return s
}

// quote returns the repr of a string.
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

// reprWriter writes the repr of a value.
type reprWriter struct {
	t     *Thread
	b     strings.Builder
	above []any // the containers being written, to detect cycles
}

func (w *reprWriter) value(v Value) error {
	if err := w.t.spend(1); err != nil {
		return err
	}
	if w.b.Len() > maxObject {
		return w.t.tooLarge("a string")
	}
	switch v := v.(type) {
	case string:
		if err := w.t.spend(int64(len(v) / 64)); err != nil {
			return err
		}
		w.b.WriteString(quote(v))
	case *List:
		return w.items("[", "]", v, v.Items)
	case *Tuple:
		if len(v.Items) == 1 {
			return w.items("(", ",)", v, v.Items)
		}
		return w.items("(", ")", v, v.Items)
	case *Set:
		return w.set(v)
	case *Dict:
		return w.dict(v)
	case *view:
		items, err := w.t.collect(v)
		if err != nil {
			return err
		}
		return w.items(typeName(v)+"([", "])", v.d, items)
	case *Exception:
		return w.exception(v)
	default:
		w.b.WriteString(reprScalar(v))
	}
	return nil
}

// container writes n comma-separated parts between brackets. self identifies the
// container: if it contains itself, the inner one is written as "...".
func (w *reprWriter) container(open, closing string, self any, n int, part func(i int) error) error {
	if slices.Contains(w.above, self) {
		w.b.WriteString(open + "..." + closing)
		return nil
	}
	if len(w.above) > maxNesting {
		return raise("RecursionError", "maximum recursion depth exceeded while getting the repr of an object")
	}
	w.above = append(w.above, self)
	defer func() { w.above = w.above[:len(w.above)-1] }()
	w.b.WriteString(open)
	for i := range n {
		if i > 0 {
			w.b.WriteString(", ")
		}
		if err := part(i); err != nil {
			return err
		}
	}
	w.b.WriteString(closing)
	return nil
}

func (w *reprWriter) items(open, closing string, self any, items []Value) error {
	return w.container(open, closing, self, len(items), func(i int) error { return w.value(items[i]) })
}

func (w *reprWriter) set(s *Set) error {
	switch {
	case s.d.len() == 0:
		w.b.WriteString(typeName(s) + "()")
		return nil
	case s.frozen:
		return w.items("frozenset({", "})", s, s.d.Keys())
	}
	return w.items("{", "}", s, s.d.Keys())
}

func (w *reprWriter) dict(d *Dict) error {
	keys := d.Keys()
	return w.container("{", "}", d, len(keys), func(i int) error {
		if err := w.value(keys[i]); err != nil {
			return err
		}
		w.b.WriteString(": ")
		value, _, _ := d.get(keys[i])
		return w.value(value)
	})
}

func (w *reprWriter) exception(x *Exception) error {
	w.b.WriteString(x.Class + "(")
	for i, arg := range x.Args {
		if i > 0 {
			w.b.WriteString(", ")
		}
		if err := w.value(arg); err != nil {
			return err
		}
	}
	w.b.WriteString(")")
	return nil
}

// reprScalar returns the repr of a value that contains no others.
func reprScalar(v Value) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int64:
		return strconv.FormatInt(v, 10)
	case *big.Int:
		return v.String()
	case float64:
		return formatFloat(v)
	case *rangeValue:
		if v.step == 1 {
			return fmt.Sprintf("range(%d, %d)", v.start, v.stop)
		}
		return fmt.Sprintf("range(%d, %d, %d)", v.start, v.stop, v.step)
	case *Func:
		return fmt.Sprintf("<function %s>", v.def.Name)
	case *Builtin:
		return fmt.Sprintf("<built-in function %s>", v.Name)
	case *class:
		return fmt.Sprintf("<class '%s'>", v.name)
	case *union:
		names := make([]string, len(v.kinds))
		for i, kind := range v.kinds {
			names[i] = "None"
			if c, ok := kind.(*class); ok {
				names[i] = c.name
			}
		}
		return strings.Join(names, " | ")
	case *Object:
		if v.Text != "" {
			return v.Text
		}
	}
	return fmt.Sprintf("<%s object>", typeName(v))
}

// Repr implements repr(v).
func (t *Thread) Repr(v Value) (string, error) {
	w := reprWriter{t: t}
	err := w.value(v)
	return w.b.String(), err
}

// Str implements str(v).
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
