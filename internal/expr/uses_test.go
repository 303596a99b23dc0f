package expr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/source"
)

func TestUsesDescribeHowNamesAreCompared(t *testing.T) {
	for _, c := range []struct {
		dialect expr.Dialect
		text    string
		want    string
	}{
		{expr.AgentFlow, `state.urgent == true`, `state.urgent equals true`},
		{expr.AgentFlow, `5 < state.score`, `state.score orders 5 above`},
		{expr.AgentFlow, `state.score <= 5`, `state.score orders 5`},
		{expr.AgentFlow, `state.ok and not state.late`, `state.ok truth compound; state.late truth guarded negated compound`},
		{
			expr.AgentFlow, `not (state.a == 1 or state.b == 2)`,
			`state.a equals 1 negated compound; state.b equals 2 guarded negated compound`,
		},
		{expr.AgentFlow, `state.a == 1 or state.b == 2`, `state.a equals 1 alternative; state.b equals 2 guarded alternative`},
		{expr.AgentFlow, `state.a not in [1, 2]`, `state.a equals 1 negated compound; state.a equals 2 negated compound`},
		{expr.AWF, `int(states.a.Output) > 3`, `states.a.Output orders 3 above whole`},
		{expr.AWF, `states.a.Response[0].name == "x"`, `states.a.Response.0.name equals x`},
		{
			expr.AWF, `not (states.a.Output == "x" or states.b.Output == -2)`,
			`states.a.Output equals x negated compound; states.b.Output equals -2 guarded negated compound`,
		},
		{expr.AgentFlow, `state.kind in ["a", 2]`, `state.kind equals a alternative; state.kind equals 2 alternative`},
		{expr.AgentFlow, `text(state.kind) == "true"`, `state.kind equals true loose`},
		{
			expr.AgentFlow, `len(state.list) > 3 or state.list.length == 0`,
			`state.list sized 3 above alternative; state.list sized 0 guarded alternative exactly`,
		},
		{expr.AgentFlow, `lower(state.kind) == "a"`, `state.kind equals a`},
		{expr.AgentFlow, `state.a > input.limit`, `state.a orders input.limit above; input.limit orders state.a`},
		{
			expr.AgentFlow, `state.a contains "x" and state.b is empty and state.c == null`,
			`state.a contains x compound; state.b sized guarded compound; state.c reads guarded compound`,
		},
		{
			expr.AIFlow, `output.kind == 'refund' and output.amount > context.limit`,
			`output.kind equals refund loose compound; output.amount orders context.limit above loose guarded compound; ` +
				`context.limit orders output.amount loose guarded compound`,
		},
		{
			expr.AWF, `states.ask.JSON.score >= 5 and states.ask.Output == "yes"`,
			`states.ask.JSON.score orders 5 above compound; states.ask.Output equals yes guarded compound`,
		},
		{
			expr.AWF, `len(states.ask.Output) > 2 || states.ask.output in ["a"]`,
			`states.ask.Output sized 2 above alternative; states.ask.Output equals a guarded alternative`,
		},
		{
			expr.AWF, `lower(trim(states.ask.Output)) == "skip" or states.ask.Output matches "^a"`,
			`states.ask.Output equals skip alternative; ` +
				`states.ask.Output contains ^a guarded alternative, matches the regular expression`,
		},
		{
			expr.AWF, `states.ask.Output startsWith "a" and "abc" contains states.ask.Output`,
			`states.ask.Output contains a compound, begins with; states.ask.Output reads guarded compound`,
		},
		{expr.AgentFlow, `state.items.length == 0`, `state.items sized 0 exactly`},
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
			for _, one := range []struct {
				set  bool
				word string
			}{
				{u.Negated, " negated"},
				{u.Compound, " compound"},
				{u.Alternative, " alternative"},
				{u.Whole, " whole"},
				{u.Exactly, " exactly"},
				{u.Search != "" && u.Search != expr.Anywhere, ", " + string(u.Search)},
			} {
				if one.set {
					s += one.word
				}
			}
			got = append(got, s)
		}
		if joined := strings.Join(got, "; "); joined != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, joined, c.want)
		}
	}
}
