package text

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// ParseJSON parses a file as one JSON value. It reports common errors (comments, missing or superfluous commas, other
// quotes, keys without quotes) and continues as if the text were correct, so that one error does not hide the next. It
// returns nil only with an error.
func ParseJSON(f *source.File) (*Node, diag.List) {
	p := &jsonParser{file: f, text: f.Text}
	if strings.HasPrefix(p.text, "\ufeff") {
		p.at = len("\ufeff")
	}
	p.space()
	if p.at == len(p.text) {
		p.report(CodeJSONSyntax, 0, 0, "Write a JSON object: { … }.", "The file is empty.")
		return nil, p.out
	}
	n := p.value(0)
	if p.space(); n != nil && p.at < len(p.text) && !p.abandoned {
		p.report(CodeJSONSyntax, p.at, p.at+1, "Remove it; perhaps a bracket closes too early further up.",
			"There is more text after the end of the JSON value.")
	}
	return n, p.out.Sorted()
}

// jsonParser parses one file. Every method that meets an error reports it and assumes what the author probably meant;
// only where the structure is lost does it set abandoned, and all methods return.
type jsonParser struct {
	file      *source.File
	text      string
	at        int
	out       diag.List
	abandoned bool // parsing was abandoned; further errors are not reported
	comma     int  // position of the last comma between two entries of what is open; -1 if there is none
	unsure    bool // entries run together, so what follows may be part of a text: there are no more fixes
	next      int  // end of the white space that was last skipped
}

// maxEdits limits the memory for a fix: there is none if it needs more edits.
const maxEdits = 1000

// report adds an error at offsets in the file.
func (p *jsonParser) report(code diag.Code, start, end int, help, format string, args ...any) *diag.Diagnostic {
	return p.out.Errorf(code, p.file.Span(start, end), help, format, args...)
}

// fix returns a diagnostic that gets a fix, or nil if there should be none.
func (p *jsonParser) fix(d *diag.Diagnostic) *diag.Diagnostic {
	if p.unsure {
		return nil
	}
	return d
}

// fixWord is fix for a word. If more words follow, they probably belong together.
func (p *jsonParser) fixWord(d *diag.Diagnostic) *diag.Diagnostic {
	if rest := strings.TrimLeft(p.text[p.at:], " \t"); rest != "" && strings.IndexByte(",:]}\r\n", rest[0]) < 0 {
		p.unsure = true
	}
	return p.fix(d)
}

// space skips white space and comments, and reports the comments.
func (p *jsonParser) space() {
	for p.at < len(p.text) {
		rest := p.text[p.at:]
		switch {
		case strings.ContainsRune(" \t\r\n", rune(rest[0])):
			p.at++
		case strings.HasPrefix(rest, "//"), strings.HasPrefix(rest, "/*"), rest[0] == '#':
			p.comment(rest)
		default:
			return
		}
	}
}

// comment reports a comment, of any common form, and skips it.
func (p *jsonParser) comment(rest string) {
	start, end := p.at, len(rest)
	if strings.HasPrefix(rest, "/*") {
		if i := strings.Index(rest, "*/"); i >= 0 {
			end = i + 2
		}
	} else if i := strings.IndexByte(rest, '\n'); i >= 0 {
		end = i
	}
	p.at += end
	line, _, _ := strings.Cut(rest[:end], "\n")
	p.report(CodeJSONSyntax, start, start+len(strings.TrimRight(line, "\r")),
		`Remove it, or keep it in a key such as "description".`, "JSON has no comments.").
		Remove("the comment", p.file.Span(start, start+end))
}

// value parses one value, or returns nil if there is none.
func (p *jsonParser) value(depth int) *Node {
	p.space()
	if depth > maxDepth {
		p.report(CodeJSONSyntax, p.at, p.at+1, "Flatten it.", "The file is nested more than %d levels deep.", maxDepth)
		p.abandoned = true
		return nil
	}
	if p.at == len(p.text) {
		return nil
	}
	switch c := p.text[p.at]; {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.list(depth)
	case c == '"' || c == '\'':
		return p.str()
	case c == '-' || c == '+' || c == '.' || c >= '0' && c <= '9':
		return p.number()
	}
	return p.word()
}

// object parses an object. Of equal keys, the first one wins.
func (p *jsonParser) object(depth int) *Node {
	open := p.at
	n := &Node{Kind: Map}
	p.comma = -1
	p.at++
	seen := map[string]*Node{}
	for {
		p.space()
		if p.closes(open, '}') {
			break
		}
		key := p.key()
		if key == nil {
			break
		}
		if first := seen[key.Value]; first != nil {
			p.report(CodeJSONDuplicate, key.Span.Start, key.Span.End, "Keep one of the two.",
				"The key %q appears twice in one object.", key.Value).Relate(first.Span, "first defined here")
			n.repeated = append(n.repeated, key.Value)
		}
		p.space()
		if p.at < len(p.text) && p.text[p.at] == ':' {
			p.at++
		} else {
			p.report(CodeJSONSyntax, key.Span.Start, key.Span.End, "Write \"key\": value.",
				"There is no colon after the key %q.", key.Value)
		}
		p.space()
		value := &Node{Kind: Null, Span: p.file.Span(p.at, p.at)}
		if p.at < len(p.text) && (p.text[p.at] == ',' || p.text[p.at] == '}') {
			p.report(CodeJSONSyntax, key.Span.Start, key.Span.End, "Write a value after the colon, or remove the key.",
				"The key %q has no value.", key.Value)
		} else if got := p.value(depth + 1); got != nil {
			value = got
		}
		if seen[key.Value] == nil {
			seen[key.Value] = key
			n.Pairs = append(n.Pairs, Pair{Key: key, Value: value})
		}
		if !p.separator('}') {
			break
		}
	}
	n.Span = p.file.Span(open, p.at)
	return n
}

// list parses a list.
func (p *jsonParser) list(depth int) *Node {
	open := p.at
	n := &Node{Kind: List}
	p.comma = -1
	p.at++
	for {
		p.space()
		if p.closes(open, ']') {
			break
		}
		item := p.value(depth + 1)
		if item == nil {
			break
		}
		n.Items = append(n.Items, item)
		if !p.separator(']') {
			break
		}
	}
	n.Span = p.file.Span(open, p.at)
	return n
}

// closes consumes the closing bracket, or reports that it is missing.
func (p *jsonParser) closes(open int, bracket byte) bool {
	if p.abandoned {
		return true
	}
	if p.at < len(p.text) && p.text[p.at] == ',' {
		first := p.at
		var commas []source.Span
		for p.at < len(p.text) && p.text[p.at] == ',' { // several commas are reported once
			if len(commas) <= maxEdits {
				commas = append(commas, p.file.Span(p.at, p.at+1))
			}
			p.at++
			p.space()
		}
		found := p.report(CodeJSONComma, first, first+1, "Remove the comma.",
			"There is a comma with nothing before it.")
		if p.comma >= 0 && p.at < len(p.text) && p.text[p.at] == bracket { // nothing follows that one, either
			commas = slices.Insert(commas, 0, p.file.Span(p.comma, p.comma+1))
		}
		if len(commas) <= maxEdits {
			p.fix(found).Remove("the comma", commas...)
		}
	}
	if p.at == len(p.text) {
		p.report(CodeJSONUnclosed, open, open+1,
			fmt.Sprintf("Add %q where it ends; perhaps the end of the file is missing.", string(bracket)),
			"%q is never closed.", p.text[open:open+1])
		p.abandoned = true
		return true
	}
	switch c := p.text[p.at]; c {
	case bracket:
		p.at++
		return true
	case '}', ']':
		p.report(CodeJSONUnclosed, p.at, p.at+1, fmt.Sprintf("Write %q before it.", string(bracket)),
			"%q does not close what is open here.", string(c)).Relate(p.file.Span(open, open+1), "opened here")
		p.abandoned = true
		return true
	}
	return false
}

// separator consumes the comma between two entries. It returns false after an error from which parsing cannot continue.
func (p *jsonParser) separator(bracket byte) bool {
	if p.abandoned {
		return false
	}
	end := p.at
	p.space()
	if p.at == len(p.text) {
		return true // closes reports the missing bracket
	}
	switch c := p.text[p.at]; {
	case c == ',':
		comma := p.at
		p.comma = comma
		p.at++
		if p.space(); p.at < len(p.text) && p.text[p.at] == bracket {
			found := p.report(CodeJSONComma, comma, comma+1, "Remove the comma.",
				"There is a comma with nothing after it.")
			p.fix(found).Remove("the comma", p.file.Span(comma, comma+1))
		}
	case c == '}' || c == ']':
	case c == '"' || c == '\'' || c == '{' || c == '[' || c == '-' || IsIdentByte(c):
		found := p.report(CodeJSONComma, end, end, "Write a comma here.", "There is no comma between two entries.")
		p.unsure = p.unsure || end == p.at || !p.entryFollows(bracket)
		p.fix(found).Write(p.file.Span(end, end), ",")
	default:
		p.reportUnexpected()
	}
	return !p.abandoned
}

// entryFollows reports whether what comes next is certainly another entry of what the bracket closes, and not a part of
// a string with quotes inside it.
func (p *jsonParser) entryFollows(bracket byte) bool {
	rest := p.text[p.at:]
	if bracket == ']' && strings.IndexByte("\"'{[-0123456789", rest[0]) >= 0 {
		return true
	}
	end := 0
	if rest[0] == '"' || rest[0] == '\'' {
		end = strings.IndexByte(rest[1:], rest[0]) + 2
	} else {
		for end < len(rest) && IsIdentByte(rest[end]) {
			end++
		}
	}
	if bracket == ']' {
		return slices.Contains([]string{"true", "false", "null"}, rest[:end])
	}
	return strings.HasPrefix(strings.TrimLeft(rest[end:], " \t\r\n"), ":")
}

// IsIdentByte reports whether a byte is an ASCII letter, a digit or an underscore.
func IsIdentByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// key parses a key, also one without quotes. It returns nil if there is none.
func (p *jsonParser) key() *Node {
	c := p.text[p.at]
	if c == '"' || c == '\'' {
		return p.str()
	}
	end := p.at
	for end < len(p.text) &&
		(IsIdentByte(p.text[end]) || p.text[end] == '-' || p.text[end] == '$' || p.text[end] == '.') {
		end++
	}
	if end == p.at {
		p.reportUnexpected()
		return nil
	}
	word := p.text[p.at:end]
	n := &Node{Kind: String, Value: word, Span: p.file.Span(p.at, end)}
	found := p.report(CodeJSONQuotes, p.at, end, fmt.Sprintf("Write \"%s\".", word), "The key %s is not in quotes.",
		word)
	p.at = end
	p.fixWord(found).Write(n.Span, `"`+word+`"`)
	return n
}

// reportUnexpected abandons parsing at an unexpected character.
func (p *jsonParser) reportUnexpected() {
	r, size := utf8.DecodeRuneInString(p.text[p.at:])
	shown := fmt.Sprintf("%q", string(r))
	help := "Remove it, or put the string in double quotes."
	switch {
	case r == utf8.RuneError && size == 1:
		shown, help = "This byte", "Save the file as UTF-8."
	case !unicode.IsGraphic(r):
		shown = fmt.Sprintf("The character U+%04X", r)
	case strings.ContainsRune("“”„‘’«»", r):
		help = "Write straight quotes: \"text\"."
	case r == ':':
		help = "Remove it, or write the key that belongs before it."
	case r == '<' && strings.HasPrefix(p.text[p.at:], "<<<<"):
		help = "Resolve the merge conflict first."
	}
	p.report(CodeJSONSyntax, p.at, p.at+size, help, "%s is not expected here.", shown)
	p.abandoned = true
}

// word parses true, false and null, and spellings of other languages.
func (p *jsonParser) word() *Node {
	start := p.at
	for p.at < len(p.text) && IsIdentByte(p.text[p.at]) {
		p.at++
	}
	word := p.text[start:p.at]
	n := &Node{Value: word, Span: p.file.Span(start, p.at)}
	switch {
	case word == "":
		p.reportUnexpected()
		return nil
	case word == "true" || word == "false":
		n.Kind = Bool
		return n
	case word == "null":
		n.Kind, n.Value = Null, ""
		return n
	case strings.EqualFold(word, "true") || strings.EqualFold(word, "false"):
		n.Kind, n.Value = Bool, strings.ToLower(word)
	case word == "None" || word == "nil" || word == "undefined" || strings.EqualFold(word, "null"):
		n.Value = ""
		p.fixWord(p.report(CodeJSONQuotes, start, p.at, "Write null.", "%q is not a valid constant here.", word)).
			Write(n.Span, "null")
		return n
	case word == "NaN" || word == "Infinity":
		p.report(CodeJSONQuotes, start, p.at, "Write a number, or null.", "%s is not a number in JSON.", word)
		n.Value = ""
		return n
	default:
		n.Kind = String
		p.fixWord(p.report(CodeJSONQuotes, start, p.at, fmt.Sprintf("Write \"%s\".", word),
			"The string %s is not in quotes.", word)).Write(n.Span, `"`+word+`"`)
		return n
	}
	p.fixWord(p.report(CodeJSONQuotes, start, p.at, fmt.Sprintf("Write %s.", n.Value),
		"%q is not a valid constant here.", word)).Write(n.Span, n.Value)
	return n
}

// number parses everything that looks like a number. If it is not one, it becomes a string.
func (p *jsonParser) number() *Node {
	start := p.at
	for p.at < len(p.text) && (IsIdentByte(p.text[p.at]) || strings.IndexByte("+-.", p.text[p.at]) >= 0) {
		p.at++
	}
	word := p.text[start:p.at]
	n := &Node{Kind: Int, Value: word, Span: p.file.Span(start, p.at)}
	if !source.IsJSONNumber(word) {
		p.report(CodeJSONSyntax, start, p.at,
			"Write numbers like 3, -1.5 or 2e6, and put anything else in double quotes.", "%s is not a number.", word)
		n.Kind = String
		return n
	}
	if strings.ContainsAny(word, ".eE") || word == "-0" { // not an integer
		n.Kind = Float
	}
	return n
}

// str parses a string. Its span excludes the quotes.
func (p *jsonParser) str() *Node {
	open := p.at
	quote := p.text[open]
	single, control := -1, -1 // reports about the whole string, which get their fixes when its end is known
	if quote == '\'' {
		single = len(p.out)
		p.report(CodeJSONQuotes, open, open+1, "Write \" instead of '.", "JSON strings use double quotes.")
	}
	var b strings.Builder
	p.at++
	escaped := diag.Fix{} // of all control characters, of which only the first is reported
	for p.at < len(p.text) && p.text[p.at] != quote {
		c := p.text[p.at]
		switch {
		case c == '\\':
			p.escape(&b)
			continue
		case c == '\n' && p.endsHere(quote):
			p.report(CodeJSONQuotes, open, p.at, "Add \" where it ends.", "The string has no closing quote.")
			p.unsure = true
			return &Node{Kind: String, Value: b.String(), Span: p.file.Span(open+1, p.at)}
		case c < ' ' && len(escaped.Edits) <= maxEdits:
			what, help := "a line break", `\n`
			if c == '\t' {
				what, help = "a tab", `\t`
			} else if c != '\n' && c != '\r' {
				what, help = fmt.Sprintf("the character U+%04X", c), fmt.Sprintf(`\u%04x`, c)
			}
			if control < 0 {
				control = len(p.out)
				escaped.Title = "Write " + help
				p.report(CodeJSONEscape, p.at, p.at+1, fmt.Sprintf("Write %s.", help),
					"A JSON string cannot contain %s unescaped.", what)
			}
			if last := len(escaped.Edits) - 1; c == '\n' && p.text[p.at-1] == '\r' && last >= 0 &&
				escaped.Edits[last].Span.End == p.at { // one line break
				escaped.Edits[last].Span.End++
			} else {
				escaped.Edits = append(escaped.Edits, diag.Edit{Span: p.file.Span(p.at, p.at+1), NewText: help})
			}
		}
		r, size := utf8.DecodeRuneInString(p.text[p.at:])
		if r == utf8.RuneError && size == 1 {
			p.report(CodeJSONEscape, p.at, p.at+1, "Save the file as UTF-8.", "The text is not valid UTF-8 here.")
		}
		b.WriteString(p.text[p.at : p.at+size])
		p.at += size
	}
	n := &Node{Kind: String, Value: b.String(), Span: p.file.Span(open+1, p.at)}
	if p.at == len(p.text) {
		p.report(CodeJSONQuotes, open, open+1, "Add \" where it ends.", "The string has no closing quote.")
		p.abandoned = true
		return n
	}
	p.at++
	if single >= 0 && !strings.ContainsAny(p.text[open+1:p.at-1], `"\`) {
		p.fixWord(&p.out[single]).
			Change("Write double quotes", `"`, p.file.Span(open, open+1), p.file.Span(p.at-1, p.at))
	}
	if control >= 0 && len(escaped.Edits) <= maxEdits {
		if d := p.fixWord(&p.out[control]); d != nil {
			d.Fixes = append(d.Fixes, escaped)
		}
	}
	return n
}

// endsHere reports whether the next line looks like another entry, so that the string was probably meant to end.
func (p *jsonParser) endsHere(quote byte) bool {
	for p.next = max(p.next, p.at); p.next < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.next]) >= 0; {
		p.next++
	}
	if p.next == len(p.text) {
		return true
	}
	c := p.text[p.next]
	return c == quote || c == '}' || c == ']'
}

// jsonEscapes are the two-character escapes.
var jsonEscapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape parses an escape in a string.
func (p *jsonParser) escape(b *strings.Builder) {
	start := p.at
	rest := p.text[start:]
	if len(rest) == 1 {
		p.at++
		return // str reports the missing quote
	}
	if c, ok := jsonEscapes[rest[1]]; ok {
		b.WriteByte(c)
		p.at += 2
		return
	}
	if r, size, _ := source.UnicodeEscape(rest); size > 0 {
		b.WriteRune(r)
		p.at += size
		return
	}
	_, size := utf8.DecodeRuneInString(rest[1:])
	p.at += 1 + size
	b.WriteString(rest[1 : 1+size])
	p.report(CodeJSONEscape, start, p.at, `Write \\ for a backslash, or \u and four hexadecimal digits.`,
		"Unknown escape sequence %s.", rest[:1+size])
}
