package python

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

// number returns v as an operand of arithmetic: int64, *big.Int or float64. A bool
// becomes an int64.
func number(v Value) (Value, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return int64(1), true
		}
		return int64(0), true
	case int64, *big.Int, float64:
		return v, true
	}
	return nil, false
}

func bigOf(v Value) *big.Int {
	switch v := v.(type) {
	case int64:
		return big.NewInt(v)
	case *big.Int:
		return v
	}
	return new(big.Int)
}

func floatOf(v Value) (float64, error) {
	switch v := v.(type) {
	case int64:
		return float64(v), nil
	case float64:
		return v, nil
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		if math.IsInf(f, 0) {
			return 0, raise("OverflowError", "int too large to convert to float")
		}
		return f, nil
	}
	return 0, raise("TypeError", "must be real number, not %s", typeName(v))
}

func unary(op string, v Value) (Value, error) {
	if op == "not" {
		return !truth(v), nil
	}
	n, ok := number(v)
	if !ok {
		return nil, raise("TypeError", "bad operand type for unary %s: '%s'", op, typeName(v))
	}
	switch op {
	case "+":
		return n, nil
	case "-":
		if f, ok := n.(float64); ok {
			return -f, nil
		}
		return normal(new(big.Int).Neg(bigOf(n))), nil
	}
	if _, ok := n.(float64); ok {
		return nil, raise("TypeError", "bad operand type for unary ~: 'float'")
	}
	return normal(new(big.Int).Not(bigOf(n))), nil
}

// notImplemented is returned by the operators of one type for operands that
// they do not support, like NotImplemented in Python.
var notImplemented Value = &Object{Type: "NotImplementedType"}

// binary computes a binary operator.
func (t *Thread) binary(op string, a, b Value) (Value, error) {
	x, okX := number(a)
	y, okY := number(b)
	if okX && okY {
		return t.arithmetic(op, x, y, a, b)
	}
	v, err := notImplemented, error(nil)
	switch a := a.(type) {
	case string:
		v, err = t.stringOp(op, a, b)
	case *List:
		v, err = t.listOp(op, a, b)
	case *Tuple:
		v, err = t.tupleOp(op, a, b)
	case *Dict:
		v, err = t.dictOp(op, a, b)
	case *Set, *view:
		v, err = t.setOperator(op, a, b)
	}
	if err != nil || v != notImplemented {
		return v, err
	}
	switch op {
	case "|":
		if x, y := kindsOf(a), kindsOf(b); x != nil && y != nil && (a != nil || b != nil) {
			return &union{slices.Concat(x, y)}, t.grow(16 * int64(len(x)+len(y)))
		}
	case "*":
		if n, ok := x.(int64); ok && isSequence(b) {
			return t.binary("*", b, n)
		}
		if isSequence(a) {
			return nil, raise("TypeError", "can't multiply sequence by non-int of type '%s'", typeName(b))
		}
		if isSequence(b) {
			return nil, raise("TypeError", "can't multiply sequence by non-int of type '%s'", typeName(a))
		}
	}
	return nil, unsupported(op, a, b)
}

func isSequence(v Value) bool {
	switch v.(type) {
	case string, *List, *Tuple:
		return true
	}
	return false
}

// repetitions returns the right operand of a sequence repetition.
func repetitions(v Value) (int64, bool) {
	n, _ := number(v)
	count, ok := n.(int64)
	return count, ok
}

func (t *Thread) stringOp(op, a string, b Value) (Value, error) {
	switch op {
	case "%":
		return t.percent(a, b)
	case "+":
		s, ok := b.(string)
		if !ok {
			return nil, raise("TypeError", "can only concatenate str (not \"%s\") to str", typeName(b))
		}
		if err := t.grow(int64(len(a) + len(s))); err != nil {
			return nil, err
		}
		return a + s, t.spend(int64((len(a) + len(s)) / 64))
	case "*":
		if n, ok := repetitions(b); ok {
			return t.repeatText(a, n)
		}
	}
	return notImplemented, nil
}

func (t *Thread) listOp(op string, a *List, b Value) (Value, error) {
	switch op {
	case "+":
		other, ok := b.(*List)
		if !ok {
			return nil, raise("TypeError", "can only concatenate list (not \"%s\") to list", typeName(b))
		}
		items, err := t.concat(a.Items, other.Items)
		return &List{items}, err
	case "*":
		if n, ok := repetitions(b); ok {
			items, err := t.repeat(a.Items, n)
			return &List{items}, err
		}
	}
	return notImplemented, nil
}

func (t *Thread) tupleOp(op string, a *Tuple, b Value) (Value, error) {
	switch op {
	case "+":
		if other, ok := b.(*Tuple); ok {
			items, err := t.concat(a.Items, other.Items)
			return &Tuple{items}, err
		}
	case "*":
		if n, ok := repetitions(b); ok {
			items, err := t.repeat(a.Items, n)
			return &Tuple{items}, err
		}
	}
	return notImplemented, nil
}

func (t *Thread) dictOp(op string, a *Dict, b Value) (Value, error) {
	other, ok := b.(*Dict)
	if !ok || op != "|" {
		return notImplemented, nil
	}
	out := &Dict{}
	if err := t.updateDict(out, a); err != nil {
		return nil, err
	}
	return out, t.updateDict(out, other)
}

// setOperators maps operators to the methods of sets.
var setOperators = map[string]string{
	"|": "union", "&": "intersection", "-": "difference", "^": "symmetric_difference",
}

func (t *Thread) setOperator(op string, a, b Value) (Value, error) {
	name := setOperators[op]
	if name == "" {
		return notImplemented, nil
	}
	x, y, ok, err := t.twoSets(a, b)
	if err != nil || !ok {
		return notImplemented, err
	}
	return t.setOp(name, x, y.d.Keys())
}

// kindsOf returns the types that a value contributes to a union of types, or nil
// if it is not a type.
func kindsOf(v Value) []Value {
	switch v := v.(type) {
	case *union:
		return v.kinds
	case nil, *class:
		return []Value{v}
	}
	return nil
}

// unsupported returns the error for operands that an operator does not support.
func unsupported(op string, a, b Value) error {
	return &Raised{operands: true, Value: &Exception{Class: "TypeError", Args: []Value{
		fmt.Sprintf("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b)),
	}}}
}

// powerModulo implements pow with three arguments.
func (t *Thread) powerModulo(base, exponent, modulus Value) (Value, error) {
	var whole [3]*big.Int
	for i, v := range []Value{base, exponent, modulus} {
		switch n, _ := number(v); n.(type) {
		case int64, *big.Int:
			whole[i] = bigOf(n)
		default:
			return nil, raise("TypeError", "pow() 3rd argument not allowed unless all arguments are integers")
		}
	}
	if whole[2].Sign() == 0 {
		return nil, raise("ValueError", "pow() 3rd argument cannot be 0")
	}
	if err := t.spend(int64(whole[1].BitLen()) * int64(1+whole[2].BitLen()*whole[2].BitLen()/4096)); err != nil {
		return nil, err
	}
	z := new(big.Int).Exp(whole[0], whole[1], new(big.Int).Abs(whole[2]))
	if z == nil {
		return nil, raise("ValueError", "base is not invertible for the given modulus")
	}
	if whole[2].Sign() < 0 && z.Sign() > 0 {
		z.Add(z, whole[2])
	}
	return normal(z), nil
}

func (t *Thread) concat(a, b []Value) ([]Value, error) {
	if err := t.grow(16 * int64(len(a)+len(b))); err != nil {
		return nil, err
	}
	return slices.Concat(a, b), t.spend(int64((len(a) + len(b)) / 8))
}

func (t *Thread) repeat(items []Value, n int64) ([]Value, error) {
	n = max(n, 0)
	if len(items) == 0 {
		return nil, nil
	}
	if n > maxObject/16/int64(len(items)) {
		return nil, t.tooLarge("a list")
	}
	if err := t.grow(16 * n * int64(len(items))); err != nil {
		return nil, err
	}
	return slices.Repeat(items, int(n)), t.spend(n * int64(len(items)) / 8)
}

func (t *Thread) repeatText(s string, n int64) (Value, error) {
	n = max(n, 0)
	if s == "" {
		return "", nil
	}
	if n > maxObject/int64(len(s)) {
		return nil, t.tooLarge("a string")
	}
	if err := t.grow(n * int64(len(s))); err != nil {
		return nil, err
	}
	return strings.Repeat(s, int(n)), t.spend(n * int64(len(s)) / 64)
}

func (t *Thread) arithmetic(op string, x, y, a, b Value) (Value, error) {
	_, fx := x.(float64)
	_, fy := y.(float64)
	if fx || fy || op == "/" {
		return floats(op, x, y)
	}
	if ba, ok := a.(bool); ok {
		if bb, ok := b.(bool); ok {
			switch op {
			case "&":
				return ba && bb, nil
			case "|":
				return ba || bb, nil
			case "^":
				return ba != bb, nil
			}
		}
	}
	if i, ok := x.(int64); ok {
		if j, ok := y.(int64); ok {
			switch op {
			case "+":
				if s := i + j; (s > i) == (j > 0) {
					return s, nil
				}
			case "-":
				if s := i - j; (s < i) == (j > 0) {
					return s, nil
				}
			case "*":
				if small(i) && small(j) {
					return i * j, nil
				}
			}
		}
	}
	return t.bigs(op, bigOf(x), bigOf(y))
}

func small(i int64) bool { return i > -1<<31 && i < 1<<31 }

// errTooManyDigits ends an evaluation with an integer of more than maxBits.
func errTooManyDigits() error {
	return &LimitError{What: "the code was stopped because it made a number of more than 19,000 digits"}
}

// bigs computes an operator of two integers.
func (t *Thread) bigs(op string, x, y *big.Int) (Value, error) {
	if err := t.spend(int64(x.BitLen()+y.BitLen()) / 64); err != nil {
		return nil, err
	}
	z := new(big.Int)
	switch op {
	case "+":
		z.Add(x, y)
	case "-":
		z.Sub(x, y)
	case "*":
		if x.BitLen()+y.BitLen() > maxBits {
			return nil, errTooManyDigits()
		}
		z.Mul(x, y)
	case "//", "%":
		return divideBigs(op, x, y)
	case "**":
		return powerBigs(x, y)
	case "<<", ">>":
		return shiftBigs(op, x, y)
	case "&":
		z.And(x, y)
	case "|":
		z.Or(x, y)
	case "^":
		z.Xor(x, y)
	default:
		return nil, unsupported(op, int64(0), int64(0))
	}
	if z.BitLen() > maxBits {
		return nil, errTooManyDigits()
	}
	return normal(z), nil
}

func divideBigs(op string, x, y *big.Int) (Value, error) {
	if y.Sign() == 0 {
		if op == "%" {
			return nil, raise("ZeroDivisionError", "integer modulo by zero")
		}
		return nil, raise("ZeroDivisionError", "integer division or modulo by zero")
	}
	// DivMod is Euclidean division; Python rounds towards negative infinity.
	q, m := new(big.Int).DivMod(x, y, new(big.Int))
	if m.Sign() != 0 && y.Sign() < 0 {
		q.Sub(q, big.NewInt(1))
		m.Add(m, y)
	}
	if op == "%" {
		return normal(m), nil
	}
	return normal(q), nil
}

func powerBigs(x, y *big.Int) (Value, error) {
	if y.Sign() < 0 {
		return floats("**", normal(x), normal(y))
	}
	if x.BitLen() <= 1 { // powers of 0, 1 and -1 are small for every exponent
		switch {
		case y.Sign() == 0 || x.Sign() > 0 || x.Sign() < 0 && y.Bit(0) == 0:
			return int64(1), nil
		case x.Sign() == 0:
			return int64(0), nil
		}
		return int64(-1), nil
	}
	if !y.IsInt64() || y.Int64() > maxBits/int64(x.BitLen()) {
		return nil, errTooManyDigits()
	}
	return normal(new(big.Int).Exp(x, y, nil)), nil
}

func shiftBigs(op string, x, y *big.Int) (Value, error) {
	switch {
	case y.Sign() < 0:
		return nil, raise("ValueError", "negative shift count")
	case op == ">>" && (!y.IsInt64() || y.Int64() > maxBits):
		if x.Sign() < 0 {
			return int64(-1), nil
		}
		return int64(0), nil
	case op == ">>":
		return normal(new(big.Int).Rsh(x, uint(y.Int64()))), nil
	case x.Sign() == 0:
		return int64(0), nil
	case !y.IsInt64() || y.Int64() > maxBits-int64(x.BitLen()):
		return nil, errTooManyDigits()
	}
	return normal(new(big.Int).Lsh(x, uint(y.Int64()))), nil
}

func floats(op string, x, y Value) (Value, error) {
	if op == "/" {
		// The quotient of integers is exact and rounded once.
		_, fx := x.(float64)
		_, fy := y.(float64)
		if !fx && !fy {
			if bigOf(y).Sign() == 0 {
				return nil, raise("ZeroDivisionError", "division by zero")
			}
			f, _ := new(big.Rat).SetFrac(bigOf(x), bigOf(y)).Float64()
			if math.IsInf(f, 0) {
				return nil, raise("OverflowError", "integer division result too large for a float")
			}
			return f, nil
		}
	}
	a, err := floatOf(x)
	if err != nil {
		return nil, err
	}
	b, err := floatOf(y)
	if err != nil {
		return nil, err
	}
	switch op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "/":
		if b == 0 {
			return nil, raise("ZeroDivisionError", "float division by zero")
		}
		return a / b, nil
	case "//", "%":
		if b == 0 {
			if op == "%" {
				return nil, raise("ZeroDivisionError", "float modulo")
			}
			return nil, raise("ZeroDivisionError", "float floor division by zero")
		}
		div, mod := divmod(a, b)
		if op == "%" {
			return mod, nil
		}
		return div, nil
	case "**":
		switch {
		case a == 0 && b < 0:
			return nil, raise("ZeroDivisionError", "0.0 cannot be raised to a negative power")
		case a < 0 && b != math.Trunc(b) && !math.IsInf(a, 0):
			return nil, raise("ValueError", "fractional powers of negative numbers are complex, which is not supported")
		}
		z := math.Pow(a, b)
		if math.IsInf(z, 0) && !math.IsInf(a, 0) && !math.IsInf(b, 0) {
			return nil, &Raised{Value: &Exception{
				Class: "OverflowError", Args: []Value{int64(34), "Numerical result out of range"},
			}}
		}
		return z, nil
	}
	return nil, unsupported(op, x, y)
}

// divmod computes the floor division of floats with the algorithm of CPython.
func divmod(a, b float64) (div, mod float64) {
	mod = math.Mod(a, b)
	div = (a - mod) / b
	if mod != 0 {
		if (b < 0) != (mod < 0) {
			mod += b
			div--
		}
	} else {
		mod = math.Copysign(0, b)
	}
	if div == 0 {
		return math.Copysign(0, a/b), mod
	}
	floor := math.Floor(div)
	if div-floor > 0.5 {
		floor++
	}
	return floor, mod
}

// order compares two numbers. It returns -1, 0, 1, or unordered if one is NaN.
func order(x, y Value) int {
	if a, ok := x.(int64); ok {
		if b, ok := y.(int64); ok {
			switch {
			case a < b:
				return -1
			case a > b:
				return 1
			}
			return 0
		}
	}
	f, fx := x.(float64)
	g, fy := y.(float64)
	switch {
	case fx && fy:
		switch {
		case f < g:
			return -1
		case f > g:
			return 1
		case f == g:
			return 0
		}
		return unordered
	case !fx && !fy:
		return bigOf(x).Cmp(bigOf(y))
	case fx:
		return compareFloat(f, bigOf(y))
	}
	if c := compareFloat(g, bigOf(x)); c != unordered {
		return -c
	}
	return unordered
}

const unordered = 2

func compareFloat(f float64, n *big.Int) int {
	switch {
	case math.IsNaN(f):
		return unordered
	case math.IsInf(f, 1):
		return 1
	case math.IsInf(f, -1):
		return -1
	}
	return new(big.Float).SetFloat64(f).Cmp(new(big.Float).SetInt(n))
}

func (t *Thread) compare(op string, a, b Value) (bool, error) {
	switch op {
	case "is", "is not":
		same := identical(a, b)
		return same == (op == "is"), nil
	case "==", "!=":
		same, err := t.equal(a, b, 0)
		return same == (op == "=="), err
	case "in", "not in":
		in, err := t.contains(b, a)
		return in == (op == "in"), err
	}
	return t.ordered(op, a, b, 0)
}

// identical implements the operator "is". Numbers and strings have no identity
// here, so they are compared by value.
func identical(a, b Value) bool {
	switch a := a.(type) {
	case nil, bool, int64, float64, string:
		return a == b
	case *big.Int:
		o, ok := b.(*big.Int)
		return ok && a.Cmp(o) == 0
	}
	return a == b
}

func (t *Thread) equal(a, b Value, depth int) (bool, error) {
	if err := t.spend(1); err != nil {
		return false, err
	}
	if depth > maxNesting {
		return false, raise("RecursionError", "maximum recursion depth exceeded in comparison")
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && order(x, y) == 0, nil
	}
	list := func(x, y []Value) (bool, error) {
		if len(x) != len(y) {
			return false, nil
		}
		for i := range x {
			if same, err := t.equal(x[i], y[i], depth+1); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	switch a := a.(type) {
	case string:
		s, ok := b.(string)
		return ok && a == s, nil
	case *List:
		if o, ok := b.(*List); ok {
			return list(a.Items, o.Items)
		}
	case *Tuple:
		if o, ok := b.(*Tuple); ok {
			return list(a.Items, o.Items)
		}
	case *Dict:
		o, ok := b.(*Dict)
		if !ok || a.len() != o.len() {
			return false, nil
		}
		for _, e := range a.entries {
			if !e.live {
				continue
			}
			v, there, err := o.get(e.key)
			if err != nil || !there {
				return false, err
			}
			if same, err := t.equal(e.value, v, depth+1); !same || err != nil {
				return false, err
			}
		}
		return true, nil
	case *Set, *view:
		x, y, ok, err := t.twoSets(a, b)
		if err != nil {
			return false, err
		}
		if ok {
			return x.d.len() == y.d.len() && y.holds(x), nil
		}
	case *rangeValue:
		o, ok := b.(*rangeValue)
		return ok && a.key() == o.key(), nil
	}
	return a == b, nil
}

func (t *Thread) ordered(op string, a, b Value, depth int) (bool, error) {
	if err := t.spend(1); err != nil {
		return false, err
	}
	if depth > maxNesting {
		return false, raise("RecursionError", "maximum recursion depth exceeded in comparison")
	}
	holds := func(c int) bool {
		switch op {
		case "<":
			return c < 0
		case "<=":
			return c <= 0
		case ">":
			return c > 0
		}
		return c >= 0
	}
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			c := order(x, y)
			return c != unordered && holds(c), nil
		}
	}
	lists := func(x, y []Value) (bool, error) {
		for i := range min(len(x), len(y)) {
			same, err := t.equal(x[i], y[i], depth+1)
			if err != nil {
				return false, err
			}
			if !same {
				return t.ordered(op, x[i], y[i], depth+1)
			}
		}
		return holds(len(x) - len(y)), nil
	}
	switch a := a.(type) {
	case string:
		if s, ok := b.(string); ok {
			return holds(strings.Compare(a, s)), nil
		}
	case *List:
		if o, ok := b.(*List); ok {
			return lists(a.Items, o.Items)
		}
	case *Tuple:
		if o, ok := b.(*Tuple); ok {
			return lists(a.Items, o.Items)
		}
	case *Set, *view:
		less, more, ok, err := t.twoSets(a, b)
		if err != nil {
			return false, err
		}
		if op[0] == '>' {
			less, more = more, less
		}
		if ok {
			return more.holds(less) && (len(op) == 2 || less.d.len() < more.d.len()), nil
		}
	}
	return false, raise("TypeError",
		"'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
}

func (t *Thread) contains(whole, part Value) (bool, error) {
	switch whole := whole.(type) {
	case string:
		s, ok := part.(string)
		if !ok {
			return false, raise("TypeError", "'in <string>' requires string as left operand, not %s", typeName(part))
		}
		return strings.Contains(whole, s), t.spend(int64(len(whole) / 64))
	case *Dict:
		_, ok, err := whole.get(part)
		return ok, err
	case *Set:
		_, ok, err := whole.d.get(part)
		return ok, err
	case *view:
		if whole.kind == "keys" {
			return t.contains(whole.d, part)
		}
	case *rangeValue:
		n, ok := number(part)
		i, whole64 := n.(int64)
		if f, isFloat := n.(float64); ok && isFloat && f == math.Trunc(f) && math.Abs(f) < 1<<62 {
			i, whole64 = int64(f), true
		}
		if !ok || !whole64 {
			return false, nil
		}
		inside := whole.step > 0 && i >= whole.start && i < whole.stop || whole.step < 0 && i <= whole.start && i > whole.stop
		return inside && (i-whole.start)%whole.step == 0, nil
	}
	if _, err := t.iterate(whole); err != nil {
		return false, raise("TypeError", "argument of type '%s' is not iterable", typeName(whole))
	}
	found := false
	err := t.each(whole, func(v Value) error {
		same, err := t.equal(v, part, 0)
		if same {
			found = true
			return errStop
		}
		return err
	})
	return found, err
}

// position is an index into n things.
func position(key Value, n int, what string) (int, error) {
	v, ok := number(key)
	i, small := v.(int64)
	if _, isFloat := v.(float64); !ok || isFloat {
		switch what {
		case "string":
			return 0, raise("TypeError", "string indices must be integers, not '%s'", typeName(key))
		case "pop":
			return 0, raise("TypeError", "'%s' object cannot be interpreted as an integer", typeName(key))
		}
		return 0, raise("TypeError", "%s indices must be integers or slices, not %s",
			strings.TrimSuffix(what, " assignment"), typeName(key))
	}
	if i < 0 {
		i += int64(n)
	}
	if !small || i < 0 || i >= int64(n) {
		return 0, raise("IndexError", "%s index out of range", what)
	}
	return int(i), nil
}

func (t *Thread) item(owner, key Value) (Value, error) {
	switch owner := owner.(type) {
	case *Dict:
		v, ok, err := owner.get(key)
		if err == nil && !ok {
			err = &Raised{Value: &Exception{Class: "KeyError", Args: []Value{key}}}
		}
		return v, err
	case *List:
		i, err := position(key, len(owner.Items), "list")
		if err != nil {
			return nil, err
		}
		return owner.Items[i], nil
	case *Tuple:
		i, err := position(key, len(owner.Items), "tuple")
		if err != nil {
			return nil, err
		}
		return owner.Items[i], nil
	case string:
		if err := t.spend(int64(len(owner) / 16)); err != nil {
			return nil, err
		}
		i, err := position(key, utf8.RuneCountInString(owner), "string")
		if err != nil {
			return nil, err
		}
		if len(owner) == utf8.RuneCountInString(owner) {
			return owner[i : i+1], nil
		}
		return string([]rune(owner)[i]), nil
	case *rangeValue:
		i, err := position(key, int(owner.len()), "range object")
		if err != nil {
			return nil, err
		}
		return owner.start + int64(i)*owner.step, nil
	case *class, *Object:
		if o, ok := owner.(*Object); ok && o.Type != "typing" {
			break
		}
		return owner, nil // list[str], as in annotations
	}
	return nil, raise("TypeError", "'%s' object is not subscriptable", typeName(owner))
}

func (t *Thread) setItem(owner, key, v Value) error {
	switch owner := owner.(type) {
	case *Dict:
		before := len(owner.entries)
		if err := owner.set(key, v); err != nil {
			return err
		}
		if len(owner.entries) > before {
			if len(owner.entries)*64 > 4*maxObject {
				return t.tooLarge("a dict")
			}
			return t.grow(64)
		}
		return nil
	case *List:
		i, err := position(key, len(owner.Items), "list assignment")
		if err != nil {
			return err
		}
		owner.Items[i] = v
		return nil
	}
	return raise("TypeError", "'%s' object does not support item assignment", typeName(owner))
}

func (t *Thread) extend(l *List, items []Value) error {
	if (len(l.Items)+len(items))*16 > maxObject {
		return t.tooLarge("a list")
	}
	if err := t.grow(16 * int64(len(items))); err != nil {
		return err
	}
	l.Items = append(l.Items, slices.Clone(items)...)
	return t.spend(int64(len(items) / 8))
}

func (t *Thread) updateDict(d, other *Dict) error {
	for _, e := range slices.Clone(other.entries) {
		if !e.live {
			continue
		}
		if err := t.spend(1); err != nil {
			return err
		}
		if err := t.setItem(d, e.key, e.value); err != nil {
			return err
		}
	}
	return nil
}

// twoSets returns two operands as sets. ok is false if one of them is not a set.
func (t *Thread) twoSets(a, b Value) (x, y *Set, ok bool, err error) {
	if x, ok, err = t.asSet(a); ok {
		y, ok, err = t.asSet(b)
	}
	return x, y, ok, err
}

// holds reports whether s is a superset of other.
func (s *Set) holds(other *Set) bool {
	for _, e := range other.d.entries {
		if _, there, _ := s.d.get(e.key); e.live && !there { // get cannot fail: the key is hashable
			return false
		}
	}
	return true
}

func (t *Thread) newSet(items []Value) (*Set, error) {
	s := &Set{}
	for _, v := range items {
		if err := t.addTo(s, v); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (t *Thread) addTo(s *Set, v Value) error {
	if err := t.spend(1); err != nil {
		return err
	}
	if _, there, err := s.d.get(v); there || err != nil {
		return err
	}
	return t.setItem(&s.d, v, nil)
}

func (t *Thread) setOp(op string, s *Set, items []Value) (Value, error) {
	other, err := t.newSet(items)
	if err != nil {
		return nil, err
	}
	out := &Set{frozen: s.frozen}
	add := func(from, not *Set, wanted bool) error {
		for _, k := range from.d.Keys() {
			_, there, err := not.d.get(k)
			if err == nil && there == wanted {
				err = t.addTo(out, k)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	switch op {
	case "intersection":
		return out, add(s, other, true)
	case "difference":
		return out, add(s, other, false)
	case "symmetric_difference":
		if err := add(s, other, false); err != nil {
			return nil, err
		}
		return out, add(other, s, false)
	}
	for _, from := range []*Set{s, other} {
		for _, k := range from.d.Keys() {
			if err := t.addTo(out, k); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
