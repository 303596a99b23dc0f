package nof

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/python"
	"github.com/espalier-run/espalier/internal/source"
)

// The number of calls that code can make is known, or has no bound.
func TestCallsOfCodeAreCounted(t *testing.T) {
	for code, want := range map[string]tally{
		`AgentRunner.run("a", {})`:                                                             {"a": 1},
		"AgentRunner.run('a', {})\nAgentRunner.run('a', {})":                                   {"a": 2},
		"if x:\n  AgentRunner.run('a')\n  AgentRunner.run('b')\nelse:\n  AgentRunner.run('a')": {"a": 1, "b": 1},
		"y = AgentRunner.run('a') if AgentRunner.run('c') else " +
			"AgentRunner.run('b')": {"a": 1, "b": 1, "c": 1},
		"for x in state['list']:\n  AgentRunner.run('a')":                           {"a": unbounded},
		"for x in AgentRunner.run('a').output:\n  pass":                             {"a": 1},
		"for x in [1, 2, 3]:\n  for y in range(4):\n    AgentRunner.run('a')":       {"a": 12},
		"for i, x in enumerate((1, 2)):\n  AgentRunner.run('a')":                    {"a": 2},
		"for x in [1, *more]:\n  AgentRunner.run('a')":                              {"a": unbounded},
		"while AgentRunner.run('a').success:\n  AgentRunner.run('b')":               {"a": unbounded, "b": unbounded},
		"for x in range(9223372036854775807):\n  AgentRunner.run('a')":              {"a": unbounded},
		"for x in range(0, 9223372036854775808):\n  AgentRunner.run('a')":           {"a": unbounded},
		"for x in range(9223372036854775807, 3):\n  AgentRunner.run('a')":           {"a": 0},
		"for x in range(1000000000):\n  AgentRunner.run('a')":                       {"a": 1_000_000_000},
		"for x in range(1000000000):\n  AgentRunner.run('a')\nAgentRunner.run('a')": {"a": unbounded},
		"[AgentRunner.run('a') for w in range(1000000) for x in range(1000000) " +
			"for y in range(1000000) for z in range(1000000)]": {"a": unbounded},
		"[AgentRunner.run('a') for x in state['list']]":                        {"a": unbounded},
		"[AgentRunner.run('a') for x in AgentRunner.run('b').output]":          {"a": unbounded, "b": 1},
		"{x: AgentRunner.run('a') for x in (1, 2)}":                            {"a": 2},
		"AgentRunner.run(name)":                                                {"": 1},
		"run = AgentRunner.run\nrun('a')":                                      {"": unbounded},
		"ask = lambda x: AgentRunner.run('a', x)\nask(1)":                      {"a": unbounded},
		"def ask(x):\n  return AgentRunner.run('a', x)\nask(1)\nask(2)":        {"a": 2},
		"def ask(x):\n  return AgentRunner.run('a', x)":                        {},
		"def ask(x):\n  return AgentRunner.run('a', x)\nlist(map(ask, many))":  {"a": unbounded},
		"def ask(x):\n  AgentRunner.run('a')\n  if x:\n    ask(x - 1)\nask(3)": {"a": unbounded},
		"def ask(x):\n  AgentRunner.run('a')\n  other(x)\ndef other(x):\n  ask(x)\nother(1)\nAgentRunner.run('b')": {
			"a": unbounded, "b": 1,
		},
		"def size(x):\n  return sum(size(y) for y in x)\nsize(AgentRunner.run('a'))": {"a": 1},

		"@retry\ndef ask(x):\n  return AgentRunner.run('a', x)\nask(1)":            {"a": unbounded},
		"def ask():\n  return AgentRunner.run('a')\nask().add(1)":                  {"a": 1, "": 1},
		"class C:\n  def __init__(self):\n    AgentRunner.run('a')\nC()":           {"a": 1},
		"class C:\n  def ask(self):\n    AgentRunner.run('a')\nC().ask()":          {"a": 1},
		"class C:\n  def __call__(self):\n    AgentRunner.run('a')\nc = C()\nc()":  {"a": unbounded},
		"try:\n  AgentRunner.run('a')\nexcept ValueError:\n  AgentRunner.run('a')": {"a": 2},
	} {
		if got := callsOf(t, code); !maps.Equal(got, want) {
			t.Errorf("%s\nare %v, want %v", code, got, want)
		}
	}
}

// callsOf returns the calls of code.
func callsOf(t *testing.T, code string) tally {
	t.Helper()
	m, found := python.Parse(source.NewFile("x.py", code), 0, len(code))
	if len(found) > 0 {
		t.Fatalf("%.200s: %v", code, found)
	}
	return newCallCounter(&document{runners: []string{agentRunner}}, m).count(m.Body)
}

// Hostile code takes neither too much time nor too much memory.
func TestCallsOfHostileCodeAreCounted(t *testing.T) {
	// chain returns n functions, each of which calls the next one, and a call of the first.
	chain := func(n int, body string) string {
		var b strings.Builder
		for i := range n {
			next := fmt.Sprintf("f%d()", i+1)
			fmt.Fprintf(&b, "def f%d():\n  %s\n", i, strings.ReplaceAll(body, "NEXT", next))
		}
		fmt.Fprintf(&b, "def f%d():\n  AgentRunner.run('a')\nf0()\n", n)
		return b.String()
	}
	for name, c := range map[string]struct {
		code string
		want int64
	}{
		"functions that call the next one in two branches": {chain(60, "NEXT if x else NEXT"), 1},
		"functions that call the next one twice":           {chain(20, "NEXT + NEXT"), 1 << 20},
		"functions with the same name": {
			strings.Repeat("def f():\n  f()\n  f()\n", 20) + "def f():\n  AgentRunner.run('a')\nf()", unbounded,
		},
		"a long chain":                     {chain(5000, "NEXT"), 1},
		"a long chain of long expressions": {chain(300, "NEXT"+strings.Repeat("()", 990)), 1},
		"many functions with many agents": {
			"def f():\n" + numbered(2000, "  AgentRunner.run('a%d')\n") + numbered(2000, "def g%d():\n  f()\n") +
				numbered(2000, "g%d()\n"), unbounded,
		},
		"many long expressions with many agents": {
			"def f():\n" + numbered(2000, "  AgentRunner.run('a%d')\n") +
				strings.Repeat("f()"+strings.Repeat("()", 990)+"\n", 480), unbounded,
		},
	} {
		if got := callsOf(t, c.code).of("a"); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// numbered repeats a text with the numbers below n.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}
