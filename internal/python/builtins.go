package python

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// knownModules are the modules that a program may import, with their names; nil
// accepts every name.
var knownModules = map[string][]string{
	"typing": nil, "typing_extensions": nil, "collections.abc": nil,
	"operator": {"add", "sub", "mul", "or_", "and_", "itemgetter", "eq", "ne", "lt", "le", "gt", "ge"},
	"json":     {"dumps", "loads"},
	"math": {
		"floor", "ceil", "trunc", "sqrt", "fabs", "log", "log2", "log10", "exp", "pow",
		"isnan", "isinf", "isfinite", "isclose", "pi", "e", "inf", "nan",
	},
	"agents":                   nil,
	"agents.shared":            nil,
	"agents.shared.agent_sdk":  nil,
	"agents.shared.agent_base": nil,
	"__future__":               nil,
}

// exceptions maps exception classes to their base classes.
var exceptions = map[string]string{
	"BaseException": "", "Exception": "BaseException",
	"ArithmeticError": "Exception", "ZeroDivisionError": "ArithmeticError", "OverflowError": "ArithmeticError",
	"LookupError": "Exception", "IndexError": "LookupError", "KeyError": "LookupError",
	"NameError": "Exception", "UnboundLocalError": "NameError",
	"RuntimeError": "Exception", "NotImplementedError": "RuntimeError", "RecursionError": "RuntimeError",
	"ImportError": "Exception", "ModuleNotFoundError": "ImportError",
	"OSError": "Exception", "TimeoutError": "OSError", "ConnectionError": "OSError",
	"ValueError": "Exception", "JSONDecodeError": "ValueError",
	"AssertionError": "Exception", "AttributeError": "Exception", "StopIteration": "Exception", "TypeError": "Exception",
}

func isSubclass(class, of string) bool {
	for class != "" {
		if class == of {
			return true
		}
		class = exceptions[class]
	}
	return false
}

// standard holds the names that every program can use. It is created once and
// never changed. Threads refer to it rather than to a package variable, so that
// the functions in it can refer to each other without an initialization cycle.
type standard struct {
	functions map[string]*Builtin
	classes   map[string]*class
	methods   map[string]map[string]method
	modules   map[string]*Object
}

var shared = sync.OnceValue(func() *standard {
	return &standard{
		functions: builtinFunctions(), classes: builtinClasses(), methods: methodTable(),
		modules: map[string]*Object{"json": jsonModule(), "math": mathModule(), "operator": operatorModule()},
	}
})

func builtinFunctions() map[string]*Builtin {
	functions := map[string]*Builtin{}
	for _, f := range []struct {
		name        string
		least, most int // arguments
		call        func(t *Thread, a *arguments) (Value, error)
	}{
		{"abs", 1, 1, absolute},
		{"all", 1, 1, allTrue},
		{"any", 1, 1, anyTrue},
		{"bin", 1, 1, inBase('b')},
		{"callable", 1, 1, callable},
		{"chr", 1, 1, character},
		{"divmod", 2, 2, divideWithRemainder},
		{"format", 1, 2, formatValue},
		{"getattr", 2, 3, getAttribute},
		{"hasattr", 2, 2, hasAttribute},
		{"hex", 1, 1, inBase('x')},
		{"isinstance", 2, 2, func(_ *Thread, a *arguments) (Value, error) { return isInstance(a.list[0], a.list[1]) }},
		{"iter", 1, 1, iter},
		{"len", 1, 1, func(_ *Thread, a *arguments) (Value, error) { return length(a.list[0]) }},
		{"next", 1, 2, next},
		{"oct", 1, 1, inBase('o')},
		{"ord", 1, 1, codePoint},
		{"pow", 2, 3, power},
		{"repr", 1, 1, func(t *Thread, a *arguments) (Value, error) { return t.Repr(a.list[0]) }},
		{"round", 1, 2, round},
	} {
		functions[f.name] = builtin(f.name, f.least, f.most, f.call)
	}
	// These take keyword arguments.
	functions["max"], functions["min"] = extreme("max", ">"), extreme("min", "<")
	functions["print"] = &Builtin{Name: "print", Call: printOut}
	functions["sorted"] = &Builtin{Name: "sorted", Call: sortedList}
	functions["sum"] = &Builtin{Name: "sum", Call: sum}
	return functions
}

func builtinClasses() map[string]*class {
	classes := map[string]*class{
		"object":    {name: "object"},
		"dict":      {name: "dict", make: newDict},
		"int":       {name: "int", make: toInt},
		"range":     {name: "range", make: newRange},
		"enumerate": {name: "enumerate", make: enumerate},
		"zip":       {name: "zip", make: zip},
		"map":       {name: "map", make: mapped},
		"filter":    {name: "filter", make: filtered},
		"reversed":  {name: "reversed", make: reversed},
	}
	for name, convert := range map[string]func(t *Thread, v Value, given bool) (Value, error){
		"bool":  func(_ *Thread, v Value, _ bool) (Value, error) { return truth(v), nil },
		"float": toFloat,
		"str":   toStr,
		"type":  typeOf,
		"list": fromItems(func(t *Thread, items []Value) (Value, error) {
			items, err := t.concat(items, nil)
			return &List{items}, err
		}),
		"tuple": fromItems(func(t *Thread, items []Value) (Value, error) {
			items, err := t.concat(items, nil)
			return &Tuple{items}, err
		}),
		"set": fromItems(func(t *Thread, items []Value) (Value, error) { return t.newSet(items) }),
		"frozenset": fromItems(func(t *Thread, items []Value) (Value, error) {
			s, err := t.newSet(items)
			if err != nil {
				return nil, err
			}
			s.frozen = true
			return s, nil
		}),
	} {
		classes[name] = &class{name: name, make: func(t *Thread, args []Value, named Named) (Value, error) {
			a := &arguments{fn: name, list: args, named: named}
			if err := a.between(0, 1); err != nil {
				return nil, err
			}
			return convert(t, a.at(0, nil), len(args) > 0)
		}}
	}
	for name := range exceptions {
		if name == "JSONDecodeError" { // in the module json
			continue
		}
		classes[name] = &class{name: name, exception: true, make: newException(name)}
	}
	return classes
}

func newException(name string) func(t *Thread, args []Value, named Named) (Value, error) {
	return func(_ *Thread, args []Value, named Named) (Value, error) {
		if len(named) > 0 {
			return nil, raise("TypeError", "%s() takes no keyword arguments", name)
		}
		return &Exception{Class: name, Args: args}, nil
	}
}

// fromItems returns a conversion that makes a container of the items of an
// iterable, or an empty one without an argument.
func fromItems(wrap func(t *Thread, items []Value) (Value, error)) func(*Thread, Value, bool) (Value, error) {
	return func(t *Thread, v Value, given bool) (Value, error) {
		if !given {
			return wrap(t, nil)
		}
		items, err := t.collect(v)
		if err != nil {
			return nil, err
		}
		return wrap(t, items)
	}
}

func toStr(t *Thread, v Value, given bool) (Value, error) {
	if !given {
		return "", nil
	}
	s, err := t.Str(v)
	if err != nil {
		return nil, err
	}
	return s, t.grow(int64(len(s)))
}

func typeOf(t *Thread, v Value, _ bool) (Value, error) {
	if c := t.std.classes[typeName(v)]; c != nil {
		return c, nil
	}
	return &class{name: typeName(v)}, nil
}

func newDict(t *Thread, args []Value, named Named) (Value, error) {
	d := &Dict{}
	update := t.std.methods["dict"]["update"]
	_, err := update(t, d, &arguments{fn: "dict", list: args, named: named})
	return d, err
}

func newRange(_ *Thread, args []Value, named Named) (Value, error) {
	a := &arguments{fn: "range", list: args, named: named}
	if err := a.between(1, 3); err != nil {
		return nil, err
	}
	var n [3]int64
	for i := range args {
		v, err := a.number(i, 0)
		if err != nil {
			return nil, err
		}
		n[i] = v
	}
	r := &rangeValue{start: n[0], stop: n[1], step: 1}
	switch len(args) {
	case 1:
		r.start, r.stop = 0, n[0]
	case 3:
		if r.step = n[2]; r.step == 0 {
			return nil, raise("ValueError", "range() arg 3 must not be zero")
		}
	}
	return r, nil
}

func absolute(_ *Thread, a *arguments) (Value, error) {
	n, ok := number(a.list[0])
	if !ok {
		return nil, raise("TypeError", "bad operand type for abs(): '%s'", typeName(a.list[0]))
	}
	if f, ok := n.(float64); ok {
		return math.Abs(f), nil
	}
	return normal(new(big.Int).Abs(bigOf(n))), nil
}

func anyTrue(t *Thread, a *arguments) (Value, error) { return t.some(a.list[0], true) }

func allTrue(t *Thread, a *arguments) (Value, error) {
	found, err := t.some(a.list[0], false)
	return !found, err
}

func callable(_ *Thread, a *arguments) (Value, error) {
	switch a.list[0].(type) {
	case *Func, *Builtin, *class:
		return true, nil
	}
	return false, nil
}

func hasAttribute(t *Thread, a *arguments) (Value, error) {
	name, err := a.text(1)
	if err != nil {
		return nil, err
	}
	_, err = t.attribute(a.list[0], name)
	return err == nil, nil
}

func getAttribute(t *Thread, a *arguments) (Value, error) {
	name, err := a.text(1)
	if err != nil {
		return nil, err
	}
	v, err := t.attribute(a.list[0], name)
	if err != nil && len(a.list) == 3 {
		return a.list[2], nil
	}
	return v, err
}

func divideWithRemainder(t *Thread, a *arguments) (Value, error) {
	div, err := t.binary("//", a.list[0], a.list[1])
	if err != nil {
		return nil, err
	}
	mod, err := t.binary("%", a.list[0], a.list[1])
	return &Tuple{[]Value{div, mod}}, err
}

func power(t *Thread, a *arguments) (Value, error) {
	if len(a.list) < 3 || a.list[2] == nil {
		return t.binary("**", a.list[0], a.list[1])
	}
	return t.powerModulo(a.list[0], a.list[1], a.list[2])
}

// inBase returns hex, oct or bin; kind is the presentation type.
func inBase(kind byte) func(t *Thread, a *arguments) (Value, error) {
	return func(t *Thread, a *arguments) (Value, error) {
		switch a.list[0].(type) {
		case bool, int64, *big.Int:
			return t.format(a.list[0], "#"+string(kind))
		}
		return nil, raise("TypeError", "'%s' object cannot be interpreted as an integer", typeName(a.list[0]))
	}
}

func codePoint(_ *Thread, a *arguments) (Value, error) {
	s, err := a.text(0)
	if n := utf8.RuneCountInString(s); err == nil && n != 1 {
		err = raise("TypeError", "ord() expected a character, but string of length %d found", n)
	}
	r, _ := utf8.DecodeRuneInString(s)
	return int64(r), err
}

func character(_ *Thread, a *arguments) (Value, error) {
	n, err := a.number(0, 0)
	if err == nil && (n < 0 || n > utf8.MaxRune) {
		err = raise("ValueError", "chr() arg not in range(0x110000)")
	}
	return string(rune(n)), err
}

func formatValue(t *Thread, a *arguments) (Value, error) {
	s := ""
	if len(a.list) > 1 {
		text, err := a.text(1)
		if err != nil {
			return nil, err
		}
		s = text
	}
	return t.format(a.list[0], s)
}

func iter(t *Thread, a *arguments) (Value, error) {
	if g, ok := a.list[0].(*generator); ok {
		return g, nil
	}
	it, err := t.iterate(a.list[0])
	if err != nil {
		return nil, err
	}
	return &generator{name: typeName(a.list[0]) + "_iterator", next: it}, nil
}

func sortedList(t *Thread, args []Value, named Named) (Value, error) {
	a := &arguments{fn: "sorted", list: args, named: named}
	key, reverse := a.take("key", nil), truth(a.take("reverse", false))
	if err := a.between(1, 1); err != nil {
		return nil, err
	}
	items, err := t.collect(args[0])
	if err != nil {
		return nil, err
	}
	items, err = t.sorted(items, key, reverse)
	return &List{items}, err
}

func sum(t *Thread, args []Value, named Named) (Value, error) {
	a := &arguments{fn: "sum", list: args, named: named}
	start := a.take("start", int64(0))
	if err := a.between(1, 2); err != nil {
		return nil, err
	}
	total := a.at(1, start)
	if _, ok := total.(string); ok {
		return nil, raise("TypeError", "sum() can't sum strings [use ''.join(seq) instead]")
	}
	err := t.each(args[0], func(v Value) error {
		sum, err := t.binary("+", total, v)
		total = sum
		return err
	})
	return total, err
}

// builtin returns a function with least to most arguments; most is -1 if there
// is no limit.
func builtin(name string, least, most int, do func(t *Thread, a *arguments) (Value, error)) *Builtin {
	return &Builtin{Name: name, Call: func(t *Thread, args []Value, named Named) (Value, error) {
		a := &arguments{fn: name, list: args, named: named}
		if name == "round" && len(args) == 1 {
			if v := a.take("ndigits", nil); v != nil {
				a.list = []Value{args[0], v}
			}
		}
		if err := a.between(least, most); err != nil {
			return nil, err
		}
		return do(t, a)
	}}
}

func length(v Value) (Value, error) {
	switch v := v.(type) {
	case string:
		return int64(utf8.RuneCountInString(v)), nil
	case *List:
		return int64(len(v.Items)), nil
	case *Tuple:
		return int64(len(v.Items)), nil
	case *Dict:
		return int64(v.len()), nil
	case *Set:
		return int64(v.d.len()), nil
	case *rangeValue:
		return v.len(), nil
	case *view:
		return int64(v.d.len()), nil
	}
	return nil, raise("TypeError", "object of type '%s' has no len()", typeName(v))
}

func toFloat(_ *Thread, v Value, there bool) (Value, error) {
	if !there {
		return 0.0, nil
	}
	if s, ok := v.(string); ok {
		text, ok := digitsOf(s)
		f, err := strconv.ParseFloat(strings.ToLower(text), 64)
		if !ok {
			err = strconv.ErrSyntax
		}
		if err != nil && !math.IsInf(f, 0) || strings.ContainsAny(text, "xXpP") {
			return nil, raise("ValueError", "could not convert string to float: %s", quote(s))
		}
		return f, nil
	}
	n, ok := number(v)
	if !ok {
		return nil, raise("TypeError", "float() argument must be a string or a real number, not '%s'", typeName(v))
	}
	return floatOf(n)
}

// digitsOf removes surrounding white space and underscores between digits from a
// number. It returns false if an underscore is misplaced.
func digitsOf(s string) (string, bool) {
	s = strings.TrimFunc(s, isSpace)
	isDigit := func(i int) bool {
		return i >= 0 && i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z')
	}
	for i := range len(s) {
		if s[i] == '_' && !(isDigit(i-1) && isDigit(i+1)) {
			return s, false
		}
	}
	return strings.ReplaceAll(s, "_", ""), true
}

func toInt(t *Thread, args []Value, named Named) (Value, error) {
	a := &arguments{fn: "int", list: args, named: named}
	baseValue := a.take("base", int64(10))
	if err := a.between(0, 2); err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return int64(0), nil
	}
	base, ok := a.at(1, baseValue).(int64)
	if !ok || base != 0 && (base < 2 || base > 36) {
		return nil, raise("ValueError", "int() base must be >= 2 and <= 36, or 0")
	}
	if s, ok := args[0].(string); ok {
		text, clean := digitsOf(s)
		if len(text) > maxDigits {
			return nil, raise("ValueError", "Exceeds the limit (%d digits) for integer string conversion", maxDigits)
		}
		if base == 16 || base == 8 || base == 2 {
			sign, digits := "", text
			if strings.HasPrefix(digits, "-") || strings.HasPrefix(digits, "+") {
				sign, digits = digits[:1], digits[1:]
			}
			prefix := map[int64]string{16: "0x", 8: "0o", 2: "0b"}[base]
			text = sign + strings.TrimPrefix(strings.ToLower(digits), prefix)
		}
		n, ok := new(big.Int).SetString(text, int(base))
		if !ok || !clean {
			return nil, raise("ValueError", "invalid literal for int() with base %d: %s", base, quote(s))
		}
		return normal(n), t.spend(int64(len(text) / 8))
	}
	if _, named := named.Get("base"); named || len(args) > 1 {
		return nil, raise("TypeError", "int() can't convert non-string with explicit base")
	}
	n, ok := number(args[0])
	if !ok {
		return nil, raise("TypeError",
			"int() argument must be a string, a bytes-like object or a real number, not '%s'", typeName(args[0]))
	}
	if f, ok := n.(float64); ok {
		return wholeNumber(f)
	}
	return n, nil
}

// wholeNumber truncates a float to an integer.
func wholeNumber(f float64) (Value, error) {
	switch {
	case math.IsNaN(f):
		return nil, raise("ValueError", "cannot convert float NaN to integer")
	case math.IsInf(f, 0):
		return nil, raise("OverflowError", "cannot convert float infinity to integer")
	}
	whole, _ := big.NewFloat(f).Int(nil)
	return normal(whole), nil
}

func round(_ *Thread, a *arguments) (Value, error) {
	n, ok := number(a.list[0])
	if !ok {
		return nil, raise("TypeError", "type %s doesn't define __round__ method", typeName(a.list[0]))
	}
	digits := int64(0)
	given := a.at(1, nil) != nil
	if given {
		d, err := a.number(1, 0)
		if err != nil {
			return nil, err
		}
		digits = min(max(d, -400), 400)
	}
	f, isFloat := n.(float64)
	if !isFloat {
		if digits >= 0 {
			return n, nil
		}
		unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(-digits), nil)
		q, m := new(big.Int).DivMod(bigOf(n), unit, new(big.Int))
		switch c := new(big.Int).Lsh(m, 1).Cmp(unit); {
		case c > 0, c == 0 && q.Bit(0) == 1:
			q.Add(q, big.NewInt(1))
		}
		return normal(q.Mul(q, unit)), nil
	}
	if !given {
		return wholeNumber(math.RoundToEven(f))
	}
	if math.IsNaN(f) || math.IsInf(f, 0) || digits > 330 {
		return f, nil
	}
	if digits >= 0 {
		out, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(digits), 64), 64)
		return out, nil
	}
	unit := math.Pow(10, float64(-digits))
	return math.RoundToEven(f/unit) * unit, nil
}

// some reports whether an item of v has the given truth value.
func (t *Thread) some(v Value, wanted bool) (bool, error) {
	found := false
	err := t.each(v, func(item Value) error {
		if truth(item) == wanted {
			found = true
			return errStop
		}
		return nil
	})
	return found, err
}

func isInstance(v, kind Value) (Value, error) {
	switch kind := kind.(type) {
	case *union:
		for _, one := range kind.kinds {
			if one == nil && v == nil {
				return true, nil
			}
			if one != nil {
				if ok, err := isInstance(v, one); err != nil || ok.(bool) {
					return ok, err
				}
			}
		}
		return false, nil
	case *Tuple:
		for _, one := range kind.Items {
			if ok, err := isInstance(v, one); err != nil || ok.(bool) {
				return ok, err
			}
		}
		return false, nil
	case *class:
		name := typeName(v)
		if x, ok := v.(*Exception); ok {
			return isSubclass(x.Class, kind.name) || kind.name == "object", nil
		}
		return name == kind.name || kind.name == "object" || name == "bool" && kind.name == "int", nil
	case *Object:
		o, ok := v.(*Object)
		return ok && o.Type == kind.Text, nil
	}
	return nil, raise("TypeError", "isinstance() arg 2 must be a type, a tuple of types, or a union")
}

func next(t *Thread, a *arguments) (Value, error) {
	g, ok := a.list[0].(*generator)
	if !ok {
		return nil, raise("TypeError", "'%s' object is not an iterator", typeName(a.list[0]))
	}
	if v, ok, err := t.advance(g); ok || err != nil {
		return v, err
	}
	if len(a.list) > 1 {
		return a.list[1], nil
	}
	return nil, &Raised{Value: &Exception{Class: "StopIteration"}}
}

func extreme(name, op string) *Builtin {
	return &Builtin{Name: name, Call: func(t *Thread, args []Value, named Named) (Value, error) {
		a := &arguments{fn: name, list: args, named: named}
		key := a.take("key", nil)
		_, hasDefault := named.Get("default")
		otherwise := a.take("default", nil)
		if err := a.between(1, -1); err != nil {
			return nil, err
		}
		over := args[0]
		if len(args) > 1 {
			if hasDefault {
				return nil, raise("TypeError", "Cannot specify a default for %s() with multiple positional arguments", name)
			}
			over = &List{args}
		}
		var best, bestKey Value
		first := true
		err := t.each(over, func(v Value) error {
			k := v
			if key != nil {
				called, err := t.Call(key, v)
				if err != nil {
					return err
				}
				k = called
			}
			if !first {
				better, err := t.ordered(op, k, bestKey, 0)
				if err != nil || !better {
					return err
				}
			}
			best, bestKey, first = v, k, false
			return nil
		})
		if err != nil {
			return nil, err
		}
		if first {
			if hasDefault {
				return otherwise, nil
			}
			return nil, raise("ValueError", "%s() arg is an empty sequence", name)
		}
		return best, nil
	}}
}

func printOut(t *Thread, args []Value, named Named) (Value, error) {
	a := &arguments{fn: "print", list: args, named: named}
	sep, end := a.take("sep", " "), a.take("end", "\n")
	a.take("flush", nil)
	if err := a.between(0, -1); err != nil {
		return nil, err
	}
	if sep == nil {
		sep = " "
	}
	if end == nil {
		end = "\n"
	}
	between, ok := sep.(string)
	if !ok {
		return nil, raise("TypeError", "sep must be None or a string, not %s", typeName(sep))
	}
	after, ok := end.(string)
	if !ok {
		return nil, raise("TypeError", "end must be None or a string, not %s", typeName(end))
	}
	var b strings.Builder
	for i, v := range args {
		if i > 0 {
			b.WriteString(between)
		}
		s, err := t.Str(v)
		if err != nil {
			return nil, err
		}
		b.WriteString(s)
	}
	b.WriteString(after)
	if err := t.grow(int64(b.Len())); err != nil {
		return nil, err
	}
	t.Print(b.String())
	return nil, nil
}

func enumerate(t *Thread, args []Value, named Named) (Value, error) {
	a := &arguments{fn: "enumerate", list: args, named: named}
	start := a.take("start", int64(0))
	if err := a.between(1, 2); err != nil {
		return nil, err
	}
	i, ok := a.at(1, start).(int64)
	if !ok {
		return nil, raise("TypeError", "'%s' object cannot be interpreted as an integer", typeName(a.at(1, start)))
	}
	items, err := t.iterate(args[0])
	if err != nil {
		return nil, err
	}
	return &generator{name: "enumerate", next: func() (Value, bool, error) {
		v, ok, err := items()
		if !ok || err != nil {
			return nil, false, err
		}
		i++
		return &Tuple{[]Value{i - 1, v}}, true, t.grow(48)
	}}, nil
}

func zip(t *Thread, args []Value, named Named) (Value, error) {
	a := &arguments{fn: "zip", list: args, named: named}
	strict := truth(a.take("strict", false))
	if err := a.between(0, -1); err != nil {
		return nil, err
	}
	rows, err := t.rows(args, strict)
	return &generator{name: "zip", next: func() (Value, bool, error) {
		row, ok, err := rows()
		if !ok || err != nil {
			return nil, false, err
		}
		return &Tuple{row}, true, nil
	}}, err
}

// rows iterates over several iterables in parallel until the shortest ends. With
// strict, different lengths are an error.
func (t *Thread) rows(over []Value, strict bool) (func() ([]Value, bool, error), error) {
	columns := make([]iterator, len(over))
	for i, v := range over {
		column, err := t.iterate(v)
		if err != nil {
			return nil, err
		}
		columns[i] = column
	}
	return func() ([]Value, bool, error) {
		row := make([]Value, len(columns))
		for i, column := range columns {
			v, ok, err := column()
			if err != nil {
				return nil, false, err
			}
			row[i] = v
			if ok {
				continue
			}
			if strict && i > 0 {
				return nil, false, raise("ValueError", "zip() argument %d is shorter than argument%s 1%s",
					i+1, plural(i), upTo(i))
			}
			for j := i + 1; strict && j < len(columns); j++ {
				if _, more, err := columns[j](); more || err != nil {
					if err == nil {
						err = raise("ValueError", "zip() argument %d is longer than argument%s 1%s",
							j+1, plural(j), upTo(j))
					}
					return nil, false, err
				}
			}
			return nil, false, nil
		}
		if err := t.spend(1); err != nil {
			return nil, false, err
		}
		return row, len(row) > 0, t.grow(24 + 16*int64(len(row)))
	}, nil
}

// upTo returns the end of "arguments 1-3".
func upTo(n int) string {
	if n == 1 {
		return ""
	}
	return "-" + strconv.Itoa(n)
}

func mapped(t *Thread, args []Value, named Named) (Value, error) {
	a := &arguments{fn: "map", list: args, named: named}
	if err := a.between(2, -1); err != nil {
		return nil, err
	}
	rows, err := t.rows(args[1:], false)
	return &generator{name: "map", next: func() (Value, bool, error) {
		row, ok, err := rows()
		if !ok || err != nil {
			return nil, false, err
		}
		v, err := t.call(args[0], row, nil)
		return v, true, err
	}}, err
}

func filtered(t *Thread, args []Value, named Named) (Value, error) {
	a := &arguments{fn: "filter", list: args, named: named}
	if err := a.between(2, 2); err != nil {
		return nil, err
	}
	items, err := t.iterate(args[1])
	return &generator{name: "filter", next: func() (Value, bool, error) {
		for {
			item, ok, err := items()
			if !ok || err != nil {
				return nil, false, err
			}
			if err := t.spend(1); err != nil {
				return nil, false, err
			}
			keep := item
			if args[0] != nil {
				if keep, err = t.Call(args[0], item); err != nil {
					return nil, false, err
				}
			}
			if truth(keep) {
				return item, true, nil
			}
		}
	}}, err
}

func reversed(t *Thread, args []Value, named Named) (Value, error) {
	a := &arguments{fn: "reversed", list: args, named: named}
	if err := a.between(1, 1); err != nil {
		return nil, err
	}
	switch args[0].(type) {
	case *List, *Tuple, string, *Dict, *view, *rangeValue:
	default:
		return nil, raise("TypeError", "'%s' object is not reversible", typeName(args[0]))
	}
	items, err := t.collect(args[0])
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	it, err := t.iterate(&List{items})
	if err != nil {
		return nil, err
	}
	return &generator{name: "reversed", next: it}, t.grow(16 * int64(len(items)))
}

func operatorModule() *Object {
	m := &Object{Type: "module", Text: "<module 'operator'>", Attrs: map[string]Value{}}
	for name, op := range map[string]string{"add": "+", "sub": "-", "mul": "*", "or_": "|", "and_": "&"} {
		m.Attrs[name] = builtin(name, 2, 2, func(t *Thread, a *arguments) (Value, error) {
			return t.binary(op, a.list[0], a.list[1])
		})
	}
	for name, op := range map[string]string{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="} {
		m.Attrs[name] = builtin(name, 2, 2, func(t *Thread, a *arguments) (Value, error) {
			return t.compare(op, a.list[0], a.list[1])
		})
	}
	m.Attrs["itemgetter"] = builtin("itemgetter", 1, -1, func(_ *Thread, get *arguments) (Value, error) {
		return builtin("itemgetter", 1, 1, func(t *Thread, a *arguments) (Value, error) {
			if len(get.list) == 1 {
				return t.item(a.list[0], get.list[0])
			}
			out := &Tuple{}
			for _, key := range get.list {
				v, err := t.item(a.list[0], key)
				if err != nil {
					return nil, err
				}
				out.Items = append(out.Items, v)
			}
			return out, nil
		}), nil
	})
	return m
}
