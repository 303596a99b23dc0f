package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// An approval is for what its gate showed. While it counts, a person cannot change any of that: the run has to go back
// to the gate, which opens again. What steps write is not restricted; the approver knows the workflow.

// checkEdit returns why an edit is refused. Edits are refused while a task runs, because the task has already read its
// values.
func (s *State) checkEdit(p *Program, x *Edit) error {
	if s.Open > 0 && p.unit("").ir.MayIntervene {
		return s.busy()
	}
	if err := p.CheckEdit(x); err != nil {
		return err
	}
	return checkApproved(s.Approved, x)
}

// CheckEdit returns an error if a run that continues from a checkpoint does not accept an edit.
func (c *Checkpoint) CheckEdit(p *Program, x *Edit) error {
	if err := p.CheckEdit(x); err != nil {
		return err
	}
	return checkApproved(c.Approved, x)
}

// CheckEdit returns an error if no run of the program accepts an edit.
func (p *Program) CheckEdit(x *Edit) error {
	program := p.unit("").ir
	// Edits that are refused in every state of a run.
	switch {
	case !program.MayIntervene:
		return refusal(NotAllowed,
			"this workflow does not allow changes to its state while it runs: human_in_the_loop is not set")
	case x.Path == "input" || strings.HasPrefix(x.Path, "input."):
		return refusal(NotAllowed, "the input of a run cannot be changed")
	case program.Owns(x.Path):
		return refusal(NotAllowed, "%q cannot be changed: Espalier sets it for each run", x.Path)
	case x.Path == "":
		return refusal(Unknown, "an edit needs the name of a variable")
	case !json.Valid(x.Value):
		return refusal(Unknown, "the new value is not JSON")
	}
	// The variables of the workflow, except the records of decisions, which must not be changed.
	known := variables(program)
	records := decisions(program)
	isKnown := slices.ContainsFunc(known, func(path string) bool { return ir.Overlap(path, x.Path) })
	for _, path := range slices.Sorted(maps.Keys(records)) {
		if ir.Overlap(path, x.Path) {
			return refusal(NotAllowed, "%s records the decision of step %q and cannot be edited", path, records[path])
		}
		known = slices.DeleteFunc(known, func(one string) bool { return ir.Overlap(path, one) })
	}
	if !isKnown {
		why := fmt.Sprintf("no step of this workflow reads or writes %q", x.Path)
		if help := suggest(x.Path, known); help != "" {
			why += ": " + help
		}
		return refusal(Unknown, "%s", why)
	}
	if p.CheckVariable != nil {
		if err := p.CheckVariable(program, x.Path, x.Value); err != nil {
			return refusal(Unknown, "%v", err)
		}
	}
	return nil
}

// decisions returns the variables that record the decisions of people, with the steps of their gates.
func decisions(p *ir.Program) map[string]string {
	out := map[string]string{}
	for step := range p.Steps() {
		if gate, ok := step.Action.(ir.Gate); ok && gate.Decider == ir.Person {
			for _, w := range step.Writes {
				out[w.Path] = step.ID
			}
		}
	}
	return out
}

// suggest returns the help for the path of a variable that is not known. A missing namespace is the usual mistake.
func suggest(path string, known []string) string {
	for _, one := range known {
		if _, name, ok := strings.Cut(one, "."); ok && name == path {
			return fmt.Sprintf("did you mean %q?", one)
		}
	}
	if near := diag.Nearest(path, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if list := diag.Enumerate(known); list != "" {
		return "it has " + list
	}
	return ""
}

// checkApproved refuses an edit of something that an approval is for.
func checkApproved(approved []journal.Approved, x *Edit) error {
	for _, one := range approved {
		for _, shown := range one.Shown {
			if !ir.Overlap(shown, x.Path) {
				continue
			}
			r := refusal(
				Approved, "the approval of %q is for %s, which cannot be changed after it: go back to step %q",
				one.Gate, shown, one.Back,
			)
			r.Step = one.Back
			return r
		}
	}
	return nil
}

// variables returns the paths of the variables that a program declares or its steps read or write, sorted. The input
// and the variables of loops are not included.
func variables(p *ir.Program) []string {
	var out []string
	add := func(path string) {
		switch root, _, _ := strings.Cut(path, "."); root {
		case "", "input", "workflow", "run", "last", "loop":
		default:
			out = append(out, path)
		}
	}
	for i := range p.Vars {
		add(p.Vars[i].Path)
	}
	for s := range p.Steps() {
		for _, r := range slices.Concat(s.Reads, s.Mentions) {
			add(r.Path)
		}
		for _, w := range s.Writes {
			add(w.Path)
		}
		for e := range s.Expressions {
			for _, path := range e.Paths() {
				add(strings.Join(path.Segments, "."))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// keepApproval keeps what the open gate of a frame shows as approved. Variables of a child run cannot be edited.
func (s *State) keepApproval(f *Frame) {
	if f.Gate.Kind != journal.GatePerson || s.RunOf(f) != "" {
		return
	}
	shown := slices.DeleteFunc(slices.Clone(f.Gate.Paths), func(path string) bool { return ir.Overlap(path, "input") })
	if len(shown) > 0 {
		s.Approved = append(s.Approved, journal.Approved{
			Gate: f.Step, At: s.gatePlace(f), Back: s.Root().Step, Shown: shown,
		})
	}
}

// forgetApproval forgets an earlier approval of the gate that a frame opens.
func (s *State) forgetApproval(f *Frame) {
	if len(s.Approved) == 0 {
		return
	}
	place := s.gatePlace(f)
	s.Approved = slices.DeleteFunc(s.Approved, func(one journal.Approved) bool { return one.At == place })
}

// gatePlace returns the place of a frame's step without iterations and visits. Parallel branches stay apart.
func (s *State) gatePlace(f *Frame) string {
	place := journal.KeySegment(f.Step)
	for f.Path != "" {
		parent := s.frame(f.Parent)
		branch := ""
		if parent.Group.Mode == ModeParallel {
			branch = journal.KeySegment(f.Name)
		}
		place = journal.KeySegment(parent.Step) + "/" + branch + "/" + place
		f = parent
	}
	return place
}
