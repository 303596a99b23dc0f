package nof

import (
	"maps"
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
		"for x in state['list']:\n  AgentRunner.run('a')":                          {"a": unbounded},
		"for x in AgentRunner.run('a').output:\n  pass":                            {"a": 1},
		"for x in [1, 2, 3]:\n  for y in range(4):\n    AgentRunner.run('a')":      {"a": 12},
		"for i, x in enumerate((1, 2)):\n  AgentRunner.run('a')":                   {"a": 2},
		"for x in [1, *more]:\n  AgentRunner.run('a')":                             {"a": unbounded},
		"while AgentRunner.run('a').success:\n  AgentRunner.run('b')":              {"a": unbounded, "b": unbounded},
		"[AgentRunner.run('a') for x in state['list']]":                            {"a": unbounded},
		"[AgentRunner.run('a') for x in AgentRunner.run('b').output]":              {"a": unbounded, "b": 1},
		"{x: AgentRunner.run('a') for x in (1, 2)}":                                {"a": 2},
		"AgentRunner.run(name)":                                                    {"": 1},
		"run = AgentRunner.run\nrun('a')":                                          {"": unbounded},
		"ask = lambda x: AgentRunner.run('a', x)\nask(1)":                          {"a": unbounded},
		"def ask(x):\n  return AgentRunner.run('a', x)\nask(1)\nask(2)":            {"a": 2},
		"def ask(x):\n  return AgentRunner.run('a', x)":                            {},
		"def ask(x):\n  return AgentRunner.run('a', x)\nlist(map(ask, many))":      {"a": unbounded},
		"def ask(x):\n  AgentRunner.run('a')\n  if x:\n    ask(x - 1)\nask(3)":     {"a": unbounded},
		"@retry\ndef ask(x):\n  return AgentRunner.run('a', x)\nask(1)":            {"a": unbounded},
		"class C:\n  def __init__(self):\n    AgentRunner.run('a')\nC()":           {"a": 1},
		"class C:\n  def ask(self):\n    AgentRunner.run('a')\nC().ask()":          {"a": 1},
		"class C:\n  def __call__(self):\n    AgentRunner.run('a')\nc = C()\nc()":  {"a": unbounded},
		"try:\n  AgentRunner.run('a')\nexcept ValueError:\n  AgentRunner.run('a')": {"a": 2},
	} {
		m, found := python.Parse(source.NewFile("x.py", code), 0, len(code))
		if len(found) > 0 {
			t.Fatalf("%s: %v", code, found)
		}
		d := &document{runners: []string{agentRunner}}
		if got := newCallCounter(d, m).count(m.Body); !maps.Equal(got, want) {
			t.Errorf("%s\nare %v, want %v", code, got, want)
		}
	}
}
