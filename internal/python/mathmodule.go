package python

import (
	"math"
	"slices"
)

func mathModule() *Object {
	m := &Object{Type: "module", Text: "<module 'math'>", Attrs: map[string]Value{
		"pi": math.Pi, "e": math.E, "inf": math.Inf(1), "nan": math.NaN(),
		"isclose": &Builtin{Name: "isclose", Call: isClose},
	}}
	for _, f := range []struct {
		name        string
		least, most int // arguments
		call        func(f []float64) (Value, error)
	}{
		{"ceil", 1, 1, func(f []float64) (Value, error) { return wholeNumber(math.Ceil(f[0])) }},
		{"floor", 1, 1, func(f []float64) (Value, error) { return wholeNumber(math.Floor(f[0])) }},
		{"trunc", 1, 1, func(f []float64) (Value, error) { return wholeNumber(math.Trunc(f[0])) }},
		{"fabs", 1, 1, func(f []float64) (Value, error) { return math.Abs(f[0]), nil }},
		{"sqrt", 1, 1, squareRoot},
		{"exp", 1, 1, func(f []float64) (Value, error) { return mathResult(math.Exp(f[0]), f...) }},
		{"pow", 2, 2, mathPower},
		{"log", 1, 2, logarithm(math.Log)},
		{"log2", 1, 1, logarithm(math.Log2)},
		{"log10", 1, 1, logarithm(math.Log10)},
		{"isnan", 1, 1, func(f []float64) (Value, error) { return math.IsNaN(f[0]), nil }},
		{"isinf", 1, 1, func(f []float64) (Value, error) { return math.IsInf(f[0], 0), nil }},
		{"isfinite", 1, 1, func(f []float64) (Value, error) { return isFinite(f[0]), nil }},
	} {
		m.Attrs[f.name] = builtin(f.name, f.least, f.most, func(_ *Thread, a *arguments) (Value, error) {
			var list []float64
			for _, v := range a.list {
				x, err := realNumber(v)
				if err != nil {
					return nil, err
				}
				list = append(list, x)
			}
			return f.call(list)
		})
	}
	return m
}

func isFinite(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }

// realNumber converts an argument of a function of math.
func realNumber(v Value) (float64, error) {
	n, ok := number(v)
	if !ok {
		return 0, raise("TypeError", "must be real number, not %s", typeName(v))
	}
	return floatOf(n)
}

// mathResult returns z, or the error of CPython if z is not finite although all
// arguments are.
func mathResult(z float64, args ...float64) (Value, error) {
	if slices.ContainsFunc(args, func(f float64) bool { return !isFinite(f) }) {
		return z, nil
	}
	switch {
	case math.IsNaN(z):
		return nil, raise("ValueError", "math domain error")
	case math.IsInf(z, 0):
		return nil, raise("OverflowError", "math range error")
	}
	return z, nil
}

func squareRoot(f []float64) (Value, error) {
	if f[0] < 0 {
		return nil, raise("ValueError", "math domain error")
	}
	return math.Sqrt(f[0]), nil
}

func mathPower(f []float64) (Value, error) {
	if f[0] == 0 && f[1] < 0 {
		return nil, raise("ValueError", "math domain error")
	}
	return mathResult(math.Pow(f[0], f[1]), f...)
}

// logarithm returns a function of a number and an optional base.
func logarithm(log func(float64) float64) func(f []float64) (Value, error) {
	return func(f []float64) (Value, error) {
		if f[0] <= 0 || len(f) == 2 && f[1] <= 0 {
			return nil, raise("ValueError", "math domain error")
		}
		if len(f) == 2 {
			return floats("/", log(f[0]), log(f[1]))
		}
		return log(f[0]), nil
	}
}

func isClose(_ *Thread, args []Value, named Named) (Value, error) {
	a := &arguments{fn: "isclose", list: args, named: named}
	list := append(slices.Clone(args), a.take("rel_tol", 1e-9), a.take("abs_tol", 0.0))
	if err := a.between(2, 2); err != nil {
		return nil, err
	}
	var f [4]float64
	for i, v := range list {
		x, err := realNumber(v)
		if err != nil {
			return nil, raise("TypeError", "must be real number, not %s", typeName(v))
		}
		f[i] = x
	}
	if math.IsInf(f[0], 0) || math.IsInf(f[1], 0) {
		return f[0] == f[1], nil
	}
	return f[0] == f[1] || math.Abs(f[0]-f[1]) <= max(f[2]*max(math.Abs(f[0]), math.Abs(f[1])), f[3]), nil
}
