package python

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// Limits of the parser. Code comes from untrusted files: its size and the depth of the recursion have to be bounded.
const (
	maxCode  = 1 << 20 // bytes
	maxDepth = 60      // levels of nesting
	maxFound = 20      // reported errors
)

// Parse parses the code at [start, end) of a file. The module is never nil; statements that do not parse are missing in
// it.
func Parse(f *source.File, start, end int) (*Module, diag.List) {
	line := f.Position(start).Line
	m := &Module{Code: f.Text[start:end], Base: start, Line: line, file: f}
	p := &parser{module: m}
	p.parse()
	return m, p.found.Sorted()
}

// parser is the state of parsing one module. Methods that find an error call fail, which abandons the statement, or add
// one and go on where the rest of the statement is clear.
type parser struct {
	module *Module
	found  diag.List
	tokens []token
	// unclosed are the brackets that are never closed.
	unclosed []token
	pos      int
	depth    int
	inLoop   bool
	inDef    bool
}

// stop is the panic value that abandons a statement after an error. statement recovers it and continues with the next
// one.
type stop struct{}

// add reports an error.
func (p *parser) add(at Range, help, format string, args ...any) {
	if len(p.found) < maxFound {
		p.found.Errorf(CodeSyntax, p.module.Span(at), help, format, args...)
	}
}

// fail reports an error and abandons the statement. After a bracket that is never closed, all lines are part of the
// same expression; the bracket is the mistake, as in CPython.
func (p *parser) fail(at Range, help, format string, args ...any) {
	for _, b := range slices.Backward(p.unclosed) {
		if b.at.End <= at.Start && strings.Contains(p.module.Code[b.at.End:at.Start], "\n") {
			p.add(b.at, fmt.Sprintf("Add the missing %s.", closing[b.text]), "The bracket %s is never closed.", b.text)
			panic(stop{})
		}
	}
	p.add(at, help, format, args...)
	panic(stop{})
}

var closing = map[string]string{"(": ")", "[": "]", "{": "}"}

// unclosed returns the brackets that are never closed.
func unclosed(tokens []token) []token {
	var open []token
	for _, t := range tokens {
		switch {
		case t.kind != tokOp:
		case closing[t.text] != "":
			open = append(open, t)
		case len(open) > 0 && t.text == closing[open[len(open)-1].text]:
			open = open[:len(open)-1]
		}
	}
	return open
}

// parse parses the module. Wrong indentation between statements is reported and skipped.
func (p *parser) parse() {
	if len(p.module.Code) > maxCode {
		p.add(Range{0, 1}, "Move work into agents.", "The code is %d bytes long; the limit is %d.", len(p.module.Code),
			maxCode)
		return
	}
	if i := strings.IndexByte(p.module.Code, 0); i >= 0 || !utf8.ValidString(p.module.Code) {
		p.add(Range{max(i, 0), max(i, 0) + 1}, "Save the file as UTF-8.", "The code is not valid UTF-8.")
		return
	}
	lex := &lexer{text: p.module.Code, end: len(p.module.Code), fail: p.add}
	p.tokens = lex.lines()
	p.unclosed = unclosed(p.tokens)
	for p.peek().kind != tokEnd {
		switch t := p.peek(); t.kind {
		case tokIndent:
			p.add(t.at, "Remove the indentation.", "This line is indented, but nothing above begins a block.")
			p.pos++
		case tokDedent:
			p.pos++
		default:
			p.module.Body = append(p.module.Body, p.statement()...)
		}
	}
}

func (p *parser) peek() token { return p.tokens[p.pos] }

// next consumes a token. It never passes the end.
func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokEnd {
		p.pos++
	}
	return t
}

// lastEnd returns the end of the last consumed token.
func (p *parser) lastEnd() int {
	if p.pos == 0 {
		return 0
	}
	return p.tokens[p.pos-1].at.End
}

// from returns the range from an offset to the last consumed token.
func (p *parser) from(start int) Range { return Range{start, max(start, p.lastEnd())} }

func (p *parser) isOp(op string) bool {
	t := p.peek()
	return t.kind == tokOp && t.text == op
}

func (p *parser) isWord(word string) bool {
	t := p.peek()
	return t.kind == tokName && t.text == word
}

func (p *parser) acceptOp(op string) bool { return p.accept(p.isOp(op)) }

func (p *parser) acceptWord(word string) bool { return p.accept(p.isWord(word)) }

// accept consumes the token if it is the expected one.
func (p *parser) accept(expected bool) bool {
	if expected {
		p.pos++
	}
	return expected
}

// nextIs reports whether the token after this one has a kind and a text.
func (p *parser) nextIs(kind tokenKind, text string) bool {
	t := p.tokens[p.pos+1]
	return t.kind == kind && t.text == text
}

// shown returns a token for use in a message.
func (p *parser) shown(t token) string {
	switch t.kind {
	case tokEnd:
		return "the end of the code"
	case tokNewline:
		return "the end of the line"
	case tokIndent, tokDedent:
		return "the change of indentation"
	}
	return fmt.Sprintf("%q", p.module.Code[t.at.Start:t.at.End])
}

// expectOp consumes an operator, or fails.
func (p *parser) expectOp(op string) {
	if t := p.peek(); !p.acceptOp(op) {
		p.fail(p.visible(t), fmt.Sprintf("Write %s here.", op), "Expected %q before %s.", op, p.shown(t))
	}
}

func (p *parser) expectWord(word, help string) {
	if t := p.peek(); !p.acceptWord(word) {
		p.fail(p.visible(t), help, "Expected %q before %s.", word, p.shown(t))
	}
}

// visible returns a range that can be underlined: that of the token, or the end of the previous token if it has no
// text.
func (p *parser) visible(t token) Range {
	if t.at.End > t.at.Start {
		return t.at
	}
	if p.pos > 0 {
		return p.tokens[p.pos-1].at
	}
	return t.at
}

// name consumes a name, or fails. what is what it names.
func (p *parser) name(what string) token {
	t := p.peek()
	if t.kind != tokName || keywords[t.text] {
		p.fail(p.visible(t), "Write a name of letters, digits and underscores.", "Expected the name of %s, not %s.",
			what, p.shown(t))
	}
	return p.next()
}

// deeper limits the nesting of code, which comes from untrusted files. The caller has to call the function that it
// returns when it leaves the level. After an error, statement restores the depth instead.
func (p *parser) deeper() func() {
	if p.depth++; p.depth > maxDepth {
		p.depth = 0
		p.fail(p.visible(p.peek()), "Assign parts of it to variables.", "The code is nested more than %d levels deep.",
			maxDepth)
	}
	at := p.depth
	return func() { p.depth = at - 1 }
}

// statement parses a line of simple statements or a compound statement. After an error it skips the line and the block
// below it, and restores the nesting at its start: fail may have left inner levels.
func (p *parser) statement() (out []Stmt) {
	begin := p.pos
	depth, inLoop, inDef := p.depth, p.inLoop, p.inDef
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(stop); !ok {
				panic(r)
			}
			p.depth, p.inLoop, p.inDef = depth, inLoop, inDef
			p.skipLine(begin)
		}
	}()
	return p.oneStatement()
}

// skipLine skips the logical line and the block that belongs to it.
func (p *parser) skipLine(begin int) {
	if p.pos == begin {
		p.next()
	}
	for p.peek().kind != tokEnd {
		t := p.next()
		if t.kind == tokNewline {
			break
		}
		if t.kind == tokDedent {
			p.pos--
			return
		}
	}
	p.skipBlock()
}

// skipBlock skips an indented block, if one follows.
func (p *parser) skipBlock() {
	if p.peek().kind != tokIndent {
		return
	}
	for level := 0; p.peek().kind != tokEnd; {
		switch p.next().kind {
		case tokIndent:
			level++
		case tokDedent:
			if level--; level == 0 {
				return
			}
		}
	}
}

// oneStatement parses a statement without handling errors.
func (p *parser) oneStatement() []Stmt {
	defer p.deeper()()
	start := p.peek().at.Start
	if n := p.compound(); n != nil {
		return []Stmt{p.placed(n, start)}
	}
	return p.line("Start a new line, or add the missing operator.")
}

// placed sets the range of a node that begins at start and ends with the last token.
func (p *parser) placed(n node, start int) Stmt {
	n.setRange(p.from(start))
	return n
}

// compound parses a statement with a block, or returns nil if none begins here. The caller sets its range.
func (p *parser) compound() node {
	t := p.peek()
	if p.isOp("@") {
		return p.decorated()
	}
	if t.kind != tokName {
		return nil
	}
	switch t.text {
	case "if":
		return p.ifStatement(0)
	case "for":
		return p.forStatement()
	case "while":
		return p.whileStatement()
	case "def":
		return p.defStatement(nil)
	case "class":
		return p.classStatement(nil)
	case "try":
		return p.tryStatement()
	case "with":
		return p.withStatement()
	case "async":
		return p.asyncStatement(nil)
	case "match":
		if p.softStatement("case") {
			return p.matchStatement()
		}
	case "type":
		if next := p.tokens[p.pos+1]; next.kind == tokName && !keywords[next.text] {
			return p.typeStatement()
		}
	}
	return nil
}

// line parses simple statements up to the end of the line. help is for text after them.
func (p *parser) line(help string) []Stmt {
	var out []Stmt
	for {
		start := p.peek().at.Start
		out = append(out, p.placed(p.simple(), start))
		if !p.acceptOp(";") || p.peek().kind == tokNewline {
			break
		}
	}
	p.lineEnd(help)
	return out
}

// softStatement reports whether a name begins a statement whose block starts with a word, rather than an expression:
// match is a soft keyword and may also be a variable or function. Instead of trying both as CPython does, it looks at
// the end of the line and at the first word of the block below it.
func (p *parser) softStatement(word string) bool {
	next := p.tokens[p.pos+1]
	if next.kind == tokOp && !slices.Contains([]string{"(", "[", "{", "-", "*", "~", "..."},
		next.text) || next.kind == tokNewline {
		return false
	}
	for i := p.pos; p.tokens[i].kind != tokEnd; i++ {
		if p.tokens[i].kind == tokNewline {
			return p.tokens[i-1].text == ":" && p.tokens[i+1].kind == tokIndent && p.tokens[i+2].text == word
		}
	}
	return false
}

// decorated parses decorators and the function or class below them.
func (p *parser) decorated() node {
	var list []Expr
	for p.acceptOp("@") {
		list = append(list, p.expr())
		p.lineEnd("Start a new line.")
	}
	switch t := p.peek(); {
	case p.isWord("def"):
		return p.defStatement(list)
	case p.isWord("class"):
		return p.classStatement(list)
	case p.isWord("async"):
		return p.asyncStatement(list)
	default:
		p.fail(p.visible(t), "Add a function, or remove the decorator.",
			"Expected a function or a class below the decorator.")
	}
	return nil
}

// lineEnd consumes the end of a line. help is for text before it.
func (p *parser) lineEnd(help string) {
	if t := p.peek(); t.kind != tokNewline && t.kind != tokEnd {
		p.fail(p.visible(t), help, "Unexpected %s.", p.shown(t))
	}
	p.next()
}

// asyncStatement parses async def, async for and async with.
func (p *parser) asyncStatement(decorators []Expr) node {
	p.next()
	switch t := p.peek(); {
	case p.isWord("def"):
		def := p.defStatement(decorators)
		def.Def.Async = true
		return def
	case p.isWord("for") && decorators == nil:
		return p.forStatement()
	case p.isWord("with") && decorators == nil:
		return p.withStatement()
	default:
		p.fail(p.visible(t), "Write async def, async for or async with.", "Unexpected %s after \"async\".", p.shown(t))
	}
	return nil
}

// withStatement parses a with statement. A bracket after with is ambiguous; see withBrackets.
func (p *parser) withStatement() *With {
	p.next()
	n := &With{}
	bracket := p.isOp("(") && p.withBrackets()
	if bracket {
		p.next()
	}
	for {
		item := WithItem{X: p.expr()}
		if p.acceptWord("as") {
			item.Target = p.postfix()
			p.assignable(item.Target, "assigned to by with")
		}
		n.Items = append(n.Items, item)
		if !p.acceptOp(",") || bracket && p.isOp(")") {
			break
		}
	}
	if bracket {
		p.expectOp(")")
	}
	n.Body = p.block("with")
	return n
}

// withBrackets reports whether the bracket after "with" encloses all of its items: the matching one is followed by a
// colon, and there is an "as" or a comma at its level.
func (p *parser) withBrackets() bool {
	depth, several := 0, false
	for i := p.pos; p.tokens[i].kind != tokEnd && p.tokens[i].kind != tokNewline; i++ {
		t := p.tokens[i]
		switch {
		case t.kind == tokOp && slices.Contains([]string{"(", "[", "{"}, t.text):
			depth++
		case t.kind == tokOp && slices.Contains([]string{")", "]", "}"}, t.text):
			if depth--; depth == 0 {
				return several && p.tokens[i+1].text == ":"
			}
		case depth == 1 && (t.kind == tokOp && t.text == "," || t.kind == tokName && t.text == "as"):
			several = true
		}
	}
	return false
}

// typeStatement parses type NAME = X.
func (p *parser) typeStatement() *TypeAlias {
	p.next()
	n := &TypeAlias{Name: p.name("a type").text}
	p.typeParams()
	p.expectOp("=")
	p.expr()
	p.lineEnd("Start a new line.")
	return n
}

// typeParams parses the type parameters of a function, class or type, if there are any.
func (p *parser) typeParams() []string {
	if !p.acceptOp("[") {
		return nil
	}
	var out []string
	for !p.isOp("]") {
		if !p.acceptOp("**") {
			p.acceptOp("*")
		}
		out = append(out, p.name("a type parameter").text)
		if p.acceptOp(":") {
			p.expr()
		}
		if !p.acceptOp(",") {
			break
		}
	}
	p.expectOp("]")
	return out
}

// inner parses a block inside or outside of a loop and a function.
func (p *parser) inner(after string, inLoop, inDef bool) []Stmt {
	loop, def := p.inLoop, p.inDef
	p.inLoop, p.inDef = inLoop, inDef
	body := p.block(after)
	p.inLoop, p.inDef = loop, def
	return body
}

// block parses a colon and the statements after it: indented lines, or simple statements on the same line.
func (p *parser) block(after string) []Stmt {
	if p.isOp(":") {
		p.next()
	} else { // go on as if it were there
		p.add(p.visible(p.peek()), "Add the colon.", "Expected a colon after the %s.", after)
		for p.peek().kind != tokNewline && p.peek().kind != tokEnd {
			p.next()
		}
	}
	if p.peek().kind != tokNewline {
		return p.line("Start a new line.")
	}
	p.next()
	if t := p.peek(); t.kind != tokIndent {
		p.add(p.visible(t), "Indent its body, or write pass.", "Expected an indented block below the %s.", after)
		return nil
	}
	p.next()
	var out []Stmt
	for p.peek().kind != tokDedent && p.peek().kind != tokEnd {
		if t := p.peek(); t.kind == tokIndent {
			p.add(t.at, "Give it the same indentation.", "This line is indented more than the one above.")
			p.skipBlock()
			continue
		}
		out = append(out, p.statement()...)
	}
	p.next()
	return out
}

// ifStatement parses an if statement, or the rest of one from an elif clause on.
func (p *parser) ifStatement(elifs int) *If {
	p.next()
	p.chain(elifs, p.peek())
	n := &If{Cond: p.expr(), Then: p.block("condition")}
	if at := p.peek().at.Start; p.isWord("elif") {
		n.Else = []Stmt{p.placed(p.ifStatement(elifs+1), at)}
	} else if p.acceptWord("else") {
		n.Else = p.block("else")
	}
	return n
}

// loopBody parses the block of a loop and its else clause, whose break and continue belong to an outer loop.
func (p *parser) loopBody(what string) (body, otherwise []Stmt) {
	body = p.inner(what, true, p.inDef)
	if p.acceptWord("else") {
		otherwise = p.block("else")
	}
	return body, otherwise
}

// forStatement parses "for target in values: …".
func (p *parser) forStatement() *For {
	p.next()
	n := &For{Target: p.targets(), In: p.exprList()}
	n.Body, n.Else = p.loopBody("for")
	return n
}

// whileStatement parses "while condition: …".
func (p *parser) whileStatement() *While {
	p.next()
	n := &While{Cond: p.expr()}
	n.Body, n.Else = p.loopBody("condition")
	return n
}

// defStatement parses "def name(parameters): …". The type of the result is parsed and dropped.
func (p *parser) defStatement(decorators []Expr) *FuncDef {
	p.next()
	name := p.name("a function")
	n := &FuncDef{NameAt: name.at, Def: &Def{Name: name.text, Decorators: decorators, Types: p.typeParams()}}
	p.expectOp("(")
	n.Def.Params = p.params(")", true)
	p.expectOp(")")
	if p.acceptOp("->") {
		p.expr()
	}
	n.Def.Body = p.inner("function", false, true)
	return n
}

// params parses parameters up to a closing token, which it does not consume.
func (p *parser) params(closing string, annotated bool) []Param {
	var out []Param
	keyOnly := false
	for !p.isOp(closing) {
		var one Param
		switch {
		case p.acceptOp("/"):
			for i := range out {
				out[i].PosOnly = true
			}
			p.acceptOp(",")
			continue
		case p.acceptOp("**"):
			one.Stars = 2
		case p.acceptOp("*"):
			one.Stars = 1
			if p.isOp(",") {
				p.next()
				keyOnly = true
				continue
			}
		}
		name := p.name("a parameter")
		one.Name, one.KeyOnly = name.text, keyOnly && one.Stars == 0
		if slices.ContainsFunc(out, func(o Param) bool { return o.Name == one.Name }) {
			p.add(name.at, "Give it another name.", "The parameter %q is declared twice.", one.Name)
		}
		if one.Stars == 1 {
			keyOnly = true
		}
		if annotated && p.acceptOp(":") {
			one.Annotation = p.starExpr()
		}
		if p.acceptOp("=") {
			one.Default = p.expr()
		} else if one.Stars == 0 && !one.KeyOnly && len(out) > 0 && out[len(out)-1].Default != nil {
			p.add(name.at, "Give it a default, or move it to the front.",
				"The parameter %q without a default follows one with a default.", one.Name)
		}
		out = append(out, one)
		if !p.acceptOp(",") {
			break
		}
	}
	return out
}

// classStatement parses a class. Its bases and keywords have the syntax of the arguments of a call.
func (p *parser) classStatement(decorators []Expr) *ClassDef {
	start := p.next().at.Start
	name := p.name("a class")
	n := &ClassDef{Name: name.text, NameAt: name.at, Decorators: decorators, Types: p.typeParams()}
	if p.isOp("(") {
		for _, a := range p.call(start, nil).(*Call).Args {
			if a.Name != "" || a.Stars > 0 {
				n.Keywords = append(n.Keywords, a.X)
			} else {
				n.Bases = append(n.Bases, a.X)
			}
		}
	}
	n.Body = p.inner("class", false, false)
	return n
}

// IsTypedDict reports whether a class is a TypedDict.
func (c *ClassDef) IsTypedDict() bool {
	return slices.ContainsFunc(c.Bases, func(b Expr) bool { return isNamed(b, "TypedDict") })
}

// isNamed reports whether an expression is a name, or the attribute of a module, with the given last part.
func isNamed(x Expr, name string) bool {
	switch x := x.(type) {
	case *Name:
		return x.ID == name
	case *Attr:
		return x.Name == name
	}
	return false
}

// tryStatement parses "try: …" with its clauses.
func (p *parser) tryStatement() *Try {
	first := p.next()
	n := &Try{Body: p.block("try")}
	for p.isWord("except") {
		at := p.next().at
		h := Handler{Range: at}
		p.acceptOp("*") // exception groups
		if !p.isOp(":") {
			h.Type = p.exprList()
			if p.acceptWord("as") {
				h.As = p.name("the exception").text
			}
		}
		h.Body = p.block("except")
		n.Handlers = append(n.Handlers, h)
	}
	if len(n.Handlers) > 0 && p.acceptWord("else") {
		n.Else = p.block("else")
	}
	if p.acceptWord("finally") {
		n.Finally = p.block("finally")
	} else if len(n.Handlers) == 0 {
		p.add(first.at, "Add an except clause.", "This try has neither except nor finally.")
	}
	return n
}

// augmented are the operators of augmented assignments.
var augmented = []string{"+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", ">>=", "<<=", "@="}

// simple parses a statement that is not a block. The caller sets its range.
func (p *parser) simple() node {
	t := p.peek()
	if t.kind == tokName {
		switch t.text {
		case "pass", "break", "continue":
			return p.jump()
		case "return":
			return p.returnStatement()
		case "import", "from":
			return p.importStatement()
		case "raise":
			return p.raiseStatement()
		case "assert":
			return p.assertStatement()
		case "del":
			return p.delStatement()
		case "global", "nonlocal":
			return p.scopeStatement()
		}
	}
	x := p.exprList()
	switch op := p.peek(); {
	case p.isOp(":"):
		return p.annotated(x)
	case p.isOp("="):
		return p.assignment(x)
	case op.kind == tokOp && slices.Contains(augmented, op.text):
		return p.augmentedAssignment(x)
	}
	return &ExprStmt{X: x}
}

// jump parses "break", "continue" or "pass".
func (p *parser) jump() node {
	t := p.next()
	if t.text != "pass" && !p.inLoop {
		p.add(t.at, "Remove it.", "%q is outside of a loop.", t.text)
	}
	return &Jump{}
}

// returnStatement parses "return".
func (p *parser) returnStatement() node {
	t := p.next()
	n := &Return{}
	if !p.lineEnds() {
		n.X = p.exprList()
	}
	if !p.inDef {
		p.add(t.at, "Remove it.", "\"return\" is outside of a function.")
	}
	return n
}

// raiseStatement parses "raise error from cause".
func (p *parser) raiseStatement() node {
	p.next()
	n := &Raise{}
	if !p.lineEnds() {
		n.X = p.expr()
		if p.acceptWord("from") {
			n.Cause = p.expr()
		}
	}
	return n
}

// assertStatement parses "assert condition, message". Both are only operands: the checks need no more.
func (p *parser) assertStatement() node {
	p.next()
	n := &Operation{Operands: []Expr{p.expr()}}
	if p.acceptOp(",") {
		n.Operands = append(n.Operands, p.expr())
	}
	return n
}

// delStatement parses "del target, …".
func (p *parser) delStatement() node {
	p.next()
	n := &Del{}
	for more := true; more; more = p.acceptOp(",") && p.startsExpr() {
		x := p.postfix()
		p.assignable(x, "deleted")
		n.Targets = append(n.Targets, x)
	}
	return n
}

// scopeStatement parses "global name, …" or "nonlocal name, …".
func (p *parser) scopeStatement() node {
	n := &Scope{Word: p.next().text}
	for more := true; more; more = p.acceptOp(",") {
		n.Names = append(n.Names, p.name("a variable").text)
	}
	return n
}

// annotated parses the rest of "target: type = value".
func (p *parser) annotated(target Expr) node {
	p.next()
	n := &AnnAssign{Target: target, Type: p.expr()}
	p.assignable(target, "annotated")
	if p.acceptOp("=") {
		n.X = p.exprList()
	}
	return n
}

// assignment parses the rest of "target = target = value".
func (p *parser) assignment(first Expr) node {
	n := &Assign{Targets: []Expr{first}}
	for p.acceptOp("=") {
		n.Targets = append(n.Targets, p.exprList())
	}
	last := len(n.Targets) - 1
	n.X, n.Targets = n.Targets[last], n.Targets[:last]
	for _, target := range n.Targets {
		p.assignable(target, "assigned to")
	}
	return n
}

// augmentedAssignment parses the rest of "target += value".
func (p *parser) augmentedAssignment(target Expr) node {
	p.next()
	n := &AugAssign{Target: target, X: p.exprList()}
	if _, tuple := target.(*Seq); tuple {
		p.fail(target.Where(), "Change one variable at a time.", "An augmented assignment cannot have several targets.")
	}
	p.assignable(target, "changed")
	return n
}

// lineEnds reports whether the simple statement ends here.
func (p *parser) lineEnds() bool {
	t := p.peek()
	return t.kind == tokNewline || t.kind == tokEnd || t.kind == tokOp && t.text == ";"
}

// importStatement parses both forms of import. The dots of a relative import are part of From.
func (p *parser) importStatement() node {
	t := p.next()
	n := &Import{}
	dotted := func() string {
		name := p.name("a module").text
		for p.acceptOp(".") {
			name += "." + p.name("a module").text
		}
		return name
	}
	if t.text == "from" {
		at := p.peek().at.Start
		for p.isOp(".") || p.isOp("...") {
			n.From += p.next().text
		}
		if n.From == "" || !p.isWord("import") {
			n.From += dotted()
		}
		n.FromAt = p.from(at)
		p.expectWord("import", "Write from MODULE import NAME.")
		bracket := p.acceptOp("(")
		for {
			at := p.peek().at
			if !bracket && p.acceptOp("*") {
				n.Names = append(n.Names, Alias{Range: at, Name: "*", As: "*"})
				break
			}
			n.Names = append(n.Names, p.alias(at.Start, p.name("what is imported").text))
			if !p.acceptOp(",") || bracket && p.isOp(")") {
				break
			}
		}
		if bracket {
			p.expectOp(")")
		}
	} else {
		for more := true; more; more = p.acceptOp(",") {
			n.Names = append(n.Names, p.alias(p.peek().at.Start, dotted()))
		}
	}
	return n
}

// alias parses the rest of an import, after its name.
func (p *parser) alias(start int, name string) Alias {
	one := Alias{Name: name, As: name}
	if p.acceptWord("as") {
		one.As = p.name("the import").text
	}
	one.Range = p.from(start)
	return one
}

// targets parses the targets of a for loop or a comprehension, and the "in" after them.
func (p *parser) targets() Expr {
	start := p.peek().at.Start
	one := func() Expr {
		if p.isOp("*") {
			at := p.next().at.Start
			return &Starred{X: p.postfix(), Range: p.from(at)}
		}
		return p.postfix()
	}
	x := p.tuple(start, one(), one, func() bool { return !p.isWord("in") })
	p.assignable(x, "assigned to by for")
	p.expectWord("in", "Write for NAME in LIST.")
	return x
}

// assignable reports an error if x cannot be assigned to.
func (p *parser) assignable(x Expr, how string) {
	switch x := x.(type) {
	case *Name, *Index, *Attr:
		return
	case *Starred:
		p.assignable(x.X, how)
		return
	case *Seq:
		if x.Kind != '{' {
			stars := 0
			for _, item := range x.Items {
				if _, ok := item.(*Starred); ok {
					stars++
				}
				p.assignable(item, how)
			}
			if stars > 1 {
				p.fail(x.Where(), "Remove one of the stars.", "Only one target of an assignment can be starred.")
			}
			return
		}
	}
	p.fail(x.Where(), "Write the name of a variable; == compares.", "This cannot be %s.", how)
}
