package expr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/source"
)

func TestUses(t *testing.T) {
	for _, c := range []struct {
		dialect expr.Dialect
		text    string
		want    string
	}{
		{expr.AgentFlow, `state.urgent == true`, `state.urgent equals true`},
		{expr.AgentFlow, `5 < state.score`, `state.score orders 5 above`},
		{expr.AgentFlow, `state.score <= 5`, `state.score orders 5`},
		{expr.AgentFlow, `state.ok and not state.late`, `state.ok truth; state.late truth guarded`},
		{expr.AgentFlow, `state.kind in ["a", 2]`, `state.kind equals a; state.kind equals 2`},
		{expr.AgentFlow, `text(state.kind) == "true"`, `state.kind equals true loose`},
		{
			expr.AgentFlow, `len(state.list) > 3 or state.list.length == 0`,
			`state.list sized 3 above; state.list sized 0 guarded`,
		},
		{expr.AgentFlow, `lower(state.kind) == "a"`, `state.kind equals a`},
		{expr.AgentFlow, `state.a > input.limit`, `state.a orders input.limit above; input.limit orders state.a`},
		{
			expr.AgentFlow, `state.a contains "x" and state.b is empty and state.c == null`,
			`state.a contains x; state.b sized guarded; state.c reads guarded`,
		},
		{
			expr.AIFlow, `output.kind == 'refund' and output.amount > context.limit`,
			`output.kind equals refund loose; output.amount orders context.limit above loose guarded; context.limit ` +
				`orders output.amount loose guarded`,
		},
		{
			expr.AWF, `states.ask.JSON.score >= 5 and states.ask.Output == "yes"`,
			`states.ask.JSON.score orders 5 above; states.ask.Output equals yes guarded`,
		},
		{
			expr.AWF, `len(states.ask.Output) > 2 || states.ask.output in ["a"]`,
			`states.ask.Output sized 2 above; states.ask.Output equals a guarded`,
		},
	} {
		e, diags := expr.Parse(c.dialect, c.text, source.Span{})
		if diags.Errors() {
			t.Fatal(c.text, diags)
		}
		var got []string
		for _, u := range e.Uses() {
			s := u.Path.String() + " " + string(u.How)
			if u.Value != nil {
				s += fmt.Sprintf(" %v", u.Value)
			}
			if u.Other != nil {
				s += " " + strings.Join(u.Other, ".")
			}
			if u.Above && (u.How == expr.Orders || u.How == expr.Sized) {
				s += " above"
			}
			if u.Loose {
				s += " loose"
			}
			if u.Guarded {
				s += " guarded"
			}
			got = append(got, s)
		}
		if joined := strings.Join(got, "; "); joined != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, joined, c.want)
		}
	}
}
