package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/node"
	"github.com/espalier-run/espalier/internal/step/steptest"
	"github.com/espalier-run/espalier/internal/step/worker"
)

type settings = steptest.Settings

func code(text string) []map[string]any { return []map[string]any{{"code": text, "line": 10}} }

const head = "from agents.shared.agent_sdk import AgentRunner, Pipeline\n"

const reply = `{"recommendations": [], "rules_applied": ["x"], "meta_insight": "m", "analysis_data": {"n": 1.0}}`

// with gives a job the kinds that it may ask for, and the step's fields.
func with(writes ...string) func(*step.Job) {
	return func(j *step.Job) {
		j.Runners = func(kind string) step.Runner {
			if kind == "worker" {
				return worker.Runner{}
			}
			return nil
		}
		for _, w := range writes {
			j.Step.Writes = append(j.Step.Writes, ir.Write{Path: "state." + w, Part: w})
		}
	}
}

func function(body string, more settings) settings {
	out := settings{
		"function": "f", "file": "x.nof.md", "code": code(head + "def f(state):\n" + body),
		"fields": map[string]string{
			"a": "str", "n": "float",
			"list": "list[str]",
		}, "reducers": map[string]string{"list": "append"},
		"agents": map[string]any{"plain": map[string]any{"micro_dollars": 250}, "handy": map[string]any{}},
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// Each play is also killed at every write and done again: no call is repeated.
func TestNodeStepsKeepResultsWhenInterrupted(t *testing.T) {
	says := func(n int) (out []steptest.Reply) {
		for range n {
			out = append(out, steptest.Reply{Text: reply})
		}
		return out
	}
	c, p, r, e := journal.NoteCall, journal.NotePrompt, journal.NoteReply, journal.NoteCallEnd
	steptest.Runs(t, node.Runner{},
		steptest.Play{
			Name: "no call", Settings: function("    return {'a': state['a'].upper()}\n", nil),
			With: with("a"), Value: `{"a":"WHAT A SAYS"}`, Notes: []string{},
		},
		steptest.Play{
			Name: "one call",
			Settings: function("    r = AgentRunner.run('plain', {'x': state['a']})\n"+
				"    return {'n': r.output['analysis_data']['n'], 'list': r.output['rules_applied']}\n", nil),
			With: with("n", "list"), Replies: says(1), Value: `{"n":1.0,"list":["x"]}`, Notes: []string{c, p, r, e},
		},
		steptest.Play{
			Name: "three calls in a loop",
			Settings: function("    out = []\n    for i in range(3):\n        r = AgentRunner.run('plain', {'i': i, "+
				"'so_far': out})\n        out += r.output['rules_applied']\n    return {'list': out}\n", nil),
			With: with("list"), Replies: says(3), Value: `{"list":["x","x","x"]}`, Notes: []string{
				c, p, r, e, c, p, r,
				e, c, p, r, e,
			},
		},
		steptest.Play{
			Name: "what is not returned stays", Settings: function("    return {}\n", nil), With: with("a",
				"list"), Value: `{"a":"what a says","list":[]}`,
		},
		steptest.Play{
			Name: "only the changes", Settings: function("    return {}\n", settings{"delta": true}), With: with("a",
				"list"), Value: `{}`,
		},
		steptest.Play{
			Name: "N23: an unknown agent",
			Settings: function("    r = AgentRunner.run('nobody')\n"+
				"    return {'list': [str(r.success), r.error]}\n", nil),
			With: with("list"), Value: `{"list":["False","Unknown agent: nobody. Available: ['handy', 'plain']"]}`,
		},
		steptest.Play{
			Name: "N11: what it cost", Settings: function("    AgentRunner.run('plain')\n    return {}\n",
				settings{"track": []string{"pass.cost_so_far", "pass.cycle", "agents.plain"}}),
			With: with(), Replies: says(1), Value: `{"pass.cost_so_far":0.00025,"pass.cycle":0,"agents.plain":` +
				reply + `}`,
		},
		steptest.Play{
			Name: "N11: the higher of both pass counts applies", Settings: function("    return {}\n",
				settings{"track": []string{"pass.cycle"}}), Value: `{"pass.cycle":2}`,
			With: func(j *step.Job) {
				with()(j)
				j.Visit = 1
				j.Reads = append(j.Reads, step.Read{Path: "pass.cycle", Value: []byte("2")})
			},
		},
		steptest.Play{
			Name: "an exception", Settings: function("    return state['missing']\n", nil), With: with(),
			Class: node.ClassCode,
		},
		steptest.Play{Name: "no dict", Settings: function("    return 5\n", nil), With: with(), Class: node.ClassCode},
		steptest.Play{
			Name: "no list", Settings: function("    return {'list': 'x'}\n", nil), With: with("list"),
			Class: node.ClassCode,
		},
		steptest.Play{
			Name: "no dict to merge", With: with("found"), Class: node.ClassCode,
			Settings: function("    return {'found': ['x']}\n",
				settings{
					"fields":   map[string]string{"found": "dict"},
					"reducers": map[string]string{"found": "merge"},
				}),
		},
		steptest.Play{
			Name: "only as many calls as are needed",
			Settings: function("    r = next(r for r in (AgentRunner.run('plain', {'i': i}) for i in range(3)) if "+
				"r.success)\n    return {'list': r.output['rules_applied']}\n", nil),
			With: with("list"), Replies: says(1), Value: `{"list":["x"]}`, Notes: []string{c, p, r, e},
		},
		steptest.Play{
			Name: "the clock and random numbers repeat", With: with("list"), Replies: says(2),
			Settings: function(`    import datetime, random, uuid
    AgentRunner.run('plain', {'at': datetime.datetime.now().isoformat(), 'pick': random.random()})
    AgentRunner.run('plain', {'id': str(uuid.uuid4()), 'later': datetime.datetime.now().isoformat()})
    return {'list': ['done']}
`, nil),
			Value: `{"list":["done"]}`, Notes: []string{node.NoteClock, c, p, r, e, c, p, r, e},
		},
		steptest.Play{
			Name: "AgentInput and cast", With: with("list"), Replies: says(1), Value: `{"list":["x","1"]}`,
			Settings: function(`    from typing import cast
    from agents.shared.agent_base import AgentInput
    r = AgentRunner.run('plain', AgentInput({'x': 1}, options={'deep': True}))
    return {'list': cast(list, r.output['rules_applied']) + [str(len(AgentInput({'a': 1}).workload))]}
`, nil),
		},
		steptest.Play{
			Name: "a float is not text", Settings: function("    return {'n': 'high'}\n", nil),
			With: with("n"), Class: node.ClassCode,
		},
		steptest.Play{
			Name: "None is no value", Settings: function("    return {'n': None}\n",
				nil), With: with("n"), Value: `{"n":null}`,
		},
		steptest.Play{
			Name: "a list of texts", Settings: function("    return {'list': ['x', 5]}\n", nil),
			With: with("list"), Class: node.ClassCode,
		},
		steptest.Play{
			Name: "no JSON", Settings: function("    return {'a': {1, 2}}\n", nil), With: with("a"),
			Class: node.ClassCode,
		},
		steptest.Play{
			Name: "no number", Settings: function("    return {'n': float('nan')}\n", nil), With: with("n"),
			Class: node.ClassCode,
		},
		steptest.Play{
			Name: "leaving", Settings: function("    import sys\n    sys.exit(0)\n", nil), With: with("a"),
			Class: node.ClassCode,
		},
		steptest.Play{
			Name: "N20: another field", Settings: function("    return {'b': 1}\n", nil), With: with("a"),
			Class: node.ClassCode,
		},
		steptest.Play{
			Name: "a pipeline", Replies: says(2), With: with(),
			Settings: settings{
				"code": code(head + "p = Pipeline('P').add('plain', workload={'x': 1}).add('handy', " +
					"depends_on=['plain'])\nr = p.run()\nprint(r.name, r.succeeded, r.total_steps, " +
					"r.aggregated_rules)\n"),
				"agents": map[string]any{"plain": map[string]any{}, "handy": map[string]any{}},
			},
			Value: `"P 2 2 ['x']\n"`,
		},
	)
}

// A node that makes another call than before fails with class CHANGED.
func TestChangedCallFailsOnResume(t *testing.T) {
	log := &steptest.Log{StopAt: 3}
	play := steptest.Play{
		Settings: function("    AgentRunner.run('plain', {'x': 1})\n    return {}\n", nil),
		With:     with(), Replies: []steptest.Reply{{Text: reply}},
	}
	if _, err := play.Done(t, node.Runner{}, log, &steptest.World{Replies: play.Replies}); !errors.Is(err,
		steptest.ErrStopped) {
		t.Fatal(err)
	}
	play.Settings = function("    AgentRunner.run('plain', {'x': 2})\n    return {}\n", nil)
	_, err := play.Done(t, node.Runner{}, &steptest.Log{Notes: log.Notes}, &steptest.World{Replies: play.Replies})
	var f *step.Error
	if !errors.As(err, &f) || f.Class != ir.ClassChanged || !strings.Contains(f.Message, "call 1") {
		t.Errorf("got %v", err)
	}
}

// What a pipeline passes on, and what a failure does.
func TestPipelinesPassResultsOn(t *testing.T) {
	program := head + `
p = Pipeline("P")
p.add("plain", workload={"x": 1})
p.add("handy", depends_on=["plain"])
r = p.run()
print([(s.agent_name, s.success, s.error) for s in r.steps], r.total_steps, r.failed)
`
	agents := map[string]any{"plain": map[string]any{}, "handy": map[string]any{}}
	run := func(more settings, replies ...steptest.Reply) (string, *steptest.World) {
		set := settings{"code": code(program), "agents": agents}
		for k, v := range more {
			set[k] = v
		}
		world := &steptest.World{Replies: replies}
		result, err := steptest.Play{Settings: set, With: with()}.Done(t, node.Runner{}, &steptest.Log{}, world)
		if err != nil {
			t.Fatal(err)
		}
		var text string
		if err := json.Unmarshal(result.Value, &text); err != nil {
			t.Fatal(err)
		}
		return text, world
	}
	_, world := run(nil, steptest.Reply{Text: reply}, steptest.Reply{Text: reply})
	if asked := string(step.JSON(world.Requests[1].Messages)); !strings.Contains(asked,
		"previous") || !strings.Contains(asked, "analysis_data") {
		t.Errorf("the second agent is not given what the first one found: %s", asked)
	}
	broken := steptest.Reply{Fail: errors.New("broken")}
	text, world := run(nil, broken)
	if want := "[('plain', False, 'broken'), ('handy', False, 'Dependency failed: plain')] 2 2\n"; text != want ||
		len(world.Requests) != 1 {
		t.Errorf("got %s", text)
	}
	text, world = run(settings{"sdk": true}, broken)
	if want := "[('plain', False, 'broken'), ('handy', False, 'Dependency failed: plain'), ('handy', False, " +
		"'broken')] 3 3\n"; text != want || len(world.Requests) != 2 {
		t.Errorf("as the SDK does it: %s", text)
	}
}

// What would have worked on the output of an agent that failed is not
// called; dependencies may be a tuple, and nothing else than a list.
func TestTransformsRunAfterTheirDependencies(t *testing.T) {
	agents := map[string]any{"plain": map[string]any{}, "handy": map[string]any{}}
	run := func(program string, replies ...steptest.Reply) (string, error) {
		play := steptest.Play{Settings: settings{"code": code(head + program), "agents": agents}, With: with()}
		result, err := play.Done(t, node.Runner{}, &steptest.Log{}, &steptest.World{Replies: replies})
		return string(result.Value), err
	}
	text, err := run(`
def show(output):
    print("shown", output)
    return output
r = Pipeline("P").add("plain").add("handy", depends_on=("plain",), transform=show).run()
print([s.error for s in r.steps])
`, steptest.Reply{Fail: errors.New("broken")})
	if want := `"['broken', 'Dependency failed: plain']\n"`; err != nil || text != want {
		t.Errorf("got %s, %v", text, err)
	}
	if _, err := run(`Pipeline("P").add("handy", depends_on="plain")`); err == nil || !strings.Contains(err.Error(),
		"depends_on must be a list of agents, not str") {
		t.Errorf("got %v", err)
	}
}

// Failures name the exception, the function and the line of the file.
func TestFailuresHaveAPlace(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"exception": {
			"    x = state['a']\n    return {'a': x.nothing}\n",
			"x.nof.md:13: in f: AttributeError: 'str' object has no attribute 'nothing'",
		},
		"inner": {
			"    import json\n    return json.loads('{')\n",
			"x.nof.md:13: in f: json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: " +
				"line 1 column 2 (char 1)",
		},
		"wrong type": {"    return {'n': 'high'}\n", `x.nof.md: in f: the field "n" must be float, not str: "high"`},
		"wrong item": {
			"    return {'list': ['x', 5]}\n",
			`x.nof.md: in f: the field "list" must be list[str]; item 1 must be str, not int: 5`,
		},
		"no such JSON": {
			"    return {'a': {1, 2}}\n",
			"x.nof.md: in f: TypeError: the field 'a' cannot be stored as JSON: Object of type set is not JSON " +
				"serializable",
		},
		"no dict": {
			"    return [1]\n",
			"x.nof.md: in f: TypeError: the function must return a dict of the fields that it changes, not list",
		},
		"syntax": {"    return (\n", "x.nof.md:12: in f: SyntaxError: '(' was never closed"},
	} {
		t.Run(name, func(t *testing.T) {
			play := steptest.Play{Settings: function(c.body, nil), With: with("a", "n", "list")}
			_, err := play.Done(t, node.Runner{}, &steptest.Log{}, &steptest.World{})
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// Code that does not end is stopped, in the built-in interpreter and in python3, in a sandbox or without.
func TestEndlessCodeIsStopped(t *testing.T) {
	body := "    while True:\n        try:\n            while True:\n                pass\n" +
		"        except BaseException:\n            pass\n"
	for name, more := range interpreters() {
		t.Run(name, func(t *testing.T) {
			needs(t, more)
			set := function(body, settings{"seconds": 0.5})
			maps.Copy(set, more)
			_, err := steptest.Play{Settings: set, With: inProject(t)}.Done(t, node.Runner{}, &steptest.Log{},
				&steptest.World{})
			var f *step.Error
			if !errors.As(err, &f) || f.Class != ir.ClassTimeout || !strings.Contains(f.Message,
				"the code of f was stopped") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// interpreters are the settings of the interpreters that run code.
func interpreters() map[string]settings {
	return map[string]settings{
		"built in": {}, "python3": {"python": true, "unconfined": true}, "python3 in a sandbox": {"python": true},
	}
}

// needs skips a test on a machine without the interpreter.
func needs(t *testing.T, interpreter settings) {
	t.Helper()
	if interpreter["python"] == nil {
		return
	}
	needsPython(t)
	if _, err := process.Confined(); err != nil && interpreter["unconfined"] == nil {
		t.Skip(err)
	}
}

// watchedLog is a log that reports its first note.
type watchedLog struct {
	*steptest.Log
	noted func()
}

func (l watchedLog) Note(ctx context.Context, notes ...step.Note) error {
	defer l.noted()
	return l.Log.Note(ctx, notes...)
}

// The engine ends the context of a step at its timeout and at the deadline of the run. This stops code that does not
// end and that catches every exception.
func TestTimeoutsOfTheEngineStopEndlessCode(t *testing.T) {
	body := "    AgentRunner.run('plain')\n" +
		"    while True:\n        try:\n            while True:\n                pass\n" +
		"        except BaseException:\n            pass\n"
	for name, more := range interpreters() {
		t.Run(name, func(t *testing.T) {
			needs(t, more)
			timedOut := errors.New("the step has timed out")
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			world := &steptest.World{Replies: []steptest.Reply{{Text: reply}}}
			job := steptest.Play{Settings: function(body, more), With: inProject(t)}.Job("node", t.TempDir(),
				&steptest.Log{}, world)
			// The call of the agent shows that the code runs. It then has time to reach the loop.
			job.Log = watchedLog{&steptest.Log{}, sync.OnceFunc(func() {
				time.AfterFunc(300*time.Millisecond, func() { stop(timedOut) })
			})}
			if _, err := (node.Runner{}).Run(ctx, job); !errors.Is(err, timedOut) || len(world.Requests) != 1 {
				t.Errorf("%d model calls, then %v", len(world.Requests), err)
			}
		})
	}
}

// The main program is the Execution block; in the graph there is none.
func TestMainProgramRunsOnlyInExecution(t *testing.T) {
	text := "ran = 'no'\nif __name__ == '__main__':\n    ran = 'yes'\n"
	for _, python := range []bool{false, true} {
		if python && !python3(t) {
			continue
		}
		more := settings{
			"code": code(text + "def f(state):\n    return {'a': ran}\n"), "python": python,
			"unconfined": python,
		}
		result, err := steptest.Play{Settings: function("", more), With: inProject(t)}.Done(t, node.Runner{},
			&steptest.Log{}, &steptest.World{})
		if err != nil || string(result.Value) != `{"a":"no"}` {
			t.Errorf("in the graph: %s, %v", result.Value, err)
		}
		set := settings{"code": code(text + "print(ran)\n"), "python": python, "unconfined": python}
		result, err = steptest.Play{Settings: set, With: inProject(t)}.Done(t, node.Runner{}, &steptest.Log{},
			&steptest.World{})
		if err != nil || string(result.Value) != `"yes\n"` {
			t.Errorf("as a program: %s, %v", result.Value, err)
		}
	}
}

// Output beyond the limit is left out, and the text says so.
func TestPrintingIsBounded(t *testing.T) {
	play := steptest.Play{Settings: settings{"code": code("for i in range(9):\n    print('x' * (1 << 20), end='')\n" +
		"print('end')")}, With: with()}
	result, err := play.Done(t, node.Runner{}, &steptest.Log{}, &steptest.World{})
	if text := string(result.Value); err != nil || len(text) > 5<<20 || !strings.HasSuffix(text,
		`x(more than 4 MiB were printed; the rest is left out)\n"`) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestCollectMergesDefaultsInputAndBranches(t *testing.T) {
	steptest.Runs(t, node.CollectRunner{},
		steptest.Play{Name: "reads", Value: `{"a":"what a says"}`},
		steptest.Play{
			Name: "input over defaults", Settings: settings{"defaults": map[string]any{
				"a": 1,
				"b": 2,
			}}, Value: `{"a":1,"b":3}`,
			With: func(j *step.Job) { j.Reads = []step.Read{{Path: "input", Value: []byte(`{"b":3}`)}} },
		},
		steptest.Play{
			Name: "branches", Settings: settings{"reducers": map[string]string{
				"l": "append",
				"n": "add",
			}}, Value: `{"l":[1,2],"n":6,"s":"second","k":"kept"}`,
			With: func(j *step.Job) {
				j.Reads = []step.Read{{Path: "state.n", Value: []byte("1")}, {Path: "state.k", Value: []byte(`"kept"`)}}
				j.Branches = []step.Branch{
					{Name: "x", Outcome: ir.OK, Value: []byte(`{"l":[1],"n":2,"s":"first"}`)},
					{Name: "y", Outcome: ir.OK, Value: []byte(`{"l":[2],"n":3,"s":"second"}`)},
					{Name: "z", Outcome: ir.Skipped},
				}
			},
		},
	)
}

// A second call that does not fit the budget stops the node as a matter of the
// budget, whatever the code catches. When there is more, the node goes on, and
// its first call is not repeated.
func TestBudgetInsideANode(t *testing.T) {
	body := `    out = []
    for i in range(2):
        try:
            r = AgentRunner.run('plain', {'i': i})
            out += r.output['rules_applied'] if r.success else ['failed']
        except Exception:
            out.append('caught')
    return {'list': out}
`
	play := steptest.Play{Settings: function(body, nil), With: with("list")}
	log := &steptest.Log{Refuse: step.Errorf(ir.ClassBudget, "the budget of tokens is exhausted"), RefuseAfter: 1}
	world := &steptest.World{Replies: []steptest.Reply{{Text: reply}, {Text: reply}}}
	_, err := play.Done(t, node.Runner{}, log, world)
	var f *step.Error
	if !errors.As(err, &f) || f.Class != ir.ClassBudget || len(world.Requests) != 1 {
		t.Fatalf("got %v after %d requests", err, len(world.Requests))
	}
	rest := &steptest.World{Replies: []steptest.Reply{{Text: reply}}}
	result, err := play.Done(t, node.Runner{}, &steptest.Log{Notes: log.Notes}, rest)
	if err != nil || string(result.Value) != `{"list":["x","x"]}` {
		t.Errorf("got %s, %v", result.Value, err)
	}
	if len(rest.Requests) != 1 || !strings.Contains(string(step.JSON(rest.Requests[0].Messages)), `\"i\":1`) {
		t.Errorf("asked %d times: %s", len(rest.Requests), step.JSON(rest.Requests))
	}
}
