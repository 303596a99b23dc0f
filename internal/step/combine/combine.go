package combine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
)

// Settings is what a task of this kind says.
type Settings struct {
	Strategy       string   `json:"strategy"`
	DedupeKey      []string `json:"dedupe_key,omitempty"`
	Conflict       string   `json:"conflict,omitempty"` // empty means Fail
	Critic         string   `json:"critic,omitempty"`   // ID of an agent
	RequiredFields []string `json:"required_fields,omitempty"`
	Format         string   `json:"format,omitempty"`
}

// The strategies.
const (
	ByType = "combine_by_type"
	Union  = "union"
	Vote   = "vote"
	Critic = "send_to_critic" // also a way to settle conflicts
)

// The other ways to settle conflicts.
const (
	FirstWins = "first_wins"
	LastWins  = "last_wins"
	Fail      = "fail"
)

// Strategies are the ways to merge.
func Strategies() []string { return []string{ByType, Union, Vote, Critic} }

// Conflicts are the ways to settle a conflict.
func Conflicts() []string { return []string{FirstWins, LastWins, Critic, Fail} }

// Kind is the step kind "combine".
type Kind struct{}

var _ step.Kind = Kind{}

// Name is "combine".
func (Kind) Name() string { return "combine" }

// Check wants a strategy and a conflict rule that exist, and somebody to be
// the critic when one is asked for.
func (Kind) Check(p *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set, list := step.Decode[Settings](s, t)
	if list.Errors() {
		return list
	}
	if !slices.Contains(Strategies(), set.Strategy) {
		list.Add(diag.Diagnostic{
			Code: step.CodeStrategy, Severity: diag.Error, Span: step.At(s, t, "strategy"),
			Message: fmt.Sprintf("There is no merge strategy %q.", set.Strategy),
			Help:    diag.DidYouMean(set.Strategy, Strategies()),
		})
	}
	if set.Conflict != "" && !slices.Contains(Conflicts(), set.Conflict) {
		list.Add(diag.Diagnostic{
			Code: step.CodeConflict, Severity: diag.Error, Span: step.At(s, t, "conflict"),
			Message: fmt.Sprintf("There is no way to settle conflicts called %q.", set.Conflict),
			Help:    diag.DidYouMean(set.Conflict, Conflicts()),
		})
	}
	if asksCritic(set) && set.Critic == "" {
		at := "conflict"
		if set.Conflict != Critic {
			at = "strategy"
		}
		list.Add(diag.Diagnostic{
			Code: step.CodeNoCritic, Severity: diag.Error, Span: step.At(s, t, at),
			Message: fmt.Sprintf("Conflicts in step %q go to a critic, but no agent is the critic.", s.ID),
			Help:    "Name one with \"critic: AGENT\" in the merge, or call an agent \"critic\".",
		})
	}
	if n := voters(s); set.Strategy == Vote && n > 0 && n%2 == 0 {
		list.Add(diag.Diagnostic{
			Code: step.CodeEvenVoters, Severity: diag.Warning, Span: step.At(s, t, "strategy"),
			Message: fmt.Sprintf("%d workers vote in step %q, so a vote can end in a tie.", n, s.ID),
			Help:    fmt.Sprintf("Let an odd number of workers vote; a tie is settled as a conflict (%s).", cmp.Or(set.Conflict, Fail)),
		})
	}
	return list
}

func asksCritic(set Settings) bool { return set.Strategy == Critic || set.Conflict == Critic }

func voters(s *ir.Step) int {
	if par, ok := s.Action.(ir.Parallel); ok {
		return len(par.Branches)
	}
	return 0
}

// Uses names the critic.
func (Kind) Uses(t *ir.Task) step.Uses {
	if name, ok := step.NameOf(t, "critic"); ok {
		return step.Uses{Agents: []ir.Name{name}}
	}
	return step.Uses{}
}

// Bound is nothing when nobody disagrees. At worst the critic sees every
// branch's result in one call, with repairs, because its reply must have the
// form of a result.
func (Kind) Bound(p *ir.Program, s *ir.Step, t *ir.Task) step.Bound {
	set, _ := step.Decode[Settings](s, t)
	if !asksCritic(set) {
		return step.Bound{}
	}
	bound := step.Talk{
		Known:   step.TextTokens(set.Format),
		Reads:   step.ResultTokens(p, s.Action),
		Turns:   1,
		Repairs: step.RepairCalls,
	}.Bound(p.Agent(set.Critic))
	bound.Base, bound.Reserve = step.Cost{}, 0 // nobody may disagree
	return bound
}
