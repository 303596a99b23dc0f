package builtin

import (
	"path/filepath"
	"slices"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/report/execution"
	"github.com/espalier-run/espalier/internal/step"
	"github.com/espalier-run/espalier/internal/step/artifact"
	"github.com/espalier-run/espalier/internal/step/command"
	"github.com/espalier-run/espalier/internal/step/script"
)

// Scripts names the scripts that a program, or a child of it, runs on this
// machine, with the steps that do.
func Scripts(p *ir.Program) []string {
	kinds := Kinds()
	var out []string
	for b := range p.Blocks {
		for i := range p.Blocks[b].Steps {
			s := &p.Blocks[b].Steps[i]
			if t := s.Task(); t != nil && kinds[t.Kind] != nil {
				for _, name := range kinds[t.Kind].Uses(t).Scripts {
					out = append(out, s.ID+": "+name.Name)
				}
			}
		}
	}
	for i := range p.Children {
		out = append(out, Scripts(&p.Children[i])...)
	}
	return out
}

// Unconfined names the steps of a program, and of its children, that run what
// the workflow itself says: the sandbox is for the commands of tools.
func Unconfined(p *ir.Program) []string {
	var out []string
	for b := range p.Blocks {
		for i := range p.Blocks[b].Steps {
			s := &p.Blocks[b].Steps[i]
			t := s.Task()
			if t == nil {
				continue
			}
			runs := slices.Contains([]string{script.Kind{}.Name(), command.Kind{}.Name(), artifact.Shell{}.Name()}, t.Kind)
			if t.Kind == (command.Hook{}).Name() {
				runs = slices.ContainsFunc(step.Lenient[command.HookSettings](t).Hooks, func(h command.HookSetting) bool { return h.Command != "" })
			}
			if runs {
				out = append(out, s.ID)
			}
		}
	}
	for i := range p.Children {
		for _, id := range Unconfined(&p.Children[i]) {
			out = append(out, p.Children[i].Name+"."+id)
		}
	}
	return out
}

// executions keeps the records that other programs look for beside what runs
// have produced.
func (r *Runtime) executions() *execution.Writer {
	return execution.New(execution.Options{Root: filepath.Dir(r.dir), Source: r.Store, Program: r.program})
}
