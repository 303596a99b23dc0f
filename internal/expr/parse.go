package expr

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// Limits of an expression.
const (
	maxText  = 4096 // bytes
	maxDepth = 64   // levels of nesting
	maxItems = 256  // elements of a list
	maxDiags = 8    // reported errors
)

// parser is the state of parsing and linting one expression. It reports errors and goes on: every node that does not
// parse becomes an opBroken with the parts that do, so that Paths still finds their names.
type parser struct {
	rules *dialect
	text  string
	at    source.Span
	diags diag.List

	tokens     []token
	pos        int
	depth      int
	operators  int              // arithmetic ones, whose tree is as deep as their chain is long
	unexpected bool             // EXPR012 was reported; it is reported once
	known      func(*node) kind // the kinds of a path; nil if none is known
	itemKinds  func(*node) kind // the kinds of the items of a list
	locals     map[string]kind  // the kinds of the variables of any and all
	operands   map[*node]bool   // the nots that are operands of anything but and, or and not
	gaveUp     bool             // parsing was abandoned; missing brackets are not reported
}

// parse parses a text. The expression is broken if there was an error.
func parse(d Dialect, text string, at source.Span) (*Expr, *parser) {
	rules := d.rules()
	if rules == nil {
		panic(fmt.Sprintf("expr: unknown dialect %q", d)) // callers pass one of Dialects
	}
	p := &parser{rules: rules, text: text, at: at}
	e := &Expr{Dialect: d, Text: text, Span: at}
	switch {
	case strings.TrimSpace(text) == "" && rules.parse == nil:
		p.add(CodeEmpty, 0, len(text), "Write a condition such as input.name != null, or remove the key.",
			"The condition is empty.")
	case len(text) > maxText:
		p.add(CodeTooLong, maxText, len(text), "Let a step compute the decision and compare its result.",
			"The expression is %d bytes long; the limit is %d.", len(text), maxText)
	case rules.parse != nil:
		e.root = rules.parse(p)
	default:
		p.tokens = p.lex()
		e.root = p.parseAll()
	}
	e.broken = p.diags.Errors()
	return e, p
}

func (p *parser) add(code diag.Code, start, end int, help, format string, args ...any) *diag.Diagnostic {
	return p.report(code, diag.Error, start, end, help, format, args...)
}

// addFix adds an error about an operator, and the operator that replaces it.
func (p *parser) addFix(code diag.Code, start, end int, message, operator string) {
	p.replace(p.add(code, start, end, fmt.Sprintf("Write %s.", operator), "%s", message), start, end, operator)
}

// replace adds a fix that replaces a part of the expression. There is none if the place of the part in the file is not
// known, because the file has the expression with escapes or on several lines.
func (p *parser) replace(d *diag.Diagnostic, start, end int, newText string) {
	if p.at.End-p.at.Start == len(p.text) {
		d.Rewrite(p.at.Sub(start, end), p.text[start:end], newText)
	}
}

// replaceText is replace for a new text in quotes. There is none if the text would need escapes.
func (p *parser) replaceText(d *diag.Diagnostic, start, end int, newText string) {
	if p.at.End-p.at.Start == len(p.text) && !needsEscape(newText) {
		d.RewriteText(p.at.Sub(start, end), p.at, p.text[start:end], newText)
	}
}

// needsEscape reports whether a text cannot stand in quotes of any kind as it is.
func needsEscape(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return r == '"' || r == '\'' || r == '\\' || r == utf8.RuneError || unicode.IsControl(r)
	})
}

// replaceWord is replace for a symbol that becomes a word, which needs spaces around it.
func (p *parser) replaceWord(d *diag.Diagnostic, start, end int, word string) {
	if start > 0 && p.text[start-1] != ' ' && p.text[start-1] != '(' {
		word = " " + word
	}
	if end < len(p.text) && p.text[end] != ' ' {
		word += " "
	}
	p.replace(d, start, end, word)
}

// warn adds a warning about a node.
func (p *parser) warn(code diag.Code, n *node, help, format string, args ...any) *diag.Diagnostic {
	return p.report(code, diag.Warning, n.start, n.end, help, format, args...)
}

// noteReadAs adds a note about a symbol that is accepted in the place of a word.
func (p *parser) noteReadAs(start, end int, word, help string) {
	d := p.report(CodeSymbol, diag.Note, start, end, help, "%q was understood as %q.", p.text[start:end], word)
	if d == nil {
		return
	}
	d.Lenient = true
	p.replaceWord(d, start, end, word)
}

// report adds a diagnostic up to a limit. The limit counts errors alone, so the list contains an error whenever one is
// dropped.
func (p *parser) report(
	code diag.Code, severity diag.Severity, start, end int, help, format string, args ...any,
) *diag.Diagnostic {
	if severity != diag.Error && len(p.diags) < 4*maxDiags || p.diags.Count(diag.Error) < maxDiags {
		return p.diags.Reportf(code, severity, place(p.at, p.text, start, end), help, format, args...)
	}
	return nil
}

// peek returns the next token.
func (p *parser) peek() token { return p.tokens[p.pos] }

// advance consumes the next token. It never passes tokEnd.
func (p *parser) advance() token {
	t := p.tokens[p.pos]
	if t.kind != tokEnd {
		p.pos++
	}
	return t
}

func (p *parser) written(t token) string { return p.text[t.start:t.end] }

// shown returns a token for use in a message.
func (p *parser) shown(t token) string { return inQuotes(p.written(t)) }

// inQuotes puts s in quotes, unless it contains quotes.
func inQuotes(s string) string {
	if strings.ContainsAny(s, `"'`) {
		return s
	}
	return `"` + s + `"`
}

// giveUp skips the remaining tokens.
func (p *parser) giveUp() {
	p.pos = len(p.tokens) - 1
	p.gaveUp = true
}

// parseAll parses the whole text. It continues after unexpected tokens.
func (p *parser) parseAll() *node {
	root := p.parse(bindAny)
	for p.peek().kind != tokEnd {
		p.unexpectedToken(p.peek())
		before := p.pos
		rest := &node{op: opBroken}
		if p.startsOperand(p.peek()) {
			rest = p.parse(bindAny)
		}
		if p.pos == before {
			p.advance()
		}
		root = &node{op: opBroken, start: root.start, end: p.lastEnd(), kids: []*node{root, rest}}
	}
	return root
}

// startsOperand reports whether an operand can begin with a token, which must be the next one.
func (p *parser) startsOperand(t token) bool {
	switch t.kind {
	case tokBad, tokName, tokConstant, tokOpen, tokListOpen, tokNot, tokBang, tokMinus:
		return true
	case tokContains: // contains(a, b)
		return p.tokens[p.pos+1].kind == tokOpen
	}
	return false
}

// unexpectedToken reports a token in the place of an operator or the end.
func (p *parser) unexpectedToken(t token) {
	reported := p.unexpected || t.kind == tokBad // a consequence of an invalid character
	p.unexpected = true
	if reported {
		return
	}
	what := fmt.Sprintf("%s is not expected here.", p.shown(t))
	space := t.start // where superfluous space before the token begins
	help := "Put and, or or a comparison such as == before it."
	switch t.kind {
	case tokClose, tokListClose:
		opening := map[tokenKind]string{tokClose: "(", tokListClose: "["}[t.kind]
		help = fmt.Sprintf("Remove it, or open it with %s further left.", opening)
	case tokComma:
		help = "Write a list in brackets: [a, b]."
	case tokSegment:
		help = "Write the name without a space before the dot."
		before := p.tokens[max(0, p.pos-1)]
		if t.end > t.start+1 && (before.kind == tokName || before.kind == tokSegment) {
			space = before.end
		}
	case tokName:
		if quote := p.text[max(0, t.start-1)]; quote == '\'' || quote == '"' {
			help = fmt.Sprintf("Write \\%c for a quote inside a string.", quote)
		}
	case tokConstant:
		if t.value.kind == kindNumber && t.value.num < 0 {
			help = "Conditions do not support arithmetic: let a step compute the value."
		}
	}
	found := p.add(CodeUnexpected, t.start, t.end, help, "%s", what)
	if space < t.start {
		p.replace(found, space, t.start, "")
	}
}

// lastEnd returns the end of the last consumed token.
func (p *parser) lastEnd() int {
	if p.pos == 0 {
		return 0
	}
	return p.tokens[p.pos-1].end
}

var comparisons = map[tokenKind]op{
	tokEqual: opEqual, tokUnequal: opUnequal, tokLess: opLess, tokLessEqual: opLessEqual,
	tokGreater: opGreater, tokGreaterEqual: opGreaterEqual, tokContains: opContains, tokIn: opIn,
}

// parse parses an expression whose operators bind at least as tightly as binding (precedence climbing).
func (p *parser) parse(binding int) *node {
	start := p.peek().start // includes an opening parenthesis
	left := p.operand()
	for {
		t := p.peek()
		switch {
		case t.kind == tokOr && binding <= bindOr:
			left = p.series(start, left, tokOr, opOr, bindAnd)
		case t.kind == tokAnd && binding <= bindAnd:
			left = p.series(start, left, tokAnd, opAnd, bindNot)
		case binding <= bindCompare && p.comparesNext():
			left = p.comparison(start, left)
		case binding <= bindAdd && (t.kind == tokPlus || t.kind == tokMinus):
			left = p.calculation(start, left, bindMultiply)
		case binding <= bindMultiply && calculations[t.kind] != opBroken && t.kind != tokPlus && t.kind != tokMinus:
			left = p.calculation(start, left, bindOperand)
		default:
			return left
		}
	}
}

var calculations = map[tokenKind]op{
	tokPlus: opAdd, tokMinus: opSubtract, tokStar: opMultiply, tokSlash: opDivide, tokFloor: opFloor,
	tokPercent: opModulo,
}

// calculation parses the rest of `a + b`.
func (p *parser) calculation(start int, left *node, binding int) *node {
	if p.operators++; p.operators > maxItems {
		t := p.peek()
		p.add(CodeTooLong, t.start, t.end, "Let a step compute the value.",
			"The expression has more than %d arithmetic operators.", maxItems)
		p.giveUp()
		return left
	}
	operator := p.advance()
	right := p.after(operator, binding)
	return &node{op: calculations[operator.kind], start: start, end: p.lastEnd(), kids: []*node{left, right}}
}

// series parses `a and b and c` into one node, so that a long chain is not deep.
func (p *parser) series(start int, first *node, word tokenKind, o op, binding int) *node {
	n := &node{op: o, start: start, kids: []*node{first}}
	for p.peek().kind == word {
		operator := p.advance()
		p.noteSymbol(operator, opText[o])
		n.kids = append(n.kids, p.after(operator, binding))
	}
	n.end = p.lastEnd()
	return n
}

// noteSymbol reports a symbol that is accepted in the place of a word.
func (p *parser) noteSymbol(t token, word string) {
	switch symbol := p.written(t); {
	case p.rules.symbols:
	case symbol == "&&", symbol == "||", symbol == "!":
		p.noteReadAs(t.start, t.end, word, fmt.Sprintf("Write %s.", word))
	}
}

// after parses the right operand of an operator.
func (p *parser) after(operator token, binding int) *node {
	if t := p.peek(); !p.startsOperand(t) && t.kind != tokSegment {
		p.add(CodeOperand, operator.start, operator.end, "Write the value or condition that belongs there.",
			"There is nothing to the right of %s.", p.shown(operator))
		return &node{op: opBroken, start: operator.end, end: operator.end}
	}
	return p.parse(binding)
}

// comparesNext reports whether a comparison operator follows, also one of two words such as not in.
func (p *parser) comparesNext() bool {
	t := p.peek()
	if t.kind == tokNot {
		next := p.tokens[p.pos+1].kind
		return next == tokIn || next == tokContains
	}
	return t.kind == tokIs || comparisons[t.kind] != opBroken
}

// comparison parses the rest of a comparison. Only dialects that calculate have chains; in the others, each further
// comparison is an error.
func (p *parser) comparison(start int, left *node) *node {
	n := p.oneComparison(start, left)
	if p.rules.calculates && len(n.kids) == 2 && p.comparesNext() && p.peek().kind != tokIs {
		return p.chain(start, n)
	}
	for p.comparesNext() {
		t := p.peek()
		p.add(CodeChained, t.start, t.end, "Compare two values at a time and join the parts with and.",
			"Comparisons cannot be chained.")
		n = &node{op: opBroken, start: start, kids: []*node{p.oneComparison(start, n)}}
		n.end = p.lastEnd()
	}
	return n
}

// chain parses the rest of `a < b < c`, which means `a < b and b < c`. Both comparisons share the node of b, so the
// tree is a graph there.
func (p *parser) chain(start int, first *node) *node {
	n := &node{op: opAnd, start: start, kids: []*node{first}}
	for len(n.kids) < maxItems && p.comparesNext() && p.peek().kind != tokIs {
		middle := n.kids[len(n.kids)-1].kids[1]
		n.kids = append(n.kids, p.oneComparison(middle.start, middle))
	}
	n.end = p.lastEnd()
	return n
}

// oneComparison parses an operator and its right side. start is where the whole comparison starts.
func (p *parser) oneComparison(start int, left *node) *node {
	operator := p.advance()
	if operator.kind == tokIs {
		return p.isEmpty(start, left, operator)
	}
	o := comparisons[operator.kind]
	if operator.kind == tokNot {
		if o = opNotIn; p.peek().kind == tokContains {
			o = opNotContains
		}
		operator.end = p.advance().end
	}
	right := p.after(operator, bindAdd)
	return &node{op: o, start: start, end: p.lastEnd(), kids: []*node{left, right}}
}

// isEmpty parses the rest of `is empty`, `is not empty` or `is non-empty`.
func (p *parser) isEmpty(start int, left *node, is token) *node {
	o := opEmpty
	negated := ""
	if p.peek().kind == tokNot {
		p.advance()
		o, negated = opNotEmpty, "not "
	}
	n := &node{op: o, start: start, kids: []*node{left}}
	t := p.peek()
	word := strings.ToLower(p.written(t))
	switch {
	case t.kind == tokName && word == "empty":
		p.advance()
	case t.kind == tokName && word == "non-empty" && negated == "":
		p.advance()
		n.op = opNotEmpty
	default:
		help, meant := "Write is empty, is not empty, or compare with == or !=.", ""
		if p.startsOperand(t) {
			p.pos++
			if t.kind == tokConstant {
				meant = map[string]string{"": "== ", "not ": "!= "}[negated] + p.written(t)
				help = fmt.Sprintf("Write %s.", meant)
			}
		}
		found := p.add(CodeIs, is.start, p.lastEnd(), help, "%s can only be followed by empty or not empty.",
			p.shown(is))
		if meant != "" {
			p.replace(found, is.start, p.lastEnd(), meant)
		}
		n.op = opBroken
	}
	n.end = p.lastEnd()
	return n
}

// operand parses an operand. Every kind of nesting passes through it, so it limits the depth of the recursion.
func (p *parser) operand() *node {
	if p.depth++; p.depth > maxDepth {
		t := p.peek()
		p.add(CodeTooDeep, t.start, t.end, "Let a step compute a part of it.",
			"The expression is nested more than %d levels deep.", maxDepth)
		p.giveUp()
	}
	defer func() { p.depth-- }()
	t := p.advance()
	n := &node{start: t.start, end: t.end}
	switch t.kind {
	case tokBad:
	case tokConstant:
		n.constant(t.value)
	case tokName:
		if next := p.peek(); next.kind == tokOpen {
			return p.call(t)
		}
		n.path = []string{p.written(t)}
		return p.path(n)
	case tokOpen:
		n = p.parse(bindAny)
		p.close(t, tokClose, ")")
	case tokListOpen:
		n.op, n.kids = opList, p.items(t, tokListClose, "]")
		n.end = p.lastEnd()
		p.list(n)
	case tokNot:
		n.op, n.kids = opNot, []*node{p.after(t, bindNot)}
		n.end = p.lastEnd()
	case tokBang:
		return p.bang(t, n)
	case tokMinus:
		n.op, n.kids = opNegate, []*node{p.after(t, bindOperand)}
		n.end = p.lastEnd()
	case tokSegment:
		p.add(CodePath, t.start, t.end, "Write the whole name, such as input.name; a number below 1 starts with 0.",
			"There is no name before %s.", p.shown(t))
	case tokEnd:
		if !p.diags.Errors() {
			p.add(CodeOperand, 0, len(p.text), "Write a condition such as input.name != null.",
				"The condition has no value.")
		}
	default:
		if t.kind == tokContains && p.peek().kind == tokOpen {
			return p.call(t)
		}
		p.missingLeft(t)
		p.pos-- // the caller parses the operator
	}
	return n
}

// missingLeft reports a token that cannot begin an operand.
func (p *parser) missingLeft(t token) {
	help, where := "Write the value that belongs there.", "to the left of"
	switch t.kind {
	case tokClose, tokListClose, tokComma:
		where = "before"
	case tokAnd, tokOr, tokIs, tokIn, tokContains:
		help = fmt.Sprintf(
			"Write the missing value; a variable of that name needs its namespace, such as input.%s.",
			p.written(t))
	}
	p.add(CodeOperand, t.start, t.end, help, "There is nothing %s %s.", where, p.shown(t))
}

// bang parses `!x`. Like in other languages, it binds more tightly than not. Before a comparison that is misleading, so
// it is an error there.
func (p *parser) bang(t token, n *node) *node {
	n.op = opNot
	n.kids = []*node{p.after(t, bindOperand)}
	n.end = p.lastEnd()
	if !p.comparesNext() {
		p.noteSymbol(t, opText[opNot])
	} else {
		p.add(CodeSymbol, t.start, t.end, "Write not before the whole comparison, or put (not x) in parentheses.",
			`It is not clear what "!" belongs to here.`)
	}
	return n
}

// close consumes a closing bracket.
func (p *parser) close(open token, kind tokenKind, text string) {
	if p.peek().kind == kind {
		p.advance()
		return
	}
	if p.gaveUp {
		return
	}
	if t := p.peek(); t.kind != tokEnd {
		p.unexpectedToken(t)
		if p.skipTo(kind) {
			p.advance()
			return
		}
	}
	end := p.lastEnd()
	p.add(CodeUnclosed, end, end, fmt.Sprintf("Add %q where it ends.", text), "%s is never closed.", p.shown(open)).
		Relate(place(p.at, p.text, open.start, open.end), "opened here")
}

// skipTo skips tokens up to one of a kind, and reports whether there is one.
func (p *parser) skipTo(kind tokenKind) bool {
	for k := p.peek().kind; k != kind && k != tokEnd; k = p.peek().kind {
		p.advance()
	}
	return p.peek().kind == kind
}

// items parses expressions separated by commas and the closing bracket.
func (p *parser) items(open token, kind tokenKind, text string) []*node {
	var out []*node
	if p.peek().kind == kind {
		p.advance()
		return nil
	}
	for {
		if p.peek().kind == tokEnd {
			break
		}
		out = append(out, p.parse(bindAny))
		if p.peek().kind != tokComma {
			break
		}
		p.advance()
	}
	p.close(open, kind, text)
	return out
}

// list completes a list. A list of constants becomes a constant.
func (p *parser) list(n *node) {
	if len(n.kids) > maxItems {
		p.add(CodeTooLong, n.start, n.end, "Keep the list in a variable.", "The list has %d elements; the limit is %d.",
			len(n.kids), maxItems)
		return
	}
	values := make([]any, len(n.kids))
	for i, kid := range n.kids {
		if !kid.fixed {
			return
		}
		values[i] = kid.value.boxed()
	}
	n.value, n.fixed = of(values), true
}

// quantifies reports whether a call is any(… for x in list) or all(…). It looks ahead for the word for, because the
// condition comes before the variable and could be any expression.
func (p *parser) quantifies(name token) bool {
	if w := p.written(name); !p.rules.calculates || w != "any" && w != "all" {
		return false
	}
	depth := 0
	for _, t := range p.tokens[p.pos:] {
		switch {
		case t.kind == tokOpen || t.kind == tokListOpen:
			depth++
		case t.kind == tokClose || t.kind == tokListClose:
			if depth--; depth == 0 {
				return false
			}
		case depth == 1 && t.kind == tokName && p.written(t) == "for":
			return true
		}
	}
	return false
}

// quantifier parses any(CONDITION for NAME in LIST). The condition is parsed before the variable is known, so its names
// become local ones afterwards.
func (p *parser) quantifier(name token) *node {
	open := p.advance()
	n := &node{op: opQuantify, start: name.start, name: p.written(name)}
	condition := p.parse(bindAny)
	if p.peek().kind == tokName && p.written(p.peek()) == "for" {
		p.advance()
	}
	variable := p.advance()
	if variable.kind != tokName || p.peek().kind != tokIn {
		p.add(CodeUnexpected, variable.start, variable.end,
			fmt.Sprintf("Write %s(CONDITION for NAME in LIST).", n.name), "%s is not expected here.", p.shown(variable))
		p.giveUp()
		return &node{op: opBroken, start: n.start, end: p.lastEnd(), kids: []*node{condition}}
	}
	in := p.advance()
	n.path = []string{p.written(variable)}
	condition.walk(func(kid *node) {
		if kid.op == opPath && kid.path[0] == n.path[0] {
			kid.op = opLocal
		}
	})
	n.kids = []*node{condition, p.after(in, bindAdd)}
	p.close(open, tokClose, ")")
	n.end = p.lastEnd()
	return n
}

// call parses a call of a function, whose name has been consumed.
func (p *parser) call(name token) *node {
	if p.quantifies(name) {
		return p.quantifier(name)
	}
	open := p.advance()
	before := p.diags.Count(diag.Error)
	n := &node{op: opCall, start: name.start, name: p.functionName(name), kids: p.items(open, tokClose, ")")}
	n.end = p.lastEnd()
	n.call = p.rules.functions[n.name]
	switch {
	case n.call == nil:
		p.add(CodeFunction, name.start, name.end, "", "There is no function %q.", n.name).
			Suggest(n.name, slices.Collect(maps.Keys(p.rules.functions)))
		n.op = opBroken
	case p.diags.Count(diag.Error) > before: // the number of arguments is not known
		n.op = opBroken
	case len(n.kids) != n.call.takes:
		wanted := []string{"one argument", "two arguments"}[n.call.takes-1]
		p.add(CodeArguments, name.start, n.end,
			fmt.Sprintf("Call it as %s(%s).", n.name, []string{"a", "a, b"}[n.call.takes-1]), "%q takes %s, not %d.",
			n.name, wanted, len(n.kids))
		n.op = opBroken
	case n.call.op != opBroken:
		n.op, n.name, n.call = n.call.op, "", nil
	}
	return n
}

// functionName returns the name of a function. The name of an operator is case-insensitive, like the operator.
func (p *parser) functionName(t token) string {
	if t.kind != tokName {
		return strings.ToLower(p.written(t))
	}
	return p.written(t)
}

// path parses the rest of a name: .segment, [0], ["key"].
func (p *parser) path(n *node) *node {
	n.op = opPath
	for {
		t := p.peek()
		switch {
		case t.start != n.end:
			return n
		case t.kind == tokSegment:
			p.advance()
			if t.end == t.start+1 {
				p.add(CodePath, n.start, t.end, "Write what follows the dot, or remove it.", "The name ends in a dot.")
				n.op = opBroken
			}
			n.path = append(n.path, p.text[t.start+1:t.end])
		case t.kind == tokListOpen:
			p.index(n)
		case t.kind == tokOpen:
			known := strings.Join(slices.Sorted(maps.Keys(p.rules.functions)), ", ")
			p.add(CodePath, n.start, t.end,
				fmt.Sprintf("Write functions before their argument, such as len(x). Available: %s.", known),
				"%s is not a function.", inQuotes(p.text[n.start:n.end]))
			p.advance()
			kids := p.items(t, tokClose, ")")
			return &node{op: opBroken, start: n.start, end: p.lastEnd(), kids: append([]*node{n}, kids...)}
		default:
			return n
		}
		n.end = p.lastEnd()
	}
}

// index parses [0] or ["key"] after a name.
func (p *parser) index(n *node) {
	open := p.advance()
	t := p.peek()
	switch {
	case t.kind == tokConstant && t.value.kind == kindText:
		n.path = append(n.path, t.value.str)
		p.advance()
	case t.kind == tokConstant && t.value.kind == kindNumber && index(p.written(t)) >= 0:
		n.path = append(n.path, p.written(t))
		p.advance()
	default:
		p.add(CodePath, open.start, t.end, `Write [0] for the first element, or ["key"].`,
			"An index must be an integer or a string in quotes.")
		if !p.skipTo(tokListClose) {
			return
		}
	}
	p.close(open, tokListClose, "]")
}
