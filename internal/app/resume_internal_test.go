package app

import (
	"context"
	"testing"

	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/plan"
)

// faster is an engine whose run another process finishes before it is resumed.
type faster struct{ engine.Engine }

func (f faster) Resume(ctx context.Context, id journal.RunID) error {
	if err := f.Send(ctx, id, plan.Cancel{By: journal.Actor{User: "ann"}}, "1"); err != nil {
		return err
	}
	if _, err := f.Wait(ctx, id); err != nil {
		return err
	}
	return journal.ErrFinished // as the engine on Temporal says
}

// Messages can make a run finish in another process before this one resumes it. They were accepted, which is no error.
func TestRunMayFinishElsewhereWhileItIsResumed(t *testing.T) {
	p := newTriggered(t, map[string]string{
		"gate.md": "---\nname: gate\nkind: agent-flow/workflow\nversion: 1.0.0\ndescription: d\n" +
			"budgets: {max_steps: 3}\n---\n" +
			"```step\nid: s\ntype: gate\ndescription: d\ngate_method: human_review\n```\n",
	})
	s := p.server()
	run := s.begin(t, "gate.md", "{}")
	s.env.Engine = faster{s.env.Engine}
	request := ResumeRequest{Run: run, Messages: []Message{Raise{Budget: ir.BudgetSteps, To: 9}}}
	r, err := s.app.PrepareResume(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.app.Resume(t.Context(), r); err != nil {
		t.Error(err)
	}
	if _, err = s.app.PrepareResume(t.Context(), request); err == nil {
		t.Error("a finished run was resumed")
	}
}
