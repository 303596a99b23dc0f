package expr

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// The linter reports only what holds for all values of the variables.

// lintCondition lints an expression that is used as a condition.
func (p *parser) lintCondition(n *node) {
	before := len(p.diags)
	p.lintValue(n)
	if len(p.diags) != before {
		return
	}
	p.lintDecides(n)
}

// lintDecides reports the parts that are always true or always false.
func (p *parser) lintDecides(n *node) {
	if p.neverTrueOrFalse(n) {
		p.notCondition(n, nil, nonEmpty)
		return
	}
	if result, ok := p.constantResult(n); ok {
		help := "Remove the condition if it should always be true, or compare something that changes."
		if n.op == opNot || n.op == opAnd || n.op == opOr {
			help = "Remove the part that decides it, or compare something that changes."
		}
		var quoted []*node
		n.walk(func(kid *node) {
			if kid.op == opConstant && looksLikePath(kid.value.str) {
				help = fmt.Sprintf("Write %s without quotes if you mean the variable.", kid.value.str)
				quoted = append(quoted, kid)
			}
		})
		found := p.warn(CodeConstant, n, help, "%s is always %t.", p.text[n.start:n.end], result)
		if len(quoted) == 1 {
			p.unquote(found, quoted[0])
		}
		return
	}
	if n.op == opAnd || n.op == opOr || n.op == opNot {
		for _, kid := range n.kids {
			p.lintDecides(kid)
		}
	}
}

// neverTrueOrFalse reports whether a node cannot be a condition. The constant null can be one, although not a useful
// one.
func (p *parser) neverTrueOrFalse(n *node) bool {
	types := p.types(n)
	return types&kindBool == 0 && types != kindNull
}

// The tests of lists and texts that notCondition suggests.
const (
	nonEmpty = "is non-empty"
	empty    = "is empty"
)

// notCondition reports an expression that is neither true nor false. Test is the condition that was probably intended,
// and parent the operator that needs it, or nil.
func (p *parser) notCondition(n, parent *node, test string) {
	written := p.text[n.start:n.end]
	help := "Compare it with something, such as x == " + written + "."
	fix := func(*diag.Diagnostic) {}
	switch types := withoutNull(p.types(n)); {
	case n.op == opPath && types&^sized == 0:
		meant, whole := written+" "+test, n
		help = fmt.Sprintf("Write %s.", meant)
		if test == empty {
			if p.operands[parent] { // what is next to it binds closer
				meant = "(" + meant + ")"
			}
			help, whole = fmt.Sprintf("Write %s, without not.", meant), parent
		}
		fix = func(d *diag.Diagnostic) { p.replace(d, whole.start, whole.end, meant) }
	case n.op == opPath && types == kindNumber, n.op.calculates():
		help = fmt.Sprintf("Compare it, such as %s > 0.", written)
	case n.op == opConstant && looksLikePath(n.value.str):
		help = fmt.Sprintf("Write %s without quotes if you mean the variable.", n.value.str)
		fix = func(d *diag.Diagnostic) { p.unquote(d, n) }
	case n.op == opCall && n.call.result&kindNumber != 0:
		help = "Compare it, such as " + p.text[n.start:n.end] + " > 0."
	case n.op == opCall:
		help = "Compare it, such as " + p.text[n.start:n.end] + ` == "yes".`
	}
	fix(p.add(CodeNotCondition, n.start, n.end, help, "%s is %s, not true or false.", p.text[n.start:n.end],
		kinds(withoutNull(p.types(n)))))
}

// unquote adds a fix that removes the quotes of a text, unless it is no name without them.
func (p *parser) unquote(d *diag.Diagnostic, n *node) {
	for segment := range strings.SplitSeq(n.value.str, ".") {
		if segment == "" || wordEnd(segment, 0) < len(segment) {
			return
		}
	}
	p.replace(d, n.start, n.end, n.value.str)
}

// looksLikePath reports whether a text in quotes is probably meant as a path.
func looksLikePath(s string) bool {
	for _, namespace := range []string{"input.", "state.", "output.", "workflow."} {
		if strings.HasPrefix(s, namespace) && !strings.ContainsAny(s, " \t\n") {
			return true
		}
	}
	return false
}

// lintValue checks the operand types of every operator.
func (p *parser) lintValue(n *node) {
	if n.op == opQuantify && p.itemKinds != nil && n.kids[1].op == opPath {
		outer, nested := p.locals[n.path[0]]
		p.locals[n.path[0]] = p.itemKinds(n.kids[1])
		defer func() {
			if delete(p.locals, n.path[0]); nested {
				p.locals[n.path[0]] = outer
			}
		}()
	}
	for _, kid := range n.kids {
		if kid.op == opNot && n.op != opAnd && n.op != opOr && n.op != opNot {
			if p.operands == nil {
				p.operands = map[*node]bool{}
			}
			p.operands[kid] = true
		}
		p.lintValue(kid)
	}
	switch n.op {
	case opAnd, opOr, opNot:
		test := nonEmpty
		if n.op == opNot {
			test = empty
		}
		for _, kid := range n.kids {
			if p.neverTrueOrFalse(kid) {
				p.notCondition(kid, n, test)
			}
		}
	case opLocal:
		if item, ok := p.locals[n.path[0]]; ok && len(n.path) > 1 && item&kindObject == 0 {
			p.warn(CodeOperandType, n, fmt.Sprintf("Compare %s itself.", n.path[0]),
				"%s has no property %q, so this is always null.", upperFirst(kinds(withoutNull(item))), n.path[1])
		}
	case opEqual, opUnequal:
		p.lintEqual(n)
	case opLess, opLessEqual, opGreater, opGreaterEqual:
		p.lintOrder(n)
	case opContains, opNotContains:
		p.lintContains(n, n.kids[0], n.kids[1])
	case opIn, opNotIn:
		p.lintContains(n, n.kids[1], n.kids[0])
	case opQuantify:
		p.lintDecides(n.kids[0])
		if list := withoutNull(p.types(n.kids[1])); list&(kindList|kindNull) == 0 {
			p.add(CodeOperandType, n.kids[1].start, n.kids[1].end, "Write a list after in.", "%s is not a list.",
				upperFirst(kinds(list)))
		}
	case opAdd, opSubtract, opMultiply, opDivide, opFloor, opModulo, opNegate:
		for _, kid := range n.kids {
			if t := withoutNull(p.types(kid)); t&(kindNumber|kindNull) == 0 {
				p.add(CodeOperandType, kid.start, kid.end, calculateHelp, "Arithmetic is not defined for %s.",
					kinds(t))
			}
		}
	case opEmpty, opNotEmpty:
		if t := withoutNull(p.types(n.kids[0])); t&(sized|kindNull) == 0 {
			written := p.text[n.kids[0].start:n.kids[0].end]
			help := fmt.Sprintf("Write %s == null or %s != null to check whether it has a value.", written, written)
			if t == kindNumber {
				help = fmt.Sprintf("Compare it, such as %s > 0.", written)
			}
			p.warn(CodeConstant, n, help, "%s is never empty, so this only checks whether %s has a value.",
				upperFirst(kinds(t)), written)
		}
	case opCall:
		if arg := withoutNull(p.types(n.kids[0])); arg&n.call.operand == 0 {
			p.add(CodeOperandType, n.start, n.end,
				fmt.Sprintf("Pass %s to %s().", kinds(withoutNull(n.call.operand)), n.name), "%s() does not accept %s.",
				n.name, kinds(arg))
		}
	}
}

// lintEqual reports two operands that have no type in common.
func (p *parser) lintEqual(n *node) {
	a, b := p.types(n.kids[0]), p.types(n.kids[1])
	if a&b != 0 {
		return
	}
	help := "Compare values of the same type."
	fix := func(*diag.Diagnostic) {}
	for i, kid := range n.kids {
		if kid.op != opConstant {
			continue
		}
		other, written := p.types(n.kids[1-i]), p.text[kid.start:kid.end]
		switch kid.value.kind {
		case kindText:
			if other&p.constantKind(kid.value.str) != 0 {
				help = fmt.Sprintf("Write %s without quotes.", kid.value.str)
				fix = func(d *diag.Diagnostic) { p.replace(d, kid.start, kid.end, kid.value.str) }
			}
		case kindNumber, kindBool:
			if literal := kid.value.literal(); other&kindText != 0 && written == literal {
				help = fmt.Sprintf("Write %s.", quote(literal))
				fix = func(d *diag.Diagnostic) { p.replaceText(d, kid.start, kid.end, literal) }
			}
		}
	}
	fix(p.warn(CodeNeverEqual, n, help, "%s and %s are never equal, so this is always %t.",
		upperFirst(kinds(withoutNull(a))), kinds(withoutNull(b)), n.op == opUnequal))
}

// constantKind returns the kind of the constant that a text would be without quotes: a number, a boolean or none.
func (p *parser) constantKind(s string) kind {
	if source.IsJSONNumber(s) {
		return kindNumber
	}
	return p.rules.constants[s].kind & kindBool
}

// withoutNull removes null from a set of kinds, unless it is the only one. Any value may be null, so messages leave it
// out.
func withoutNull(set kind) kind {
	if set == kindNull {
		return set
	}
	return set &^ kindNull
}

// upperFirst capitalizes the first letter, which must be in ASCII.
func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// lintOrder reports operands that cannot be ordered.
func (p *parser) lintOrder(n *node) {
	a, b := p.types(n.kids[0]), p.types(n.kids[1])
	switch {
	case a == kindNull || b == kindNull:
		found := p.warn(CodeNeverEqual, n, "Write == null or != null.",
			"Nothing is smaller or larger than null, so this is always false.")
		left, right := n.kids[0].end, n.kids[1].start
		if written := p.text[left:right]; slices.Contains([]string{"<", "<=", ">", ">="}, strings.TrimSpace(written)) {
			left += len(written) - len(strings.TrimLeft(written, " \t\r\n"))
			right = left + len(strings.TrimSpace(written))
			p.replace(found, left, right, "==")
			p.replace(found, left, right, "!=")
		}
	case a&b&(kindNumber|kindText) == 0:
		message := fmt.Sprintf("%s and %s cannot be ordered.", upperFirst(kinds(withoutNull(a))),
			kinds(withoutNull(b)))
		for _, side := range []kind{a, b} {
			if side&(kindNumber|kindText) == 0 {
				message = fmt.Sprintf("%s cannot be ordered.", upperFirst(kinds(withoutNull(side))))
			}
		}
		p.add(CodeOperandType, n.start, n.end, orderHelp, "%s", message)
	}
}

// lintContains reports operands in which nothing can be contained.
func (p *parser) lintContains(n, whole, part *node) {
	a, b := withoutNull(p.types(whole)), withoutNull(p.types(part))
	switch {
	case a&(sized|kindNull) == 0:
		p.add(CodeOperandType, n.start, n.end, containsHelp, "%s cannot contain anything.", upperFirst(kinds(a)))
	case a == kindText && b&(kindText|kindNull) == 0:
		p.add(CodeOperandType, n.start, n.end, containsHelp, "A string cannot contain %s.", kinds(b))
	}
}

// types returns the possible kinds of a node's value.
func (p *parser) types(n *node) kind {
	switch n.op {
	case opConstant:
		return n.value.kind
	case opPath:
		if p.known != nil {
			return p.known(n)
		}
		return anyKind
	case opLocal:
		if item, ok := p.locals[n.path[0]]; ok && len(n.path) == 1 {
			return item
		}
		return anyKind
	case opBroken:
		return anyKind
	case opList:
		return kindList
	case opCall:
		return n.call.result
	}
	if n.op.calculates() {
		return kindNumber | kindNull
	}
	return kindBool
}

// CheckTypes lints a condition with the types of the names that it reads. types returns the types of a path, after
// applying Names, as JSON Schema names them; nil if they are not known. The items of a list have the path of the list
// and Items.
func (e *Expr) CheckTypes(types func(path []string) []string) diag.List {
	if e == nil || e.root == nil || e.broken {
		return nil
	}
	p := &parser{rules: e.Dialect.rules(), text: e.Text, at: e.Span}
	known := func(path []string) kind {
		set := kind(0)
		for _, name := range types(path) {
			set |= schemaKinds[name]
		}
		return cmp.Or(set, anyKind)
	}
	p.known = func(n *node) kind {
		path := e.pathOf(n)
		if path.Length {
			return kindNumber | kindNull
		}
		return known(path.Segments)
	}
	p.locals = map[string]kind{}
	p.itemKinds = func(n *node) kind { return known(append(slices.Clone(e.pathOf(n).Segments), Items)) }
	p.lintCondition(e.root)
	return p.diags.Sorted()
}

// Items is the path segment for the items of a list.
const Items = "*"

var schemaKinds = map[string]kind{
	"null": kindNull, "boolean": kindBool, "number": kindNumber, "integer": kindNumber, "string": kindText,
	"array": kindList, "object": kindObject,
}

// constantResult returns the result of a condition if it does not depend on variables.
func (p *parser) constantResult(n *node) (result, ok bool) {
	if n.readsNothing() {
		ev := evaluator{e: &Expr{Text: p.text, Span: p.at}, rules: p.rules}
		v, err := ev.eval(n)
		if err != nil {
			return false, false
		}
		result, err = ev.truth(n, v)
		return result, err == nil
	}
	switch n.op {
	case opNot:
		result, ok = p.constantResult(n.kids[0])
		return !result, ok
	case opAnd, opOr:
		for _, kid := range n.kids {
			if result, ok = p.constantResult(kid); ok && result == (n.op == opOr) {
				return result, true
			}
		}
	}
	return false, false
}
