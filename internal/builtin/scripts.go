package builtin

import (
	"path/filepath"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/report/execution"
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

// executions keeps the records that other programs look for beside what runs
// have produced.
func (r *Runtime) executions() *execution.Writer {
	return execution.New(execution.Options{Root: filepath.Dir(r.dir), Source: r.Store, Program: r.program})
}
