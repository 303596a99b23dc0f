package analysis

import (
	"context"

	"github.com/espalier-run/espalier/internal/check"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
)

// Result is what is known about one file.
type Result struct {
	File   *source.File
	Format string // "" if the file is in no known format
	// Program is usable unless Diagnostics contains an error. Then it is partial, or nil.
	Program     *ir.Program
	Diagnostics diag.List
	// Files contains every file that was read, so that spans can be rendered.
	Files source.Set
}

// Run compiles and checks a file of a project. A program with mistakes is checked, too, so that one
// run shows them all. checks are further checks of the program. The only error is that of a context that is done
// before the result is complete.
func Run(
	ctx context.Context, p *project.Project, f *source.File, formats format.Set, kinds stepkind.Set,
	checks ...func(*ir.Program) diag.List,
) (Result, error) {
	compiled := formats.Compile(f, reader{p, ctx})
	list := compiled.Diagnostics
	if compiled.Program != nil && ctx.Err() == nil {
		kinds.Describe(compiled.Program)
		list = append(list, check.Program(compiled.Program, kinds)...)
		for _, check := range checks {
			list = append(list, check(compiled.Program)...)
		}
	}
	list = append(list, p.Shadowing(f)...)
	return Result{
		File: f, Format: compiled.Format, Program: compiled.Program, Files: compiled.Files,
		Diagnostics: list.Sorted().Capped().Located(compiled.Files),
	}, ctx.Err()
}

// reader is the format.Reader of one analysis. It reads nothing more after the context is done.
type reader struct {
	*project.Project
	ctx context.Context
}

// Read implements format.Reader.
func (r reader) Read(from *source.File, ref string) (*source.File, error) {
	if err := r.canceled(ref); err != nil {
		return nil, err
	}
	return r.Project.Read(from, ref)
}

// Skill implements format.Reader.
func (r reader) Skill(name string) (*source.File, error) {
	if err := r.canceled(name); err != nil {
		return nil, err
	}
	return r.Project.Skill(name)
}

// Lookup implements format.SearchPath.
func (r reader) Lookup(kind, name string) (*source.File, error) {
	if err := r.canceled(name); err != nil {
		return nil, err
	}
	return r.Project.Lookup(kind, name)
}

func (r reader) canceled(ref string) error {
	if err := r.ctx.Err(); err != nil {
		return &source.RefError{Ref: ref, Problem: source.RefUnread, Detail: err.Error()}
	}
	return nil
}

var (
	_ format.Reader     = reader{}
	_ format.Bundler    = reader{}
	_ format.SearchPath = reader{}
)
