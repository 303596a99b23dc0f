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
	t := &Seq{Kind: '(', Items: []Expr{x}}
	for p.acceptOp(",") {
		if !p.startsExpr() {
			break
		}
		t.Items = append(t.Items, p.starExpr())
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
	n := &Await{}
	switch {
	case p.acceptWord("from"):
		n.X = p.expr()
	case p.startsExpr():
		n.X = p.exprList()
	}
	n.Range = p.from(t.at.Start)
	return n
}

func (p *parser) starExpr() Expr {
	if p.isOp("*") {
		start := p.next().at.Start
		n := &Starred{X: p.binary(0)}
		n.Range = p.from(start)
		return n
	}
	return p.expr()
}

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
		n := &Walrus{Name: name, X: p.expr()}
		n.Range = p.from(start)
		return n
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

func (p *parser) or() Expr {
	start := p.peek().at.Start
	x := p.and()
	for i := 0; p.acceptWord("or"); i++ {
		p.chain(i, p.peek())
		n := &BoolOp{X: x, Y: p.and()}
		n.Range = p.from(start)
		x = n
	}
	return x
}

func (p *parser) and() Expr {
	start := p.peek().at.Start
	x := p.not()
	for i := 0; p.acceptWord("and"); i++ {
		p.chain(i, p.peek())
		n := &BoolOp{And: true, X: x, Y: p.not()}
		n.Range = p.from(start)
		x = n
	}
	return x
}

func (p *parser) not() Expr {
	if p.isWord("not") {
		defer p.deeper()()
		start := p.next().at.Start
		n := &Unary{Op: "not", X: p.not()}
		n.Range = p.from(start)
		return n
	}
	return p.comparison()
}

var comparisons = []string{"<", ">", "<=", ">=", "==", "!="}

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
		case t.kind == tokName && t.text == "in":
			op = "in"
		case t.kind == tokName && t.text == "not" && p.tokens[p.pos+1].kind == tokName &&
			p.tokens[p.pos+1].text == "in":
			p.next()
			op = "not in"
		case t.kind == tokName && t.text == "is":
			op = "is"
			if next := p.tokens[p.pos+1]; next.kind == tokName && next.text == "not" {
				p.next()
				op = "is not"
			}
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

func (p *parser) binary(level int) Expr {
	if level == len(levels) {
		return p.unary()
	}
	start := p.peek().at.Start
	x := p.binary(level + 1)
	for n := 0; p.peek().kind == tokOp && slices.Contains(levels[level], p.peek().text); n++ {
		op := p.next()
		p.chain(n, op)
		n := &Binary{Op: op.text, X: x, Y: p.binary(level + 1)}
		n.Range = p.from(start)
		x = n
	}
	return x
}

func (p *parser) unary() Expr {
	t := p.peek()
	if t.kind == tokOp && (t.text == "-" || t.text == "+" || t.text == "~") {
		defer p.deeper()()
		p.next()
		n := &Unary{Op: t.text, X: p.unary()}
		n.Range = p.from(t.at.Start)
		return n
	}
	x := p.postfix()
	if p.isOp("**") {
		defer p.deeper()()
		p.next()
		n := &Binary{Op: "**", X: x, Y: p.unary()}
		n.Range = p.from(t.at.Start)
		return n
	}
	return x
}

// postfix parses an atom followed by calls, subscripts and attributes.
func (p *parser) postfix() Expr {
	start := p.peek().at.Start
	if p.acceptWord("await") {
		defer p.deeper()()
		n := &Await{X: p.postfix()}
		n.Range = p.from(start)
		return n
	}
	x := p.atom()
	for i := 0; ; i++ {
		p.chain(i, p.peek())
		switch {
		case p.isOp("."):
			p.next()
			name := p.name("an attribute")
			n := &Attr{X: x, Name: name.text}
			n.Range = p.from(start)
			x = n
		case p.isOp("("):
			x = p.call(start, x)
		case p.isOp("["):
			p.next()
			n := &Index{X: x, Key: p.subscript()}
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

func (p *parser) subscript() Expr {
	start := p.peek().at.Start
	x := p.slice()
	if !p.isOp(",") {
		return x
	}
	t := &Seq{Kind: '(', Items: []Expr{x}}
	for p.acceptOp(",") {
		if p.isOp("]") {
			break
		}
		t.Items = append(t.Items, p.slice())
	}
	t.Range = p.from(start)
	return t
}

func (p *parser) slice() Expr {
	start := p.peek().at.Start
	var lo Expr
	if !p.isOp(":") {
		lo = p.starExpr()
		if !p.isOp(":") {
			return lo
		}
	}
	n := &SliceExpr{Lo: lo}
	p.next()
	if !p.isOp(":") && !p.isOp("]") && !p.isOp(",") {
		n.Hi = p.expr()
	}
	if p.acceptOp(":") && !p.isOp("]") && !p.isOp(",") {
		n.Step = p.expr()
	}
	n.Range = p.from(start)
	return n
}

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
		case p.peek().kind == tokName && !keywords[p.peek().text] &&
			p.tokens[p.pos+1].kind == tokOp && p.tokens[p.pos+1].text == "=":
			a.Name = p.next().text
			p.next()
			a.X = p.expr()
		default:
			a.X = p.expr()
			if p.isWord("for") || p.isWord("async") {
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
	p.closing(open, ")")
	n.Range = p.from(start)
	return n
}

// closing consumes a closing bracket, or reports the one that is open.
func (p *parser) closing(open token, bracket string) {
	if p.acceptOp(bracket) {
		return
	}
	t := p.peek()
	if t.kind == tokEnd || t.kind == tokNewline || t.kind == tokDedent {
		p.fail(open.at, fmt.Sprintf("Write %s where it ends.", bracket), "This %q is never closed.", open.text)
	}
	p.fail(p.visible(t), "Write a comma between two values.", "Expected a comma or %q before %s.", bracket, p.shown(t))
}

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

func (p *parser) paren() Expr {
	defer p.deeper()()
	open := p.next()
	if p.acceptOp(")") {
		return &Seq{Kind: '(', Range: p.from(open.at.Start)}
	}
	if p.isWord("yield") {
		x := p.yield()
		p.closing(open, ")")
		return x
	}
	x := p.starExpr()
	if p.isWord("for") || p.isWord("async") {
		x = p.comprehension(open.at.Start, '(', nil, x)
		p.closing(open, ")")
		x.(*Comp).Range = p.from(open.at.Start)
		return x
	}
	if p.isOp(",") {
		t := &Seq{Kind: '(', Items: []Expr{x}}
		for p.acceptOp(",") {
			if !p.startsExpr() {
				break
			}
			t.Items = append(t.Items, p.starExpr())
		}
		p.closing(open, ")")
		t.Range = p.from(open.at.Start)
		return t
	}
	p.closing(open, ")")
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
		if len(n.Items) == 0 && (p.isWord("for") || p.isWord("async")) {
			c := p.comprehension(open.at.Start, '[', nil, x)
			p.closing(open, "]")
			c.Range = p.from(open.at.Start)
			return c
		}
		n.Items = append(n.Items, x)
		if !p.acceptOp(",") {
			break
		}
	}
	p.closing(open, "]")
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
		} else {
			x := p.starExpr()
			if p.acceptOp(":") {
				if s, ok := x.(*Starred); ok {
					p.fail(s.Range, "Write {**OTHER} to include another dict.", "A key of a dict cannot be unpacked.")
				}
				value := p.expr()
				if len(dict.Pairs) == 0 && (p.isWord("for") || p.isWord("async")) {
					c := p.comprehension(open.at.Start, ':', x, value)
					p.closing(open, "}")
					c.Range = p.from(open.at.Start)
					return c
				}
				dict.Pairs = append(dict.Pairs, Pair{Key: x, Value: value})
			} else {
				if len(set.Items) == 0 && (p.isWord("for") || p.isWord("async")) {
					c := p.comprehension(open.at.Start, '{', nil, x)
					p.closing(open, "}")
					c.Range = p.from(open.at.Start)
					return c
				}
				set.Items = append(set.Items, x)
			}
		}
		if len(set.Items) > 0 && len(dict.Pairs) > 0 {
			p.fail(p.visible(p.peek()), "Give every value a key, or none.", "This mixes a set and a dict.")
		}
		if !p.acceptOp(",") {
			break
		}
	}
	p.closing(open, "}")
	if len(set.Items) > 0 {
		set.Range = p.from(open.at.Start)
		return set
	}
	dict.Range = p.from(open.at.Start)
	return dict
}

func (p *parser) comprehension(start int, kind byte, key, item Expr) *Comp {
	c := &Comp{Kind: kind, Key: key, Item: item}
	for {
		p.acceptWord("async")
		if !p.acceptWord("for") {
			break
		}
		one := Clause{Target: p.targets("for")}
		if !p.acceptWord("in") {
			p.fail(p.visible(p.peek()), "Write for NAME in LIST.", "Expected \"in\" before %s.", p.shown(p.peek()))
		}
		one.In = p.or()
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
	var parts []FPart
	holes, opaque := false, any(nil)
	for p.peek().kind == tokString {
		t := p.next()
		if o, ok := t.value.(Opaque); ok {
			opaque = o
			continue
		}
		if !t.fstring {
			parts = append(parts, FPart{Text: t.value.(string)})
			continue
		}
		more := p.fstring(t.inner, t.raw, 0).Parts
		holes = true
		parts = append(parts, more...)
	}
	if opaque != nil {
		return &Const{Range: p.from(start), Value: opaque}
	}
	if !holes {
		var b strings.Builder
		for _, part := range parts {
			b.WriteString(part.Text)
		}
		return &Const{Range: p.from(start), Value: b.String()}
	}
	return &FString{Range: p.from(start), Parts: parts}
}

// fstring parses the content of an f-string or of a format specification.
func (p *parser) fstring(at Range, raw bool, level int) *FString {
	out := &FString{Range: at}
	text := p.module.Code
	lit := at.Start
	plain := func(end int) {
		if end <= lit {
			return
		}
		l := &lexer{text: text, fail: p.add}
		out.Parts = append(out.Parts, FPart{Text: l.content(Range{lit, end}, raw)})
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
			part, end := p.hole(Range{i, at.End}, level)
			out.Parts = append(out.Parts, part...)
			i, lit = end, end
		default:
			i++
		}
	}
	plain(at.End)
	return out
}

// hole parses one {…} of an f-string and returns its parts and where it ends. at begins at the brace and ends with the
// f-string.
func (p *parser) hole(at Range, level int) ([]FPart, int) {
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
	part := FPart{X: p.part(inner)}
	var out []FPart
	if text[end] == '=' { // {x=} also prints the expression
		for end++; end < at.End && text[end] == ' '; end++ {
		}
		out = append(out, FPart{Text: text[inner.Start:end]})
		part.Conv = 'r'
	}
	if end < at.End && text[end] == '!' {
		if end+1 >= at.End || strings.IndexByte("rsa", text[end+1]) < 0 {
			p.fail(Range{end, min(end+2, at.End)}, "Write !r, !s or !a.", "There is no such conversion.")
		}
		part.Conv = text[end+1]
		end += 2
	}
	if end < at.End && text[end] == ':' {
		from := end + 1
		end = lex.specEnd(from, at.End, true)
		part.Spec = p.fstring(Range{from, end}, true, level+1)
		if part.Conv == 'r' && len(out) > 0 {
			part.Conv = 0 // with a specification, {x=:…} formats the value itself
		}
	}
	if end >= at.End || text[end] != '}' {
		p.fail(Range{at.Start, min(end+1, at.End)}, "Write } where the expression ends.",
			"This \"{\" of the f-string is never closed.")
	}
	return append(out, part), end + 1
}

// part parses an expression inside of a token.
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
