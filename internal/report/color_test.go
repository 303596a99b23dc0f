package report_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/report"
)

func TestStepsHaveTheColorOfTheirPicture(t *testing.T) {
	task := func(n ir.Nature) ir.Action { return ir.Task{Kind: "x", Traits: &ir.Traits{Nature: n}} }
	for _, c := range []struct {
		action ir.Action
		want   report.Color
	}{
		{task(ir.Asks), report.Purple},
		{task(ir.Computes), report.Blue},
		{task(ir.Combines), report.Cyan},
		{task(ir.Acts), report.Green},
		{ir.Parallel{}, report.Cyan},
		{ir.Gate{}, report.Red},
		{ir.Call{}, report.Purple},
		{ir.Route{}, report.Amber},
		{ir.Loop{}, report.Plain},
		{ir.End{}, report.Plain},
	} {
		// The word of the format does not count.
		s := &report.Step{Kind: "agent", Info: &report.StepInfo{Step: &ir.Step{Type: "agent", Action: c.action}}}
		if got := s.Color(); got != c.want {
			t.Errorf("%#v is %q, want %q", c.action, got, c.want)
		}
	}
	if got := (&report.Step{Kind: "agent"}).Color(); got != report.Purple {
		t.Errorf("a step of an unknown program is %q", got)
	}
}
