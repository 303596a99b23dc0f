package agentflow

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/text"
)

// parallel returns a Parallel with one branch per worker of the bundle.
func (l *lowering) parallel(s *step) ir.Action {
	b := l.bundle(s.word("bundle"))
	if b == nil {
		return s.placeholder()
	}
	par := ir.Parallel{Join: ir.JoinSettle, Name: b.word("name").Value, Span: s.key("bundle")}
	l.used[par.Name] = true
	if l.doc.runtime != nil {
		if n, _, ok := l.doc.runtime.number("max_concurrency"); ok {
			par.MaxConcurrent = int(n)
		}
	}
	for _, w := range l.workers(b) {
		par.Branches = append(par.Branches, l.branch(s, b, w))
	}
	if n, span, ok := b.number("min_success"); ok {
		par.MinSuccess = int(n)
		if int(n) > len(par.Branches) {
			l.out.Errorf(CodeWorker, span, "Lower \"min_success\", or add workers.",
				"Bundle %q needs %d successful workers, but has %d.", par.Name, n, len(par.Branches))
		}
	} else if s.word("on_error").Value == "skip" {
		par.MinSuccess = 1 // F25
	}
	combine := l.combine(s, b)
	par.Combine = &combine
	return par
}

// bundle resolves the name of a bundle. If it is undefined, bundle reports it and returns the one with the nearest
// name, or nil.
func (l *lowering) bundle(name text.Text) *values {
	if name.Value == "" {
		return nil
	}
	if b, ok := l.bundles[name.Value]; ok || l.doc.unread.Explains(diag.Error, name.Value) {
		return b
	}
	names := slices.Sorted(maps.Keys(l.bundles))
	help := cmp.Or(diag.DidYouMean(name.Value, names),
		fmt.Sprintf("Add a ```bundle block with \"name: %s\".", name.Value))
	l.out.Errorf(CodeNoBundle, name.Span, help, "Bundle %q is not defined.", name.Value).
		Replace(name.Value, diag.Nearest(name.Value, names))
	return l.bundles[diag.Nearest(name.Value, names)]
}

// worker is one worker of a bundle, with a unique name.
type worker struct {
	*values
	id text.Text
}

// workers returns the workers of a bundle. Mistakes are reported with the first step that uses
// it.
func (l *lowering) workers(b *values) []worker {
	var out []worker
	first := map[string]source.Span{}
	for i, v := range b.list("workers") {
		w := worker{v, v.word("id")}
		if w.id.Value == "" {
			w.id = text.Text{Value: fmt.Sprintf("worker_%d", i+1), Span: v.first}
		}
		if at, ok := first[w.id.Value]; ok {
			l.duplicate(w.id, "worker", at)
			w.id.Value = fmt.Sprintf("%s_%d", w.id.Value, i+1)
		} else {
			l.checkID(w.id, "worker")
		}
		first[w.id.Value] = w.id.Span
		out = append(out, w)
	}
	if len(out) == 0 && b.has("workers") {
		l.out.Errorf(CodeWorker, b.key("workers"), "Add at least one entry with \"id\" and \"agent\".",
			"Bundle %q has no workers.", b.word("name").Value)
	}
	return out
}

// branch compiles one worker to a branch with a single step, whose agent does the work. Every branch has its own share
// of the bundle's budgets.
func (l *lowering) branch(s *step, b *values, w worker) ir.Branch {
	budgets := b.object("budgets")
	one := ir.Branch{
		Name: w.id.Value, Span: w.id.Span, When: l.condition(w.word("when")),
		Budget: ir.Budget{
			Steps: limit(budgets, "max_steps_per_worker"), Tokens: limit(budgets, "max_tokens_per_worker"),
			ActiveSeconds: limit(budgets, "deadline_seconds_per_worker"),
			MicroDollars:  limit(budgets, "max_cost_usd_per_worker"),
		},
	}
	agent, at := l.workerAgent(b, w)
	task := s.agentTask(agent, at)
	if most := one.Budget.Steps; most != nil { // the steps of a worker are the turns of its agent
		task.Settings.Put("max_turns", min(max(most.Max, 1), math.MaxInt32), most.Span)
	}
	output := b.object("worker_output")
	task.Settings.PutSet("required", text.Values(output.words("required_fields")), output.key("required_fields"))
	strategy := b.object("merge").word("strategy")
	if strategy.Value != "combine_by_type" && len(s.ir.Writes) == 1 {
		task.Settings.Put("into", s.ir.Writes[0].Path, s.ir.Writes[0].Span)
		items := strategy.Value == "union" || len(b.object("merge").words("dedupe_key")) > 0
		task.Settings.PutSet("items", items, strategy.Span)
	}
	one.Block = l.p.AddBlock(ir.Block{Name: w.id.Value, Span: w.span, Steps: []ir.Step{{
		ID: w.id.Value, Type: "worker", Description: l.workerDescription(s, agent), Action: task, Reads: s.ir.Reads,
		Span: w.id.Span,
	}}})
	return one
}

// workerDescription describes one worker by its agent's role. The step's description is the
// task that all workers share.
func (l *lowering) workerDescription(s *step, agent string) string {
	if a := l.p.Agent(agent); a != nil && a.Role != "" {
		return a.Role
	}
	return s.word("description").Value
}

// workerAgent returns the worker's agent, or one created from its role (F41).
func (l *lowering) workerAgent(b *values, w worker) (string, source.Span) {
	agent, role := w.word("agent"), w.word("role")
	switch {
	case agent.Value != "":
		if role.Value != "" {
			found := l.out.Warnf(CodeUnusedChoice, w.key("role"), "Remove \"role\" or \"agent\".",
				"The role has no effect: the worker has an agent.")
			found.RemoveEntry("role", w.entry("role"))
			found.RemoveEntry("agent", w.entry("agent"))
		}
		return agent.Value, agent.Span
	case role.Value != "":
		l.out.Warnf(CodeGeneric, w.key("role"), "Define an ```agent block with this role and name it in \"agent\".",
			"Worker %q names no agent; Espalier creates one from its role.", w.id.Value)
	case slices.Contains(w.blank, "agent"): // already reported
	default:
		l.out.Errorf(CodeWorker, w.id.Span, "Add \"agent\" with an agent's id.", "Worker %q has no agent.", w.id.Value)
	}
	name := b.word("name").Value + "_" + w.id.Value
	return l.impliedAgent(name, role.Value, "", w.id.Span), w.id.Span
}

// combine returns the task that merges the workers' results.
func (l *lowering) combine(s *step, b *values) ir.Task {
	merge, output := b.object("merge"), b.object("worker_output")
	t := ir.Task{Kind: "combine"}
	strategy, conflict := merge.word("strategy"), merge.word("conflict")
	if strategy.Value == "" { // already reported
		strategy = text.Text{Value: mergeMethods[0], Span: b.first}
	}
	t.Settings.Put("strategy", strategy.Value, strategy.Span)
	t.Settings.PutSet("dedupe_key", text.Values(merge.words("dedupe_key")), merge.key("dedupe_key"))
	if conflict.Value == "" {
		conflict = text.Text{Value: "fail", Span: strategy.Span} // F22
		// After an error, assume the value that fits the rest.
		meant := merge.has("conflict") && (merge.has("critic") || s.has("agent"))
		if strategy.Value == "send_to_critic" || meant {
			conflict.Value = "send_to_critic"
		}
	}
	t.Settings.Put("conflict", conflict.Value, conflict.Span)
	keepsAll := merge.word("strategy").Value == "union" || merge.word("strategy").Value == "combine_by_type"
	if keepsAll && merge.word("conflict").Value != "" && !merge.has("dedupe_key") {
		l.out.Notef(CodeUnusedChoice, merge.key("conflict"),
			"Add \"dedupe_key\" with the fields that identify an item, or remove \"conflict\".",
			"\"conflict\" has no effect: %q keeps all outputs.", strategy.Value).
			RemoveEntry("conflict", merge.entry("conflict"))
	}
	critical := strategy.Value == "send_to_critic" || conflict.Value == "send_to_critic"
	if critical {
		critic := l.critic(s, merge)
		t.Settings.PutSet("critic", critic.Value, critic.Span)
	} else {
		l.checkUnusedCritic(s.values, "agent", merge)
		l.checkUnusedCritic(merge, "critic", merge)
	}
	t.Settings.PutSet("required_fields", text.Values(output.words("required_fields")), output.key("required_fields"))
	output.put(&t.Settings, "format", "format")
	return t
}

// checkUnusedCritic warns about a critic that no conflict is sent to.
func (l *lowering) checkUnusedCritic(v *values, key string, merge *values) {
	if v.has(key) {
		found := l.out.Warnf(CodeUnusedChoice, v.key(key),
			"Add \"conflict: send_to_critic\" under \"merge\", or remove it.",
			"%q has no effect: no conflict is sent to a critic.", key)
		found.RemoveEntry(key, v.entry(key))
		if merge.has("conflict") {
			found.WriteValue(merge.word("conflict").Span, "send_to_critic")
		} else {
			found.AddEntry(merge.from.PlaceFor("conflict"), "conflict", "send_to_critic")
		}
	}
}

// critic returns the agent that resolves conflicts: the merge's critic, the step's agent, an
// agent named critic, or the agent of the first critic gate (F23). If there is none, the
// setting is omitted, which the step kind reports.
func (l *lowering) critic(s *step, merge *values) text.Text {
	if c := merge.word("critic"); c.Value != "" {
		return c
	}
	if a := s.word("agent"); a.Value != "" {
		return a
	}
	if a := l.p.Agent("critic"); a != nil {
		return text.Text{Value: a.ID, Span: merge.word("strategy").Span}
	}
	for _, other := range l.steps {
		a := other.word("agent")
		if other.kind == "gate" && a.Value != "" && (other.word("gate_method").Value == "critic_agent" ||
			!other.has("gate_method")) {
			return text.Text{Value: a.Value, Span: merge.word("strategy").Span}
		}
	}
	return text.Text{}
}
