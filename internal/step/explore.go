package step

import (
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Explore completes a contract with what a simulation has to know about the
// other steps of the workflow.
func (j *Job) Explore(c *contract.Contract) {
	if len(c.Probes) == 0 || j.Kinds == nil {
		return
	}
	c.Stride = contract.Stride(j.Workflow, j.Step, func(s *ir.Step) (contract.Contract, bool) {
		if s.ID == j.Step.ID {
			return *c, true
		}
		task := s.Task()
		if task == nil {
			return contract.Contract{}, false
		}
		asker, ok := j.Kinds(task.Kind).(stepkind.Asker)
		if !ok {
			return contract.Contract{}, false
		}
		return asker.Contract(j.Workflow, s, task)
	})
}
