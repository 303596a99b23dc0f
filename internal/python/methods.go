package python

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// attribute is owner.name. What is written with two underscores does not
// exist, however one asks for it.
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
		if method, ok := t.std.methods[c.name][name]; ok { // str.lower
			return &Builtin{Name: name, Call: func(t *Thread, args []Value, named Named) (Value, error) {
				if len(args) == 0 {
					return nil, raise("TypeError", "unbound method %s.%s() needs an argument", c.name, name)
				}
				if typeName(args[0]) != c.name {
					return nil, raise("TypeError", "descriptor '%s' for '%s' objects doesn't apply to a '%s' object", name, c.name, typeName(args[0]))
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

// arguments takes the arguments of one of our functions apart.
type arguments struct {
	fn    string
	list  []Value
	named Named
	taken []string // the names that mean something
}

// between is an error unless so many arguments are there.
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

// at is an argument by its place.
func (a *arguments) at(i int, otherwise Value) Value {
	if i < len(a.list) {
		return a.list[i]
	}
	return otherwise
}

// take is an argument by its name.
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
		"str": textMethods(), "list": listMethods(), "tuple": tupleMethods(), "dict": dictMethods(), "set": setMethods(false), "frozenset": setMethods(true),
		"float": {"is_integer": func(_ *Thread, self Value, a *arguments) (Value, error) {
			f := self.(float64)
			return f == math.Trunc(f) && !math.IsInf(f, 0), a.between(0, 0)
		}},
	}
}

// onText is a method that looks at its text, and perhaps another.
func onText(least, most int, do func(t *Thread, s string, a *arguments) (Value, error)) method {
	return func(t *Thread, self Value, a *arguments) (Value, error) {
		s := self.(string)
		if err := a.between(least, most); err != nil {
			return nil, err
		}
		if err := t.spend(int64(len(s) / 64)); err != nil {
			return nil, err
		}
		v, err := do(t, s, a)
		if text, ok := v.(string); ok && err == nil {
			err = t.grow(int64(len(text)))
		}
		return v, err
	}
}

func textMethods() map[string]method {
	plain := func(change func(string) string) method {
		return onText(0, 0, func(_ *Thread, s string, _ *arguments) (Value, error) { return change(s), nil })
	}
	all := func(is func(rune) bool) method {
		return onText(0, 0, func(_ *Thread, s string, _ *arguments) (Value, error) {
			return s != "" && strings.IndexFunc(s, func(r rune) bool { return !is(r) }) < 0, nil
		})
	}
	cased := func(is, not func(rune) bool) method {
		return onText(0, 0, func(_ *Thread, s string, _ *arguments) (Value, error) {
			return strings.IndexFunc(s, is) >= 0 && strings.IndexFunc(s, not) < 0, nil
		})
	}
	strip := func(left, right bool) method {
		return onText(0, 1, func(_ *Thread, s string, a *arguments) (Value, error) {
			cut := isSpace
			if a.at(0, nil) != nil {
				set, err := a.text(0)
				if err != nil {
					return nil, err
				}
				cut = func(r rune) bool { return strings.ContainsRune(set, r) }
			}
			if left {
				s = strings.TrimLeftFunc(s, cut)
			}
			if right {
				s = strings.TrimRightFunc(s, cut)
			}
			return s, nil
		})
	}
	ends := func(has func(s, part string) bool) method {
		return onText(1, 3, func(_ *Thread, s string, a *arguments) (Value, error) {
			lo, hi, err := window(a, s)
			if err != nil {
				return nil, err
			}
			if lo <= hi {
				s = s[lo:hi]
			}
			parts := []Value{a.list[0]}
			if tuple, ok := a.list[0].(*Tuple); ok {
				parts = tuple.Items
			}
			for _, p := range parts {
				text, ok := p.(string)
				if !ok {
					return nil, raise("TypeError", "%s first arg must be str or a tuple of str, not %s", a.fn, typeName(p))
				}
				if lo <= hi && has(s, text) {
					return true, nil
				}
			}
			return false, nil
		})
	}
	find := func(index func(s, part string) int, must bool) method {
		return onText(1, 3, func(_ *Thread, s string, a *arguments) (Value, error) {
			part, err := a.text(0)
			if err != nil {
				return nil, err
			}
			lo, hi, err := window(a, s)
			if err != nil {
				return nil, err
			}
			at := -1
			if lo <= hi {
				at = index(s[lo:hi], part)
			}
			if at < 0 {
				if must {
					return nil, raise("ValueError", "substring not found")
				}
				return int64(-1), nil
			}
			return int64(utf8.RuneCountInString(s[:lo+at])), nil
		})
	}
	just := func(align byte) method {
		return onText(1, 2, func(t *Thread, s string, a *arguments) (Value, error) {
			n, err := a.number(0, 0)
			if err != nil {
				return nil, err
			}
			if n > maxObject {
				return nil, t.tooLarge("a text")
			}
			fill := ' '
			if len(a.list) > 1 {
				f, err := a.text(1)
				if err != nil {
					return nil, err
				}
				if utf8.RuneCountInString(f) != 1 {
					return nil, raise("TypeError", "The fill character must be exactly one character long")
				}
				fill, _ = utf8.DecodeRuneInString(f)
			}
			if align == '^' { // CPython puts the odd one to the left here
				width := int(n) - utf8.RuneCountInString(s)
				if width <= 0 {
					return s, nil
				}
				left := width/2 + (width & int(n) & 1)
				return strings.Repeat(string(fill), left) + s + strings.Repeat(string(fill), width-left), nil
			}
			return pad(s, "", spec{fill: fill, align: align, width: int(n)}, align), nil
		})
	}
	cut := func(do func(s, by string) (string, string, bool), last bool) method {
		return onText(1, 1, func(_ *Thread, s string, a *arguments) (Value, error) {
			by, err := a.text(0)
			if err != nil {
				return nil, err
			}
			if by == "" {
				return nil, raise("ValueError", "empty separator")
			}
			x, y, ok := do(s, by)
			switch {
			case ok:
				return &Tuple{[]Value{x, by, y}}, nil
			case last:
				return &Tuple{[]Value{"", "", s}}, nil
			}
			return &Tuple{[]Value{s, "", ""}}, nil
		})
	}
	return map[string]method{
		"upper": plain(upperCase), "lower": plain(strings.ToLower), "casefold": plain(func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "ß", "ss") }),
		"title": plain(title), "capitalize": plain(capitalize), "swapcase": plain(swapCase),
		"strip": strip(true, true), "lstrip": strip(true, false), "rstrip": strip(false, true),
		"startswith": ends(strings.HasPrefix), "endswith": ends(strings.HasSuffix),
		"find": find(strings.Index, false), "rfind": find(strings.LastIndex, false), "index": find(strings.Index, true), "rindex": find(strings.LastIndex, true),
		"ljust": just('<'), "rjust": just('>'), "center": just('^'),
		"partition": cut(strings.Cut, false), "rpartition": cut(cutLast, true),
		"isdigit": all(unicode.IsDigit), "isnumeric": all(unicode.IsNumber), "isdecimal": all(unicode.IsDigit), "isalpha": all(unicode.IsLetter), "isspace": all(isSpace),
		"isalnum": all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
		"isupper": cased(unicode.IsUpper, unicode.IsLower), "islower": cased(unicode.IsLower, unicode.IsUpper),
		"removeprefix": onText(1, 1, func(_ *Thread, s string, a *arguments) (Value, error) {
			p, err := a.text(0)
			return strings.TrimPrefix(s, p), err
		}),
		"removesuffix": onText(1, 1, func(_ *Thread, s string, a *arguments) (Value, error) {
			p, err := a.text(0)
			return strings.TrimSuffix(s, p), err
		}),
		"zfill": onText(1, 1, func(t *Thread, s string, a *arguments) (Value, error) {
			n, err := a.number(0, 0)
			if err != nil {
				return nil, err
			}
			if n > maxObject {
				return nil, t.tooLarge("a text")
			}
			sign := ""
			if s != "" && (s[0] == '-' || s[0] == '+') {
				sign, s = s[:1], s[1:]
			}
			return pad(s, sign, spec{fill: '0', align: '=', width: int(n)}, '='), nil
		}),
		"count": onText(1, 3, func(_ *Thread, s string, a *arguments) (Value, error) {
			p, err := a.text(0)
			if err != nil {
				return nil, err
			}
			lo, hi, err := window(a, s)
			if err != nil || lo > hi {
				return int64(0), err
			}
			return int64(strings.Count(s[lo:hi], p)), nil
		}),
		"replace": onText(2, 3, replaceText),
		"join":    joinText,
		"split":   splitText(false), "rsplit": splitText(true),
		"splitlines": splitLines,
		"format": func(t *Thread, self Value, a *arguments) (Value, error) {
			auto := 0
			return t.strFormat(self.(string), a.list, a.named, &auto, 0)
		},
	}
}

// window is the part of a text that the second and third argument choose.
func window(a *arguments, s string) (lo, hi int, err error) {
	n := utf8.RuneCountInString(s)
	bound := func(i int, otherwise int) (int, error) {
		if a.at(i, nil) == nil {
			return otherwise, nil
		}
		v, err := a.number(i, 0)
		if v < 0 {
			v += int64(n)
		}
		return int(min(max(v, 0), int64(n)+1)), err // one too far means nothing is there
	}
	if lo, err = bound(1, 0); err != nil {
		return 0, 0, err
	}
	if hi, err = bound(2, n); err != nil {
		return 0, 0, err
	}
	hi = min(hi, n)
	if lo > hi {
		return 1, 0, nil
	}
	offset := func(runes int) int {
		at := 0
		for range runes {
			_, size := utf8.DecodeRuneInString(s[at:])
			at += size
		}
		return at
	}
	return offset(lo), offset(hi), nil
}

func title(s string) string {
	inside := false
	return strings.Map(func(r rune) rune {
		defer func() { inside = unicode.IsLetter(r) }()
		if inside {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

func capitalize(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	return string(unicode.ToTitle(r)) + strings.ToLower(s[size:])
}

func swapCase(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, s)
}

func cutLast(s, by string) (string, string, bool) {
	i := strings.LastIndex(s, by)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(by):], true
}

func replaceText(t *Thread, s string, a *arguments) (Value, error) {
	from, err := a.text(0)
	if err != nil {
		return nil, err
	}
	to, err := a.text(1)
	if err != nil {
		return nil, err
	}
	n, err := a.number(2, -1)
	if err != nil {
		return nil, err
	}
	times := int64(strings.Count(s, from))
	if n >= 0 {
		times = min(times, n)
	}
	if more := int64(len(to) - len(from)); more > 0 && times > maxObject/more {
		return nil, t.tooLarge("a text")
	}
	return strings.Replace(s, from, to, int(times)), t.spend(times)
}

func joinText(t *Thread, self Value, a *arguments) (Value, error) {
	if err := a.between(1, 1); err != nil {
		return nil, err
	}
	var b strings.Builder
	i := 0
	err := t.each(a.list[0], func(v Value) error {
		s, ok := v.(string)
		if !ok {
			return raise("TypeError", "sequence item %d: expected str instance, %s found", i, typeName(v))
		}
		if i > 0 {
			b.WriteString(self.(string))
		}
		i++
		b.WriteString(s)
		if b.Len() > maxObject {
			return t.tooLarge("a text")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b.String(), t.grow(int64(b.Len()))
}

func splitText(fromRight bool) method {
	return func(t *Thread, self Value, a *arguments) (Value, error) {
		s := self.(string)
		by, most := a.take("sep", nil), a.take("maxsplit", int64(-1))
		if err := a.between(0, 2); err != nil {
			return nil, err
		}
		by, most = a.at(0, by), a.at(1, most)
		n, ok := most.(int64)
		if !ok {
			return nil, raise("TypeError", "'%s' object cannot be interpreted as an integer", typeName(most))
		}
		if err := t.spend(int64(len(s) / 16)); err != nil {
			return nil, err
		}
		var parts []string
		switch by := by.(type) {
		case nil:
			parts = fields(s, int(n), fromRight)
		case string:
			switch {
			case by == "":
				return nil, raise("ValueError", "empty separator")
			case n < 0:
				parts = strings.Split(s, by)
			case fromRight:
				rest := s
				for ; n > 0; n-- {
					i := strings.LastIndex(rest, by)
					if i < 0 {
						break
					}
					parts = append(parts, rest[i+len(by):])
					rest = rest[:i]
				}
				parts = append(parts, rest)
				slices.Reverse(parts)
			default:
				parts = strings.SplitN(s, by, int(min(n, 1<<30))+1)
			}
		default:
			return nil, raise("TypeError", "must be str or None, not %s", typeName(by))
		}
		out := &List{}
		for _, p := range parts {
			out.Items = append(out.Items, p)
		}
		return out, t.grow(int64(len(s) + 32*len(parts)))
	}
}

// isSpace is Python's idea of white space.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func splitLines(t *Thread, self Value, a *arguments) (Value, error) {
	s := self.(string)
	keep := a.take("keepends", false)
	if err := a.between(0, 1); err != nil {
		return nil, err
	}
	if err := t.spend(int64(len(s) / 16)); err != nil {
		return nil, err
	}
	out, rest := &List{}, s
	for rest != "" {
		end := strings.IndexAny(rest, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		line, size := rest, 0
		if end >= 0 {
			line = rest[:end]
			_, size = utf8.DecodeRuneInString(rest[end:])
			if strings.HasPrefix(rest[end:], "\r\n") {
				size = 2
			}
		}
		whole := rest[:len(line)+size]
		rest = rest[len(whole):]
		if truth(a.at(0, keep)) {
			line = whole
		}
		out.Items = append(out.Items, line)
	}
	return out, t.grow(int64(len(s) + 32*len(out.Items)))
}

// fields splits at white space, at most n times.
func fields(s string, n int, fromRight bool) []string {
	if n < 0 {
		return strings.FieldsFunc(s, isSpace)
	}
	var out []string
	if fromRight {
		s = strings.TrimRightFunc(s, isSpace)
		for ; n > 0 && s != ""; n-- {
			i := strings.LastIndexFunc(s, isSpace)
			if i < 0 {
				break
			}
			_, size := utf8.DecodeRuneInString(s[i:])
			out = append(out, s[i+size:])
			s = strings.TrimRightFunc(s[:i], isSpace)
		}
		if s != "" {
			out = append(out, strings.TrimLeftFunc(s, isSpace))
		}
		slices.Reverse(out)
		return out
	}
	s = strings.TrimLeftFunc(s, isSpace)
	for ; n > 0 && s != ""; n-- {
		i := strings.IndexFunc(s, isSpace)
		if i < 0 {
			break
		}
		out = append(out, s[:i])
		s = strings.TrimLeftFunc(s[i:], isSpace)
	}
	if s != "" {
		out = append(out, s)
	}
	return out
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
		"reverse": on(0, 0, func(_ *Thread, l *List, _ *arguments) (Value, error) { slices.Reverse(l.Items); return nil, nil }),
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

// sorted is a stable sort that can fail.
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
			a.named = nil // any name is a key
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

// toDict reads a dict, or pairs.
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

// upperCase knows the one common letter that becomes two.
func upperCase(s string) string { return strings.ReplaceAll(strings.ToUpper(s), "ß", "SS") }
