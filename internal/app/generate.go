package app

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/espalier-run/espalier/internal/catalog"
	"github.com/espalier-run/espalier/internal/diag"
	"github.com/espalier-run/espalier/internal/engine"
	"github.com/espalier-run/espalier/internal/journal"
	"github.com/espalier-run/espalier/internal/manifest"
	"github.com/espalier-run/espalier/internal/registry"
	"github.com/espalier-run/espalier/internal/source"
)

//go:embed creator
var creator embed.FS

const (
	creatorName = "workflow-creator"
	repairName  = "workflow-repair"
	// maxRepairs is how often a model may repair what it has generated.
	maxRepairs = 2
)

// GenerateRequest is a workflow that is to be generated.
type GenerateRequest struct {
	Name string
	// Request describes what the workflow does; empty continues the newest generation of that name.
	Request string
	Options RunOptions
	Script  *source.File // as in PrepareRequest
	By      journal.Actor
}

// Generation is a workflow that is being generated. Call Next until it returns no run.
type Generation struct {
	Name string
	Dir  string // where the files are staged

	app     *App
	env     *environment
	by      journal.Actor
	request string
	options RunOptions
	run     string // name of the generation
	inputs  string // name of the creator's input
	entry   *manifest.Manifest
	start   func(context.Context) error // of the first run; nil when it is not needed
	id      journal.RunID               // of the first run
	checks  bool                        // the checks have started
}

// GenerationRun is a run that a generation needs next.
type GenerationRun struct {
	ID    journal.RunID
	Start func(context.Context) error
}

// Generate prepares the generation of a workflow, or the continuation of one. The findings are as in Prepared.
func (a *App) Generate(ctx context.Context, req GenerateRequest) (*Generation, []Finding, error) {
	root, err := a.Root()
	if err != nil {
		return nil, nil, err
	}
	compiled, err := a.generator(ctx, root, creatorName)
	if err != nil {
		return nil, nil, err
	}
	g := &Generation{
		Name: req.Name, app: a, by: req.By, request: req.Request, id: NewRunID(),
		inputs: cmp.Or(OnlyText(compiled.Program), catalog.AgentInput),
	}
	p := &Prepared{Workflow: compiled, Root: root, Options: req.Options}
	if req.Script != nil {
		p.script(ctx, a, req.Script, true) // repairs are runs of another workflow
	}
	if err := p.Err(); err != nil {
		return nil, p.Findings, err
	}
	if err := g.configure(p); err != nil {
		return nil, p.Findings, err
	}
	// A generation that continues checks what it lacks later: resume knows which steps are left.
	again, err := g.find(root)
	if err != nil {
		return nil, p.Findings, err
	}
	g.start = func(ctx context.Context) error {
		return g.env.Engine.Start(ctx, g.id, generatorDefinition(compiled),
			g.input(g.inputs, g.request), g.options.Encode(), g.by)
	}
	if !again {
		if err := g.env.ready(compiled.Program, g.options); err != nil {
			return nil, p.Findings, err
		}
	}
	if err := g.env.open(ctx); err != nil {
		return nil, p.Findings, err
	}
	g.env.listen()
	if !again {
		return g, p.Findings, g.createFolder(root)
	}
	begun, err := g.resume(ctx)
	if err == nil && !begun { // interrupted before it started
		err = g.env.ready(compiled.Program, g.options)
	}
	return g, p.Findings, g.env.runError(g.id, err)
}

// configure reads the configuration of the project.
func (g *Generation) configure(p *Prepared) error {
	space, err := g.app.space()
	if err != nil {
		return err
	}
	defer space.Close()
	if g.env, err = g.app.configured(space, p.Root, consentOf(p.Options), p.warn); err != nil {
		return err
	}
	g.options = p.Options
	g.options.Pin(g.env.settings.Config, g.env.models, nil, g.app.o.Confined)
	registry.ApplyDefaults(p.Workflow.Program, g.env.settings.Config)
	return nil
}

// Next returns the next run that the generation needs, after the previous one has finished; nil when the workflow is
// staged and valid. An *Error of reason GenerationFailed has the diagnostics of one that could not be repaired.
func (g *Generation) Next(ctx context.Context) (*GenerationRun, error) {
	if start := g.start; start != nil && (g.entry.Status == manifest.Generating || g.entry.Status == manifest.Failed) {
		g.start = nil
		return &GenerationRun{
			ID:    g.id,
			Start: func(ctx context.Context) error { return g.env.runError(g.id, start(ctx)) },
		}, nil
	}
	if !g.checks {
		if err := g.beginChecks(ctx); err != nil {
			return nil, err
		}
	}
	// Alternate between checks and repairs until the checks find no error, or no repair is left.
	run, err := g.pendingRepair(ctx)
	if run != nil || err != nil {
		return run, err
	}
	list, files, err := g.check(ctx)
	if err != nil {
		return nil, err
	}
	if !list.Errors() {
		return nil, g.pass()
	}
	now := g.app.o.Now()
	for _, d := range list {
		if d.Severity == diag.Error {
			g.entry.Fail("validation", "", fmt.Sprintf("%s: %s", d.Code, d.Message), now)
		}
	}
	if len(g.entry.Repairs) == maxRepairs || g.options.Simulate {
		g.entry.Phases.Validation.Enter(manifest.StepFailed, now)
		if err := g.entry.Write(g.Dir); err != nil {
			return nil, err
		}
		return nil, &Error{
			Kind: InvalidWorkflow, Reason: GenerationFailed, Message: "what was generated is not a valid workflow",
			Name: g.Name, Names: []string{g.Dir}, Diagnostics: list, Files: files,
		}
	}
	// A repair is in the manifest before it starts, so that it is continued if it is interrupted.
	g.entry.Repairs = append(g.entry.Repairs, uuid.NewString())
	if err := g.entry.Write(g.Dir); err != nil {
		return nil, err
	}
	return g.pendingRepair(ctx)
}

// beginChecks reads what was generated.
func (g *Generation) beginChecks(ctx context.Context) error {
	if err := g.env.Flush(ctx); err != nil {
		return err
	}
	m, err := manifest.Read(g.Dir)
	if err != nil {
		return err
	}
	g.entry, g.checks = m, true
	if m.Phases.Validation.Status == manifest.StepFailed { // it may have been repaired by hand
		m.Repairs = nil
	}
	m.Phases.Validation.Enter(manifest.InProgress, g.app.o.Now())
	return m.Write(g.Dir)
}

// pass records that the workflow is valid.
func (g *Generation) pass() error {
	m, now := g.entry, g.app.o.Now()
	if err := m.Register(g.Dir, nil); err != nil {
		return err
	}
	m.Phases.Validation.Enter(manifest.Completed, now)
	m.Status, m.UpdatedAt = manifest.Validated, manifest.Time(now)
	return m.Write(g.Dir)
}

// resume continues a generation with its first run, or with a new run from the step at which that run failed. It
// reports whether the first run has ever started.
func (g *Generation) resume(ctx context.Context) (begun bool, err error) {
	env := g.env
	if err := env.Flush(ctx); err != nil { // a process may have stopped before it wrote the manifest
		return false, err
	}
	if g.entry, err = manifest.Read(g.Dir); err != nil {
		return false, err
	}
	// Three cases: the first run was never started, it failed at a step, or it was interrupted.
	old := journal.RunID(g.entry.Run)
	if err := env.checkStartedHere(ctx, old); err != nil {
		return false, err
	}
	state, _, def, err := env.Engine.Load(ctx, old)
	if errors.Is(err, journal.ErrUnknownRun) {
		g.id = old
		return false, nil
	}
	if err == nil {
		err = env.readyAgain(old, state, def, "")
	}
	if err == nil && !g.options.Simulate && g.options.ScriptName == "" && g.options.Model == "" { // for repairs
		err = json.Unmarshal(state.Options, &g.options)
	}
	if err != nil {
		return true, err
	}
	failed := slices.IndexFunc(g.entry.Steps, func(s manifest.Step) bool { return s.Status == manifest.StepFailed })
	if g.entry.Status == manifest.Failed && failed >= 0 {
		step := g.entry.Steps[failed].ID
		g.start = func(ctx context.Context) error { return env.Engine.StartFrom(ctx, g.id, old, step, g.by) }
		return true, nil
	}
	g.id = old
	g.start = func(ctx context.Context) error { return env.Engine.Resume(ctx, old) }
	return true, nil
}

// find looks for a generation to continue, if the request does not describe a workflow.
func (g *Generation) find(root string) (bool, error) {
	if g.request != "" {
		return false, nil
	}
	runs, err := os.ReadDir(filepath.Join(root, "artifacts", g.Name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	usable := []string{manifest.Generating, manifest.Generated, manifest.Validated, manifest.Failed}
	for _, one := range slices.Backward(runs) {
		m, err := manifest.Read(manifest.Staged(root, g.Name, one.Name()))
		if err != nil || m.Run == "" || !slices.Contains(usable, m.Status) {
			continue
		}
		g.entry, g.run, g.request = m, m.RunID, m.Request
		g.Dir = manifest.Staged(root, g.Name, one.Name())
		return true, nil
	}
	e := fail(InvalidRequest, NoGeneration, "there is no generation of %q to continue, and no description", g.Name)
	e.Name = g.Name
	return false, e
}

// createFolder creates the folder in which the workflow is staged.
func (g *Generation) createFolder(root string) error {
	now := g.app.o.Now()
	stamp, ok := registry.Stamp(root, "artifacts/"+g.Name, now)
	if !ok {
		return fail(Internal, "", "artifacts/%s cannot be written to", g.Name)
	}
	g.run, g.Dir = stamp, manifest.Staged(root, g.Name, stamp)
	g.entry = manifest.New(g.Name, stamp, creatorName, g.request, now)
	g.entry.Run = string(g.id)
	if err := manifest.IgnoreRuns(root); err != nil {
		return err
	}
	return g.entry.Write(g.Dir)
}

// input returns the input of a generator, under the name that its trigger declares.
func (g *Generation) input(name, text string) json.RawMessage {
	raw, err := json.Marshal(map[string]string{
		catalog.AgentInput: text, name: text, "workflow_name": g.Name, "run_id": g.run,
	})
	if err != nil {
		panic(err) // strings always encode
	}
	return raw
}

// generatorDefinition returns the definition that a run of a generator pins.
func generatorDefinition(an *Analysis) *engine.Definition {
	return &engine.Definition{Program: an.Program, Path: an.File.Path, Sources: an.Program.Files}
}

// generator compiles a workflow that generates workflows: the project's own, or ours.
func (a *App) generator(ctx context.Context, root, name string) (*Analysis, error) {
	if own := filepath.Join(root, "workflows", name, "workflow.yaml"); exists(own) {
		an, err := a.Analyze(ctx, AnalyzeRequest{Workflow: a.Display(own)})
		if err != nil {
			return nil, err
		}
		return an, an.Err()
	}
	ours := map[string]string{}
	err := fs.WalkDir(creator, "creator/workflows/"+name, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := creator.ReadFile(file)
		ours[strings.TrimPrefix(file, "creator/")] = string(text)
		return err
	})
	if err != nil {
		return nil, err
	}
	an, err := a.analyzeUnsaved(ctx, root, name, ours)
	if err == nil && an.Diagnostics.Errors() {
		err = fmt.Errorf("%s: %s", name, an.Diagnostics[0].Message) // a programming error
	}
	return an, err
}

// analyzeUnsaved compiles and checks a workflow whose files are not in its folder. Their paths start at the root of the
// project.
func (a *App) analyzeUnsaved(
	ctx context.Context, root, workflow string, files map[string]string,
) (*Analysis, error) {
	space, err := a.spaceIn(root, files)
	if err != nil {
		return nil, err
	}
	defer space.Close()
	r := &resolver{ctx: ctx, space: space}
	return r.read(path.Join("workflows", workflow, "workflow.yaml"))
}

// files returns the texts of the staged files that belong to the workflow, by name.
func (g *Generation) files() (map[string]string, error) {
	names, err := manifest.Files(g.Dir)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, name := range names {
		if manifest.Canonical(name) == "" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(g.Dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		texts[name] = string(raw)
	}
	return texts, nil
}

// check returns everything that is wrong with what was generated, as it will be in its folder.
func (g *Generation) check(ctx context.Context) (diag.List, source.Set, error) {
	if _, err := os.Stat(filepath.Join(g.Dir, manifest.Source("workflow.yaml"))); err != nil {
		return nil, nil, err // and the one of an earlier promotion does not count
	}
	staged, err := g.files()
	if err != nil {
		return nil, nil, err
	}
	unsaved := map[string]string{}
	for name, text := range staged {
		unsaved[path.Join("workflows", g.Name, manifest.Canonical(name))] = text
	}
	an, err := g.app.analyzeUnsaved(ctx, g.env.root, g.Name, unsaved)
	if err != nil {
		return nil, nil, err
	}
	return an.Diagnostics, an.Files, nil
}

// pendingRepair returns the last repair if it has not finished; nil if it has, or if there is none.
func (g *Generation) pendingRepair(ctx context.Context) (*GenerationRun, error) {
	if len(g.entry.Repairs) == 0 {
		return nil, nil
	}
	env, id := g.env, journal.RunID(g.entry.Repairs[len(g.entry.Repairs)-1])
	entry, err := env.Store.Entry(ctx, id)
	switch {
	case errors.Is(err, journal.ErrUnknownRun):
		return g.repair(ctx, id)
	case err != nil:
		return nil, err
	case entry.Status == journal.Finished:
		return nil, nil
	}
	return &GenerationRun{ID: id, Start: func(ctx context.Context) error {
		return env.runError(id, env.Engine.Resume(ctx, id))
	}}, nil
}

// repair asks a model to repair what the check has found, with the files.
func (g *Generation) repair(ctx context.Context, id journal.RunID) (*GenerationRun, error) {
	compiled, err := g.app.generator(ctx, g.env.root, repairName)
	if err != nil {
		return nil, err
	}
	list, _, err := g.check(ctx)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("The check has found:\n")
	for _, d := range list {
		fmt.Fprintf(&b, "- %s: %s %s\n", d.Span.File, d.Message, d.Help)
	}
	staged, err := g.files()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(staged)) {
		fmt.Fprintf(&b, "\n=== %s ===\n\n%s", name, staged[name])
	}
	return &GenerationRun{ID: id, Start: func(ctx context.Context) error {
		def := generatorDefinition(compiled)
		err := g.env.Engine.Start(ctx, id, def, g.input(catalog.AgentInput, b.String()), g.options.Encode(), g.by)
		return g.env.runError(id, err)
	}}, nil
}

// Promote puts a generated workflow in its place. An empty run is the newest generation.
func (a *App) Promote(name, run string, force bool) (*manifest.Manifest, error) {
	root, err := a.Root()
	if err != nil {
		return nil, err
	}
	if run, err = stagedRun(root, name, run); err != nil {
		return nil, err
	}
	m, err := manifest.Promote(root, name, run, force, a.o.Now())
	var not *manifest.NotReady
	e := fail(NotReady, "", "the generation %s of %q cannot be promoted: %v", run, name, err)
	switch e.Name = name; {
	case errors.As(err, &not), errors.Is(err, manifest.ErrChanged):
		e.Reason = NotPromotable
	case errors.Is(err, manifest.ErrIncomplete):
		e.Reason = Incomplete
	case errors.Is(err, manifest.ErrEdited):
		e.Reason, e.Message = WasEdited, fmt.Sprintf("the generation %s of %q is not promoted: %v", run, name, err)
	default:
		return m, err
	}
	return nil, e
}

// stagedRun returns the newest generation whose name starts with a prefix.
func stagedRun(root, name, prefix string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(root, "artifacts", name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range slices.Backward(entries) {
		// A folder without a manifest is what an interruption left behind.
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) &&
			exists(filepath.Join(manifest.Staged(root, name, e.Name()), manifest.FileName)) {
			return e.Name(), nil
		}
	}
	e := fail(NotFound, NoGeneration, "no generation of %q is staged", strings.TrimSpace(name+" "+prefix))
	e.Name = name
	return "", e
}

// Journal returns the journal of the project that keeps the runs of the generation.
func (g *Generation) Journal() *Journal { return &Journal{g.app, g.env} }
