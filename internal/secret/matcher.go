package secret

import (
	"bytes"
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/xmaps"
)

// A matcher finds secrets in text, including values that programs have encoded.
//
// It does not list encodings. It decodes the text while it compares it with the needles: at each position, a character
// may be literal or start an escape, such as %2F, \u00e4, \/ or &amp;. Escapes are decoded up to maxDepth times, so
// that JSON in a string of JSON in an address is found as well. Base64 and hex forms are needles of their own, for
// every offset, and may be wrapped.
//
// Once a matcher is used, it no longer changes and is safe for concurrent use.
type matcher struct {
	roots [kinds]node
	pairs [256][256]uint8 // bit k: a text of kind k may begin with these two bytes
}

// kind is a way to compare text.
type kind uint8

const (
	exact   kind = iota // byte for byte
	encoded             // through decoders
	wrapped             // through decoders, and whitespace is skipped
	digits              // and also separators, and letters of either case match
	kinds   = iota
)

// maxDepth is the maximum nesting of escapes.
const maxDepth = 3

// maxSkipped is the maximum number of characters that are skipped at once: enough for a line end with indentation.
const maxSkipped = 16

// needle is a text to look for.
type needle struct {
	text string
	// mark returns what replaces an occurrence, from the occurrence and how its
	// characters are encoded.
	mark func(found string, units []string) string
}

// node is a node in the trie of all needles.
type node struct {
	on     []byte  // the bytes that continue a needle
	to     []*node // where each of them leads
	needle *needle // that ends here
}

func (n *node) next(c byte) *node {
	if i := bytes.IndexByte(n.on, c); i >= 0 {
		return n.to[i]
	}
	return nil
}

// add adds a needle. Of equal texts, the first one is kept.
func (m *matcher) add(k kind, n *needle) {
	at := &m.roots[k]
	for i := range len(n.text) {
		to := at.next(n.text[i])
		if to == nil {
			to = &node{}
			at.on, at.to = append(at.on, n.text[i]), append(at.to, to)
		}
		at = to
	}
	if at.needle == nil {
		at.needle = n
	}
	for first := range m.pairs {
		c := byte(first)
		literally, escaped := k.reads(c, n.text[0]), k.escapes(c)
		if !literally && !escaped {
			continue
		}
		for second := range m.pairs[first] {
			next := byte(second)
			if escaped && mayEncode(c, next, n.text[0]) ||
				literally && (k.reads(next, n.text[1]) || k.escapes(next) || k.skips(next)) {
				m.pairs[first][second] |= 1 << k
			}
		}
	}
}

// reads reports whether a literal byte matches the byte of a needle.
func (k kind) reads(c, needle byte) bool {
	return c == needle || k == digits && c >= 'A' && c <= 'F' && c-'A'+'a' == needle
}

// mayEncode reports whether an escape that starts with two bytes may represent the byte of a needle.
func mayEncode(c, next, needle byte) bool {
	switch {
	case beginsEscape(next): // an escape whose characters are encoded again
		return true
	case c == '+':
		return needle == ' '
	case c == '%':
		return isHex(next)
	case c == '&':
		return inEntity(next)
	}
	return next == 'u' || next == 'U' || next == 'x' || unshort[next] == string(needle)
}

// escapes reports whether a byte may begin an escape.
func (k kind) escapes(c byte) bool { return k != exact && beginsEscape(c) }

func beginsEscape(c byte) bool { return c == '%' || c == '\\' || c == '&' || c == '+' }

// skips reports whether a byte may occur between two bytes of a needle.
func (k kind) skips(c byte) bool {
	switch c {
	case '\n', '\r', '\t', ' ':
		return k == wrapped || k == digits
	case ':', '-':
		return k == digits
	}
	return false
}

// replace replaces each occurrence, leftmost first; of several that start at
// one position, the longest. Unless end is set, a suffix that may start an
// occurrence is returned as rest.
func (m *matcher) replace(text string, end bool) (out, rest string) {
	out, rest, _ = m.search(text, end)
	return out, rest
}

// search implements replace. work is the number of positions and characters that it examined.
//
// For each position, the first two bytes decide which kinds of needles may begin there (pairs), so most positions cost
// one look-up. Where one may begin, a search walks the trie of each kind from there. The longest match wins. If the
// text ends inside a possible match and more text may follow, the search stops at that position.
func (m *matcher) search(text string, end bool) (out, rest string, work int) {
	var b strings.Builder
	done := 0
	s := search{decoder: decoder{text: text}, final: end}
	for i := 0; i < len(text); {
		begins := uint8(1<<kinds - 1)
		if i+1 < len(text) {
			begins = m.pairs[text[i]][text[i+1]]
		}
		if i+2 < len(text) && text[i+1] == ' ' { // those that skip it continue with the byte behind it
			begins &= m.pairs[text[i]][text[i+2]] | 1<<exact | 1<<encoded
		}
		if begins == 0 || m.insideRun(text, i) {
			i++
			continue
		}
		s.found, s.last = nil, i
		for k := range kind(kinds) {
			if begins&(1<<k) != 0 {
				s.kind, s.root = k, &m.roots[k]
				s.seen = nil
				s.step(s.root, i, 0)
			}
		}
		if s.open {
			return b.String() + text[done:i], text[i:], s.work
		}
		if s.found == nil {
			i++
			continue
		}
		b.WriteString(text[done:i])
		b.WriteString(s.found.mark(text[i:s.last], m.units(text, i, s.last)))
		i, done = s.last, s.last
	}
	if done == 0 {
		return text, "", s.work
	}
	return b.String() + text[done:], "", s.work
}

// insideRun reports whether a place is so far from the end of a run of backslashes that they can only stand for
// backslashes, and no text begins with one. Escapes that are nested to maxDepth begin with 1<<(maxDepth-1) of them.
func (m *matcher) insideRun(text string, i int) bool {
	const run = 1<<maxDepth + 1
	if text[i] != '\\' || len(text)-i < run || strings.Count(text[i:i+run], `\`) < run {
		return false
	}
	for k := range kind(kinds) {
		if m.roots[k].next('\\') != nil {
			return false
		}
	}
	return true
}

// units returns how the characters of an occurrence are encoded. This is a separate pass because it is slow and few
// texts contain secrets.
func (m *matcher) units(text string, from, to int) []string {
	s := search{decoder: decoder{text: text[:to], units: true}, final: true, last: from}
	for k := range kind(kinds) {
		s.kind, s.root, s.seen = k, &m.roots[k], nil
		s.step(s.root, from, 0)
	}
	return s.best
}

// search looks for a needle at one place in a text. It explores all ways of reading the text: a character may be
// literal or the start of an escape. seen keeps the work linear when several ways meet.
type search struct {
	decoder
	final bool // nothing follows the text
	kind  kind
	root  *node
	path  []string // how the characters so far are encoded
	seen  map[state]bool

	open  bool // the text ends before it is clear whether a needle occurs
	found *needle
	last  int      // where the longest occurrence ends
	best  []string // how its characters are encoded
}

type state struct {
	at  *node
	pos int
}

// step continues at a node with the text from pos on.
func (s *search) step(at *node, pos, skipped int) {
	s.work++
	if at.needle != nil && pos > s.last {
		s.found, s.last = at.needle, pos
		if s.units {
			s.best = slices.Clone(s.path)
		}
	}
	if len(at.on) == 0 {
		return
	}
	if pos == len(s.text) {
		s.open = s.open || !s.final
		return
	}
	c := s.text[pos]
	if !s.kind.escapes(c) {
		s.advance(at, char{s.text[pos : pos+1], pos + 1, literal}, skipped)
		return
	}
	// Several paths may lead to the same state; one of them is enough.
	if at != s.root {
		here := state{at, pos}
		if s.seen[here] {
			return
		}
		xmaps.Set(&s.seen, here, true)
	}
	chars, cut := s.decode(pos, maxDepth)
	s.open = s.open || cut && !s.final
	for _, one := range chars {
		s.advance(at, one, skipped)
	}
}

// advance continues the search behind a character.
func (s *search) advance(at *node, c char, skipped int) {
	to := at
	for i := 0; i < len(c.text) && to != nil; i++ {
		to = to.next(c.text[i])
	}
	unit := c.unit
	if to == nil && s.kind == digits && len(c.text) == 1 && c.text[0] >= 'A' && c.text[0] <= 'F' {
		to = at.next(c.text[0] - 'A' + 'a')
		if unit == literal {
			unit = upper
		}
	}
	if to != nil {
		s.path = append(s.path, unit)
		s.step(to, c.end, 0)
		s.path = s.path[:len(s.path)-1]
	}
	if at != s.root && skipped < maxSkipped && len(c.text) == 1 && s.kind.skips(c.text[0]) {
		s.path = append(s.path, skip)
		if s.units {
			s.path[len(s.path)-1] += skippable[c.text] + c.unit
		}
		s.step(at, c.end, skipped+1)
		s.path = s.path[:len(s.path)-1]
	}
}

// Units describe how a character is encoded, but not which one it is: a
// letter for each kind of escape, see escapers. An escape whose own characters
// are encoded again is nested, followed by the units of these.
const (
	literal = "."
	upper   = "^"
	nested  = "*"
	skip    = "_" // a character that is not part of the needle, with its name and unit
)

var skippable = map[string]string{"\n": "n", "\r": "r", "\t": "t", " ": "b", ":": "c", "-": "m"}

// escapers are the kinds of escapes, by their letters. Each returns "" for a
// character that it does not encode.
var escapers = map[string]func(string) string{
	"+": func(s string) string { return pick(s == " ", "+") },
	"U": func(s string) string { return each(s, "%", "0123456789ABCDEF") },
	"l": func(s string) string { return each(s, "%", "0123456789abcdef") },
	"X": func(s string) string { return each(s, `\x`, "0123456789ABCDEF") },
	"x": func(s string) string { return each(s, `\x`, "0123456789abcdef") },
	"j": func(s string) string { return short[s] },
	"V": func(s string) string { return units16(s, "0123456789ABCDEF") },
	"u": func(s string) string { return units16(s, "0123456789abcdef") },
	"w": func(s string) string { // as Go and Python write what is beyond 16 bits
		r, _ := utf8.DecodeRuneInString(s)
		return fmt.Sprintf(`\U%08x`, r)
	},
	"d": func(s string) string { return number(s, "&#", 10) },
	"z": func(s string) string { return number(s, "&#0", 10) },
	"h": func(s string) string { return number(s, "&#x", 16) },
	"H": func(s string) string { // upper-case digits behind a lower-case x
		return strings.Replace(strings.ToUpper(number(s, "&#x", 16)), "X", "x", 1)
	},
	"n": func(s string) string { return named[s] },
}

var short = map[string]string{
	`"`: `\"`, `\`: `\\`, "/": `\/`, "\b": `\b`, "\f": `\f`, "\n": `\n`, "\r": `\r`, "\t": `\t`, "'": `\'`,
}

// unshort is the inverse of short, by the second character.
var unshort = func() map[byte]string {
	out := map[byte]string{}
	for plain, escape := range short {
		out[escape[1]] = plain
	}
	return out
}()

var named = map[string]string{"&": "&amp;", "<": "&lt;", ">": "&gt;", `"`: "&quot;", "'": "&apos;"}

func pick(yes bool, s string) string {
	if yes {
		return s
	}
	return ""
}

func each(s, prefix, hex string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteString(prefix)
		b.WriteByte(hex[s[i]>>4])
		b.WriteByte(hex[s[i]&15])
	}
	return b.String()
}

func units16(s, hex string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		b.WriteString(`\u`)
		for shift := 12; shift >= 0; shift -= 4 {
			b.WriteByte(hex[u>>shift&15])
		}
	}
	return b.String()
}

func number(s, prefix string, base int) string {
	r, size := utf8.DecodeRuneInString(s)
	if size != len(s) {
		return ""
	}
	return prefix + strconv.FormatInt(int64(r), base) + ";"
}

// char is a character as it is read from a text.
type char struct {
	text string // decoded; several bytes if it is not ASCII
	end  int    // where the next one begins
	unit string // how it is encoded
}

// decoder decodes the escapes of a text. It caches recent results, because nested escapes are read several times. The
// cache has a slot for each position modulo memoSize.
type decoder struct {
	text  string
	units bool // find out how characters are encoded
	work  int
	memo  *[maxDepth + 1][memoSize]decoded
}

// memoSize is the number of cached positions: more than the length of the longest escape.
const memoSize = 256

type decoded struct {
	next  int // place + 1; 0 is none
	chars []char
	cut   bool
}

// decode returns the characters that may begin at a place, with escapes decoded
// up to depth times. cut reports that the text ends within an escape.
func (d *decoder) decode(pos, depth int) (out []char, cut bool) {
	if pos >= len(d.text) {
		return nil, true
	}
	if d.memo == nil {
		d.memo = new([maxDepth + 1][memoSize]decoded)
	}
	known := &d.memo[depth][pos%memoSize]
	if known.next == pos+1 {
		return known.chars, known.cut
	}
	d.work++
	if depth == 0 || !beginsEscape(d.text[pos]) {
		out = []char{{d.text[pos : pos+1], pos + 1, literal}}
	} else {
		out, cut = d.escapes(pos, depth)
	}
	*known = decoded{pos + 1, out, cut}
	return out, cut
}

// escapes decodes one more level: it returns the characters of the level below,
// and the characters that escapes made of them represent.
func (d *decoder) escapes(pos, depth int) (out []char, cut bool) {
	below, cut := d.decode(pos, depth-1)
	out = slices.Clip(below)
	for _, c := range below {
		if len(c.text) != 1 || !beginsEscape(c.text[0]) {
			continue
		}
		r := reader{decoder: d, pos: c.end, depth: depth - 1}
		if d.units {
			r.inner = []string{c.unit}
		}
		one, ok := r.escape(c.text[0])
		cut = cut || r.cut
		if ok &&
			!slices.ContainsFunc(out, func(other char) bool { return other.text == one.text && other.end == one.end }) {
			out = append(out, one)
		}
	}
	return out, cut
}

// reader reads the characters of one escape, each of which may be encoded itself.
type reader struct {
	*decoder
	pos   int
	depth int
	inner []string // units of the characters so far
	raw   []byte   // the characters behind the first one
	cut   bool
}

// char reads one character that is wanted: the most decoded form that fits.
func (r *reader) char(wanted func(byte) bool) (byte, bool) {
	if r.pos < len(r.text) && (r.depth == 0 || !beginsEscape(r.text[r.pos])) {
		c := r.text[r.pos]
		if !wanted(c) {
			return 0, false
		}
		r.add(c, r.pos+1, literal)
		return c, true
	}
	chars, cut := r.decode(r.pos, r.depth)
	r.cut = r.cut || cut
	for _, c := range slices.Backward(chars) {
		if len(c.text) == 1 && wanted(c.text[0]) {
			r.add(c.text[0], c.end, c.unit)
			return c.text[0], true
		}
	}
	return 0, false
}

func (r *reader) add(c byte, end int, unit string) {
	r.pos, r.raw = end, append(r.raw, c)
	if r.units {
		r.inner = append(r.inner, unit)
	}
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// hex reads n digits.
func (r *reader) hex(n int) (uint64, bool) {
	from := len(r.raw)
	for range n {
		if _, ok := r.char(isHex); !ok {
			return 0, false
		}
	}
	value, err := strconv.ParseUint(string(r.raw[from:]), 16, 32)
	return value, err == nil
}

// escape reads an escape behind its first character.
func (r *reader) escape(first byte) (char, bool) {
	switch first {
	case '+':
		return r.is(first, " ", "+")
	case '%':
		v, ok := r.hex(2)
		if !ok {
			return char{}, false
		}
		return r.is(first, string([]byte{byte(v)}), "Ul")
	case '&':
		return r.entity()
	}
	c, ok := r.char(func(c byte) bool { return strings.IndexByte(`"\/bfnrt'uUx`, c) >= 0 })
	switch {
	case !ok:
		return char{}, false
	case c == 'x':
		v, ok := r.hex(2)
		if !ok {
			return char{}, false
		}
		return r.is(first, string([]byte{byte(v)}), "xX")
	case c == 'u':
		return r.utf16(first)
	case c == 'U':
		v, ok := r.hex(8)
		if !ok || v > utf8.MaxRune {
			return char{}, false
		}
		return r.is(first, string(rune(v)), "w")
	}
	return r.is(first, unshort[c], "j")
}

// utf16 reads the digits of one escape of JSON, or of a pair of them.
func (r *reader) utf16(first byte) (char, bool) {
	v, ok := r.hex(4)
	if !ok {
		return char{}, false
	}
	is := rune(v)
	if utf16.IsSurrogate(is) {
		for _, want := range []byte(`\u`) {
			if _, ok := r.char(func(c byte) bool { return c == want }); !ok {
				return char{}, false
			}
		}
		low, ok := r.hex(4)
		if !ok {
			return char{}, false
		}
		is = utf16.DecodeRune(is, rune(low))
	}
	return r.is(first, string(is), "uV")
}

// maxEntity is the maximum length of the name or number of an entity.
const maxEntity = 32

func (r *reader) entity() (char, bool) {
	for range maxEntity {
		c, ok := r.char(inEntity)
		if !ok {
			return char{}, false
		}
		if c == ';' {
			whole := "&" + string(r.raw)
			if is := html.UnescapeString(whole); is != whole {
				return r.is('&', is, "nzdhH")
			}
			return char{}, false
		}
	}
	return char{}, false
}

func inEntity(c byte) bool {
	return c == '#' || c == ';' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// is returns the character that an escape represents. Its kind is the first of
// the letters whose encoder returns what was read; a kind that has no letter
// still decodes, but cannot be encoded again.
func (r *reader) is(first byte, text, letters string) (char, bool) {
	out := char{text: text, end: r.pos, unit: unknown}
	if !r.units {
		return out, true
	}
	read := string(first) + string(r.raw)
	for _, letter := range strings.Split(letters, "") {
		if escapers[letter](text) != read {
			continue
		}
		out.unit = letter
		if slices.ContainsFunc(r.inner, func(u string) bool { return u != literal }) {
			out.unit = nested + letter + strings.Join(r.inner, "")
		}
		break
	}
	return out, true
}

// unknown is the unit of a character that cannot be encoded again.
const unknown = "?"
