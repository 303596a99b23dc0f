package python

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokNewline
	tokIndent
	tokDedent
	tokName
	tokNumber
	tokString
	tokOp
)

// token is a token of the code. In tokens of indentation and line ends, at may be empty.
type token struct {
	kind  tokenKind
	at    Range
	text  string // of a name or an operator
	value any    // of a number or a plain string
	// For an f-string: the range of its content and whether it is a raw string.
	fstring, raw bool
	inner        Range
}

// lexer splits text[pos:end] into tokens. The range allows a second lexer to read the expressions inside of f-strings.
// Offsets always refer to the whole text, so that errors inside of f-strings have their places.
type lexer struct {
	text    string
	pos     int
	end     int
	inside  int // number of open brackets
	nested  int // number of enclosing f-strings
	indents []int
	out     []token
	fail    func(at Range, help, format string, args ...any)
}

// keywords are reserved words.
var keywords = map[string]bool{
	"False": true, "None": true, "True": true, "and": true, "as": true, "assert": true, "async": true,
	"await": true, "break": true,
	"class": true, "continue": true, "def": true, "del": true, "elif": true, "else": true, "except": true,
	"finally": true,
	"for":     true, "from": true, "global": true, "if": true, "import": true, "in": true, "is": true, "lambda": true,
	"nonlocal": true, "not": true, "or": true, "pass": true, "raise": true, "return": true, "try": true, "while": true,
	"with": true, "yield": true,
}

// operators in order of decreasing length.
var operators = []string{
	"**=", "//=", ">>=", "<<=", "...",
	"!=", "->", ":=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@=", "==", "<=", ">=", "//", "**", "<<", ">>",
	"+", "-", "*", "/", "%", "@", "&", "|", "^", "~", "<", ">", "(", ")", "[", "]", "{", "}", ",", ":", ".", ";", "=",
}

// emit adds a token that ends at the current position.
func (l *lexer) emit(kind tokenKind, start int, text string) {
	l.out = append(l.out, token{kind: kind, at: Range{start, l.pos}, text: text})
}

// lines tokenizes a module, including indentation.
func (l *lexer) lines() []token {
	l.indents = []int{0}
	begin := true // at the beginning of a logical line
	for l.pos < l.end {
		if begin && !l.indentation() {
			continue
		}
		begin = l.next() && l.out[len(l.out)-1].kind == tokNewline
	}
	if n := len(l.out); n > 0 && l.out[n-1].kind != tokNewline {
		l.emit(tokNewline, l.pos, "")
	}
	for range l.indents[1:] {
		l.emit(tokDedent, l.pos, "")
	}
	l.emit(tokEnd, l.pos, "")
	return l.out
}

// indentation reads the beginning of a line. It returns false if the line is blank.
func (l *lexer) indentation() bool {
	start, width := l.pos, 0
measure:
	for ; l.pos < l.end; l.pos++ {
		switch l.text[l.pos] {
		case ' ':
			width++
		case '\t':
			// As in CPython, a tab goes to the next multiple of 8.
			width = (width/8 + 1) * 8
		case '\f', '\r':
		default:
			break measure
		}
	}
	if l.pos < l.end && l.text[l.pos] == '#' {
		l.comment()
	}
	if l.pos >= l.end {
		return false
	}
	if l.text[l.pos] == '\n' {
		l.pos++
		return false
	}
	top := l.indents[len(l.indents)-1]
	switch {
	case width > top:
		l.indents = append(l.indents, width)
		l.emit(tokIndent, start, "")
	case width < top:
		for width < l.indents[len(l.indents)-1] {
			l.indents = l.indents[:len(l.indents)-1]
			l.emit(tokDedent, l.pos, "")
		}
		if width != l.indents[len(l.indents)-1] {
			l.fail(Range{start, l.pos}, "Use the indentation of one of the lines above.",
				"The indentation of this line matches no enclosing block.")
			l.indents = append(l.indents, width)
			l.emit(tokIndent, start, "")
		}
	}
	return true
}

func (l *lexer) comment() { l.skip(func(c byte) bool { return c != '\n' }) }

// skip skips the bytes that satisfy a condition.
func (l *lexer) skip(is func(c byte) bool) {
	for l.pos < l.end && is(l.text[l.pos]) {
		l.pos++
	}
}

func (l *lexer) rest() string { return l.text[l.pos:l.end] }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// next reads one token. It returns false if there was only white space.
func (l *lexer) next() bool {
	c := l.text[l.pos]
	start := l.pos
	switch {
	case c == ' ' || c == '\t' || c == '\r' || c == '\f':
		l.pos++
		return false
	case c == '#':
		l.comment()
		return false
	case c == '\n':
		if l.inside == 0 {
			l.emit(tokNewline, start, "")
		}
		l.pos++
		return l.inside == 0
	case c == '\\':
		rest := strings.TrimPrefix(l.text[l.pos+1:l.end], "\r")
		if strings.HasPrefix(rest, "\n") {
			l.pos = l.end - len(rest) + 1
			return false
		}
		l.pos++
		l.fail(Range{start, l.pos}, "Remove it.", "A backslash is only allowed at the end of a line.")
		return false
	case isDigit(c), c == '.' && l.pos+1 < l.end && isDigit(l.text[l.pos+1]):
		l.number()
		return true
	}
	if n := l.prefix(); n >= 0 {
		l.str(n)
		return true
	}
	r, size := utf8.DecodeRuneInString(l.rest())
	if r == '_' || unicode.IsLetter(r) {
		for l.pos < l.end {
			r, size = utf8.DecodeRuneInString(l.rest())
			if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.Is(unicode.M, r) {
				break
			}
			l.pos += size
		}
		l.emit(tokName, start, l.text[start:l.pos])
		return true
	}
	for _, op := range operators {
		if strings.HasPrefix(l.rest(), op) {
			l.pos += len(op)
			switch op {
			case "(", "[", "{":
				l.inside++
			case ")", "]", "}":
				l.inside = max(0, l.inside-1)
			}
			l.emit(tokOp, start, op)
			return true
		}
	}
	l.pos += size
	l.fail(Range{start, l.pos}, "Remove it, or put text in quotes.", "Unexpected character %q.", l.text[start:l.pos])
	return false
}

// number reads a number. It accepts underscores anywhere in it.
func (l *lexer) number() {
	start := l.pos
	inNumber := func(c byte) bool { return isDigit(c) || c == '_' }
	rest := strings.ToLower(l.text[start:min(start+2, l.end)])
	if rest == "0x" || rest == "0o" || rest == "0b" {
		l.pos += 2
		l.skip(func(c byte) bool { return inNumber(c) || strings.IndexByte("abcdefABCDEF", c) >= 0 })
		l.integer(start, 0)
		return
	}
	l.skip(inNumber)
	float := l.pos < l.end && l.text[l.pos] == '.'
	if float {
		l.pos++
		l.skip(inNumber)
	}
	if l.pos < l.end && (l.text[l.pos] == 'e' || l.text[l.pos] == 'E') {
		at := l.pos + 1
		if at < l.end && (l.text[at] == '+' || l.text[at] == '-') {
			at++
		}
		if at < l.end && isDigit(l.text[at]) {
			float, l.pos = true, at
			l.skip(inNumber)
		}
	}
	if !float {
		l.integer(start, 10)
		return
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(l.text[start:l.pos], "_", ""), 64)
	l.emitNumber(start, f, err == nil || f != 0)
}

// emitNumber adds a number, and reports it if it is not valid.
func (l *lexer) emitNumber(start int, value any, valid bool) {
	if !valid {
		l.fail(Range{start, l.pos}, "Write a number such as 3, 0.5 or 1e6.", "%q is not a number.", l.text[start:l.pos])
	}
	l.out = append(l.out, token{kind: tokNumber, at: Range{start, l.pos}, value: value})
	l.suffix(start)
}

// integer adds an integer of the given base. As in Python, it must not begin with 0 unless it is zero.
func (l *lexer) integer(start, base int) {
	text := strings.ReplaceAll(l.text[start:l.pos], "_", "")
	n, ok := new(big.Int).SetString(text, base)
	octal := base == 10 && len(text) > 1 && text[0] == '0' && strings.Trim(text, "0") != ""
	if ok = ok && len(text) <= maxDigits && !octal; !ok {
		n = new(big.Int)
	}
	if n.IsInt64() {
		l.emitNumber(start, n.Int64(), ok)
	} else {
		l.emitNumber(start, n, ok)
	}
}

// suffix reads the j of an imaginary number, and reports other letters directly after a number.
func (l *lexer) suffix(start int) {
	if l.pos < l.end && (l.text[l.pos] == 'j' || l.text[l.pos] == 'J') {
		l.pos++
		last := &l.out[len(l.out)-1]
		last.at.End, last.value = l.pos, Opaque("complex")
	}
	r, _ := utf8.DecodeRuneInString(l.rest())
	if l.pos < l.end && (r == '_' || unicode.IsLetter(r)) {
		at := l.pos
		l.skip(func(c byte) bool {
			return c == '_' || c >= utf8.RuneSelf || unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c))
		})
		if word := l.text[at:l.pos]; keywords[word] { // 1if x else y is legal
			l.pos = at
			return
		}
		l.fail(Range{start, l.pos}, "Write a number such as 3, 0.5 or 1e6, or put text in quotes.",
			"%q is not a number.", l.text[start:l.pos])
	}
}

const maxDigits = 4300 // the limit of CPython

// prefix returns the length of the string prefix at the current position, such as rf, or -1 if no string begins there.
func (l *lexer) prefix() int {
	for n := 0; n <= 2 && l.pos+n < l.end; n++ {
		switch c := l.text[l.pos+n]; {
		case c == '"' || c == '\'':
			return n
		case strings.IndexByte("rRbBfFuU", c) < 0:
			return -1
		}
	}
	return -1
}

// str reads a string with a prefix of n letters. In an f-string it has to find the end of every replacement field,
// because the strings in them may use the same quotes (PEP 701).
func (l *lexer) str(n int) {
	start := l.pos
	prefix := strings.ToLower(l.text[start : start+n])
	l.pos += n
	quote := l.text[l.pos : l.pos+1]
	if strings.HasPrefix(l.rest(), strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	l.pos += len(quote)
	inner := Range{l.pos, l.pos}
	closed, fields := false, strings.Contains(prefix, "f")
	for l.pos < l.end {
		if prefix == "f" && l.text[l.pos] == '\\' && strings.HasPrefix(l.rest(), `\N{`) {
			l.pos = afterEscape(l.text[:l.end], l.pos)
			continue
		}
		if fields && l.text[l.pos] == '{' {
			if strings.HasPrefix(l.rest(), "{{") {
				l.pos += 2
				continue
			}
			if end, ok := l.fieldEnd(l.pos, len(quote) == 3); ok {
				l.pos = end
				continue
			}
			fields = false // reported by the parser; do not search again
		}
		if strings.HasPrefix(l.rest(), quote) {
			closed = true
			break
		}
		if l.text[l.pos] == '\\' && l.pos+1 < l.end {
			l.pos++
		} else if l.text[l.pos] == '\n' && len(quote) == 1 {
			break
		}
		_, size := utf8.DecodeRuneInString(l.rest())
		l.pos += size
	}
	inner.End = min(l.pos, l.end)
	if closed {
		l.pos += len(quote)
	} else {
		l.pos = inner.End
		l.fail(Range{start, l.pos}, fmt.Sprintf("Write %s where it ends.", quote), "This string is never closed.")
	}
	t := token{
		kind: tokString, at: Range{start, l.pos}, inner: inner,
		raw: strings.Contains(prefix, "r"), fstring: strings.Contains(prefix, "f"),
	}
	switch {
	case strings.Contains(prefix, "b"):
		t.value = Opaque("bytes")
	case !t.fstring:
		t.value = l.content(inner, t.raw)
	}
	l.out = append(l.out, t)
}

// afterEscape returns the offset after the backslash at i and what belongs to it.
func afterEscape(text string, i int) int {
	if strings.HasPrefix(text[i:], `\N{`) {
		if n := strings.IndexByte(text[i:], '}'); n >= 0 {
			return i + n + 1
		}
	}
	return i + 2
}

// fieldEnd returns the offset after the replacement field of an f-string that begins with the brace at pos. Strings
// inside of the field may use the quotes of the f-string.
func (l *lexer) fieldEnd(pos int, lines bool) (int, bool) {
	if l.nested++; l.nested > maxNestedStrings {
		l.nested--
		return 0, false
	}
	defer func() { l.nested-- }()
	limit := l.end
	if !lines {
		if n := strings.IndexByte(l.text[pos:l.end], '\n'); n >= 0 {
			limit = pos + n
		}
	}
	i := l.exprEnd(pos+1, limit)
	for i < limit && (l.text[i] == '=' || l.text[i] == ' ') {
		i++
	}
	if i+1 < limit && l.text[i] == '!' {
		i += 2
	}
	if i < limit && l.text[i] == ':' {
		i = l.specEnd(i+1, limit, lines)
	}
	return i + 1, i < limit && l.text[i] == '}'
}

// specEnd returns the offset of the brace that ends the format specification at i, or the limit.
func (l *lexer) specEnd(i, limit int, lines bool) int {
	for i < limit && l.text[i] != '}' {
		if l.text[i] != '{' {
			i++
			continue
		}
		after, ok := l.fieldEnd(i, lines)
		if !ok {
			return limit
		}
		i = after
	}
	return i
}

// exprEnd returns the offset of the first !, :, = or } outside of brackets and strings, which ends the expression of a
// replacement field that begins at pos, or the limit. A second lexer reads the tokens up to there; the brace of the
// field counts as its first open bracket. It reports no errors, because the parser reads the expression again.
func (l *lexer) exprEnd(pos, limit int) int {
	silent := func(Range, string, string, ...any) {}
	in := &lexer{text: l.text, pos: pos, end: limit, inside: 1, nested: l.nested, fail: silent}
	for in.pos < limit {
		if rest := l.text[in.pos:limit]; in.inside == 1 && rest[0] == '!' && !strings.HasPrefix(rest, "!=") {
			return in.pos
		}
		if !in.next() {
			continue
		}
		t := in.out[len(in.out)-1]
		if in.inside == 0 || in.inside == 1 && t.kind == tokOp && (t.text == ":" || t.text == ":=" || t.text == "=") {
			return t.at.Start
		}
	}
	return limit
}

// maxNestedStrings limits replacement fields inside of replacement fields.
const maxNestedStrings = 6

var simpleEscapes = map[byte]string{
	'\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f",
	'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", '\n': "",
}

// content returns the value of a string: escapes are replaced unless it is raw, and every line ending is \n.
func (l *lexer) content(at Range, raw bool) string {
	text := l.text[at.Start:at.End]
	if raw || strings.IndexByte(text, '\\') < 0 {
		return strings.ReplaceAll(text, "\r\n", "\n")
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		switch {
		case strings.HasPrefix(text[i:], "\r\n"):
			i++
			continue
		case strings.HasPrefix(text[i:], "\\\r\n"):
			i += 3
			continue
		}
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			i++
			continue
		}
		c := text[i+1]
		if s, ok := simpleEscapes[c]; ok {
			b.WriteString(s)
			i += 2
			continue
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		switch {
		case digits > 0:
			end := min(i+2+digits, len(text))
			n, err := strconv.ParseUint(text[i+2:end], 16, 32)
			if err != nil || end != i+2+digits || n > unicode.MaxRune {
				l.fail(Range{at.Start + i, at.Start + end}, `Write \x and two, or \u and four hexadecimal digits.`,
					"%s is not a valid escape.", text[i:end])
			}
			b.WriteRune(rune(n))
			i = end
		case c >= '0' && c <= '7':
			end := i + 1
			for end < len(text) && end < i+4 && text[end] >= '0' && text[end] <= '7' {
				end++
			}
			n, _ := strconv.ParseUint(text[i+1:end], 8, 32)
			b.WriteRune(rune(n))
			i = end
		case c == 'N':
			end := strings.IndexByte(text[i:], '}')
			if end < 0 || !strings.HasPrefix(text[i+2:], "{") {
				l.fail(Range{at.Start + i, at.Start + i + 2}, `Write \N{NAME}.`,
					`\N is not followed by the name of a character.`)
				end = 1
			}
			b.WriteRune(utf8.RuneError) // the value does not matter
			i += end + 1
		default: // Python keeps unknown escapes
			b.WriteByte('\\')
			i++
		}
	}
	return b.String()
}
