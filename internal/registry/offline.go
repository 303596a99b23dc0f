package registry

import (
	"slices"

	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/provider/scripted"
	"github.com/espalier-run/espalier/internal/provider/simulated"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/tool"
	"github.com/espalier-run/espalier/internal/tool/builtin"
	"github.com/espalier-run/espalier/internal/tool/notebook"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Simulated returns a model with simulated replies, which are the same for the same seed.
func Simulated(seed uint64) provider.Model { return simulated.Model{Seed: seed} }

// Script parses a file of replies. The script is valid unless the list has an error.
func Script(f *source.File) (*scripted.Script, diag.List) { return scripted.Parse(f) }

// These decide whether the entries of a script can match.
type (
	// ScriptFacts are what Check needs to know about a workflow besides its program.
	ScriptFacts = scripted.Facts
	// ScriptBound limits the visits of a step in a run and its model calls in one attempt.
	ScriptBound = scripted.Bound
)

// ScriptActivities returns what the steps of a program and its children request, by step.
func ScriptActivities(p *ir.Program) map[string][]scripted.Activity {
	out := map[string][]scripted.Activity{}
	for t := range tasks(p) {
		uses := t.kind.Uses(t.Task)
		w := scripted.Activity{Command: len(uses.Commands) > 0}
		// The code of a node calls agents itself. A step whose agent is a program calls no model.
		w.Asks = !w.Command || len(uses.Tools) > 0 || t.Kind == nodeKind ||
			stepkind.ContractOf(t.kind, t.program, t.step, t.Task) != nil
		w.Agents = xslices.Map(uses.Agents, func(one ir.Name) string { return one.Name })
		out[t.step.ID] = append(out[t.step.ID], w)
	}
	return out
}

// ToolNames returns the names and patterns of the tools that a program and its children call or name, and the names of
// the built-in tools.
func ToolNames(p *ir.Program) (named, builtIn []string) {
	named = xslices.Map(toolUses(p), func(use toolUse) string { return use.name })
	for p := range p.All() {
		names := slices.Concat(p.Tools.Allow, p.Tools.Deny)
		for i := range p.Agents {
			names = append(names, p.Agents[i].Tools...)
		}
		named = append(named, xslices.Map(names, func(one ir.Name) string { return one.Name })...)
		named = append(named, xslices.Map(p.ToolDefs, func(one ir.ToolDef) string { return one.Name })...)
	}
	builtIns := slices.Concat(builtin.Tools(builtin.Options{}), notebook.Tools(""))
	slices.Sort(named)
	return slices.Compact(named), xslices.Map(builtIns, func(one tool.Tool) string { return one.Spec().Name })
}
