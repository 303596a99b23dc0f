package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/espalier-run/espalier/internal/analysis"
	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/config"
	"github.com/espalier-run/espalier/internal/contract"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/format"
	"github.com/espalier-run/espalier/internal/graph"
	"github.com/espalier-run/espalier/internal/ir"
	"github.com/espalier-run/espalier/internal/project"
	"github.com/espalier-run/espalier/internal/provider"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/source"
	"github.com/espalier-run/espalier/internal/stepkind"
	"github.com/espalier-run/espalier/internal/xslices"
)

// Analysis is everything that is known about one workflow file.
type Analysis struct {
	File        *source.File
	Format      string
	Program     *ir.Program // usable unless Diagnostics has an error
	Diagnostics diag.List
	Files       source.Set // that Diagnostics refer to

	reading catalog.ReadOptions
	root    string // of the project
	// config is the configuration of the project, if the workflow calls tools. It gives names to tools.
	config *config.Config
}

// AnalyzeRequest names a workflow.
type AnalyzeRequest struct {
	// Workflow is a path, a folder, or the name of a discovered workflow.
	Workflow string
	// Unsaved has texts that count instead of the files at their paths, such as those that a person is editing. The
	// files and their folders need not exist.
	Unsaved map[string]string
	Reading catalog.ReadOptions
	// Listed restricts Workflow to what Workflows lists, by path or by name, and the paths of Unsaved to the project.
	// It is for requests of people who must not read other files or run their commands.
	Listed bool
	// Tolerate lists codes whose errors count as warnings.
	Tolerate []diag.Code
}

// Analyze compiles and checks a workflow. Errors in the workflow are in the result; see Analysis.Err.
func (a *App) Analyze(ctx context.Context, req AnalyzeRequest) (*Analysis, error) {
	space, err := a.spaceIn(a.o.Dir, req.Unsaved)
	if err != nil {
		return nil, err
	}
	defer space.Close()
	r := &resolver{ctx: ctx, space: space, reading: req.Reading}
	if req.Listed {
		for path := range req.Unsaved {
			if !r.isCandidate(path) {
				return nil, fail(NotFound, NoWorkflow, "%q cannot be a workflow of the project", path)
			}
		}
	}
	var an *Analysis
	// An unsaved text is read at its path, even if there is no such file to be found by name.
	switch _, unsaved := req.Unsaved[req.Workflow]; {
	case unsaved:
		an, err = r.read(req.Workflow)
	case req.Listed:
		an, err = r.resolveListed(req.Workflow)
	default:
		an, err = r.resolve(req.Workflow)
	}
	if err != nil {
		return nil, err
	}
	for i := range an.Diagnostics {
		if d := &an.Diagnostics[i]; d.Severity == diag.Error && slices.Contains(req.Tolerate, d.Code) {
			d.Severity = diag.Warning
		}
	}
	return an, nil
}

// AnalyzeFile compiles and checks a file of an opened project. The only error is that of a context that is done.
func AnalyzeFile(ctx context.Context, p *project.Project, f *source.File, as catalog.ReadOptions) (*Analysis, error) {
	an := &Analysis{reading: as, root: p.Root}
	calls := func(program *ir.Program) diag.List {
		if !registry.CallsTools(program) {
			return nil
		}
		an.config = writtenConfig(p)
		return registry.CheckCalls(program, an.config)
	}
	r, err := analysis.Run(ctx, p, f, catalog.FormatsFor(as), catalog.Kinds(), calls)
	if err != nil {
		return nil, err
	}
	an.File, an.Format, an.Program, an.Diagnostics, an.Files = r.File, r.Format, r.Program, r.Diagnostics, r.Files
	return an, nil
}

// Err returns an error of kind InvalidWorkflow if the program cannot be used; otherwise nil.
func (an *Analysis) Err() error {
	if !an.Diagnostics.Errors() {
		return nil
	}
	return &Error{
		Kind: InvalidWorkflow, Message: an.File.Path + ": " + diag.Summary(an.Diagnostics), Name: an.File.Path,
		Diagnostics: an.Diagnostics, Files: an.Files,
	}
}

// Version returns a text that changes when a file of the workflow is saved, or when a file is added to or removed from
// one of their folders. It reads no files.
func (an *Analysis) Version() string {
	looked := map[string]string{}
	look := func(path string) {
		if info, err := os.Stat(path); err == nil {
			looked[path] = fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size())
		}
	}
	files := maps.Clone(an.Files)
	if files == nil {
		files = source.Set{}
	}
	files.Add(an.File)
	for _, f := range files {
		if f.Abs != "" {
			look(f.Abs)
			look(filepath.Dir(f.Abs))
		}
	}
	sum := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(looked)) {
		fmt.Fprintln(sum, path, looked[path])
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// Name returns what the workflow is called.
func (an *Analysis) Name() string {
	if an.Program != nil && an.Program.Name != "" {
		return an.Program.Name
	}
	return fileName(an.File.Path)
}

// Commands returns what a run starts on this machine.
func (an *Analysis) Commands() []Command {
	if an.Program == nil {
		return nil
	}
	return registry.Commands(an.Program, an.config)
}

// Graph returns the picture of the workflow.
func (an *Analysis) Graph(o graph.Options) *graph.Graph {
	o.Approved = an.RequiresApproval
	return graph.Build(an.Program, o)
}

// RequiresApproval reports whether a person has to approve calls of a tool.
func (an *Analysis) RequiresApproval(tool string) bool {
	_, required := registry.Approval(an.Program, an.config, tool)
	return required
}

// definition returns the definition that a run pins.
func (an *Analysis) definition(root string) *engine.Definition {
	path := an.File.Path
	if rel, err := filepath.Rel(root, an.File.Abs); err == nil {
		path = filepath.ToSlash(rel)
	}
	sources := []ir.File{{Path: path, Role: "workflow", SHA256: sha256Hex([]byte(an.File.Text))}}
	return &engine.Definition{Program: an.Program, Path: path, Sources: append(sources, an.Program.Files...)}
}

// Contract returns what the reply of the model to a step must be; false if the step asks no model.
func (an *Analysis) Contract(s *ir.Step) (contract.Contract, bool) {
	task := s.Task()
	if task == nil {
		return contract.Contract{}, false
	}
	asker, ok := catalog.Kinds()[task.Kind].(stepkind.Asker)
	if !ok {
		return contract.Contract{}, false
	}
	return asker.Contract(an.Program, s, task)
}

// Preview returns the first request that a step sends to a model. Values that are known only when the step runs are
// replaced by their names in parentheses.
func (a *App) Preview(ctx context.Context, an *Analysis, s *ir.Step) (*provider.Request, error) {
	env, err := a.environmentOf(an, approvedOnly)
	if err != nil {
		return nil, err
	}
	request, err := env.tools.Preview(ctx, an.Program, s, env.models)
	if errors.Is(err, registry.ErrAsksNoModel) {
		e := fail(InvalidRequest, AsksNoModel, "%v", err)
		e.Name = an.File.Path
		return nil, e
	}
	return request, err
}

// environmentOf returns the environment of a workflow's project, and applies the project's defaults to the program.
// Warnings about the configuration are passed on.
func (a *App) environmentOf(an *Analysis, how consent) (*environment, error) {
	space, err := a.space()
	if err != nil {
		return nil, err
	}
	defer space.Close()
	env, err := a.configured(space, an.root, how, a.o.Notify)
	if err != nil {
		return nil, err
	}
	registry.ApplyDefaults(an.Program, env.settings.Config)
	return env, nil
}

// Limit lowers the budget of the workflow to an amount of money, in millionths of a dollar, and an active time; zero
// leaves a budget as it is. It changes a copy: other analyses may share the program.
func (an *Analysis) Limit(money int64, active time.Duration) {
	p := *an.Program
	lower := func(limit **ir.Limit, most int64) {
		if most > 0 && (*limit == nil || (*limit).Max > most) {
			*limit = &ir.Limit{Max: most}
		}
	}
	lower(&p.Budget.MicroDollars, money)
	lower(&p.Budget.ActiveSeconds, int64(active/time.Second))
	an.Program = &p
}

// fileName returns what a workflow is called that has no name: its folder if the file represents that, else its file.
func fileName(p string) string {
	base := path.Base(p)
	if project.IsMain(base) {
		if dir := path.Base(path.Dir(p)); dir != "." && dir != "/" && dir != ".." {
			return dir
		}
	}
	name, _, _ := strings.Cut(base, ".")
	return name
}

// Workflow is a workflow that was discovered.
type Workflow struct {
	Name        string         `json:"name"`
	Format      string         `json:"format"`
	Level       string         `json:"level,omitempty"`
	Path        string         `json:"path"`
	Scope       project.Scope  `json:"scope"`
	Description string         `json:"description,omitempty"`
	ShadowedBy  string         `json:"shadowed_by,omitempty"`
	Problems    map[string]int `json:"problems"` // errors, warnings, notes

	Analysis *Analysis `json:"-"`
}

// Discovery is the workflows of a project and of the user.
type Discovery struct {
	Root      string            `json:"root"` // for display
	Workflows []Workflow        `json:"workflows"`
	Skipped   []project.Skipped `json:"skipped"`
}

// Workflows discovers the workflows of the project around the working folder, and the user's skills.
func (a *App) Workflows(ctx context.Context, as catalog.ReadOptions) (*Discovery, error) {
	space, err := a.space()
	if err != nil {
		return nil, err
	}
	defer space.Close()
	return (&resolver{ctx: ctx, space: space, reading: as}).discover()
}

// resolver finds workflows in one state of the files, for one request.
type resolver struct {
	ctx     context.Context
	space   *project.Workspace
	reading catalog.ReadOptions
}

// discover analyzes all workflows of the project, the user's skills, and the workflows of the folders that the user or
// the environment names. They are sorted by name; those of one name stay in the order in which they are looked up.
func (r *resolver) discover() (*Discovery, error) {
	here, err := r.space.Here()
	if err != nil {
		return nil, err
	}
	found := &Discovery{Root: r.space.Display(here.Root), Workflows: []Workflow{}, Skipped: []project.Skipped{}}
	err = r.below(found, here, here.Root, func(p *project.Project, an *Analysis) {
		found.Workflows = append(found.Workflows, describe(p, an))
	})
	if err != nil {
		return nil, err
	}
	skills, skipped := here.Skills()
	found.Skipped = append(found.Skipped, skipped...)
	for _, s := range skills {
		if s.Scope != project.OfUser {
			continue // found below the root already
		}
		p, f, err := r.space.File(s.Path)
		if err != nil {
			found.skip(s.Path, err)
			continue
		}
		an, err := AnalyzeFile(r.ctx, p, f, r.reading)
		if err != nil {
			return nil, err
		}
		w := describe(p, an)
		w.Scope, w.ShadowedBy = s.Scope, s.ShadowedBy
		found.Workflows = append(found.Workflows, w)
	}
	if err := r.outside(found); err != nil {
		return nil, err
	}
	slices.SortStableFunc(found.Workflows, func(x, y Workflow) int { return strings.Compare(x.Name, y.Name) })
	return found, nil
}

// outside adds the workflows of the user's own folders, and those that the environment names, which come before the
// project's.
func (r *resolver) outside(found *Discovery) error {
	known := map[string]bool{}
	by := map[string]string{} // path of the workflow that has a name
	for _, w := range found.Workflows {
		known[w.Analysis.File.Abs] = true
		if namedByFile(w) && by[fileName(w.Path)] == "" {
			by[fileName(w.Path)] = w.Path
		}
	}
	for _, one := range r.space.FilesOutside(project.Workflows) {
		p, f, err := r.space.File(one.Path)
		if err != nil {
			found.skip(one.Path, err)
			continue
		}
		if known[f.Abs] || len(catalog.Formats().Certain(f)) == 0 {
			continue
		}
		known[f.Abs] = true
		an, err := AnalyzeFile(r.ctx, p, f, r.reading)
		if err != nil {
			return err
		}
		w := describe(p, an)
		w.Scope = project.OfUser
		name := fileName(w.Path)
		// The first workflow of a name hides the others: those of folders that the environment names come before the
		// project's, the user's after them.
		switch {
		case by[name] == "":
			by[name] = w.Path
		case one.First:
			for i := range found.Workflows {
				if hidden := &found.Workflows[i]; hidden.Path == by[name] {
					hidden.ShadowedBy = w.Path
				}
			}
			by[name] = w.Path
		default:
			w.ShadowedBy = by[name]
		}
		found.Workflows = append(found.Workflows, w)
	}
	return nil
}

// below analyzes the workflows of one folder, several at once. It visits the results in the order of their paths, and
// records what was skipped. The only error is that of a context that is done.
func (r *resolver) below(
	found *Discovery, p *project.Project, dir string, visit func(*project.Project, *Analysis),
) error {
	type pending struct {
		project  *project.Project
		analysis chan *Analysis // receives nil if it is canceled
	}
	var queue []pending // bounded, so that not every program is in memory at once
	next := func() {
		if an := <-queue[0].analysis; an != nil && r.ctx.Err() == nil {
			visit(queue[0].project, an)
		}
		queue = queue[1:]
	}
	formats := catalog.Formats()
	paths, skipped := p.Candidates(dir)
	found.Skipped = append(found.Skipped, skipped...)
	for _, candidate := range paths {
		if r.ctx.Err() != nil {
			break
		}
		home, f, err := r.space.File(candidate)
		if err != nil {
			found.skip(candidate, err)
			continue
		}
		if len(formats.Certain(f)) == 0 {
			continue
		}
		if len(queue) == 2*runtime.GOMAXPROCS(0) {
			next()
		}
		one := pending{home, make(chan *Analysis, 1)}
		go func() {
			an, _ := AnalyzeFile(r.ctx, home, f, r.reading) // the error is that of the context
			one.analysis <- an
		}()
		queue = append(queue, one)
	}
	for len(queue) > 0 { // also if it was canceled: they use the workspace
		next()
	}
	return r.ctx.Err()
}

// skip records a file that cannot be read.
func (d *Discovery) skip(path string, err error) {
	reason := err.Error()
	if ref, ok := errors.AsType[*source.RefError](err); ok && ref.Detail != "" {
		reason = ref.Detail
	}
	d.Skipped = append(d.Skipped, project.Skipped{Path: path, Reason: reason})
}

// describe returns the entry of a list for a workflow of a project.
func describe(p *project.Project, an *Analysis) Workflow {
	w := Workflow{
		Name: an.Name(), Format: an.Format, Path: an.File.Path, Scope: project.OfProject, Problems: an.Counts(),
		Analysis: an,
	}
	if an.Program != nil {
		w.Description, w.Level = an.Program.Description, an.Program.Level
	}
	if s, ok := p.SkillOf(an.File); ok {
		w.ShadowedBy = s.ShadowedBy
	}
	return w
}

// Counts returns how many errors, warnings and notes there are.
func (an *Analysis) Counts() map[string]int {
	l := an.Diagnostics
	return map[string]int{
		"errors": l.Count(diag.Error), "warnings": l.Count(diag.Warning), "notes": l.Count(diag.Note),
	}
}

// errNoName rejects an empty name. As a path it would be the working folder, but it is more likely a variable of a
// script that is not set.
var errNoName = fail(InvalidRequest, "", "the name of the workflow is empty").
	advise("Name a file, a folder or a workflow.")

// resolve finds the workflow that a person means: a path, a folder, or the name of a discovered one.
func (r *resolver) resolve(arg string) (*Analysis, error) {
	switch {
	case arg == "":
		return nil, errNoName
	case r.space.IsDir(arg):
		if main := r.space.Main(arg); main != "" {
			return r.read(main)
		}
		return r.resolveFolder(arg)
	case r.space.Exists(arg) || looksLikePath(arg):
		an, err := r.read(arg)
		missing, ok := errors.AsType[*source.RefError](err)
		if ok && missing.Problem == source.RefMissing && len(missing.Near) == 0 && r.space.IsDir(".awf") &&
			inPack(arg) {
			return an, fail(NotFound, "", "%v", err).
				advise("Workflows of AWF's packs are not read here: copy this one into .awf/workflows, and call it " +
					"by its own name.")
		}
		if ok && strings.HasPrefix(arg, "/") && missing.Problem == source.RefMissing {
			if named, err := r.resolveName(arg); err == nil { // a command such as /team:report
				return named, nil
			}
		}
		return an, err
	}
	return r.resolveName(arg)
}

// resolveListed finds a workflow that discover lists, by its path, its folder or its name. Other files are not opened.
func (r *resolver) resolveListed(arg string) (*Analysis, error) {
	path := arg
	if main := r.space.Main(arg); main != "" {
		path = main
	}
	if r.isCandidate(path) && r.space.Exists(path) {
		if an, err := r.read(path); err == nil && len(catalog.Formats().Certain(an.File)) > 0 {
			return an, nil
		}
	}
	return r.resolveName(arg)
}

// isCandidate reports whether a path in the project could be a workflow that discover lists.
func (r *resolver) isCandidate(path string) bool {
	here, err := r.space.Here()
	return err == nil && here.IsCandidate(path)
}

// inPack reports whether this is how AWF calls a workflow of a pack: PACK/WORKFLOW.
func inPack(arg string) bool {
	pack, name, ok := strings.Cut(arg, "/")
	return ok && pack != "" && name != "" && !strings.ContainsAny(arg, `.\`) && !strings.Contains(name, "/")
}

// read analyzes the file at a path.
func (r *resolver) read(path string) (*Analysis, error) {
	p, f, err := r.space.File(path)
	if err != nil {
		return nil, err
	}
	return AnalyzeFile(r.ctx, p, f, r.reading)
}

// resolveFolder finds the only workflow in a folder that has no main file.
func (r *resolver) resolveFolder(dir string) (*Analysis, error) {
	p, err := r.space.At(dir)
	if err != nil {
		return nil, err
	}
	var workflows []Workflow
	err = r.below(&Discovery{}, p, dir, func(p *project.Project, an *Analysis) {
		workflows = append(workflows, describe(p, an))
	})
	if err != nil {
		return nil, err
	}
	switch len(workflows) {
	case 0:
		if !looksLikePath(dir) {
			return r.resolveName(dir) // a folder may have a workflow's name by chance
		}
		return nil, fail(NotFound, "", "there is no workflow in the folder %q", dir).
			advise("A folder means its workflow.yaml, its SKILL.md, or the only workflow in it.")
	case 1:
		return workflows[0].Analysis, nil
	}
	return nil, fail(InvalidRequest, "", "there are %d workflows in the folder %q", len(workflows), dir).
		advise("Name one of these:\n%s", choices(workflows))
}

// namedByFile reports whether commands of the format call its workflows by the names of their files.
func namedByFile(w Workflow) bool { return catalog.Formats().Conventions(w.Format).NamedByFile }

// resolveName finds a discovered workflow by the name that its format uses, then by the other one (the name inside the
// file or the name of the file), then by a command that it declares. Workflows that others hide do not count.
func (r *resolver) resolveName(name string) (*Analysis, error) {
	found, err := r.discover()
	if err != nil {
		return nil, err
	}
	called := func(second bool) func(Workflow) bool {
		return func(w Workflow) bool {
			if second != namedByFile(w) {
				return fileName(w.Path) == name
			}
			return w.Name == name
		}
	}
	for _, fits := range []func(Workflow) bool{called(false), called(true), commanded(name)} {
		matches := xslices.Filter(found.Workflows, func(w Workflow) bool { return fits(w) && w.ShadowedBy == "" })
		switch len(matches) {
		case 0:
		case 1:
			return matches[0].Analysis, nil
		default:
			return nil, fail(InvalidRequest, "", "there are %d workflows called %q", len(matches), name).
				advise("Name one of these by its path:\n%s", choices(matches))
		}
	}
	names := xslices.Map(found.Workflows, func(w Workflow) string { return diag.Printable(w.Name) })
	e := fail(NotFound, NoWorkflow, "there is no file and no workflow called %q", name)
	e.Name, e.Names, e.Advice = name, []string{found.Root}, diag.DidYouMean(name, names)
	return nil, e
}

// commanded returns a function that reports whether a workflow declares a command. Commands are the same with a leading
// slash and without it.
func commanded(name string) func(Workflow) bool {
	name = strings.TrimPrefix(name, "/")
	return func(w Workflow) bool {
		return w.Analysis.Program != nil && slices.ContainsFunc(w.Analysis.Program.Triggers, func(t ir.Trigger) bool {
			return slices.ContainsFunc(t.Names, func(n string) bool { return strings.TrimPrefix(n, "/") == name })
		})
	}
}

// looksLikePath reports whether a person means a file, although there is none: then the error is about the file.
func looksLikePath(arg string) bool {
	return strings.ContainsAny(arg, `/\`) || project.CouldBeWorkflow(arg)
}

// choices lists the paths of workflows for an error, one per line.
func choices(workflows []Workflow) string {
	lines := xslices.Map(workflows, func(w Workflow) string { return "  " + diag.Printable(w.Path) })
	return strings.Join(lines, "\n")
}

// Validation holds the diagnostics of several workflows and configurations.
type Validation struct {
	Workflows      []string // their paths
	Configurations int
	Diagnostics    diag.List // not sorted
	Files          source.Set
	Skipped        []project.Skipped
	Commands       []WorkflowCommand

	seen map[string]bool // a file may be reached by several paths
}

// WorkflowCommand is a command of a workflow.
type WorkflowCommand struct {
	Workflow string `json:"workflow"`
	Command
}

// ValidateRequest lists what to check.
type ValidateRequest struct {
	// Paths are files, folders, names of workflows and configurations.
	Paths   []string
	Unsaved map[string]string // as in AnalyzeRequest
	Reading catalog.ReadOptions
}

// Validate checks workflows and configurations. A folder means every workflow in it. With several paths, one that
// cannot be read is in Validation.Skipped.
func (a *App) Validate(ctx context.Context, req ValidateRequest) (*Validation, error) {
	space, err := a.spaceIn(a.o.Dir, req.Unsaved)
	if err != nil {
		return nil, err
	}
	defer space.Close()
	r := &resolver{ctx: ctx, space: space, reading: req.Reading}
	v := &Validation{Files: source.Set{}, seen: map[string]bool{}}
	for _, path := range req.Paths {
		err := v.add(r, path)
		if err != nil && (len(req.Paths) == 1 || errors.Is(err, errNoName) || ctx.Err() != nil) {
			return nil, err
		}
		if err != nil {
			v.skip(path, err)
		}
	}
	return v, nil
}

// add checks what one path names.
func (v *Validation) add(r *resolver, path string) error {
	switch {
	case path == "":
		return errNoName
	case r.space.IsDir(path):
		return v.addFolder(r, path)
	case IsConfig(path):
		return v.addConfig(r, path)
	}
	an, err := r.resolve(path)
	if err != nil {
		return err
	}
	v.include(an)
	return nil
}

// addFolder checks every workflow below a folder, and the configuration in it.
func (v *Validation) addFolder(r *resolver, dir string) error {
	p, err := r.space.At(dir)
	if err != nil {
		return err
	}
	var found Discovery
	anything := false
	err = r.below(&found, p, dir, func(_ *project.Project, an *Analysis) {
		anything = true
		v.include(an)
	})
	if err != nil {
		return err
	}
	v.Skipped = append(v.Skipped, found.Skipped...)
	for _, name := range []string{config.FileName, config.MCPFileName} {
		if own := filepath.Join(dir, name); r.space.Exists(own) {
			anything = true
			if err := v.addConfig(r, own); err != nil {
				return err
			}
		}
	}
	if !anything && len(found.Skipped) == 0 {
		e := fail(NotFound, NoWorkflow, "there are no workflows in %q", dir)
		return e
	}
	return nil
}

// addConfig checks a configuration file.
func (v *Validation) addConfig(r *resolver, path string) error {
	_, f, err := r.space.File(path)
	if err != nil {
		return err
	}
	v.Configurations++
	v.Diagnostics = append(v.Diagnostics, AnalyzeConfig(f).Diagnostics...)
	v.Files.Add(f)
	if filepath.Base(path) == config.FileName {
		return v.checkTriggers(r, f)
	}
	return nil
}

// checkTriggers warns about triggers of a configuration whose workflows do not exist: they never fire.
func (v *Validation) checkTriggers(r *resolver, f *source.File) error {
	c, list := config.Parse(f)
	if list.Errors() || len(c.Triggers) == 0 {
		return nil
	}
	dir := filepath.Dir(f.Abs)
	p, err := r.space.At(dir)
	if err != nil {
		return err
	}
	var names []string
	err = r.below(&Discovery{}, p, dir, func(_ *project.Project, an *Analysis) {
		names = append(names, an.Name())
	})
	if err != nil {
		return err
	}
	for _, t := range c.Triggers {
		if slices.Contains(names, t.Name.Value) {
			continue
		}
		v.Diagnostics.Warnf(config.CodeBadValue, t.Name.Span,
			cmp.Or(diag.DidYouMean(t.Name.Value, names), "Use the name of a workflow of the project."),
			"There is no workflow %q in this project, so nothing is triggered.", t.Name.Value)
	}
	return nil
}

// skip records a path that cannot be read.
func (v *Validation) skip(path string, err error) {
	reason := err.Error() + "."
	if ref, ok := errors.AsType[*source.RefError](err); ok && len(ref.Near) > 0 {
		reason += " Did you mean \"" + ref.Near[0] + "\"?"
	}
	v.Skipped = append(v.Skipped, project.Skipped{Path: path, Reason: reason})
}

// include adds a workflow, once.
func (v *Validation) include(an *Analysis) {
	if v.seen[an.File.Abs] {
		return
	}
	v.seen[an.File.Abs] = true
	v.Workflows = append(v.Workflows, an.File.Path)
	v.Diagnostics = append(v.Diagnostics, an.Diagnostics...)
	for _, f := range an.Files {
		v.Files.Add(f)
	}
	for _, c := range an.Commands() {
		v.Commands = append(v.Commands, WorkflowCommand{an.File.Path, c})
	}
}

// Repository returns the folder that code hosts want paths to start at: the repository of the first workflow, or its
// project if there is none.
func (v *Validation) Repository() string {
	for _, path := range v.Workflows {
		f := v.Files[path]
		if f == nil || f.Abs == "" {
			continue
		}
		for dir := filepath.Dir(f.Abs); ; dir = filepath.Dir(dir) {
			if exists(filepath.Join(dir, ".git")) {
				return dir
			}
			if dir == filepath.Dir(dir) {
				return project.FindRoot(filepath.Dir(f.Abs))
			}
		}
	}
	return ""
}

// FixTopology rewrites the diagram of a workflow from its code and rules. It reports whether anything changed.
func (a *App) FixTopology(an *Analysis) (bool, error) {
	drifter, ok := catalog.Formats().Find(an.Format).(format.Drifter)
	if !ok {
		return false, nil
	}
	space, err := a.space()
	if err != nil {
		return false, err
	}
	defer space.Close()
	p, f, err := space.File(an.File.Path)
	if err != nil {
		return false, err
	}
	text, _ := drifter.FixTopology(f, p)
	if text == f.Text {
		return false, nil
	}
	return true, rewrite(f.Abs, text)
}
