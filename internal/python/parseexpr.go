package python

import (
	"fmt"
	"slices"
	"strings"
)

// exprList parses an expression, or several separated by commas, which form a tuple.
func (p *parser) exprList() Expr {
	start := p.peek().at.Start
	if p.isWord("yield") {
		return p.yield()
	}
	x := p.starExpr()
	if !p.isOp(",") {
		if s, ok := x.(*Starred); ok {
			p.fail(s.Where(), "Write a comma after it, or brackets around it.",
				"A starred expression is only allowed in a list or a call.")
		}
		return x
	}
	return p.tuple(start, x, p.starExpr, p.startsExpr)
}

// tuple parses the rest of a tuple, whose first item is x, or returns x if no comma follows. more reports whether
// another item follows a comma.
func (p *parser) tuple(start int, x Expr, item func() Expr, more func() bool) Expr {
	if !p.isOp(",") {
		return x
	}
	t := &Seq{Kind: '(', Items: []Expr{x}}
	for p.acceptOp(",") && more() {
		t.Items = append(t.Items, item())
	}
	t.Range = p.from(start)
	return t
}

// yield parses yield, yield x and yield from x.
func (p *parser) yield() Expr {
	t := p.next()
	if !p.inDef {
		p.add(t.at, "Remove it.", "\"yield\" is outside of a function.")
	}
	n := &Operation{}
	switch {
	case p.acceptWord("from"):
		n.Operands = []Expr{p.expr()}
	case p.startsExpr():
		n.Operands = []Expr{p.exprList()}
	}
	n.Range = p.from(t.at.Start)
	return n
}

// starExpr parses an expression that may have a star.
func (p *parser) starExpr() Expr {
	if p.isOp("*") {
		start := p.next().at.Start
		return &Starred{X: p.binary(0), Range: p.from(start)}
	}
	return p.expr()
}

// startsExpr reports whether the next token can begin an expression.
func (p *parser) startsExpr() bool {
	t := p.peek()
	switch t.kind {
	case tokNumber, tokString:
		return true
	case tokName:
		return !keywords[t.text] ||
			slices.Contains([]string{"None", "True", "False", "not", "lambda", "await"}, t.text)
	case tokOp:
		return slices.Contains([]string{"(", "[", "{", "-", "+", "~", "*", "..."}, t.text)
	}
	return false
}

// expr parses one expression, including := and conditional expressions.
func (p *parser) expr() Expr {
	defer p.deeper()()
	start := p.peek().at.Start
	if p.isWord("lambda") {
		return p.lambda()
	}
	x := p.or()
	if p.isOp(":=") {
		name, ok := x.(*Name)
		if !ok {
			p.fail(x.Where(), "Write NAME := VALUE.", "Only a name can be assigned with :=.")
		}
		p.next()
		return &Walrus{Name: name, X: p.expr(), Range: p.from(start)}
	}
	if p.isWord("if") {
		p.next()
		n := &IfExp{Then: x, Cond: p.or()}
		if !p.acceptWord("else") {
			p.fail(p.visible(p.peek()), "Write A if CONDITION else B.", "This if has no else.")
		}
		n.Else = p.expr()
		n.Range = p.from(start)
		return n
	}
	return x
}

// lambda parses a lambda. Its body may contain yield, like that of a function.
func (p *parser) lambda() Expr {
	start := p.next().at.Start
	def := &Def{Name: "<lambda>", Params: p.params(":", false)}
	p.expectOp(":")
	inDef := p.inDef
	p.inDef = true
	def.Result = p.expr()
	p.inDef = inDef
	return &Lambda{Def: def, Range: p.from(start)}
}

func (p *parser) or() Expr { return p.boolean("or", p.and) }

func (p *parser) and() Expr { return p.boolean("and", p.not) }

// boolean parses operands that a word joins.
func (p *parser) boolean(word string, operand func() Expr) Expr {
	start := p.peek().at.Start
	x := operand()
	for i := 0; p.acceptWord(word); i++ {
		p.chain(i, p.peek())
		x = &BoolOp{X: x, Y: operand(), Range: p.from(start)}
	}
	return x
}

func (p *parser) not() Expr {
	if p.isWord("not") {
		defer p.deeper()()
		start := p.next().at.Start
		return &Unary{Op: "not", X: p.not(), Range: p.from(start)}
	}
	return p.comparison()
}

var comparisons = []string{"<", ">", "<=", ">=", "==", "!="}

// comparison parses a chain of comparisons into one node.
func (p *parser) comparison() Expr {
	start := p.peek().at.Start
	x := p.binary(0)
	var n *Compare
	for {
		t := p.peek()
		op := ""
		switch {
		case t.kind == tokOp && slices.Contains(comparisons, t.text):
			op = t.text
		case p.isWord("in"), p.isWord("is"):
			op = t.text
			if op == "is" && p.nextIs(tokName, "not") {
				p.next()
				op = "is not"
			}
		case p.isWord("not") && p.nextIs(tokName, "in"):
			p.next()
			op = "not in"
		}
		if op == "" {
			break
		}
		p.next()
		if n == nil {
			n = &Compare{First: x}
		}
		n.Ops = append(n.Ops, op)
		n.Rest = append(n.Rest, p.binary(0))
	}
	if n == nil {
		return x
	}
	n.Range = p.from(start)
	return n
}

// levels lists the binary operators by increasing precedence.
var levels = [][]string{{"|"}, {"^"}, {"&"}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "//", "%", "@"}}

// binary parses operators of a level and of all higher ones. Operators of one level are left-associative.
func (p *parser) binary(level int) Expr {
	if level == len(levels) {
		return p.unary()
	}
	start := p.peek().at.Start
	x := p.binary(level + 1)
	for n := 0; p.peek().kind == tokOp && slices.Contains(levels[level], p.peek().text); n++ {
		op := p.next()
		p.chain(n, op)
		x = &Binary{Op: op.text, X: x, Y: p.binary(level + 1), Range: p.from(start)}
	}
	return x
}

// unary parses signs and powers. A power binds more tightly than a sign on its left, and less tightly than one on its
// right: -x ** -y.
func (p *parser) unary() Expr {
	t := p.peek()
	if t.kind == tokOp && (t.text == "-" || t.text == "+" || t.text == "~") {
		defer p.deeper()()
		p.next()
		return &Unary{Op: t.text, X: p.unary(), Range: p.from(t.at.Start)}
	}
	x := p.postfix()
	if p.isOp("**") {
		defer p.deeper()()
		p.next()
		return &Binary{Op: "**", X: x, Y: p.unary(), Range: p.from(t.at.Start)}
	}
	return x
}

// postfix parses an atom followed by calls, subscripts and attributes.
func (p *parser) postfix() Expr {
	start := p.peek().at.Start
	if p.acceptWord("await") {
		defer p.deeper()()
		return &Operation{Operands: []Expr{p.postfix()}, Range: p.from(start)}
	}
	x := p.atom()
	for i := 0; ; i++ {
		p.chain(i, p.peek())
		switch {
		case p.isOp("."):
			p.next()
			name := p.name("an attribute")
			x = &Attr{X: x, Name: name.text, Range: p.from(start)}
		case p.isOp("("):
			x = p.call(start, x)
		case p.isOp("["):
			p.next()
			n := &Index{X: x, Key: p.tuple(p.peek().at.Start, p.slice(), p.slice, func() bool { return !p.isOp("]") })}
			p.expectOp("]")
			n.Range = p.from(start)
			x = n
		default:
			return x
		}
	}
}

// chain limits the length of a chain of operators, because its tree is as deep as the chain is long.
func (p *parser) chain(n int, at token) {
	if n > maxChain {
		p.fail(p.visible(at), "Assign parts of it to variables.", "The expression has more than %d operators in a row.",
			maxChain)
	}
}

const maxChain = 1000

// slice parses an item of a subscript: an expression, or several around colons.
func (p *parser) slice() Expr {
	start := p.peek().at.Start
	n := &Operation{}
	if !p.isOp(":") {
		lo := p.starExpr()
		if !p.isOp(":") {
			return lo
		}
		n.Operands = []Expr{lo}
	}
	for range 2 {
		if p.acceptOp(":") && !p.isOp(":") && !p.isOp("]") && !p.isOp(",") {
			n.Operands = append(n.Operands, p.expr())
		}
	}
	n.Range = p.from(start)
	return n
}

// call parses the arguments of a call, or the bases of a class. fn may be nil.
func (p *parser) call(start int, fn Expr) Expr {
	defer p.deeper()()
	open := p.next()
	n := &Call{Fn: fn}
	for !p.isOp(")") {
		if !p.startsExpr() && !p.isOp("**") {
			break
		}
		var a Arg
		at := p.peek().at.Start
		switch {
		case p.acceptOp("**"):
			a.Stars, a.X = 2, p.expr()
		case p.acceptOp("*"):
			a.Stars, a.X = 1, p.expr()
		case p.peek().kind == tokName && !keywords[p.peek().text] && p.nextIs(tokOp, "="):
			a.Name = p.next().text
			p.next()
			a.X = p.expr()
		default:
			a.X = p.expr()
			if p.startsClauses() {
				a.X = p.comprehension(at, '(', nil, a.X)
			}
			if last := len(n.Args) - 1; last >= 0 && (n.Args[last].Name != "" || n.Args[last].Stars == 2) {
				p.add(a.X.Where(), "Move it to the front, or give it a name.",
					"A positional argument follows a keyword argument.")
			}
		}
		n.Args = append(n.Args, a)
		if !p.acceptOp(",") {
			break
		}
	}
	p.closing(open)
	n.Range = p.from(start)
	return n
}

// closing consumes a closing bracket, or reports the one that is open.
func (p *parser) closing(open token) {
	bracket := closing[open.text]
	if p.acceptOp(bracket) {
		return
	}
	t := p.peek()
	if t.kind == tokEnd || t.kind == tokNewline || t.kind == tokDedent {
		p.fail(open.at, fmt.Sprintf("Write %s where it ends.", bracket), "This %q is never closed.", open.text)
	}
	p.fail(p.visible(t), "Write a comma between two values.", "Expected a comma or %q before %s.", bracket, p.shown(t))
}

// atom parses a constant, a name, or something in brackets.
func (p *parser) atom() Expr {
	t := p.peek()
	switch t.kind {
	case tokNumber:
		p.next()
		return &Const{Range: t.at, Value: t.value}
	case tokString:
		return p.strings()
	case tokName:
		switch t.text {
		case "None":
			p.next()
			return &Const{Range: t.at}
		case "True", "False":
			p.next()
			return &Const{Range: t.at, Value: t.text == "True"}
		case "lambda":
			return p.lambda()
		}
		if keywords[t.text] {
			p.fail(t.at, "Write a value.", "Unexpected %q.", t.text)
		}
		p.next()
		return &Name{Range: t.at, ID: t.text}
	case tokOp:
		switch t.text {
		case "(":
			return p.paren()
		case "[":
			return p.list()
		case "{":
			return p.braces()
		case "...":
			p.next()
			return &Const{Range: t.at, Value: Opaque("ellipsis")}
		}
	}
	p.fail(p.visible(t), "Write the missing value.", "Expected a value before %s.", p.shown(t))
	return nil
}

// paren parses a tuple, a generator, or an expression in parentheses.
func (p *parser) paren() Expr {
	defer p.deeper()()
	open := p.next()
	if p.acceptOp(")") {
		return &Seq{Kind: '(', Range: p.from(open.at.Start)}
	}
	if p.isWord("yield") {
		x := p.yield()
		p.closing(open)
		return x
	}
	x := p.starExpr()
	if p.startsClauses() {
		return p.bracketed(open, '(', nil, x)
	}
	if p.isOp(",") {
		t := p.tuple(open.at.Start, x, p.starExpr, p.startsExpr).(*Seq)
		p.closing(open)
		t.Range = p.from(open.at.Start)
		return t
	}
	p.closing(open)
	if s, ok := x.(*Starred); ok {
		p.fail(s.Where(), "Write a comma after it.", "A starred expression is only allowed in a list or a call.")
	}
	return x
}

func (p *parser) list() Expr {
	defer p.deeper()()
	open := p.next()
	n := &Seq{Kind: '['}
	for p.startsExpr() {
		x := p.starExpr()
		if len(n.Items) == 0 && p.startsClauses() {
			return p.bracketed(open, '[', nil, x)
		}
		n.Items = append(n.Items, x)
		if !p.acceptOp(",") {
			break
		}
	}
	p.closing(open)
	n.Range = p.from(open.at.Start)
	return n
}

// braces parses a dict, a set, or a comprehension of one.
func (p *parser) braces() Expr {
	defer p.deeper()()
	open := p.next()
	dict, set := &DictExpr{}, &Seq{Kind: '{'}
	for p.startsExpr() || p.isOp("**") {
		if p.acceptOp("**") {
			dict.Pairs = append(dict.Pairs, Pair{Value: p.binary(0)})
		} else if x := p.starExpr(); p.acceptOp(":") {
			if s, ok := x.(*Starred); ok {
				p.fail(s.Range, "Write {**OTHER} to include another dict.", "A key of a dict cannot be unpacked.")
			}
			value := p.expr()
			if len(dict.Pairs) == 0 && p.startsClauses() {
				return p.bracketed(open, ':', x, value)
			}
			dict.Pairs = append(dict.Pairs, Pair{Key: x, Value: value})
		} else {
			if len(set.Items) == 0 && p.startsClauses() {
				return p.bracketed(open, '{', nil, x)
			}
			set.Items = append(set.Items, x)
		}
		if len(set.Items) > 0 && len(dict.Pairs) > 0 {
			p.fail(p.visible(p.peek()), "Give every value a key, or none.", "This mixes a set and a dict.")
		}
		if !p.acceptOp(",") {
			break
		}
	}
	p.closing(open)
	if len(set.Items) > 0 {
		set.Range = p.from(open.at.Start)
		return set
	}
	dict.Range = p.from(open.at.Start)
	return dict
}

// startsClauses reports whether the clauses of a comprehension follow.
func (p *parser) startsClauses() bool { return p.isWord("for") || p.isWord("async") }

// bracketed parses the clauses of a comprehension and its closing bracket.
func (p *parser) bracketed(open token, kind byte, key, item Expr) Expr {
	c := p.comprehension(open.at.Start, kind, key, item)
	p.closing(open)
	c.Range = p.from(open.at.Start)
	return c
}

// comprehension parses the clauses of a comprehension, whose key and item have been parsed.
func (p *parser) comprehension(start int, kind byte, key, item Expr) *Comp {
	c := &Comp{Kind: kind, Key: key, Item: item}
	for {
		p.acceptWord("async")
		if !p.acceptWord("for") {
			break
		}
		one := Clause{Target: p.targets(), In: p.or()}
		for p.acceptWord("if") {
			one.Ifs = append(one.Ifs, p.or())
		}
		c.Clauses = append(c.Clauses, one)
	}
	c.Range = p.from(start)
	return c
}

// strings parses one or more adjacent strings, which are concatenated.
func (p *parser) strings() Expr {
	start := p.peek().at.Start
	var text strings.Builder
	var fields []Expr
	format, opaque := false, any(nil)
	for p.peek().kind == tokString {
		t := p.next()
		switch v := t.value.(type) {
		case Opaque:
			opaque = v
		case string:
			text.WriteString(v)
		default:
			format = true
			fields = append(fields, p.fstring(t.inner, t.raw, 0)...)
		}
	}
	switch at := p.from(start); {
	case opaque != nil:
		return &Const{Range: at, Value: opaque}
	case format:
		return &FString{Range: at, Fields: fields}
	default:
		return &Const{Range: at, Value: text.String()}
	}
}

// fstring parses the content of an f-string or of a format specification, and returns the expressions in it.
func (p *parser) fstring(at Range, raw bool, level int) []Expr {
	var out []Expr
	text := p.module.Code
	lit := at.Start
	lex := &lexer{text: text, fail: p.add}
	plain := func(end int) { // its value does not matter, but the errors in it do
		lex.content(Range{lit, max(lit, end)}, raw)
	}
	for i := at.Start; i < at.End; {
		c := text[i]
		switch {
		case c == '\\' && !raw && i+1 < at.End:
			i = afterEscape(text[:at.End], i)
		case (c == '{' || c == '}') && i+1 < at.End && text[i+1] == c && level == 0:
			plain(i + 1)
			i += 2
			lit = i
		case c == '}':
			p.fail(Range{i, i + 1}, "Write }} for the character itself.", "An f-string contains a single \"}\".")
		case c == '{':
			plain(i)
			fields, end := p.hole(Range{i, at.End}, level)
			out = append(out, fields...)
			i, lit = end, end
		default:
			i++
		}
	}
	plain(at.End)
	return out
}

// hole parses one {…} of an f-string and returns the expressions in it and where it ends. at begins at the brace and
// ends with the f-string.
func (p *parser) hole(at Range, level int) ([]Expr, int) {
	text := p.module.Code
	brace := Range{at.Start, at.Start + 1}
	if level > 1 {
		p.fail(brace, "Compute the specification before.", "Format specifications are nested too deeply.")
	}
	lex := &lexer{text: text, end: at.End}
	end := lex.exprEnd(at.Start+1, at.End)
	if end >= at.End {
		p.fail(brace, "Write } where the expression ends; {{ is the character itself.",
			"This \"{\" of the f-string is never closed.")
	}
	inner := Range{at.Start + 1, end}
	if strings.TrimSpace(text[inner.Start:inner.End]) == "" {
		p.fail(Range{at.Start, end + 1}, "Write a value, or {{ and }} for the characters themselves.",
			"There is no expression between the braces of the f-string.")
	}
	out := []Expr{p.part(inner)}
	if text[end] == '=' { // {x=} also prints the expression
		for end++; end < at.End && text[end] == ' '; end++ {
		}
	}
	if end < at.End && text[end] == '!' {
		if end+1 >= at.End || strings.IndexByte("rsa", text[end+1]) < 0 {
			p.fail(Range{end, min(end+2, at.End)}, "Write !r, !s or !a.", "There is no such conversion.")
		}
		end += 2
	}
	if end < at.End && text[end] == ':' {
		from := end + 1
		end = lex.specEnd(from, at.End, true)
		out = append(out, p.fstring(Range{from, end}, true, level+1)...)
	}
	if end >= at.End || text[end] != '}' {
		p.fail(Range{at.Start, min(end+1, at.End)}, "Write } where the expression ends.",
			"This \"{\" of the f-string is never closed.")
	}
	return out, end + 1
}

// part parses an expression inside of a token. It exchanges the tokens of the parser for those of the part and restores
// them in any case, because fail leaves it with a panic. All of the part counts as inside of a bracket, so line ends in
// it have no meaning.
func (p *parser) part(at Range) Expr {
	lex := &lexer{text: p.module.Code, pos: at.Start, end: at.End, inside: 1, fail: p.fail}
	for lex.pos < lex.end {
		lex.next()
	}
	lex.emit(tokEnd, lex.pos, "")
	outer, pos := p.tokens, p.pos
	p.tokens, p.pos = lex.out, 0
	defer func() { p.tokens, p.pos = outer, pos }()
	x := p.exprList()
	if t := p.peek(); t.kind != tokEnd {
		p.fail(p.visible(t), "Write one expression between the braces.", "Unexpected %s.", p.shown(t))
	}
	return x
}
