package expr

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

type tokenKind uint8

const (
	tokEnd  tokenKind = iota
	tokBad            // already reported; replaces an operand
	tokSkip           // already reported; ignored
	tokName
	tokSegment // .name or .0, the dot included
	tokConstant
	tokOpen
	tokClose
	tokListOpen
	tokListClose
	tokComma
	tokAnd
	tokOr
	tokNot
	tokBang
	tokContains
	tokIn
	tokIs
	tokEqual
	tokUnequal
	tokLess
	tokLessEqual
	tokGreater
	tokGreaterEqual
	tokPlus
	tokMinus
	tokStar
	tokSlash
	tokFloor
	tokPercent
)

// token is a part of the text with its offsets.
type token struct {
	kind       tokenKind
	start, end int
	value      value // of a constant
}

// punctuation are the tokens that are not words.
var punctuation = map[string]tokenKind{
	"(": tokOpen, ")": tokClose, "[": tokListOpen, "]": tokListClose, ",": tokComma,
	"==": tokEqual, "!=": tokUnequal, "<": tokLess, "<=": tokLessEqual, ">": tokGreater, ">=": tokGreaterEqual,
	"&&": tokAnd, "||": tokOr, "!": tokBang,
}

// arithmetic are the operators of dialects that calculate.
var arithmetic = map[string]tokenKind{
	"+": tokPlus, "-": tokMinus, "*": tokStar, "/": tokSlash, "//": tokFloor, "%": tokPercent,
}

// longer maps operators of other languages, which would be read as two tokens.
var longer = map[string]string{"===": "==", "!==": "!=", "<>": "!=", "=>": ">=", "=<": "<="}

// wordEnd returns the end of the word at i: letters, digits, _ and inner hyphens. There is no subtraction without
// spaces, so a hyphen can be part of a name.
func wordEnd(s string, i int) int {
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == '-' {
			next, _ := utf8.DecodeRuneInString(s[i+1:])
			if i == 0 || !isWord(next) || !isWord(lastRune(s[:i])) {
				break
			}
		} else if !isWord(r) {
			break
		}
		i += size
	}
	return i
}

// lastRune returns the last character of a text.
func lastRune(s string) rune {
	r, _ := utf8.DecodeLastRuneInString(s)
	return r
}

// isWord reports whether a character can be part of a name.
func isWord(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.M, r))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// lex returns the tokens of the text; the last one is tokEnd.
func (p *parser) lex() []token {
	var out []token
	for at := 0; at < len(p.text); {
		c := p.text[at]
		if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			at++
			continue
		}
		t, ok := token{}, false
		if p.rules.calculates {
			t, ok = p.arithmetic(at, out)
		}
		if !ok {
			t = p.next(at)
		}
		at = t.end
		if t.kind != tokSkip {
			out = append(out, t)
		}
	}
	return append(out, token{kind: tokEnd, start: len(p.text), end: len(p.text)})
}

// arithmetic reads an arithmetic operator. A minus sign before digits is one only after an operand.
func (p *parser) arithmetic(at int, before []token) (token, bool) {
	rest := p.text[at:]
	if strings.HasPrefix(rest, "**") {
		return token{}, false
	}
	if rest[0] == '-' && len(rest) > 1 && isDigit(rest[1]) {
		if len(before) == 0 {
			return token{}, false
		}
		switch before[len(before)-1].kind {
		case tokName, tokSegment, tokConstant, tokClose, tokListClose:
		default:
			return token{}, false
		}
	}
	for n := min(2, len(rest)); n > 0; n-- {
		if kind, ok := arithmetic[rest[:n]]; ok {
			return token{kind: kind, start: at, end: at + n}, true
		}
	}
	return token{}, false
}

// next reads the token at an offset, which is not white space.
func (p *parser) next(at int) token {
	rest := p.text[at:]
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case r == '"' || r == '\'':
		return p.lexString(at)
	case isDigit(rest[0]), r == '-' && len(rest) > 1 && isDigit(rest[1]):
		return p.lexNumber(at)
	case r == '.':
		return token{kind: tokSegment, start: at, end: max(at+1, wordEnd(p.text, at+1))}
	case isWord(r):
		return p.lexWord(at)
	}
	for n := min(3, len(rest)); n > 0; n-- {
		if meant, ok := longer[rest[:n]]; ok {
			p.addFix(CodeCharacter, at, at+n, fmt.Sprintf("There is no operator %q.", rest[:n]), meant)
			return token{kind: punctuation[meant], start: at, end: at + n}
		}
		if kind, ok := punctuation[rest[:n]]; ok {
			return token{kind: kind, start: at, end: at + n}
		}
	}
	if strings.HasPrefix(p.text[at:], "=!") && !strings.HasPrefix(p.text[at:], "=!=") {
		p.addFix(CodeSingleEquals, at, at+2, `"=!" is not an operator.`, "!=")
		return token{kind: tokUnequal, start: at, end: at + 2}
	}
	if r == '=' {
		p.addFix(CodeSingleEquals, at, at+1, `A single "=" does not compare.`, "==")
		return token{kind: tokEqual, start: at, end: at + 1}
	}
	return p.lexUnexpected(at, r, size)
}

// lexUnexpected reports an unexpected character and returns the token that was probably meant, so that parsing can
// continue.
func (p *parser) lexUnexpected(at int, r rune, size int) token {
	t := token{kind: tokBad, start: at, end: at + size}
	help := "Remove it, or put strings in quotes."
	fix := func(*diag.Diagnostic) {}
	operator := func(kind tokenKind, meant string) {
		t.kind, help = kind, fmt.Sprintf("Write %s.", meant)
		fix = func(d *diag.Diagnostic) { p.replaceWord(d, at, t.end, meant) }
	}
	quotes := func(marks, shown string) {
		t.end, help = p.afterQuote(t.end, marks), fmt.Sprintf("Write straight quotes: %s.", shown)
		fix = func(d *diag.Diagnostic) { p.addQuoteFix(d, at) }
	}
	rest := p.text[at:]
	switch {
	case r == utf8.RuneError && size == 1:
		p.add(CodeCharacter, at, t.end, "Save the file as UTF-8.", "The text is not valid UTF-8 here.")
		return t
	case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"), strings.HasPrefix(rest, "${"):
		t.kind, t.end, help = tokSkip, at+2, "Conditions are not templates: write the name alone, such as input.name."
	case r == '{' || r == '}':
		help = "Objects cannot be written in a condition; compare their parts."
	case r == '`':
		t.kind, help = tokSkip, "Put strings in quotes, and write names without quotes."
	case strings.ContainsRune("“”„«»", r):
		quotes("“”„«»", `"text"`)
	case strings.ContainsRune("‘’‚", r):
		quotes("‘’‚", "'text'")
	case strings.HasPrefix(rest, "**"):
		t.end = at + 2
		help = "Conditions do not support powers: multiply, such as x * x, or let a step compute the value."
	case strings.ContainsRune("+-*/%^", r):
		help = "Conditions do not support arithmetic: let a step compute the value."
	case r == '&':
		operator(tokAnd, "and")
	case r == '|':
		operator(tokOr, "or")
	case r == '≠':
		operator(tokUnequal, "!=")
	case r == '≤':
		operator(tokLessEqual, "<=")
	case r == '≥':
		operator(tokGreaterEqual, ">=")
	case r == '$' || r == '@':
		t.kind, help = tokSkip, "Write the name without it."
		next, _ := utf8.DecodeRuneInString(rest[1:])
		if unicode.IsLetter(next) && !isWord(lastRune(p.text[:at])) { // ann@example.com is no name
			fix = func(d *diag.Diagnostic) { p.replace(d, at, t.end, "") }
		}
	}
	shown := inQuotes(p.text[at:t.end])
	if t.end == at+size && !unicode.IsGraphic(r) {
		shown = fmt.Sprintf("The character U+%04X", r)
	}
	fix(p.add(CodeCharacter, at, t.end, help, "%s is not allowed in a condition.", shown))
	return t
}

// closingQuotes has the marks that can end a text in typographic quotes, by the mark that begins it.
var closingQuotes = map[rune]string{'“': "”", '„': "“”", '«': "»", '‘': "’", '‚': "‘’"}

// addQuoteFix adds a fix for a text in typographic quotes, if it is certain where the text ends: the first mark after
// its beginning ends it, and is no apostrophe.
func (p *parser) addQuoteFix(d *diag.Diagnostic, start int) {
	opening, size := utf8.DecodeRuneInString(p.text[start:])
	from := start + size
	i := strings.IndexAny(p.text[from:], "“”„«»‘’‚")
	if i < 0 {
		return
	}
	closing, size := utf8.DecodeRuneInString(p.text[from+i:])
	end := from + i + size
	if opening == '‘' || opening == '‚' {
		// An apostrophe at the end of a word looks like the end of the text.
		if strings.ContainsAny(p.text[end:], "‘’") {
			return
		}
	}
	if strings.ContainsRune(closingQuotes[opening], closing) && wordEnd(p.text, end) == end {
		p.replaceText(d, start, end, p.text[from:from+i])
	}
}

// afterQuote returns the end of a text in typographic quotes.
func (p *parser) afterQuote(from int, quotes string) int {
	i := strings.IndexAny(p.text[from:], quotes)
	if i < 0 {
		return len(p.text)
	}
	_, size := utf8.DecodeRuneInString(p.text[from+i:])
	return from + i + size
}

// lexWord reads a constant, an operator written with letters, or a name. Constants of other languages are reported and
// replaced, so that the rest can be checked.
func (p *parser) lexWord(at int) token {
	t := token{kind: tokName, start: at, end: wordEnd(p.text, at)}
	word := p.text[at:t.end]
	if v, ok := p.rules.constants[word]; ok {
		t.kind, t.value = tokConstant, v
		return t
	}
	folded := strings.ToLower(word)
	if kind, ok := p.rules.words[folded]; ok {
		t.kind = kind
		return t
	}
	if meant, ok := p.rules.elsewhere[folded]; ok {
		p.replace(p.add(CodeConstantName, at, t.end, fmt.Sprintf("Write %s.", meant),
			"%q is not a valid constant here.", word), at, t.end, meant)
		t.kind, t.value = tokConstant, p.rules.constants[meant]
	}
	return t
}

// lexNumber reads a JSON number. A number that continues like a name or with a second point, such as 2nd or 1.2.3, is
// one invalid token.
func (p *parser) lexNumber(at int) token {
	end := at
	if p.text[end] == '-' {
		end++
	}
	for end < len(p.text) {
		c := p.text[end]
		exponentSign := (c == '+' || c == '-') && (p.text[end-1] == 'e' || p.text[end-1] == 'E')
		if c == '.' || exponentSign {
			end++
			continue
		}
		next := wordEnd(p.text, end)
		if next == end {
			break
		}
		// wordEnd includes inner hyphens, so 2024-01-31 is one token.
		end = next
	}
	t := token{kind: tokConstant, start: at, end: end}
	word := p.text[at:end]
	f, err := strconv.ParseFloat(word, 64)
	switch {
	case !source.IsJSONNumber(word):
		found := p.add(CodeNumber, at, end,
			fmt.Sprintf("Write numbers like 3, -1.5 or 2e6, and put anything else in quotes: %s.", quote(word)),
			"%q is not a number.", word)
		if strings.Trim(word, "0123456789-") == "" && len(word) == len("2006-01-02") { // a date
			p.replaceText(found, at, end, word)
		}
		t.kind = tokBad
	case err != nil || math.IsInf(f, 0):
		p.add(CodeNumber, at, end, "Write a number below 1.8e308.", "The number %q is too large.", word)
		t.kind = tokBad
	}
	t.value = number(f)
	return t
}

// escapes are the escapes of JSON, so that every JSON string is valid, and \'.
var escapes = map[byte]byte{
	'"': '"', '\'': '\'', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// lexString reads a string in either kind of quotes.
func (p *parser) lexString(at int) token {
	var b strings.Builder
	closing := p.text[at]
	i := at + 1
	for i < len(p.text) && p.text[i] != closing {
		if p.text[i] != '\\' {
			r, size := utf8.DecodeRuneInString(p.text[i:])
			if r == utf8.RuneError && size == 1 {
				p.add(CodeCharacter, i, i+1, "Save the file as UTF-8.", "The text is not valid UTF-8 here.")
			}
			b.WriteString(p.text[i : i+size])
			i += size
			continue
		}
		i += p.lexEscape(&b, i)
	}
	t := token{kind: tokConstant, start: at, end: min(i+1, len(p.text)), value: text(b.String())}
	if i >= len(p.text) {
		p.add(CodeString, at, len(p.text), fmt.Sprintf("Add %c where the string ends.", closing),
			"The string has no closing quote.")
	}
	return t
}

// lexEscape appends the character of an escape and returns the escape's length.
func (p *parser) lexEscape(b *strings.Builder, at int) int {
	rest := p.text[at:]
	if len(rest) == 1 {
		return 1 // lexString reports the missing quote
	}
	if c, ok := escapes[rest[1]]; ok {
		b.WriteByte(c)
		return 2
	}
	if rest[1] == 'u' {
		if r, size, unpaired := source.UnicodeEscape(rest); size > 0 && !unpaired {
			b.WriteRune(r)
			return size
		}
		end := at + 2
		for end < len(p.text) && end < at+6 && isHex(p.text[end]) {
			end++
		}
		p.add(CodeEscape, at, end, `Write \u and four hexadecimal digits, such as \u00e9.`, "%s is not a character.",
			p.text[at:end])
		return end - at
	}
	_, size := utf8.DecodeRuneInString(rest[1:])
	p.add(CodeEscape, at, at+1+size, `Write \\ for a backslash; there are also \n, \t, \r, \", \' and \u00e9.`,
		"Unknown escape sequence %s.", rest[:1+size])
	return 1 + size
}

func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
