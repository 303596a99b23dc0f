package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
)

// AnyRole is the role that allows a person to decide every gate.
const AnyRole = "*"

// Approvers are the people who may decide an open gate, and those who have approved what it shows now.
type Approvers struct {
	Roles       []string // empty: anyone who may decide gates
	Required    int
	FourEyes    bool   // the person who started the run may not decide
	Starter     string // with FourEyes: that person
	Approvals   []Approval
	Escalates   journal.Millis // when people with a role in EscalatesTo may decide, too; zero for never
	EscalatesTo []string
	Escalated   bool // they may decide now, and Roles includes theirs
}

// Approvers returns who may decide the open gate of a frame; nil if the gate names no approvers. Approvals of earlier
// content of the gate do not count.
func (s *State) Approvers(p *Program, f *Frame) *Approvers {
	if f.Gate.Kind != journal.GatePerson {
		return nil
	}
	g, _ := s.StepOf(p, f).Action.(ir.Gate)
	if g.Approvers == nil {
		return nil
	}
	a := &Approvers{
		Roles: g.Approvers.Allowed(f.Gate.Escalated), Required: g.Approvers.Required(), FourEyes: g.Approvers.FourEyes,
		Escalates: f.Gate.Escalates, EscalatesTo: g.Approvers.EscalateTo, Escalated: f.Gate.Escalated,
	}
	if a.FourEyes {
		a.Starter = s.By.Person()
	}
	if len(f.Gate.Approvals) > 0 {
		_, digest := s.Shown(p, f)
		a.Approvals = slices.DeleteFunc(slices.Clone(f.Gate.Approvals),
			func(one Approval) bool { return one.Digest != digest })
	}
	return a
}

// Missing returns how many approvals are missing.
func (a *Approvers) Missing() int { return max(0, a.Required-len(a.Approvals)) }

// Check returns the refusal of a decision about a step by someone who is not an approver, or who has approved already.
// Without a server, people and their roles are claims: only those of an authenticated person are checked.
func (a *Approvers) Check(step string, by journal.Actor, roles []string) error {
	if a == nil {
		return nil
	}
	who := by.Person()
	switch {
	case by.Method != "" && !a.include(roles):
		return refusal(NotAllowed, "%s may not decide step %q: it needs a person with the role %s", who, step,
			cmp.Or(strings.Join(a.Roles, " or "), "approver"))
	case a.FourEyes && who == a.Starter:
		return refusal(NotAllowed, "%s has started the run: another person must decide step %q", who, step)
	case slices.ContainsFunc(a.Approvals, func(one Approval) bool { return one.By.Person() == who }):
		return refusal(Voted, "%s has approved step %q already; it needs another person", who, step)
	}
	return nil
}

// include reports whether a person with these approver roles is one of the approvers.
func (a *Approvers) include(roles []string) bool {
	return len(a.Roles) == 0 && len(roles) > 0 || slices.ContainsFunc(roles, func(role string) bool {
		return role == AnyRole || slices.Contains(a.Roles, role)
	})
}
