package builtin

import (
	"path/filepath"
	"slices"

	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/report/execution"
	"github.com/espalier-run/espalier/internal/tool"
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

// Commands names the steps of a program, and of its children, that run what the
// workflow itself says.
func Commands(p *ir.Program) []string {
	kinds := Kinds()
	var out []string
	for b := range p.Blocks {
		for i := range p.Blocks[b].Steps {
			s := &p.Blocks[b].Steps[i]
			if t := s.Task(); t != nil && kinds[t.Kind] != nil && kinds[t.Kind].Uses(t).Commands {
				out = append(out, s.ID)
			}
		}
	}
	for i := range p.Children {
		for _, id := range Commands(&p.Children[i]) {
			// A file that is called in several ways is several children.
			if name := p.Children[i].Name + "." + id; !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// CalledCommands names those of them that stand in files which the program
// calls: whoever runs a file need not have seen these.
func CalledCommands(p *ir.Program) []string {
	called := ir.Program{Children: p.Children}
	return Commands(&called)
}

// MayRunScripts tells whether somebody has allowed scripts, and the commands of
// files that are called.
func (t *Tools) MayRunScripts(o RunOptions) bool { return o.AllowShell || t.config.Allow.Shell }

// Unconfined names the MCP servers that a program's steps need and that run as
// programs of the user, outside of any sandbox.
func (t *Tools) Unconfined(p *ir.Program) []string {
	var out []string
	for _, use := range toolUses(p, "") {
		name := tool.Plain(use.name)
		if set := t.config.Tool(name); set != nil && set.Use.Value != "" {
			name = set.Use.Value
		}
		server, known := t.serverOf(name)
		if known && t.servers.known[server].Free() && !slices.Contains(out, server) {
			out = append(out, server)
		}
	}
	return out
}

// executions keeps the records that other programs look for beside what runs
// have produced.
func (r *Runtime) executions() *execution.Writer {
	return execution.New(execution.Options{Root: filepath.Dir(r.dir), Source: r.Store, Program: r.program})
}
