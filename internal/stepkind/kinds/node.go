package kinds

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/expr"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// NodeSettings are the settings of a task of kind "node".
type NodeSettings struct {
	// Function is the name of the function to run. If it is empty, all of the code runs, and its output is the
	// result.
	Function string      `json:"function,omitempty"`
	Code     []NodeBlock `json:"code"`
	File     string      `json:"file,omitempty"` // for messages
	// Fields maps the fields of the state to their types. Reducers maps fields to how changes are merged;
	// fields without a reducer are replaced.
	Fields   map[string]string `json:"fields,omitempty"`
	Reducers map[string]string `json:"reducers,omitempty"`
	// Delta makes the returned fields the result. Otherwise fields that the function did not return keep their
	// values.
	Delta  bool                 `json:"delta,omitempty"`
	Agents map[string]NodeAgent `json:"agents,omitempty"`
	// Track lists further values in the result: pass.cost_so_far, pass.cycle, pass.delegates, agents.KEY.
	Track []string `json:"track,omitempty"`
	// Delegates are the agents that the function's agent may delegate to.
	Delegates []string `json:"delegates,omitempty"`
	Python    bool     `json:"python,omitempty"` // run by python3
	// Unconfined runs python3 without a sandbox. The user has asked for it.
	Unconfined bool `json:"unconfined,omitempty"`
	SDK        bool `json:"sdk,omitempty"` // pipelines as the public SDK runs them
	// Seconds is how long the code can compute; 0 means the default.
	Seconds float64 `json:"seconds,omitempty"`
}

// NodeBlock is code, and the line of the file at which it starts.
type NodeBlock struct {
	Code string `json:"code"`
	Line int    `json:"line"`
}

// NodeAgent describes an agent that the code may call.
type NodeAgent struct {
	MicroDollars int64    `json:"micro_dollars,omitempty"` // of one call, by the price list
	Command      []string `json:"command,omitempty"`
	// Calls is how often the code can call the agent. 0 means once, and a negative number that there is no bound.
	Calls int64 `json:"calls,omitempty"`
	// Output is what the code reads from the agent's output.
	Output []stepkind.OutputField `json:"output,omitempty"`
}

// NodeDelegates is the variable with the choice of an orchestrator.
const NodeDelegates = "pass.delegates"

// Node is the step kind "node".
type Node struct{ stepkind.Base[NodeSettings] }

var (
	_ stepkind.Asker           = Node{}
	_ stepkind.FailureReporter = Node{}
)

// Contract returns the contract of the step's agent, or of the only agent that the code calls.
func (Node) Contract(p *ir.Program, s *ir.Step, t *ir.Task) (contract.Contract, bool) {
	set := stepkind.Lenient[NodeSettings](t)
	key := s.ID
	if _, own := set.Agents[key]; !own && len(set.Agents) == 1 {
		for key = range set.Agents {
		}
	}
	agent, ok := set.Agents[key]
	if !ok || len(agent.Command) > 0 {
		return contract.Contract{}, false
	}
	within := *s
	spec, writes := stepkind.OutputSpec(key, set.output(key))
	within.Writes = writes
	return contract.Derive(p, &within, spec), true
}

// ReportsFailure reports whether conditions look at fields that the code writes
// without the output of an agent, such as a list of errors.
func (Node) ReportsFailure(p *ir.Program, s *ir.Step, t *ir.Task) bool {
	set := stepkind.Lenient[NodeSettings](t)
	own := func(path string) bool {
		if !strings.HasPrefix(path, "state.") {
			return false
		}
		for key := range set.Agents {
			if slices.ContainsFunc(set.output(key),
				func(f stepkind.OutputField) bool { return ir.Overlap(f.Var, path) }) {
				return false
			}
		}
		return slices.ContainsFunc(s.Writes, func(w ir.Write) bool { return ir.Overlap(w.Path, path) })
	}
	looks := func(e *expr.Expr) bool {
		return slices.ContainsFunc(e.Paths(),
			func(path expr.Path) bool { return own(strings.Join(path.Segments, ".")) })
	}
	return slices.ContainsFunc(p.Blocks, func(b ir.Block) bool {
		return slices.ContainsFunc(b.Steps, func(one ir.Step) bool {
			return looks(one.When) || slices.ContainsFunc(one.Next, func(e ir.Edge) bool { return looks(e.When) })
		})
	})
}

// output returns what is read from the output of an agent: by the code, and the choice of an orchestrator.
func (s NodeSettings) output(key string) []stepkind.OutputField {
	out := s.Agents[key].Output
	if len(s.Delegates) > 0 {
		out = append(slices.Clone(out), stepkind.OutputField{
			Path: "analysis_data.delegates", Type: "array", Var: NodeDelegates,
		})
	}
	return out
}

// Name returns "node".
func (Node) Name() string { return "node" }

// Traits returns those of an agent that works, if the code calls one, and otherwise those of the code.
func (Node) Traits(_ *ir.Program, t *ir.Task) ir.Traits {
	traits := ir.Traits{Nature: ir.Computes}
	for _, agent := range stepkind.Lenient[NodeSettings](t).Agents {
		if len(agent.Command) == 0 {
			return ir.Traits{Nature: ir.Asks}
		}
		traits.Nature = ir.Acts
	}
	return traits
}

// Uses returns the agents that the code calls, and their commands.
func (Node) Uses(t *ir.Task) stepkind.Uses {
	var u stepkind.Uses
	at := t.Settings.At("agents")
	set := stepkind.Lenient[NodeSettings](t)
	for _, key := range slices.Sorted(maps.Keys(set.Agents)) {
		if key != "" && !at.IsZero() {
			u.Agents = append(u.Agents, ir.Name{Name: key, Span: at})
		}
		if command := set.Agents[key].Command; len(command) > 0 {
			u.Commands = append(u.Commands, stepkind.CommandUse{Text: strings.Join(command, " ")})
		}
	}
	if set.Python {
		u.Commands = append(u.Commands, stepkind.CommandUse{Text: "python3: the code of " + cmp.Or(set.Function,
			"the file"), Optional: true})
	}
	return u
}

// Bound returns the cost of one call of each agent that the code names and, at worst, of all calls that the
// code can make.
func (Node) Bound(p *ir.Program, s *ir.Step, t *ir.Task, _ *contract.Contract) stepkind.Bound {
	set := stepkind.Lenient[NodeSettings](t)
	var b stepkind.Bound
	for _, key := range slices.Sorted(maps.Keys(set.Agents)) {
		one := nodeAgentBound(p, s, key, set.Agents[key])
		most := stepkind.N(max(1, set.Agents[key].Calls))
		if set.Agents[key].Calls < 0 {
			most = stepkind.Amount{Unbounded: fmt.Sprintf("the code of step %q can call agent %q any number of times",
				s.ID, key)}
		}
		b.Base, b.Worst = sumCosts(b.Base, one.Base), sumCosts(b.Worst, scaleCost(one.Worst, most))
		b.Reserve = max(b.Reserve, one.Reserve)
		if b.Agent == "" || key == s.ID && one.Agent != "" { // a command asks no model
			b.Agent, b.Model = one.Agent, one.Model
		}
	}
	return b
}

func nodeAgentBound(p *ir.Program, s *ir.Step, key string, a NodeAgent) stepkind.Bound {
	if len(a.Command) > 0 {
		return stepkind.Bound{
			Base:  stepkind.Cost{Seconds: stepkind.N(stepkind.UsualScriptSeconds)},
			Worst: stepkind.Cost{Seconds: stepkind.N(stepkind.ScriptSeconds)},
		}
	}
	talk := stepkind.ModelCallBound{
		Known: stepkind.AssumedNoteTokens, Reads: stepkind.ReadTokens(p, s), Repairs: stepkind.RepairCalls,
	}
	return talk.Bound(p.Agent(key))
}

func sumCosts(a, b stepkind.Cost) stepkind.Cost {
	return stepkind.Cost{
		ModelCalls: a.ModelCalls.Plus(b.ModelCalls), ToolCalls: a.ToolCalls.Plus(b.ToolCalls),
		PromptTokens: a.PromptTokens.Plus(b.PromptTokens),
		ReplyTokens:  a.ReplyTokens.Plus(b.ReplyTokens), Seconds: a.Seconds.Plus(b.Seconds),
	}
}

func scaleCost(c stepkind.Cost, n stepkind.Amount) stepkind.Cost {
	return stepkind.Cost{
		ModelCalls: c.ModelCalls.By(n), ToolCalls: c.ToolCalls.By(n), PromptTokens: c.PromptTokens.By(n),
		ReplyTokens: c.ReplyTokens.By(n), Seconds: c.Seconds.By(n),
	}
}

// Worker returns the task of an agent that the code calls.
func (s NodeSettings) Worker(key string, at source.Span) ir.Task {
	task := ir.Task{Kind: Worker{}.Name()}
	task.Settings.Put("agent", key, at)
	task.Settings.PutSet("command", s.Agents[key].Command, at)
	task.Settings.PutSet("output", s.output(key), at)
	return task
}
