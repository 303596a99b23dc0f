package node_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/process"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/node"
	"github.com/espalier-run/espalier/internal/step/steptest"
)

// python3 reports whether a python3 is installed that knows the syntax of the tests.
func python3(t *testing.T) bool {
	t.Helper()
	return exec.Command("python3", "-c", "import sys; sys.exit(sys.version_info < (3, 10))").Run() == nil
}

func needsPython(t *testing.T) {
	t.Helper()
	if !python3(t) {
		t.Skip("python3 is not installed")
	}
}

// A python3 that cannot be confined is not started, even if another machine started the run,
// unless the run was started without confinement.
func TestPythonIsConfinedOrRefused(t *testing.T) {
	needsPython(t)
	outside := filepath.Join(t.TempDir(), "outside")
	touch := "    try:\n        open('" + outside +
		"', 'w').close()\n        return {'a': 'written'}\n    except OSError:\n        return {'a': 'held'}\n"
	noSandbox := node.Runner{Confine: func(string, ...string) (*process.Sandbox, error) {
		return nil,
			process.ErrNoSandbox
	}}
	run := func(kind node.Runner, more settings) (string, error) {
		more["python"] = true
		result, err := steptest.Play{Settings: function(touch, more), With: inProject(t)}.Done(t, kind, &steptest.Log{},
			&steptest.World{})
		return string(result.Value), err
	}
	_, err := run(noSandbox, settings{})
	var f *step.Error
	if !errors.As(err, &f) || f.Class != ir.ClassMissing || !strings.Contains(f.Message, "--python=unconfined") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(outside); err == nil {
		t.Error("it was run all the same")
	}
	if _, err := process.Confined(); err == nil {
		if got, err := run(node.Runner{}, settings{}); err != nil || got != `{"a":"held"}` {
			t.Errorf("in a sandbox: %s, %v", got, err)
		}
	}
	if got, err := run(noSandbox, settings{"unconfined": true}); err != nil || got != `{"a":"written"}` {
		t.Errorf("unconfined: %s, %v", got, err)
	}
}

// inProject sets the folders of a job.
func inProject(t *testing.T) func(*step.Job) {
	return func(j *step.Job) {
		with("a")(j)
		j.Project = t.TempDir()
		j.Dir = filepath.Join(t.TempDir(), "runs", "r1")
	}
}

func TestMain(m *testing.M) {
	process.Confine(os.Args)
	os.Exit(m.Run())
}

// The same code with the same replies gives the same state and the same output in the built-in
// interpreter and in python3, also in a sandbox.
func TestNodesDoWhatCPythonDoes(t *testing.T) {
	needsPython(t)
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can confine commands")
	}
	for name, body := range map[string]string{
		"nested comprehension": `
    grid = [[x * y for x in range(3) if x] for y in range(1, 3)]
    r = AgentRunner.run('plain', {'grid': grid, 'by': {str(k): [v for v in row] for k, row in enumerate(grid)}})
    print(grid, sum(sum(row) for row in grid), r.success, r.error)
    return {'list': [f"{a}-{b}" for a, b in [(x, y) for x in r.output['rules_applied'] for y in 'ab']], 'n': float(len(grid))}
`,
		"format specifications": `
    r = AgentRunner.run('plain', {'share': f"{0.256:.1%}", 'count': f"{1234567:,}"})
    n = r.output['analysis_data']['n']
    print(f"{n:>8.2f}|{n:e}|{r.agent_name!r:^12}|{state['a']:*<14}|{n=}|{len(r.output):03d}")
    return {'a': f"{n:08.3f} {r.output['meta_insight']:>4}", 'n': round(n / 3, 4)}
`,
		"a second call that fails": `
    first = AgentRunner.run('plain', {'x': 1})
    second = AgentRunner.run('handy', {'so_far': first.output['rules_applied']})
    print(first.success, second.success, second.error, second.output)
    try:
        note = second.output['meta_insight']
    except KeyError as e:
        note = f"missing {e}"
    if not second.success:
        return {'a': note, 'n': first.output['analysis_data']['n'], 'list': [f"handy failed: {second.error}"]}
    return {'a': 'no'}
`,
		"a call that raises, and is caught": `
    out = []
    for key in ('plain', 'nobody', 5, None):
        try:
            r = AgentRunner.run(key, {'keys': sorted(state.keys()), 'é': '日本', 'n': 1.0})
            out.append(f"{key}: {r.output.get('meta_insight', 'nothing')}")
            if not r.success:
                raise ValueError(r.error)
        except (ValueError, TypeError) as e:
            out.append(f'caught {e}')
        finally:
            out.append('next')
    print(*out, sep='; ')
    return {'list': out}
`,
		"names of arguments, and a pipeline": `
    r = AgentRunner.run(name='plain', workload={'z': 1, 'a': 2})
    p = Pipeline(name='P').add(agent_name='handy', workload=dict(z=1, a=2)).add('plain', depends_on=('handy',), transform=lambda o: print(o))
    print(r.success, p.describe(), [(s.agent_name, s.error) for s in p.run().steps])
    for bad in (lambda: p.add('plain', depends_on='handy'), lambda: AgentRunner.run(workload={}), lambda: p.add(workload={})):
        try:
            bad()
        except TypeError as e:
            print(e)
    return {'a': next((x for x in (r.output['meta_insight'], print('never')) if x), None)}
`,
		"no more calls than needed": `
    r = next(r for r in (AgentRunner.run(k, {}) for k in ('plain', 'handy')) if r.success)
    print(r.agent_name, state.keys())
    return {'a': r.agent_name}
`,
	} {
		t.Run(name, func(t *testing.T) {
			run := func(python bool) (string, string) {
				log, world := &steptest.Log{}, &steptest.World{Replies: []steptest.Reply{
					{Text: reply},
					{Fail: errors.New("broken")},
				}}
				result, err := steptest.Play{
					Settings: function(body[1:], settings{"python": python}),
					With:     inProject(t),
				}.Done(t, node.Runner{}, log, world)
				if err != nil {
					t.Fatal(err)
				}
				var printed, asked string
				for _, n := range result.Notes {
					if n.Kind == node.NotePrinted {
						printed += string(step.JSON(n.Data))
					}
				}
				for _, r := range world.Requests {
					asked += string(step.JSON(r.Messages))
				}
				return string(result.Value) + "\n" + printed, asked
			}
			ours, weAsked := run(false)
			theirs, theyAsked := run(true)
			if ours != theirs {
				t.Errorf("ours:\n%s\nCPython:\n%s", ours, theirs)
			}
			if weAsked != theyAsked {
				t.Errorf("agents are asked differently:\n%s\n%s", weAsked, theyAsked)
			}
			if !strings.Contains(ours, "text") {
				t.Error("nothing was printed")
			}
		})
	}
}
