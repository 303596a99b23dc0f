package expr

import (
	"slices"
	"strconv"

	"github.com/expr-lang/expr/ast"
)

// searches are the operators of expr-lang that look for a text.
var searches = map[string]Search{"contains": Anywhere, "startsWith": AtStart, "endsWith": AtEnd, "matches": Pattern}

// conditionUses returns the uses of names in an expr-lang condition.
func (e *Expr) conditionUses(c *condition) []Use {
	u := &conditionCollector{paths: e.Paths()}
	u.condition(c.root, false)
	return u.out
}

// A conditionCollector walks the syntax tree of expr-lang and collects the uses of names, like useCollector does for
// the trees of this package.
type conditionCollector struct {
	paths   []Path // of the expression; a use refers to one of them
	negated bool   // inside an odd number of negations
	linked  linked
	out     []Use
}

// within collects uses inside of an operator.
func (u *conditionCollector) within(l linked, collect func()) {
	before := u.linked
	u.linked = l
	collect()
	u.linked = before
}

// condition collects the uses of a node whose truth decides the expression.
func (u *conditionCollector) condition(n ast.Node, guarded bool) {
	switch x := n.(type) {
	case *ast.BinaryNode:
		if and, ok := logical(x.Operator); ok {
			u.within(u.linked.by(and, u.negated), func() {
				u.condition(x.Left, guarded)
				u.condition(x.Right, true)
			})
			return
		}
	case *ast.UnaryNode:
		if x.Operator == "not" || x.Operator == "!" {
			u.negated = !u.negated
			u.condition(x.Node, guarded)
			u.negated = !u.negated
			return
		}
	}
	if u.put(n, Use{How: Truth, Guarded: guarded}) {
		return
	}
	before := u.negated
	if x, ok := n.(*ast.BinaryNode); ok && x.Operator == "!=" {
		u.negated = !u.negated
	}
	u.value(n, guarded)
	u.negated = before
}

// value collects the uses of a node whose value is used, in a condition or in a function.
func (u *conditionCollector) value(n ast.Node, guarded bool) {
	if n == nil || u.put(n, Use{How: Reads, Guarded: guarded}) {
		return
	}
	binary, ok := n.(*ast.BinaryNode)
	if !ok {
		for _, kid := range kids(n) {
			u.value(kid, guarded)
		}
		return
	}
	if _, ok := logical(binary.Operator); ok {
		// The result of "x and y" in a larger value, like an argument, says nothing about either of them.
		u.within(linked{true, true}, func() {
			u.value(binary.Left, guarded)
			u.value(binary.Right, true)
		})
		return
	}
	switch binary.Operator {
	case "==", "!=":
		u.comparison(binary, Use{How: Equals, Guarded: guarded})
	case "<", "<=", ">", ">=":
		u.comparison(binary, Use{How: Orders, Guarded: guarded})
	case "contains", "startsWith", "endsWith", "matches":
		u.comparison(binary, Use{How: Contains, Guarded: guarded, Search: searches[binary.Operator]})
	case "in":
		u.membership(binary, guarded)
	default:
		u.value(binary.Left, guarded)
		u.value(binary.Right, guarded)
	}
}

// comparison collects the uses of both operands of a comparison or a search. An operand is compared only with a
// constant; otherwise it is read.
func (u *conditionCollector) comparison(n *ast.BinaryNode, use Use) {
	above := n.Operator == ">" || n.Operator == ">="
	use.Strictly = n.Operator == "<" || n.Operator == ">"

	left := use
	left.Above = above
	if left.Value = constant(n.Right); left.Value == nil {
		left.How, left.Search = Reads, ""
	}
	u.operand(n.Left, left)

	right := use
	right.Above = use.How == Orders && !above // 5 < x requires a larger x
	if right.Value = constant(n.Left); right.Value == nil || right.How == Contains {
		right.How, right.Value, right.Search = Reads, nil, ""
	}
	u.operand(n.Right, right)
}

// membership collects the uses of "x in [1, 2]", which compares x with each constant, and of "1 in x", which searches
// x.
func (u *conditionCollector) membership(n *ast.BinaryNode, guarded bool) {
	if list, ok := n.Right.(*ast.ArrayNode); ok {
		inside := u.linked
		if len(list.Nodes) > 1 {
			inside = inside.by(false, u.negated) // x is equal to one constant or to another
		}
		u.within(inside, func() {
			for _, item := range list.Nodes {
				if value := constant(item); value != nil {
					u.operand(n.Left, Use{How: Equals, Value: value, Guarded: guarded})
				}
			}
		})
		return
	}
	use := Use{How: Contains, Value: constant(n.Left), List: true, Search: Anywhere, Guarded: guarded}
	if use.Value == nil || !u.put(n.Right, use) {
		u.value(n.Left, guarded)
		u.value(n.Right, guarded)
	}
}

// operand collects the use of one operand of a comparison. Functions around a name change what is compared: its length,
// its number, or its text without regard to case.
func (u *conditionCollector) operand(n ast.Node, use Use) {
	if _, text := use.Value.(string); text {
		n = withoutCase(n)
	}
	if b, ok := n.(*ast.BuiltinNode); ok && len(b.Arguments) == 1 {
		switch b.Name {
		case "len":
			use.How, use.Exactly = Sized, use.How == Equals
			n = b.Arguments[0]
		case "int", "float":
			use.Whole = b.Name == "int"
			if _, number := use.Value.(float64); !number {
				use.How, use.Value = Orders, 0.0 // the name must be a number, whatever it is compared with
			}
			n = b.Arguments[0]
		}
	}
	if !u.put(n, use) {
		u.value(n, use.Guarded)
	}
}

// put collects the use of a node that is a name, and reports whether it is one.
func (u *conditionCollector) put(n ast.Node, use Use) bool {
	written, inside, ok := indexedPath(n)
	if !ok {
		return false
	}
	if name, text := textName(written[0]); text {
		written, use.Loose = name, true
	}
	if i := slices.IndexFunc(u.paths, func(p Path) bool { return slices.Equal(p.Written, written) }); i >= 0 {
		use.Path, use.Negated, use.Compound, use.Alternative = u.paths[i], u.negated, u.linked.compound,
			u.linked.alternative
		use.Path.Segments = slices.Concat(u.paths[i].Segments, inside)
		u.out = append(u.out, use)
	}
	return true
}

// logical reports whether an operator is "and" or "or", and whether it is "and".
func logical(operator string) (and, ok bool) {
	switch operator {
	case "and", "&&":
		return true, true
	case "or", "||":
		return false, true
	}
	return false, false
}

// withoutCase returns the operand of functions that change case and space: lower(trim(x)) is compared as x is.
func withoutCase(n ast.Node) ast.Node {
	for {
		b, ok := n.(*ast.BuiltinNode)
		if !ok || len(b.Arguments) != 1 || !slices.Contains([]string{"lower", "upper", "trim"}, b.Name) {
			return n
		}
		n = b.Arguments[0]
	}
}

// indexedPath returns the path of a node that is a dotted name, and the rest of the path from the first index in it.
func indexedPath(n ast.Node) (path, inside []string, ok bool) {
	if path, ok = namePath(n); ok {
		return path, nil, true
	}
	switch x := n.(type) {
	case *ast.ChainNode:
		return indexedPath(x.Node)
	case *ast.MemberNode:
		if path, inside, ok = indexedPath(x.Node); !ok || x.Method {
			return nil, nil, false
		}
		switch p := x.Property.(type) {
		case *ast.IntegerNode:
			return path, append(inside, strconv.Itoa(p.Value)), p.Value >= 0
		case *ast.StringNode:
			return path, append(inside, p.Value), true
		}
	}
	return nil, nil, false
}

// constant returns the value of a literal, or nil for other nodes.
func constant(n ast.Node) any {
	switch x := n.(type) {
	case *ast.UnaryNode:
		if f, ok := constant(x.Node).(float64); ok && x.Operator == "-" {
			return -f
		}
	case *ast.BoolNode:
		return x.Value
	case *ast.IntegerNode:
		return float64(x.Value)
	case *ast.FloatNode:
		return x.Value
	case *ast.StringNode:
		return x.Value
	}
	return nil
}
