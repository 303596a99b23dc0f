package python

// matchStatement parses a match statement.
func (p *parser) matchStatement() *Match {
	p.next()
	n := &Match{Subject: p.exprList()}
	p.expectOp(":")
	p.next() // the end of the line
	p.next() // the indentation
	for p.isWord("case") {
		at := p.next().at.Start
		c := Case{}
		p.patterns(&c)
		if p.acceptWord("if") {
			c.Guard = p.expr()
		}
		c.Body = p.block("case")
		c.Range = p.from(at)
		n.Cases = append(n.Cases, c)
	}
	if t := p.peek(); t.kind != tokDedent && t.kind != tokEnd {
		p.fail(p.visible(t), "Write case PATTERN and a colon.", "Expected \"case\" instead of %s.", p.shown(t))
	}
	p.next()
	return n
}

// patterns parses one or more patterns, separated by commas.
func (p *parser) patterns(c *Case) {
	for {
		p.pattern(c)
		if !p.acceptOp(",") || p.isOp(":") || p.isOp(")") || p.isOp("]") || p.isWord("if") {
			return
		}
	}
}

// pattern parses alternatives and an optional name.
func (p *parser) pattern(c *Case) {
	defer p.deeper()()
	if p.acceptOp("*") {
		p.capture(c)
		return
	}
	p.closedPattern(c)
	for p.acceptOp("|") {
		p.closedPattern(c)
	}
	if p.acceptWord("as") {
		p.capture(c)
	}
}

// capture parses the name of a variable in a pattern; _ matches everything and binds nothing.
func (p *parser) capture(c *Case) {
	if t := p.name("a variable"); t.text != "_" {
		c.Binds = append(c.Binds, &Name{Range: t.at, ID: t.text})
	}
}

// closedPattern parses a pattern without alternatives.
func (p *parser) closedPattern(c *Case) {
	t := p.peek()
	switch {
	case p.isOp("(") || p.isOp("["):
		p.next()
		if !p.isOp(closing[t.text]) {
			p.patterns(c)
		}
		p.closing(t)
	case p.isOp("{"):
		p.next()
		for !p.isOp("}") {
			if p.acceptOp("**") {
				p.capture(c)
			} else {
				c.Uses = append(c.Uses, p.binary(len(levels)-2)) // a literal or a dotted name
				p.expectOp(":")
				p.pattern(c)
			}
			if !p.acceptOp(",") {
				break
			}
		}
		p.closing(t)
	case t.kind == tokName && !keywords[t.text]:
		p.namePattern(c)
	default:
		c.Uses = append(c.Uses, p.binary(len(levels)-2)) // a literal, perhaps -1 or 1+2j
	}
}

// namePattern parses a variable, a dotted name, or a class with patterns.
func (p *parser) namePattern(c *Case) {
	t := p.peek()
	if !p.nextIs(tokOp, ".") && !p.nextIs(tokOp, "(") {
		p.capture(c)
		return
	}
	p.next()
	var x Expr = &Name{Range: t.at, ID: t.text}
	for p.acceptOp(".") {
		name := p.name("an attribute")
		x = &Attr{Range: p.from(t.at.Start), X: x, Name: name.text}
	}
	c.Uses = append(c.Uses, x)
	if open := p.peek(); p.acceptOp("(") {
		for !p.isOp(")") {
			if p.peek().kind == tokName && p.nextIs(tokOp, "=") {
				p.pos += 2
			}
			p.pattern(c)
			if !p.acceptOp(",") {
				break
			}
		}
		p.closing(open)
	}
}
