package combine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/chat"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/stepkind/kinds"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Runner runs tasks of kind "combine".
type Runner struct {
	step.Base[kinds.Combine, settings]
}

var _ step.Instant = Runner{}

type settings kinds.CombineSettings

var _ step.Settings = settings{}

// Instant reports whether the task asks no critic.
func (Runner) Instant(t *ir.Task) bool {
	return !stepkind.Lenient[kinds.CombineSettings](t).AsksCritic()
}

// Run merges the results of the branches that succeeded, and records every choice.
func (s settings) Run(ctx context.Context, job *step.Job) (step.Result, error) {
	branches := xslices.Filter(job.Branches, func(b step.Branch) bool { return b.Outcome == ir.OK })
	if err := complete(s, branches); err != nil {
		return step.Result{}, err
	}
	m := layOut(s, branches)
	m.agree(s.Strategy == kinds.MergeVote)
	result := step.Result{}
	var err error
	if conflicts := m.conflicts(); len(conflicts) > 0 {
		result, err = m.settle(ctx, job, s, conflicts)
	}
	if f, ok := errors.AsType[*step.Error](err); err != nil && (!ok || f.Class != ir.ClassMerge) {
		return result, err
	}
	decisions := m.decisions()
	result.Notes = append(result.Notes, decisions[min(job.NoteCount(journal.NoteMerge), len(decisions)):]...)
	if err == nil {
		result.Value = m.value()
	}
	return result, err
}

// complete returns an error if a result lacks a field that the bundle requires.
func complete(set settings, branches []step.Branch) error {
	var missing []string
	for _, b := range branches {
		var object map[string]json.RawMessage
		_ = json.Unmarshal(b.Value, &object) // other types have no fields
		for _, field := range set.RequiredFields {
			if _, ok := object[field]; !ok {
				missing = append(missing, fmt.Sprintf("the result of worker %q has no %q", b.Name, field))
			}
		}
	}
	if len(missing) > 0 {
		return step.Errorf(ir.ClassInvalid, "%s", strings.Join(missing, "; "))
	}
	return nil
}

// settle resolves conflicts between branches.
func (m *merge) settle(ctx context.Context, job *step.Job, set settings, conflicts []*slot) (step.Result, error) {
	policy := cmp.Or(set.Conflict, kinds.FailOnConflict)
	if set.Strategy == kinds.MergeCritic {
		policy = kinds.MergeCritic
	}
	switch policy {
	case kinds.FirstWins:
		for _, s := range conflicts {
			s.choose(0, kinds.FirstWins)
		}
	case kinds.LastWins:
		for _, s := range conflicts {
			s.choose(s.last, kinds.LastWins)
		}
	case kinds.MergeCritic:
		return m.ask(ctx, job, set, conflicts)
	default:
		names := xslices.Map(conflicts, func(s *slot) string { return s.contradiction() })
		return step.Result{},
			step.Errorf(ir.ClassMerge, "the workers of step %q contradict each other: %s", job.Step.ID,
				strings.Join(names, "; "))
	}
	return step.Result{}, nil
}

// ask lets the critic resolve all conflicts in one call.
func (m *merge) ask(ctx context.Context, job *step.Job, set settings, conflicts []*slot) (step.Result, error) {
	critic := job.Workflow.Agent(set.Critic)
	if critic == nil {
		return step.Result{},
			step.Errorf(ir.ClassMissing, "conflicts in step %q go to the critic %q, and there is no such agent",
				job.Step.ID, set.Critic)
	}
	alone := *critic
	alone.Tools = nil // the critic judges only the given values
	sizes := xslices.Map(conflicts, func(s *slot) int { return len(s.claims) })
	t := chat.Conversation{
		Agent: &alone, Task: task,
		Form: chat.Form{Contract: kinds.Ballot(job.Workflow, job.Step, sizes...)},
	}
	for i, s := range conflicts {
		t.Data = append(t.Data, chat.Data{Name: fmt.Sprintf("conflict %d", i+1), Value: s.question()})
	}
	result, err := t.Run(ctx, job)
	if err != nil {
		return result, err
	}
	var answers map[string]json.RawMessage
	if err := json.Unmarshal(result.Value, &answers); err != nil {
		return result, step.Errorf(ir.ClassInvalid, "the critic's answer cannot be read: %v", err)
	}
	for i, s := range conflicts {
		var answer struct {
			Choice int    `json:"choice"`
			Reason string `json:"reason"`
		}
		if err := json.Unmarshal(answers[strconv.Itoa(i+1)], &answer); err != nil {
			return result, step.Errorf(ir.ClassInvalid, "the critic's answer to conflict %d cannot be read: %v", i+1,
				err)
		}
		s.choose(answer.Choice-1, "critic")
		s.reason = answer.Reason
	}
	return result, nil
}

const task = "Several workers did the same task independently, and their results contradict each other. " +
	"For each conflict below, choose the claim that is right. Reply with an object whose keys are the numbers of the " +
	"conflicts. Under each key, give the number of the claim that you choose as \"choice\", and the reason in one " +
	"sentence as \"reason\"."
