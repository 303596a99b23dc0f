package irtest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Sound returns an error if a program is not valid: names must be unique, targets, blocks and children must exist,
// every task must have a kind that accepts it, and so on. Formats report such mistakes to authors as diagnostics, so a
// program that compiles without errors is sound.
func Sound(p *ir.Program, kinds stepkind.Set) error {
	if len(p.Blocks) == 0 {
		return errors.New("the program has no blocks")
	}
	s := &soundness{p: p, kinds: kinds, owner: make([]string, len(p.Blocks))}
	s.owner[ir.Body] = "the program"
	s.nest()
	for b := range p.Blocks {
		s.block(ir.BlockID(b))
	}
	s.want(p.OnCancel == "" || p.Step(ir.Body, p.OnCancel) != nil, "a cancelled run ends with %q, which is not there",
		p.OnCancel)
	for b, owner := range s.owner {
		s.want(owner != "", "block %d belongs to no step", b)
	}
	agents := map[string]bool{}
	for i := range p.Agents {
		s.want(!agents[p.Agents[i].ID], "two agents are called %q", p.Agents[i].ID)
		agents[p.Agents[i].ID] = true
	}
	for i := range p.Children {
		if err := Sound(&p.Children[i], kinds); err != nil {
			s.problems = append(s.problems, fmt.Errorf("child %d: %w", i, err))
		}
	}
	return errors.Join(s.problems...)
}

type soundness struct {
	p        *ir.Program
	kinds    stepkind.Set
	owner    []string                  // by block: the step that runs it
	around   map[ir.BlockID]ir.BlockID // by body of a loop: the block of the loop
	problems []error
}

func (s *soundness) want(ok bool, format string, args ...any) {
	if !ok {
		s.problems = append(s.problems, fmt.Errorf(format, args...))
	}
}

// nest finds the bodies of loops. Their steps may jump to steps outside the loop.
func (s *soundness) nest() {
	s.around = map[ir.BlockID]ir.BlockID{}
	for b := range s.p.Blocks {
		for _, at := range s.p.Blocks[b].Steps {
			if loop, ok := at.Action.(ir.Loop); ok {
				s.around[loop.Block] = ir.BlockID(b)
			}
		}
	}
}

// visible reports whether a step in b can jump to a step.
func (s *soundness) visible(b ir.BlockID, id string) bool {
	for range s.p.Blocks {
		if s.p.Step(b, id) != nil {
			return true
		}
		around, ok := s.around[b]
		if !ok {
			return false
		}
		b = around
	}
	return false
}

func (s *soundness) block(b ir.BlockID) {
	block := &s.p.Blocks[b]
	s.want(len(block.Steps) > 0, "block %d has no steps", b)
	ids := map[string]bool{}
	for i := range block.Steps {
		at := &block.Steps[i]
		s.want(at.ID != "", "step %d of block %d has no name", i, b)
		s.want(!ids[at.ID], "two steps of block %d are called %q", b, at.ID)
		ids[at.ID] = true
		s.edges(b, at)
		s.action(at)
		if t := at.Task(); t != nil {
			if kind, ok := s.kinds[t.Kind]; !ok {
				s.want(false, "step %q: there is no kind of work %q", at.ID, t.Kind)
			} else if err := errors.Join(kind.Understands(t), Described(t)); err != nil {
				s.problems = append(s.problems, fmt.Errorf("step %q: %w", at.ID, err))
			}
		}
		for j := range at.Writes {
			root, _, _ := strings.Cut(at.Writes[j].Path, ".")
			s.want(root != "input" && root != "workflow", "step %q writes %q, which can only be read", at.ID,
				at.Writes[j].Path)
		}
	}
}

func (s *soundness) edges(b ir.BlockID, at *ir.Step) {
	for i := range at.Next {
		to := at.Next[i].To
		s.want((to.Step == "") != (to.Exit == ""), "step %q: edge %d leads to a step and an exit, or to nothing", at.ID,
			i)
		s.want(len(at.Next[i].On) > 0, "step %q: edge %d is for no outcome", at.ID, i)
		if to.Step != "" {
			s.want(s.visible(b, to.Step), "step %q continues with %q, which does not exist", at.ID, to.Step)
		}
	}
	if at.Fallback != nil {
		s.want(s.p.Step(b, at.Fallback.Name) != nil, "step %q falls back to %q, which is not there", at.ID,
			at.Fallback.Name)
		s.want(at.Fallback.Name != at.ID, "step %q falls back to itself", at.ID)
	}
}

func (s *soundness) action(at *ir.Step) {
	switch a := at.Action.(type) {
	case ir.Task, ir.Route, ir.End:
	case ir.Gate:
		s.want(a.Decider != ir.Event || a.Event != "", "step %q waits for an event without a name", at.ID)
		s.want((a.Decider == ir.Work) == (a.Verdict != nil), "step %q: a verdict and who decides do not fit together",
			at.ID)
		s.want(a.Timeout >= 0, "step %q has a timeout below zero", at.ID)
		s.want(a.OnTimeout != ir.TimeoutFallback || at.Fallback != nil, "step %q falls back in time, to nothing", at.ID)
	case ir.Parallel:
		s.want((len(a.Branches) > 0) != (a.Each != nil), "step %q fans out to no branches, or in two ways", at.ID)
		names := map[string]bool{}
		for i := range a.Branches {
			s.want(!names[a.Branches[i].Name], "step %q has two branches %q", at.ID, a.Branches[i].Name)
			names[a.Branches[i].Name] = true
			s.own(a.Branches[i].Block, at)
		}
		if a.Each != nil {
			s.want(a.Each.Items != nil && a.Each.Var != "", "step %q fans out over nothing", at.ID)
			s.own(a.Each.Block, at)
		}
	case ir.Loop:
		s.own(a.Block, at)
		s.want(a.Max >= 0, "step %q repeats fewer than no times", at.ID)
	case ir.Call:
		s.want(a.Child >= 0 && a.Child < len(s.p.Children), "step %q calls child %d, which is not there", at.ID,
			a.Child)
	default:
		s.want(false, "step %q has no action", at.ID)
	}
	if at.TimeoutExpr != nil {
		s.want(at.Timeout == 0, "step %q has two timeouts", at.ID)
		switch at.Action.(type) {
		case ir.Parallel, ir.Loop, ir.Call: // their tasks have only literal settings
			s.want(at.Task() == nil, "step %q computes a timeout, which its task does not see", at.ID)
		default:
			s.want(false, "step %q computes a timeout and holds no others", at.ID)
		}
	}
}

// own records that a step runs a block.
func (s *soundness) own(b ir.BlockID, at *ir.Step) {
	if b <= ir.Body || int(b) >= len(s.p.Blocks) {
		s.want(false, "step %q runs block %d, which is not there for it", at.ID, b)
		return
	}
	s.want(s.owner[b] == "", "step %q runs block %d, which %s runs already", at.ID, b, s.owner[b])
	s.owner[b] = fmt.Sprintf("step %q", at.ID)
}
