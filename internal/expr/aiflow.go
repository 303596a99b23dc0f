package expr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/diag"
)

// aiflowParser parses the conditions of AIFLOW. Its grammar differs from the common one in comparisons: the right side
// may be a comparison again, `=` and `!` are operators without a result, and some constants are names. The parser
// produces the same tree as the common one.
//
//	or      := and ("or" and)*
//	and     := not ("and" not)*
//	not     := "not" not | primary
//	primary := "(" or ")" | always | true | false | contains "(" or, … ")"
//	         | name [op primary] | literal [op primary]
//
// This is the grammar of the reference program. The wide dialect also compares any primary and accepts null, a minus,
// && || ! in and [ ].
type aiflowParser struct {
	*parser
	exact bool // accept only the grammar of the reference program
	list  []aiflowToken
	next  int
	deep  int
}

// aiflowToken is a token. Words are not classified yet.
type aiflowToken struct {
	kind       aiflowKind
	start, end int
	text       string // the content of a string, or the text as written
}

// is reports whether the token is a symbol.
func (t aiflowToken) is(symbol string) bool { return t.kind == aiSymbol && t.text == symbol }

type aiflowKind uint8

const (
	aiEnd aiflowKind = iota
	aiName
	aiNumber
	aiString
	aiOperator // a comparison, or a single = or !
	aiSymbol   // any other symbol of one or two characters
)

// parseAIFlow returns the parser of a dialect of AIFLOW.
func parseAIFlow(exact bool) func(p *parser) *node {
	return func(p *parser) *node {
		a := &aiflowParser{parser: p, exact: exact}
		a.lexAIFlow()
		if a.list[0].kind == aiEnd { // an empty condition always holds
			return &node{op: opConstant, value: boolean(true), fixed: true}
		}
		if p.diags.Errors() {
			// Tokens after an invalid character are unreliable, except for names.
			return a.brokenNode()
		}
		root := a.or()
		if t := a.peekToken(); t.kind != aiEnd && !p.diags.Errors() {
			a.unexpectedToken(t)
		}
		if p.diags.Errors() {
			return a.brokenNode()
		}
		return root
	}
}

func (a *aiflowParser) peekToken() aiflowToken { return a.list[a.next] }

// takeToken consumes the next token. It never passes the end.
func (a *aiflowParser) takeToken() aiflowToken {
	t := a.list[a.next]
	if t.kind != aiEnd {
		a.next++
	}
	return t
}

// last returns the end of the last consumed token.
func (a *aiflowParser) last() int {
	if a.next == 0 {
		return 0
	}
	return a.list[a.next-1].end
}

// brokenNode returns a broken node with the names of a text that does not parse.
func (a *aiflowParser) brokenNode() *node {
	root := &node{op: opBroken, end: len(a.text)}
	for i, t := range a.list {
		if t.kind == aiName && !aiflowWord(t.text) && (i+1 >= len(a.list) || a.list[i+1].text != "(") {
			path := &node{op: opPath, start: t.start, end: t.end, path: strings.Split(t.text, ".")}
			root.kids = append(root.kids, path)
		}
	}
	return root
}

// aiflowWord reports whether a word has a meaning of its own and is no name.
func aiflowWord(s string) bool {
	switch strings.ToLower(s) {
	case "and", "or", "not", "always", "true", "false", "null", "undefined":
		return true
	}
	return false
}

// lexAIFlow splits the text into tokens, the last of which is aiEnd.
func (a *aiflowParser) lexAIFlow() {
	for at := 0; at < len(a.text); {
		if space := scriptSpace(a.text[at:]); space > 0 {
			at += space
			continue
		}
		t := a.lexToken(at)
		if at = t.end; t.kind != aiEnd {
			a.list = append(a.list, t)
		}
	}
	a.list = append(a.list, aiflowToken{kind: aiEnd, start: len(a.text), end: len(a.text)})
}

// lexToken reads a token. An unexpected character is reported and has the kind aiEnd.
func (a *aiflowParser) lexToken(start int) aiflowToken {
	text, c := a.text, a.text[start]
	token := func(kind aiflowKind, end int) aiflowToken { return aiflowToken{kind, start, end, text[start:end]} }
	switch {
	case c == '\'' || c == '"':
		content, end := aiflowString(text, start)
		if end > len(text) {
			end = len(text)
			a.report(CodeString, diag.Warning, start, end, fmt.Sprintf("Add %c where the string ends.", c),
				"The string has no closing quote.")
		}
		return aiflowToken{aiString, start, end, content}
	case isDigit(c):
		return token(aiNumber, aiflowNumber(text, start, a.exact))
	case isASCIILetter(c):
		end := start
		for end < len(text) && (isASCIILetter(text[end]) || isDigit(text[end]) || text[end] == '.') {
			end++
		}
		return token(aiName, end)
	}
	two := text[start:min(start+2, len(text))]
	switch {
	case two == "==" || two == "!=" || two == ">=" || two == "<=":
		return token(aiOperator, start+2)
	case strings.IndexByte("<>=!", c) >= 0:
		return token(aiOperator, start+1)
	case !a.exact && (two == "&&" || two == "||"):
		return token(aiSymbol, start+2)
	case strings.IndexByte("(),", c) >= 0 || !a.exact && strings.IndexByte("[]-", c) >= 0:
		return token(aiSymbol, start+1)
	}
	r, size := utf8.DecodeRuneInString(text[start:])
	a.unexpectedCharacter(start, start+size, r)
	return aiflowToken{start: start, end: start + size}
}

// unexpectedCharacter reports an unexpected character.
func (a *aiflowParser) unexpectedCharacter(start, end int, r rune) {
	help := "Remove it, or put strings in quotes."
	fix := func(*diag.Diagnostic) {}
	switch {
	case r == utf8.RuneError && end == start+1:
		help = "Save the file as UTF-8."
	case strings.ContainsRune("+*/%-", r):
		help = "Conditions do not support arithmetic: let an agent compute the value."
	case r == '&' || r == '|':
		word := map[rune]string{'&': "and", '|': "or"}[r]
		whole := end
		if whole < len(a.text) && a.text[whole] == byte(r) { // && in the reference program
			whole++
		}
		help = fmt.Sprintf("Write %s.", word)
		fix = func(d *diag.Diagnostic) { a.replaceWord(d, start, whole, word) }
	case strings.ContainsRune("“”„‘’", r):
		help = "Write straight quotes."
		fix = func(d *diag.Diagnostic) { a.addQuoteFix(d, start) }
	case r == '{' || r == '}' || r == '$':
		help = "Conditions are not templates: write the name alone, such as output.name."
	case r == '[' || r == ']':
		help = "Write output.list.0 for an element, and one comparison for each value."
	}
	if a.diags.Errors() {
		return // most likely a consequence of the first one
	}
	shown := inQuotes(a.text[start:end])
	if !unicode.IsGraphic(r) {
		shown = fmt.Sprintf("The character U+%04X", r)
	}
	fix(a.add(CodeCharacter, start, end, help, "%s is not allowed in a condition.", shown))
}

// aiflowString reads a string. A backslash quotes the next character. If the string is not closed, end is beyond the
// text.
func aiflowString(s string, at int) (content string, end int) {
	var b strings.Builder
	closing := s[at]
	for at++; at < len(s); at++ {
		switch {
		case s[at] == closing:
			return b.String(), at + 1
		case s[at] == '\\' && at+1 < len(s):
			at++
		}
		b.WriteByte(s[at])
	}
	return b.String(), len(s) + 1
}

// aiflowNumber returns the end of a number: digits with at most one point, which can be the last character. The
// reference program reads all digits and points.
func aiflowNumber(s string, at int, exact bool) int {
	points := 0
	for at < len(s) {
		switch {
		case isDigit(s[at]):
		case s[at] == '.' && exact:
		case s[at] == '.' && points == 0:
			points++
		default:
			return at
		}
		at++
	}
	return at
}

// scriptSpace returns the length of the white space, as JavaScript defines it, at the start of a text.
func scriptSpace(s string) int {
	r, size := utf8.DecodeRuneInString(s)
	if unicode.IsSpace(r) && r != '\u0085' || r == '\uFEFF' {
		return size
	}
	return 0
}

func isASCIILetter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// word consumes a word or its symbol.
func (a *aiflowParser) word(name, symbol string) (aiflowToken, bool) {
	t := a.peekToken()
	switch {
	case t.kind == aiName && strings.EqualFold(t.text, name):
	case !a.exact && symbol != "" && t.text == symbol && t.kind != aiString:
		a.noteReadAs(t.start, t.end, name,
			fmt.Sprintf("Write %s; the reference program does not read %s.", name, symbol))
	default:
		return t, false
	}
	return a.takeToken(), true
}

func (a *aiflowParser) or() *node { return a.series(opOr, "or", "||", a.and) }

func (a *aiflowParser) and() *node { return a.series(opAnd, "and", "&&", a.not) }

// series parses operands joined by a word into one node, so that a long chain is not deep.
func (a *aiflowParser) series(o op, name, symbol string, operand func() *node) *node {
	first := operand()
	n := &node{op: o, start: first.start, kids: []*node{first}}
	for _, ok := a.word(name, symbol); ok; _, ok = a.word(name, symbol) {
		n.kids = append(n.kids, operand())
	}
	if len(n.kids) == 1 {
		return first
	}
	n.end = a.last()
	return n
}

func (a *aiflowParser) not() *node {
	t, ok := a.word("not", "!")
	if !ok {
		return a.primary()
	}
	if a.tooDeep(t) {
		return &node{op: opBroken}
	}
	defer func() { a.deep-- }()
	return &node{op: opNot, start: t.start, kids: []*node{a.not()}, end: a.last()}
}

// tooDeep enters a nesting level. Unless it returns true, the caller must decrement deep afterwards.
func (a *aiflowParser) tooDeep(t aiflowToken) bool {
	if a.deep++; a.deep <= maxDepth {
		return false
	}
	if !a.diags.Errors() {
		a.add(CodeTooDeep, t.start, t.end, "Let an agent compute a part of it.",
			"The expression is nested more than %d levels deep.", maxDepth)
	}
	a.next = len(a.list) - 1
	a.deep--
	return true
}

// primary parses an operand and an optional comparison.
func (a *aiflowParser) primary() *node {
	t := a.takeToken()
	if a.tooDeep(t) {
		return &node{op: opBroken}
	}
	defer func() { a.deep-- }()
	n := &node{start: t.start, end: t.end}
	compares := !a.exact // whether the operand can be the left side of a comparison
	switch {
	case t.kind == aiNumber:
		f, err := strconv.ParseFloat(t.text, 64)
		if errors.Is(err, strconv.ErrSyntax) {
			a.add(CodeOperand, t.start, t.end, "Use digits with one decimal point.", "%s is not a number.",
				inQuotes(t.text))
		}
		n.constant(number(f))
		compares = true
	case t.kind == aiString:
		n.constant(text(t.text))
		compares = true
	case t.kind == aiName:
		n, compares = a.name(t)
	case t.is("("):
		n = a.or()
		a.closing(t, ")")
		inner := *n
		n = &inner
		n.start, n.end = t.start, a.last()
	case t.is("["):
		n.op = opList
		a.items(n, t, "]")
		a.parser.list(n)
	case t.is("-"):
		n = a.negative(t)
		compares = true
	default:
		a.noOperand(t)
		return &node{op: opBroken, start: t.start, end: t.start}
	}
	return a.compared(n, compares)
}

// compared parses an operator and its right side, if present.
func (a *aiflowParser) compared(left *node, compares bool) *node {
	t := a.peekToken()
	negated := false
	switch {
	case t.kind == aiOperator:
	case !a.exact && t.kind == aiName && strings.EqualFold(t.text, "in"):
	case !a.exact && t.kind == aiName && strings.EqualFold(t.text, "not") &&
		strings.EqualFold(a.list[min(a.next+1, len(a.list)-1)].text, "in"):
		negated = true
		a.takeToken()
	default:
		return left
	}
	if !compares {
		a.add(CodeUnexpected, t.start, t.end, "Put it on the right side, or omit --compat reference.",
			"The reference program cannot compare %s.", inQuotes(a.text[left.start:left.end]))
		return left
	}
	operator := a.takeToken()
	if next := a.peekToken(); next.kind == aiEnd {
		a.add(CodeOperand, operator.start, operator.end, "Write the value that belongs there.",
			"There is nothing to the right of %s.", inQuotes(a.text[operator.start:operator.end]))
		return left
	}
	right := a.primary()
	n := &node{start: left.start, end: a.last(), kids: []*node{left, right}}
	compared, ok := comparisons[punctuation[operator.text]]
	switch {
	case ok:
		n.op = compared
	case !strings.EqualFold(operator.text, "in"):
		n.op, n.name = opNothing, operator.text
	case negated:
		n.op = opNotIn
	default:
		n.op = opIn
	}
	return n
}

// name parses a word, a call or a path.
func (a *aiflowParser) name(t aiflowToken) (n *node, compares bool) {
	n = &node{start: t.start, end: t.end}
	switch folded := strings.ToLower(t.text); {
	case folded == "always" || folded == "true" || folded == "false":
		n.constant(boolean(folded != "false"))
		return n, !a.exact
	case t.text == "contains" && a.peekToken().is("("):
		return a.containsCall(t), !a.exact
	case t.text == "contains" && a.exact: // in the reference program, it cannot be a name
		a.add(CodeFunction, t.start, t.end, "Use contains(a, b).", "\"contains\" has no arguments.")
		return &node{op: opBroken, start: t.start, end: t.end}, false
	case !a.exact && (folded == "and" || folded == "or" || folded == "not"):
		a.noOperand(t)
		return &node{op: opBroken, start: t.start, end: t.end}, false
	case t.text == "null" || t.text == "undefined":
		// In the reference program both are variables without a value.
		n.constant(value{kind: kindMissing})
		return n, true
	}
	if next := a.peekToken(); next.is("(") && next.start == t.end {
		a.add(CodeFunction, t.start, t.end, "", "There is no function %q.", t.text).
			Suggest(t.text, []string{"contains"})
		return &node{op: opBroken, start: t.start, end: t.end}, false
	}
	n.op, n.path = opPath, strings.Split(t.text, ".")
	if slices.Contains(n.path, "") {
		a.warn(CodePath, n, "Write the whole name, such as output.name.",
			"%q has an empty segment, so it never matches a value.", t.text)
	}
	return n, true
}

// containsCall parses the arguments of contains. Like the reference program, it ignores all but the first two.
func (a *aiflowParser) containsCall(t aiflowToken) *node {
	open := a.takeToken()
	n := &node{op: opContains, start: t.start}
	a.items(n, open, ")")
	switch {
	case a.diags.Errors():
	case len(n.kids) < 2:
		a.add(CodeArguments, t.start, n.end, "Write contains(a, b).", "\"contains\" takes two arguments, not %d.",
			len(n.kids))
		n.op = opBroken
	case len(n.kids) > 2:
		a.warn(CodeArguments, n, "Write another contains(a, b) for each further string.",
			"\"contains\" uses two arguments and ignores the others.")
		n.kids = n.kids[:2]
	}
	return n
}

// items parses the operands of n up to the closing bracket.
func (a *aiflowParser) items(n *node, open aiflowToken, end string) {
	if !a.peekToken().is(end) {
		n.kids = append(n.kids, a.or())
		for a.peekToken().is(",") {
			a.takeToken()
			n.kids = append(n.kids, a.or())
		}
	}
	a.closing(open, end)
	n.end = a.last()
}

// negative parses the number after a minus.
func (a *aiflowParser) negative(t aiflowToken) *node {
	next := a.takeToken()
	f, err := strconv.ParseFloat(next.text, 64)
	if next.kind != aiNumber || err != nil {
		a.add(CodeOperand, t.start, t.end, "Conditions do not support arithmetic: let an agent compute the value.",
			"A minus sign must precede a number.")
		return &node{op: opBroken, start: t.start, end: t.end}
	}
	return &node{op: opConstant, start: t.start, end: next.end, value: number(-f), fixed: true}
}

// closing consumes a closing bracket.
func (a *aiflowParser) closing(open aiflowToken, bracket string) {
	switch t := a.peekToken(); {
	case t.is(bracket):
		a.takeToken()
		return
	case a.diags.Errors():
		return
	case t.kind != aiEnd:
		a.unexpectedToken(t)
		return
	}
	end := a.last()
	a.add(CodeUnclosed, end, end, fmt.Sprintf("Add %q where it ends.", bracket), "%q is never closed.", open.text).
		Relate(place(a.at, a.text, open.start, open.end), "opened here")
}

// unexpectedToken reports a token in the place of an operator or the end.
func (a *aiflowParser) unexpectedToken(t aiflowToken) {
	help := "Put and, or or a comparison such as == before it."
	switch {
	case t.is(")"), t.is("]"):
		help = "Remove it, or open it further left."
	case t.is("-"):
		help = "A name cannot have a hyphen here; rename the key, for instance with an underscore."
	case t.is("["):
		help = "Write output.list.0 for the first element of a list."
	case t.kind == aiOperator:
		help = "Compare one value at a time."
	}
	a.add(CodeUnexpected, t.start, t.end, help, "%s is not expected here.", inQuotes(a.text[t.start:t.end]))
}

// noOperand reports a token in the place of an operand, unless that may only follow from an earlier error.
func (a *aiflowParser) noOperand(t aiflowToken) {
	if a.diags.Errors() {
		return
	}
	if t.kind == aiEnd {
		a.add(CodeOperand, max(0, a.last()-1), len(a.text), "Write the value that belongs there.",
			"The condition is incomplete.")
		return
	}
	a.add(CodeOperand, t.start, t.end, "Write the value that belongs there.", "There is no value before %s.",
		inQuotes(a.text[t.start:t.end]))
}

// lintAIFlow reports conditions that are valid but misleading.
func (p *parser) lintAIFlow(root *node) {
	root.walk(func(n *node) {
		switch n.op {
		case opNothing:
			meant := "=="
			if n.name == "!" {
				meant = "!="
			}
			found := p.warn(CodeSingleEquals, n, fmt.Sprintf("Write %s.", meant),
				"A single %q does not compare, so this is always false.", n.name)
			left, right := n.kids[0].end, n.kids[1].start
			if i := strings.Index(p.text[left:right], n.name); i >= 0 {
				p.replace(found, left+i, left+i+len(n.name), meant)
			}
		case opEqual, opUnequal:
			for i, kid := range n.kids {
				other := n.kids[1-i]
				quoted := kid.op == opConstant && kid.value.kind == kindText &&
					(kid.value.str == "true" || kid.value.str == "false")
				if quoted && (other.op == opPath || other.op == opConstant && other.value.kind == kindBool) {
					word := kid.value.str
					found := p.warn(CodeNeverEqual, n,
						fmt.Sprintf("Write %s without quotes, unless the agent replies with a string.", word),
						"The string '%s' is not equal to the value %s.", word, word)
					p.replace(found, kid.start, kid.end, word)
					return
				}
			}
		}
	})
}
