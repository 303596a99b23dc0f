package awf

import (
	"cmp"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/text"
)

// reads returns the variables that templates read.
func (l *lowering) reads(templates ...text.Text) []ir.Ref {
	var s ir.Step
	l.read(&s, templates...)
	return s.Reads
}

// read sets what a step reads to the variables that templates read, and its mentions to the fields of a loop's item
// that they insert.
func (l *lowering) read(s *ir.Step, templates ...text.Text) {
	s.Reads, s.Mentions = nil, nil
	for _, t := range templates {
		if !strings.Contains(t.Value, "{{") {
			continue
		}
		e := l.value(expr.AWFTemplate, t)
		if e == nil {
			continue
		}
		s.Reads = l.refs(s.Reads, e)
		for _, p := range e.Paths() {
			if len(p.Segments) > 2 && p.Segments[0] == "loop" && p.Segments[1] == "item" && !p.Any && !p.Guarded {
				s.Mentions = addRef(s.Mentions, ir.Ref{Path: strings.Join(p.Segments, "."), Span: p.Span})
			}
		}
	}
}

// refs appends the variables that an expression reads.
func (l *lowering) refs(out []ir.Ref, e *expr.Expr) []ir.Ref {
	for _, p := range e.Paths() {
		name := strings.Join(p.Segments, ".")
		switch p.Segments[0] {
		case "loop", "run", "last": // read as a whole
			name = p.Segments[0]
		}
		if name == "loop" && l.loops == 0 {
			continue // already reported
		}
		out = addRef(out, ir.Ref{
			Path: name, Span: p.Span, Optional: p.Any || p.Guarded || name == "states",
			Members: p.Members,
		})
	}
	for _, p := range e.Indexed() {
		// {{index .states "a"}} is nil if the state has not run; {{index .states "a" "Output"}} fails.
		if len(p.Segments) < 2 || p.Segments[0] != "states" || l.doc.byName[p.Segments[1]] == nil {
			continue // reported by checkIndexed
		}
		name := strings.Join(p.Segments[:min(len(p.Segments), 3)], ".")
		out = addRef(out, ir.Ref{Path: name, Span: p.Span, Optional: len(p.Segments) == 2})
	}
	return out
}

// addRef appends a read, or combines it with an earlier one of the same variable.
func addRef(out []ir.Ref, r ir.Ref) []ir.Ref {
	i := slices.IndexFunc(out, func(o ir.Ref) bool { return o.Path == r.Path })
	if i < 0 {
		return append(out, r)
	}
	if old := &out[i]; old.Optional && !r.Optional || r.Members && !old.Members {
		old.Span = r.Span
		old.Optional = old.Optional && r.Optional
		old.Members = old.Members || r.Members
	}
	return out
}

// declareVars declares the variables that an expression reads from the machine.
func (l *lowering) declareVars(e *expr.Expr) {
	for _, p := range append(e.Paths(), e.Indexed()...) {
		if len(p.Segments) < 2 {
			continue
		}
		name := p.Segments[0] + "." + p.Segments[1]
		switch p.Segments[0] {
		case "env":
			l.vars[name] = ir.Var{Path: name, From: "env:" + p.Segments[1], Span: p.Span}
		case "context":
			from := map[string]string{"WorkingDir": "dir", "User": "user", "Hostname": "host"}[p.Segments[1]]
			if from != "" {
				l.vars[name] = ir.Var{Path: name, From: from, Span: p.Span}
			}
		case "awf":
			if v, ok := l.known(p.Segments[1]); ok {
				l.vars[name] = ir.Var{Path: name, Init: v, Span: p.Span}
			}
		}
	}
}

// checkPaths reports unknown properties of states, loops and other variables.
func (l *lowering) checkPaths(e *expr.Expr, severity diag.Severity) {
	for _, p := range e.Paths() {
		if p.Any {
			continue
		}
		if p.Computed && len(p.Segments) == 1 && p.Segments[0] == "states" {
			l.out.Warnf(CodeNoState, p.Span, "If the state is not defined or has not run, its properties are nil.",
				"The name of the state is computed.")
			continue
		}
		written := p.Written
		around := 1 // number of enclosing loops required
		for p.Segments[0] == "loop" && len(written) > 1 && p.Segments[around] == "parent" {
			written = append([]string{"loop"}, written[2:]...)
			around++
			if around == len(p.Segments) {
				break
			}
		}
		if p.Segments[0] == "loop" && l.loops < around && l.loops > 0 {
			found := l.out.Reportf(CodeNoProperty, severity, p.Span, "Remove \"Parent\" to use the item of this loop.",
				"%q is not defined: the loop is not inside another loop.", strings.Join(p.Written, "."))
			if p.Span.File == l.file.Path && around == 2 {
				written := strings.ToLower(l.file.Text[p.Span.Start:p.Span.End])
				if at := strings.Index(written, "parent."); at >= 0 && strings.Count(written, "parent") == 1 {
					found.Remove("Parent", p.Span.Sub(at, at+len("parent.")))
				}
			}
			continue
		}
		if p.Segments[0] == "loop" && l.loops == 0 {
			l.out.Reportf(CodeNoProperty, severity, p.Span,
				"Use it in a loop's body. To use it later, print it in a state of the loop.",
				"%q is not defined outside of a loop.", strings.Join(p.Written, "."))
			continue
		}
		if known, ok := expr.AWFFact(written); !ok {
			l.out.Reportf(CodeNoProperty, severity, p.Span, "", "%q is not defined.", strings.Join(p.Written, ".")).
				Suggest(written[1], known)
			continue
		}
		if p.Guarded && p.Segments[0] == "states" && len(p.Segments) > 1 && l.doc.byName[p.Segments[1]] == nil &&
			!slices.ContainsFunc(e.Indexed(), func(i expr.Path) bool { return i.Segments[1] == p.Segments[1] }) {
			l.out.Warnf(CodeNoState, p.Span, "", "State %q is not defined.", p.Segments[1]).
				Suggest(p.Segments[1], l.names())
		}
		if len(p.Segments) < 3 || p.Segments[0] != "states" {
			continue
		}
		name, property := p.Segments[1], p.Segments[2]
		s := l.doc.byName[name]
		if s == nil || slices.Contains(stateFields(s), property) {
			continue
		}
		known := stateFields(s)
		if s.kind == kindCall && s.outputs != nil {
			for _, pair := range s.outputs.Pairs {
				known = append(known, pair.Key.Value, cmp.Or(pair.Value.Value, pair.Key.Value))
			}
		} else if s.kind == kindCall {
			i := l.child(s)
			if i < 0 {
				continue // reported with the call
			}
			outputs, _ := childNames(&l.p.Children[i])
			known = append(known, outputs...)
		}
		if slices.Contains(known, property) {
			continue
		}
		l.out.Reportf(CodeNoProperty, severity, p.Span, "", "State %q has no property %q.", name, property).
			Suggest(property, known)
	}
}

// stateFields returns the properties that a state can have. Commands and loops have no structured results.
func stateFields(s *state) []string {
	switch s.kind {
	case kindCommand, kindForEach, kindWhile, kindTerminal:
		return slices.DeleteFunc(expr.StateFields(), func(field string) bool {
			return slices.Contains([]string{"Response", "JSON", "Outputs", "Conversation"}, field)
		})
	}
	return expr.StateFields()
}

// checkIndexed reports undefined states and properties in templates such as {{index .states
// "my-step" "Output"}}.
func (l *lowering) checkIndexed(e *expr.Expr) {
	for _, p := range e.Indexed() {
		if p.Segments[0] != "states" || len(p.Segments) < 2 {
			continue
		}
		s := l.doc.byName[p.Segments[1]]
		switch {
		case s == nil:
			severity := diag.Error
			if len(p.Segments) == 2 { // nil, which a condition may test for
				severity = diag.Warning
			}
			l.out.Reportf(CodeNoState, severity, p.Span, "", "State %q is not defined.", p.Segments[1]).
				Suggest(p.Segments[1], l.names())
		case len(p.Segments) > 2 && s.kind != kindCall && !slices.Contains(stateFields(s), p.Segments[2]):
			l.out.Errorf(CodeNoProperty, p.Span, "", "State %q has no property %q.", p.Segments[1], p.Segments[2]).
				Suggest(p.Segments[2], stateFields(s))
		}
	}
}
