package combine

import (
	"cmp"
	"fmt"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Settings are the settings of a task of kind "combine".
type Settings struct {
	Strategy       string   `json:"strategy"`
	DedupeKey      []string `json:"dedupe_key,omitempty"`
	Conflict       string   `json:"conflict,omitempty"` // empty means Fail
	Critic         string   `json:"critic,omitempty"`   // ID of an agent
	RequiredFields []string `json:"required_fields,omitempty"`
	Format         string   `json:"format,omitempty"`
}

// Strategies of merging.
const (
	ByType = "combine_by_type"
	Union  = "union"
	Vote   = "vote"
	Critic = "send_to_critic" // also a rule for conflicts
)

// Further rules for conflicts.
const (
	FirstWins = "first_wins"
	LastWins  = "last_wins"
	Fail      = "fail"
)

// Kind is the step kind "combine".
type Kind struct{ step.Base[Settings] }

var (
	_ stepkind.Asker = Kind{}
	_ step.Instant   = Kind{}
)

// Name returns "combine".
func (Kind) Name() string { return "combine" }

// Instant reports whether the task asks no critic.
func (Kind) Instant(t *ir.Task) bool { return !asksCritic(stepkind.Lenient[Settings](t)) }

// Check reports conflicts that go to a critic that is not named, and votes that can end in a tie.
func (Kind) Check(_ *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set := stepkind.Lenient[Settings](t)
	var list diag.List
	if asksCritic(set) && set.Critic == "" {
		at := "conflict"
		if set.Conflict != Critic {
			at = "strategy"
		}
		list.Errorf(stepkind.CodeNoCritic, stepkind.At(s, t, at),
			"Name one with \"critic: AGENT\" in the merge, or call an agent \"critic\".",
			"Conflicts in step %q go to a critic, but no agent is the critic.", s.ID)
	}
	if n := voters(s); set.Strategy == Vote && n > 0 && n%2 == 0 {
		severity := diag.Note // the author has set a rule for ties
		if cmp.Or(set.Conflict, Fail) == Fail {
			severity = diag.Warning
		}
		list.Reportf(stepkind.CodeEvenVoters, severity, stepkind.At(s, t, "strategy"),
			fmt.Sprintf("Let an odd number of workers vote; a tie is settled as a conflict (%s).",
				cmp.Or(set.Conflict, Fail)), "%d workers vote in step %q, so a vote can end in a tie.", n, s.ID)
	}
	return list
}

func asksCritic(set Settings) bool { return set.Strategy == Critic || set.Conflict == Critic }

// mayAskCritic reports whether a merge can have conflicts that go to a critic. A union and a combination by type have
// none without a dedupe key.
func (s Settings) mayAskCritic() bool {
	keepsAll := (s.Strategy == Union || s.Strategy == ByType) && len(s.DedupeKey) == 0
	return asksCritic(s) && !keepsAll
}

func voters(s *ir.Step) int {
	if par, ok := s.Action.(ir.Parallel); ok {
		return len(par.Branches)
	}
	return 0
}

// Uses names the critic.
func (Kind) Uses(t *ir.Task) stepkind.Uses { return stepkind.Uses{Agents: stepkind.Named(t, "critic")} }

// Contract returns the schema of the critic's ballot, for one conflict of two claims: the actual numbers are known only
// after the workers.
func (Kind) Contract(p *ir.Program, s *ir.Step, t *ir.Task) (contract.Contract, bool) {
	return replies(p, s, 2), stepkind.Lenient[Settings](t).mayAskCritic()
}

func replies(p *ir.Program, s *ir.Step, claims ...int) contract.Contract {
	ballots := *s
	ballots.Writes = nil // the step's writes are derived from the choices
	return contract.Of(p, &ballots, contract.Spec{Schema: ballot(claims...), From: "the conflicts between the workers"})
}

// Bound returns no cost if the workers agree. In the worst case the critic sees the results of all branches in one
// call, with repairs, because its reply must have the form of a result.
func (Kind) Bound(p *ir.Program, s *ir.Step, t *ir.Task, _ *contract.Contract) stepkind.Bound {
	set := stepkind.Lenient[Settings](t)
	if !set.mayAskCritic() {
		return stepkind.Bound{}
	}
	bound := stepkind.ModelCallBound{
		Known:    stepkind.TextTokens(set.Format),
		Reads:    stepkind.ResultTokens(p, s.Action),
		MaxTurns: 1, // the critic has no tools here, whatever its agent allows
		Repairs:  stepkind.RepairCalls,
	}.Bound(p.Agent(set.Critic))
	bound.Base, bound.Reserve = stepkind.Cost{}, 0 // the workers may agree
	return bound
}
