package expr

import (
	"fmt"
	"math"
	"strings"

	"github.com/espalier-run/espalier/internal/source"
)

// Problem is the reason why an evaluation failed.
type Problem string

// The problems.
const (
	ProblemNotParsed    Problem = "not_parsed"    // the expression does not parse, or was never parsed
	ProblemNotCondition Problem = "not_condition" // the value of a condition is neither true nor false
	ProblemType         Problem = "type"          // an operand has the wrong type
	ProblemSize         Problem = "size"          // a value is too large or nested too deeply
	ProblemZero         Problem = "zero"          // a division by zero
)

// EvalError is the error of an evaluation.
type EvalError struct {
	Problem Problem
	Span    source.Span // of the failing part
	Text    string      // of that part
	Message string      // one sentence that describes the problem
	Help    string      // one sentence: the action to take
}

func (e *EvalError) Error() string { return e.Message + " " + e.Help }

// typeError returns an error about a value of a wrong type in a text.
func typeError(text, help, format string, args ...any) error {
	return &EvalError{Problem: ProblemType, Text: text, Message: fmt.Sprintf(format, args...), Help: help}
}

// evaluator evaluates a tree. It stops at the first error.
type evaluator struct {
	e     *Expr
	rules *dialect
	env   Env
	// locals are the values of the variables of opQuantify.
	locals map[string]any
	visits int // items that opQuantify has visited
}

// eval evaluates the expression. One with errors is not evaluated, not even in part.
func (e *Expr) eval(env Env) (value, error) {
	if e == nil || e.root == nil || e.broken {
		err := &EvalError{
			Problem: ProblemNotParsed, Message: "The expression cannot be evaluated.", Help: "Fix its errors first.",
		}
		if e != nil {
			err.Span, err.Text = e.Span, e.Text
		}
		return value{}, err
	}
	ev := evaluator{e: e, rules: e.Dialect.rules(), env: env}
	return ev.eval(e.root)
}

// eval returns an error rather than an *EvalError to avoid a typed nil.
func (ev *evaluator) eval(n *node) (value, error) {
	if n.fixed {
		return n.value, nil
	}
	switch n.op {
	case opPath:
		return ev.lookup(n)
	case opList:
		items := make([]any, len(n.kids))
		for i, kid := range n.kids {
			v, err := ev.eval(kid)
			if err != nil {
				return value{}, err
			}
			items[i] = v.boxed()
		}
		return of(items), nil
	case opAnd, opOr:
		return ev.series(n)
	case opQuantify:
		return ev.quantify(n)
	case opLocal:
		found, _ := Descend(ev.locals[n.path[0]], n.path[1:])
		return of(found), nil
	case opNothing:
		return value{kind: kindMissing}, nil
	}

	a, err := ev.eval(n.kids[0])
	if err != nil {
		return value{}, err
	}
	switch n.op {
	case opNot:
		ok, err := ev.truth(n.kids[0], a)
		return boolean(!ok), err
	case opEmpty, opNotEmpty:
		return boolean(isEmpty(a) == (n.op == opEmpty)), nil
	}
	var b value
	if len(n.kids) > 1 {
		if b, err = ev.eval(n.kids[1]); err != nil {
			return value{}, err
		}
	}
	v, problem := ev.apply(n, a, b)
	if problem != "" {
		return value{}, ev.fail(n, problem, a, b)
	}
	return v, nil
}

// series evaluates and/or with short-circuiting.
func (ev *evaluator) series(n *node) (value, error) {
	for _, kid := range n.kids {
		v, err := ev.eval(kid)
		if err != nil {
			return value{}, err
		}
		ok, err := ev.truth(kid, v)
		if err != nil {
			return value{}, err
		}
		if ok == (n.op == opOr) {
			return boolean(ok), nil
		}
	}
	return boolean(n.op == opAnd), nil
}

// quantify evaluates any and all. The visits of all loops of an expression count together, because nested ones
// multiply.
func (ev *evaluator) quantify(n *node) (value, error) {
	list, err := ev.eval(n.kids[1])
	if err != nil {
		return value{}, err
	}
	wanted := n.name == "any"
	if list.kind == kindNull {
		return boolean(!wanted), nil
	}
	if list.kind != kindList {
		return value{}, ev.fail(n, ProblemType, list, value{})
	}
	name := n.path[0]
	before, nested := ev.locals[name]
	defer func() {
		if nested {
			ev.locals[name] = before
		}
	}()
	for _, item := range list.ref.([]any) {
		if ev.visits++; ev.visits > maxVisits {
			return value{}, ev.fail(n, ProblemSize, list, value{})
		}
		if ev.locals == nil {
			ev.locals = map[string]any{}
		}
		ev.locals[name] = item
		v, err := ev.eval(n.kids[0])
		if err != nil {
			return value{}, err
		}
		ok, err := ev.truth(n.kids[0], v)
		if err != nil {
			return value{}, err
		}
		if ok == wanted {
			return boolean(wanted), nil
		}
	}
	return boolean(!wanted), nil
}

// calculate computes an arithmetic operator. Like a comparison, it knows nothing about null.
func calculate(o op, a, b value) (value, Problem) {
	if o == opNegate {
		b = number(0)
	}
	switch {
	case a.kind == kindNull || b.kind == kindNull:
		return null(), ""
	case a.kind != kindNumber || b.kind != kindNumber:
		return value{}, ProblemType
	}
	switch o {
	case opAdd:
		return number(a.num + b.num), ""
	case opSubtract:
		return number(a.num - b.num), ""
	case opMultiply:
		return number(a.num * b.num), ""
	case opNegate:
		return number(-a.num), ""
	}
	if b.num == 0 {
		return value{}, ProblemZero
	}
	switch o {
	case opDivide:
		return number(a.num / b.num), ""
	case opFloor:
		return number(math.Floor(a.num / b.num)), ""
	default: // like Python, the remainder has the sign of the divisor
		return number(a.num - b.num*math.Floor(a.num/b.num)), ""
	}
}

// truth returns whether a value counts as true; n is the node to blame if it is neither.
func (ev *evaluator) truth(n *node, v value) (bool, error) {
	ok, problem := ev.rules.profile.truth(v)
	if problem != "" {
		return false, ev.fail(n, problem, v, value{})
	}
	return ok, nil
}

// isEmpty reports whether a value is null, or a text, list or object without content.
func isEmpty(v value) bool { return v.kind == kindNull || v.length() == 0 }

// apply computes an operator with one or two operands.
func (ev *evaluator) apply(n *node, a, b value) (value, Problem) {
	if n.op.calculates() {
		return calculate(n.op, a, b)
	}
	profile := &ev.rules.profile
	switch n.op {
	case opCall:
		return n.call.run(a, b)
	case opEqual, opUnequal:
		same, problem := profile.equal(a, b)
		return boolean(same == (n.op == opEqual)), problem
	case opContains, opNotContains, opIn, opNotIn:
		if n.op == opIn || n.op == opNotIn {
			a, b = b, a
		}
		ok, problem := profile.contains(a, b)
		return boolean(ok == (n.op == opContains || n.op == opIn)), problem
	}
	order, ordered, problem := profile.order(a, b)
	if !ordered {
		return boolean(false), problem
	}
	switch n.op {
	case opLess:
		return boolean(order < 0), ""
	case opLessEqual:
		return boolean(order <= 0), ""
	case opGreater:
		return boolean(order > 0), ""
	default:
		return boolean(order >= 0), ""
	}
}

// lookup returns the value of a path, or the length of its prefix. A key named length takes precedence over the length.
// What does not exist is null.
func (ev *evaluator) lookup(n *node) (value, error) {
	path := ev.e.resolve(n.path)
	if ev.rules.lookup != nil {
		return ev.rules.lookup(ev.env, path), nil
	}
	if ev.env == nil {
		return null(), nil
	}
	found, ok := ev.env.Lookup(path)
	v := null()
	if ok {
		v = of(found)
	} else if last := len(path) - 1; len(n.path) > 1 && path[last] == lengthKey {
		if found, ok = ev.env.Lookup(path[:last]); ok {
			if size := of(found).length(); size >= 0 {
				v = number(float64(size))
			}
		}
	}
	if v.kind == kindForeign {
		return value{}, ev.fail(n, ProblemType, v, value{})
	}
	return v, nil
}

// fail returns the error for a node.
func (ev *evaluator) fail(n *node, problem Problem, a, b value) error {
	e := &EvalError{Problem: problem, Span: ev.e.span(n), Text: ev.e.Text[n.start:n.end]}
	switch {
	case problem == ProblemNotCondition:
		e.Message = fmt.Sprintf("%s is %s, not true or false.", e.Text, a.kind.article())
		e.Help = "Write a comparison such as " + e.Text + " != null."
	case problem == ProblemSize:
		e.Message = fmt.Sprintf("%s evaluates a value that is too large.", e.Text)
		e.Help = "Compare a part of it, or its length."
	case problem == ProblemZero:
		e.Message = fmt.Sprintf("%s divides by zero.", e.Text)
		e.Help = "Check first that the divisor is not 0: x != 0 and y / x > 1."
	case n.op == opQuantify:
		e.Message = fmt.Sprintf("%s needs a list, not %s.", e.Text, a.kind.article())
		e.Help = "Write a list after in."
	case n.op.calculates():
		e.Message = fmt.Sprintf("%s: arithmetic is not defined for %s and %s.", e.Text, a.kind.article(),
			b.kind.article())
		e.Help = calculateHelp
	case n.op == opPath:
		e.Message = fmt.Sprintf("%s has the type %T, which conditions do not support.", e.Text, a.ref)
		e.Help = "Use null, booleans, numbers, strings, lists and objects."
	case n.op == opCall:
		e.Message = fmt.Sprintf("%s() does not accept %s.", n.name, a.kind.article())
		e.Help = fmt.Sprintf("Pass %s to %s().", kinds(withoutNull(n.call.operand)), n.name)
	case n.op == opContains || n.op == opNotContains || n.op == opIn || n.op == opNotIn:
		if n.op == opIn || n.op == opNotIn {
			a, b = b, a
		}
		e.Message = fmt.Sprintf("%s: %s cannot contain %s.", e.Text, a.kind.article(), b.kind.article())
		e.Help = containsHelp
	default:
		e.Message = fmt.Sprintf("%s: %s and %s cannot be ordered.", e.Text, a.kind.article(), b.kind.article())
		e.Help = orderHelp
	}
	return e
}

const (
	calculateHelp = "Use numbers; len(x) is the number of elements."
	containsHelp  = "Search for a string in a string, for any value in a list, or for a key in an object; " +
		"text(x) converts any value to a string."
	orderHelp = "Compare a number with a number or a string with a string; len(x) is the number of elements."
)

// kinds joins kinds with their articles: "a number or a text".
func kinds(set kind) string {
	var list []string
	for k := kindNull; k < kindForeign; k <<= 1 {
		if set&k != 0 {
			list = append(list, k.article())
		}
	}
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " or " + list[last]
}
