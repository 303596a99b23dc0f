// Package analysis compiles and checks workflow files.
//
// Run analyzes one file. An Analyzer keeps the results of many files, as an editor or a server needs
// them: a result stays valid until a file that it depends on changes.
package analysis

import (
	"context"
	"path/filepath"
	"slices"

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

	reads *reader
}

// Run compiles and checks a file of a project. A program with mistakes is checked, too, so that one
// run shows them all. checks are further checks of the program. The only error is that of a context that is done
// before the result is complete.
func Run(
	ctx context.Context, p *project.Project, f *source.File, formats format.Set, kinds stepkind.Set,
	checks ...func(*ir.Program) diag.List,
) (Result, error) {
	r := &reader{ctx: ctx, project: p, names: map[string]bool{}}
	compiled := formats.Compile(f, r)
	list := compiled.Diagnostics
	if compiled.Program != nil && ctx.Err() == nil {
		list = append(list, check.Program(compiled.Program, kinds)...)
		for _, check := range checks {
			list = append(list, check(compiled.Program)...)
		}
	}
	list = append(list, p.Shadowing(f)...)
	return Result{
		File: f, Format: compiled.Format, Program: compiled.Program, Files: compiled.Files, reads: r,
		Diagnostics: list.Sorted().Capped().Located(compiled.Files),
	}, ctx.Err()
}

// DependsOn reports whether the result may differ after the file at an absolute path was changed,
// created or removed.
func (r *Result) DependsOn(abs string) bool {
	for _, f := range r.Files {
		if f.Abs == abs {
			return true
		}
	}
	base := filepath.Base(abs)
	isSkill := base == "SKILL.md"
	if isSkill && (r.reads.skills || filepath.Base(r.File.Abs) == base) { // another one of the name may hide it
		return true
	}
	return r.reads.names[base] || slices.ContainsFunc(r.reads.bundles, func(dir string) bool {
		rel, err := filepath.Rel(dir, abs)
		return err == nil && filepath.IsLocal(rel)
	})
}

// reader is the format.Reader of one analysis. It records what the result depends on besides the
// files that were read.
type reader struct {
	ctx     context.Context
	project *project.Project
	names   map[string]bool // base names of files that could not be read
	skills  bool            // a skill was looked up by name
	bundles []string        // folders that were listed
}

// Read implements format.Reader.
func (r *reader) Read(from *source.File, ref string) (*source.File, error) {
	return r.note(ref, func() (*source.File, error) { return r.project.Read(from, ref) })
}

// Skill implements format.Reader.
func (r *reader) Skill(name string) (*source.File, error) {
	r.skills = true
	return r.note(name, func() (*source.File, error) { return r.project.Skill(name) })
}

// Lookup implements format.SearchPath.
func (r *reader) Lookup(kind, name string) (*source.File, error) {
	return r.note(name, func() (*source.File, error) { return r.project.Lookup(kind, name) })
}

// Names implements format.SearchPath.
func (r *reader) Names(kind string) []string {
	r.bundles = append(r.bundles, r.project.SearchDirs(kind)...) // a new file there may have the name
	return r.project.Names(kind)
}

// Bundle implements format.Bundler.
func (r *reader) Bundle(f *source.File) (dir string, files []string) {
	r.bundles = append(r.bundles, filepath.Dir(f.Abs))
	return r.project.Bundle(f)
}

func (r *reader) note(ref string, read func() (*source.File, error)) (*source.File, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, &source.RefError{Ref: ref, Problem: source.RefUnread, Detail: err.Error()}
	}
	// A name can be found in several places: a file of the name in a better place would be read instead.
	r.names[filepath.Base(filepath.FromSlash(ref))] = true
	return read()
}

var (
	_ format.Reader     = (*reader)(nil)
	_ format.Bundler    = (*reader)(nil)
	_ format.SearchPath = (*reader)(nil)
)
