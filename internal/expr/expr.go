package expr

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/source"
)

// Dialect names what a format understands and how it converts values.
type Dialect string

// The dialects.
const (
	// AgentFlow is the strict dialect of Agent Flow files.
	AgentFlow Dialect = "agent-flow"
	// AIFlow is what AIFLOW files are written in. AIFlowReference is the part
	// of it that the reference program reads, with what names mean there.
	AIFlow          Dialect = "aiflow"
	AIFlowReference Dialect = "aiflow-reference"
	// NOF is what routing rules are written in: the strict profile with
	// Python's constants.
	NOF Dialect = "nof"
)

// Dialects lists the dialects there are.
func Dialects() []Dialect {
	return []Dialect{AgentFlow, AIFlow, AIFlowReference, NOF, AWF, AWFLenient, AWFTemplate, AWFItems, AWFNumber, AWFOutputs}
}

// Expr is a parsed expression. As JSON it is its dialect, text and place, and
// is parsed again when read.
type Expr struct {
	Dialect Dialect
	Text    string
	Span    source.Span
	// Names says what bare names stand for: "tier" → "input.tier". It is
	// applied to the first segment of a path. A name that is not in it stands
	// for itself.
	Names map[string]string

	root   *node
	other  foreign                          // in the place of root, for dialects that another parser reads
	broken bool                             // Text has mistakes; root holds what could be understood
	within func(start, end int) source.Span // where parts of Text stand, for other
}

// Path is a name that an expression reads, and where.
type Path struct {
	// Segments is the path after Names was applied, without a trailing
	// .length. Indexes are segments like any other: list.0, list[0].
	Segments []string
	// Written is the path as the author wrote it, .length included.
	Written []string
	// Length says that Written ends in .length: the value is a text, a list
	// or an object, unless it has a key of that name.
	Length bool
	// Any says that the author did not name it, but everything there is.
	Any  bool
	Span source.Span
}

// String is the path as an author would write it, after Names was applied.
func (p Path) String() string { return pathText(p.Segments) }

// Env is what an expression can see.
type Env interface {
	// Lookup returns the value at a path; false when there is none. It need
	// not know about .length: the path without it is asked for next.
	Lookup(path []string) (any, bool)
}

// Parse reads a condition. at is where text stands in its file; when it is as
// long as the text, diagnostics point into it, otherwise at all of it.
//
// The expression is never nil. When its text does not parse it can tell its
// Paths, as far as they were understood, but not be evaluated. d must be one
// of Dialects.
func Parse(d Dialect, text string, at source.Span) (*Expr, diag.List) {
	if d.foreign() {
		return parseForeign(d, text, at)
	}
	e, p := parse(d, text, at)
	switch {
	case e.broken:
	case p.rules.lint != nil:
		p.rules.lint(p, e.root)
	default:
		p.lintCondition(e.root)
	}
	return e, p.diags.Sorted()
}

// ParseValue reads an expression that may have any value, such as the items
// of a loop. Otherwise it is like Parse.
func ParseValue(d Dialect, text string, at source.Span) (*Expr, diag.List) {
	if d.foreign() {
		return parseForeign(d, text, at)
	}
	e, p := parse(d, text, at)
	switch {
	case e.broken:
	case p.rules.lint != nil:
		p.rules.lint(p, e.root)
	default:
		p.lintValue(e.root)
	}
	return e, p.diags.Sorted()
}

// Paths lists every name that the expression reads, in the order of the text.
// Functions and constants are not names.
func (e *Expr) Paths() []Path {
	if e == nil || e.root == nil && e.other == nil {
		return nil
	}
	var out []Path
	if e.other != nil {
		for _, p := range e.other.paths() {
			path := Path{Segments: awfPath(p.written), Written: p.written, Any: p.any, Span: e.Span}
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

// Indexed lists the names that a template spells out with index; Paths has only
// what these begin with. Their segments are as they are written.
func (e *Expr) Indexed() []Path {
	t, ok := e.other.(*template)
	if !ok {
		return nil
	}
	var out []Path
	for _, p := range t.indexed {
		out = append(out, Path{Segments: p.written, Written: p.written, Span: e.within(p.start, p.end)})
	}
	return out
}

// Eval computes the value: nil, bool, float64, string, []any or
// map[string]any. Errors are *EvalError.
func (e *Expr) Eval(env Env) (any, error) {
	if e != nil && e.other != nil {
		v, err := e.other.eval(env)
		return v, e.located(err)
	}
	v, err := e.eval(env)
	if err != nil {
		return nil, err
	}
	return v.plain(), nil
}

// Bool computes whether the condition holds. Errors are *EvalError.
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
		Message: fmt.Sprintf("%s is not true or false.", e.Text), Help: "Say what should hold, such as " + e.Text + " != nil.",
	}
}

// located gives an error of another parser's evaluation its place.
func (e *Expr) located(err error) error {
	var failed *EvalError
	if errors.As(err, &failed) && failed.Span.IsZero() {
		failed.Span = e.Span
	}
	return err
}

// String is the expression in its canonical form: one way of writing
// operators, strings and numbers, and no parentheses that do nothing. It reads
// back as an expression of the same meaning. What cannot be parsed is
// returned as it was written.
func (e *Expr) String() string {
	switch {
	case e == nil:
		return ""
	case e.root == nil || e.broken || e.Dialect.rules().parse != nil:
		return e.Text // a grammar of its own has its own ways of writing
	}
	var b strings.Builder
	e.root.write(&b)
	return b.String()
}

// Equal reports whether two expressions are the same text in the same place
// with the same meaning of its names.
func (e *Expr) Equal(o *Expr) bool {
	if e == nil || o == nil {
		return e == o
	}
	return e.Dialect == o.Dialect && e.Text == o.Text && e.Span == o.Span && maps.Equal(e.Names, o.Names)
}

// Part is one sub-expression and what it came to.
type Part struct {
	Text  string
	Span  source.Span
	Depth int // how many expressions it lies in
	Value any
	Err   error // then Value is nil
}

// Parts evaluates every sub-expression on its own, inner ones before the one
// that they are part of. Constants are left out, unless there is nothing else.
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
			part.Value = v.plain()
		}
		out = append(out, part)
	}
	visit(e.root, 0)
	return out
}

// span is where a node stands in the file.
func (e *Expr) span(n *node) source.Span { return place(e.Span, e.Text, n.start, n.end) }

// place narrows a span to some bytes of the text that stands there, provided
// that it stands there as it is, without quotes or escapes of the file around.
func place(at source.Span, text string, start, end int) source.Span {
	if at.End-at.Start != len(text) {
		return at
	}
	return at.Sub(start, end)
}

// resolve applies Names to a path.
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
