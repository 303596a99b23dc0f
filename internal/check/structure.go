package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/schema"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// structure checks the actions that contain other steps.
func (c *checker) structure() {
	c.steps(func(_ ir.BlockID, s *ir.Step) {
		switch a := s.Action.(type) {
		case ir.Parallel:
			c.parallel(s, a)
		case ir.Call:
			c.call(s, a)
		}
	})
}

// parallel compares the budgets of branches with that of the run.
func (c *checker) parallel(s *ir.Step, par ir.Parallel) {
	whole := &c.p.Budget
	for i := range par.Branches {
		b := &par.Branches[i]
		c.share(s, "tokens", b.Budget.Tokens, whole.Tokens)
		c.share(s, "tool calls", b.Budget.ToolCalls, whole.ToolCalls)
		c.share(s, "seconds", b.Budget.ActiveSeconds, whole.ActiveSeconds)
	}
}

// share reports a branch with a larger budget than the whole run.
func (c *checker) share(s *ir.Step, what string, part, whole *ir.Limit) {
	if part == nil || whole == nil || part.Max <= whole.Max {
		return
	}
	c.add(CodeBudgetShare, diag.Warning, cmp.Or(part.Span, s.Span),
		"Lower the worker's budget, or raise the run's. The smaller one applies.",
		"Each worker of step %q may use %s %s, but the whole run only %s.", s.ID, stepkind.N(part.Max), what,
		stepkind.N(whole.Max)).Relate(whole.Span, "the budget of the run")
}

// call checks that a child workflow receives its required inputs.
func (c *checker) call(s *ir.Step, call ir.Call) {
	if call.Child < 0 || call.Child >= len(c.p.Children) {
		return // the child does not compile, which the format reports
	}
	child := &c.p.Children[call.Child]
	if child.Input == nil {
		return
	}
	shape := shapeOf(decoded(child.Input.Schema))
	given := map[string]bool{}
	for i := range call.Inputs {
		given[call.Inputs[i].Name] = true
	}
	if call.PassReads {
		for i := range s.Reads {
			path := s.Reads[i].Path
			name := path[strings.LastIndexByte(path, '.')+1:]
			if name == path || len(s.Reads) == 1 && shape.property(name) == nil {
				return // a whole namespace, or an object, may contain any key
			}
			given[name] = true
		}
	}
	c.literals(call, child)
	for i, name := range shape.required() {
		if given[name] {
			c.mayBeMissing(s, call, child, name)
			continue
		}
		if shape.hasDefault(name) {
			continue
		}
		severity, help := diag.Error, fmt.Sprintf("Add %q to the inputs that the step passes.", name)
		if call.PassReads { // the step may be skipped, or have a fallback
			severity = diag.Warning
			help = fmt.Sprintf("Let the step read a value whose name ends in %q.", "."+name)
		}
		c.add(CodeChildInput, severity, cmp.Or(call.Span, s.Span), help,
			"Workflow %q requires the input %q, which step %q does not pass.", child.Name, name, s.ID).
			Relate(child.Input.At(pointerTo("required", strconv.Itoa(i))), "required here")
	}
}

// literals checks inputs of a child that do not depend on the run against the child's schema.
func (c *checker) literals(call ir.Call, child *ir.Program) {
	compiled, err := schema.Compile(child.Input.Schema)
	if err != nil {
		return // reported with the child
	}
	for _, b := range call.Inputs {
		if b.Value == nil || len(b.Value.Paths())+len(b.Value.Indexed()) > 0 || b.Value.ReadsFiles() {
			continue
		}
		value, err := b.Value.Eval(expr.Values{})
		if err != nil || value == nil {
			continue // fails at the call, or reported by the format
		}
		raw, err := json.Marshal(map[string]any{b.Name: value})
		if err != nil {
			continue
		}
		problems, err := compiled.Check(raw)
		for _, p := range problems {
			if err == nil && (p.Path == b.Name || strings.HasPrefix(p.Path, b.Name+".") ||
				strings.HasPrefix(p.Path, b.Name+"[")) {
				c.add(CodeChildInput, diag.Error, cmp.Or(b.Span, call.Span),
					"Use a value that the called workflow declares.", "Workflow %q does not accept this input: %s: %s.",
					child.Name, p.Path, p.Message).
					Relate(child.Input.At(pointerTo("properties", b.Name)), "declared here")
			}
		}
	}
}

// mayBeMissing warns about a required input of a child whose value reads an input of the program that is neither
// required nor has a default.
func (c *checker) mayBeMissing(s *ir.Step, call ir.Call, child *ir.Program, name string) {
	if c.p.Input == nil || call.PassReads {
		return
	}
	schema := shapeOf(decoded(c.p.Input.Schema))
	for _, b := range call.Inputs {
		if b.Name != name || b.Value == nil {
			continue
		}
		for _, path := range b.Value.Paths() {
			if len(path.Segments) != 2 || path.Segments[0] != inputRoot || path.Guarded {
				continue
			}
			own := path.Segments[1]
			if schema.property(own) == nil || schema.hasDefault(own) || slices.Contains(schema.required(), own) {
				continue
			}
			c.add(CodeChildInput, diag.Warning, cmp.Or(path.Span, b.Span),
				fmt.Sprintf("Require the input %q, or give it a default.", own),
				"Workflow %q requires the input %q, but the input %q may be missing, so step %q may fail.", child.Name,
				name, own, s.ID)
		}
	}
}
