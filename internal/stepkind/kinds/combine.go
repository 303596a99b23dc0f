package kinds

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// CombineSettings are the settings of a task of kind "combine".
type CombineSettings struct {
	Strategy       string   `json:"strategy"`
	DedupeKey      []string `json:"dedupe_key,omitempty"`
	Conflict       string   `json:"conflict,omitempty"` // empty means FailOnConflict
	Critic         string   `json:"critic,omitempty"`   // ID of an agent
	RequiredFields []string `json:"required_fields,omitempty"`
	Format         string   `json:"format,omitempty"`
}

// Strategies of merging.
const (
	MergeByType = "combine_by_type"
	MergeUnion  = "union"
	MergeVote   = "vote"
	MergeCritic = "send_to_critic" // also a rule for conflicts
)

// Further rules for conflicts.
const (
	FirstWins      = "first_wins"
	LastWins       = "last_wins"
	FailOnConflict = "fail"
)

// Combine is the step kind "combine".
type Combine struct{ stepkind.Base[CombineSettings] }

var _ stepkind.Asker = Combine{}

// Name returns "combine".
func (Combine) Name() string { return "combine" }

// Traits returns those of a merge, whether or not a critic settles conflicts.
func (Combine) Traits(*ir.Program, *ir.Task) ir.Traits { return ir.Traits{Nature: ir.Combines} }

// Check reports conflicts that go to a critic that is not named, and votes that can end in a tie.
func (Combine) Check(_ *ir.Program, s *ir.Step, t *ir.Task) diag.List {
	set := stepkind.Lenient[CombineSettings](t)
	var list diag.List
	if set.AsksCritic() && set.Critic == "" {
		at := "conflict"
		if set.Conflict != MergeCritic {
			at = "strategy"
		}
		list.Errorf(stepkind.CodeNoCritic, stepkind.At(s, t, at),
			"Name one with \"critic: AGENT\" in the merge, or call an agent \"critic\".",
			"Conflicts in step %q go to a critic, but no agent is the critic.", s.ID)
	}
	if n := voters(s); set.Strategy == MergeVote && n > 0 && n%2 == 0 {
		severity := diag.Note // the author has set a rule for ties
		policy := cmp.Or(set.Conflict, FailOnConflict)
		if policy == FailOnConflict {
			severity = diag.Warning
		}
		list.Reportf(stepkind.CodeEvenVoters, severity, stepkind.At(s, t, "strategy"),
			fmt.Sprintf("Let an odd number of workers vote; a tie is settled as a conflict (%s).", policy),
			"%d workers vote in step %q, so a vote can end in a tie.", n, s.ID)
	}
	return list
}

// AsksCritic reports whether conflicts go to a critic.
func (s CombineSettings) AsksCritic() bool {
	return s.Strategy == MergeCritic || s.Conflict == MergeCritic
}

// mayAskCritic reports whether a merge can have conflicts that go to a critic. A union and a combination by type have
// none without a dedupe key.
func (s CombineSettings) mayAskCritic() bool {
	keepsAll := (s.Strategy == MergeUnion || s.Strategy == MergeByType) && len(s.DedupeKey) == 0
	return s.AsksCritic() && !keepsAll
}

func voters(s *ir.Step) int {
	if par, ok := s.Action.(ir.Parallel); ok {
		return len(par.Branches)
	}
	return 0
}

// Uses names the critic.
func (Combine) Uses(t *ir.Task) stepkind.Uses {
	return stepkind.Uses{Agents: stepkind.Named(t, "critic")}
}

// Contract returns the schema of the critic's ballot, for one conflict of two claims: the actual numbers are known only
// after the workers.
func (Combine) Contract(p *ir.Program, s *ir.Step, t *ir.Task) (contract.Contract, bool) {
	return Ballot(p, s, 2), stepkind.Lenient[CombineSettings](t).mayAskCritic()
}

// Ballot returns the contract of the critic's reply to conflicts with the given numbers of claims.
func Ballot(p *ir.Program, s *ir.Step, claims ...int) contract.Contract {
	ballots := *s
	ballots.Writes = nil // the step's writes are derived from the choices
	return contract.Derive(p, &ballots, contract.Spec{
		Schema: ballotSchema(claims...), From: "the conflicts between the workers",
	})
}

// Bound returns no cost if the workers agree. In the worst case the critic sees the results of all branches in one
// call, with repairs, because its reply must have the form of a result.
func (Combine) Bound(p *ir.Program, s *ir.Step, t *ir.Task, _ *contract.Contract) stepkind.Bound {
	set := stepkind.Lenient[CombineSettings](t)
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

// ballotSchema returns the JSON Schema of the critic's reply: one choice per conflict, by the number of its claims.
func ballotSchema(claims ...int) json.RawMessage {
	properties, required := map[string]any{}, []string{}
	for i, n := range claims {
		number := strconv.Itoa(i + 1)
		required = append(required, number)
		properties[number] = map[string]any{
			"type": "object",
			"properties": map[string]any{
				"choice": map[string]any{"type": "integer", "minimum": 1, "maximum": n},
				"reason": map[string]any{"type": "string"},
			},
			"required": []string{"choice", "reason"},
		}
	}
	raw, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required})
	if err != nil {
		panic(err) // strings and numbers
	}
	return contract.Ordered(raw)
}
