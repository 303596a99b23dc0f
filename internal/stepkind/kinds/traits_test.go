package kinds_test

import (
	"testing"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
)

func TestKindsSayWhatTheirTasksDo(t *testing.T) {
	type settings map[string]any
	for _, c := range []struct {
		kind     string
		settings settings
		want     ir.Traits
	}{
		{"agent", settings{"agent": "a"}, ir.Traits{Nature: ir.Asks, Agent: "a", Record: "agent"}},
		{"artifact", settings{"agent": "a"}, ir.Traits{Nature: ir.Asks, Agent: "a"}},
		{"collect", nil, ir.Traits{Nature: ir.Computes}},
		{"combine", settings{"critic": "a"}, ir.Traits{Nature: ir.Combines}},
		{"command", settings{"command": "ls"}, ir.Traits{Nature: ir.Acts, Record: "command"}},
		{"conversation", settings{"agent": "a"}, ir.Traits{Nature: ir.Asks, Agent: "a"}},
		{
			"conversation",
			settings{"agent": "a", "dialog": "chat"},
			ir.Traits{Nature: ir.Asks, Agent: "a", Dialog: true},
		},
		{"handover", nil, ir.Traits{Nature: ir.Acts}},
		{"hook", nil, ir.Traits{Nature: ir.Acts}},
		{"node", settings{"code": []any{}}, ir.Traits{Nature: ir.Computes}},
		{"node", settings{"agents": settings{"a": settings{}}}, ir.Traits{Nature: ir.Asks}},
		{
			"node",
			settings{"agents": settings{"a": settings{"command": []string{"x"}}}},
			ir.Traits{Nature: ir.Acts},
		},
		{"operation", settings{"operation": "a.b"}, ir.Traits{Nature: ir.Acts, Tool: "a.b", Record: "operation"}},
		{"prompt", settings{"agent": "a"}, ir.Traits{Nature: ir.Asks, Agent: "a"}},
		{"prompt", settings{"tool": "a.b"}, ir.Traits{Nature: ir.Acts, Tool: "a.b"}},
		{
			"script",
			settings{"language": "sh", "script": "ls"},
			ir.Traits{Nature: ir.Computes, Language: "sh", PassReads: true},
		},
		{"shell", nil, ir.Traits{Nature: ir.Acts}},
		{"tool", settings{"tool": "a.b"}, ir.Traits{Nature: ir.Acts, Tool: "a.b", PassReads: true}},
		{"transform", settings{"mode": "model"}, ir.Traits{Nature: ir.Computes}},
		{"worker", settings{"agent": "a"}, ir.Traits{Nature: ir.Asks, Agent: "a"}},
		{"worker", settings{"agent": "a", "command": []string{"x"}}, ir.Traits{Nature: ir.Acts, Agent: "a"}},
	} {
		task := &ir.Task{Kind: c.kind}
		for name, value := range c.settings {
			task.Settings.Put(name, value, source.Span{})
		}
		if got := catalog.Kinds()[c.kind].Traits(&ir.Program{}, task); got != c.want {
			t.Errorf("%s %v: %+v, want %+v", c.kind, c.settings, got, c.want)
		}
	}
}

func TestDescribeReachesEveryTaskOfAProgram(t *testing.T) {
	tool := func() ir.Task { return ir.Task{Kind: "tool"} }
	verdict, combine, finish, work := tool(), tool(), tool(), tool()
	p := &ir.Program{Blocks: []ir.Block{{Steps: []ir.Step{
		{ID: "task", Action: tool()},
		{ID: "gate", Action: ir.Gate{Verdict: &verdict}},
		{ID: "fan", Action: ir.Parallel{Combine: &combine}},
		{ID: "call", Action: ir.Call{Finish: &finish}},
		{ID: "route", Action: ir.Route{}},
	}}, {Steps: []ir.Step{{ID: "end", Action: ir.End{Work: &work}}}}}}
	p.Children = []ir.Program{{Blocks: []ir.Block{{Steps: []ir.Step{{ID: "child", Action: tool()}}}}}}
	catalog.Kinds().Describe(p)
	for _, program := range []*ir.Program{p, &p.Children[0]} {
		for s := range program.Steps() {
			if task := s.Task(); task != nil && (task.Traits == nil || !task.Traits.PassReads) {
				t.Errorf("the task of %s is not described: %+v", s.ID, task)
			}
		}
	}
}
