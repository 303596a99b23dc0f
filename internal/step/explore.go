package step

import (
	"sync"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Explore completes a contract with what a simulation has to know about the
// other steps of the workflow.
func (j *Job) Explore(c *contract.Contract) {
	if len(c.Probes) > 0 && j.Kinds != nil {
		c.Tries = j.exploration().Tries(j.Step)
	}
}

// SimulatesFailure reports whether a simulation with the given seed fails the
// work of the job: all attempts of the first visit.
func (j *Job) SimulatesFailure(seed uint64) bool {
	return seed > 0 && j.Visit == 0 && j.Iteration == 0 && j.Kinds != nil && j.exploration().Fails(j.Step, seed)
}

// explored is the last workflow that was simulated. The jobs of a run ask for the same one.
var explored struct {
	sync.Mutex
	workflow *ir.Program
	*contract.Exploration
}

// exploration returns what simulations of the workflow try, and computes it once for consecutive jobs of one run.
func (j *Job) exploration() *contract.Exploration {
	explored.Lock()
	defer explored.Unlock()
	if explored.workflow != j.Workflow {
		explored.workflow, explored.Exploration = j.Workflow, contract.Explore(j.Workflow, j.part)
	}
	return explored.Exploration
}

// part returns what a simulation can vary about a step of the workflow.
func (j *Job) part(s *ir.Step) contract.Part {
	task := s.Task()
	if task == nil {
		return contract.Part{}
	}
	kind := j.Kinds[task.Kind]
	if kind == nil {
		return contract.Part{}
	}
	uses := kind.Uses(task)
	out := contract.Part{Fails: len(uses.Agents)+len(uses.Tools)+len(uses.Commands) > 0}
	if explorer, ok := kind.(stepkind.Explorer); ok {
		out.Probes = explorer.Explored(j.Workflow, s, task).Probes
	} else if reply := stepkind.ContractOf(kind, j.Workflow, s, task); reply != nil {
		out.Probes, out.Within, out.Texts = reply.Probes, reply.Within, reply.Texts
	}
	if reporter, ok := kind.(stepkind.FailureReporter); ok {
		out.Reports = reporter.ReportsFailure(j.Workflow, s, task)
	}
	return out
}
