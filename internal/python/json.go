package python

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// FromJSON decodes JSON. Numbers with a decimal point or an exponent become
// floats; objects keep the order of their keys.
func FromJSON(raw json.RawMessage) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := decode(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows after the end")
	}
	return v, nil
}

func decode(d *json.Decoder, depth int) (Value, error) {
	if depth > maxNesting {
		return nil, errors.New("nested too deeply")
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch x := token.(type) {
	case json.Number:
		text := x.String()
		if strings.ContainsAny(text, ".eE") {
			f, err := strconv.ParseFloat(text, 64)
			if err != nil && !math.IsInf(f, 0) {
				return nil, err
			}
			return f, nil
		}
		n, ok := new(big.Int).SetString(text, 10)
		if !ok || len(text) > maxDigits {
			return nil, fmt.Errorf("%q is not a number", text)
		}
		return normal(n), nil
	case json.Delim:
		if x == '[' {
			l := &List{}
			for d.More() {
				v, err := decode(d, depth+1)
				if err != nil {
					return nil, err
				}
				l.Items = append(l.Items, v)
			}
			_, err := d.Token()
			return l, err
		}
		o := &Dict{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decode(d, depth+1)
			if err != nil {
				return nil, err
			}
			if err := o.set(key, v); err != nil {
				return nil, err
			}
		}
		_, err := d.Token()
		return o, err
	}
	return token, nil
}

// ToJSON encodes a value. Floats keep their decimal point, so that FromJSON
// returns floats. Like json.dumps, it raises TypeError for values that JSON
// cannot represent.
func (t *Thread) ToJSON(v Value) (json.RawMessage, error) {
	w := &jsonWriter{t: t, colon: ":", comma: ","}
	if err := w.value(v, 0); err != nil {
		return nil, err
	}
	return json.RawMessage(w.b.String()), nil
}

type jsonWriter struct {
	t            *Thread
	b            strings.Builder
	colon, comma string
	indent       string
	pretty       bool
	sorted       bool
	ascii        bool
	loose        bool  // allow NaN and Infinity, like json.dumps
	otherwise    Value // the argument "default" of json.dumps, or nil
}

func (w *jsonWriter) line(depth int) {
	if w.pretty {
		w.b.WriteString("\n" + strings.Repeat(w.indent, depth))
	}
}

func (w *jsonWriter) value(v Value, depth int) error {
	if err := w.t.spend(1); err != nil {
		return err
	}
	if depth > maxNesting {
		return raise("ValueError", "Circular reference detected")
	}
	if w.b.Len() > maxObject {
		return w.t.tooLarge("a string")
	}
	switch v := v.(type) {
	case nil:
		w.b.WriteString("null")
	case bool:
		w.b.WriteString(strconv.FormatBool(v))
	case int64, *big.Int:
		fmt.Fprint(&w.b, v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			if !w.loose {
				return raise("ValueError", "Out of range float values are not JSON compliant")
			}
			w.b.WriteString(map[string]string{"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[formatFloat(v)])
			return nil
		}
		w.b.WriteString(formatFloat(v))
	case string:
		w.text(v)
	case *List:
		return w.list(v.Items, depth)
	case *Tuple:
		return w.list(v.Items, depth)
	case *Dict:
		return w.dict(v, depth)
	default:
		if w.otherwise == nil {
			return raise("TypeError", "Object of type %s is not JSON serializable", typeName(v))
		}
		changed, err := w.t.Call(w.otherwise, v)
		if err != nil {
			return err
		}
		return w.value(changed, depth+1)
	}
	return nil
}

func (w *jsonWriter) list(items []Value, depth int) error {
	if len(items) == 0 {
		w.b.WriteString("[]")
		return nil
	}
	w.b.WriteByte('[')
	for i, v := range items {
		if i > 0 {
			w.b.WriteString(w.comma)
		}
		w.line(depth + 1)
		if err := w.value(v, depth+1); err != nil {
			return err
		}
	}
	w.line(depth)
	w.b.WriteByte(']')
	return nil
}

func (w *jsonWriter) dict(d *Dict, depth int) error {
	if d.len() == 0 {
		w.b.WriteString("{}")
		return nil
	}
	keys := d.Keys()
	if w.sorted {
		items, err := w.t.sorted(keys, nil, false)
		if err != nil {
			return err
		}
		keys = items
	}
	w.b.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			w.b.WriteString(w.comma)
		}
		w.line(depth + 1)
		name := ""
		switch k := k.(type) {
		case string:
			name = k
		case nil:
			name = "null"
		case bool:
			name = strconv.FormatBool(k)
		case int64, *big.Int:
			name = fmt.Sprint(k)
		case float64:
			name = formatFloat(k)
		default:
			return raise("TypeError", "keys must be str, int, float, bool or None, not %s", typeName(k))
		}
		w.text(name)
		w.b.WriteString(w.colon)
		v, _, _ := d.get(k)
		if err := w.value(v, depth+1); err != nil {
			return err
		}
	}
	w.line(depth)
	w.b.WriteByte('}')
	return nil
}

func (w *jsonWriter) text(s string) {
	w.b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			w.b.WriteByte('\\')
			w.b.WriteRune(r)
		case r == '\n':
			w.b.WriteString(`\n`)
		case r == '\r':
			w.b.WriteString(`\r`)
		case r == '\t':
			w.b.WriteString(`\t`)
		case r == '\b':
			w.b.WriteString(`\b`)
		case r == '\f':
			w.b.WriteString(`\f`)
		case r < 0x20 || w.ascii && r > 0x7e && r < 0x10000:
			fmt.Fprintf(&w.b, `\u%04x`, r)
		case w.ascii && r >= 0x10000:
			r -= 0x10000
			fmt.Fprintf(&w.b, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			w.b.WriteRune(r)
		}
	}
	w.b.WriteByte('"')
}

func jsonModule() *Object {
	dumps := &Builtin{Name: "dumps", Call: func(t *Thread, args []Value, named Named) (Value, error) {
		a := &arguments{fn: "dumps", list: args, named: named}
		w := &jsonWriter{t: t, colon: ": ", comma: ", ", loose: true}
		w.sorted, w.ascii = truth(a.take("sort_keys", false)), truth(a.take("ensure_ascii", true))
		w.otherwise = a.take("default", nil)
		indent := a.take("indent", nil)
		if n, ok := number(indent); ok {
			indent = n
		}
		switch n := indent.(type) {
		case int64:
			w.pretty, w.indent, w.comma = true, strings.Repeat(" ", int(min(max(n, 0), 100))), ","
		case string:
			w.pretty, w.indent, w.comma = true, n[:min(len(n), 100)], ","
		}
		if pair, ok := a.take("separators", nil).(*Tuple); ok && len(pair.Items) == 2 {
			w.comma, _ = pair.Items[0].(string)
			w.colon, _ = pair.Items[1].(string)
		}
		if err := a.between(1, 1); err != nil {
			return nil, err
		}
		if err := w.value(args[0], 0); err != nil {
			return nil, err
		}
		return w.b.String(), t.grow(int64(w.b.Len()))
	}}
	loads := builtin("loads", 1, 1, func(t *Thread, a *arguments) (Value, error) {
		s, err := a.text(0)
		if err != nil {
			return nil, raise("TypeError", "the JSON object must be str, bytes or bytearray, not %s", typeName(a.list[0]))
		}
		if err := t.grow(8 * int64(len(s))); err != nil {
			return nil, err
		}
		if err := t.spend(int64(len(s) / 4)); err != nil {
			return nil, err
		}
		v, err := FromJSON(json.RawMessage(s))
		if err != nil {
			return nil, raise("JSONDecodeError", "the text is not JSON: %v", err)
		}
		return v, nil
	})
	return &Object{Type: "module", Text: "<module 'json'>", Attrs: map[string]Value{
		"dumps": dumps, "loads": loads, "JSONDecodeError": &class{name: "JSONDecodeError", exception: true},
	}}
}
