package irtest

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

// Reporter is the common part of *testing.T and *rapid.T.
type Reporter interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Chain links steps in order, unless they have edges.
func Chain(steps ...ir.Step) []ir.Step {
	for i := range steps[:len(steps)-1] {
		if steps[i].Next == nil {
			steps[i].Next = []ir.Edge{{
				On: []ir.Outcome{ir.OK, ir.Skipped}, To: ir.Target{Step: steps[i+1].ID}, Sequential: true,
			}}
		}
	}
	return steps
}

// Edit returns a changed copy of a step.
func Edit(s ir.Step, change func(*ir.Step)) ir.Step { change(&s); return s }

// Cond parses a condition of Agent Flow.
func Cond(t Reporter, text string) *expr.Expr {
	t.Helper()
	return parsed(t, text, expr.AgentFlow, expr.Parse)
}

// LenientCond parses a condition that an error leaves undecided.
func LenientCond(t Reporter, text string) *expr.Expr {
	t.Helper()
	return parsed(t, text, expr.AWFLenient, expr.Parse)
}

// Value parses an expression of Agent Flow with any value.
func Value(t Reporter, text string) *expr.Expr {
	t.Helper()
	return parsed(t, text, expr.AgentFlow, expr.ParseValue)
}

// AWFValue parses an expression of AWF with any value.
func AWFValue(t Reporter, text string) *expr.Expr {
	t.Helper()
	return parsed(t, text, expr.AWF, expr.ParseValue)
}

func parsed(
	t Reporter, text string, d expr.Dialect, parse func(expr.Dialect, string, source.Span) (*expr.Expr, diag.List),
) *expr.Expr {
	t.Helper()
	e, problems := parse(d, text, source.Span{})
	if problems.Errors() {
		t.Fatalf("%s: %v", text, problems)
	}
	return e
}

// Generator draws the parts of a random program.
type Generator struct {
	T *rapid.T
	P *ir.Program
	N int // number of IDs, for unique names
}

// Pick draws one of some values.
func Pick[T any](g *Generator, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(g.T, label)
}

// Chance draws whether something happens, with a probability in percent.
func (g *Generator) Chance(label string, percent int) bool {
	return rapid.IntRange(1, 100).Draw(g.T, label) <= percent
}

// ID returns a unique name.
func (g *Generator) ID(prefix string) string {
	g.N++
	return fmt.Sprintf("%s%d", prefix, g.N)
}

// Parallel draws a step that runs random blocks concurrently, with steps in each branch up to a budget.
func (g *Generator) Parallel(block func() ir.BlockID, limit func(*ir.Branch)) ir.Parallel {
	par := ir.Parallel{
		Join:          ir.Join(Pick(g, "join", "all", "any", "settle", "best")),
		MaxConcurrent: rapid.IntRange(0, 2).Draw(g.T, "most"),
	}
	for range rapid.IntRange(1, 3).Draw(g.T, "branches") {
		b := ir.Branch{Name: g.ID("b"), Block: block()}
		if g.Chance("branch when", 15) {
			b.When = Cond(g.T, "input.no == true")
		}
		limit(&b)
		par.Branches = append(par.Branches, b)
	}
	if g.Chance("combine", 40) {
		par.Combine = &ir.Task{Kind: "combine"}
	}
	return par
}

// Link makes a block of random steps: it links them, and adds jumps back and fallbacks.
func (g *Generator) Link(steps []ir.Step, more func(s *ir.Step)) []ir.Step {
	Chain(steps...)
	for i := range steps {
		if i > 0 && g.Chance("back", 15) {
			back := ir.Edge{
				On: []ir.Outcome{ir.OK}, Limit: 2,
				To: ir.Target{Step: steps[rapid.IntRange(0, i).Draw(g.T, "to")].ID},
			}
			steps[i].Next = append([]ir.Edge{back}, steps[i].Next...)
		}
		if i+1 < len(steps) && g.Chance("fallback", 15) {
			steps[i].Fallback = &ir.Name{Name: steps[i+1].ID}
		}
		more(&steps[i])
	}
	return steps
}
