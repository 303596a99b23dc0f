package python

import (
	"bytes"
	"encoding/json"
	"math/big"

	"github.com/espalier-run/espalier/internal/jsonfast"
)

// Literal returns the value of an expression as JSON. It returns false if the expression is not a literal, or has no
// representation in JSON.
func Literal(x Expr) (json.RawMessage, bool) {
	value, ok := literal(x)
	if !ok {
		return nil, false
	}
	out, err := jsonfast.Marshal(value)
	return out, err == nil
}

// literal returns the value of an expression that consists of constants, and whether it does.
func literal(x Expr) (any, bool) {
	switch x := x.(type) {
	case *Const:
		switch v := x.Value.(type) {
		case float64:
			return float(v), true
		case Opaque:
			return nil, false
		}
		return x.Value, true
	case *Unary:
		v, ok := literal(x.X)
		if x.Op != "-" || !ok {
			return nil, false
		}
		switch v := v.(type) {
		case int64:
			return -v, true
		case *big.Int:
			return new(big.Int).Neg(v), true
		case float:
			return -v, true
		}
	case *Seq:
		if x.Kind == '{' {
			return nil, false
		}
		out := []any{}
		for _, item := range x.Items {
			v, ok := literal(item)
			if !ok {
				return nil, false
			}
			out = append(out, v)
		}
		return out, true
	case *DictExpr:
		out := map[string]any{}
		for _, p := range x.Pairs {
			key, ok := p.Key.(*Const)
			if !ok {
				return nil, false
			}
			name, isText := key.Value.(string)
			v, ok := literal(p.Value)
			if !ok || !isText {
				return nil, false
			}
			out[name] = v
		}
		return out, true
	}
	return nil, false
}

// float is a float that keeps its decimal point in JSON.
type float float64

func (f float) MarshalJSON() ([]byte, error) {
	raw, err := json.Marshal(float64(f))
	if err == nil && !bytes.ContainsAny(raw, ".e") {
		raw = append(raw, ".0"...)
	}
	return raw, err
}
