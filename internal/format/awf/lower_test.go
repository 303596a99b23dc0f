package awf_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
)

// told are the diagnostics of a file, each with the text that it is about.
func told(text string, more files) []string {
	_, list := compile(text, more)
	out := []string{}
	for _, d := range list.Sorted() {
		out = append(out, string(d.Code)+" "+text[d.Span.Start:d.Span.End])
	}
	return out
}

// Every name that leads to a state is looked up, and a file without any state is
// one mistake.
func TestNamesOfStates(t *testing.T) {
	const states = "name: f\nstates:\n  initial: a\n  a: {type: step, command: x, on_success: z, KEYS}\n  z: {type: terminal}\n"
	for keys, want := range map[string]string{
		"transitions: [{when: 'true', goto: z}, {goto: zz}]": "AWF005 zz",
		"on_failure: zz": "AWF005 zz",
		"on_failure: z":  "",
	} {
		if got := strings.Join(told(strings.Replace(states, "KEYS", keys, 1), nil), ", "); got != want {
			t.Errorf("%s: got %q, want %q", keys, got, want)
		}
	}
	if got := told("name: f\nstates:\n  initial: a\n", nil); !slices.Equal(got, []string{"AWF006 name"}) {
		t.Errorf("no states: %q", got)
	}
}

// A state that several others hold is lowered for each of them, and its mistakes
// are told once.
func TestMistakesOfStatesHeldTwice(t *testing.T) {
	got := told(`name: f
states:
  initial: one
  one: {type: for_each, items: [1], body: [b], on_complete: two}
  two: {type: parallel, parallel: [b], on_success: z}
  b: {type: step, command: 'echo {{upper .loop.Item}} {{.states.b.Outptu}}'}
  z: {type: terminal}
`, nil)
	if want := []string{"EXPR023 upper"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Many branches do not all run at once, unless the author says how many may.
func TestHowManyBranchesAtOnce(t *testing.T) {
	for _, c := range []struct {
		branches int
		most     string
		want     int
	}{{32, "", 0}, {33, "", 32}, {40, "max_concurrent: 36,", 36}, {3, "max_concurrent: 2,", 2}} {
		var names []string
		states := ""
		for i := range c.branches {
			names = append(names, fmt.Sprintf("b%d", i))
			states += fmt.Sprintf("  b%d: {type: step, command: x}\n", i)
		}
		p, list := compile(fmt.Sprintf("name: f\nstates:\n  initial: p\n  p: {type: parallel, %s parallel: [%s], on_success: z}\n%s  z: {type: terminal}\n", c.most, strings.Join(names, ", "), states), nil)
		if got := p.Step(ir.Body, "p").Action.(ir.Parallel); got.MaxConcurrent != c.want || len(got.Branches) != c.branches || len(list) > 0 {
			t.Errorf("%+v: %d at once of %d, %v", c, got.MaxConcurrent, len(got.Branches), list)
		}
	}
}

// Loops and parallel steps that hold themselves, at once or through others, are
// told where they do, and what else they hold is there.
func TestStatesThatHoldThemselves(t *testing.T) {
	for states, want := range map[string]string{
		"  a: {type: parallel, parallel: [b, a], on_success: z}\n":                                                                     "AWF017 a",
		"  a: {type: for_each, items: [1], body: [a, b], on_complete: z}\n":                                                            "AWF017 a",
		"  a: {type: while, while: 'true', body: [c, b], on_complete: z}\n  c: {type: parallel, parallel: [b, a], on_success: a}\n":    "AWF017 a",
		"  a: {type: parallel, parallel: [b, c], on_success: z}\n  c: {type: for_each, items: [1], body: [b, a, c], on_complete: z}\n": "AWF017 a, AWF017 c",
	} {
		text := "name: f\nstates:\n  initial: a\n" + states + "  b: {type: step, command: x}\n  z: {type: terminal}\n"
		if got := strings.Join(told(text, nil), ", "); got != want {
			t.Errorf("%s: got %q, want %q", states, got, want)
		}
		p, _ := compile(text, nil)
		held := 0
		for _, b := range p.Blocks[1:] {
			if slices.ContainsFunc(b.Steps, func(s ir.Step) bool { return s.ID == "b" }) {
				held++
			}
		}
		if held == 0 {
			t.Errorf("%s: nothing holds b", states)
		}
	}
}

// A state that a loop or a parallel step holds stands beside it, too, where
// something else leads there: the state before, or a way out of a loop, however
// deep that one is.
func TestHeldStatesThatAreEnteredOtherwise(t *testing.T) {
	const others = "  b: {type: step, command: x, on_success: z}\n  c: {type: step, command: x}\n  z: {type: terminal}\n"
	for states, want := range map[string]string{
		"  a: {type: parallel, parallel: [b, c], on_success: z}\n":                                                                                       "a z",
		"  a: {type: parallel, parallel: [b, c], on_success: b}\n":                                                                                       "a b z",
		"  a: {type: parallel, parallel: [b, c], on_success: d}\n  d: {type: step, command: x, transitions: [{when: 'true', goto: b}], on_success: z}\n": "a b d z",
		"  a: {type: for_each, items: [1], body: [b, c], on_complete: z}\n":                                                                              "a z",
		"  a: {type: for_each, items: [1], body: [i], on_complete: p}\n  i: {type: while, while: 'true', body: [w]}\n  w: {type: step, command: x, on_failure: b}\n  p: {type: parallel, parallel: [b, c], on_success: z}\n":                      "a b p z",
		"  a: {type: for_each, items: [1], body: [i, b, c], on_complete: z}\n  i: {type: while, while: 'true', body: [w], on_complete: a}\n  w: {type: step, command: x, on_success: i, on_failure: b, transitions: [{when: 'true', goto: a}]}\n": "a z",
		"  a: {type: parallel, parallel: [i, c], on_success: z}\n  i: {type: while, while: 'true', body: [w, b]}\n  w: {type: step, command: x, on_failure: a}\n":                                                                                 "a z",
	} {
		p, list := compile("name: f\nstates:\n  initial: a\n"+states+others, nil)
		var got []string
		for _, s := range p.Blocks[ir.Body].Steps {
			got = append(got, s.ID)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want || list.Errors() {
			t.Errorf("%s: got %q, want %q; %v", states, got, want, list)
		}
	}
}
