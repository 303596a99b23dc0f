package step

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
)

// Refusal says why a tool must not be called, "" when it may be: an agent has
// the tools that it lists, all others are for steps that name them; the
// workflow's own lists hold for both, and branches of a parallel step may use
// tools only when the workflow says so (F26). a is nil outside of agents.
func Refusal(p *ir.Program, s *ir.Step, a *ir.Agent, tool string) string {
	is := func(n ir.Name) bool { return n.Name == tool }
	switch {
	case a != nil && !slices.ContainsFunc(a.Tools, is):
		return fmt.Sprintf("agent %q has no tool %q", a.ID, tool)
	case slices.ContainsFunc(p.Tools.Deny, is):
		return fmt.Sprintf("the workflow's denylist has the tool %q", tool)
	case !p.Tools.AllowAll && !slices.ContainsFunc(p.Tools.Allow, is):
		return fmt.Sprintf("the workflow's allowlist does not have the tool %q", tool)
	case a != nil && !p.Tools.WorkersMayUse && inBranch(p, s):
		return fmt.Sprintf("workers may not call tools in this workflow, so not %q either", tool)
	}
	return ""
}

// inBranch tells whether a step belongs to a branch of a parallel step, also
// inside a loop there.
func inBranch(p *ir.Program, s *ir.Step) bool {
	holds := make([]bool, len(p.Blocks)) // blocks that are being looked at
	var within func(b ir.BlockID, branch bool) bool
	within = func(b ir.BlockID, branch bool) bool {
		if b < 0 || int(b) >= len(p.Blocks) || holds[b] {
			return false
		}
		holds[b] = true
		for i := range p.Blocks[b].Steps {
			one := &p.Blocks[b].Steps[i]
			if one == s && branch {
				return true
			}
			switch a := one.Action.(type) {
			case ir.Parallel:
				for _, inner := range a.Branches {
					if within(inner.Block, true) {
						return true
					}
				}
				if a.Each != nil && within(a.Each.Block, true) {
					return true
				}
			case ir.Loop:
				if within(a.Block, branch) {
					return true
				}
			}
		}
		return false
	}
	return within(ir.Body, false)
}

// Parts are the keys that a step's result must have, because the step writes
// them to different places (F8).
func Parts(s *ir.Step) []string {
	var out []string
	for _, w := range s.Writes {
		if w.Part != "" && !slices.Contains(out, w.Part) {
			out = append(out, w.Part)
		}
	}
	return out
}

// Promised is the schema of the program's output when this step alone writes
// all of it: then its result must fit, and whoever makes it had better know.
func Promised(p *ir.Program, s *ir.Step) json.RawMessage {
	if p.Output == nil || len(s.Writes) != 1 || s.Writes[0].Path != wholeOutput {
		return nil
	}
	writers := 0
	for b := range p.Blocks {
		for i := range p.Blocks[b].Steps {
			for _, w := range p.Blocks[b].Steps[i].Writes {
				if w.Path == wholeOutput || strings.HasPrefix(w.Path, wholeOutput+".") {
					writers++
				}
			}
		}
	}
	if writers != 1 {
		return nil
	}
	return p.Output.Schema
}

// PromisedUnder is the key of the output that a result which is plain text
// goes to, when the step's result must fit the output's schema.
func PromisedUnder(s *ir.Step) string {
	if len(s.Writes) != 1 {
		return ""
	}
	return s.Writes[0].Under
}

// wholeOutput is the variable that a program's result is read from.
const wholeOutput = "output"
