package python

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// strMethods returns the methods of str.
func strMethods() map[string]method {
	return map[string]method{
		"upper": mapText(upperCase), "lower": mapText(strings.ToLower), "casefold": mapText(caseFold),
		"title": mapText(title), "capitalize": mapText(capitalize), "swapcase": mapText(swapCase),

		"strip": stripText(true, true), "lstrip": stripText(true, false), "rstrip": stripText(false, true),
		"removeprefix": removeAffix(strings.TrimPrefix), "removesuffix": removeAffix(strings.TrimSuffix),

		"startswith": hasAffix(strings.HasPrefix), "endswith": hasAffix(strings.HasSuffix),
		"find": findText(strings.Index, false), "rfind": findText(strings.LastIndex, false),
		"index": findText(strings.Index, true), "rindex": findText(strings.LastIndex, true),
		"count": onText(1, 3, countText),

		"ljust": justify('<'), "rjust": justify('>'), "center": justify('^'), "zfill": onText(1, 1, zeroFill),

		"isdigit": allRunes(unicode.IsDigit), "isnumeric": allRunes(unicode.IsNumber), "isdecimal": allRunes(unicode.IsDigit),
		"isalpha": allRunes(unicode.IsLetter), "isspace": allRunes(isSpace), "isalnum": allRunes(isAlphanumeric),
		"isupper": hasCase(unicode.IsUpper, unicode.IsLower), "islower": hasCase(unicode.IsLower, unicode.IsUpper),

		"partition": partition(strings.Cut, false), "rpartition": partition(cutLast, true),
		"split": splitText(false), "rsplit": splitText(true), "splitlines": splitLines,
		"replace": onText(2, 3, replaceText), "join": joinText, "format": formatText,
	}
}

// onText returns a method with least to most arguments. It accounts for the
// time to read the string and for the size of a string result.
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

// mapText returns a method without arguments that transforms the string.
func mapText(change func(string) string) method {
	return onText(0, 0, func(_ *Thread, s string, _ *arguments) (Value, error) { return change(s), nil })
}

// allRunes returns a method that reports whether the string is not empty and is
// reports true for all of its characters.
func allRunes(is func(rune) bool) method {
	return onText(0, 0, func(_ *Thread, s string, _ *arguments) (Value, error) {
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !is(r) }) < 0, nil
	})
}

// hasCase returns a method that reports whether the string has a character of
// one case and none of the other.
func hasCase(is, not func(rune) bool) method {
	return onText(0, 0, func(_ *Thread, s string, _ *arguments) (Value, error) {
		return strings.IndexFunc(s, is) >= 0 && strings.IndexFunc(s, not) < 0, nil
	})
}

func isAlphanumeric(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

func stripText(left, right bool) method {
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

func removeAffix(trim func(s, affix string) string) method {
	return onText(1, 1, func(_ *Thread, s string, a *arguments) (Value, error) {
		affix, err := a.text(0)
		return trim(s, affix), err
	})
}

func hasAffix(has func(s, affix string) bool) method {
	return onText(1, 3, func(_ *Thread, s string, a *arguments) (Value, error) {
		lo, hi, err := window(a, s)
		if err != nil {
			return nil, err
		}
		if lo <= hi {
			s = s[lo:hi]
		}
		affixes := []Value{a.list[0]}
		if tuple, ok := a.list[0].(*Tuple); ok {
			affixes = tuple.Items
		}
		for _, affix := range affixes {
			text, ok := affix.(string)
			if !ok {
				return nil, raise("TypeError", "%s first arg must be str or a tuple of str, not %s", a.fn, typeName(affix))
			}
			if lo <= hi && has(s, text) {
				return true, nil
			}
		}
		return false, nil
	})
}

// findText returns a method that finds a substring. Without a match it raises
// ValueError if must is set and returns -1 otherwise.
func findText(index func(s, part string) int, must bool) method {
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
		switch {
		case at >= 0:
			return int64(utf8.RuneCountInString(s[:lo+at])), nil
		case must:
			return nil, raise("ValueError", "substring not found")
		}
		return int64(-1), nil
	})
}

func countText(_ *Thread, s string, a *arguments) (Value, error) {
	part, err := a.text(0)
	if err != nil {
		return nil, err
	}
	lo, hi, err := window(a, s)
	if err != nil || lo > hi {
		return int64(0), err
	}
	return int64(strings.Count(s[lo:hi], part)), nil
}

func justify(align byte) method {
	return onText(1, 2, func(t *Thread, s string, a *arguments) (Value, error) {
		n, err := a.number(0, 0)
		if err != nil {
			return nil, err
		}
		if n > maxObject {
			return nil, t.tooLarge("a string")
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
		if align != '^' {
			return pad(s, "", spec{fill: fill, align: align, width: int(n)}, align), nil
		}
		width := int(n) - utf8.RuneCountInString(s)
		if width <= 0 {
			return s, nil
		}
		left := width/2 + (width & int(n) & 1) // CPython's rule, which differs from format()
		return strings.Repeat(string(fill), left) + s + strings.Repeat(string(fill), width-left), nil
	})
}

func zeroFill(t *Thread, s string, a *arguments) (Value, error) {
	n, err := a.number(0, 0)
	if err != nil {
		return nil, err
	}
	if n > maxObject {
		return nil, t.tooLarge("a string")
	}
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
	}
	return pad(s, sign, spec{fill: '0', align: '=', width: int(n)}, '='), nil
}

// partition returns the method partition or rpartition.
func partition(cut func(s, by string) (string, string, bool), last bool) method {
	return onText(1, 1, func(_ *Thread, s string, a *arguments) (Value, error) {
		by, err := a.text(0)
		if err != nil {
			return nil, err
		}
		if by == "" {
			return nil, raise("ValueError", "empty separator")
		}
		x, y, ok := cut(s, by)
		switch {
		case ok:
			return &Tuple{[]Value{x, by, y}}, nil
		case last:
			return &Tuple{[]Value{"", "", s}}, nil
		}
		return &Tuple{[]Value{s, "", ""}}, nil
	})
}

func formatText(t *Thread, self Value, a *arguments) (Value, error) {
	auto := 0
	return t.strFormat(self.(string), a.list, a.named, &auto, 0)
}

// window returns the byte offsets that the optional second and third argument
// select. If they select nothing, not even an empty string, lo is above hi.
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
		return int(min(max(v, 0), int64(n)+1)), err // beyond the end: not even an empty string matches
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
		return nil, t.tooLarge("a string")
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
			return t.tooLarge("a string")
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

// isSpace reports whether Python considers r white space.
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

// fields splits s at white space, at most n times unless n is negative.
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

// upperCase also maps ß, which strings.ToUpper does not expand.
func upperCase(s string) string { return strings.ReplaceAll(strings.ToUpper(s), "ß", "SS") }

func caseFold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "ß", "ss") }
