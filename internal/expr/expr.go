package expr

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Dialect identifies the language of an expression.
type Dialect string

// The dialects.
const (
	// AgentFlow is the strict dialect of Agent Flow files.
	AgentFlow Dialect = "agent-flow"
	// AIFlow is the dialect of AIFLOW files. AIFlowReference is the subset that the reference program accepts, with the
	// meaning of names there.
	AIFlow          Dialect = "aiflow"
	AIFlowReference Dialect = "aiflow-reference"
	// NOF is the dialect of routing rules: the strict profile with the constants of Python.
	NOF Dialect = "nof"
)

// Dialects returns all dialects.
func Dialects() []Dialect {
	return []Dialect{
		AgentFlow, AIFlow, AIFlowReference, NOF,
		AWF, AWFLenient, AWFTemplate, AWFItems, AWFNumber, AWFOutputs,
	}
}

// Expr is a parsed expression. Its JSON form consists of dialect, text, span and names; decoding parses the text again.
type Expr struct {
	Dialect Dialect
	Text    string
	Span    source.Span
	// Names maps the first segment of paths to a path: "tier" → "input.tier". Other names are not mapped.
	Names map[string]string

	// The tree is not part of the JSON form: UnmarshalJSON parses Text again. An Expr does not change after parsing, so
	// several goroutines may evaluate it at once.
	root   *node
	other  foreign                          // instead of root, for dialects with another parser
	broken bool                             // Text does not parse; root holds the parts that do
	within func(start, end int) source.Span // returns the span of a part of Text; set with other
}

// Path is a name that an expression reads.
type Path struct {
	// Segments is the path after applying Names, without a trailing .length. Indexes are segments too: list.0 and
	// list[0] are the same.
	Segments []string
	// Written is the path in the text, including .length.
	Written []string
	// Length reports whether Written ends in .length: the value is a text, a list or an object, unless it has a key of
	// that name.
	Length bool
	// Any reports whether the text reads all names, such as {{json .}}, rather than this one in particular.
	Any bool
	// Guarded reports whether a template reads the name only if it exists, or if what it is part of is not empty.
	Guarded bool
	// Members reports whether a template renders a block only for members of the value, as {{range .states}} does.
	Members bool
	// Computed reports whether a condition reads a member of the value whose name is computed, as in states[inputs.x].
	Computed bool
	Span     source.Span
}

// String returns Segments in the syntax of expressions.
func (p Path) String() string { return pathText(p.Segments) }

// Env provides the values of names.
type Env interface {
	// Lookup returns the value at a path, or false if there is none. It need not handle .length: the evaluator then
	// looks up the path without it.
	Lookup(path []string) (any, bool)
}

// Parse parses a condition. at is the span of text in its file; if it is as long as the text, diagnostics point into
// it, otherwise at all of it.
//
// The expression is never nil. If its text does not parse, Paths returns the names in the valid parts, but it cannot be
// evaluated. d must be one of Dialects.
func Parse(d Dialect, text string, at source.Span) (*Expr, diag.List) {
	return parseAndLint(d, text, at, (*parser).lintCondition)
}

// ParseValue is like Parse for an expression with any value, such as the items of a loop.
func ParseValue(d Dialect, text string, at source.Span) (*Expr, diag.List) {
	return parseAndLint(d, text, at, (*parser).lintValue)
}

// parseAndLint parses an expression and lints it, with the dialect's own lint if it has one.
func parseAndLint(d Dialect, text string, at source.Span, lint func(*parser, *node)) (*Expr, diag.List) {
	if d.foreign() {
		return parseForeign(d, text, at)
	}
	e, p := parse(d, text, at)
	if p.rules.lint != nil {
		lint = p.rules.lint
	}
	if !e.broken {
		lint(p, e.root)
	}
	return e, withoutCascade(p.diags.Sorted())
}

// withoutCascade removes errors that may only follow from an earlier one: of the errors after which the parser does not
// know the structure of the rest, it keeps the first.
func withoutCascade(list diag.List) diag.List {
	var out diag.List
	lost := false
	for _, d := range list {
		switch d.Code {
		case CodeOperand, CodeChained, CodeUnexpected, CodePath:
			if lost {
				continue
			}
			lost = true
		}
		out = append(out, d)
	}
	return out
}

// Paths returns every name that the expression reads, in the order of the text. Functions and constants are not names.
func (e *Expr) Paths() []Path {
	if e == nil || e.root == nil && e.other == nil {
		return nil
	}
	var out []Path
	if e.other != nil {
		for _, p := range e.other.paths() {
			path := Path{
				Segments: awfPath(p.written), Written: p.written, Any: p.any, Guarded: p.guarded, Members: p.members,
				Computed: p.computed, Span: e.Span,
			}
			if p.end >= p.start {
				path.Span = e.within(p.start, p.end)
			}
			out = append(out, path)
		}
		return out
	}
	e.root.walk(func(n *node) {
		if n.op != opPath {
			return
		}
		out = append(out, e.pathOf(n))
	})
	return out
}

// Indexed returns the names that a template reads with the function index. Paths contains only their prefixes. Their
// segments are as written.
func (e *Expr) Indexed() []Path {
	t, ok := e.other.(*template)
	if !ok {
		return nil
	}
	return xslices.Map(t.indexed, func(p foreignPath) Path {
		return Path{Segments: p.written, Written: p.written, Span: e.within(p.start, p.end)}
	})
}

// Eval returns the value: nil, bool, float64, string, []any or map[string]any. Errors are of type *EvalError.
func (e *Expr) Eval(env Env) (any, error) {
	if e != nil && e.other != nil {
		v, err := e.other.eval(env)
		return v, e.located(err)
	}
	v, err := e.eval(env)
	if err != nil {
		return nil, err
	}
	return v.boxed(), nil
}

// Bool reports whether the condition holds. Errors are of type *EvalError.
func (e *Expr) Bool(env Env) (bool, error) {
	if e != nil && e.other != nil {
		return e.foreignBool(env)
	}
	v, err := e.eval(env)
	if err == nil {
		var ok bool
		if ok, err = (&evaluator{e: e, rules: e.Dialect.rules(), env: env}).truth(e.root, v); err == nil {
			return ok, nil
		}
	}
	return false, err
}

// foreignBool is Bool for the dialects of AWF, in which null counts as false. In the lenient dialect, values that are
// neither true nor false do, too.
func (e *Expr) foreignBool(env Env) (bool, error) {
	v, err := e.other.eval(env)
	if err != nil {
		return false, e.located(err)
	}
	switch x := v.(type) {
	case nil:
		return false, nil
	case bool:
		return x, nil
	}
	if e.Dialect == AWFLenient {
		return false, nil
	}
	return false, &EvalError{
		Problem: ProblemNotCondition, Span: e.Span, Text: e.Text,
		Message: fmt.Sprintf("%s is not true or false.", e.Text),
		Help:    "Write a comparison such as " + e.Text + " != nil.",
	}
}

// located sets the span of an error from another parser's evaluation, which knows only the text.
func (e *Expr) located(err error) error {
	if failed, ok := errors.AsType[*EvalError](err); ok && failed.Span.IsZero() {
		failed.Span = e.Span
	}
	return err
}

// String returns the canonical form of the expression: uniform operators, strings and numbers, and no redundant
// parentheses. It parses to an expression with the same meaning. For an expression that does not parse, String returns
// its text.
func (e *Expr) String() string {
	switch {
	case e == nil:
		return ""
	case e.root == nil || e.broken || e.Dialect.rules().parse != nil:
		return e.Text // other grammars have no canonical form
	}
	var b strings.Builder
	e.root.write(&b)
	return b.String()
}

// Equal reports whether two expressions have the same dialect, text, span and names.
func (e *Expr) Equal(o *Expr) bool {
	if e == nil || o == nil {
		return e == o
	}
	return e.Dialect == o.Dialect && e.Text == o.Text && e.Span == o.Span && maps.Equal(e.Names, o.Names)
}

// Part is a sub-expression and its value.
type Part struct {
	Text  string
	Span  source.Span
	Depth int // number of enclosing expressions
	Value any
	Err   error // if set, Value is nil
}

// Parts evaluates every sub-expression, inner ones first. It omits constants, unless the whole expression is one.
func (e *Expr) Parts(env Env) []Part {
	if e != nil && e.other != nil {
		v, err := e.Eval(env)
		return []Part{{Text: e.Text, Span: e.Span, Value: v, Err: err}}
	}
	if e == nil || e.root == nil || e.broken {
		return nil
	}
	ev := &evaluator{e: e, rules: e.Dialect.rules(), env: env}
	var out []Part
	var visit func(n *node, depth int)
	visit = func(n *node, depth int) {
		for _, kid := range n.kids {
			visit(kid, depth+1)
		}
		if n.fixed && n != e.root {
			return
		}
		part := Part{Text: e.Text[n.start:n.end], Span: e.span(n), Depth: depth}
		v, err := ev.eval(n)
		if err != nil {
			part.Err = err
		} else {
			part.Value = v.boxed()
		}
		out = append(out, part)
	}
	visit(e.root, 0)
	return out
}

// span returns the span of a node.
func (e *Expr) span(n *node) source.Span { return place(e.Span, e.Text, n.start, n.end) }

// place returns the span of a part of the text at a span. If the file has the text with quotes or escapes, the offsets
// differ and place returns the whole span.
func place(at source.Span, text string, start, end int) source.Span {
	if at.End-at.Start != len(text) {
		return at
	}
	return at.Sub(start, end)
}

// resolve applies Names to a path. path must not be empty.
func (e *Expr) resolve(path []string) []string {
	full, ok := e.Names[path[0]]
	if !ok {
		return path
	}
	out := make([]string, 0, strings.Count(full, ".")+len(path))
	for segment := range strings.SplitSeq(full, ".") {
		out = append(out, segment)
	}
	return append(out, path[1:]...)
}
