package text

import (
	"slices"
	"strconv"
	"strings"
)

// plainReader parses the simple YAML of most workflows: block maps and lists, values, flow lists and flow maps on one
// line. It takes a tenth of the time of the library. At anything else it gives up, and the library parses the text; it
// never reports an error. If it succeeds, its tree equals that of the library, which FuzzPlain checks.
type plainReader struct {
	p    *yamlParser
	text string

	// The next line that is neither empty nor a comment. At the end, first == len(text).
	first, end int // offsets of its content, without the line break
	indent     int
}

// parsePlain returns nil if the text is not simple enough.
func parsePlain(p *yamlParser) *Node {
	if !simpleText(p.text) {
		return nil
	}
	r := &plainReader{p: p, text: p.text}
	r.advance(0)
	if r.first == len(r.text) {
		return nil
	}
	n, ok := r.block(r.indent, 0)
	if !ok || r.first < len(r.text) {
		return nil
	}
	return n
}

// simpleText reports whether a text ends with a newline and holds no tabs, no control characters and no line breaks but
// newlines.
func simpleText(s string) bool {
	if s == "" || s[len(s)-1] != '\n' {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 0x20 && c < 0x7F, c == '\n':
		case c < 0x80:
			return false
		case c == 0xC2 && s[i+1] < 0xA0, c == 0xE2 && s[i+1] == 0x80, c == 0xEF:
			return false
		}
	}
	return true
}

// advance moves to the next line with content, starting with the line at at.
func (r *plainReader) advance(at int) {
	for at < len(r.text) {
		end := at + strings.IndexByte(r.text[at:], '\n')
		first := at
		for first < end && r.text[first] == ' ' {
			first++
		}
		if first < end && r.text[first] != '#' {
			r.first, r.end, r.indent = first, end, first-at
			return
		}
		at = end + 1
	}
	r.first, r.end, r.indent = len(r.text), len(r.text), -1
}

// next moves to the next line with content.
func (r *plainReader) next() { r.advance(r.end + 1) }

const (
	// maxPlainDepth is the nesting at which plainReader gives up.
	maxPlainDepth = 40
	// maxPlainPairs is the number of keys of a map at which it does. Each is compared with all others.
	maxPlainPairs = 64
)

// block parses a map or a list at an indentation.
func (r *plainReader) block(indent, depth int) (*Node, bool) {
	if depth > maxPlainDepth {
		return nil, false
	}
	if r.isEntry() {
		return r.list(indent, depth)
	}
	return r.mapping(indent, depth)
}

// isEntry reports whether the line is "- something".
func (r *plainReader) isEntry() bool {
	return r.text[r.first] == '-' && r.first+1 < r.end && r.text[r.first+1] == ' '
}

// list parses a block list. The keys of an entry that is a map are indented like the text after the dash.
func (r *plainReader) list(indent, depth int) (*Node, bool) {
	start := r.first
	var items []*Node
	for r.indent == indent && r.isEntry() {
		dash := r.first
		for r.first++; r.first < r.end && r.text[r.first] == ' '; r.first++ {
		}
		if r.first == r.end {
			return nil, false
		}
		var item *Node
		var ok bool
		if _, isPair := r.key(r.first); isPair {
			r.indent = indent + r.first - dash
			item, ok = r.mapping(r.indent, depth+1)
		} else {
			item, ok = r.value(r.first, indent, depth)
		}
		if !ok {
			return nil, false
		}
		items = append(items, item)
	}
	if r.indent > indent {
		return nil, false
	}
	n := r.p.new(List, "", start, r.p.last)
	n.Items = items
	return n, true
}

// mapping parses a block map.
func (r *plainReader) mapping(indent, depth int) (*Node, bool) {
	start := r.first
	pairs := make([]Pair, 0, 8)
	for r.indent == indent && !r.isEntry() {
		key, ok := r.key(r.first)
		if !ok || !isNewKey(key, pairs) {
			return nil, false
		}
		name := r.p.new(key.kind(), key.name, key.start, key.start+len(key.name))
		value, ok := r.after(key.colon+1, indent, depth)
		if !ok {
			return nil, false
		}
		pairs = append(pairs, Pair{Key: name, Value: value})
	}
	if r.indent > indent || r.indent == indent && indent == 0 {
		return nil, false
	}
	n := r.p.new(Map, "", start, r.p.last)
	n.Pairs = pairs
	return n, true
}

// plainKey is a key of letters and digits, or a quoted key.
type plainKey struct {
	name         string
	start, colon int // offsets of the name, without quotes, and of the colon
	quoted       bool
}

// kind returns the type that YAML gives to the key.
func (k *plainKey) kind() Kind {
	if k.quoted {
		return String
	}
	return scalarKind(k.name)
}

// isNewKey reports whether the pairs of a small map do not contain the key.
func isNewKey(key plainKey, pairs []Pair) bool {
	return len(pairs) < maxPlainPairs &&
		!slices.ContainsFunc(pairs, func(p Pair) bool { return p.Key.Value == key.name })
}

// key parses a key and its colon at an offset of the line.
func (r *plainReader) key(at int) (key plainKey, ok bool) {
	end := at
	if c := r.text[at]; c == '"' || c == '\'' {
		start, closing, ok := r.quotation(at)
		if !ok || start == closing {
			return plainKey{}, false
		}
		key = plainKey{name: r.text[start:closing], start: start, quoted: true}
		end = closing + 1
	} else {
		if !isLetter(c) {
			return plainKey{}, false
		}
		for end < r.end && isWordByte(r.text[end]) {
			end++
		}
		key = plainKey{name: r.text[at:end], start: at}
	}
	key.colon = end
	if len(key.name) > 100 || end == r.end || r.text[end] != ':' {
		return plainKey{}, false
	}
	return key, end+1 == r.end || r.text[end+1] == ' '
}

// isLetter and isWordByte report whether a byte can begin a key, or be part of one, that is parsed here.
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }

func isWordByte(c byte) bool { return isLetter(c) || c >= '0' && c <= '9' || c == '-' || c == '.' }

// after parses the value after a colon: on the same line, or on the lines below that are indented further.
func (r *plainReader) after(at, indent, depth int) (*Node, bool) {
	from := at
	for at < r.end && r.text[at] == ' ' {
		at++
	}
	if at < r.end {
		return r.value(at, indent, depth)
	}
	r.next()
	switch {
	case r.indent > indent, r.indent == indent && r.isEntry():
		return r.block(r.indent, depth+1)
	default:
		r.p.last = from
		return r.p.new(Null, "", from, from), true
	}
}

// value parses the value at an offset of the line and moves to the line after it. It gives up if the value continues on
// the next line.
func (r *plainReader) value(at, indent, depth int) (*Node, bool) {
	var n *Node
	var end int
	switch c := r.text[at]; {
	case c == '[' || c == '{':
		n, end = r.flow(at, depth+1)
	case c == '"' || c == '\'':
		n, end = r.quoted(at)
	case isLetter(c) || c >= '0' && c <= '9' || c >= 0x80 || c == '/' || c == '(' || c == '$':
		end = r.plainEnd(at)
		if end > at {
			value := r.text[at:end]
			n = r.p.new(scalarKind(value), value, at, end)
		}
	}
	if n == nil || !r.onlyComment(end) {
		return nil, false
	}
	r.p.last = end
	r.next()
	return n, r.indent <= indent
}

// onlyComment reports whether the rest of the line is blank or a comment.
func (r *plainReader) onlyComment(at int) bool {
	rest := r.text[at:r.end]
	trimmed := strings.TrimLeft(rest, " ")
	return trimmed == "" || trimmed[0] == '#' && len(trimmed) < len(rest)
}

// plainEnd returns the end of a plain scalar, or at if it contains a colon that may be significant.
func (r *plainReader) plainEnd(at int) int {
	rest := r.text[at:r.end]
	if strings.Contains(rest, ": ") {
		return at
	}
	if comment := strings.Index(rest, " #"); comment >= 0 {
		rest = rest[:comment]
	}
	rest = strings.TrimRight(rest, " ")
	if strings.HasSuffix(rest, ":") {
		return at
	}
	return at + len(rest)
}

// quoted parses a quoted scalar; nil if it is not simple enough.
func (r *plainReader) quoted(at int) (*Node, int) {
	start, end, ok := r.quotation(at)
	if !ok {
		return nil, 0
	}
	return r.p.new(String, r.text[start:end], start, end), end + 1
}

// quotation returns the content of a quoted scalar that ends on the same line and contains no escapes.
func (r *plainReader) quotation(at int) (start, end int, ok bool) {
	length := strings.IndexByte(r.text[at+1:r.end], r.text[at])
	if length < 0 {
		return 0, 0, false
	}
	start, end = at+1, at+1+length
	if r.text[at] == '"' && strings.IndexByte(r.text[start:end], '\\') >= 0 || end+1 < r.end && r.text[end+1] == '\'' {
		return 0, 0, false
	}
	return start, end, true
}

// flow parses a flow list or map that ends on the same line. It returns its end, or nil if it gives up.
func (r *plainReader) flow(start, depth int) (*Node, int) {
	if depth > maxPlainDepth {
		return nil, 0
	}
	kind, closing := List, byte(']')
	if r.text[start] == '{' {
		kind, closing = Map, '}'
	}
	var items []*Node
	var pairs []Pair
	for at := r.skipSpaces(start + 1); at < r.end; at = r.skipSpaces(at) {
		if r.text[at] == closing {
			n := r.p.new(kind, "", start, at+1)
			n.Items, n.Pairs = items, pairs
			return n, at + 1
		}
		var name, value *Node
		if kind == Map {
			key, ok := r.key(at)
			if !ok || !isNewKey(key, pairs) {
				return nil, 0
			}
			name = r.p.new(key.kind(), key.name, key.start, key.start+len(key.name))
			at = r.skipSpaces(key.colon + 1)
		}
		if value, at = r.flowValue(at, depth); value == nil {
			return nil, 0
		}
		if kind == Map {
			pairs = append(pairs, Pair{Key: name, Value: value})
		} else {
			items = append(items, value)
		}
		if at = r.skipSpaces(at); at == r.end {
			return nil, 0
		}
		if r.text[at] == ',' {
			at++
		} else if r.text[at] != closing {
			return nil, 0
		}
	}
	return nil, 0
}

// skipSpaces returns the offset after the spaces of the line.
func (r *plainReader) skipSpaces(at int) int {
	for at < r.end && r.text[at] == ' ' {
		at++
	}
	return at
}

// flowValue parses one value in a flow collection.
func (r *plainReader) flowValue(at, depth int) (*Node, int) {
	if at == r.end {
		return nil, 0
	}
	switch c := r.text[at]; {
	case c == '[' || c == '{':
		return r.flow(at, depth+1)
	case c == '"' || c == '\'':
		return r.quoted(at)
	case !isLetter(c) && (c < '0' || c > '9') && c < 0x80:
		return nil, 0
	}
	end := at
	for end < r.end && (isWordByte(r.text[end]) || r.text[end] >= 0x80 ||
		strings.IndexByte(" /()+$%=<>;'", r.text[end]) >= 0) {
		end++
	}
	value := strings.TrimRight(r.text[at:end], " ")
	return r.p.new(scalarKind(value), value, at, at+len(value)), end
}

// scalarKind returns the kind of a plain scalar. It follows YAML 1.2; the library reads large integers as floats, 017
// as octal and 2020-01-01 as a time.
func scalarKind(s string) Kind {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return Null
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return Bool
	}
	if c := s[0]; (c < '0' || c > '9') && c != '+' && c != '-' && c != '.' {
		return String
	}
	switch {
	case isInteger(s):
		return Int
	case isFloat(s):
		return Float
	}
	return String
}

// isInteger reports whether s is an integer of YAML 1.2.
func isInteger(s string) bool {
	if _, err := strconv.ParseInt(s, 10, 64); err == nil {
		return true
	}
	_, ok := parseInteger(s)
	return ok
}

// isFloat reports whether s is a finite number: digits, a dot, an exponent.
func isFloat(s string) bool {
	digits := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits = true
		case c == '.' || c == '_' || c == '+' || c == '-':
		case (c == 'e' || c == 'E') && digits:
		default:
			return false
		}
	}
	if !digits {
		return false
	}
	_, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return err == nil
}

// isEndless reports whether s is YAML's infinity or "not a number".
func isEndless(s string) bool {
	switch strings.TrimLeft(s, "+-") {
	case ".inf", ".Inf", ".INF":
		return true
	}
	return s == ".nan" || s == ".NaN" || s == ".NAN"
}
