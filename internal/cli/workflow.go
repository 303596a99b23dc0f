package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	analyses "github.com/espalier-run/espalier/internal/analysis"
	"github.com/espalier-run/espalier/internal/builtin"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/source"
)

// analysis is all that can be said about one file.
type analysis struct {
	file        *source.File
	format      string
	program     *ir.Program // usable unless the diagnostics have an error
	diagnostics diag.List
	files       source.Set
}

// analyse compiles and checks a file. A program with mistakes is checked too,
// so that one run shows them all.
func analyse(as builtin.Reading, p *project.Project, f *source.File) analysis {
	r, _ := analyses.Run(context.Background(), p, f, builtin.FormatsFor(as), builtin.Kinds()) // never canceled
	return analysis{file: f, format: r.Format, program: r.Program, diagnostics: r.Diagnostics, files: r.Files}
}

func (an *analysis) name() string {
	if an.program != nil && an.program.Name != "" {
		return an.program.Name
	}
	return fileName(an.file.Path)
}

// fileName is what a workflow is called when it does not say: by its folder
// when it stands for that, else by its file.
func fileName(p string) string {
	base := path.Base(p)
	if base == "SKILL.md" || base == "workflow.yaml" {
		if dir := path.Base(path.Dir(p)); dir != "." && dir != "/" && dir != ".." {
			return dir
		}
	}
	name, _, _ := strings.Cut(base, ".")
	return name
}

// workflow is one that was discovered.
type workflow struct {
	Name        string         `json:"name"`
	Format      string         `json:"format"`
	Level       string         `json:"level,omitempty"`
	Path        string         `json:"path"`
	Scope       project.Scope  `json:"scope"`
	Description string         `json:"description,omitempty"`
	ShadowedBy  string         `json:"shadowed_by,omitempty"`
	Problems    map[string]int `json:"problems"` // errors, warnings, notes

	analysis analysis
}

type discovered struct {
	root      string
	workflows []workflow
	skipped   []project.Skipped
}

// discover finds every workflow of the project around the working folder, and
// the user's skills.
func (a *app) discover() (discovered, error) {
	space, err := a.workspace()
	if err != nil {
		return discovered{}, err
	}
	here, err := space.Here()
	if err != nil {
		return discovered{}, err
	}
	found := discovered{root: here.Root}
	err = a.discoverBelow(&found, here, here.Root, func(p *project.Project, f *source.File) {
		found.workflows = append(found.workflows, a.describe(p, f))
	})
	if err != nil {
		return discovered{}, err
	}
	skills, skipped := here.Skills()
	found.skipped = append(found.skipped, skipped...)
	for _, s := range skills {
		if s.Scope != project.OfUser {
			continue // found below the root already
		}
		p, f, err := space.File(s.Path)
		if err != nil {
			found.skip(s.Path, err)
			continue
		}
		w := a.describe(p, f)
		w.Scope, w.ShadowedBy = s.Scope, s.ShadowedBy
		found.workflows = append(found.workflows, w)
	}
	a.discoverOutside(&found, space)
	slices.SortStableFunc(found.workflows, func(x, y workflow) int {
		return strings.Compare(x.Name, y.Name)
	})
	return found, nil
}

// discoverOutside adds the workflows of the user's own folders, and those that
// the environment names, which come before the project's.
func (a *app) discoverOutside(found *discovered, space *project.Workspace) {
	known := map[string]bool{}
	by := map[string]string{} // which workflow has a name already
	for _, w := range found.workflows {
		known[w.analysis.file.Abs] = true
		if w.Format == byFile && by[fileName(w.Path)] == "" {
			by[fileName(w.Path)] = w.Path
		}
	}
	for _, one := range space.FilesOutside(project.Workflows) {
		p, f, err := space.File(one.Path)
		if err != nil {
			found.skip(one.Path, err)
			continue
		}
		if known[f.Abs] || len(builtin.Formats().Certain(f)) == 0 {
			continue
		}
		known[f.Abs] = true
		w := a.describe(p, f)
		w.Scope = project.OfUser
		name := fileName(w.Path)
		switch {
		case by[name] == "":
			by[name] = w.Path
		case one.First:
			for i := range found.workflows {
				if hidden := &found.workflows[i]; hidden.Path == by[name] {
					hidden.ShadowedBy = w.Path
				}
			}
			by[name] = w.Path
		default:
			w.ShadowedBy = by[name]
		}
		found.workflows = append(found.workflows, w)
	}
}

// discoverBelow visits the workflows of one folder, in the order of their
// paths, and notes what had to be left out.
func (a *app) discoverBelow(found *discovered, p *project.Project, dir string, visit func(*project.Project, *source.File)) error {
	space, err := a.workspace()
	if err != nil {
		return err
	}
	formats := builtin.Formats()
	paths, skipped := p.Candidates(dir)
	found.skipped = append(found.skipped, skipped...)
	for _, candidate := range paths {
		home, f, err := space.File(candidate)
		if err != nil {
			found.skip(candidate, err)
			continue
		}
		if len(formats.Certain(f)) > 0 {
			visit(home, f)
		}
	}
	return nil
}

func (d *discovered) skip(path string, err error) {
	reason := err.Error()
	var ref *source.RefError
	if errors.As(err, &ref) && ref.Detail != "" {
		reason = ref.Detail
	}
	d.skipped = append(d.skipped, project.Skipped{Path: path, Reason: reason})
}

func (a *app) describe(p *project.Project, f *source.File) workflow {
	an := analyse(a.reading, p, f)
	w := workflow{
		Name: an.name(), Format: an.format, Path: f.Path, Scope: project.OfProject,
		Problems: counts(an.diagnostics), analysis: an,
	}
	if an.program != nil {
		w.Description, w.Level = an.program.Description, an.program.Level
	}
	if s, ok := p.SkillOf(f); ok {
		w.ShadowedBy = s.ShadowedBy
	}
	return w
}

func counts(l diag.List) map[string]int {
	return map[string]int{"errors": l.Count(diag.Error), "warnings": l.Count(diag.Warning), "notes": l.Count(diag.Note)}
}

// errNoName answers an empty argument. As a path it would be the working
// folder, but it is more likely a variable of a script that was not set.
var errNoName = &failure{
	code: exitUsage, message: "the name of the workflow is empty", help: "Name a file, a folder or a workflow.",
}

// resolve finds the workflow that the user means: a path, a folder, or the
// name of a discovered one.
func (a *app) resolve(arg string) (analysis, error) {
	if arg == "" {
		return analysis{}, errNoName
	}
	space, err := a.workspace()
	if err != nil {
		return analysis{}, err
	}
	switch {
	case space.IsDir(arg):
		if main := space.Main(arg); main != "" {
			return a.read(main)
		}
		return a.resolveFolder(space, arg)
	case space.Exists(arg) || looksLikePath(arg):
		an, err := a.read(arg)
		if missing, ok := errors.AsType[*source.RefError](err); ok && missing.Problem == source.RefMissing && len(missing.Near) == 0 && space.IsDir(".awf") && inPack(arg) {
			return an, usage("Workflows of AWF's packs are not read here: copy this one into .awf/workflows, and call it by its own name.", "%v", err)
		}
		return an, err
	}
	return a.resolveName(arg)
}

// inPack tells whether this is how AWF calls a workflow of a pack: PACK/WORKFLOW.
func inPack(arg string) bool {
	pack, name, ok := strings.Cut(arg, "/")
	return ok && pack != "" && name != "" && !strings.ContainsAny(arg, `.\`) && !strings.Contains(name, "/")
}

func (a *app) read(path string) (analysis, error) {
	space, err := a.workspace()
	if err != nil {
		return analysis{}, err
	}
	p, f, err := space.File(path)
	if err != nil {
		return analysis{}, err
	}
	return analyse(a.reading, p, f), nil
}

func (a *app) resolveFolder(space *project.Workspace, dir string) (analysis, error) {
	p, err := space.At(dir)
	if err != nil {
		return analysis{}, err
	}
	var found discovered
	var workflows []workflow
	if err := a.discoverBelow(&found, p, dir, func(p *project.Project, f *source.File) {
		workflows = append(workflows, a.describe(p, f))
	}); err != nil {
		return analysis{}, err
	}
	switch len(workflows) {
	case 0:
		if !looksLikePath(dir) {
			return a.resolveName(dir) // a folder may bear a workflow's name by chance
		}
		return analysis{}, usage("A folder stands for its workflow.yaml or its SKILL.md, or for the only workflow in it.",
			"there is no workflow in the folder %q", dir)
	case 1:
		return workflows[0].analysis, nil
	}
	return analysis{}, usage("Name one of these:\n"+choices(workflows), "there are %d workflows in the folder %q", len(workflows), dir)
}

// byFile is the format whose workflows are called by the names of their files
// first, and only then by what they call themselves.
const byFile = "awf"

func (a *app) resolveName(name string) (analysis, error) {
	found, err := a.discover()
	if err != nil {
		return analysis{}, err
	}
	called := func(w workflow, second bool) string {
		if second != (w.Format == byFile) {
			return fileName(w.Path)
		}
		return w.Name
	}
	for _, second := range []bool{false, true} {
		var matches []workflow
		for _, w := range found.workflows {
			if called(w, second) == name && w.ShadowedBy == "" {
				matches = append(matches, w)
			}
		}
		switch len(matches) {
		case 0:
		case 1:
			return matches[0].analysis, nil
		default:
			return analysis{}, usage("Name one of these by its path:\n"+choices(matches), "there are %d workflows called %q", len(matches), name)
		}
	}
	var names []string
	for _, w := range found.workflows {
		names = append(names, diag.Printable(w.Name))
	}
	help := diag.DidYouMean(name, names)
	if help == "" {
		help = fmt.Sprintf("There are no workflows in %s; \"espalier new %s\" begins one.", a.opened.Display(found.root), name)
	}
	return analysis{}, usage(help, "there is no file and no workflow called %q", name)
}

func looksLikePath(arg string) bool {
	return strings.ContainsAny(arg, `/\`) || project.CouldBeWorkflow(arg)
}

func choices(workflows []workflow) string {
	var lines []string
	for _, w := range workflows {
		lines = append(lines, "  "+diag.Printable(w.Path))
	}
	return strings.Join(lines, "\n")
}

// usable returns the program of a workflow, or shows why it cannot be used: in
// JSON as validate does. Errors with the tolerated codes are warnings.
func (a *app) usable(arg string, tolerated ...diag.Code) (analysis, error) {
	an, err := a.resolve(arg)
	if err != nil {
		return an, err
	}
	for i := range an.diagnostics {
		if d := &an.diagnostics[i]; d.Severity == diag.Error && slices.Contains(tolerated, d.Code) {
			d.Severity = diag.Warning
		}
	}
	if !an.diagnostics.Errors() {
		return an, nil
	}
	if a.json {
		if err := a.writeJSON(newReport([]string{an.file.Path}, an.files, an.diagnostics, nil)); err != nil {
			return an, err
		}
		return an, errInvalid
	}
	if err := (diag.Printer{Files: an.files, Color: a.colorErr}).Print(a.paintedErr(), an.diagnostics); err != nil {
		return an, err
	}
	a.note("\n%s: %s", an.file.Path, diag.Summary(an.diagnostics))
	return an, errInvalid
}
