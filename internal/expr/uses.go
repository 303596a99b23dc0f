package expr

import "github.com/espalier-run/espalier/internal/xslices"

// UseKind is the way in which an expression uses a name.
type UseKind string

// The ways to use a name.
const (
	Equals   UseKind = "equals"   // compared with Value for equality
	Orders   UseKind = "orders"   // compared with Value, or with Other, for order
	Truth    UseKind = "truth"    // used as a condition
	Contains UseKind = "contains" // searched for Value
	Sized    UseKind = "sized"    // its length or emptiness matters; Value is the length it is compared with
	Reads    UseKind = "reads"    // read in any other way
)

// Search is the way in which an expression looks for a text.
type Search string

// The kinds of searches.
const (
	Anywhere Search = "contains"
	AtStart  Search = "begins with"
	AtEnd    Search = "ends with"
	Pattern  Search = "matches the regular expression"
)

// Use is one use of a name in an expression. Readers derive from it which values a workflow expects, so what a field
// states has to be certain; a use that is not understood is a Reads.
type Use struct {
	Path  Path
	How   UseKind
	Value any // bool, float64 or string; nil if it is not a constant
	// Other is the name on the other side of a comparison, after applying Names.
	Other []string
	// Null reports whether the value is compared with null.
	Null bool
	// Loose comparisons convert the value, so that its type does not follow from that of Value.
	Loose bool
	// Guarded uses are evaluated only if another part of the expression allows it.
	Guarded bool
	// Negated reports whether the expression requires that the comparison is false (x != 5, not x).
	Negated bool
	// Compound reports whether the comparison alone, coming out as required, does not make the expression true
	// (x == 5 and y).
	Compound bool
	// Alternative reports whether the expression can be true although the comparison does not come out as required
	// (x == 5 or y).
	Alternative bool
	// List reports whether the value must be a list, so that texts are errors.
	List bool
	// Whole reports whether the value is converted to a whole number, so that other texts are errors.
	Whole bool
	// Search is the kind of a search; empty for uses that do not search.
	Search Search
	// Exactly reports whether a length is compared for equality.
	Exactly bool
	// Above reports whether the comparison requires a larger value than Value (x > 5, 5 < x), Strictly whether Value
	// itself does not satisfy it.
	Above, Strictly bool
}

// Uses returns the uses of names, in the order of the text.
func (e *Expr) Uses() []Use {
	if e == nil || e.broken {
		return nil
	}
	if c, ok := e.other.(*condition); ok {
		return e.conditionUses(c)
	}
	if e.root == nil {
		return xslices.Map(e.Paths(), func(p Path) Use { return Use{Path: p, How: Reads} })
	}
	u := &useCollector{e: e, loose: e.Dialect == AIFlow || e.Dialect == AIFlowReference}
	u.condition(e.root, false)
	return u.out
}

// useCollector collects the uses of names in an expression with a tree of nodes. conditionCollector does the same for
// expr-lang.
type useCollector struct {
	e       *Expr
	loose   bool
	negated bool // inside an odd number of negations
	linked  linked
	out     []Use
}

// linked describes the operators around a comparison; see Compound and Alternative of Use.
type linked struct{ compound, alternative bool }

// by returns what holds inside of one more operator, which is "and" or "or". By De Morgan's laws, a negation exchanges
// the two.
func (l linked) by(and, negated bool) linked {
	return linked{l.compound || and != negated, l.alternative || and == negated}
}

// negate collects the uses of a negated node.
func (u *useCollector) negate(collect func()) {
	u.negated = !u.negated
	collect()
	u.negated = !u.negated
}

// condition collects the uses of a node that is used as a condition.
func (u *useCollector) condition(n *node, guarded bool) {
	switch n.op {
	case opAnd, opOr:
		before := u.linked
		u.linked = before.by(n.op == opAnd, u.negated)
		for i, kid := range n.kids {
			u.condition(kid, guarded || i > 0)
		}
		u.linked = before
	case opNot:
		u.negate(func() { u.condition(n.kids[0], guarded) })
	case opPath:
		u.put(n, Use{How: Truth, Loose: u.loose, Guarded: guarded})
	case opUnequal, opNotIn, opNotContains, opNotEmpty:
		u.negate(func() { u.operator(n, guarded) })
	default:
		u.operator(n, guarded)
	}
}

// operator collects the uses of the operands of a node that is not used as a condition.
func (u *useCollector) operator(n *node, guarded bool) {
	use := Use{Guarded: guarded, Loose: u.loose, How: Reads}
	switch n.op {
	case opEqual, opUnequal:
		use.How = Equals
	case opLess, opLessEqual, opGreater, opGreaterEqual:
		use.How = Orders
	case opContains, opNotContains:
		use.How, use.Search = Contains, Anywhere
	case opIn, opNotIn:
		u.membership(n, use)
		return
	case opEmpty, opNotEmpty:
		use.How = Sized
	default:
		for _, kid := range n.kids {
			u.operand(kid, use)
		}
		if n.op == opPath {
			u.put(n, use)
		}
		return
	}
	if len(n.kids) == 1 {
		u.operand(n.kids[0], use)
		return
	}
	for i, kid := range n.kids {
		one, other := use, n.kids[1-i]
		if i == 1 && use.How == Contains {
			one.How, one.Search = Reads, "" // the needle, not the haystack
		}
		one.Strictly = n.op == opLess || n.op == opGreater
		one.Above = use.How == Orders && (n.op == opGreater || n.op == opGreaterEqual) == (i == 0)
		switch {
		case other.fixed:
			one.Value, one.Null = plainConstant(other.value), use.How == Equals && other.value.kind == kindNull
			switch one.Value {
			case nil:
				one.How = Reads // null, or a list
			case "true", "false":
				one.Loose = false // no dialect converts these texts
			}
		case other.op == opPath:
			one.Other = u.e.pathOf(other).Segments
		}
		u.operand(kid, one)
	}
}

// membership collects the uses of "x in [a, b]" as comparisons with each constant.
func (u *useCollector) membership(n *node, use Use) {
	item, list := n.kids[0], n.kids[1]
	if !list.fixed || list.value.kind != kindList {
		use.How, use.Search = Contains, Anywhere
		if item.fixed {
			use.Value = plainConstant(item.value)
		}
		u.operand(list, use)
		use.How, use.Value, use.Search = Reads, nil, ""
		u.operand(item, use)
		return
	}
	use.How = Equals
	items := list.value.ref.([]any)
	before := u.linked
	if len(items) > 1 {
		u.linked = before.by(false, u.negated)
	}
	defer func() { u.linked = before }()
	for _, v := range items {
		one := use
		if one.Value = plainConstant(of(v)); one.Value != nil {
			u.operand(item, one)
		}
	}
}

// operand collects the uses of an operand: a name, or a function of a name.
func (u *useCollector) operand(n *node, use Use) {
	switch {
	case n.fixed:
	case n.op == opPath:
		u.put(n, use)
	case n.op == opCall && len(n.kids) == 1 && n.kids[0].op == opPath:
		switch n.name {
		case "text":
			use.Loose = true
		case "len":
			use.How, use.Exactly = Sized, use.How == Equals
		default: // lower, upper, trim: of texts
			if _, text := use.Value.(string); !text {
				use.Value = ""
				use.How = Reads
			}
		}
		u.put(n.kids[0], use)
	default:
		u.operator(n, use.Guarded)
	}
}

// put records the use of a name.
func (u *useCollector) put(n *node, use Use) {
	use.Path, use.Negated = u.e.pathOf(n), u.negated
	use.Compound, use.Alternative = u.linked.compound, u.linked.alternative
	if use.Path.Length {
		use.How, use.Exactly = Sized, use.How == Equals
	}
	u.out = append(u.out, use)
}

// pathOf returns the path that a node reads.
func (e *Expr) pathOf(n *node) Path {
	p := Path{Segments: e.resolve(n.path), Written: n.path, Span: e.span(n)}
	if rules := e.Dialect.rules(); rules.bare != nil {
		p.Segments = rules.bare(p.Segments)
	}
	if last := len(p.Segments) - 1; len(n.path) > 1 && p.Segments[last] == lengthKey {
		p.Segments, p.Length = p.Segments[:last:last], true
	}
	return p
}

// plainConstant returns a boolean, a number or a text, or nil for other constants.
func plainConstant(v value) any {
	switch v.kind {
	case kindBool, kindText:
		return v.boxed()
	case kindNumber:
		return v.num
	}
	return nil
}
