package expr

import (
	"strings"
)

// op is the operation of a node.
type op uint8

const (
	opBroken op = iota // a part that does not parse; kids are the parts that do
	opConstant
	opPath
	opList
	opCall
	opNot
	opAnd
	opOr
	opEqual
	opUnequal
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
	opContains
	opNotContains
	opIn
	opNotIn
	opEmpty
	opNotEmpty
	opAdd
	opSubtract
	opMultiply
	opDivide
	opFloor // division, rounded down
	opModulo
	opNegate
	opQuantify // any or all of a list: kids are the condition and the list, path is the variable
	opLocal    // a path that begins with the variable of an enclosing opQuantify
	opNothing  // an operator without a value, which some dialects accept
)

// calculates reports whether the operation is arithmetic.
func (o op) calculates() bool { return o >= opAdd && o <= opNegate }

// node is a node of the expression tree. The fields in use depend on op.
type node struct {
	op         op
	start, end int // its bytes in the text
	kids       []*node
	value      value // of a constant, and of a list of constants
	fixed      bool  // value is set
	path       []string
	call       *function
	name       string // of the function
}

// constant makes the node a constant.
func (n *node) constant(v value) { n.op, n.value, n.fixed = opConstant, v, true }

// lengthKey is the last segment of a path that asks for the length of the rest, unless the value has such a key.
const lengthKey = "length"

// Binding powers in increasing order. Comparisons are not associative.
const (
	bindAny = iota
	bindOr
	bindAnd
	bindNot
	bindCompare
	bindAdd
	bindMultiply
	bindOperand
)

// binding returns how tightly the outermost operator of the node binds. write uses it to leave out parentheses.
func (n *node) binding() int {
	switch n.op {
	case opOr:
		return bindOr
	case opAnd:
		return bindAnd
	case opNot:
		return bindNot
	case opBroken, opConstant, opPath, opList, opCall, opQuantify, opLocal, opNegate:
		return bindOperand
	case opAdd, opSubtract:
		return bindAdd
	case opMultiply, opDivide, opFloor, opModulo:
		return bindMultiply
	default:
		return bindCompare
	}
}

var opText = map[op]string{
	opEqual: "==", opUnequal: "!=", opLess: "<", opLessEqual: "<=", opGreater: ">", opGreaterEqual: ">=",
	opContains: "contains", opNotContains: "not contains", opIn: "in", opNotIn: "not in",
	opEmpty: "is empty", opNotEmpty: "is not empty", opAnd: "and", opOr: "or", opNot: "not",
	opAdd: "+", opSubtract: "-", opMultiply: "*", opDivide: "/", opFloor: "//", opModulo: "%", opNegate: "-",
}

// walk visits the node and its descendants in the order of the text.
func (n *node) walk(visit func(*node)) {
	visit(n)
	for _, kid := range n.kids {
		kid.walk(visit)
	}
}

// readsNothing reports whether the value is the same in every environment.
func (n *node) readsNothing() bool {
	nothing := true
	n.walk(func(n *node) { nothing = nothing && n.op != opPath && n.op != opLocal && n.op != opBroken })
	return nothing
}

// write appends the canonical text.
func (n *node) write(b *strings.Builder) {
	switch n.op {
	case opBroken:
	case opConstant:
		b.WriteString(n.value.literal())
	case opPath, opLocal:
		b.WriteString(pathText(n.path))
	case opQuantify:
		b.WriteString(n.name + "(")
		n.kids[0].write(b)
		b.WriteString(" for " + n.path[0] + " in ")
		n.writeKid(b, 1, bindAdd)
		b.WriteByte(')')
	case opNegate:
		b.WriteByte('-')
		n.writeKid(b, 0, bindOperand)
	case opAdd, opSubtract, opMultiply, opDivide, opFloor, opModulo:
		n.writeKid(b, 0, n.binding())
		b.WriteString(" " + opText[n.op] + " ")
		n.writeKid(b, 1, n.binding()+1)
	case opList:
		writeKids(b, "[", n.kids, "]")
	case opCall:
		writeKids(b, n.name+"(", n.kids, ")")
	case opNot:
		b.WriteString("not ")
		n.writeKid(b, 0, bindNot)
	case opAnd, opOr:
		for i := range n.kids {
			if i > 0 {
				b.WriteString(" " + opText[n.op] + " ")
			}
			n.writeKid(b, i, n.binding()+1)
		}
	case opEmpty, opNotEmpty:
		n.writeKid(b, 0, bindAdd)
		b.WriteString(" " + opText[n.op])
	default:
		n.writeKid(b, 0, bindAdd)
		b.WriteString(" " + opText[n.op] + " ")
		n.writeKid(b, 1, bindAdd)
	}
}

// writeKid writes a kid, in parentheses if it binds more loosely than needed.
func (n *node) writeKid(b *strings.Builder, i, needed int) {
	if n.kids[i].binding() >= needed {
		n.kids[i].write(b)
		return
	}
	b.WriteByte('(')
	n.kids[i].write(b)
	b.WriteByte(')')
}

// writeKids writes kids separated by commas, in brackets.
func writeKids(b *strings.Builder, open string, kids []*node, end string) {
	b.WriteString(open)
	for i, kid := range kids {
		if i > 0 {
			b.WriteString(", ")
		}
		kid.write(b)
	}
	b.WriteString(end)
}

// pathText returns a path as text: a.b.0, or a["odd key"] for other segments.
func pathText(segments []string) string {
	var b strings.Builder
	for i, s := range segments {
		switch {
		case i == 0:
			b.WriteString(s)
		case s != "" && wordEnd(s, 0) == len(s):
			b.WriteByte('.')
			b.WriteString(s)
		default:
			b.WriteByte('[')
			b.WriteString(quote(s))
			b.WriteByte(']')
		}
	}
	return b.String()
}
